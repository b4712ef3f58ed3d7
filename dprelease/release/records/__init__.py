"""Views of a ledger for people, and mending it: status, errata, export, recovery."""
