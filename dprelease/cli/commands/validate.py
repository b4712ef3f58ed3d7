"""``dprelease validate``: checks a spec, and the form of what it refers to."""

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
    """Check a spec, its references and the headers of its sources; every problem at once, with line and column."""
    from dprelease.release.data.headers import tables_not_here
    from dprelease.release.planning import open_target

    target = open_target(spec, period)
    catalog, _ = target.resolved
    target.project.accounts(target.loaded)
    warn(target.loaded.warnings)
    read = target.loaded.spec
    away = tables_not_here(catalog, target.project.folder)
    if as_json:
        compared = {name: name not in away for name in catalog.tables}
        say_json(
            {"valid": True, "release": read.release.name, "period": read.release.period, "headers_compared": compared}
        )
        return
    tables = f"{len(read.tables)} table{'s' * (len(read.tables) != 1)}"
    queries = f"{len(read.queries)} {'query' if len(read.queries) == 1 else 'queries'}"
    say(f"{spec}: valid. {read.release.name}/{read.release.period}, {tables}, {queries}")
    for name, why in away.items():
        say(f"table {name!r} was not compared with its source: {why}")
