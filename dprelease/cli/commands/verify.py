"""``dprelease verify``: checks a published bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.options import Json

__all__ = ["verify_command"]


def verify_command(
    bundle: Annotated[Path, typer.Argument(help="The folder of a published release.")],
    key: Annotated[
        str, typer.Option(metavar="FILE|ed25519:...", help="Whose signature it must have: a key file, or its text.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Check the files, signature and numbers of a bundle and derive its loss again; needs no data and no ledger."""
    from dprelease.cli.views.verify import verify_bundle

    verify_bundle(bundle, key=key, as_json=as_json)
