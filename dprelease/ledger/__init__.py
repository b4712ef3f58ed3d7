"""What was charged, and what was answered? The memory of a project, in which nothing is ever changed.

Floor 6. A ledger charges a whole plan before anything is read, keeps the one measurement of each step for
ever, and chains every entry to the one before it. ``LEDGERS`` is closed: to add a store, write its file and put
it in the table; the conformance tests then run on it.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     ledger = open_ledger("sqlite:///state/ledger.db", Path(folder))
...     ledger.standing(["people"]), ledger.find("census", "2024"), ledger.check()
(Standing(accounts={}), None, ())
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from dprelease.errors import LedgerError
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.model.admission import NO_SERIES
from dprelease.ledger.model.balance import Actor
from dprelease.ledger.model.entry import Entry
from dprelease.ledger.model.lifecycle import has_ended
from dprelease.ledger.model.reservation import Charge, Reservation, Sources, StepKey
from dprelease.ledger.model.store import Holder, Lock
from dprelease.ledger.stores.file_lock import ReleaseLock
from dprelease.ledger.stores.sqlite import SQLiteLedger
from dprelease.ledger.tables.published import Evidence, Published
from dprelease.plan.account import AccountLosses

__all__ = [
    "LEDGERS",
    "NO_SERIES",
    "AccountLosses",
    "Actor",
    "Charge",
    "Entry",
    "Evidence",
    "Holder",
    "Ledger",
    "Lock",
    "Published",
    "ReleaseLock",
    "Reservation",
    "SQLiteLedger",
    "Sources",
    "StepKey",
    "has_ended",
    "open_ledger",
]


def _sqlite(url: str, folder: Path, anchors: Sequence[Path], host: str, shared: Sequence[Path]) -> Ledger:
    path = url.removeprefix("sqlite:///")
    if path == url or not path.strip("/"):
        raise _no_store(url)
    return SQLiteLedger(folder / path, [*anchors, *shared])  # of one host, whatever that is called


def _postgres(url: str, folder: Path, anchors: Sequence[Path], host: str, shared: Sequence[Path]) -> Ledger:
    from dprelease.ledger.stores.postgres import PostgresLedger  # a driver that not every installation has

    return PostgresLedger(url, anchors, host=host, shared=shared)


LEDGERS: dict[str, Callable[[str, Path, Sequence[Path], str, Sequence[Path]], Ledger]] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
}


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
    scheme, mark, _ = url.partition("://")
    if scheme not in LEDGERS or not mark:
        raise _no_store(url)
    own, common = ([Path(os.path.abspath(folder / each)) for each in every] for every in (anchors, shared))
    return LEDGERS[scheme](url, folder, own, host, common)


def _no_store(url: str) -> LedgerError:
    # A URL may hold a password, so only its scheme is shown.
    return LedgerError(
        f"`ledger:` has an unknown scheme: {url.partition(':')[0]}",
        hint="write sqlite:///state/ledger.db, or postgresql://user@host/database",
        code="DPR-L143",
    )
