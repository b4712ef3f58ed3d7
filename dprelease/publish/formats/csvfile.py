"""CSV: UTF-8, RFC 4180 (CRLF), one header line, one line per cell.

Text keys are always in quotes and exactly as declared, so ``06`` stays ``06``. A key that begins with ``=``,
``+``, ``-`` or ``@`` is not changed either: what is published is the key, and a spreadsheet that opens the
file may read it as a formula. Numbers are never in quotes; what is not published is an empty field.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from dprelease.catalog.table import Column, Key
from dprelease.estimate import PublishedTable
from dprelease.publish.base import NOTICE, Content, header, key_text

__all__ = ["csv_files", "csv_text"]


def csv_files(content: Content, _: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``tables/<name>.csv`` for every query and derived table."""
    found = {}
    for table in content.tables:
        names = header(table, rehearsal=content.facts.rehearsal)
        text = csv_text(names, table, notice=NOTICE if content.facts.rehearsal else None)
        found[f"tables/{table.name}.csv"] = text.encode()
    return found


def csv_text(names: tuple[str, ...], table: PublishedTable, *, notice: str | None = None) -> str:
    """The text of one table.

    Args:
        names: Of its columns.
        table: The table.
        notice: Repeated in a last column of every line; ``names`` names that column.
    """
    parts: list[Iterable[str]] = [
        _key_cells(column, keys) for column, keys in zip(table.key_columns, table.keys, strict=True)
    ]
    for measure in table.measures:
        parts += [
            _numbers(measure.value.tolist(), measure.places),
            _numbers(measure.standard_error.tolist(), None),
            _numbers(measure.margin.tolist(), measure.places),
            _numbers(measure.lower.tolist(), measure.places),
            _numbers(measure.upper.tolist(), measure.places),
            measure.status,
        ]
    if notice is not None:
        parts.append([_quoted(notice)] * table.cells)
    lines = [",".join(_plain(name) for name in names)]
    lines += [",".join(line) for line in zip(*parts, strict=True)]
    return "".join(f"{line}\r\n" for line in lines)


def _key_cells(column: Column, keys: tuple[Key, ...]) -> list[str]:
    return [_quoted(key_text(key)) if column.type == "text" else key_text(key) for key in keys]


def _numbers(numbers: Sequence[float], places: int | None) -> list[str]:
    if places is None:
        return ["" if math.isnan(number) else repr(number) for number in numbers]
    return ["" if math.isnan(number) else f"{number:.{places}f}" for number in numbers]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _plain(name: str) -> str:
    return _quoted(name) if any(sign in name for sign in ',"\r\n') else name
