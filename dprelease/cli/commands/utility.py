"""``dprelease utility``: how far a plan would be from the truth, on data that stand in for the confidential ones.

Every line and every object of what it shows says that the figures are confidential.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.options import Json, Period
from dprelease.cli.views import json_text, say, text_table
from dprelease.errors import PublishError

if TYPE_CHECKING:
    from dprelease.release.tuning.utility import Utility

__all__ = ["utility_command"]

_HEADER = ["table", "measure", "true size", "compared", "RMSE", "by the law", "mean abs.", "bias", "within margin"]


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
    from dprelease.release.tuning.utility import WATERMARK, utility

    figures = utility(
        spec,
        allowed=allowed,
        repeat=repeat,
        synthetic=synthetic,
        is_terminal=sys.stdout.isatty(),
        period=period,
        out=out,
        show=_progress(),
    )
    text = json_text(_facts(figures)) if as_json else _text(figures) + "\n"
    if out is None:
        sys.stdout.write(text)
        return
    _write(out, text)
    say(f"{WATERMARK}\nwritten for you alone: {out}")


def _progress() -> Any:
    if not sys.stderr.isatty():
        return lambda done, total: None
    return lambda done, total: sys.stderr.write(f"\rcompared {done} of {total}" + "\n" * (done == total))


def _write(out: Path, text: str) -> None:
    """A file that only its owner can read.

    Raises:
        PublishError: If it is there already, or cannot be written.
    """
    try:
        file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise PublishError(
            f"the figures cannot be written to {out}: {error.strerror or type(error).__name__}",
            hint="name a new file in a folder of yours; leave out `--out` to print them",
            code="DPR-W190",
        ) from None


def _facts(figures: Utility) -> dict[str, Any]:
    from dprelease.release.tuning.utility import WATERMARK

    return {
        "notice": WATERMARK,
        "release": figures.release,
        "period": figures.period,
        "repeat": figures.repeat,
        "confidence": str(figures.confidence),
        "synthetic": figures.synthetic,
        "errors": [
            {"notice": WATERMARK, **{name: _known(value) for name, value in asdict(each).items()}}
            for each in figures.errors
        ],
        "left_out": list(figures.left_out),
    }


def _known(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _text(figures: Utility) -> str:
    from dprelease.release.tuning.utility import WATERMARK

    percent = f"{float(figures.confidence) * 100:.4g}"
    rows = "made-up rows" if figures.synthetic else "the spec's own sources"
    lines = [
        f"{figures.release}/{figures.period} measured {figures.repeat} times from {rows}; "
        f"margins at {percent} % confidence",
        "",
    ]
    table: list[list[str]] = []
    before = ("", "")
    for each in figures.errors:
        name = f"{each.table} ({each.tables} tables)" if each.tables > 1 else each.table
        same = (each.table, each.measure) == before
        before = (each.table, each.measure)
        withheld = f" (+{each.withheld:,} blank)" if each.withheld else ""
        table.append(
            [
                "" if same else name,
                "" if same else each.measure,
                each.size,
                f"{each.compared:,}{withheld}",
                _number(each.rmse),
                _number(each.standard_error),
                _number(each.mean_absolute),
                _number(each.bias, sign="+"),
                "-" if each.coverage is None else f"{each.coverage:.1%}",
            ]
        )
    lines += text_table(_HEADER, table, right=frozenset(range(2, len(_HEADER)))).splitlines()
    lines += [f"left out  {each}" for each in figures.left_out]
    return "\n".join([WATERMARK, *(f"CONFIDENTIAL  {line}".rstrip() for line in lines), WATERMARK])


def _number(number: float | None, sign: str = "") -> str:
    return "-" if number is None or math.isnan(number) else f"{number:{sign},.4g}"
