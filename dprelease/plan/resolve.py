"""From a spec and its public files to a catalog: references pinned by content, every key spelled out."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.canonical import sha256
from dprelease.catalog.reference import ReferenceFileError, ReferenceTable, read_reference
from dprelease.catalog.table import Catalog, Column, Join, Key, Range, Reference, Source, Table
from dprelease.errors import Problem, SpecError
from dprelease.spec.check import check_cells
from dprelease.spec.check_columns import check_labels
from dprelease.spec.document import ColumnSpec, ReferenceKeys, ReleaseSpec, TableSpec
from dprelease.spec.fields import day
from dprelease.spec.findings import Findings
from dprelease.spec.keys import MOST_KEYS, key_text, label_key, spelled_out
from dprelease.spec.load import Loaded
from dprelease.spec.names import shown
from dprelease.spec.nodes import Path
from dprelease.spec.prune import Hidden

__all__ = ["references_needed", "resolve"]


def references_needed(spec: ReleaseSpec) -> tuple[str, ...]:
    """The references that joins and keys use, in the order of the spec; others need no file."""
    used = {join.reference for table in spec.tables.values() for join in table.join}
    for table in spec.tables.values():
        used |= {column.keys.reference for column in table.columns.values() if isinstance(column.keys, ReferenceKeys)}
    return tuple(name for name in spec.references if name in used)


def resolve(loaded: Loaded, files: Mapping[str, bytes | None]) -> Catalog:
    """The catalog of a spec: everything public that a plan needs, with nothing left to look up.

    Args:
        loaded: A spec that was loaded without a problem.
        files: The bytes of every reference of :func:`references_needed`; None or absent: there is no such file.

    Returns:
        Its tables with explicit keys in published order, and its references with their SHA-256.

    Raises:
        SpecError: With every problem: a file that is missing or not as declared, a join key that is not unique,
            labels or nulls for keys that are not there, more than a million keys or ten million cells.
    """
    spec = loaded.spec
    findings = Findings(loaded.places, Hidden())
    needed = references_needed(spec)
    read = {name: _read(spec, name, files.get(name), findings) for name in needed}
    found = {name: public for name, public in read.items() if public is not None}
    tables = {name: _table(name, table, found, findings) for name, table in spec.tables.items()}
    for name, query in spec.queries.items():
        sizes = [tables[query.table].column(column).cells for column in query.by]
        check_cells(query, sizes, ("queries", name), findings)
    if findings.problems:
        raise SpecError(sorted(findings.problems, key=_place))
    pinned = {
        name: Reference(
            name=name,
            file=spec.references[name].file,
            sha256=sha256(files[name] or b""),
            columns=dict(spec.references[name].columns),
        )
        for name in needed
    }
    return Catalog(tables=tables, references=pinned)


def _place(problem: Problem) -> tuple[int, int]:
    return (problem.where.line, problem.where.column) if problem.where else (0, 0)


def _read(spec: ReleaseSpec, name: str, data: bytes | None, findings: Findings) -> ReferenceTable | None:
    declared, at = spec.references[name], ("references", name, "file")
    if data is None:
        hint = f"looked for {shown(declared.file)!r} in the folder of dprelease.yaml; put the file there"
        findings.add("DPR-S601", at, "is not there or cannot be read", hint)
        return None
    try:
        public = read_reference(data, declared.columns)
    except ReferenceFileError as error:
        hint = "a reference is CSV in UTF-8 with commas and a header; correct the file or the declared columns"
        findings.add("DPR-S602", at, f"is not as declared: {shown(str(error))}", hint)
        return None
    for column in (name for name, kind in declared.columns.items() if kind == "date"):
        wrong = next((key for key in public.keys(column) if day(str(key)) is None), None)
        if wrong is not None:
            says = f"is not as declared: column {shown(column)!r}: there is no day {shown(str(wrong))!r}"
            findings.add("DPR-S602", at, says, "write days of the calendar as YYYY-MM-DD")
            return None
    return public


def _table(name: str, table: TableSpec, found: Mapping[str, ReferenceTable], findings: Findings) -> Table:
    at = ("tables", name)
    for number, join in enumerate(table.join):
        public = found.get(join.reference)
        if public is not None and not public.is_unique(join.on):
            says = f"is not unique in reference {join.reference!r}: the join would multiply rows"
            hint = "keep one line per key in the file, or join on a finer column"
            findings.add("DPR-S603", (*at, "join", number, "on"), says, hint)
    added = {column: join.reference for join in table.join for column in join.add}
    return Table(
        name=name,
        account=table.account,
        source=Source(file=table.source.file, format=table.source.format, null_values=table.source.null_values),
        columns=tuple(
            _column(column, described, added.get(column), found, (*at, "columns", column), findings)
            for column, described in table.columns.items()
        ),
        joins=tuple(Join(reference=join.reference, on=join.on, add=join.add) for join in table.join),
    )


def _column(
    name: str,
    column: ColumnSpec,
    reference: str | None,
    found: Mapping[str, ReferenceTable],
    at: Path,
    findings: Findings,
) -> Column:
    keys = spelled_out(column)
    if isinstance(column.keys, ReferenceKeys) and column.keys.reference in found:
        keys = found[column.keys.reference].keys(column.keys.column or name)
        _check_keys(column, keys, at, findings)
    return Column(
        name=name,
        type=column.type,
        keys=keys,
        labels={label_key(label, column.type): text for label, text in column.labels.items()},
        range=Range(low=column.range[0], high=column.range[1]) if column.range is not None else None,
        step=column.step,
        outside=column.outside,
        null=column.null,
        measured_in=column.measured_in,
        reference=reference,
    )


def _check_keys(column: ColumnSpec, keys: tuple[Key, ...], at: Path, findings: Findings) -> None:
    if not keys:
        findings.add("DPR-S604", (*at, "keys"), "has no key, for the reference has no line", "add its lines")
    elif len(keys) > MOST_KEYS:
        findings.add("DPR-S605", (*at, "keys"), f"has {len(keys)} keys, more than a million", "take a coarser column")
    else:
        check_labels(column, {key_text(key) for key in keys}, at, findings)
