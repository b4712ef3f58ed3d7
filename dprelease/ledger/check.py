"""The full check over the tables of a store: hands them to `audit`, and looks at everything that is kept by digest."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dprelease.canonical import sha256
from dprelease.ledger import view
from dprelease.ledger.audit import Index, audit
from dprelease.ledger.store import Rows
from dprelease.privacy.event import Composed

__all__ = ["check"]


def check(rows: Rows) -> list[str]:
    """Every finding about a ledger, one line each, in the order of its entries; empty: it is sound."""
    reserved = rows.execute("SELECT sequence, release, period, plan, restates, identity FROM reservations")
    ended = rows.execute("SELECT sequence, reservation, kind FROM endings")
    sourced = rows.execute("SELECT sequence, reservation FROM sources")
    measured = rows.execute("SELECT sequence, release, period, plan, step, digest, identity FROM measurements")
    tables = ({row[0]: tuple(row[1:]) for row in table} for table in (reserved, ended, sourced, measured))
    kept = _Kept(rows)
    spoilt = _payloads(rows, {row[5]: (row[0], row[4]) for row in measured}, kept.shapes)
    return audit(view.all_entries(rows), Index(*tables), kept) + spoilt


class _Kept:
    """What is kept by digest, looked up one by one."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._events: dict[str, Composed] = {}
        self.shapes: dict[str, int] = {}

    def text(self, digest: str) -> str:
        """Bytes that are text."""
        return view.content(self._rows, digest).decode()

    def events(self, digest: str) -> Composed:
        """Bytes that are draws."""
        return view.events(self._rows, self._events, digest)

    def cells(self, digest: str) -> int | None:
        """How many numbers a measurement has; None where it is missing or altered, which is said elsewhere."""
        return self.shapes.get(digest)


def _payloads(rows: Rows, measured: Mapping[str, tuple[int, str]], shapes: dict[str, int]) -> list[str]:
    """What is kept by digest: are the bytes those of the digest, and is a measurement one of its step?

    The numbers of cells go to ``shapes``, to be held against the entries.
    """
    found, seen, last = [], set(), ""
    query = "SELECT digest, payload FROM contents WHERE digest > ? ORDER BY digest LIMIT 500"
    while page := rows.execute(query, (last,)):
        for digest, payload in page:
            seen.add(digest)
            at, step = measured.get(digest, (0, ""))
            if sha256(bytes(payload)) != digest:
                what = f"entry {at}: the measurement of step {step}" if at else f"what is kept as {digest[:16]}"
                found.append(f"{what} was altered")
            elif at and (cells := _cells(bytes(payload), step)) is not None:
                shapes[digest] = cells
            elif at:
                found.append(f"entry {at}: the measurement of step {step} is of another step or shape")
        last = page[-1][0]
    missing = sorted(measured[digest] for digest in measured.keys() - seen)
    return found + [f"entry {at}: the measurement of step {step} is missing" for at, step in missing]


def _cells(payload: bytes, step: str) -> int | None:
    head, _, body = payload.partition(b"\n")
    try:
        facts = json.loads(head.decode("utf-8", "surrogatepass"))
        return int(facts["cells"]) if facts["step"] == step and len(body) == 8 * facts["cells"] else None
    except (ValueError, KeyError, TypeError):
        return None
