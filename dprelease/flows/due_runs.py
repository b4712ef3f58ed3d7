"""What a scheduled run does: ask the ledger which periods wait, and release them one after the other."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prefect import runtime

from dprelease.flows.concurrency import limit_names, one_at_a_time
from dprelease.flows.pages import Listener, rename_run
from dprelease.flows.run_context import RunContext, StepFailed, attempted
from dprelease.flows.tasks import walk_steps

if TYPE_CHECKING:
    from dprelease.release.run import Request
    from dprelease.release.schedule.due_runs import Agenda

__all__ = ["release_due"]

_DOING = "all that is due"
"""What others are told who find the lock of a period that a scheduled run works on."""


def release_due(target: str, period: str, most: int, *, synthetic: bool) -> str:
    """Release one period, or all that wait; one that fails does not keep the next one from being tried.

    Returns:
        What became of it, for Prefect's page: public.

    Raises:
        StepFailed: With class, code and period of every one that failed, and nothing else.
    """
    listener = Listener()
    accounts = [] if synthetic else limit_names(runtime.flow_run.tags)
    if period or synthetic:
        from dprelease.release.run import Request

        request = Request(target=target, synthetic=synthetic, period=period or None)
        one = [(period or "rehearsal", request, True)]
        with one_at_a_time(accounts):
            return _released(one, listener, 0, release=Path(target).stem, doing="one period")
    if ended := _nothing_to_do(_agenda(target), listener):
        return ended  # asked before any line is waited in: most runs end here
    with one_at_a_time(accounts):
        agenda = _agenda(target)  # whoever was before us has done some of it
        if ended := _nothing_to_do(agenda, listener):
            return ended
        first, last = agenda.turns[0], agenda.turns[: most or None][-1]
        rename_run(f"{agenda.release}/{first}" + (f" to {last}" if last != first else ""), listener)
        turns = [(str(turn), turn.request(target), turn.resumes) for turn in agenda.turns]
        stays = partial(_stays_charged, target, agenda)
        return _released(turns, listener, most, release=agenda.release, charged=stays)


def _agenda(target: str) -> Agenda:
    from dprelease.release.schedule.due_runs import agenda

    # All of it: a turn that fails for ever is the first one of every run, and must not be the only one.
    tell = partial(_tell, Path(target).stem)
    return attempted("what is due", lambda: agenda(Path(target), datetime.now(UTC)), tell)


def _nothing_to_do(agenda: Agenda, listener: Listener) -> str:
    """Why a run ends at once; empty: it does not.

    Where another scheduled run works on the release, all is left to it: it takes what is due in order, and the next
    run finds what it did not get to. Where somebody releases a period by hand, that one alone is left to them.
    """
    held = [left for left in agenda.left if left.why == "held"]
    ours = [left for left in held if f"doing: {_DOING}" in left.says]
    if ours:
        rename_run(f"{agenda.release}: another run is at work", listener)
        return f"{ours[0].period} is being released by another run, which goes on with what is due"
    if agenda.turns:
        return ""
    rename_run(f"{agenda.release}: nothing due", listener)
    return "; ".join(["nothing is due", *(f"{left.period} is left to the process that works on it" for left in held)])


def _stays_charged(target: str, agenda: Agenda, name: str) -> bool:
    from dprelease.release.schedule.due_runs import stays_charged

    turn = next(each for each in agenda.turns if str(each) == name)
    return stays_charged(Path(target), agenda.release, turn)


def _released(
    turns: Sequence[tuple[str, Request, bool]],
    listener: Listener,
    most: int,
    *,
    release: str,
    doing: str = _DOING,
    charged: Callable[[str], bool] = lambda name: False,
) -> str:
    """Release them, one after the other.

    Args:
        turns: Name, request, and whether it is open already.
        listener: Is told what becomes of each.
        most: At most so many are begun or finished; one that fails and is charged nothing does not count, for it is
            the first one of every run.
        release: Its name, for the lines of the log.
        doing: What others are told who find the lock.
        charged: Whether one that has failed stays charged: after that no new one is begun.
    """
    done: list[str] = []
    failed: list[str] = []
    charged_names: list[str] = []
    waiting: list[str] = []
    for name, request, resumes in turns:
        if most and len(done) + len(charged_names) == most:
            break
        if charged_names and not resumes:
            waiting.append(name)
            continue
        try:
            work = RunContext(request, leaves=True, doing=doing)
            done.append(f"{name}: {_one(work, name, release, listener)}")
        except StepFailed as error:
            failed.append(f"{name}: {error.kind}")
            if charged(name):
                charged_names.append(name)
            listener.say(f"{name} failed: {error.kind}; the process that ran it says more", logging.ERROR)
    if not failed:
        return ", ".join(done)
    stays = f"; {charged_names[0]} stays charged, and {len(waiting)} more were not begun" if waiting else ""
    raise StepFailed(f"{len(failed)} of {len(done) + len(failed)} failed ({', '.join(failed)}){stays}")


def _one(work: RunContext, name: str, release: str, listener: Listener) -> str:
    """Release one period; what became of it."""
    with work:
        try:
            return walk_steps(work, name, listener)
        except StepFailed:
            _tell(f"{release}/{name}", str(work.failure()))
            raise


def _tell(about: str, text: str) -> None:
    """To whoever looks at the process that runs this; our errors hold no data.

    Each line begins with the time in UTC and the release: several runs write into one log.
    """
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    sys.stderr.write("".join(f"{at} ERROR {about}: {line}\n" for line in text.splitlines()))
    sys.stderr.flush()
