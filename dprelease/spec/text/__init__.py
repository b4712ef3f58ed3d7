"""YAML text, scalars and names, and the problems found in them, each with its line and column."""
