"""Reading and writing the tables of a ledger inside one transaction, whatever store they are in."""
