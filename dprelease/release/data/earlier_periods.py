"""Rows of earlier periods of a series: which are read again, and whether they are as they were when first read.

A draw of a series reads its own period and some before it (``catalog.series.band``). What is published of it is made
without bias of the *same* tables in every draw, so that the ledger keeps a keyed hash of the rows of a period from the
moment when they are first read, of the columns that the series looks at. Rows that have changed since are refused
before anything is charged. This is no matter of privacy (docs/proofs/series.md, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.catalog.series.band import BandDraw
from dprelease.catalog.table import Catalog, TimeFilter
from dprelease.engines import OpenedEngine
from dprelease.engines.declared import loading
from dprelease.errors import BrokenPromiseError, LedgerError
from dprelease.ledger import Ledger
from dprelease.plan.document import ReleasePlan
from dprelease.spec.period import preceding, span

__all__ = ["at_period", "catalogs_read", "digests_of_rows", "periods_read", "require_same_rows"]


@dataclass(frozen=True)
class RowsAgain:
    """What a plan reads of one table for its series.

    Attributes:
        name: The table.
        periods: Its periods, the release's own first.
        columns: The columns that are looked at.
    """

    name: str
    periods: tuple[str, ...]
    columns: tuple[str, ...]


def at_period(catalog: Catalog, table: str, period: str) -> Catalog:
    """The catalog with the rows of another period of one table.

    Raises:
        BrokenPromiseError: If the table has no time, or it is no period of the calendar.
    """
    declared, days = catalog.tables[table], span(period)
    if declared.time is None or days is None:
        raise BrokenPromiseError(f"table {table!r} has no rows of {period}")
    time = TimeFilter(column=declared.time.column, type=declared.time.type, start=days[0], end=days[1])
    return catalog.model_copy(update={"tables": {**catalog.tables, table: declared.model_copy(update={"time": time})}})


def periods_read(period: str, draw: BandDraw) -> tuple[str, ...]:
    """The periods that a draw of a series reads, its own first; none that is skipped."""
    found, at = [period], period
    while len(found) < len(draw.read) and (earlier := preceding(at)) is not None:
        at = earlier
        if at not in draw.skipped:
            found.append(at)
    return tuple(found)


def series_tables(plan: ReleasePlan) -> tuple[RowsAgain, ...]:
    """What a plan reads for its series, by table."""
    read: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {}
    for step in plan.steps:
        if step.series is None:
            continue
        name = step.aggregate.table
        needed = loading(plan.catalog, step.aggregate.grouping, step.parts)[name]
        known, columns = read.get(name, ((), frozenset[str]()))
        periods = tuple(dict.fromkeys((*known, *periods_read(plan.release.period, step.series))))
        read[name] = (periods, columns | needed.values | needed.places)
    return tuple(RowsAgain(name, periods, tuple(sorted(columns))) for name, (periods, columns) in read.items())


def digests_of_rows(
    plan: ReleasePlan, catalog: Catalog, engine: OpenedEngine, secret: bytes
) -> dict[str, dict[str, str]]:
    """By table and period a keyed hash of the rows that the series of a plan read now; empty where it has none.

    Args:
        plan: The plan.
        catalog: Its tables, with their sources as the engine shall read them.
        engine: What reads them.
        secret: The key of source fingerprints.
    """
    found: dict[str, dict[str, str]] = {}
    for table in series_tables(plan):
        days = [days for each in table.periods if (days := span(each)) is not None]
        digests = engine.digest_rows(catalog.tables[table.name], table.columns, days, secret)
        found[table.name] = dict(zip(table.periods, digests, strict=True))
    return found


def require_same_rows(ledger: Ledger, plan: ReleasePlan, found: Mapping[str, Mapping[str, str]], key: str) -> None:
    """Refuse rows of earlier periods that are not those that these periods were first read from.

    Args:
        ledger: What remembers.
        plan: Of the release that reads them again.
        found: By table and period, as :func:`digests_of_rows` gives them.
        key: Names the key of the hashes.

    Raises:
        LedgerError: Rows of a period have changed (DPR-L342), or nobody can tell, for the key is another (DPR-L343).
    """
    recorded: dict[str, Mapping[str, str]] = {}
    for body in ledger.files_read():
        if body.reservation and body.release == plan.release.name and body.rows:
            if body.key != key and body.period in {each for by in found.values() for each in by}:
                raise _other_key(plan, body.period)
            recorded[body.period] = body.rows
    for table, by_period in found.items():
        for period, digest in by_period.items():
            known = recorded.get(period, {}).get(table)
            if period != plan.release.period and known != digest:
                raise _changed(plan, table, period)


def _changed(plan: ReleasePlan, table: str, period: str) -> LedgerError:
    return LedgerError(
        f"rows of {period} in table {table!r} have changed since {plan.release.name} {period} was measured",
        detail="sums over periods are without bias only where every draw reads the same rows of a period; nothing was "
        "charged",
        hint="put the rows back, or let `time` name a date of recording, which late rows do not change; or begin a new "
        f"series: `from: {plan.release.period}`",
        code="DPR-L342",
    )


def _other_key(plan: ReleasePlan, period: str) -> LedgerError:
    return LedgerError(
        f"whether rows of {period} are as they were cannot be told: the key of source fingerprints is another one",
        detail="nothing was charged",
        hint=f"put the key's file back from a backup; or begin a new series: `from: {plan.release.period}`",
        code="DPR-L343",
    )


def catalogs_read(plan: ReleasePlan, catalog: Catalog) -> tuple[Catalog, ...]:
    """The catalogs of the earlier periods that a plan reads again for its series."""
    return tuple(
        at_period(catalog, table.name, period) for table in series_tables(plan) for period in table.periods[1:]
    )
