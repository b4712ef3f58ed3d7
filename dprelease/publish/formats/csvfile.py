"""CSV: UTF-8, RFC 4180 (CRLF), one header line, one line per cell.

Text keys are always in quotes and exactly as declared, so ``06`` stays ``06``. Where they are texts from the data, or
the release asks for it, one that a spreadsheet would run as a formula is escaped (``formulas``). Numbers are never in
quotes; what is not published is an empty field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dprelease.estimate import PublishedTable
from dprelease.plan.document import Publish
from dprelease.publish.base import NOTICE, Content, header
from dprelease.publish.csv_text import (
    Texts,
    constant_texts,
    key_texts,
    key_width,
    line_blocks,
    number_texts,
    quoted,
    word_texts,
)
from dprelease.publish.formulas import escapes
from dprelease.publish.packed import Files, packed

__all__ = ["csv_blocks", "csv_files"]


def csv_files(content: Content, _: Mapping[str, bytes]) -> Files:
    """``tables/<name>.csv`` for every query and derived table."""
    found = {}
    for table in content.tables:
        names = header(table, rehearsal=content.facts.rehearsal)
        publish, notice = content.plan.publish, NOTICE if content.facts.rehearsal else None
        blocks = csv_blocks(names, table, notice=notice, publish=publish)
        found[f"tables/{table.name}.csv"] = packed(blocks)
    return Files(found)


def csv_blocks(
    names: tuple[str, ...], table: PublishedTable, *, notice: str | None = None, publish: Publish | None = None
) -> Iterator[bytes]:
    """The bytes of one table, some thousand lines at a time.

    Args:
        names: Of its columns.
        table: The table.
        notice: Repeated in a last column of every line; ``names`` names that column.
        publish: What the release says of formulas; None: nothing is escaped.
    """
    parts: list[Texts] = [
        key_texts(column, keys, escape=publish is not None and escapes(publish, column))
        for column, keys in zip(table.key_columns, table.keys, strict=True)
    ]
    for measure in table.measures:
        parts += [
            number_texts(measure.value, measure.places),
            number_texts(measure.standard_error, None),
            number_texts(measure.margin, measure.places),
            number_texts(measure.lower, measure.places),
            number_texts(measure.upper, measure.places),
            word_texts(measure.status),
        ]
        parts += [number_texts(measure.unadjusted, None)] if measure.unadjusted is not None else []
    if notice is not None:
        parts.append(constant_texts(quoted(notice)))
    return line_blocks(names, parts, table.cells, key_width(table.keys))
