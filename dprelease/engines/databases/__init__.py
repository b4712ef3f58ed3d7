"""How are the rows of a database read? Once, as stored, from one read-only state that is also fingerprinted."""
