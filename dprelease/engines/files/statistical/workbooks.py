"""What an Excel workbook holds: a cell is a text, a number or a moment, whatever the cells above and below it are.

A cell means what its text means, as a stored value of any other format does: the number 6 is the text ``6``, also where
the sheet shows it as ``06``. No formula is worked out: what counts is the value that was saved with it. A cell that
shows an error, a time of day or a length of time is null; an empty text is an empty cell. A line without a value is no
row, wherever it stands, and the first line with one names the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.catalog.table import ColumnType, Table
from dprelease.engines.files.rows import stored_texts
from dprelease.engines.files.statistical.files import StatisticalFile
from dprelease.engines.files.statistical.process import dictionary_of, parsed_blocks

__all__ = ["WorkbookFile"]


class WorkbookFile(StatisticalFile):
    """A workbook with one sheet that has values, hidden ones counted; its parser's process is that of such files."""

    def _columns(self, table: Table, path: Path, places: Sequence[int], few: Sequence[int]) -> Iterator[list[Any]]:
        names = dictionary_of(self._kind, path).names
        declared: dict[bytes, ColumnType] = {column.name.encode(): column.type for column in table.columns}
        kinds = [declared.get(names[at], "text") for at in places]
        for block in parsed_blocks(self._kind, path, places, few):
            yield [_texts(each, kind) for each, kind in zip(block, kinds, strict=True)]


def _texts(cells: Any, kind: ColumnType) -> Any:
    """Cells as their texts under a declared type: bytes, null where there is none."""
    numbers = stored_texts(cells.field("number"), kind)
    moments = stored_texts(cells.field("moment").cast(pa.timestamp("ms")), kind)
    return pc.coalesce(cells.field("text"), numbers.cast(pa.binary()), moments.cast(pa.binary()))
