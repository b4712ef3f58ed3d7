"""The fenced blocks and the files of the documents that a reader may follow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPECS = ROOT / "specs"
STARTER = ROOT / "dprelease" / "starter" / "project"

_FENCE = re.compile(r"^```(?P<language>[a-z]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block of a document; prints as ``file:line``."""

    file: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def documents() -> list[Path]:
    """Every document that a reader may follow."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", STARTER / "README.md"]
    return found + sorted((ROOT / "docs").rglob("*.md")) + sorted(SPECS.rglob("*.md"))


def blocks(*languages: str) -> list[Block]:
    """The fenced blocks in these languages, of all documents."""
    return [block for path in documents() for block in _blocks(path) if block.language in languages]


def _blocks(path: Path) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        yield Block(str(path.relative_to(ROOT)), line, match["language"], match["text"])
