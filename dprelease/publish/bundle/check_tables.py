"""The tables of a bundle, held against its plan and its measurements cell by cell."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from dprelease.catalog.table import Column, Key
from dprelease.estimate import PublishedMeasure, PublishedTable, Status
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.base import columns, header, key_columns, key_text, measure_names, public_rows
from dprelease.publish.bundle.check_opened import Opened, named
from dprelease.publish.derive.tables import derived_of, made_again, outline
from dprelease.publish.formats.csvfile import csv_text
from dprelease.publish.formats.parquet import parquet_cells, parquet_keys
from dprelease.publish.measured import inputs_of, queries_as_tables

__all__ = ["tables_agree", "values_agree"]

Rows = list[tuple[str, ...]]


def tables_agree(bundle: Opened) -> str:
    """What is wrong with the columns and row keys of the tables, and with the values of derived ones; empty: nothing.

    Where noise decided the keys, the files of all formats have the same ones, none twice; a derived table is made
    again from the tables beside it.
    """
    plan = bundle.shown
    if plan is None:
        return "plan.json cannot be read"
    readers: dict[str, Callable[[bytes, int], tuple[list[str], Rows] | None]] = {
        "csv": _csv_keys,
        "parquet": parquet_keys,
    }
    wrong = []
    for table in _asked(plan, bundle.manifest.rehearsal):
        seen: list[Rows] = []
        for ending in (each for each in readers if each in plan.publish.formats):
            name = f"tables/{table.name}.{ending}"
            data = bundle.sound.get(name)
            found = readers[ending](data, len(table.kinds)) if data is not None else None
            if found is None or found[0] != table.columns or not _rows_hold(table, found[1]):
                wrong.append(name)
            else:
                seen.append(found[1])
        if any(rows != seen[0] for rows in seen):
            wrong.append(f"tables/{table.name}")
    wrong += [] if wrong else _not_made_again(bundle, plan)
    return named(wrong, "columns or row keys are not those of the plan")


@dataclass(frozen=True)
class _Asked:
    """What the plan says of a table: its columns, its keys' columns, and its rows or what they are out of."""

    name: str
    columns: list[str]
    kinds: tuple[Column, ...]
    rows: Rows | None
    ranks: int | None = None
    may_repeat: bool = False


def _asked(plan: ReleasePlan, rehearsal: bool) -> list[_Asked]:
    found = []
    for query in plan.queries:
        rows = public_rows(plan, query)
        known = None if rows is None else [tuple(map(key_text, row)) for row in rows]
        names, kinds = list(columns(plan, query, rehearsal=rehearsal)), key_columns(plan, query)
        found.append(_Asked(query.name, names, kinds, known, query.ranking.k if query.ranking else None))
    for derived in derived_of(plan):
        table = outline(plan, derived)
        names = list(header(table, rehearsal=rehearsal))
        found.append(_Asked(derived.name, names, table.key_columns, None, may_repeat=True))
    return found


def _rows_hold(table: _Asked, rows: Rows) -> bool:
    """Whether the rows are those of the plan; where noise decided, whether each can be, and stands there once."""
    if table.rows is not None:
        return rows == table.rows
    if table.ranks is not None and [row[0] for row in rows] != [str(rank) for rank in range(1, table.ranks + 1)]:
        return False
    known = [None if column.keys is None else set(map(key_text, column.keys)) for column in table.kinds]
    possible = all(allowed is None or part in allowed for row in rows for part, allowed in zip(row, known, strict=True))
    own = [row[1:] if table.ranks is not None else row for row in rows]
    return possible and (table.may_repeat or len(set(own)) == len(own))


def _not_made_again(bundle: Opened, plan: ReleasePlan) -> list[str]:
    """Derived tables whose keys or values are not those that their SQL gives on the tables beside them."""
    wrong = []
    ending = next((each for each in ("csv", "parquet") if each in plan.publish.formats), None)
    asked = derived_of(plan)
    if not asked or ending is None:
        return []
    read = _csv_cells if ending == "csv" else parquet_cells
    tables = [_read(plan, query, read(bundle.sound[f"tables/{query.name}.{ending}"])) for query in plan.queries]
    for derived in asked:
        cells = read(bundle.sound[f"tables/{derived.name}.{ending}"])
        answer, table = made_again(plan, derived, tables), outline(plan, derived)
        keys = [tuple(map(key_text, row)) for row in answer.keys]
        found = list(zip(*(cells[column.name] for column in table.key_columns), strict=True))
        same = keys == (found if table.key_columns else [()] * len(keys))
        for at, measure in enumerate(table.measures):
            same = same and _equal(answer.values[:, at].tolist(), cells[measure.name], cells[f"{measure.name}_status"])
        if not same:
            wrong.append(f"tables/{derived.name}.{ending}")
    return wrong


def _equal(values: Sequence[float], texts: Sequence[str], statuses: Sequence[str]) -> bool:
    """Whether the numbers are these; what was withheld as unreliable is empty whatever it was."""
    if len(values) != len(texts):
        return False
    for value, text, status in zip(values, texts, statuses, strict=True):
        if not text:
            if not (math.isnan(value) or status == "unreliable"):
                return False
        elif not math.isclose(value, float(text), rel_tol=1e-9, abs_tol=1e-9):
            return False
    return True


def _read(plan: ReleasePlan, query: PlannedQuery, cells: Mapping[str, Sequence[str]]) -> PublishedTable:
    """The published values of a query from a file, as far as SQL can use them."""
    kinds, names = key_columns(plan, query), measure_names(plan, query)
    rows = len(next(iter(cells.values()), ()))
    read: dict[str, Callable[[str], Key]] = {"integer": int, "boolean": lambda text: text == "true"}
    nothing = np.full(rows, np.nan)
    ok: Status = "ok"
    return PublishedTable(
        name=query.name,
        title=query.title,
        key_columns=kinds,
        keys=tuple(tuple(map(read.get(column.type, str), cells[column.name])) for column in kinds),
        measures=tuple(
            PublishedMeasure(
                name=name,
                measure=query.measures[name],
                value=np.array([float(text) if text else math.nan for text in cells[name]], dtype=np.float64),
                standard_error=nothing,
                margin=nothing,
                lower=nothing,
                upper=nothing,
                status=(ok,) * rows,
                places=None,
                integer=False,
            )
            for name in names
        ),
        confidence=plan.publish.confidence,
        cells=rows,
    )


def _csv_cells(data: bytes) -> dict[str, list[str]]:
    """The columns of a CSV file that was read before without a fault."""
    names, *rows = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


def _csv_keys(data: bytes, keys: int) -> tuple[list[str], Rows] | None:
    try:
        names, *rows = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
    except (ValueError, csv.Error):
        return None
    if any(len(row) != len(names) for row in rows):
        return None
    return names, [tuple(row[:keys]) for row in rows]


def values_agree(bundle: Opened, same: Set[str]) -> str:
    """Which tables have a number that is not the one that the measurements give; empty: none.

    Numbers are read from CSV and Parquet and compared as numbers, so that this holds whatever library wrote them.
    Derived tables are not looked at: their margins are simulated, and their values follow from the others'.

    Args:
        bundle: The bundle.
        same: Files that were made again with the same bytes, and need no look.
    """
    plan, (measured, why) = bundle.shown, bundle.measured
    if plan is None or measured is None:
        return why
    endings = {"csv": _csv_cells, "parquet": parquet_cells}
    wrong = []
    for table in queries_as_tables(plan, inputs_of(plan, measured)):
        files = {f"tables/{table.name}.{ending}": ending for ending in endings if ending in plan.publish.formats}
        looked_at = [name for name in files if name not in same]
        expected = _csv_cells(csv_text(header(table), table).encode()) if looked_at else {}
        numbers = header(table)[len(table.key_columns) :]
        for name in looked_at:
            found = _cells(endings[files[name]], bundle.sound.get(name))
            if not all(_same_cells(expected[each], found.get(each, [])) for each in numbers):
                wrong.append(name)
    return named(wrong, "numbers are not those that measurements/ give")


def _cells(read: Callable[[bytes], dict[str, list[str]]], data: bytes | None) -> dict[str, list[str]]:
    """The columns of a file; none where it cannot be read."""
    try:
        return read(data) if data is not None else {}
    except (ValueError, IndexError, OSError, csv.Error):
        return {}


def _same_cells(expected: Sequence[str], found: Sequence[str]) -> bool:
    return len(expected) == len(found) and all(map(_same_cell, expected, found))


def _same_cell(expected: str, found: str) -> bool:
    if expected == found:
        return True
    try:
        return math.isclose(float(expected), float(found), rel_tol=1e-9)
    except ValueError:
        return False
