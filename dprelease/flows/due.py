"""What a scheduled run does: ask the ledger which periods wait, and release them one after the other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from prefect import runtime

from dprelease.flows.limits import limit_names, one_at_a_time
from dprelease.flows.pages import Listener, rename_run
from dprelease.flows.steps import walk_steps
from dprelease.flows.work import StepFailed, Work, attempted

if TYPE_CHECKING:
    from dprelease.release.catchup import Agenda
    from dprelease.release.run import Request

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
        with one_at_a_time(accounts):
            return _released([(period or "rehearsal", request)], listener, 0, "one period")
    if ended := _nothing_to_do(_agenda(target), listener):
        return ended  # asked before any line is waited in: most runs end here
    with one_at_a_time(accounts):
        agenda = _agenda(target)  # whoever was before us has done some of it
        if ended := _nothing_to_do(agenda, listener):
            return ended
        first, last = agenda.turns[0], agenda.turns[: most or None][-1]
        rename_run(f"{agenda.release}/{first}" + (f" to {last}" if last != first else ""), listener)
        return _released([(str(turn), turn.request(target)) for turn in agenda.turns], listener, most)


def _agenda(target: str) -> Agenda:
    from dprelease.release.catchup import agenda

    # All of it: a turn that fails for ever is the first one of every run, and must not be the only one.
    return attempted("what is due", lambda: agenda(Path(target), datetime.now(UTC)), _tell)


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


def _released(turns: Sequence[tuple[str, Request]], listener: Listener, most: int, doing: str = _DOING) -> str:
    told: list[str] = []
    failed: list[str] = []
    for name, request in turns:
        if most and len(told) == most:
            break
        try:
            told.append(f"{name}: {_one(Work(request, leaves=True, doing=doing), name, listener)}")
        except StepFailed as error:
            failed.append(f"{name}: {error.kind}")
            listener.say(f"{name} failed: {error.kind}; the process that ran it says more")
    if not failed:
        return ", ".join(told)
    raise StepFailed(f"{len(failed)} of {len(told) + len(failed)} failed ({', '.join(failed)})")


def _one(work: Work, name: str, listener: Listener) -> str:
    """Release one period; what became of it."""
    with work:
        try:
            return walk_steps(work, name, listener)
        except StepFailed:
            _tell(f"{name}: {work.failure()}")
            raise


def _tell(text: str) -> None:
    """To whoever looks at the process that runs this; our errors hold no data."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
