"""Parquet: typed by the declared columns, with what a reader must know as key/value metadata."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Column, Key
from dprelease.estimate import Coded, PublishedTable, coded
from dprelease.publish.base import NOTICE, Content
from dprelease.publish.columns import endings, table_header
from dprelease.publish.formats.cube import PARTS, UNROUNDED
from dprelease.publish.packed import Data, Files, pack_whole
from dprelease.publish.stacked import Stack, stacks

__all__ = ["parquet_bytes", "parquet_files"]

Floats = npt.NDArray[np.float64]
Part = Callable[[int, int], Any]  # an Arrow array of the rows from a first to a last one (not among them)
_ROWS = 1 << 20  # in a group of rows
_LARGEST = 2**63 - 1024  # the largest float64 below 2^63


def parquet_files(content: Content, _: Mapping[str, bytes]) -> Files:
    """``tables/<name>.parquet`` for every query and derived table; the bytes depend on pyarrow's version as well."""
    rehearsal, found = content.facts.rehearsal, dict[str, Data]()
    for stack in stacks(content.tables):
        if len(stack.tables) == 1:
            made = [pack_whole(parquet_bytes(stack.whole, _metadata(content, stack.whole), rehearsal=rehearsal))]
        else:
            told = [_metadata(content, table) for table in stack.tables]
            made = list(_small_files(stack, told, rehearsal=rehearsal))
        found |= {f"tables/{table.name}.parquet": data for table, data in zip(stack.tables, made, strict=True)}
    return Files(found)


def _metadata(content: Content, table: PublishedTable) -> dict[str, str]:
    """The key/value metadata of one table."""
    plan = content.plan
    found = {
        "title": table.title,
        "release": plan.release.name,
        "period": plan.release.period,
        "confidence": str(plan.publish.confidence),
        "plan_fingerprint": content.facts.plan_fingerprint,
    }
    percentages = [each.name for each in table.measures if each.unit]
    if percentages:
        found["percent"] = ", ".join(percentages)
    if content.facts.rehearsal:
        found["notice"] = NOTICE
    return found


def _columns(table: PublishedTable, *, notice: bool) -> Iterator[tuple[str, Part]]:
    """The Arrow type of each column, and what makes a part of it; counts are int64, other numbers float64."""
    kinds = {"text": "string", "integer": "int64", "boolean": "bool", "date": "date32"}
    if table.period:
        yield "string", _constant(table.period)
    for column, keys in zip(table.key_columns, table.keys, strict=True):
        yield kinds[column.type], _coded(coded(keys).mapped(partial(_stored, column)), kinds[column.type])
    for measure in table.measures:
        kind = "int64" if measure.integer else "float64"
        whole = _whole_part if measure.integer else _part
        for ending in endings(measure):
            if ending == "_status":
                yield "string", _coded(coded(measure.status), "string")
            elif ending in UNROUNDED:
                yield "float64", partial(_part, getattr(measure, PARTS[ending]))
            else:
                yield kind, partial(whole, getattr(measure, PARTS[ending]))
    if notice:
        yield "string", _constant(NOTICE)


def _constant(text: str) -> Part:
    import pyarrow as pa

    return lambda first, last: pa.repeat(pa.scalar(text, pa.string()), last - first)


def _stored(column: Column, key: Key) -> Key | date:
    return date.fromisoformat(str(key)) if column.type == "date" else key


def _coded(column: Coded[Any], kind: str) -> Part:
    import pyarrow as pa

    known = pa.array(list(column.keys), type=pa.type_for_alias(kind))
    return lambda first, last: known.take(pa.array(column.part(first, last)))


def _part(numbers: Floats, first: int, last: int) -> Any:
    import pyarrow as pa

    return pa.array(np.ascontiguousarray(numbers[first:last]), from_pandas=True)


def _whole_part(numbers: Floats, first: int, last: int) -> Any:
    import pyarrow as pa

    part = numbers[first:last]
    held = np.clip(np.nan_to_num(part), -_LARGEST, _LARGEST).astype(np.int64)
    return pa.array(held, mask=np.isnan(part))


def parquet_bytes(table: PublishedTable, metadata: dict[str, str], *, rehearsal: bool) -> bytes:
    """The file of one table; one group of rows after the other is made and written.

    Args:
        table: The table.
        metadata: What a reader must know, as the file's own key/value pairs.
        rehearsal: Whether a last column says so.
    """
    schema, columns = _schema(table, rehearsal=rehearsal)
    starts = range(0, table.cells, _ROWS) or (0,)
    parts = (_rows(schema, columns, first, min(first + _ROWS, table.cells)) for first in starts)
    return _written(parts, schema.with_metadata(metadata))


def _small_files(stack: Stack, metadata: Sequence[dict[str, str]], *, rehearsal: bool) -> Iterator[bytes]:
    """The files of the tables of a stack; each has its own metadata."""
    schema, columns = _schema(stack.whole, rehearsal=rehearsal)
    rows = _rows(schema, columns, 0, stack.whole.cells)
    for (_, first, last), told in zip(stack.parts(), metadata, strict=True):
        yield _written([rows.slice(first, last - first)], schema.with_metadata(told))


def _schema(table: PublishedTable, *, rehearsal: bool) -> tuple[Any, list[Part]]:
    """The Arrow schema of a table, and what makes a part of each column."""
    import pyarrow as pa

    names, columns = table_header(table, rehearsal=rehearsal), list(_columns(table, notice=rehearsal))
    fields = [pa.field(name, pa.type_for_alias(kind)) for name, (kind, _) in zip(names, columns, strict=True)]
    return pa.schema(fields), [part for _, part in columns]


def _rows(schema: Any, columns: Sequence[Part], first: int, last: int) -> Any:
    import pyarrow as pa

    return pa.Table.from_arrays([part(first, last) for part in columns], schema=schema)


def _written(parts: Iterable[Any], schema: Any) -> bytes:
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, compression="zstd", version="2.6") as writer:
        for part in parts:
            writer.write_table(part, row_group_size=_ROWS)
    return sink.getvalue()
