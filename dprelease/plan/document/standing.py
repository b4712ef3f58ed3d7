"""What has been spent, as a value: the ledger's answer that a plan is held against, and never made from."""

from __future__ import annotations

from dprelease.canonical import Value
from dprelease.privacy.event import Event

__all__ = ["AccountStanding", "Head", "Standing"]


class Head(Value):
    """The last ledger entry of an account: sequence number (0: none yet) and hash."""

    sequence: int = 0
    hash: str = ""


class AccountStanding(Value):
    """One account as the ledger has it: its head, and every event ever charged to it."""

    head: Head = Head()
    charged: tuple[Event, ...] = ()


class Standing(Value):
    """What has been spent, as a value; an account that the ledger does not know has the empty standing."""

    accounts: dict[str, AccountStanding] = {}

    def of(self, account: str) -> AccountStanding:
        """The standing of one account."""
        return self.accounts.get(account, AccountStanding())
