"""Pages that people read, and their charts."""
