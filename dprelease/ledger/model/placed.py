"""The entries that say where a ledger is, and what was added where it had lost something. Pure."""

from __future__ import annotations

from typing import ClassVar, Literal

from dprelease.canonical import Value
from dprelease.ledger.model.balance import Actor, Balance, Marks
from dprelease.plan.document import Head
from dprelease.privacy.filters import Spent

__all__ = ["Anchored", "Recovered"]


class Anchored(Value):
    """Where the ledger is and where its head is written a second time: said first, and again when that changes.

    The balances of all accounts stand here once more where the ledger came from an older schema. ``server`` is what the
    server's data are called until they are restored or fail over, and ``unasked`` are the hosts that must still be
    asked since; both are empty where the ledger is a file, and in older entries.
    """

    kind: ClassVar[Literal["anchor"]] = "anchor"
    ledger: str
    place: str
    anchors: tuple[str, ...]
    server: str = ""
    unasked: tuple[str, ...] = ()
    why: str
    at: str
    by: Actor
    marks: Marks | None = None
    balances: tuple[Balance, ...] = ()


class Recovered(Value):
    """The ledger had lost entries, or was moved; spend was only added.

    Attributes:
        ledger: Its id, from now on.
        place: Where it is, from now on.
        anchors: Where its head is written, from now on.
        server: What the server's data are called, and ``unasked``: the hosts that must still be asked; see `Anchored`.
        why: What the operator said.
        known: The head that the anchors had, which this ledger lacked; the empty head where it lacked nothing.
        added: What each account was charged for what is missing.
        release: With ``period`` and ``plan``: a release that the anchors know and this ledger had lost; its answers may
            be known, so that it is never measured again.
        bundle: The entry that charged it, as its published bundle says, where that is what knows of it. Without a
            release: another answer to a question that this ledger has answered as well, which is charged by itself.
        manifest: Digest of the manifest of its published bundle, where one was found.
    """

    kind: ClassVar[Literal["recover"]] = "recover"
    ledger: str
    place: str
    anchors: tuple[str, ...]
    server: str = ""
    unasked: tuple[str, ...] = ()
    why: str
    known: Head = Head()
    added: dict[str, Spent] = {}
    release: str = ""
    period: str = ""
    plan: str = ""
    bundle: Head = Head()
    manifest: str = ""
    at: str
    by: Actor
    marks: Marks | None = None
    balances: tuple[Balance, ...] = ()
