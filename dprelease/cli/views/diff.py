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

    compared = compare_sides(open_side(first, period), open_side(second, period), confidence)
    if as_json:
        say_json(_facts(compared, confidence))
    else:
        _show(compared)
    _check(compared)


def _check(compared: Compared) -> None:
    asked = [each for each in compared.moved.differences if each.what not in _NAMES]
    noise = sum(bool(block.other_noise) for block in compared.moved.blocks)
    changes = compared.numbers.changes if compared.numbers is not None else ()
    if not asked and not noise and not changes:
        return
    differences = [f"{len(asked)} difference(s) in what was asked"]
    if compared.numbers is not None:
        differences.insert(
            0, f"{len(changes)} of {compared.numbers.compared} numbers moved by more than noise explains"
        )
    if noise:
        differences.append(f"the noise of {noise} of {len(compared.moved.blocks)} queries moved")
    raise CheckFailed(
        "; ".join(differences), hint="that is what was asked for: exit code 7 says that the two are not alike"
    )


def _facts(compared: Compared, confidence: Fraction) -> dict[str, Any]:
    numbers = compared.numbers
    return {
        "first": _side_facts(compared.first),
        "second": _side_facts(compared.second),
        "confidence": str(confidence),
        "compared": numbers.compared if numbers is not None else 0,
        "left_out": numbers.left_out if numbers is not None else 0,
        "differences": [
            {"what": each.what, "before": each.before, "after": each.after} for each in compared.moved.differences
        ],
        "changes": _changes(numbers) if numbers is not None else [],
        "plan": moved_facts(compared.moved),
        "files": {"added": list(compared.added), "dropped": list(compared.dropped)},
    }


def _side_facts(side: Side) -> dict[str, str]:
    release = side.plan.release
    named = {"release": release.name, "period": release.period}
    return {"given": side.given, "kind": side.kind, **named, "plan_fingerprint": side.plan.fingerprint()}


def _changes(compared: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "query": each.query,
            "measure": each.measure,
            "keys": list(each.keys),
            "before": each.before,
            "after": each.after,
            "noise": each.noise,
        }
        for each in compared.changes
    ]


def _show(compared: Compared) -> None:
    one, two = compared.first.plan.release, compared.second.plan.release
    if one.name != two.name:
        say(f"two releases: {one.name}/{one.period} beside {two.name}/{two.period}\n")
    differences = compared.moved.differences
    if differences:
        rows = [[each.what, each.before or "-", each.after or "-"] for each in differences]
        say(columns(["what was asked", "before", "after"], rows))
        say()
    print_moved(compared.moved)
    _show_files(compared)
    if compared.numbers is not None:
        say()
        _show_numbers(compared.numbers)
        if any({"nonnegative", "integer"} & set(each.post) for each in compared.first.plan.workloads):
            say("of numbers that were made non-negative or whole the estimates before are compared")


def _show_files(compared: Compared) -> None:
    files = [f"  + {path}" for path in compared.added] + [f"  - {path}" for path in compared.dropped]
    if not files:
        return
    say(f"files of the bundle, but for its pages: {len(compared.added)} come, {len(compared.dropped)} go")
    for line in files[:_MOST_SHOWN]:
        say(line)
    if len(files) > _MOST_SHOWN:
        say(f"  ... and {len(files) - _MOST_SHOWN} more: --json has all of them")


def _show_numbers(compared: Comparison) -> None:
    left_out = f" ({compared.left_out} more are withheld, blank or have no margin)" if compared.left_out else ""
    say(f"{compared.compared} numbers compared{left_out}")
    percent = f"{float(compared.confidence) * 100:.4g}"
    if not compared.changes:
        say(f"none moved by more than noise explains, at {percent} % confidence for all of them together")
        return
    count = len(compared.changes)
    say(f"{count} moved by more than noise explains, at {percent} % confidence for all of them together\n")
    rows = [
        [
            f"{each.query}.{each.measure}",
            ", ".join(each.keys) or "everything",
            f"{each.before:,.6g}",
            f"{each.after:,.6g}",
            f"{each.after - each.before:+,.6g}",
            f"{each.noise:,.6g}",
        ]
        for each in compared.changes[:_MOST_SHOWN]
    ]
    header = ["number", "cell", "before", "after", "change", "noise explains"]
    say(columns(header, rows, right=frozenset({2, 3, 4, 5})))
    if len(compared.changes) > _MOST_SHOWN:
        say(f"... and {len(compared.changes) - _MOST_SHOWN} more: --json has all of them")
