"""The values that a ledger is made of, and the pure rules about them: entries, balances, admission, life cycles."""
