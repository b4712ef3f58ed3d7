"""A release as a folder: its files, its manifest, and whether they are what they say."""
