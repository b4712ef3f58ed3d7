"""The stores that a ledger can be kept in: a SQLite file, or a PostgreSQL database."""
