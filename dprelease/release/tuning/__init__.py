"""Comparing what a plan would publish with the truth of stand-in data."""
