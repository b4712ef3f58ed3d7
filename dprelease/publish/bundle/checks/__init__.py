"""Whether a bundle is what it says, from its own files."""
