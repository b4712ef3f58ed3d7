"""``dprelease verify``: what a stranger can check of a published bundle, each check named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.options import Json
from dprelease.cli.views import say, say_json, text_table
from dprelease.errors import CheckFailed

if TYPE_CHECKING:
    from dprelease.publish import Check

__all__ = ["verify_command"]

_WORDS = {True: "pass", False: "FAIL", None: "not run"}


def verify_command(
    bundle: Annotated[str, typer.Argument(help="The folder of a published release, or NAME/PERIOD in its project.")],
    key: Annotated[
        str, typer.Option(metavar="FILE|ed25519:...", help="Whose signature it must have: a key file, or its text.")
    ] = "",
    earlier: Annotated[
        list[Path] | None, typer.Option(help="The bundle of an earlier period that it compares with; once for each.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the files, signature and numbers of a bundle and derive its loss again; needs no data and no ledger."""
    from dprelease.release.opinion import begin_opinion

    begin_opinion()  # before all that is imported below
    from dprelease.release.check import check_release, failure, public_key
    from dprelease.release.project import bundle_folder
    from dprelease.signature import NotAKey

    try:
        signer = public_key(key) if key else None
    except NotAKey as error:
        raise typer.BadParameter(f"the key is {error.reason}; {error.hint}", param_hint="--key") from None
    folder = bundle_folder(bundle)
    if not folder.is_dir():
        hint = "give the folder of a published release: releases/NAME/PERIOD, or NAME/PERIOD in its project"
        raise CheckFailed(f"there is no bundle {bundle}", hint=hint, code="DPR-C121")
    checks = check_release(folder, signer, tuple(earlier or ()))
    passed = all(check.passed is not False for check in checks)  # what was not run fails nothing
    if as_json:
        say_json({"passed": passed, "checks": [asdict(check) for check in checks]})
    else:
        _show(checks)
    if not passed:
        raise failure(checks)


def _show(checks: Sequence[Check]) -> None:
    rows = [[_WORDS[check.passed], check.name, check.detail.partition("\n")[0]] for check in checks]
    say(text_table(["", "check", "finding"], rows))
    for check in checks:
        for line in check.detail.split("\n")[1:]:
            say(f"\n{check.name}: {line}")
    skipped = [check.name for check in checks if check.passed is None]
    if skipped:
        say(f"\nnot run, and so neither passed nor failed: {', '.join(skipped)}")
