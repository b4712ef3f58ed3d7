"""One entry of the ledger, as a value: what happened, and the hash that chains it to everything before it.

Pure: a store keeps entries, this file says what they are. Bodies are canonical JSON; compatibility as for every
format here: a kind is never removed, a new field is optional, a meaning never changes.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, ClassVar, Literal, get_args

from pydantic import ValidationError

from dprelease.canonical import Value, fingerprint
from dprelease.errors import Corrupt
from dprelease.plan.document import Account, Composition, Head
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Composed
from dprelease.privacy.unit import Neighboring

__all__ = [
    "BODIES",
    "KINDS",
    "RESTORE",
    "AccountFacts",
    "Actor",
    "Body",
    "Charged",
    "Closed",
    "Entry",
    "Kind",
    "Measured",
    "Opened",
    "Refused",
    "Reserved",
    "Voided",
]

Kind = Literal["open", "reserve", "measure", "close", "void", "refuse"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Actor(Value):
    """Who asked: user, host, process id, version of dprelease, and what was being run. All public."""

    user: str
    host: str
    process: int
    version: str
    command: str = ""


class AccountFacts(Value):
    """What an account had lost before a release and has lost with it, both read at the delta of ``cap``."""

    name: str
    composition: Composition
    cap: Budget
    before: Loss
    after: Loss


class Charged(Value):
    """What one release costs one account."""

    events: Composed
    facts: AccountFacts


class Opened(Value):
    """An account came into use, or its cap changed (``replaces``: the entry that this one replaces)."""

    kind: ClassVar[Kind] = "open"
    account: str
    unit: str
    neighboring: Neighboring
    composition: Composition
    cap: Budget
    selecting: Fraction = Fraction(0)
    replaces: int | None = None
    at: str
    by: Actor

    @property
    def terms(self) -> Account:
        """The account as the policy had it."""
        return Account(
            name=self.account,
            unit=self.unit,
            neighboring=self.neighboring,
            composition=self.composition,
            lifetime=self.cap,
            selecting=self.selecting,
        )


class Reserved(Value):
    """A whole plan was charged.

    ``plan`` is its canonical JSON, ``environment`` the versions that ran, ``at`` the time in UTC, never used
    for order.
    """

    kind: ClassVar[Kind] = "reserve"
    release: str
    period: str
    plan: str
    plan_fingerprint: str
    spec_fingerprint: str
    charges: tuple[Charged, ...]
    environment: dict[str, str] = {}
    at: str
    by: Actor


class Measured(Value):
    """One step was drawn and stored; ``digest`` is the SHA-256 of the stored bytes."""

    kind: ClassVar[Kind] = "measure"
    release: str
    period: str
    plan: str
    step: str
    cells: int
    digest: str
    at: str


class Closed(Value):
    """The release of entry ``reservation`` was published; ``manifest`` is the digest of its manifest."""

    kind: ClassVar[Kind] = "close"
    release: str
    period: str
    plan: str
    reservation: int
    manifest: str
    at: str


class Voided(Value):
    """Entry ``reservation`` was given back: no noise had been stored for it."""

    kind: ClassVar[Kind] = "void"
    release: str
    period: str
    plan: str
    reservation: int
    why: str
    at: str
    by: Actor


class Refused(Value):
    """A cap said no. ``exceeded`` tells by account what would have been; nothing was charged."""

    kind: ClassVar[Kind] = "refuse"
    release: str
    period: str
    plan: str
    exceeded: tuple[AccountFacts, ...]
    at: str
    by: Actor


Body = Opened | Reserved | Measured | Closed | Voided | Refused
RESTORE = "restore the ledger from its backup; what was charged since then must be charged again"
BODIES: dict[Kind, type[Body]] = {body.kind: body for body in (Opened, Reserved, Measured, Closed, Voided, Refused)}


class Entry(Value):
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
    def after(cls, head: Head, body: Body) -> Entry:
        """The entry that records ``body`` behind ``head`` (the empty head: the first entry)."""
        sequence, text = head.sequence + 1, body.canonical()
        digest = fingerprint([sequence, head.hash, body.kind, text])
        return cls(sequence=sequence, previous=head.hash, hash=digest, kind=body.kind, text=text)

    @property
    def head(self) -> Head:
        """The head of a ledger that ends here."""
        return Head(sequence=self.sequence, hash=self.hash)

    @property
    def is_whole(self) -> bool:
        """Whether its hash is the hash of its content."""
        return self.hash == fingerprint([self.sequence, self.previous, self.kind, self.text])

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
