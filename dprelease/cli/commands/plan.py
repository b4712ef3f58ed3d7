"""``dprelease plan``: shows what each query will cost, and freezes the plan."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.options import Json, Period

__all__ = ["plan_command"]


def _epsilons(text: str) -> tuple[Fraction, ...]:
    """The budgets of ``--what-if epsilon=0.5,1,2``, exact."""
    name, _, values = text.partition("=")
    if not text:
        return ()
    try:
        epsilons = tuple(Fraction(value.strip()) for value in values.split(","))
    except (ValueError, ZeroDivisionError):
        epsilons = ()
    if name.strip() != "epsilon" or not epsilons or min(epsilons) <= 0:
        raise typer.BadParameter("write epsilons above 0, such as epsilon=0.5,1,2", param_hint="--what-if")
    return epsilons


def plan_command(
    spec: Annotated[Path, typer.Argument(help="A spec file.")],
    out: Annotated[Path | None, typer.Option(help="Freeze the plan in this file for review.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Every accountant side by side.")] = False,
    solve: Annotated[bool, typer.Option("--solve", help="The smallest epsilon that meets every target.")] = False,
    what_if: Annotated[
        str, typer.Option("--what-if", metavar="epsilon=E,E,...", help="Margins at other budgets: epsilon=0.5,1,2.")
    ] = "",
    horizon: Annotated[
        int | None,
        typer.Option("--horizon", metavar="N", min=1, max=1000, help="How N coming releases like it add up."),
    ] = None,
    period: Period = None,
    as_json: Json = False,
) -> None:
    """Show what each query will cost and how accurate it will be; reads no data."""
    from dprelease.cli.views.plan import show_plan

    show_plan(
        spec,
        out,
        compare=compare,
        solve=solve,
        epsilons=_epsilons(what_if),
        as_json=as_json,
        period=period,
        horizon=horizon or 0,
    )
