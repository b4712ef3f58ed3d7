"""The plan derived a second time, by code that shares nothing with the planner."""
