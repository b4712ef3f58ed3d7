"""A plan as facts and differences that people and machines read."""
