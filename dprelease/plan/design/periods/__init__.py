"""Noise that the periods of a series share: which band of them is drawn, and how near the least error that is."""
