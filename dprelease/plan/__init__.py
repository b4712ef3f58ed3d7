"""What will happen? A plan is a value: every step, what it costs, how accurate it will be.

Floor 5: pure. Spec, declared public metadata and the ledger's standing in; plan out. No data, no clock.
"""
