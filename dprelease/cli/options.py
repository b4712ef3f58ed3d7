"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Folder", "Json", "Period", "Why", "Yes"]

Folder = Annotated[Path, typer.Option("--project", help="A folder of the project.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Period = Annotated[
    str | None, typer.Option("--period", metavar="PERIOD", help="Takes the place of `release.period`: 2024-03.")
]
Why = Annotated[str, typer.Option(help="The reason; it is kept in the entry.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
