"""``dprelease utility``: compares a plan with the truth of stand-in data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.options import Json, Period

__all__ = ["utility_command"]


def utility_command(
    spec: Annotated[Path, typer.Argument(help="A spec file that reads stand-in data: public or made up.")],
    allowed: Annotated[
        bool,
        typer.Option("--i-can-see-the-data", help="Needed, for the figures are confidential: no noise hides them."),
    ] = False,
    repeat: Annotated[int, typer.Option("--repeat", min=1, max=1000, help="How often the plan is measured.")] = 5,
    synthetic: Annotated[bool, typer.Option("--synthetic", help="On made-up rows; reads no source.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="A new file, outside of the releases; else printed.")
    ] = None,
    period: Period = None,
    as_json: Json = False,
) -> None:
    """Compare what a plan would publish with the truth, to tune a spec on stand-in data; confidential, no release."""
    from dprelease.cli.views.utility import show_utility

    show_utility(spec, out, allowed=allowed, repeat=repeat, synthetic=synthetic, period=period, as_json=as_json)
