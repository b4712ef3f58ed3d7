"""Anchors: files elsewhere that the head of a ledger is written to, so that a lost end is noticed."""
