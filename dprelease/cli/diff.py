"""``dprelease diff``: two releases side by side."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.cli.views import columns, say, say_json
from dprelease.errors import CheckFailed

if TYPE_CHECKING:
    from dprelease.publish import Comparison

__all__ = ["show_diff"]

_MOST_SHOWN = 40
_NAMES = ("release", "period", "revision", "title")  # two releases are expected to differ in them


def show_diff(first: Path, second: Path, confidence: Fraction, *, as_json: bool) -> None:
    """Show what differs.

    Raises:
        PublishError: If one of them is no whole bundle.
        CheckFailed: If a number moved by more than noise explains, or something else was asked than before.
            Another name, period, planned revision or title is nothing else.
    """
    from dprelease.release.check import compare_releases

    found = compare_releases(first, second, confidence)
    if as_json:
        say_json(_facts(found))
    else:
        _show(found)
    asked = [each for each in found.differences if each.what not in _NAMES]
    if asked or found.changes:
        raise CheckFailed(
            f"{len(found.changes)} of {found.compared} numbers moved by more than noise explains; "
            f"{len(asked)} difference(s) in what was asked",
            hint="that is what was asked for: exit code 7 says that the two are not alike",
        )


def _facts(found: Comparison) -> dict[str, object]:
    return {
        "confidence": str(found.confidence),
        "compared": found.compared,
        "left_out": found.left_out,
        "differences": [{"what": each.what, "before": each.before, "after": each.after} for each in found.differences],
        "changes": [
            {
                "query": each.query,
                "measure": each.measure,
                "keys": list(each.keys),
                "before": each.before,
                "after": each.after,
                "noise": each.noise,
            }
            for each in found.changes
        ],
    }


def _show(found: Comparison) -> None:
    if found.differences:
        rows = [[each.what, each.before or "-", each.after or "-"] for each in found.differences]
        say(columns(["what was asked", "before", "after"], rows))
        say()
    left_out = f" ({found.left_out} more are withheld, blank or have no margin)" if found.left_out else ""
    say(f"{found.compared} numbers compared{left_out}")
    percent = f"{float(found.confidence) * 100:.4g}"
    if not found.changes:
        say(f"none moved by more than noise explains, at {percent} % confidence for all of them together")
        return
    say(f"{len(found.changes)} moved by more than noise explains, at {percent} % confidence for all of them together\n")
    rows = [
        [
            f"{each.query}.{each.measure}",
            ", ".join(each.keys) or "everything",
            f"{each.before:,.6g}",
            f"{each.after:,.6g}",
            f"{each.after - each.before:+,.6g}",
            f"{each.noise:,.6g}",
        ]
        for each in found.changes[:_MOST_SHOWN]
    ]
    header = ["number", "cell", "before", "after", "change", "noise explains"]
    say(columns(header, rows, right=frozenset({2, 3, 4, 5})))
    if len(found.changes) > _MOST_SHOWN:
        say(f"... and {len(found.changes) - _MOST_SHOWN} more: --json has all of them")
