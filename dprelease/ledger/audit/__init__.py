"""The full check of a ledger, which works everything out again."""
