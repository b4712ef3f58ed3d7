"""From queries to the steps that answer them, before any noise is chosen."""
