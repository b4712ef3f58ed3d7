"""A table of a product over all of its periods as one CSV and one Parquet file, made of the CSV files of its bundles.

The first column says which period a row is of, the oldest first; rows of a period stand as they were published. Columns
are united by name: where a period has none of that name its rows are blank. CSV has every number with the digits that
its bundle has; in Parquet every number is a double, so that a column is of one type whatever was published.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

from dprelease.publish.columns import PERIOD_COLUMN, REHEARSAL_COLUMN
from dprelease.publish.csv_text import csv_quoted, escaped, head_line, unescaped
from dprelease.publish.formats.filed import FiledTable

__all__ = ["Row", "StackedTable", "TableOfPeriod", "rows_of_csv", "stacked_over_periods"]

Row = Mapping[str, str]  # by the name of a column the text that its field has; keys as they are
_OTHER_NAME = "publication_period"  # where a key column has the name ``period``
_ARROW = {"text": "string", "integer": "int64", "boolean": "bool", "date": "date32"}


def rows_of_csv(text: str, table: FiledTable) -> list[Row]:
    """The rows of a published CSV file: keys as they were before formulas were escaped, and no column of the period.

    Raises:
        ValueError: If a key that should be escaped is not.
    """
    rows: list[Row] = []
    marked = table.marked
    for row in csv.DictReader(io.StringIO(text, newline="")):
        if table.plan.publish.period_column:
            row.pop(PERIOD_COLUMN, None)
        for name in marked:
            row[name] = unescaped(row[name])
        rows.append(row)
    return rows


@dataclass(frozen=True)
class TableOfPeriod:
    """A table of one period.

    Attributes:
        period: Of which it is.
        table: The table as that period's plan has it.
        rows: As published, from :func:`rows_of_csv`.
    """

    period: str
    table: FiledTable
    rows: Sequence[Row]


@dataclass(frozen=True)
class StackedTable:
    """All periods as one table.

    Attributes:
        period: The name of its first column.
        kinds: The other columns in order, with the type of a key, ``words`` or ``number``.
        marked: Key columns whose texts are escaped in CSV.
        parts: The tables of the periods, the oldest first.
    """

    period: str
    kinds: Mapping[str, str]
    marked: frozenset[str]
    parts: tuple[TableOfPeriod, ...]

    def csv(self) -> bytes:
        """As CSV: texts among the keys in quotes, everything else bare; lines end with CRLF."""
        names = (self.period, *self.kinds)
        return head_line(names) + "".join(f"{line}\r\n" for line in self._lines()).encode()

    def _lines(self) -> Iterator[str]:
        quoted = {name for name, kind in self.kinds.items() if kind == "text" or name == REHEARSAL_COLUMN}
        for part in self.parts:
            period = csv_quoted(part.period)
            for row in part.rows:
                fields = [period]
                for name in self.kinds:
                    text = row.get(name)
                    if text is not None and name in quoted:
                        text = csv_quoted(escaped(text) if name in self.marked else text)
                    fields.append(text or "")
                yield ",".join(fields)

    def parquet(self, metadata: Mapping[str, str]) -> bytes:
        """As Parquet; its bytes depend on pyarrow's version as well.

        Args:
            metadata: What a reader must know, as the file's own key/value pairs.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        made = {self.period: pa.array([each.period for each in self.parts for _ in each.rows], pa.string())}
        for name, kind in self.kinds.items():
            made[name] = _arrow([row.get(name) for each in self.parts for row in each.rows], kind)
        sink = io.BytesIO()
        table = pa.table(made).replace_schema_metadata(dict(metadata))
        pq.write_table(table, sink, compression="zstd", version="2.6")
        return sink.getvalue()


def _arrow(texts: Sequence[str | None], kind: str) -> Any:
    """A column of its type; of texts where a field of it is none of that type."""
    import pyarrow as pa

    read: Callable[[str], Any] = _READ.get(kind, str)
    try:
        return pa.array([None if each is None else read(each) for each in texts], _ARROW.get(kind, _of(kind)))
    except (ValueError, OverflowError):
        return pa.array(texts, pa.string())


def _of(kind: str) -> str:
    return "float64" if kind == "number" else "string"


def _number(text: str) -> float | None:
    return float(text) if text else None


_READ: Mapping[str, Callable[[str], Any]] = {
    "integer": int,
    "boolean": partial(str.__eq__, "true"),
    "date": date.fromisoformat,
    "number": _number,
}


def stacked_over_periods(parts: Sequence[TableOfPeriod]) -> StackedTable:
    """All periods of a table as one.

    Args:
        parts: The newest first, which also has its columns first; at least one.
    """
    keys: dict[str, str] = {}
    others: dict[str, str] = {}
    for part in parts:
        for column in part.table.columns:
            same = keys.setdefault(column.name, column.type) == column.type
            keys[column.name] = column.type if same else "text"
        for name in part.rows[0] if part.rows else ():
            others.setdefault(name, "words" if name in part.table.words else "number")
    columns = {name: kind for name, kind in others.items() if name not in keys and name != REHEARSAL_COLUMN}
    last = {REHEARSAL_COLUMN: "words"} if REHEARSAL_COLUMN in others else {}
    marked = frozenset[str]().union(*(part.table.marked for part in parts))
    name = _OTHER_NAME if PERIOD_COLUMN in (*keys, *columns) else PERIOD_COLUMN
    return StackedTable(name, {**keys, **columns, **last}, marked, tuple(reversed(parts)))
