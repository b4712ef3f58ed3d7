"""Keys that a spec spells out, and how a key is written as a label's name."""

from __future__ import annotations

from datetime import date, timedelta

from dprelease.catalog.table import Binned, ColumnType, Key
from dprelease.spec.fields.columns import ColumnSpec, KeySpan
from dprelease.spec.text.numbers import Numeral
from dprelease.spec.text.scalars import day

__all__ = ["MOST_KEYS", "label_key", "label_text", "named_key", "span_size", "spelled_out", "type_of"]

MOST_KEYS = 1_000_000


def label_text(key: Key) -> str:
    """A key as the name of a label: ``true`` and ``false`` in small letters."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def label_key(name: str, kind: ColumnType) -> str:
    """The key that the name of a label means, as text: ``01`` is 1 in an integer column.

    >>> label_key("01", "integer"), label_key("01", "text"), label_key("True", "boolean")
    ('1', '01', 'true')
    """
    whole = Numeral(name).whole
    if kind == "integer" and whole is not None:
        return str(whole)
    return name.lower() if kind == "boolean" else name


def named_key(name: str, kind: ColumnType) -> Key | None:
    """The value that a name in a mapping means, by the type of its column; None where it means none.

    >>> named_key("01", "integer"), named_key("01", "text"), named_key("True", "boolean"), named_key("x", "date")
    (1, '01', True, None)
    """
    if kind == "integer":
        whole = Numeral(name).whole
        return whole if whole is not None and abs(whole) < 2**63 else None
    if kind == "boolean":
        return {"true": True, "false": False}.get(name.lower())
    return name if kind == "text" or (kind == "date" and day(name) is not None) else None


def type_of(span: KeySpan) -> ColumnType | None:
    """The type of column that a span fits; None where its ends are of two types."""
    ends = {type(span.from_), type(span.to)}
    return {frozenset({int}): "integer", frozenset({str}): "date"}.get(frozenset(ends))  # type: ignore[return-value]  # two members of ColumnType


def span_size(span: KeySpan) -> int:
    """How many keys a span of one type has; not positive where it is upside down."""
    if isinstance(span.from_, int) and isinstance(span.to, int):
        return span.to - span.from_ + 1
    return (date.fromisoformat(str(span.to)) - date.fromisoformat(str(span.from_))).days + 1


def spelled_out(column: ColumnSpec) -> tuple[Key, ...] | None:
    """The keys of a column in order, where the spec itself says them; None where a reference does, or nothing.

    A span must be of one type, not upside down, and within the limit; bands must be sound. The keys of a map are its
    targets in the order in which they first appear, and then the key of all other values.
    """
    if column.bin is not None:
        return Binned(of=column.bin, edges=column.edges or ()).labels
    if column.map is not None:
        last = () if column.otherwise is None else (column.otherwise,)
        return tuple(dict.fromkeys((*(column.to or {}).values(), *last)))
    if isinstance(column.keys, tuple):
        return column.keys
    if not isinstance(column.keys, KeySpan):
        return None
    first = column.keys.from_
    if isinstance(first, int):
        return tuple(range(first, first + span_size(column.keys)))
    start = date.fromisoformat(first)
    return tuple((start + timedelta(days=number)).isoformat() for number in range(span_size(column.keys)))
