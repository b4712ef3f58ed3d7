"""The command `dprelease ledger`: what it shows, and what people do to a ledger by hand."""
