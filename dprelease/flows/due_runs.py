"""What a scheduled run does: ask the ledger which periods wait, and release them one after the other."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from prefect import runtime

from dprelease.flows.concurrency import limit_names, one_at_a_time
from dprelease.flows.pages import Listener, rename_run
from dprelease.flows.run_context import RunContext, StepFailed, attempted
from dprelease.flows.tasks import walk_steps
from dprelease.release.run import Request
from dprelease.release.schedule.due_runs import Agenda, Turn, agenda, stays_charged, try_in_order

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
        request = Request(target=target, synthetic=synthetic, period=period or None)
        one = [Turn(period or "rehearsal")]
        with one_at_a_time(accounts):
            return _released(one, lambda turn: request, listener, 0, release=Path(target).stem, doing="one period")
    if ended := _nothing_to_do(_agenda(target), listener):
        return ended  # asked before any line is waited in: most runs end here
    with one_at_a_time(accounts):
        todo = _agenda(target)  # whoever was before us has done some of it
        if ended := _nothing_to_do(todo, listener):
            return ended
        first, last = todo.turns[0], todo.turns[: most or None][-1]
        rename_run(f"{todo.release}/{first}" + (f" to {last}" if last != first else ""), listener)
        stays = partial(stays_charged, Path(target), todo.release)
        requested = partial(Turn.request, target=target)
        return _released(todo.turns, requested, listener, most, release=todo.release, charged=stays)


def _agenda(target: str) -> Agenda:
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


def _released(
    turns: Sequence[Turn],
    requested: Callable[[Turn], Request],
    listener: Listener,
    most: int,
    *,
    release: str,
    doing: str = _DOING,
    charged: Callable[[Turn], bool] = lambda turn: False,
) -> str:
    """Release them, one after the other.

    Args:
        turns: In their order.
        requested: What to run for each.
        listener: Is told what becomes of each.
        most: As of ``try_in_order``.
        release: Its name, for the lines of the log.
        doing: What others are told who find the lock.
        charged: Whether one that has failed stays charged: after that no new one is begun.
    """
    done: list[str] = []
    failed: list[str] = []

    def attempt(turn: Turn) -> bool:
        try:
            context = RunContext(requested(turn), leaves=True, doing=doing)
            done.append(f"{turn}: {_one(context, str(turn), release, listener)}")
        except StepFailed as error:
            failed.append(f"{turn}: {error.kind}")
            listener.say(f"{turn} failed: {error.kind}; the process that ran it says more", logging.ERROR)
            return False
        return True

    stopped, waiting = try_in_order(turns, attempt, charged, most)
    if not failed:
        return ", ".join(done)
    stays = f"; {stopped} stays charged, and {len(waiting)} more were not begun" if waiting else ""
    raise StepFailed(f"{len(failed)} of {len(done) + len(failed)} failed ({', '.join(failed)}){stays}")


def _one(context: RunContext, name: str, release: str, listener: Listener) -> str:
    """Release one period; what became of it."""
    with context:
        try:
            return walk_steps(context, name, listener)
        except StepFailed:
            _tell(f"{release}/{name}", str(context.failure()))
            raise


def _tell(about: str, text: str) -> None:
    """To whoever looks at the process that runs this; our errors hold no data.

    Each line begins with the time in UTC and the release: several runs write into one log.
    """
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    sys.stderr.write("".join(f"{at} ERROR {about}: {line}\n" for line in text.splitlines()))
    sys.stderr.flush()
