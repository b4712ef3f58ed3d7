"""Reconciled tables of a workload: least squares, non-negative and whole numbers."""
