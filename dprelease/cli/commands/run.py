"""``dprelease run``: releases a spec or a frozen plan, or all that is due; ends a release that is not to be finished.

Progress is shown on a terminal and is quiet in a pipe; one summary comes at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.options import Json, Period
from dprelease.cli.views import complain, complain_of, say, say_aside, say_json
from dprelease.errors import BrokenPromiseError, CheckFailed, DpReleaseError, Locked, OrchestratorError

if TYPE_CHECKING:
    from dprelease.release.publishing.rendering import Outcome
    from dprelease.release.run import Progress, Request
    from dprelease.release.schedule.due_runs import Turn

__all__ = ["run_all_due", "run_command"]


def run_command(
    target: Annotated[Path, typer.Argument(help="A spec, or a plan frozen by `plan --out`.")],
    period: Period = None,
    direct: Annotated[bool, typer.Option("--direct", help="Without Prefect, in this process.")] = False,
    synthetic: Annotated[bool, typer.Option("--synthetic", help="Rehearse on made-up rows; spends nothing.")] = False,
    restate: Annotated[
        str, typer.Option("--restate", metavar="REASON", help="Replace what was released; charged again, and linked.")
    ] = "",
    accept_changed_data: Annotated[
        str, typer.Option("--accept-changed-data", metavar="REASON", help="Go on with other data; the report says so.")
    ] = "",
    as_planned: Annotated[
        bool, typer.Option("--as-planned", help="Finish what was begun by its own plan, though the spec has changed.")
    ] = False,
    revision: Annotated[
        int, typer.Option("--revision", min=0, metavar="K", help="A planned revision, paid with the first publication.")
    ] = 0,
    early: Annotated[
        str, typer.Option("--early", metavar="REASON", help="Release a period before its data are complete.")
    ] = "",
    audit: Annotated[
        Path | None,
        typer.Option("--audit", metavar="FILE", help="What `audit --out` found of this plan: a page."),
    ] = None,
    sampler: Annotated[
        str,
        typer.Option("--sampler", metavar="NAME", help="What draws integer noise: native, or opendp (slow; an extra)."),
    ] = "native",
    all_due: Annotated[
        bool, typer.Option("--due", help="Every period that is due, the earliest first; what was begun is finished.")
    ] = False,
    give_up: Annotated[
        str, typer.Option("--give-up", metavar="REASON", help="End a release that was begun; its cost stays charged.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", hidden=True)] = False,
    as_json: Json = False,
) -> None:
    """Plan, reserve the budget, measure every step once, publish. The same command resumes after any crash."""
    if dry_run:
        hint = "`dprelease plan` tells cost and accuracy and reads no data; `run --synthetic` rehearses on made-up rows"
        raise typer.BadParameter(f"there is none: {hint}", param_hint="--dry-run")
    if not (all_due or give_up):
        from dprelease.release.opinion import begin_opinion

        begin_opinion()  # before all that is imported below
    from dprelease.noise import SAMPLERS
    from dprelease.release.run import Request

    if revision and (restate or synthetic):
        other = "--restate" if restate else "--synthetic"
        raise typer.BadParameter(f"not together with {other}", param_hint="--revision")
    if as_planned and restate:
        raise typer.BadParameter("not together with --restate, which plans anew", param_hint="--as-planned")
    chosen = next((name for name in SAMPLERS if name == sampler), None)
    if chosen is None:
        raise typer.BadParameter(" or ".join(SAMPLERS), param_hint="--sampler")
    if all_due:
        if chosen != "native":
            raise typer.BadParameter("not together with --due", param_hint="--sampler")
        if period or synthetic or restate or accept_changed_data or as_planned or revision or early or give_up or audit:
            raise typer.BadParameter("only together with --direct and --json", param_hint="--due")
        run_all_due(target, partial(_executed, direct=direct), as_json=as_json)
        return
    if give_up:
        _give_up(target, give_up, period, as_json=as_json)
        return
    request = Request(
        target=str(target.resolve()),
        synthetic=synthetic,
        restate=restate,
        accept_changed_data=accept_changed_data,
        period=period,
        as_planned=as_planned,
        revision=revision,
        early=early,
        audit="" if audit is None else str(audit.resolve()),
        sampler=chosen,
    )
    outcome = _executed(request, direct=direct)
    if as_json:
        say_json(outcome.model_dump(mode="json"))
    else:
        _report(outcome, rehearsal=synthetic)


def run_all_due(target: Path, execute: Callable[[Request], Outcome], *, as_json: bool) -> None:
    """Run every period of a schedule that is due, in order, each as if it had been typed: executed to its end.

    One that fails takes no later one with it.

    Raises:
        CheckFailed: If one of them failed; each was told before.
    """
    from dprelease.release.schedule.due_runs import Turn, agenda, not_begun, stays_charged, try_in_order

    listed = agenda(target, datetime.now(UTC))
    if not as_json:
        for each in listed.left:
            if each.alarm or each.why == "held":
                say(f"left {listed.release}/{Turn(each.period, each.revision)}: {each.says}")
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
            _report(outcome, rehearsal=False)
        return True

    stopped, waiting = try_in_order(listed.turns, attempt, partial(stays_charged, target, listed.release))
    left = [*listed.left, *(not_begun(turn, stopped) for turn in waiting if stopped)]
    if as_json:
        say_json(
            {
                "release": listed.release,
                "released": [each.model_dump(mode="json") for each in done],
                "failed": [
                    {"period": turn.period, "revision": turn.revision, "code": error.code, "summary": error.summary}
                    for turn, error in failed.items()
                ],
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


def _give_up(target: Path, why: str, period: str | None, *, as_json: bool) -> None:
    """End a release that was begun and is not to be finished; say what it cost."""
    from dprelease.release.direct import give_up

    ended = give_up(target, why, period)
    if as_json:
        say_json(ended)
        return
    say(f"gave up {ended['release']}/{ended['period']}: {ended['why']}")
    for account in ended["accounts"]:
        say(f"  account  {account['name']}: epsilon {account['after']} with it, {account['before']} before; charged")


def _executed(request: Request, *, direct: bool) -> Outcome:
    """Run a request to its end, in this process alone or through Prefect."""
    with _progress() as show:
        if direct:
            from dprelease.release.direct import run_directly

            return run_directly(request, show)
        from dprelease.flows import api_in_use, execute

        if api := api_in_use():
            say_aside(f"Prefect API: {api}\n")
        return execute(request, show)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A bar on a terminal; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=None)
        yield lambda label, done, total: bar.update(task, description=label, completed=done, total=total or None)


def _report(outcome: Outcome, *, rehearsal: bool) -> None:
    from dprelease.privacy.budget import Loss

    name = f"{outcome.release}/{outcome.period}" + (f" revision {outcome.revision}" if outcome.revision else "")
    if rehearsal:
        say(f"rehearsed {name} on made-up rows; nothing was read, nothing was spent")
    elif outcome.state == "exists":
        say(f"{name} exists: nothing drawn, nothing spent")
    else:
        say(f"published {name}: {outcome.drawn} steps drawn, {outcome.reused} reused")
    say(f"  bundle   {outcome.folder}")
    say(f"  cost     {Loss(epsilon=Fraction(outcome.epsilon), delta=Fraction(outcome.delta)).told}")
    if outcome.unprotected:
        say(f"  beside   {outcome.unprotected}")
    if outcome.revision:
        say(f"  account  nothing: planned revision {outcome.revision} of {outcome.revisions}, paid with the first one")
    elif outcome.revisions:
        say(f"  planned  {outcome.revisions} revision(s) of this period; the accounts were charged for them as well")
    for account in outcome.accounts:
        window = f", {account.window}" if account.window else ""
        say(
            f"  account  {account.name}{window} ({account.composition}): epsilon {account.after} spent with this "
            f"release, {account.before} before; {account.left} left of {account.cap} at delta {account.delta}"
        )
    if outcome.note:
        say(f"  note     {outcome.note}")
    if outcome.warning:
        complain_of(outcome.warning)
