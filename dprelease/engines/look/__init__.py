"""Counting what is odd in a table, for somebody who may see the data; no release asks for it."""
