"""``dprelease diff``: two releases, or plans of them, side by side."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dprelease.cli.views import columns, say, say_json
from dprelease.cli.views.changes import moved_facts, print_moved
from dprelease.errors import CheckFailed

if TYPE_CHECKING:
    from dprelease.publish import Comparison
    from dprelease.release.diff import Compared, Side

__all__ = ["show_diff"]

_MOST_SHOWN = 40
# Two releases are expected to differ in them; in the layout where the first was planned by an older version.
_NAMES = ("release", "period", "revision", "title", "curator", "contact", "intended use", "layout")


def show_diff(first: str, second: str, confidence: Fraction, *, as_json: bool, period: str | None = None) -> None:
    """Show what differs.

    Args:
        first: A bundle, the name of a release, a frozen plan or a spec: the earlier one.
        second: The later one.
        confidence: That no number is named that did not change.
        as_json: For machines.
        period: The period of specs, in the place of their own.

    Raises:
        PublishError, PlanError, SpecError: If one of them is none of these.
        CheckFailed: If a number moved by more than noise explains, or something else was asked than before, or is as
            accurate as before no more. Another name, period, planned revision or title is nothing else.
    """
    from dprelease.release.diff import compare_sides, open_side

    found = compare_sides(open_side(first, period), open_side(second, period), confidence)
    if as_json:
        say_json(_facts(found, confidence))
    else:
        _show(found)
    _check(found)


def _check(found: Compared) -> None:
    asked = [each for each in found.moved.differences if each.what not in _NAMES]
    noise = sum(bool(block.other_noise) for block in found.moved.blocks)
    changes = found.numbers.changes if found.numbers is not None else ()
    if not asked and not noise and not changes:
        return
    told = [f"{len(asked)} difference(s) in what was asked"]
    if found.numbers is not None:
        told.insert(0, f"{len(changes)} of {found.numbers.compared} numbers moved by more than noise explains")
    if noise:
        told.append(f"the noise of {noise} of {len(found.moved.blocks)} queries moved")
    raise CheckFailed("; ".join(told), hint="that is what was asked for: exit code 7 says that the two are not alike")


def _facts(found: Compared, confidence: Fraction) -> dict[str, Any]:
    numbers = found.numbers
    return {
        "first": _side_facts(found.first),
        "second": _side_facts(found.second),
        "confidence": str(confidence),
        "compared": numbers.compared if numbers is not None else 0,
        "left_out": numbers.left_out if numbers is not None else 0,
        "differences": [
            {"what": each.what, "before": each.before, "after": each.after} for each in found.moved.differences
        ],
        "changes": _changes(numbers) if numbers is not None else [],
        "plan": moved_facts(found.moved),
        "files": {"added": list(found.added), "dropped": list(found.dropped)},
    }


def _side_facts(side: Side) -> dict[str, str]:
    release = side.plan.release
    named = {"release": release.name, "period": release.period}
    return {"given": side.given, "kind": side.kind, **named, "plan_fingerprint": side.plan.fingerprint()}


def _changes(found: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "query": each.query,
            "measure": each.measure,
            "keys": list(each.keys),
            "before": each.before,
            "after": each.after,
            "noise": each.noise,
        }
        for each in found.changes
    ]


def _show(found: Compared) -> None:
    one, two = found.first.plan.release, found.second.plan.release
    if one.name != two.name:
        say(f"two releases: {one.name}/{one.period} beside {two.name}/{two.period}\n")
    differences = found.moved.differences
    if differences:
        rows = [[each.what, each.before or "-", each.after or "-"] for each in differences]
        say(columns(["what was asked", "before", "after"], rows))
        say()
    print_moved(found.moved)
    _show_files(found)
    if found.numbers is not None:
        say()
        _show_numbers(found.numbers)
        if any({"nonnegative", "integer"} & set(each.post) for each in found.first.plan.workloads):
            say("of numbers that were made non-negative or whole the estimates before are compared")


def _show_files(found: Compared) -> None:
    files = [f"  + {path}" for path in found.added] + [f"  - {path}" for path in found.dropped]
    if not files:
        return
    say(f"files of the bundle, but for its pages: {len(found.added)} come, {len(found.dropped)} go")
    for line in files[:_MOST_SHOWN]:
        say(line)
    if len(files) > _MOST_SHOWN:
        say(f"  ... and {len(files) - _MOST_SHOWN} more: --json has all of them")


def _show_numbers(found: Comparison) -> None:
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
