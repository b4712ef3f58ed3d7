"""Tables as files: one module for each format."""
