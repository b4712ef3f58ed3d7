"""The commands: each reads its arguments, calls a function of a lower floor, and hands the result to a view."""
