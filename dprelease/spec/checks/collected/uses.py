"""That randomized answers are used for estimates alone: nothing else may take them for the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dprelease.catalog.expressions.expression import ExpressionError, parse
from dprelease.measures import Measure
from dprelease.spec.checks.collected.answers import collected_columns
from dprelease.spec.checks.columns import sound_keys
from dprelease.spec.expressions import types_of
from dprelease.spec.fields.columns import label_text
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.fields.published_sets import all_key_columns
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_uses"]

_HINT = "ask for `{randomized: COLUMN, key: KEY}`: the true number is estimated from the randomized answers"


def check_uses(spec: ReleaseSpec, findings: Findings) -> None:
    """Every place of a spec that names a column of randomized answers, or asks for an estimate."""
    for name, table in spec.tables.items():
        _check_table(spec, name, table, findings)
    for name, query in spec.queries.items():
        if query.table in spec.tables:
            _check_query(spec, name, query, spec.tables[query.table], findings)


def _check_table(spec: ReleaseSpec, name: str, table: TableSpec, findings: Findings) -> None:
    collected = set(collected_columns(table))
    for path, named in _named_by_table(table):
        for column in sorted(set(named) & collected):
            _refuse(column, name, ("tables", name, *path), findings)
    for other, lent in spec.tables.items():
        for number, join in enumerate(lent.join):
            for column in sorted(set(join.add) & collected) if join.table == name else ():
                _refuse(column, name, ("tables", other, "join", number, "add"), findings)


def _named_by_table(table: TableSpec) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Which columns a table names, and where, but for the columns themselves."""
    if table.weight is not None:
        yield ("weight", "column"), (table.weight.column,)
    if table.time is not None:
        yield ("time", "column"), (table.time.column,)
    if table.bounds is not None:
        yield ("bounds", "order_by"), table.bounds.order_by
    for number, join in enumerate(table.join):
        yield ("join", number, "on"), (join.on,)
    types = types_of(table.columns)
    for label, column in table.columns.items():
        for field in ("bin", "map"):
            of = getattr(column, field)
            if of is not None:
                yield ("columns", label, field), (of,)
        if column.sql is not None:
            yield ("columns", label, "sql"), _read_by(column.sql, types)


def _check_query(spec: ReleaseSpec, name: str, query: QuerySpec, table: TableSpec, findings: Findings) -> None:
    collected, at, types = collected_columns(table), ("queries", name), types_of(table.columns)
    named: list[tuple[Path, tuple[str, ...]]] = [
        (("where",), _read_by(query.where, types)),
        (("marginals",) if query.marginals is not None else ("top_k",) if query.top_k else ("by",), ()),
    ]
    named[1] = (named[1][0], all_key_columns(query, spec.hierarchies))
    for label, measure in query.measures.items():
        named.append((("measures", label, "where"), _read_by(measure.where, types)))
        if measure.of_answers is not None:
            _check_asked(measure, query, table, (*at, "measures", label), findings)
        elif measure.column is not None:
            named.append((("measures", label, measure.kind), (measure.column,)))
    for path, columns in named:
        for column in sorted(set(columns) & set(collected)):
            _refuse(column, query.table, (*at, *path), findings)


def _check_asked(measure: Measure, query: QuerySpec, table: TableSpec, at: Path, findings: Findings) -> None:
    """An estimate is of a column of randomized answers, and of one of its keys."""
    asked = measure.of_answers
    column = None if asked is None else table.columns.get(asked.column)
    if asked is None or column is None:  # told by the rules of every measure
        return
    about = ("tables", query.table, "columns", asked.column)
    if column.collect is None:
        says = f"estimates from a column whose answers are not randomized: {shown(asked.column)!r}"
        hint = (
            "count it: `{count: rows}` by this column; or declare `collect: {randomized_response: {epsilon: 1}}` of it"
        )
        findings.add("DPR-S258", (*at, measure.kind), says, hint, about)
        return
    known = [label_text(key) for key in sound_keys(column) or ()]
    if known and asked.key not in known:
        says = f"is no answer of {shown(asked.column)!r}: {shown(asked.key)!r}"
        findings.add("DPR-S254", (*at, "key"), says, did_you_mean(asked.key, known), about)
    for field in ("series", "totals", "keys", "ranges"):
        if getattr(query, field):
            says = f"stands beside an estimate from randomized answers, which has no law for `{field}`"
            findings.add("DPR-S259", (*at[:2], field), says, "write the estimates as a query of their own", at)


def _refuse(column: str, table: str, at: Path, findings: Findings) -> None:
    says = f"takes randomized answers for true ones: {shown(column)!r}"
    findings.add("DPR-S258", at, says, _HINT, ("tables", table, "columns", column))


def _read_by(text: str | None, types: Mapping[str, object]) -> tuple[str, ...]:
    """The columns that an expression reads; none of one that cannot be read, which is told elsewhere."""
    if text is None:
        return ()
    try:
        return tuple(sorted(parse(text, types).columns))  # type: ignore[arg-type]  # a view of the declared types
    except ExpressionError:
        return ()
