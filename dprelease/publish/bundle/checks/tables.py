"""The tables of a bundle, held against its plan and its measurements cell by cell."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Column, Key
from dprelease.estimate import Coded, PublishedTable, Rows
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.base import (
    key_as_text,
    keys_of_query,
    public_rows,
    sql_names,
)
from dprelease.publish.bundle.checks.opened import OpenedBundle, say_which
from dprelease.publish.bundle.read_tables import LARGEST_UNDECLARED, READERS, FileColumns, Kind, same_texts, table_parts
from dprelease.publish.columns import PERIOD_COLUMN, REHEARSAL_COLUMN, column_names, table_header
from dprelease.publish.comparing.earlier import draws_of
from dprelease.publish.comparing.series import with_sums
from dprelease.publish.csv_text import escapes, unescaped_texts, word_texts
from dprelease.publish.derive.tables import made_again, outline
from dprelease.publish.formats.cube import bare_measure
from dprelease.publish.measured import inputs_of, queries_as_tables
from dprelease.publish.packed import Data, kept

__all__ = ["ReadTable", "published_table", "tables_agree"]

Floats = npt.NDArray[np.float64]
Texts = tuple[Any, ...]  # Arrow arrays of strings, one for each key column
_CLOSE = 1e-9


def tables_agree(bundle: OpenedBundle, same: Set[str] = frozenset()) -> str:
    """What is wrong with the columns and row keys of the tables, and with the values of derived ones; empty: nothing.

    Where noise decided the keys, the files of all formats have the same ones, none twice; a derived table is made
    again from the tables beside it.

    Args:
        bundle: The bundle.
        same: Files that were made again with the same bytes, all of a table from the same rows: of these one is read.
    """
    plan = bundle.shown
    if plan is None:
        return "plan.json cannot be read"
    wrong = []
    for table in _asked(plan, bundle.manifest.rehearsal):
        seen: list[FileColumns] = []
        kinds: dict[str, Kind] = {column.name: "text" for column in table.kinds}
        kinds |= {PERIOD_COLUMN: "text"} if plan.publish.period_column else {}
        files = {f"tables/{table.name}.{each}": each for each in READERS if each in plan.publish.formats}
        spared = [name for name in files if name in same][:-1]
        for name, ending in files.items():
            if name in spared:
                continue
            data = kept(bundle.sound).get(name)
            if data is not None and table.rows is None and len(data) > LARGEST_UNDECLARED:
                data = None
            if data is not None and table.rows is not None and kinds:
                wrong += [] if _declared(plan, table, ending, data, kinds) else [name]
                continue
            found = _read_keys(plan, ending, data, table.columns, table.kinds, kinds) if data is not None else None
            if found is None or not _rows_hold(table, found) or not _of_period(plan, found):
                wrong.append(name)
            else:
                seen.append(found)
        if table.rows is None and any(not _same_rows(each, seen[0]) for each in seen[1:]):
            wrong.append(f"tables/{table.name}")
    wrong += [] if wrong else _not_made_again(bundle, plan)
    return say_which(wrong, "columns or row keys are not those of the plan")


def _declared(plan: ReleasePlan, table: _Asked, ending: str, data: Data, kinds: Mapping[str, Kind]) -> bool:
    """Whether a file has the rows that the plan declares, and no other; it is read some rows after the others."""
    first, rows = 0, table.rows or Rows((), 0)
    declared = [word_texts(each.mapped(key_as_text)) for each in rows.columns]
    try:
        for part in table_parts(ending, data, table.columns, kinds):
            found = _as_declared(plan, ending, table.kinds, part)
            last = first + found.rows
            if last > len(rows) or not _of_period(plan, found):
                return False
            for column, texts in zip(table.kinds, declared, strict=True):
                if not same_texts(found.texts[column.name], texts(first, last)):
                    return False
            first = last
    except (ValueError, KeyError):  # it cannot be read, or was changed meanwhile
        return False
    return first == len(rows)


def _as_declared(plan: ReleasePlan, ending: str, columns: Sequence[Column], found: FileColumns) -> FileColumns:
    """The keys as they were before formulas among them were escaped.

    Raises:
        ValueError: If one of them would have been escaped.
    """
    texts = dict(found.texts)
    for column in columns if ending == "csv" else ():
        if escapes(plan.publish, column):
            texts[column.name] = unescaped_texts(texts[column.name])
    return replace(found, texts=texts)


def _read_keys(
    plan: ReleasePlan,
    ending: str,
    data: Data,
    names: Sequence[str],
    columns: Sequence[Column],
    kinds: Mapping[str, Kind],
) -> FileColumns | None:
    """Columns of a file, keys as they were before formulas among them were escaped; None where they cannot be read."""
    found = READERS[ending](data, names, kinds)
    try:
        return None if found is None else _as_declared(plan, ending, columns, found)
    except ValueError:
        return None


def _same_rows(one: FileColumns, other: FileColumns) -> bool:
    return one.rows == other.rows and all(same_texts(one.texts[name], other.texts[name]) for name in one.texts)


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
        names, kinds = list(column_names(plan, query, rehearsal=rehearsal)), keys_of_query(plan, query)
        ranks = query.ranking.k if query.ranking else None
        found.append(_Asked(query.name, names, kinds, public_rows(plan, query), ranks))
    for derived in plan.derive:
        table = outline(plan, derived)
        names = list(table_header(table, rehearsal=rehearsal))
        found.append(_Asked(derived.name, names, table.key_columns, None, may_repeat=True))
    return found


def _rows_hold(table: _Asked, found: FileColumns) -> bool:
    """Whether the rows are those of the plan; where noise decided, whether each can be, and stands there once."""
    texts = tuple(found.texts[column.name] for column in table.kinds)
    if table.rows is not None:  # without a column, or it was read some rows after the others
        return found.rows == len(table.rows) and not texts
    if table.ranks is not None and texts[0].to_pylist() != [str(rank) for rank in range(1, table.ranks + 1)]:
        return False
    possible = all(map(_among, texts, table.kinds))
    own = texts[1:] if table.ranks is not None else texts
    return possible and (table.may_repeat or _differ(own, found.rows))


def _of_period(plan: ReleasePlan, found: FileColumns) -> bool:
    """Whether every row names the period, where the files have a column for it."""
    asked = plan.publish.period_column
    return not asked or {*found.texts[PERIOD_COLUMN].unique().to_pylist()} <= {plan.release.period}


def _among(texts: Any, column: Column) -> bool:
    """Whether all keys are declared ones, where there are such."""
    if column.keys is None:
        return True
    known = set(map(key_as_text, column.keys))
    return all(text in known for text in texts.unique().to_pylist())


def _differ(texts: Texts, rows: int) -> bool:
    """Whether no two rows have the same keys."""
    import pyarrow as pa

    if not texts:
        return rows < 2
    names = [str(at) for at in range(len(texts))]
    return bool(pa.table(list(texts), names=names).group_by(names).aggregate([]).num_rows == rows)


def _not_made_again(bundle: OpenedBundle, plan: ReleasePlan) -> list[str]:
    """Derived tables whose keys or values are not those that their SQL gives on the tables beside them."""
    wrong = []
    ending = next((each for each in READERS if each in plan.publish.formats), None)
    if not plan.derive or ending is None:
        return []
    rehearsal = bundle.manifest.rehearsal
    tables = _before_rounding(bundle, plan)
    for query in plan.queries if not tables else ():
        names = column_names(plan, query, rehearsal=rehearsal)
        kinds, numbers = keys_of_query(plan, query), sql_names(plan, query)
        tables.append(_read(plan, query, _cells(bundle, plan, f"tables/{query.name}.{ending}", names, kinds, numbers)))
    for derived, answer in zip(plan.derive, made_again(plan, tables, bundle.earlier), strict=True):
        table = outline(plan, derived)
        numbers = tuple(measure.name for measure in table.measures)
        names = table_header(table, rehearsal=rehearsal)
        cells = _cells(bundle, plan, f"tables/{derived.name}.{ending}", names, table.key_columns, numbers)
        keys = [tuple(map(key_as_text, row)) for row in answer.keys]
        texts = [cells.texts[column.name].to_pylist() for column in table.key_columns]
        same = keys == (list(zip(*texts, strict=True)) if texts else [()] * cells.rows)
        for at, name in enumerate(numbers):
            weak = np.array(cells.texts[f"{name}_status"].to_pylist(), dtype=object) == "unreliable"
            same = same and _equal(answer.values[:, at], cells.values[name], weak)
        if not same:
            wrong.append(f"tables/{derived.name}.{ending}")
    return wrong


def _before_rounding(bundle: OpenedBundle, plan: ReleasePlan) -> list[PublishedTable]:
    """The tables that SQL reads, from the measurements, where files hold rounded ones; nothing elsewhere."""
    measured, _ = bundle.measured
    if plan.publish.figures is None or not plan.publish.figures.bases or measured is None:
        return []
    inputs = inputs_of(plan, measured, draws_of(bundle.earlier))
    return list(with_sums(plan, queries_as_tables(plan, inputs), inputs))


def _cells(
    bundle: OpenedBundle,
    plan: ReleasePlan,
    name: str,
    names: Sequence[str],
    kinds: Sequence[Column],
    numbers: Sequence[str],
) -> FileColumns:
    """Keys, values and statuses of a table that was read before without a fault."""
    asked: dict[str, Kind] = {column.name: "text" for column in kinds}
    for number in numbers:
        asked |= {number: "number", f"{number}_status": "text"}
    ending = name.rpartition(".")[2]
    found = _read_keys(plan, ending, kept(bundle.sound)[name], names, kinds, asked)
    if found is None:
        raise ValueError("a number or a status cannot be read")
    return found


@dataclass(frozen=True)
class ReadTable:
    """A table as its CSV or Parquet file has it, with keys as they were declared.

    Attributes:
        keys: Its key columns.
        names: All of its columns, in the order of the file.
        columns: Their content.
        whole: The columns that hold whole numbers by their kind.
    """

    keys: tuple[Column, ...]
    names: tuple[str, ...]
    columns: FileColumns
    whole: Set[str]


def published_table(bundle: OpenedBundle, plan: ReleasePlan, name: str) -> ReadTable | None:
    """A table of a bundle, from the first of its files that can be read as columns; None where there is none.

    Args:
        bundle: The bundle.
        plan: As it is shown.
        name: The table's name: that of a query, or of a derived table.

    Raises:
        ValueError: If the file is not what the plan says; no message names a value.
    """
    table = next(each for each in _asked(plan, bundle.manifest.rehearsal) if each.name == name)
    ending = next((each for each in READERS if f"tables/{name}.{each}" in bundle.sound), None)
    if ending is None:
        return None
    names, data = set(table.columns), kept(bundle.sound)[f"tables/{name}.{ending}"]
    words = {PERIOD_COLUMN} if plan.publish.period_column else set()
    words |= {REHEARSAL_COLUMN, *(column.name for column in table.kinds)}
    words |= {f"{each}_status" for each in names if f"{each}_lower" in names}
    kinds: dict[str, Kind] = {each: "text" if each in words else "number" for each in table.columns}
    found = _read_keys(plan, ending, data, table.columns, table.kinds, kinds)
    if found is None:
        raise ValueError("columns or row keys are not those of the plan")
    return ReadTable(table.kinds, tuple(table.columns), found, _whole(bundle, name, ending) - words)


def _whole(bundle: OpenedBundle, name: str, ending: str) -> Set[str]:
    """The columns that the bundle itself calls whole numbers, keys among them."""
    if ending == "parquet":
        import pyarrow.parquet as pq

        schema = pq.read_schema(io.BytesIO(bundle.sound[f"tables/{name}.{ending}"]))
        return {field.name for field in schema if str(field.type) == "int64"}
    package = json.loads(bundle.sound.get("datapackage.json", b'{"resources": []}'))
    found = [each["schema"]["fields"] for each in package["resources"] if each["path"] == f"tables/{name}.{ending}"]
    return {field["name"] for fields in found for field in fields if field["type"] == "integer"}


def _equal(values: Floats, found: Floats, weak: npt.NDArray[np.bool_]) -> bool:
    """Whether the numbers are these; what was withheld as unreliable is empty whatever it was."""
    if len(values) != len(found):
        return False
    none = np.isnan(found)
    close = np.abs(values - found) <= np.maximum(_CLOSE * np.maximum(np.abs(values), np.abs(found)), _CLOSE)
    return bool(np.where(none, np.isnan(values) | weak, close | (values == found)).all())


def _read(plan: ReleasePlan, query: PlannedQuery, cells: FileColumns) -> PublishedTable:
    """The published values of a query from a file, as far as SQL can use them."""
    kinds, names = keys_of_query(plan, query), sql_names(plan, query)
    of = {name: query.measures[query.compare[name].measure if name in query.compare else name] for name in names}
    return PublishedTable(
        name=query.name,
        title=query.title,
        key_columns=kinds,
        keys=tuple(_keys(column, cells.texts[column.name]) for column in kinds),
        measures=tuple(bare_measure(name, of[name], cells.values[name]) for name in names),
        confidence=plan.publish.confidence,
        cells=cells.rows,
    )


def _keys(column: Column, texts: Any) -> Coded[Key]:
    """The keys of a column that is read as text."""
    held = texts.dictionary_encode()
    known: list[str] = held.dictionary.to_pylist()
    keys: list[Key] = list(known)
    if column.type == "integer":
        keys = list(map(int, known))
    elif column.type == "boolean":
        keys = [text == "true" for text in known]
    return Coded(keys, held.indices.to_numpy())
