"""``dprelease plan``: shows what each query will cost, and freezes the plan."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from dprelease.cli.options import Json, Period

if TYPE_CHECKING:
    from dprelease.plan.forecast.other_budgets import Aim

__all__ = ["PlanArguments", "plan_command"]

_AIMS: tuple[Aim, ...] = ("charge", "epsilon")


class PlanArguments(TyperCommand):
    """``--solve`` may stand alone, for what the accounts are charged."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a lone ``--solve`` its usual word, so that a path behind it is not taken for one."""
        words, found = list(args), []
        while words:
            word = words.pop(0)
            if word == "--solve":
                word = f"--solve={words.pop(0) if words and words[0] in _AIMS else _AIMS[0]}"
            found.append(word)
        return super().parse_args(ctx, found)


def _aim(text: str) -> Aim | None:
    """What ``--solve`` makes least."""
    found = next((aim for aim in _AIMS if aim == text), None)
    if text and found is None:
        raise typer.BadParameter("write charge or epsilon", param_hint="--solve")
    return found


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
    replace: Annotated[bool, typer.Option("--replace", help="Write over another plan that --out names.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Every accountant side by side.")] = False,
    solve: Annotated[
        str,
        typer.Option("--solve", metavar="[charge|epsilon]", help="The budget that meets every target at least cost."),
    ] = "",
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
    if replace and out is None:
        raise typer.BadParameter("says what becomes of the file of --out: give it, too", param_hint="--replace")
    if compare and not as_json:
        from dprelease.release.opinion import begin_opinion

        begin_opinion()  # before all that is imported below
    from dprelease.cli.views.plan import show_plan

    show_plan(
        spec,
        out,
        compare=compare,
        solve=_aim(solve),
        epsilons=_epsilons(what_if),
        as_json=as_json,
        period=period,
        horizon=horizon or 0,
        replace=replace,
    )
