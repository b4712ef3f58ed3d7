"""What was charged, and what was answered? The memory of a project, in which nothing is ever changed.

Floor 6. A ledger charges a whole plan before anything is read, keeps the one measurement of each step for
ever, and chains every entry to the one before it. ``LEDGERS`` is closed: to add a store, write its file and put
it in the table; the conformance tests then run on it.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     ledger = open_ledger("sqlite:///state/ledger.db", Path(folder))
...     ledger.heads(["people"]), ledger.find("census", "2024"), ledger.check()
({}, None, ())
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from dprelease.catalog.urls import Scheme
from dprelease.errors import LedgerError
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.model.admission import NO_SERIES
from dprelease.ledger.model.balance import Actor
from dprelease.ledger.model.entry import LedgerEntry
from dprelease.ledger.model.lifecycle import has_ended
from dprelease.ledger.model.reservation import Charge, Reservation, SourcesRead, StepKey
from dprelease.ledger.model.store import Holder, Lock, Store
from dprelease.ledger.stores import postgres_url
from dprelease.ledger.stores.file_lock import ReleaseLock
from dprelease.ledger.stores.sqlite import SQLiteStore
from dprelease.ledger.tables.published import Evidence, PublishedBundle
from dprelease.plan.document.account import AccountLosses

__all__ = [
    "LEDGERS",
    "NO_SERIES",
    "AccountLosses",
    "Actor",
    "Charge",
    "Evidence",
    "Holder",
    "Ledger",
    "LedgerEntry",
    "LedgerKind",
    "Lock",
    "PublishedBundle",
    "ReleaseLock",
    "Reservation",
    "SourcesRead",
    "StepKey",
    "has_ended",
    "open_ledger",
    "schemes",
]


def _postgres(url: str, folder: Path) -> Store:
    from dprelease.ledger.stores.postgres import PostgresStore  # a driver that not every installation has

    return PostgresStore(url)


class LedgerKind(NamedTuple):
    """A kind of store.

    Attributes:
        scheme: How the place of such a ledger is written.
        open: The store at a URL, which may be relative to a folder.
    """

    scheme: Scheme
    open: Callable[[str, Path], Store]


LEDGERS: dict[str, LedgerKind] = {
    "sqlite": LedgerKind(
        Scheme(("sqlite:///",), "sqlite:///state/ledger.db"),
        lambda url, folder: SQLiteStore(folder / url.removeprefix("sqlite:///")),
    ),
    "postgresql": LedgerKind(postgres_url.SCHEME, _postgres),
}


def schemes() -> tuple[Scheme, ...]:
    """How the place of a ledger may be written, for whoever reads ``ledger:``."""
    return tuple(kind.scheme for kind in LEDGERS.values())


def open_ledger(
    url: str, folder: Path, anchors: Sequence[str] = (), host: str = "", shared: Sequence[str] = ()
) -> Ledger:
    """The ledger at a URL; nothing is created until the first reservation.

    Args:
        url: ``sqlite:///state/ledger.db``, relative to ``folder`` (four slashes make the path absolute), or
            ``postgresql://user@host:port/database``.
        folder: The folder of the project.
        anchors: Files, relative to ``folder`` or absolute, that its head is written to as well.
        host: The name of this host in the ledger; empty: as the operating system has it.
        shared: Further anchors, which every host that uses the ledger sees under the same path.

    Raises:
        LedgerError: If the URL is not one of a store that is there.
        MissingExtra: If its driver is not installed.
    """
    for kind in LEDGERS.values():
        if kind.scheme.takes(url) and url.partition("://")[2].strip("/"):
            own, common = ([Path(os.path.abspath(folder / each)) for each in every] for every in (anchors, shared))
            return Ledger(kind.open(url, folder), own, host=host, shared=common)
    # A URL may hold a password, so only its scheme is shown.
    scheme = url.partition(":")[0]
    known = any(prefix.startswith(f"{scheme}:") for kind in LEDGERS.values() for prefix in kind.scheme.prefixes)
    raise LedgerError(
        f"`ledger:` names no place in {scheme}" if known else f"`ledger:` has an unknown scheme: {scheme}",
        hint="write " + ", or ".join(kind.scheme.example for kind in LEDGERS.values()),
        code="DPR-L143",
    )
