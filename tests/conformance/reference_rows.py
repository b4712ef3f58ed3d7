"""Rows as the declaration reads them, one at a time: files, values, public joins, derived columns.

It shares no code with the engines: another CSV reader, other number reading.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from dprelease.catalog.expressions.expression import Expression, parse
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Binned, Catalog, Column, ColumnType, Computed, Key, Mapped, PrivateJoin, Table
from tests.conformance.reference_values import Written, id_of, text_of, value_of, within
from tests.reference_expressions import evaluate
from tests.statistical_files import KINDS, read_statistical, unpacked

Cell = tuple[Key, ...]


@dataclass(eq=False)
class Row:
    """One row: its values, and whose it is: the canonical text of an id, or its number where it has none."""

    values: dict[str, Any]
    unit: str | int


def table_rows(
    catalog: Catalog, table: Table, folder: Path, references: Mapping[str, ReferenceTable], secret: bytes
) -> list[Row]:
    """All rows of a table as a query sees them: typed, bounded, joined, derived.

    Bounds count rows of the source, so that they come before the joins, which see at most so many rows of a unit.
    """
    most = None if table.bounds is None else table.bounds.max_rows
    rows = of_units(table, own_rows(table, folder, references), most, secret)
    for join in table.private_joins:
        other = catalog.tables[join.table]
        limits = [join.max_matches, *([] if other.bounds is None else [other.bounds.max_rows])]
        theirs: dict[str | int, list[Row]] = {}
        for row in of_units(other, own_rows(other, folder, references), min(limits), secret):
            theirs.setdefault(row.unit, []).append(row)
        rows = [joined for row in rows for joined in met(join, other, row, theirs.get(row.unit, []))]
    return [Row(with_derived(table, row.values), row.unit) for row in rows]


def of_units(table: Table, rows: Sequence[Row], most: int | None, secret: bytes) -> list[Row]:
    """At most so many rows of every unit."""
    if table.unit_id is None or most is None:
        return list(rows)
    of_unit: dict[str | int, list[Row]] = {}
    for row in rows:
        of_unit.setdefault(row.unit, []).append(row)
    return [row for each in of_unit.values() for row in truncated(table, each, most, secret)]


def truncated(table: Table, rows: Sequence[Row], most: int, secret: bytes) -> list[Row]:
    """Rows of one unit by the rule of its table; nulls come last in either direction, ties go by content."""
    if table.bounds is None or table.bounds.truncate == "sample":
        return sampled(table, rows, most, secret)
    ordered = sorted(rows, key=lambda row: (content(table, row), digits(row)))
    for name in reversed(table.bounds.order_by):
        there = [row for row in ordered if row.values[name] is not None]
        there.sort(key=lambda row: row.values[name], reverse=table.bounds.truncate == "last")
        ordered = there + [row for row in ordered if row.values[name] is None]
    return ordered[:most]


def sampled(table: Table, rows: Sequence[Row], most: int | None, secret: bytes) -> list[Row]:
    """At most so many rows of one unit, by keyed hash of content and number among equal rows; ties go by content."""
    seen: Counter[str] = Counter()
    ordered: list[tuple[str, str, int, Row]] = []
    for row in sorted(rows, key=digits):
        whole = content(table, row)
        ordered.append((keyed(secret, row.unit, whole + packed([str(seen[whole])])), whole, len(ordered), row))
        seen[whole] += 1
    order = [row for *_, row in sorted(ordered, key=lambda each: each[:3])]
    return order if most is None else order[:most]


def digits(row: Row) -> list[Fraction]:
    """What tells rows apart that are equal as doubles."""
    return [each.exact if isinstance(each, Written) else Fraction(0) for each in row.values.values()]


def met(join: PrivateJoin, other: Table, row: Row, matches: Sequence[Row]) -> list[Row]:
    """A row beside each row of its unit in the other table, or beside nulls; a row of nobody meets none."""
    there = [with_derived(other, match.values) for match in matches] if isinstance(row.unit, str) else []
    added = [{name: values[name] for name in join.add} for values in there] or [dict.fromkeys(join.add)]
    return [Row(row.values | values, row.unit) for values in added]


def own_rows(table: Table, folder: Path, references: Mapping[str, ReferenceTable]) -> list[Row]:
    """Rows of the files, with what public references add; rows of nobody are dropped."""
    rows = []
    for number, raw in enumerate(stored_rows(table, folder)):
        if not of_period(table, raw):
            continue
        values = source_row(table, raw)
        unit = number if table.unit_id is None else canonical(values[table.unit_id])
        if unit is None and table.null_id == "drop":
            continue
        rows.append(Row(with_references(table, values, references), number if unit is None else unit))
    return rows


def of_period(table: Table, raw: Mapping[str, Any]) -> bool:
    """Whether the moment of a row is of the period, by arithmetic of the clock; a row without one is not."""
    if table.time is None:
        return True
    column = Column(name=table.time.column, type=table.time.type)
    text = value_of(column, text_of(raw[column.name], column), table.source.null_values)
    if text is None:
        return False
    since = dt.datetime.fromisoformat(text) - dt.datetime.combine(table.time.start, dt.time())
    return 0 <= since.days < (table.time.end - table.time.start).days


def chosen_cells(
    table: Table, cells: Sequence[Cell], place: Mapping[Cell, str | int], unit: Any, most: int | None, secret: bytes
) -> list[Cell]:
    """At most so many cells of one unit: public ones in the order of a block cipher, private ones by keyed hash."""
    if most is None:
        return list(cells)

    def order(cell: Cell) -> tuple[Any, Any]:
        item = place[cell]
        return (keyed(secret, unit, item) if isinstance(item, str) else enciphered(table, secret, unit, item)), item

    return sorted(cells, key=order)[:most]


def enciphered(table: Table, secret: bytes, unit: Any, cell: int) -> int:
    """The documented order of public cells: 64 bits of AES of the unit's number and the cell's."""
    types = {column.name: column.type for column in table.columns}
    if types.get(str(table.unit_id)) == "integer" and not isinstance(unit, int):
        number = int(unit).to_bytes(8, "little", signed=True)
    else:
        number = bytes.fromhex(keyed(secret, unit, ""))
    cipher = Cipher(AES(hashlib.sha256(b"cells" + secret).digest()), ECB()).encryptor()
    return int.from_bytes(cipher.update(number + cell.to_bytes(8, "little"))[:8], "little")


def keyed(secret: bytes, unit: Any, item: str) -> str:
    """The documented order of what a unit has: 64 bits of sha256(secret, unit, item)."""
    whole = secret.hex() + packed([None if isinstance(unit, int) else unit]) + item
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def content(table: Table, row: Row) -> str:
    """All that a row holds: the id, the columns of the source, and what private joins lent, once they have."""
    hidden = [str(table.unit_id)] if table.unit_id not in (None, *(column.name for column in table.columns)) else []
    taken = [column.name for column in table.columns if column.reference is None and column.derivation is None]
    return packed([canonical(row.values[name]) for name in (*hidden, *taken) if name in row.values])


def packed(texts: Sequence[str | None]) -> str:
    """Each text with its length before it; a null is a dash."""
    return "".join("-" if text is None else f"{len(text)}:{text}" for text in texts)


def canonical(value: Any) -> str | None:
    """The text by which values are compared and hashed."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def holds(table: Table, where: str | None, row: Row) -> bool:
    """Whether a row passes a filter; a null is no."""
    return where is None or computed(table, where, row.values) is True


def computed(table: Table, sql: str, values: Mapping[str, Any]) -> Any:
    return evaluate(expression(tuple((column.name, column.type) for column in table.columns), sql), values)


@cache
def expression(types: tuple[tuple[str, ColumnType], ...], sql: str) -> Expression:
    return parse(sql, dict(types))


def source_row(table: Table, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the source, typed and within their ranges."""
    row: dict[str, Any] = {}
    own = [
        each for each in table.columns if each.reference is None and each.lent_by is None and each.derivation is None
    ]
    if table.unit_id is not None and table.unit_id not in (column.name for column in own):
        own.append(Column(name=table.unit_id, type="text"))
    for column in own:
        nulls = table.source.null_values
        if column.name == table.unit_id and column.type == "text":
            text, nulls = id_of(raw[column.name], column), tuple(id_of(each, column) or "" for each in nulls)
        else:
            text = text_of(raw[column.name], column)
        row[column.name] = within(column, value_of(column, text, nulls))
    return row


def with_references(table: Table, row: dict[str, Any], references: Mapping[str, ReferenceTable]) -> dict[str, Any]:
    """Public joins, one after the other; a row without a match has nulls."""
    row = dict(row)
    for join in table.joins:
        public = references[join.reference].columns
        wanted = row[join.on]
        free = table.column(join.on).model_copy(update={"range": None})
        as_text = id_of if join.on == table.unit_id and free.type == "text" else text_of
        keys = [value_of(free, as_text(key, free), ()) for key in public[join.on]]
        hits = [at for at, key in enumerate(keys) if wanted is not None and key == wanted]
        for name in join.add:
            column = table.column(name)
            text = text_of(public[name][hits[0]], column) if hits else None
            row[name] = within(column, value_of(column, text, ()))
    return row


def with_derived(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """Derived columns in the order in which they are declared."""
    row = dict(row)
    for column in table.columns:
        rule = column.derivation
        if isinstance(rule, Binned):
            row[column.name] = bin_of(rule, row[rule.of])
        elif isinstance(rule, Mapped):
            row[column.name] = target_of(rule, row[rule.of])
        elif isinstance(rule, Computed):
            # What is computed is a double and nothing else, also where it is the very value of another column.
            plain = {name: float(value) if isinstance(value, Written) else value for name, value in row.items()}
            found = within(column, computed(table, rule.sql, plain))
            row[column.name] = float(found) if isinstance(found, Written) else found
    return row


def bin_of(rule: Binned, number: float | None) -> str | None:
    if number is not None:
        for at in range(len(rule.edges) - 1):
            if rule.edges[at] <= Fraction(number) < rule.edges[at + 1]:
                return rule.labels[at]
    return None


def target_of(rule: Mapped, value: Any) -> Any:
    if value is None:
        return None
    for given, key in rule.pairs:
        if type(given) is type(value) and given == value:
            return key
    return rule.otherwise


def stored_rows(table: Table, folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob(table.files.file)):
        said = said_by(table, path.relative_to(folder))
        if table.source.format == "parquet":
            yield from ({**row, **said} for row in pq.ParquetFile(io.BytesIO(path.read_bytes())).read().to_pylist())
            continue
        if table.source.format in KINDS:
            yield from ({**row, **said} for row in read_statistical(path))
            continue
        names: list[str] | None = None
        for record in unpacked(path.read_bytes(), table.source.format).removeprefix(b"\xef\xbb\xbf").split(b"\n"):
            line = record.removesuffix(b"\r")
            if not line:
                continue
            cells = fields_of(line.decode("latin-1"))  # a character for each byte, which it is made again below
            if names is None:
                assert cells is not None
                names = [cell.encode("latin-1").decode() for cell in cells]
            elif cells is None or len(cells) != len(names):
                yield {**dict.fromkeys(names), **said}
            else:
                yield {**dict(zip(names, (cell.encode("latin-1") for cell in cells), strict=True)), **said}


def said_by(table: Table, path: Path) -> dict[str, bytes | None]:
    """What the folders of a path say of all rows below them: ``%`` and two digits are a byte."""
    said: dict[str, bytes | None] = {}
    for column in (each.name for each in table.columns if each.partition):
        (text,) = [part[len(column) + 1 :] for part in path.parts[:-1] if part.startswith(f"{column}=")]
        first, *rest = os.fsencode(text).split(b"%")
        hexadecimal = [re.match(rb"[0-9A-Fa-f]{2}", each) for each in rest]
        tail = (
            b"%" + each if found is None else bytes([int(found[0], 16)]) + each[2:]
            for each, found in zip(rest, hexadecimal, strict=True)
        )
        said[column] = None if text == "__HIVE_DEFAULT_PARTITION__" else first + b"".join(tail)
    return said


def fields_of(line: str) -> list[str] | None:
    """One CSV line, character by character."""
    cells: list[str] = []
    field: list[str] = []
    state = "start"
    for char in line:
        if state == "quoted":
            if char == '"':
                state = "closed"
            else:
                field.append(char)
        elif char == ",":
            cells.append("".join(field))
            field, state = [], "start"
        elif state == "closed":
            if char != '"':
                return None
            field.append('"')
            state = "quoted"
        elif state == "start" and char == '"':
            state = "quoted"
        else:
            field.append(char)
            state = "plain"
    return None if state == "quoted" else [*cells, "".join(field)]
