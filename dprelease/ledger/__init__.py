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
from dprelease.ledger.balance import AccountFacts, Actor
from dprelease.ledger.base import Charge, Ledger, Reservation, Sources, StepKey
from dprelease.ledger.entry import Entry
from dprelease.ledger.lock import ReleaseLock
from dprelease.ledger.rules import has_ended
from dprelease.ledger.sqlite import SQLiteLedger
from dprelease.ledger.store import Holder, Lock

__all__ = [
    "LEDGERS",
    "AccountFacts",
    "Actor",
    "Charge",
    "Entry",
    "Holder",
    "Ledger",
    "Lock",
    "ReleaseLock",
    "Reservation",
    "SQLiteLedger",
    "Sources",
    "StepKey",
    "has_ended",
    "open_ledger",
]

LEDGERS: dict[str, Callable[[Path, Sequence[Path]], Ledger]] = {"sqlite": SQLiteLedger}


def open_ledger(url: str, folder: Path, anchors: Sequence[str] = ()) -> Ledger:
    """The ledger at a URL; nothing is created until the first reservation.

    Args:
        url: ``sqlite:///state/ledger.db``, relative to ``folder``; four slashes make the path absolute.
        folder: The folder of the project.
        anchors: Files, relative to ``folder`` or absolute, that its head is written to as well.

    Raises:
        LedgerError: If the URL is not one of a store that is there.
    """
    scheme, mark, path = url.partition(":///")
    if scheme not in LEDGERS or not mark or not path.strip("/"):
        # A URL may hold a password, so only its scheme is shown.
        raise LedgerError(
            f"`ledger:` names no store that is there: {scheme.partition(':')[0]}",
            hint=f"write sqlite:///state/ledger.db; there is: {', '.join(LEDGERS)}",
            code="DPR-L143",
        )
    return LEDGERS[scheme](folder / path, [Path(os.path.abspath(folder / anchor)) for anchor in anchors])
