"""Columns of answers that were randomized before they were collected: what they say, and who may read them."""
