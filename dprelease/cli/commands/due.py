"""``dprelease due``: which periods of the schedules are not released, since when, and what is in the way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from dprelease.cli.options import Folder, Json
from dprelease.cli.views import say, say_json, text_table
from dprelease.errors import CheckFailed, SpecError

__all__ = ["due_command", "due_schedules"]


def due_command(
    specs: Annotated[
        list[Path] | None, typer.Argument(metavar="[SPEC]...", help="Specs; else every one with a schedule.")
    ] = None,
    project: Folder = Path(),
    as_json: Json = False,
) -> None:
    """Periods of every schedule that are not published; exits with 7 where one is due, late, left open or lost."""
    from datetime import UTC

    now = datetime.now(UTC)
    schedules, problems = due_schedules(specs or [], project, now)
    if as_json:
        say_json({"now": now.strftime("%Y-%m-%dT%H:%M:%SZ"), "schedules": schedules})
    else:
        for each in schedules:
            say("\n".join(_lines(each, now)))
        if not schedules and not problems:
            say("no spec of this project has a schedule")
    if problems:
        raise SpecError(problems)
    waiting = sorted((each for each in schedules if each["alarm"]), key=lambda each: not _last_chances(each))
    if waiting:
        last = [
            f"last chance for {each['release']} {slot['period']}" for each in waiting for slot in _last_chances(each)
        ]
        raise CheckFailed(
            f"{len(waiting)} of {len(schedules)} schedule(s) lack a release",
            detail=", ".join([*last, *(each["release"] for each in waiting if not _last_chances(each))]),
            hint=_hint(waiting[0]),
            code="DPR-C110",
        )


def due_schedules(specs: list[Path], folder: Path, now: datetime) -> tuple[list[dict[str, Any]], list[Any]]:
    """The facts of every schedule, and the problems of specs that cannot be read."""
    import os

    from dprelease.release.project import Project
    from dprelease.release.records.status import policy_accounts
    from dprelease.release.schedule.due import due_facts, find_scheduled, read_scheduled, same_name

    problems: list[Any] = []
    if specs:
        by_path = {}
        for path in specs:
            try:
                by_path[path] = (Project.find(path.parent), read_scheduled(path))
            except SpecError as error:
                problems += error.problems
    else:
        project = Project.find(folder)
        scheduled, wrong = find_scheduled(project)
        problems += wrong
        by_path = {Path(os.path.relpath(path)): (project, each) for path, each in scheduled.items()}
    twice = {project.folder: same_name(_of(project.folder, by_path)) for project, _ in by_path.values()}
    problems += [problem for each in twice.values() for problem in each.values()]
    by_path = {
        path: (project, each) for path, (project, each) in by_path.items() if each.name not in twice[project.folder]
    }
    books = {project.folder: (project.open_ledger(), policy_accounts(project)) for project, _ in by_path.values()}
    schedules = []
    for path, (project, each) in by_path.items():
        facts = due_facts(each, *books[project.folder], now)
        invalid = _invalid(project, path, each, facts)
        problems += invalid
        schedules.append({"spec": str(path), **facts, "invalid": [problem.code for problem in invalid]})
    return schedules, problems


def _invalid(project: Any, path: Path, scheduled: Any, facts: Mapping[str, Any]) -> list[Any]:
    """The problems because of which nothing of a spec can be released, whatever is due: as `validate` has them."""
    from dprelease.spec.period import EXAMPLES

    schedule = scheduled.schedule
    waiting = (slot["period"] for slot in facts["periods"] if slot["state"] in ("due", "late"))
    # Any period would do that the schedule has, for what is written in the spec is the same in all of them.
    period = next(waiting, min(EXAMPLES[schedule.period], schedule.last or EXAMPLES[schedule.period]))
    try:
        loaded = project.load(path, period)
        project.resolve(loaded)
        project.accounts(loaded)
    except SpecError as error:
        return list(error.problems)
    return []


def _of(folder: Path, by_path: Mapping[Path, tuple[Any, Any]]) -> dict[Path, Any]:
    return {path: each for path, (project, each) in by_path.items() if project.folder == folder}


def _last_chances(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [slot for slot in facts["periods"] if slot["alarm"] and slot["last_chance"]]


def _lines(facts: Mapping[str, Any], now: datetime) -> list[str]:
    kind, first = facts["period"], facts["first"]
    head = f"{facts['spec']}: {facts['release']}, every {kind}"
    codes = ", ".join(dict.fromkeys(facts["invalid"]))
    wrong = [f"  the spec is invalid ({codes}): nothing is released before that is mended"] if codes else []
    if first is None:
        return [f"{head}; nothing is released yet, and the spec does not say which {kind} is the first", *wrong]
    counts = ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in facts["count"].items())
    rows = []
    unpublished = (each for each in facts["periods"] if each["state"] != "published")
    for (state, why), group in groupby(unpublished, key=lambda each: (_state(each), each["blocked"] or each["why"])):
        slots = list(group)
        name = slots[0]["period"]
        name += f" to {slots[-1]['period']} ({len(slots)})" if len(slots) > 1 else ""
        rows.append([state, name, *_times(slots[0], facts["timezone"], now), why])
    for each in facts["revisions"]:
        name = f"{each['period']} revision {each['revision']}"
        rows.append([_state(each), name, *_times(each, facts["timezone"], now), each["blocked"]])
    table = text_table(["state", kind, "due", "data kept until", "why"], rows) if rows else ""
    ends = f" to {facts['last']}" if facts["last"] else ""
    lines = [f"  {line}" for line in table.splitlines()]
    return [f"{head} from {first}{ends}; {counts or 'none is over'}", *wrong, *lines]


def _state(slot: Mapping[str, Any]) -> str:
    return str(slot["state"]).replace("_", " ") + (", last chance" if slot.get("last_chance") else "")


def _times(slot: Mapping[str, Any], zone: str, now: datetime) -> list[str]:
    """When it became due, until when its data are kept, and how long that still is."""
    if slot["state"] == "skipped":
        return ["", ""]
    left = ""
    if slot["gone"] and slot["state"] in ("open", "due", "late"):
        hours = int((datetime.fromisoformat(slot["gone"]) - now).total_seconds() // 3600)
        left = f", {hours // 24} day(s) left" if hours >= 48 else f", {hours} hour(s) left" if hours >= 0 else ""
    return [_local(slot["due"], zone), _local(slot["gone"], zone) + left]


def _local(moment: str | None, zone: str) -> str:
    """A moment by the clock of the schedule."""
    from zoneinfo import ZoneInfo

    return datetime.fromisoformat(moment).astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %Z") if moment else ""


def _hint(facts: Mapping[str, Any]) -> str:
    """What to type first: for what is most urgent, then for the earliest."""
    left = [each for each in (*facts["periods"], *facts["revisions"]) if each["alarm"]]
    if not left:
        return f"write `period:` below `release:` in {facts['spec']}: the first one that is released"
    slot = min(left, key=lambda each: (each["state"] == "lost", not each.get("last_chance")))
    period, command = slot["period"], f"dprelease run {facts['spec']} --period {slot['period']}"
    if slot["state"] == "lost":
        return (
            f"the data of {period} may be gone: where they are not, lengthen `retention`, and run it at once; "
            f"where they are, say so: `schedule: {{skip: {{{period}: REASON}}}}`"
        )
    if slot["state"] == "open":
        return f"{command} --as-planned"
    if slot["blocked"]:
        return f"{period} waits: {slot['blocked']}"
    return f"{command} --revision {slot['revision']}" if "revision" in slot else command
