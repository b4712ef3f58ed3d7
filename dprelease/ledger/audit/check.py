"""The full check over the tables of a store: hands them to `audit`, and looks at everything that is kept by digest."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import lru_cache

from dprelease.canonical import sha256
from dprelease.errors import Corrupt, DpReleaseError
from dprelease.ledger.audit.audit import EntryRow, Index, audit
from dprelease.ledger.audit.series import broken_series
from dprelease.ledger.model.entry import RESTORE
from dprelease.ledger.model.fault import ERRATA, Fault
from dprelease.ledger.model.store import Transaction
from dprelease.ledger.tables import view
from dprelease.ledger.tables.incident import corrections
from dprelease.ledger.tables.plans import Planned, Plans
from dprelease.privacy.event import Composed

__all__ = ["full_check"]

_NOWHERE = (0, "")


def full_check(rows: Transaction) -> list[str]:
    """Every finding about a ledger, one line each, in the order of its entries; empty: it is sound."""
    with _uncollected():
        return _checked(rows)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cycles: a check remembers a lot, which holds none, and it would look through all of it.

    That took a fifth of the time of a long ledger's check.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _checked(rows: Transaction) -> list[str]:
    reserved = rows.execute("SELECT sequence, release, period, plan, restates, identity FROM reservations")
    ended = rows.execute("SELECT sequence, reservation, kind FROM endings")
    sourced = rows.execute("SELECT sequence, reservation FROM sources")
    measured = rows.execute("SELECT sequence, release, period, plan, step, digest, identity FROM measurements")
    tables = ({row[0]: tuple(row[1:]) for row in table} for table in (reserved, ended, sourced, measured))
    kept = _Kept(rows)
    spoilt = kept.look({row[5]: (row[0], row[4]) for row in measured}, {row[3] for row in reserved})
    findings = audit(_lines(rows), Index(*tables), kept) + spoilt + broken_series(rows, kept.may_be_of_series)
    # Errata are about plans that select keys; of one that a recovery ended where it began, nothing was charged here.
    lost = {row[0] for row in ended if row[0] == row[1]}
    return findings + (_undercharged(rows) if kept.may_select(row[3] for row in reserved if row[0] not in lost) else [])


def _undercharged(rows: Transaction) -> list[str]:
    """What stands charged at a price that an erratum is about, and that no incident has corrected."""
    findings = []
    for name, why in ERRATA.items():
        with suppress(DpReleaseError, ValueError, KeyError, TypeError):  # of a damaged book, which is said elsewhere
            findings += [
                f"entry {each.taken.sequence}: account {each.account} was charged too little for {each.taken.release} "
                f"{each.taken.period}, erratum {name}: {why}; `dprelease ledger incident --erratum {name}` charges it"
                for each in corrections(rows, Fault(why=why, erratum=name, factor=Fraction(1)))
                if each.after != each.before
            ]
    return findings


def _lines(rows: Transaction) -> Iterator[EntryRow]:
    """Every entry, in order, whatever it says."""
    for row in rows.execute("SELECT sequence, previous, hash, kind, body FROM entries ORDER BY sequence"):
        at, previous, digest, kind, text = row
        # A damaged page keeps no types.
        if not (type(at) is int and type(previous) is type(digest) is type(kind) is type(text) is str):
            raise Corrupt(f"entry {at} of the ledger cannot be read", hint=RESTORE, code="DPR-L302")
        yield row


class _Kept:
    """What is kept by digest: all of it is looked at once, and what is asked for later is remembered from then."""

    def __init__(self, rows: Transaction) -> None:
        self._rows = rows
        self._plans = Plans()
        self._planned: dict[str, Planned] = {}
        self._events: dict[str, Composed] = {}
        self._cells: dict[str, int] = {}

    def plan(self, digest: str) -> Planned:
        return self._planned.get(digest) or self._plans.read(view.kept_bytes(self._rows, digest).decode())

    def events(self, digest: str) -> Composed:
        return view.events(self._rows, self._events, digest)

    def cells(self, digest: str) -> int | None:
        """How many numbers a measurement has; None where it is missing or altered, which is said elsewhere."""
        return self._cells.get(digest)

    def may_select(self, planned: Iterable[str]) -> bool:
        """Whether a step of one of these plans selects keys, or what one of them says is not known."""
        return any(each is None or each.selects for each in map(self._planned.get, planned))

    def may_be_of_series(self, digest: str) -> bool:
        """Whether a query of this plan is of a series, or what it says is not known."""
        planned = self._planned.get(digest)
        return planned is None or planned.series

    def look(self, measured: Mapping[str, tuple[int, str]], planned: Set[str]) -> list[str]:
        """Are the bytes those of their digest, and is a measurement one of its step?

        Args:
            measured: The entry and step of each measurement, by digest.
            planned: The digests of plans.
        """
        findings, waiting, last = [], dict(measured), ""
        first_lines = lru_cache(1000)(_first_line)  # those of all measurements of a step are the same
        query = "SELECT digest, payload FROM contents WHERE digest > ? ORDER BY digest LIMIT 500"
        while page := self._rows.execute(query, (last,)):
            for digest, kept in page:
                payload = bytes(kept)
                at, step = waiting.pop(digest, _NOWHERE)
                if sha256(payload) != digest:
                    what = f"entry {at}: the measurement of step {step}" if at else f"what is kept as {digest[:16]}"
                    findings.append(f"{what} was altered")
                elif at:
                    head, _, body = payload.partition(b"\n")
                    if first_lines(head) == (step, len(body) / 8):
                        self._cells[digest] = len(body) // 8
                    else:
                        findings.append(f"entry {at}: the measurement of step {step} is of another step or shape")
                elif digest in planned:
                    self._remember(digest, payload)
            last = page[-1][0]
        missing = sorted(waiting.values())
        return findings + [f"entry {at}: the measurement of step {step} is missing" for at, step in missing]

    def _remember(self, digest: str, payload: bytes) -> None:
        # One that cannot be read is said at its reservation.
        try:  # not `suppress`, for there are as many as releases
            self._planned[digest] = self._plans.read(payload.decode())
        except (DpReleaseError, ValueError, KeyError, TypeError):
            return


def _first_line(head: bytes) -> tuple[str, int] | None:
    """The step that a measurement says that it is of, and the number of cells that it says it has."""
    try:
        facts = json.loads(head.decode("utf-8", "surrogatepass"))
        return facts["step"], facts["cells"]
    except (ValueError, KeyError, TypeError):
        return None
