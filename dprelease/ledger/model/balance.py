"""What stands charged to an account, as values: who asked, what it cost, and the balance behind an entry. Pure."""

from __future__ import annotations

from dprelease.canonical import Value
from dprelease.plan.document import Account
from dprelease.plan.document.account import AccountLosses
from dprelease.privacy.event import Composed
from dprelease.privacy.filters import Spent, Terms

__all__ = ["Actor", "Balance", "Charged", "Marks", "terms_of"]


class Actor(Value):
    """Who asked: user, host, process id, version of dprelease, and what was being run. All public."""

    user: str
    host: str
    process: int
    version: str
    command: str = ""


class Charged(Value):
    """What one release costs one account.

    Attributes:
        facts: Before and after, at the lower one of the account's and the spec's cap.
        events: The draws, in entries of schema 1 and 2.
        digest: Where the draws are kept, by their SHA-256; empty in those older entries.
        spent: What is added to the balance.
        windows: Before and after in each window that the release's period touches; of a parallel account in each of
            its stretches, and ``facts`` are then what counts of them (``privacy.periods``).
    """

    facts: AccountLosses
    events: Composed | None = None
    digest: str = ""
    spent: Spent | None = None
    windows: tuple[AccountLosses, ...] = ()

    @property
    def further(self) -> tuple[AccountLosses, ...]:
        """The facts of windows that ``facts`` do not say already, as they do where a parallel account pays for one."""
        return tuple(each for each in self.windows if each != self.facts)


class Balance(Value):
    """One account right behind an entry.

    Attributes:
        account: Its name.
        opened: The entry that has its terms.
        spent: All that stands charged.
        windows: The same by window, or by stretch of a parallel account.
        releases: How many reservations stand.
        series: For a ``pld`` account: how many of each kind of release, by the digest of its draws, were taken.
    """

    account: str
    opened: int
    spent: Spent = Spent()
    windows: dict[str, Spent] = {}
    releases: int = 0
    series: dict[str, int] = {}


class SpreadCharge(Value):
    """What stands charged under an entry, and is charged to every window of its account (``tables.windowed``)."""

    reservation: int
    spent: Spent


class Marks(Value):
    """Where to find, behind an entry, what stands: sequence numbers of entries.

    Attributes:
        place: The last one that says where the ledger is and which anchors it has.
        heads: By account, the last one that changed it; this entry itself where it did.
    """

    place: int = 0
    heads: dict[str, int] = {}


def terms_of(account: Account) -> Terms:
    """How an account adds up."""
    return account.once(_terms)  # asked for at every charge, of the same few accounts


def _terms(account: Account) -> Terms:
    return Terms(composition=account.composition, order=account.order, selecting=account.selecting)
