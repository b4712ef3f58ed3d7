"""What the data hold that a release would leave out, move or not read: counted for somebody who may see them.

It informs a person and decides nothing. No count goes anywhere but into the lines that are handed back, which the
command shows on a terminal: no file, no log and no entry of the ledger holds one. The ledger keeps that somebody
looked, by keyed hashes of the files and before anything is read, as of a comparison with the truth (``stand_in``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.reference import References
from dprelease.catalog.table import Table
from dprelease.engines import OpenedEngine, engine_for
from dprelease.engines.look.query_counts import Beyond, QueryCounts
from dprelease.engines.look.row_counts import RowCounts, count_rows
from dprelease.errors import DpReleaseError, EngineError
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.release.data.sources import confidential_tables
from dprelease.release.planning import open_target, plan_release
from dprelease.release.project import read_text, reference_tables
from dprelease.release.tuning.stand_in import require_consent, require_terminal, stand_in
from dprelease.spec.expect_data import (
    Amount,
    ColumnLimits,
    ExpectedData,
    LimitSpec,
    QueryLimits,
    TableLimits,
    load_expected,
)
from dprelease.spec.fields.document import ReleaseSpec

if TYPE_CHECKING:
    from dprelease.spec.fields.value import SpecValue

__all__ = ["LOOK", "AskedQuery", "LookLine", "TableLook", "look_at"]

LOOK = "dprelease look"
_CLIPPED = ("sum", "square", "quantile")
_FEW = LimitSpec(at_most=Amount(share=Fraction(1, 100)))
_SOME = LimitSpec(at_least=Amount(number=1))
_USUAL: Mapping[str, LimitSpec] = {
    "rows": _SOME,
    **dict.fromkeys(("unparsed", "unreadable", "not_listed", "outside", "no_unit_id", "no_cell"), _FEW),
}
"""What is expected where the owner wrote nothing: shares that a form read wrongly is far above. Nothing is expected of
clips and bounds, for which the data are no reason."""

Show = Callable[[str, int, int], None]


@dataclass(frozen=True)
class LookLine:
    """One count. Confidential.

    Attributes:
        what: What is counted, as a file of thresholds names it.
        of: A column, a query or a measure; empty: the table.
        count: How many there are.
        whole: Among how many.
        expected: What was expected of it; None: nothing was.
    """

    what: str
    of: str
    count: int
    whole: int
    expected: LimitSpec | None = None

    @property
    def is_odd(self) -> bool:
        """Whether it is not as expected."""
        return self.expected is not None and not self.expected.holds(self.count, self.whole)


@dataclass(frozen=True)
class TableLook:
    """What was found in one table. Confidential.

    Attributes:
        table: Its name.
        files: How many its source has.
        rows: What is counted of rows.
        columns: By column what is counted of its values; what has no meaning for it is not there.
        queries: By query, or by what several have in common, what is counted.
    """

    table: str
    files: int
    rows: tuple[LookLine, ...]
    columns: dict[str, tuple[LookLine, ...]]
    queries: dict[str, tuple[LookLine, ...]]


@dataclass(frozen=True)
class AskedQuery:
    """A query of a plan as it is counted, and at which place of its quantities each measure has its clip."""

    counts: QueryCounts
    measures: Mapping[str, int]


def look_at(
    path: Path,
    *,
    allowed: bool,
    is_terminal: bool,
    expect: Path | None = None,
    period: str | None = None,
    show: Show = lambda table, done, total: None,
) -> tuple[TableLook, ...]:
    """Count in the confidential tables of a spec; nothing is charged, drawn, published or kept but that it was done.

    Args:
        path: The path of a spec or a frozen plan.
        allowed: Whether the caller has said that he may see the data.
        is_terminal: Whether what is shown goes to a terminal.
        expect: A file of thresholds; None: the usual ones.
        period: Takes the place of the spec's own.
        show: Called with a table, after each of its files: how many are done, and how many there are.

    Raises:
        SpecError: Nobody said that the data may be seen (DPR-S020), there is no terminal (DPR-S022), or the spec or the
            file of thresholds is wrong.
        LedgerError: As of ``stand_in.stand_in``, and of ``StandIn.require_same``.
        DpReleaseError: Whatever planning and the engine raise; none of it holds a value.
    """
    says = "a look at the data is confidential, and no noise hides what it shows"
    require_consent(allowed, says, "add `--i-can-see-the-data` if you may see every row of these files", LOOK)
    shows = "shows counts of the confidential data themselves"
    eyes = "type it on a terminal, without `>` and `|`: its counts are for your eyes, and are kept nowhere"
    require_terminal(is_terminal, shows, eyes, LOOK)
    target = open_target(path, period)
    expected = None
    if expect is not None:
        expected = load_expected(read_text(expect, str(expect)), str(expect), target.loaded.spec)
    plan = plan_release(target)
    folder, tables = target.project.folder, confidential_tables(plan)
    references = reference_tables(plan.catalog, folder)
    with ExitStack() as opened:
        engine = opened.enter_context(closing(engine_for(tables.values())(folder, os.environ)))
        for table in tables.values():
            engine.describe(table)
        seen = stand_in(target.project, plan, tables, engine, LOOK)
        found = tuple(
            _seen(target.loaded.spec, plan, table, references, engine, expected, show) for table in tables.values()
        )
        seen.require_same()
    return found


def _seen(
    spec: ReleaseSpec,
    plan: ReleasePlan,
    table: Table,
    references: References,
    engine: OpenedEngine,
    expected: ExpectedData | None,
    show: Show,
) -> TableLook:
    asked = _asked(spec, plan, table)
    failed = ""
    try:
        counts = count_rows(
            plan.catalog,
            table,
            {label: each.counts for label, each in asked.items()},
            references,
            engine.stored,
            lambda done, total: show(table.name, done, total),
        )
    except (DpReleaseError, MemoryError):
        raise
    except Exception as error:
        failed = type(error).__name__
    if failed:  # outside of the except block, so that no traceback carries a driver's words along
        raise EngineError(
            f"table {table.name!r} could not be counted ({failed}); the driver's own words are withheld",
            hint="check the files and the free memory of this machine; nothing was charged",
            code="DPR-E003",
        )
    return _lines(table, counts, asked, expected)


def _asked(spec: ReleaseSpec, plan: ReleasePlan, table: Table) -> dict[str, AskedQuery]:
    """What the queries of a table ask, by label; tables of a workload, which count the same rows, are asked once."""
    asked: dict[str, AskedQuery] = {}
    for query in plan.queries:
        if query.table != table.name:
            continue
        label = query.workload or query.name
        if label not in asked:
            clipped = dict(_clipped(spec, plan, query))
            quantities = tuple(dict.fromkeys(clipped.values()))
            places = {name: quantities.index(each) for name, each in clipped.items()}
            asked[label] = AskedQuery(QueryCounts(query.grouping, quantities), places)
    return asked


def _clipped(spec: ReleaseSpec, plan: ReleasePlan, query: PlannedQuery) -> Iterator[tuple[str, Quantity]]:
    """What is clipped for a query, by measure of the spec: the first quantity of each, for all of it has one clip.

    Before them the weights, where its rows have some.
    """
    weight = plan.catalog.tables[query.table].weight
    parts = (part for measure in query.measures.values() for part in measure.made_of)
    if weight is not None and any(part.weighted is not False for part in parts):
        of_row = Quantity(kind="sum", column=weight.column, step=weight.step, low=0, high=weight.clip)
        yield f"weight {weight.column}", of_row
    if query.workload is not None:
        return
    written = spec.queries[query.name].measures
    names = {published: name for name, measure in written.items() for published in measure.published(name)}
    for published, inputs in query.inputs.items():
        name = names[published]
        for feed in inputs:
            part = plan.taken(feed.step).parts[feed.part]
            if part.kind in _CLIPPED:
                yield name, part
                break


def _lines(table: Table, found: RowCounts, asked: Mapping[str, AskedQuery], expected: ExpectedData | None) -> TableLook:
    own = (expected.tables.get(table.name) if expected else None) or TableLimits()
    rows = [_line("rows", "", found.rows, found.rows, own)]
    if table.source.has_lines:
        rows.append(_line("unparsed", "", found.unparsed, found.rows, own))
    if found.out_of_period is not None:
        rows.append(_line("out_of_period", "", found.out_of_period + found.timeless, found.rows, own))
    if found.no_unit_id is not None:
        rows.append(_line("no_unit_id", "", found.no_unit_id, found.of_period, own))
    if found.truncated is not None:
        rows.append(_beyond("truncated", found.truncated, own))
    columns = {
        name: tuple(
            _line(what, name, count, odd.values, own.columns.get(name) or ColumnLimits())
            for what, count in (
                ("null", odd.null),
                *([("unreadable", odd.unreadable)] if name in found.stored else []),
                *([("not_listed", odd.not_listed)] if odd.column.keys is not None else []),
                *([("outside", odd.outside)] if odd.column.range is not None else []),
            )
        )
        for name, odd in found.columns.items()
    }
    queries = {
        label: tuple(_of_query(label, counts, asked[label].measures, expected))
        for label, counts in found.queries.items()
    }
    return TableLook(table.name, found.files, tuple(rows), columns, queries)


def _of_query(
    label: str, counts: QueryCounts, measures: Mapping[str, int], expected: ExpectedData | None
) -> Iterator[LookLine]:
    own = (expected.queries.get(label) if expected else None) or QueryLimits()
    yield _line("no_cell", "", counts.no_cell, counts.rows, own)
    for what, found in (("groups", counts.groups), ("rows_in_groups", counts.rows_in_groups)):
        if found is not None:
            yield _beyond(what, found, own)
    for measure, at in measures.items():
        found = counts.clipped[at]
        yield LookLine("clipped", measure, found.beyond, found.of, own.clipped.get(measure))


def _beyond(what: str, found: Beyond, own: SpecValue) -> LookLine:
    return _line(what, "", found.beyond, found.of, own)


def _line(what: str, of: str, count: int, whole: int, own: SpecValue) -> LookLine:
    return LookLine(what, of, count, whole, getattr(own, what) or _USUAL.get(what))
