"""From a spec and its public files to a catalog: references pinned by content, every key spelled out.

Key combinations that a query leaves out become positions in the cross product of its keys; in a workload they are
structural zeros. Working out what zeros are worth takes the square of the number of combinations times the cells of
their columns for about every table, which is limited here.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from dprelease.canonical import sha256
from dprelease.catalog.reference import ReferenceFileError, ReferenceTable, RefusedFile, read_reference
from dprelease.catalog.table import (
    Binned,
    Catalog,
    Column,
    Computed,
    DatabaseSource,
    Derivation,
    Join,
    Key,
    Mapped,
    PrivateJoin,
    Range,
    Reference,
    Table,
    TableBounds,
    TimeFilter,
    Zeros,
)
from dprelease.catalog.weight import Sampling, Weighting
from dprelease.catalog.workbook import WORKBOOK
from dprelease.errors import Problem, SpecError
from dprelease.plan.resolve.grouping import exclusion_name
from dprelease.plan.resolve.hierarchies import hierarchies_of
from dprelease.plan.resolve.key_figures import check_key_figures
from dprelease.plan.resolve.left_out import left_out, zeros_of
from dprelease.plan.resolve.names import Labels, first_labels, labels_of, names_of
from dprelease.spec.checks.columns import NUMBERS, check_labels
from dprelease.spec.checks.keys import MOST_CELLS, check_cell_count, check_length
from dprelease.spec.checks.ranges import check_range_rows
from dprelease.spec.checks.workloads import check_workload_cells
from dprelease.spec.expressions import computed, types_of
from dprelease.spec.fields.columns import MOST_KEYS, label_text, named_key, spelled_out
from dprelease.spec.fields.document import ColumnSpec, QuerySpec, ReferenceKeys, ReleaseSpec, TableSpec, TimeSpec
from dprelease.spec.fields.published.told import ReferenceLabels, first_said
from dprelease.spec.fields.published_sets import all_key_columns
from dprelease.spec.load import Loaded
from dprelease.spec.period import CALENDAR, span
from dprelease.spec.steps import MeasuredLimits, grid_of, measured_limits
from dprelease.spec.text.findings import Findings, Hidden
from dprelease.spec.text.names import shown
from dprelease.spec.text.nodes import Path
from dprelease.spec.text.scalars import day

__all__ = [
    "references_needed",
    "resolve",
]


def references_needed(spec: ReleaseSpec) -> tuple[str, ...]:
    """The references that joins, keys and exceptions use, in the order of the spec; others need no file."""
    used = {join.reference for table in spec.tables.values() for join in table.join}
    for table in spec.tables.values():
        used |= {column.keys.reference for column in table.columns.values() if isinstance(column.keys, ReferenceKeys)}
    for table in spec.tables.values():
        used |= {each.labels.reference for each in table.columns.values() if isinstance(each.labels, ReferenceLabels)}
    used |= {query.except_.reference for query in spec.queries.values() if query.except_ is not None}
    return tuple(name for name in spec.references if name in used)


def resolve(
    loaded: Loaded, files: Mapping[str, bytes | RefusedFile | None], queries: Mapping[str, bytes | None] | None = None
) -> Catalog:
    """The catalog of a spec: everything public that a plan needs, with nothing left to look up.

    Args:
        loaded: A spec that was loaded without a problem.
        files: The bytes of every reference of :func:`references_needed`, or why it is refused; None or absent: there
            is no such file.
        queries: By table, the bytes of the file of its source's query; None or absent: there is no such file.

    Returns:
        Its tables with explicit keys in published order and expressions in canonical text, its references with
        their SHA-256, the cells that queries leave out, and the trees of their levels.

    Raises:
        SpecError: With every problem: a file that is missing or not as declared, a join key that is not unique,
            labels or nulls for keys that are not there, more than a million keys or ten million cells, exceptions
            that are no cells or all of them, levels that do not nest.
    """
    spec = loaded.spec
    findings = Findings(loaded.places, Hidden())
    needed = references_needed(spec)
    read = {name: _read(spec, name, files.get(name), findings) for name in needed}
    found = {name: public for name, public in read.items() if public is not None}
    period = spec.release.period
    languages = spec.release.languages
    labels = {
        (name, column): labels_of(written, column, languages, found, ("tables", name, "columns", column), findings)
        for name, table in spec.tables.items()
        for column, written in table.columns.items()
    }
    tables = {
        name: _table(name, table, measured_limits(spec, name), period, found, findings)
        for name, table in spec.tables.items()
    }
    tables = {name: _labelled(table, spec.tables[name], labels, languages) for name, table in tables.items()}
    tables = {name: _with_query(table, (queries or {}).get(name), findings) for name, table in tables.items()}
    exclusions: dict[str, tuple[int, ...]] = {}
    for name, query in spec.queries.items():
        exclusions |= _cells(spec, name, query, tables[query.table], found, findings)
    zeros = _zeros(spec, tables, found, findings)
    hierarchies = hierarchies_of(spec, tables, found, findings)
    if not findings.problems:
        check_key_figures(spec, tables, findings)
    if findings.problems:
        raise SpecError(sorted(findings.problems, key=_place))
    pinned = {
        name: Reference(
            name=name,
            file=spec.references[name].file,
            sha256=sha256(data),
            columns=dict(spec.references[name].columns),
        )
        for name in needed
        if isinstance(data := files[name], bytes)
    }
    return Catalog(
        tables=tables,
        references=pinned,
        exclusions=exclusions,
        hierarchies=hierarchies,
        zeros=zeros,
        names=names_of(spec, labels),
    )


def _zeros(
    spec: ReleaseSpec, tables: Mapping[str, Table], found: Mapping[str, ReferenceTable], findings: Findings
) -> dict[str, Zeros]:
    """The impossible combinations of every workload that has some, by its name."""
    listed: dict[str, Zeros] = {}
    for name, query in spec.queries.items():
        asked = query.except_ if query.marginals is not None else None
        if asked is None or asked.reference not in found:
            continue
        table, public = tables[query.table], found[asked.reference]
        if all(table.column(column).cells for column in public.columns):
            zeros = zeros_of(query, table, public, ("queries", name), findings)
            listed |= {} if zeros is None else {name: zeros}
    return listed


def _cells(
    spec: ReleaseSpec,
    name: str,
    query: QuerySpec,
    table: Table,
    found: Mapping[str, ReferenceTable],
    findings: Findings,
) -> dict[str, tuple[int, ...]]:
    """Holds a query against the keys that its columns turned out to have; the cells that it leaves out, by name."""
    if query.marginals is not None:
        keys = {column: table.column(column).cells for column in all_key_columns(query, spec.hierarchies)}
        if all(keys.values()):
            check_workload_cells(name, query, spec.hierarchies, keys, findings)
        return {}
    at, sizes = ("queries", name), [table.column(column).cells for column in query.cells_by]
    if query.keys == "private" or not all(sizes):  # a column without keys was told where its reference is read
        return {}
    if query.top_k is not None:
        check_length(query, sizes[0], at, findings)
        return {}
    check_cell_count(query, sizes, at, findings)
    check_range_rows(name, query, dict(zip(query.by, sizes, strict=True)), findings)
    _check_classes(query, table, prod(sizes), at, findings)
    excluded = exclusion_name(query)
    if excluded is None or query.except_ is None or query.except_.reference not in found:
        return {}
    return {excluded: left_out(query, table, found[query.except_.reference], at, findings)}


def _check_classes(query: QuerySpec, table: Table, cells: int, at: Path, findings: Findings) -> None:
    """Counts along grids: classes begin at grid values, and there are at most ten million of them in one draw."""
    for label, measure in query.measures.items():
        if not measure.gaussian:
            continue
        try:
            asked = [each.quantities(table)[0] for each in measure.planned(label, query.measures).values()]
        except ValueError as off_grid:
            hint = "write numbers of the column's grid, and give `edges` with a class that begins at each of `below`"
            findings.add("DPR-S587", (*at, "measures", label), str(off_grid), hint)
            continue
        quantity = asked[0]
        if (numbers := cells * len(quantity.classes)) > MOST_CELLS:
            says = f"counts {numbers:,} classes of values in all cells, more than {MOST_CELLS:,}"
            hint = "write fewer `edges`, take a column out of `by`, or write `from: ranks`"
            findings.add("DPR-S588", (*at, "measures", label), says, hint, (*at, "by"))


def _place(problem: Problem) -> tuple[int, int]:
    return (problem.where.line, problem.where.column) if problem.where else (0, 0)


def _read(spec: ReleaseSpec, name: str, data: bytes | RefusedFile | None, findings: Findings) -> ReferenceTable | None:
    declared, at = spec.references[name], ("references", name, "file")
    if isinstance(data, RefusedFile):
        findings.add(data.code, at, data.says, data.hint)
        return None
    if data is None:
        hint = f"looked for {shown(declared.file)!r} in the folder of dprelease.yaml; put the file there"
        findings.add("DPR-S601", at, "is not there or cannot be read", hint)
        return None
    try:
        public = read_reference(data, declared.columns, declared.file)
    except ReferenceFileError as error:
        hint = (
            "a reference is a workbook with one sheet and a header; correct the file or the declared columns"
            if declared.file.lower().endswith(WORKBOOK)
            else "a reference is CSV in UTF-8 with commas and a header; correct the file or the declared columns"
        )
        findings.add("DPR-S602", at, f"is not as declared: {shown(str(error))}", hint)
        return None
    for column in (name for name, kind in declared.columns.items() if kind == "date"):
        if any(day(str(key)) is None for key in public.keys(column)):
            says = f"is not as declared: column {shown(column)!r} has a day that no calendar has"
            findings.add("DPR-S602", at, says, "write days of the calendar as YYYY-MM-DD")
            return None
    return public


def _table(
    name: str,
    table: TableSpec,
    limits: Mapping[str, MeasuredLimits],
    period: str,
    found: Mapping[str, ReferenceTable],
    findings: Findings,
) -> Table:
    at = ("tables", name)
    for number, join in enumerate(table.join):
        public = found.get(join.reference) if join.reference is not None else None
        if public is not None and not public.is_unique(join.on):
            says = f"is not unique in reference {join.reference!r}: the join would multiply rows"
            hint = "keep one line per key in the file, or join on a finer column"
            findings.add("DPR-S603", (*at, "join", number, "on"), says, hint)
    columns = [_column(column, table, limits, found, (*at, "columns", column), findings) for column in table.columns]
    if table.unit_id is not None and table.unit_id not in table.columns:
        columns.append(Column(name=table.unit_id, type="text"))
    bounds = table.bounds
    return Table(
        name=name,
        account=table.account,
        source=table.source.declared,
        columns=tuple(sorted(columns, key=lambda column: not column.in_source)),
        joins=tuple(
            Join(reference=join.reference, on=join.on, add=join.add)
            for join in table.join
            if join.reference is not None
        ),
        unit_id=table.unit_id,
        null_id=table.null_id,
        bounds=TableBounds(**bounds.model_dump()) if bounds is not None else None,
        private_joins=tuple(
            PrivateJoin(table=join.table, on=join.on, max_matches=join.max_matches, add=join.add)
            for join in table.join
            if join.table is not None and join.max_matches is not None
        ),
        time=_time(table.time, period, (*at, "time"), findings),
        weight=_weight(table, limits),
        engine=table.engine,
    )


def _labelled(
    table: Table, written: TableSpec, labels: Mapping[tuple[str, str], Labels], languages: tuple[str, ...]
) -> Table:
    """The table with the labels and units of its columns in the first language of the release."""

    def told(column: Column) -> Column:
        if column.name not in written.columns:
            return column
        words = {
            "labels": first_labels(labels[table.name, column.name], languages, column.keys),
            "measured_in": first_said(written.columns[column.name].measured_in, languages),
        }
        return column.model_copy(update=words)

    return table.model_copy(update={"columns": tuple(map(told, table.columns))})


def _weight(table: TableSpec, limits: Mapping[str, MeasuredLimits]) -> Weighting | None:
    """How rows are weighted: on the grid of the column, the clip in its steps."""
    weight = table.weight
    if weight is None:
        return None
    grid, sampling = grid_of(table, weight.column, limits), weight.sampling
    assert grid is not None  # noqa: S101 - the grid of weights is written, or 1
    return Weighting(
        column=weight.column,
        step=grid.step,
        clip=int(weight.clip / grid.step),
        calibrated=weight.calibrated,
        sampling=None if sampling is None else Sampling(**dict(sampling)),
    )


def _with_query(table: Table, data: bytes | None, findings: Findings) -> Table:
    """The table, with the content of the query that its rows come from."""
    source = table.source
    if not isinstance(source, DatabaseSource) or source.query is None:
        return table
    if data is None:
        hint = f"looked for {shown(source.query)!r} in the folder of dprelease.yaml; put the file there"
        findings.add("DPR-S605", ("tables", table.name, "source", "query"), "is not there or cannot be read", hint)
        return table
    return table.model_copy(update={"source": source.model_copy(update={"query_sha256": sha256(data)})})


def _time(time: TimeSpec | None, period: str, at: Path, findings: Findings) -> TimeFilter | None:
    """The rows of the period; the loader has refused a time beside a period that has no days, and so does this."""
    if time is None:
        return None
    days = span(period)
    if days is None:
        findings.add("DPR-S590", at, "needs a period of the calendar", f"write {CALENDAR}", ("release", "period"))
        return None
    return TimeFilter(column=time.column, type=time.type, start=days[0], end=days[1])


def _column(
    name: str,
    table: TableSpec,
    limits: Mapping[str, MeasuredLimits],
    found: Mapping[str, ReferenceTable],
    at: Path,
    findings: Findings,
) -> Column:
    column, grid = table.columns[name], grid_of(table, name, limits)
    assert grid is not None  # noqa: S101 - the loader refuses limits that are on no grid
    keys = spelled_out(column)
    if isinstance(column.keys, ReferenceKeys) and column.keys.reference in found:
        keys = found[column.keys.reference].keys(column.keys.column or name)
        _check_keys(column, keys, at, findings)
    return Column(
        name=name,
        type=column.type,
        keys=keys,
        range=Range(low=column.range[0], high=column.range[1]) if column.range is not None else None,
        step=grid.step,
        rank_step=grid.ranks if grid.ranks != grid.step else None,
        step_from=grid.chosen_by if column.type in NUMBERS else None,
        outside=column.outside,
        null=column.null,
        measured_in="",  # told, as labels are, by `_labelled`
        reference=next((join.reference for join in table.join if join.reference and name in join.add), None),
        lent_by=next((join.table for join in table.join if join.table and name in join.add), None),
        derivation=_derivation(name, table),
        partition=column.partition,
        collected=None if column.collect is None else column.collect.law(len(keys or ())),
    )


def _derivation(name: str, table: TableSpec) -> Derivation | None:
    """How a column is computed: from columns above it, which the loader has checked."""
    column = table.columns[name]
    if column.bin is not None:
        return Binned(of=column.bin, edges=column.edges or ())
    if column.map is not None:
        kind = table.columns[column.map].type
        pairs = ((named_key(label, kind), key) for label, key in (column.to or {}).items())
        known = tuple((value, key) for value, key in pairs if value is not None)
        return Mapped(of=column.map, pairs=known, otherwise=column.otherwise)
    if column.sql is not None:
        return Computed(sql=computed(column.sql, types_of(table.columns), column.type).text)
    return None


def _check_keys(column: ColumnSpec, keys: tuple[Key, ...], at: Path, findings: Findings) -> None:
    if not keys:
        findings.add("DPR-S604", (*at, "keys"), "has no key, for the reference has no line", "add its lines")
    elif len(keys) > MOST_KEYS:
        findings.add("DPR-S605", (*at, "keys"), f"has {len(keys)} keys, more than a million", "take a coarser column")
    else:
        check_labels(column, {label_text(key) for key in keys}, at, findings)
