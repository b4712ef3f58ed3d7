"""``dprelease publish``: renders a measured release again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.options import Folder, Json
from dprelease.cli.views import complain_of, say, say_json

__all__ = ["publish_command"]


def publish_command(
    release: Annotated[str, typer.Argument(help="NAME or NAME/PERIOD.")],
    look: Annotated[
        Path | None, typer.Option("--look", metavar="SPEC", help="Take titles, labels, formats and `derive` from it.")
    ] = None,
    project: Folder = Path(),
    as_json: Json = False,
) -> None:
    """Render a measured release again from the ledger: free, byte-identical, or with another look."""
    from dprelease.release.project import Project
    from dprelease.release.publishing.rendering import publish_again

    name, _, period = release.partition("/")
    outcome = publish_again(Project.find(project), name, period or None, look)
    if as_json:
        say_json(outcome.model_dump(mode="json"))
        return
    say(f"rendered again from {outcome.reused} stored answers; nothing drawn, nothing spent\n{outcome.folder}")
    if outcome.warning:
        complain_of(outcome.warning)
