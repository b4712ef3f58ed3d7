"""Parquet: typed by the declared columns, with what a reader must know as key/value metadata."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

from dprelease.catalog.table import Column, Key
from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.publish.base import NOTICE, Content, header, key_text

__all__ = ["parquet_cells", "parquet_files", "parquet_keys"]

_LARGEST = 2**63 - 1024  # the largest float64 below 2^63


def parquet_files(content: Content, _: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``tables/<name>.parquet`` for every query and derived table; the bytes depend on pyarrow's version as well."""
    found = {}
    for table in content.tables:
        names = header(table, rehearsal=content.facts.rehearsal)
        arrays = _arrays(table)
        if content.facts.rehearsal:
            arrays.append([NOTICE] * table.cells)
        types = _types(table.key_columns, [each.integer for each in table.measures])
        found[f"tables/{table.name}.parquet"] = _bytes(names, arrays, types, _metadata(content, table.title))
    return found


def _types(key_columns: tuple[Column, ...], integer: list[bool]) -> list[str]:
    """The Arrow type of each column; counts are int64, other numbers float64, dates date32."""
    keys = {"text": "string", "integer": "int64", "boolean": "bool", "date": "date32"}
    found = [keys[column.type] for column in key_columns]
    for whole in integer:
        number = "int64" if whole else "float64"
        found += [number, "float64", number, number, number, "string"]
    return found


def _metadata(content: Content, title: str) -> dict[str, str]:
    """The key/value metadata of one table."""
    plan = content.plan
    found = {
        "title": title,
        "release": plan.release.name,
        "period": plan.release.period,
        "confidence": str(plan.publish.confidence),
        "plan_fingerprint": content.facts.plan_fingerprint,
    }
    if content.facts.rehearsal:
        found["notice"] = NOTICE
    return found


def _arrays(table: PublishedTable) -> list[Any]:
    found: list[Any] = [
        [_stored(key, column) for key in keys] for column, keys in zip(table.key_columns, table.keys, strict=True)
    ]
    for measure in table.measures:
        found += [
            _numbers(measure, measure.value),
            measure.standard_error,
            _numbers(measure, measure.margin),
            _numbers(measure, measure.lower),
            _numbers(measure, measure.upper),
            list(measure.status),
        ]
    return found


def _stored(key: Key, column: Column) -> Key | date:
    return date.fromisoformat(str(key)) if column.type == "date" else key


def _numbers(measure: PublishedMeasure, numbers: np.ndarray[Any, Any]) -> Any:
    if not measure.integer:
        return numbers
    held = np.clip(np.nan_to_num(numbers), -_LARGEST, _LARGEST).astype(np.int64)
    return np.ma.masked_array(held, mask=np.isnan(numbers))


def _bytes(names: tuple[str, ...], arrays: list[Any], types: list[str], metadata: dict[str, str]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    named = [*types, "string"][: len(names)]
    made = [_array(pa, values, name) for values, name in zip(arrays, named, strict=True)]
    schema = pa.schema([pa.field(name, each.type) for name, each in zip(names, made, strict=True)])
    table = pa.Table.from_arrays(made, schema=schema.with_metadata(metadata))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", version="2.6", row_group_size=1 << 20)
    return sink.getvalue()


def _array(pa: Any, values: Any, name: str) -> Any:
    kind = {
        "string": pa.string(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "date32": pa.date32(),
    }[name]
    if isinstance(values, np.ma.MaskedArray):
        return pa.array(values.data, type=kind, mask=np.ma.getmaskarray(values))
    return pa.array(values, type=kind, from_pandas=True)


def parquet_keys(data: bytes, keys: int) -> tuple[list[str], list[tuple[str, ...]]] | None:
    """The columns of a Parquet file and the first ``keys`` of them as text, row by row; None if it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError):
        return None
    read = [[key_text(key) for key in column.to_pylist()] for column in table.columns[:keys]]
    rows: list[tuple[str, ...]] = list(zip(*read, strict=True)) if keys else [()] * table.num_rows
    return list(table.column_names), rows


def parquet_cells(data: bytes) -> dict[str, list[str]]:
    """The columns of a Parquet file as text, as the CSV file has them; what is null is empty."""
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(data))
    return {
        name: ["" if cell is None else key_text(cell) for cell in column.to_pylist()]
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
