"""``dprelease run``: progress on a terminal, quiet in a pipe, one summary at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from dprelease.cli.views import complain_of, say, say_json
from dprelease.release.publishing.rendering import Outcome
from dprelease.release.run import Progress, Request

__all__ = ["give_up_release", "run_all_due", "run_release"]


def run_release(request: Request, *, direct: bool, as_json: bool) -> None:
    """Run a spec or a frozen plan, and say how it ended."""
    outcome = _run(request, direct=direct)
    if as_json:
        say_json(outcome.model_dump(mode="json"))
        return
    _report(outcome, rehearsal=request.synthetic)


def run_all_due(target: Path, *, direct: bool, as_json: bool) -> None:
    """Run every period of a schedule that is due, each as if it had been typed."""
    from dprelease.cli.views.due_runs import run_due

    one, report = partial(_run, direct=direct), partial(_report, rehearsal=False)
    run_due(target, one, report, as_json=as_json)


def give_up_release(target: Path, why: str, period: str | None, *, as_json: bool) -> None:
    """End a release that was begun and is not to be finished; say what it cost."""
    from dprelease.release.direct import give_up

    ended = give_up(target, why, period)
    if as_json:
        say_json(ended)
        return
    say(f"gave up {ended['release']}/{ended['period']}: {ended['why']}")
    for account in ended["accounts"]:
        say(f"  account  {account['name']}: epsilon {account['after']} with it, {account['before']} before; charged")


def _run(request: Request, *, direct: bool) -> Outcome:
    """Run a request to its end, in this process alone or through Prefect."""
    with _progress() as show:
        if direct:
            from dprelease.release.direct import run_directly

            return run_directly(request, show)
        from dprelease.flows import api_in_use, execute

        if api := api_in_use():
            sys.stderr.write(f"Prefect API: {api}\n")
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
    name = f"{outcome.release}/{outcome.period}" + (f" revision {outcome.revision}" if outcome.revision else "")
    if rehearsal:
        say(f"rehearsed {name} on made-up rows; nothing was read, nothing was spent")
    elif outcome.state == "exists":
        say(f"{name} exists: nothing drawn, nothing spent")
    else:
        say(f"published {name}: {outcome.drawn} steps drawn, {outcome.reused} reused")
    say(f"  bundle   {outcome.folder}")
    say(f"  cost     epsilon {outcome.epsilon} at delta {outcome.delta}")
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
