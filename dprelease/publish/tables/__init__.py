"""From measurements to published tables."""
