r"""Is everything in place? What an operator asks of an installation, a machine and a project, beside any release.

Nothing here reads a row, and nothing is changed but that a file is made and removed again where one must be possible.

    >>> from dprelease.release.health.condition import Condition
    >>> Condition("clock", "wrong", "the clock is behind the ledger", "set it").line
    'wrong  clock: the clock is behind the ledger\n         set it'
"""
