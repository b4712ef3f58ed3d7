"""``dprelease run``: releases a spec or a frozen plan, or all that is due."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.options import Json, Period

__all__ = ["run_command"]


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
    as_json: Json = False,
) -> None:
    """Plan, reserve the budget, measure every step once, publish. The same command resumes after any crash."""
    from dprelease.cli.views.run import give_up_release, run_all_due, run_release, run_to_end
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
        if period or synthetic or restate or accept_changed_data or as_planned or revision or early or give_up:
            raise typer.BadParameter("only together with --direct and --json", param_hint="--due")
        run_all_due(target, partial(run_to_end, direct=direct), as_json=as_json)
        return
    if give_up:
        give_up_release(target, give_up, period, as_json=as_json)
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
        sampler=chosen,
    )
    run_release(request, direct=direct, as_json=as_json)
