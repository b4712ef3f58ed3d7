"""What several commands take: options, and a yes before something that is not to be done by mistake."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.errors import DpReleaseError, Problem, SpecError, Where

if TYPE_CHECKING:
    from dprelease.ledger import Ledger
    from dprelease.release.project import Project

__all__ = [
    "INTERRUPTED",
    "Folder",
    "Json",
    "Period",
    "Stopped",
    "Why",
    "Yes",
    "open_project",
    "require_settings",
    "require_yes",
    "stated_project",
]


def stated_project(context: typer.Context, parameter: typer.CallbackParam, folder: Path) -> Path:
    """The folder of ``--project``, which has to be a project's own: one above it may be another office's.

    Where nothing was typed, a project is looked for from the working folder upward.

    Raises:
        SpecError: It is not there, or has no ``dprelease.yaml`` (DPR-S918).
    """
    source = context.get_parameter_source(parameter.name or "")
    if source is not None and source.name != "DEFAULT" and not context.resilient_parsing:
        require_settings(folder)
    return folder


def require_settings(folder: Path) -> None:
    """Refuse a folder that was named as a project's and has no ``dprelease.yaml`` of its own.

    Raises:
        SpecError: DPR-S918.
    """
    from dprelease.release.project import SETTINGS

    if (folder / SETTINGS).is_file():
        return
    says = f"has no {SETTINGS}" if folder.is_dir() else "is no folder that is there"
    above = next((each for each in folder.absolute().parents if (each / SETTINGS).is_file()), None)
    named = f"name the folder of {SETTINGS}"
    hint = f"{named}: `--project {above}`" if above else f"{named}; `dprelease init DIR` writes a project"
    raise SpecError([Problem("DPR-S918", f"`--project {folder}` {says}", hint, Where(str(folder)))])


INTERRUPTED = 130
Folder = Annotated[Path, typer.Option("--project", callback=stated_project, help="The folder of dprelease.yaml.")]
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


class Stopped(SystemExit):
    """A question was answered by Ctrl-C, or by the end of the input: the command ends, with the exit code of that.

    Attributes:
        says: What became of it.
    """

    def __init__(self, says: str) -> None:
        super().__init__(INTERRUPTED)
        self.says = says


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
        Stopped: Ctrl-C.
    """
    if yes:
        return
    if nobody or not sys.stdin.isatty():
        hint = f"type it on a terminal, or add --yes once you have {before}"
        raise refusal(f"nothing was {done}: nobody can be asked here", hint=hint, code=code)
    try:
        answer = typer.confirm(question)
    except typer.Abort:
        raise Stopped(f"nothing was {done}") from None
    if not answer:
        raise refusal(f"nothing was {done}", hint="the same command asks again", code=code)
