"""The files that a release reads: what they are, who may know them, and whether they are still the same."""
