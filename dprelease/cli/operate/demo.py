"""``dprelease demo``: an attack of the founding papers, carried out on made-up data, and what stops it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.options import Json
from dprelease.cli.views import say, say_json, text_table
from dprelease.errors import Problem, SpecError

__all__ = ["demo_command"]


def demo_command(
    attack: Annotated[str, typer.Argument(metavar="ATTACK", help="Its name; any other word lists the names.")],
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw a picture of it, too.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the made-up people; noise of a release has none.")] = 1,
    as_json: Json = False,
) -> None:
    """Carry out an attack on made-up data, on exact counts and on a release of this tool."""
    from dprelease.attacks import ATTACKS
    from dprelease.attacks.svg import svg_of
    from dprelease.regular import replace_file

    if attack not in ATTACKS:
        known = ", ".join(ATTACKS)
        raise SpecError([Problem("DPR-S915", f"there is no attack {attack!r}", f"write one of {known}")])
    if svg is not None and not svg.parent.is_dir():
        hint = "make the folder first, or name a file in another one"
        raise SpecError([Problem("DPR-S916", f"{svg.parent} is no folder, so nothing can be drawn there", hint)])
    shown = ATTACKS[attack](seed)
    if svg is not None:
        replace_file(svg, svg_of(shown.drawing).encode(), 0o644)
    if as_json:
        say_json({name: value for name, value in asdict(shown).items() if name != "drawing"})
        return
    for table in shown.tables:
        say(table.title)
        say()
        say(text_table(table.head, table.rows, frozenset(range(1, len(table.head)))))
        say()
    say(f"What stops it: {shown.stopped_by}")
