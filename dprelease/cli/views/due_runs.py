"""``dprelease run --due``: all that is due of one schedule, in order; one that fails takes no later one with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from dprelease.cli.views import complain, say, say_json
from dprelease.errors import BrokenPromiseError, CheckFailed, DpReleaseError, Locked, OrchestratorError
from dprelease.release.publishing.rendering import Outcome
from dprelease.release.run import Request
from dprelease.release.schedule.due_runs import Left, Turn, agenda, not_begun, stays_charged, try_in_order

__all__ = ["run_due"]


def run_due(
    target: Path,
    execute: Callable[[Request], Outcome],
    report: Callable[[Outcome], None],
    *,
    as_json: bool,
) -> None:
    """Release what is due, by the ledger.

    Args:
        target: The spec.
        execute: Runs one release to its end.
        report: Says how it ended.
        as_json: Say all of it at the end instead.

    Raises:
        CheckFailed: If one of them failed; each was told before.
    """
    from datetime import UTC, datetime

    listed = agenda(target, datetime.now(UTC))
    if not as_json:
        for each in listed.left:
            if each.alarm or each.why == "held":
                say(f"left {_named(listed.release, each)}: {each.says}")
        if not listed.turns:
            say(f"nothing of {listed.release} is due")
    done: list[Outcome] = []
    failed: dict[Turn, DpReleaseError] = {}

    def attempt(turn: Turn) -> bool:
        try:
            outcome = execute(turn.request(str(target.resolve())))
        except (BrokenPromiseError, OrchestratorError):
            raise  # the next one would fail alike
        except DpReleaseError as error:
            complain(error)
            if isinstance(error, Locked):  # somebody has taken it since: it is theirs
                return True
            failed[turn] = error
            return False
        done.append(outcome)
        if not as_json:
            report(outcome)
        return True

    stopped, waiting = try_in_order(listed.turns, attempt, partial(stays_charged, target, listed.release))
    left = [*listed.left, *(not_begun(turn, stopped) for turn in waiting if stopped)]
    if as_json:
        say_json(
            {
                "release": listed.release,
                "released": [each.model_dump(mode="json") for each in done],
                "failed": [_failure(turn, error) for turn, error in failed.items()],
                "left": [{**vars(each)} for each in left],
            }
        )
    if failed:
        raise CheckFailed(
            f"{len(failed)} of {len(listed.turns)} release(s) of {listed.release} failed"
            + (f", and {len(waiting)} were not begun" if waiting else ""),
            detail=", ".join(f"{turn}: {error.code}" for turn, error in failed.items())
            + (
                f"; {stopped} stays charged: no other period is begun before it is finished or ended" if waiting else ""
            ),
            hint="`dprelease due` says what is left; the same command tries it again, and pays for nothing twice"
            + (f"; `dprelease run {target} --period {stopped.period} --give-up REASON` ends it" if stopped else ""),
            code="DPR-C111",
        )


def _failure(turn: Turn, error: DpReleaseError) -> dict[str, Any]:
    return {"period": turn.period, "revision": turn.revision, "code": error.code, "summary": error.summary}


def _named(release: str, left: Left) -> str:
    return f"{release}/{Turn(left.period, left.revision)}"
