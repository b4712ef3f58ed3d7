"""``dprelease due``: which periods of the schedules are not released, since when, and what is in the way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["due"]


def due(
    specs: Annotated[
        list[Path] | None, typer.Argument(metavar="[SPEC]...", help="Specs; else every one with a schedule.")
    ] = None,
    project: Annotated[Path, typer.Option(help="A folder of the project, where no spec is named.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Periods of every schedule that are not published; exits with 7 where one is due, late, left open or lost."""
    from datetime import UTC

    from dprelease.cli.views import say, say_json
    from dprelease.errors import CheckFailed, SpecError

    now = datetime.now(UTC)
    told, problems = _told(specs or [], project, now)
    if as_json:
        say_json({"now": now.strftime("%Y-%m-%dT%H:%M:%SZ"), "schedules": told})
    else:
        for each in told:
            say("\n".join(_lines(each)))
        if not told and not problems:
            say("no spec of this project has a schedule")
    if problems:
        raise SpecError(problems)
    waiting = [each for each in told if each["alarm"]]
    if waiting:
        left = [slot for slot in waiting[0]["periods"] if slot["alarm"]]
        first = next((slot for slot in left if slot["state"] != "lost"), left[0] if left else None)
        raise CheckFailed(
            f"{len(waiting)} of {len(told)} schedule(s) lack a release",
            detail=", ".join(each["release"] for each in waiting),
            hint=_hint(waiting[0], first),
            code="DPR-C110",
        )


def _told(specs: list[Path], folder: Path, now: datetime) -> tuple[list[dict[str, Any]], list[Any]]:
    """The facts of every schedule, and the problems of specs that cannot be read."""
    import os

    from dprelease.errors import SpecError
    from dprelease.release.books import open_books
    from dprelease.release.due import due_facts, find_scheduled, read_scheduled
    from dprelease.release.project import Project
    from dprelease.release.status import policy_accounts

    problems: list[Any] = []
    if specs:
        found = {}
        for path in specs:
            try:
                found[path] = (Project.find(path.parent), read_scheduled(path))
            except SpecError as error:
                problems += error.problems
    else:
        project = Project.find(folder)
        scheduled, wrong = find_scheduled(project)
        problems += wrong
        found = {Path(os.path.relpath(path)): (project, each) for path, each in scheduled.items()}
    books = {project.folder: (open_books(project), policy_accounts(project)) for project, _ in found.values()}
    return [
        {"spec": str(path), **due_facts(each, *books[project.folder], now)} for path, (project, each) in found.items()
    ], problems


def _lines(facts: Mapping[str, Any]) -> list[str]:
    from dprelease.cli.views import columns

    kind, first = facts["period"], facts["first"]
    head = f"{facts['spec']}: {facts['release']}, every {kind}"
    if first is None:
        return [f"{head}; nothing is released yet, and the spec does not say which {kind} is the first"]
    counts = ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in facts["count"].items())
    rows = []
    unpublished = (each for each in facts["periods"] if each["state"] != "published")
    for (state, blocked), group in groupby(unpublished, key=lambda each: (each["state"], each["blocked"])):
        slots = list(group)
        name = slots[0]["period"]
        name += f" to {slots[-1]['period']} ({len(slots)})" if len(slots) > 1 else ""
        zone = facts["timezone"]
        rows.append(
            [state.replace("_", " "), name, _local(slots[0]["due"], zone), _local(slots[0]["gone"], zone), blocked]
        )
    table = columns(["state", kind, "due", "data kept until", "blocked by"], rows) if rows else ""
    return [f"{head} from {first}; {counts or 'none is over'}", *[f"  {line}" for line in table.splitlines()]]


def _local(moment: str | None, zone: str) -> str:
    """A moment by the clock of the schedule."""
    from zoneinfo import ZoneInfo

    return datetime.fromisoformat(moment).astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %Z") if moment else ""


def _hint(facts: Mapping[str, Any], slot: Mapping[str, Any] | None) -> str:
    """What to type first."""
    if slot is None:
        return f"write `period:` below `release:` in {facts['spec']}: the first one that is released"
    if slot["state"] == "lost":
        return f"the data of {slot['period']} may be gone: where they are not, lengthen `retention`, and run it at once"
    if slot["blocked"] and slot["state"] != "open":
        return f"{slot['period']} waits: {slot['blocked']}"
    return f"dprelease run {facts['spec']} --period {slot['period']}"
