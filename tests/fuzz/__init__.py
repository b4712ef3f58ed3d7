"""Specs that are nearly right: made by the grammar of the JSON Schema and by changing the examples, and carried out."""
