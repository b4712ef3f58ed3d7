"""What several commands take: options, and a yes before something that is not to be done by mistake."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.errors import DpReleaseError

if TYPE_CHECKING:
    from dprelease.ledger import Ledger
    from dprelease.release.project import Project

__all__ = ["Folder", "Json", "Period", "Why", "Yes", "open_project", "require_yes"]

Folder = Annotated[Path, typer.Option("--project", help="A folder of the project.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Period = Annotated[
    str | None, typer.Option("--period", metavar="PERIOD", help="Takes the place of `release.period`: 2024-03.")
]
Why = Annotated[str, typer.Option(help="The reason; it is kept in the entry.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


def open_project(folder: Path) -> tuple[Project, Ledger]:
    """The project that a folder belongs to, and its ledger; as ``Project.find`` and ``open_ledger`` raise."""
    from dprelease.release.project import Project

    project = Project.find(folder)
    return project, project.open_ledger()


def require_yes(
    question: str,
    refusal: type[DpReleaseError],
    code: str,
    done: str = "done",
    before: str = "read what it will do",
    *,
    yes: bool,
    nobody: bool = False,
) -> None:
    """Ask on a terminal, and stop where the answer is not yes; nothing was done then.

    Args:
        question: That is answered with yes or no.
        refusal: The class of the error.
        code: Its code.
        done: What then is not: ``signed``.
        before: What to have done before going on without being asked.
        yes: The answer was given already.
        nobody: Nobody reads the question.

    Raises:
        DpReleaseError: Nobody can be asked, or the answer is no.
    """
    if yes:
        return
    if nobody or not sys.stdin.isatty():
        hint = f"type it on a terminal, or add --yes once you have {before}"
        raise refusal(f"nothing was {done}: nobody can be asked here", hint=hint, code=code)
    if not typer.confirm(question):
        raise refusal(f"nothing was {done}", hint="the same command asks again", code=code)
