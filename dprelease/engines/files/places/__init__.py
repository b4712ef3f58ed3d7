"""Where files of data lie, and what their places say: folders that are named by a value, object stores, lakes."""
