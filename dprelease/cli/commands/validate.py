"""``dprelease validate``: checks a spec and what it refers to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.options import Json, Period
from dprelease.cli.views import say, say_json, warn

__all__ = ["validate_command"]


def validate_command(
    spec: Annotated[Path, typer.Argument(help="A spec file.")], period: Period = None, as_json: Json = False
) -> None:
    """Check a spec and its references; every problem at once, with line and column."""
    from dprelease.release.planning import open_target

    target = open_target(spec, period)
    target.resolved  # noqa: B018 - reads the references
    target.project.accounts(target.loaded)
    warn(target.loaded.warnings)
    read = target.loaded.spec
    if as_json:
        say_json({"valid": True, "release": read.release.name, "period": read.release.period})
        return
    say(
        f"{spec}: valid. {read.release.name}/{read.release.period}, "
        f"{len(read.tables)} table(s), {len(read.queries)} queries"
    )
