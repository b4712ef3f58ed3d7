"""The command `dprelease new`: questions about a file of rows, of which only the names of its columns are read."""
