"""What moves between two plans, as columns for a person and as JSON for a machine."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dprelease.cli.views import columns, say
from dprelease.plan.explain.changes import Block, Comes, Moved
from dprelease.plan.explain.noise_changes import Drawn, Number

__all__ = ["moved_facts", "print_moved"]

_MOST_NAMED = 12
Pair = tuple[str, str]


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
        say(columns(header, rows, right=frozenset(range(3, 10))))
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
