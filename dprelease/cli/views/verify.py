"""``dprelease verify``: what a stranger can check of a bundle, each check named."""

from __future__ import annotations

from pathlib import Path

import typer

from dprelease.cli.views import say, say_json, text_table
from dprelease.publish import Check
from dprelease.release.check import check_release, failure, public_key
from dprelease.signature import NotAKey, PublicKey

__all__ = ["verify_bundle"]

_WORDS = {True: "pass", False: "FAIL", None: "not run"}


def verify_bundle(bundle: Path, *, key: str = "", as_json: bool) -> None:
    """Run every check and show it; what was not run is shown as that, and fails nothing.

    Args:
        bundle: Its folder.
        key: The key of the one who should have signed it: a file, or the text of the public key; empty: none.
        as_json: Print JSON.

    Raises:
        CheckFailed: If one of them fails.
        SpecError: If the key's file cannot be read.
    """
    checks = check_release(bundle, _key(key) if key else None)
    failed = [check for check in checks if check.passed is False]
    if as_json:
        say_json(
            {
                "passed": not failed,
                "checks": [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in checks],
            }
        )
    else:
        _show(checks)
    if failed:
        raise failure(checks)


def _show(checks: tuple[Check, ...]) -> None:
    rows = [[_WORDS[check.passed], check.name, check.detail.partition("\n")[0]] for check in checks]
    say(text_table(["", "check", "finding"], rows))
    for check in checks:
        for line in check.detail.split("\n")[1:]:
            say(f"\n{check.name}: {line}")
    skipped = [check.name for check in checks if check.passed is None]
    if skipped:
        say(f"\nnot run, and so neither passed nor failed: {', '.join(skipped)}")


def _key(given: str) -> PublicKey:
    try:
        return public_key(given)
    except NotAKey as error:
        raise typer.BadParameter(f"the key is {error.reason}; {error.hint}", param_hint="--key") from None
