"""DataFrames of what is public: published tables, measurements, and the facts of plans and accounts.

Numbers that are whole by their kind are ``Int64``, others ``float64``; what is not published is missing in both, and
the status beside it says why. A public key is an ordered categorical, in declared order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dprelease.catalog.table import Column, Key
from dprelease.publish.base import key_as_text
from dprelease.publish.bundle.checks.tables import ReadTable
from dprelease.publish.columns import REHEARSAL_COLUMN
from dprelease.release.records.status import UNBOUNDED

__all__ = ["Shown", "figures", "integers", "key_values", "number", "table_frame"]

_STATUSES = ["ok", "caution", "unreliable", "not_distinguishable", "blank"]
_MOST_ROWS = 20  # of a table in a notebook


class Shown:
    """A value that a notebook shows as small tables of escaped text, and a terminal as its first line."""

    def _told(self) -> tuple[str, Sequence[str], Mapping[str, pd.DataFrame]]:
        """A title, sentences, and tables by their captions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._told()[0]}>"

    def _repr_html_(self) -> str:
        title, sentences, tables = self._told()
        parts = [f"<p><strong>{escape(title)}</strong></p>", *(f"<p>{escape(each)}</p>" for each in sentences if each)]
        for caption, frame in tables.items():
            rows = f" ({_MOST_ROWS} of {len(frame):,} rows)" if len(frame) > _MOST_ROWS else ""
            parts.append(f"<p><em>{escape(caption)}{rows}</em></p>{_html(frame.head(_MOST_ROWS))}")
        return f"<div>{''.join(parts)}</div>"


def _html(frame: pd.DataFrame) -> str:
    head = "".join(f"<th>{escape(str(name))}</th>" for name in frame)
    rows = ("".join(map(_cell, row)) for row in frame.itertuples(index=False, name=None))
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _cell(value: Any) -> str:
    if pd.isna(value):
        return "<td></td>"
    if isinstance(value, float | int | np.number) and not isinstance(value, bool):
        return f'<td style="text-align:right">{value:{",.6g" if isinstance(value, float) else ","}}</td>'
    return f'<td style="text-align:left">{escape(str(value.date() if isinstance(value, pd.Timestamp) else value))}</td>'


def number(text: str | None) -> float:
    """Decimal text or a ratio of whole numbers as a float; not a number for None.

    >>> number("1/4"), number("1e-9"), number(None)
    (0.25, 1e-09, nan)
    """
    if text is None:
        return float("nan")
    return float("inf") if text == UNBOUNDED else float(Fraction(text))


def figures(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """Facts as a DataFrame that has its columns and their types without any row, too.

    Args:
        rows: The facts, by column.
        columns: By name the type: ``text``, ``number`` (of decimal text), ``count`` or ``flag``.
    """
    kinds: dict[str, Any] = {"text": "string", "number": "float64", "count": "Int64", "flag": "boolean"}
    held: dict[str, list[Any]] = {name: [] for name in columns}
    for row in rows:
        for name, kind in columns.items():
            held[name].append(number(row[name]) if kind == "number" else row[name])
    return pd.DataFrame({name: pd.Series(held[name], dtype=kinds[kind]) for name, kind in columns.items()})


def integers(values: npt.NDArray[Any]) -> Any:
    """Whole numbers, missing where a float is not a number.

    Raises:
        ValueError: If one of them is not whole.
    """
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    whole = np.where(missing, 0, values).astype(np.int64)
    if not np.array_equal(whole[~missing], values[~missing]):
        raise ValueError("a number is not whole")
    return pd.arrays.IntegerArray(whole, missing)


def key_values(column: Column, known: Sequence[Key], codes: npt.NDArray[Any], *, labels: bool = False) -> Any:
    """The keys of a table's rows: an ordered categorical where they are public, else values of their type.

    Args:
        column: The key column.
        known: Different keys, none twice.
        codes: Shape ``(rows,)``: the place in ``known`` of each row's key.
        labels: Whether public keys are shown by their labels, where they have such.
    """
    declared = column.keys
    if declared is None:
        return _typed(column, known)[codes]
    place = {key: at for at, key in enumerate(declared)}
    held = np.array([place[key] for key in known], dtype=np.int64)[codes]
    categories = _labelled(column, declared) if labels and column.labels else pd.Index(_typed(column, declared))
    return pd.Categorical.from_codes(held, dtype=pd.CategoricalDtype(categories, ordered=True))


def _typed(column: Column, keys: Sequence[Key]) -> Any:
    """Keys by the type of their column; text stays text, whatever it looks like."""
    if column.type == "date":
        return pd.array(np.array(keys, dtype="datetime64[s]"))
    nullable = {"integer": "Int64", "boolean": "boolean"}
    plain = {"integer": "int64", "boolean": "bool"}  # of categories, none of which is missing
    types: dict[str, Any] = dict(nullable if column.keys is None else plain)
    return pd.array(list(keys), dtype=types.get(column.type, "string"))


def _labelled(column: Column, keys: Sequence[Key]) -> pd.Index[Any]:
    """The label of each key, with the key behind it where two have the same one."""
    words = [column.labels.get(key_as_text(key), key_as_text(key)) for key in keys]
    often = Counter(words)
    labels = [
        f"{word} ({key_as_text(key)})" if often[word] > 1 else word for key, word in zip(keys, words, strict=True)
    ]
    return pd.Index(labels, dtype="string")


def table_frame(table: ReadTable, *, labels: bool = False) -> pd.DataFrame:
    """A published table, with the columns of its file.

    Raises:
        ValueError: If a number that should be whole is not, or a status is none.
        KeyError: If a key is none of the declared ones.
    """
    columns: dict[str, Any] = {}
    keys = {column.name: column for column in table.keys}
    for name in table.names:
        if name in table.columns.values:
            values = table.columns.values[name]
            columns[name] = integers(values) if name in table.whole else values
            continue
        held = table.columns.texts[name].dictionary_encode()
        known, codes = held.dictionary.to_pylist(), held.indices.to_numpy()
        if name in keys:
            columns[name] = key_values(keys[name], [_key(keys[name], text) for text in known], codes, labels=labels)
        elif name == REHEARSAL_COLUMN:
            columns[name] = pd.array(known, dtype="string")[codes]
        else:
            places = np.array([_STATUSES.index(text) for text in known], dtype=np.int8)
            columns[name] = pd.Categorical.from_codes(places[codes], dtype=pd.CategoricalDtype(_STATUSES))
    return pd.DataFrame(columns)


def _key(column: Column, text: str) -> Key:
    if column.type == "integer":
        return int(text)
    return text == "true" if column.type == "boolean" else text
