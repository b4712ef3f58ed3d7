"""One entry of the ledger, as a value: what happened, and the hash that chains it to everything before it.

Pure: a store keeps entries, this file says what they are. Bodies are canonical JSON; compatibility as for every
format here: a kind is never removed, a new field is optional, a meaning never changes.

An entry that changes an account (``open reserve void anchor recover incident``) carries the balance behind it and
``marks``: where the last such entry of every account is. Every other entry says in ``books`` where the last one of
these is. So what stands is found from the head by a few steps along hashes, however long the ledger is, and no index
beside the entries is believed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from json.encoder import encode_basestring
from typing import Any, ClassVar, Literal, get_args

from pydantic import ValidationError

from dprelease.canonical import GrownValue, Value, sha256
from dprelease.errors import Corrupt
from dprelease.ledger.model.balance import Actor, Balance, Charged, Marks, SpreadCharge
from dprelease.plan.document import Account, Composition, Head, Parallel, Window
from dprelease.plan.document.account import AccountLosses
from dprelease.plan.document.approval import Signed
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.filters import Spent
from dprelease.privacy.unit import Neighboring

__all__ = [
    "BODIES",
    "KINDS",
    "RESTORE",
    "AccountChange",
    "AccountOpened",
    "Anchored",
    "Body",
    "Closed",
    "Corrected",
    "Incident",
    "Kind",
    "LedgerEntry",
    "Placed",
    "Recovered",
    "Refused",
    "ReleaseEvent",
    "Reserved",
    "SeriesSlot",
    "Sourced",
    "StepMeasured",
    "Voided",
]

Kind = Literal["open", "reserve", "measure", "close", "void", "refuse", "anchor", "recover", "source", "incident"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class SeriesSlot(Value):
    """A kind of release in the series of a ``pld`` account: the digest of its draws, and how many of them there are."""

    digest: str
    times: int


class AccountChange(Value):
    """An entry that changes an account, or says where the ledger is; by ``marks`` what stands behind it is found."""

    kind: ClassVar[Kind]
    at: str
    by: Actor
    marks: Marks | None = None
    balances: tuple[Balance, ...] = ()


class ReleaseEvent(Value):
    """An entry about a release that changes no account; ``books`` is the last entry that did."""

    kind: ClassVar[Kind]
    release: str
    period: str
    plan: str
    books: int = 0
    at: str


# Fields that an entry calls as an account does.
_OF_ACCOUNT = ("unit", "neighboring", "composition", "selecting", "order", "window", "nests", "parallel")


class AccountOpened(AccountChange):
    """An account came into use, or its caps changed (``replaces``: the entry that this one replaces).

    ``series`` and ``loss`` are of a ``pld`` account: all releases that it will ever have, and what they cost together.
    ``spread`` is of one whose windows got the time of their rows now: what was read by another time before.
    """

    kind: ClassVar[Kind] = "open"
    account: str
    unit: str
    neighboring: Neighboring
    composition: Composition
    cap: Budget
    selecting: Fraction = Fraction(0)
    order: Fraction | None = None
    window: Window | None = None
    nests: dict[str, int] = {}
    parallel: Parallel | None = None
    series: tuple[SeriesSlot, ...] = ()
    loss: Loss | None = None
    spread: tuple[SpreadCharge, ...] = ()
    why: str = ""
    replaces: int | None = None

    @property
    def terms(self) -> Account:
        """The account as the policy had it."""
        same: dict[str, Any] = {name: getattr(self, name) for name in _OF_ACCOUNT}
        return Account(name=self.account, lifetime=self.cap, **same)

    @staticmethod
    def fields_of(account: Account) -> dict[str, Any]:
        """The fields that say an account's terms."""
        return {"account": account.name, "cap": account.lifetime} | {n: getattr(account, n) for n in _OF_ACCOUNT}


class Reserved(AccountChange):
    """A whole plan was charged.

    Attributes:
        plan: Its canonical JSON, in entries of schema 1 and 2; later ones keep it under its fingerprint.
        environment: The versions that ran.
        at: The time in UTC, never used for order.
        restates: The reservation whose release this one replaces; ``reason``: why.
        revision: Which planned revision it is, paid with the first publication; 0: none.
        approvals: The signatures that it was run with.
        mended: Names of ``fault.ERRATA`` that the version knew which charged it; entries from before have none.
    """

    kind: ClassVar[Kind] = "reserve"
    release: str
    period: str
    plan: str = ""
    plan_fingerprint: str
    spec_fingerprint: str
    charges: tuple[Charged, ...]
    environment: dict[str, str] = {}
    restates: int | None = None
    reason: str = ""
    revision: int = 0
    approvals: tuple[Signed, ...] = ()
    mended: tuple[str, ...] = ()


class Sourced(ReleaseEvent, GrownValue):
    """The confidential files of a reservation were read for the first time, or (``accepted``: why) anew.

    ``tables`` holds keyed hashes, which say nothing without the key; ``key`` names that key. Without a reservation (0)
    they were looked at, to tune the plan of that release: it costs nothing, and no account has paid for it. ``rows``
    holds, for a release with series, a keyed hash of the rows of its own period, by table.
    """

    LATER: ClassVar[tuple[str, ...]] = ("rows",)
    kind: ClassVar[Kind] = "source"
    reservation: int
    tables: dict[str, tuple[str, ...]]
    accounts: dict[str, str]
    key: str
    accepted: str = ""
    by: Actor
    rows: dict[str, str] = {}


class StepMeasured(ReleaseEvent):
    """One step was drawn and stored; ``digest`` is the SHA-256 of the stored bytes."""

    kind: ClassVar[Kind] = "measure"
    step: str
    cells: int
    digest: str


class Closed(ReleaseEvent):
    """The release of entry ``reservation`` was published (``manifest``: its digest), or given up (``gave_up``: why)."""

    kind: ClassVar[Kind] = "close"
    reservation: int
    manifest: str
    gave_up: str = ""


class Voided(AccountChange):
    """Entry ``reservation`` was given back: nothing had been read for it."""

    kind: ClassVar[Kind] = "void"
    release: str
    period: str
    plan: str
    reservation: int
    why: str


class Refused(ReleaseEvent):
    """A cap said no. ``exceeded`` tells by account what would have been; nothing was charged."""

    kind: ClassVar[Kind] = "refuse"
    exceeded: tuple[AccountLosses, ...]
    by: Actor


class Corrected(Value):
    """What a release of the past really cost an account: its draws (by digest), and what that adds to the balance.

    ``paid_by`` is of a planned revision: the reservation of the first publication, which was charged for it.
    """

    reservation: int
    account: str
    digest: str
    spent: Spent
    paid_by: int | None = None


class Incident(AccountChange):
    """A mechanism or a version was faulty; what past releases really cost was charged.

    Attributes:
        why: What was wrong.
        mechanism: Which mechanism; empty: all.
        package: Which package and ``version`` of the recorded environment; empty: any.
        factor: By how much the noise was too small: sensitivities are multiplied by it.
        erratum: A name of ``fault.ERRATA``; the factor is then 1. Empty: a fault of the noise.
        corrected: What changed.
    """

    kind: ClassVar[Kind] = "incident"
    why: str
    mechanism: str = ""
    package: str = ""
    version: str = ""
    factor: Fraction
    erratum: str = ""
    corrected: tuple[Corrected, ...]


class Placed(AccountChange):
    """Where the ledger is, and where its head is written a second time.

    Attributes:
        ledger: Its id, from now on.
        place: Where it is, from now on.
        anchors: Where its head is written, from now on.
        server: What the server's data are called until they are restored or fail over; empty where the ledger is a
            file, and in older entries.
        unasked: The hosts that must still be asked since that happened; empty where ``server`` is.
        why: Why this is said: what the operator said, for a recovery.
    """

    ledger: str
    place: str
    anchors: tuple[str, ...]
    server: str = ""
    unasked: tuple[str, ...] = ()
    why: str


class Anchored(Placed):
    """Said first, and again when that changes; with all balances where the ledger came from an older schema."""

    kind: ClassVar[Kind] = "anchor"


class Recovered(Placed):
    """The ledger had lost entries, or was moved; spend was only added.

    Attributes:
        known: The head that the anchors had, which this ledger lacked; the empty head where it lacked nothing.
        added: What each account was charged for what is missing.
        release: With ``period`` and ``plan``: a release that the anchors know and this ledger had lost; its answers may
            be known, so that it is never measured again.
        bundle: The entry that charged it, as its published bundle says, where that is what knows of it. Without a
            release: another answer to a question that this ledger has answered as well, which is charged by itself.
        manifest: Digest of the manifest of its published bundle, where one was found.
    """

    kind: ClassVar[Kind] = "recover"
    known: Head = Head()
    added: dict[str, Spent] = {}
    release: str = ""
    period: str = ""
    plan: str = ""
    bundle: Head = Head()
    manifest: str = ""


Body = AccountChange | ReleaseEvent
RESTORE = "restore the newest backup, then `dprelease ledger recover`, which adds what is missing and forgets nothing"
BODIES: dict[Kind, type[Body]] = {
    body.kind: body
    for body in (AccountOpened, Reserved, StepMeasured, Closed, Voided, Refused, Anchored, Recovered, Sourced, Incident)
}


def _digest(sequence: int, previous: str, kind: str, text: str) -> str:
    """The fingerprint of these four; their canonical JSON is written by hand, for a full check makes very many."""
    quoted = ",".join(map(encode_basestring, (previous, kind, text)))
    return sha256(f"[{sequence},{quoted}]".encode())


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One line of the ledger; the hash covers everything else in it.

    Attributes:
        sequence: 1 for the first entry, then one more each time.
        previous: Hash of the entry before; empty for the first.
        hash: SHA-256 over the canonical JSON of (sequence, previous, kind, text).
        kind: What happened.
        text: The body of that kind, as canonical JSON.
    """

    sequence: int
    previous: str
    hash: str
    kind: Kind
    text: str

    @classmethod
    def after(cls, head: Head, body: Body) -> LedgerEntry:
        """The entry that records ``body`` behind ``head`` (the empty head: the first entry)."""
        sequence, text = head.sequence + 1, body.canonical()
        digest = _digest(sequence, head.hash, body.kind, text)
        return cls(sequence=sequence, previous=head.hash, hash=digest, kind=body.kind, text=text)

    @property
    def head(self) -> Head:
        """The head of a ledger that ends here."""
        return Head(sequence=self.sequence, hash=self.hash)

    @property
    def is_whole(self) -> bool:
        """Whether its hash is the hash of its content."""
        return self.hash == _digest(self.sequence, self.previous, self.kind, self.text)

    def follows(self, head: Head) -> bool:
        """Whether this is the entry right behind ``head``."""
        return (self.sequence, self.previous) == (head.sequence + 1, head.hash)

    @property
    def body(self) -> dict[str, Any]:
        """The body as plain JSON, for people to read."""
        plain: dict[str, Any] = json.loads(self.text)
        return plain

    def facts(self) -> Body:
        """The body as a value, after its hash was checked.

        Raises:
            Corrupt: If the hash is not that of the content, or the text is not a body of this kind.
        """
        if not self.is_whole:
            raise Corrupt(f"entry {self.sequence} of the ledger was altered", hint=RESTORE, code="DPR-L302")
        return self.unchecked_facts()

    def unchecked_facts(self) -> Body:
        """The body as a value, whatever the hash says: for the check that names every altered entry.

        Raises:
            Corrupt: If the text is not a body of this kind.
        """
        try:
            return BODIES[self.kind].from_canonical(self.text)
        except (ValidationError, KeyError) as error:
            raise Corrupt(
                f"entry {self.sequence} of the ledger is not a readable `{self.kind}` entry",
                hint="read it with the version of dprelease that wrote it",
                code="DPR-L303",
            ) from error
