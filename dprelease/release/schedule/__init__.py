"""Which periods of a schedule are due, and running them."""
