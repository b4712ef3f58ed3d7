"""What a certificate is made of: headings, sentences, lists and tables of plain text, in reading order.

No text is markup, neither here nor in the template: whatever an author or a file says is shown as these letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dprelease.publish.certificate.glyphs import BREAK, in_lines

__all__ = ["BLANK", "Block", "BlockColumn", "BlockHeading", "BlockList", "BlockText", "CertificateTable", "texts_of"]

BLANK = ""  # a cell that is a line to write on


@dataclass(frozen=True)
class BlockHeading:
    """A heading of a section."""

    text: str

    def as_data(self) -> dict[str, Any]:
        """As the template reads it."""
        return {"kind": "heading", "text": in_lines(self.text)}


@dataclass(frozen=True)
class BlockText:
    """A paragraph; ``claim`` is what the whole certificate says, ``notice`` a warning that comes before all else."""

    text: str
    look: Literal["plain", "small", "strong", "lead", "claim", "notice"] = "plain"

    def as_data(self) -> dict[str, Any]:
        """As the template reads it."""
        return {"kind": "words", "text": in_lines(self.text), "look": self.look}


@dataclass(frozen=True)
class BlockList:
    """A list of sentences."""

    items: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """As the template reads it."""
        return {"kind": "list", "items": [*map(in_lines, self.items)]}


@dataclass(frozen=True)
class BlockColumn:
    """A column of a table.

    Attributes:
        head: Its head; every column has one, and it is what a screen reader says before a cell.
        width: Parts of the width that columns of texts share; 0: as wide as its content.
        look: ``number`` is set to the right, ``exact`` in signs of one width, for digits and hashes.
    """

    head: str
    width: int = 1
    look: Literal["text", "number", "exact"] = "text"


@dataclass(frozen=True)
class CertificateTable:
    """A table with its caption above it.

    Attributes:
        caption: What it shows.
        columns: Its columns; the first one says what a row is about.
        rows: Its cells; ``BLANK`` is a line to write on.
        tall: Whether its rows are high enough to be written in, and never cut by the end of a page.
    """

    caption: str
    columns: tuple[BlockColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    tall: bool = False

    def as_data(self) -> dict[str, Any]:
        """As the template reads it."""
        return {
            "kind": "table",
            "caption": in_lines(self.caption),
            "heads": [in_lines(column.head) for column in self.columns],
            "widths": [column.width for column in self.columns],
            "looks": [column.look for column in self.columns],
            "rows": [[*map(in_lines, row)] for row in self.rows],
            "tall": self.tall,
        }


Block = BlockHeading | BlockText | BlockList | CertificateTable


def texts_of(blocks: Sequence[Block]) -> Iterator[str]:
    """Every text of a certificate, in reading order: heads, cells, items and paragraphs, each by itself."""
    for block in blocks:
        data = block.as_data()
        for name in ("caption", "text"):
            if name in data:
                yield _whole(data[name])
        for row in (data.get("heads", ()), *data.get("rows", ()), data.get("items", ())):
            yield from map(_whole, row)


def _whole(text: str) -> str:
    return text.replace(BREAK, "")
