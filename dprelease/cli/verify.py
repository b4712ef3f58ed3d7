"""``dprelease verify``: what a stranger can check of a bundle, each check named."""

from __future__ import annotations

from pathlib import Path

from dprelease.cli.views import columns, say, say_json
from dprelease.errors import CheckFailed
from dprelease.release.check import check_release

__all__ = ["verify_bundle"]


def verify_bundle(bundle: Path, *, as_json: bool) -> None:
    """Run every check and show it.

    Raises:
        CheckFailed: If one of them fails.
    """
    checks = check_release(bundle)
    failed = [check for check in checks if not check.passed]
    if as_json:
        say_json(
            {
                "passed": not failed,
                "checks": [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in checks],
            }
        )
    else:
        rows = [["pass" if check.passed else "FAIL", check.name, check.detail] for check in checks]
        say(columns(["", "check", "finding"], rows))
    if failed:
        raise CheckFailed(
            f"{len(failed)} of {len(checks)} checks failed: {', '.join(check.name for check in failed)}",
            hint="do not rely on this bundle; ask its curator for the original",
        )
