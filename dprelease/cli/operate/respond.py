"""``dprelease respond``: randomizes a file of true answers where they are given, before anybody collects them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.options import Json
from dprelease.cli.views import say, say_json
from dprelease.errors import Problem, SpecError

__all__ = ["respond_command"]


def respond_command(
    spec: Annotated[Path, typer.Argument(help="A spec file whose columns say how answers are randomized.")],
    answers: Annotated[Path, typer.Argument(help="The true answers, as CSV with a header.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the randomized ones go: a new file.")],
    table: Annotated[str | None, typer.Option("--table", help="Whose answers they are, where several ask.")] = None,
    as_json: Json = False,
) -> None:
    """Randomize a file of true answers at its source, by exact coins; once, for each time tells epsilon again."""
    from dprelease.release.data.respond import questions_of, randomize_file
    from dprelease.release.planning import open_target
    from dprelease.spec.checks.collected.answers import collected_columns
    from dprelease.spec.text.names import did_you_mean

    tables = open_target(spec).loaded.spec.tables
    able = [name for name, each in tables.items() if collected_columns(each)] or list(tables)
    name = table if table is not None else able[0]
    if name not in tables or (table is None and len(able) > 1):
        says = f"there is no table {name!r}" if name not in tables else f"{len(able)} tables have randomized answers"
        raise SpecError([Problem("DPR-E132", says, f"write `--table {able[0]}`; {did_you_mean(name, able)}")])
    counts = randomize_file(name, tables[name], answers, out)
    if as_json:
        say_json({"table": name, "out": str(out), "randomized": counts})
        return
    for each in questions_of(name, tables[name]):
        say(f"{each.name}: {counts[each.name]} answers randomized, each at epsilon {float(each.law.epsilon):.6g}")
    say(f"written to {out}: keep or delete the true answers by what you promised; a second draw would tell more")
