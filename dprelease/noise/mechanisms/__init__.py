"""The mechanisms: one file for each way of hiding a number or choosing a key."""
