"""``dprelease init``: makes a project to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.views import say

__all__ = ["init_command"]


def init_command(folder: Annotated[Path, typer.Argument(help="A new or empty folder.")]) -> None:
    """Write a project to start from: spec, policy, reference tables, made-up data, pipeline."""
    from dprelease.starter import create_project

    written = create_project(folder)
    for path in written:
        say(f"  {path}")
    enter = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    say(f"\nNext:  {enter}dprelease plan quickstart.yaml")
