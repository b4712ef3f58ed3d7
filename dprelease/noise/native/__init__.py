"""Exact integer noise at the speed of memory, from operating-system entropy."""
