"""``dprelease diff``: compares two releases or plans."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import typer

from dprelease.cli.options import Json, Period

__all__ = ["diff_command"]


def _confidence(text: str) -> Fraction:
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share < 1:
        raise typer.BadParameter("write a share between 0 and 1, such as 0.95", param_hint="--confidence")
    return share


def diff_command(
    first: Annotated[
        str, typer.Argument(help="A bundle's folder, NAME/PERIOD, a plan frozen by `plan --out`, or a spec.")
    ],
    second: Annotated[str, typer.Argument(help="A later one; a spec is planned as it is now.")],
    confidence: Annotated[
        str, typer.Option(help="That no number is named that did not change, for all of them together.")
    ] = "0.95",
    period: Period = None,
    as_json: Json = False,
) -> None:
    """What changed between two releases, or plans, beyond what their noise explains; needs no data and no ledger."""
    from dprelease.cli.views.diff import show_diff

    show_diff(first, second, _confidence(confidence), as_json=as_json, period=period)
