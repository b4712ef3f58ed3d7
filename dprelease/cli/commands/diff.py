"""``dprelease diff``: two releases, or plans of them, side by side."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.options import Json, Period
from dprelease.cli.views import say, say_json, text_table
from dprelease.errors import CheckFailed

if TYPE_CHECKING:
    from dprelease.plan.explain.changes import Block, Comes, Moved
    from dprelease.plan.explain.noise_changes import Drawn, Number
    from dprelease.publish import Comparison
    from dprelease.release.diff import Diff, DiffSide

__all__ = ["diff_command", "moved_facts", "print_moved"]

Pair = tuple[str, str]

_MOST_SHOWN = 40
_MOST_NAMED = 12
# Two releases are expected to differ in them; in the layout where the first was planned by an older version.
_NAMES = ("release", "period", "revision", "title", "curator", "contact", "intended use", "entry", "layout")


def _confidence(text: str) -> Fraction:
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share < 1:
        raise typer.BadParameter("write a share between 0 and 1, such as 0.95", param_hint="--confidence")
    return share


def diff_command(
    first: Annotated[
        str, typer.Argument(help="A bundle's folder, NAME/PERIOD, a plan frozen by `plan --out`, or a spec.")
    ],
    second: Annotated[str, typer.Argument(help="A later one; a spec is planned as it is now.")],
    confidence: Annotated[
        str, typer.Option(help="That no number is named that did not change, for all of them together.")
    ] = "0.95",
    period: Period = None,
    as_json: Json = False,
) -> None:
    """What changed between two releases, or plans, beyond what their noise explains; needs no data and no ledger."""
    from dprelease.release.diff import compare_sides, open_side

    share = _confidence(confidence)
    compared = compare_sides(open_side(first, period), open_side(second, period), share)
    if as_json:
        say_json(_facts(compared, share))
    else:
        _show(compared)
    _check(compared)


def _check(compared: Diff) -> None:
    """Whether anything is other than it was, beyond what two releases always differ in.

    Raises:
        CheckFailed: If a number moved by more than noise explains, or something else was asked than before, or is as
            accurate as before no more. Another name, period, planned revision or title is nothing else.
    """
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


def _facts(compared: Diff, confidence: Fraction) -> dict[str, Any]:
    numbers = compared.numbers
    return {
        "first": _side_facts(compared.first),
        "second": _side_facts(compared.second),
        "confidence": str(confidence),
        "compared": numbers.compared if numbers is not None else 0,
        "left_out": numbers.left_out if numbers is not None else 0,
        "differences": [asdict(each) for each in compared.moved.differences],
        "changes": [asdict(each) for each in numbers.changes] if numbers is not None else [],
        "plan": moved_facts(compared.moved),
        "files": {"added": list(compared.added), "dropped": list(compared.dropped)},
    }


def _side_facts(side: DiffSide) -> dict[str, str]:
    release = side.plan.release
    named = {"release": release.name, "period": release.period}
    return {"given": side.given, "kind": side.kind, **named, "plan_fingerprint": side.plan.fingerprint()}


def _show(compared: Diff) -> None:
    one, two = compared.first.plan.release, compared.second.plan.release
    if one.name != two.name:
        say(f"two releases: {one.name}/{one.period} beside {two.name}/{two.period}\n")
    differences = compared.moved.differences
    if differences:
        rows = [[each.what, each.before or "-", each.after or "-"] for each in differences]
        say(text_table(["what was asked", "before", "after"], rows))
        say()
    print_moved(compared.moved)
    _show_files(compared)
    if compared.numbers is not None:
        say()
        _show_numbers(compared.numbers)
        if any({"nonnegative", "integer"} & set(each.post) for each in compared.first.plan.workloads):
            say("of numbers that were made non-negative or whole the estimates before are compared")


def _show_files(compared: Diff) -> None:
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
    say(text_table(header, rows, right=frozenset({2, 3, 4, 5})))
    if len(compared.changes) > _MOST_SHOWN:
        say(f"... and {len(compared.changes) - _MOST_SHOWN} more: --json has all of them")


def moved_facts(moved: Moved) -> dict[str, Any]:
    """Everything that both plans have and that moved, what one of them alone has, and the names of the rest."""
    return {
        "queries": [_block_facts(block) for block in moved.blocks if block.moved or _other_share(block)],
        "added": [_comes_facts(each) for each in moved.comes if each.added],
        "dropped": [_comes_facts(each) for each in moved.comes if not each.added],
        "unmoved": list(moved.unmoved),
    }


def _comes_facts(comes: Comes) -> dict[str, Any]:
    return {"name": comes.name, "workload": comes.workload, "tables": list(comes.tables)}


def _block_facts(block: Block) -> dict[str, Any]:
    before, after = block.shares
    return {
        "name": block.name,
        "workload": block.workload,
        "tables": len(block.tables),
        "share": _pair_facts((str(before), str(after))),
        "times": None if block.times is None else list(map(_times, block.times)),
        "numbers": [_number_facts(number) for number in block.other_noise],
    }


def _number_facts(number: Number) -> dict[str, Any]:
    return {
        "query": number.query,
        "measure": number.measure,
        "times": None if number.times is None else _times(number.times),
        "margin": _pair_facts(number.margin, ratio=True),
        "standard_error": _pair_facts(number.standard_error, ratio=True),
        "draws": [
            {
                "quantity": _pair_facts(draw.quantity),
                "mechanism": _pair_facts(draw.mechanism),
                "scale": _pair_facts(draw.scale, ratio=True),
                "share": _pair_facts(draw.share),
            }
            for draw in number.draws
        ],
    }


def _pair_facts(pair: Pair, *, ratio: bool = False) -> dict[str, str | None]:
    before, after = pair
    facts: dict[str, str | None] = {"before": before or None, "after": after or None}
    if ratio:
        known = before and after and Fraction(before)
        facts["times"] = _times(Fraction(after) / Fraction(before)) if known else None
    return facts


def _times(times: Fraction) -> str:
    return f"{float(times):.4g}"


def _other_share(block: Block) -> bool:
    return block.shares[0] != block.shares[1]


def print_moved(moved: Moved) -> None:
    """A line for every number whose noise moved, one for all tables of a workload, and how much did not move."""
    rows = [row for block in moved.blocks if block.other_noise for row in _rows(block)]
    if rows:
        header = ["noise of", "number", "hidden by", "share", "after", "scale", "after", "margin", "after", "times"]
        say(text_table(header, rows, right=frozenset(range(3, 10))))
        say()
    shared = [block for block in moved.blocks if _other_share(block) and not block.other_noise]
    if shared:
        lines = [f"{block.name} {_percent(block.shares[0])} to {_percent(block.shares[1])}" for block in shared]
        say(f"the same noise for another share of the budget: {_named(lines)}")
    if moved.unmoved:
        say(f"{_queries(len(moved.unmoved))}: nothing moved ({_named(moved.unmoved)})")


def _queries(count: int) -> str:
    return "1 query" if count == 1 else f"{count} queries"


def _named(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _rows(block: Block) -> list[list[str]]:
    if block.workload:
        return [_workload_row(block)]
    rows: list[list[str]] = []
    for number in block.other_noise:
        for at, draw in enumerate(number.draws):
            first = "" if rows else block.name
            name = number.measure if at == 0 else f"  + {draw.quantity[0] or draw.quantity[1]}"
            margins = [*map(_margin, number.margin), _told(number)] if at == 0 else ["", "", ""]
            rows.append([first, name, *_draw_cells(draw), *margins])
    return rows


def _draw_cells(draw: Drawn) -> list[str]:
    shares = [_percent(Fraction(each)) if each else "-" for each in draw.share]
    scales = [f"{float(Fraction(each)):,.4g}" if each else "-" for each in draw.scale]
    return [_way(draw.mechanism), *shares, *scales]


def _way(mechanism: Pair) -> str:
    before, after = (each.replace("_", " ") or "nothing" for each in mechanism)
    return before if before == after else f"{before} to {after}"


def _workload_row(block: Block) -> list[str]:
    """Margins and times are the least and the largest of its tables."""
    margins = []
    for side in (0, 1):
        known = sorted(float(number.margin[side]) for number in block.numbers if number.margin[side])
        margins.append(f"± {_range(f'{each:,.4g}' for each in (known[0], known[-1]))}" if known else "*")
    times = _range(map(_times, block.times)) if block.times else "-"
    moved = f"{len(block.other_noise)} of {len(block.numbers)} tables"
    return [block.name, moved, "", *map(_percent, block.shares), "", "", *margins, times]


def _range(ends: Any) -> str:
    return " to ".join(dict.fromkeys(ends))


def _margin(margin: str) -> str:
    return f"± {float(margin):,.4g}" if margin else "*"


def _told(number: Number) -> str:
    return "-" if number.times is None else _times(number.times)


def _percent(share: Fraction) -> str:
    return f"{float(share):.1%}"
