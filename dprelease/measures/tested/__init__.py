"""Intervals by exact tests of the noise: every number that the published draws do not refuse."""
