"""Every kind of measure of the table, as an author may write it: a new kind is enrolled without further work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from dprelease.measures import MEASURES, PARTS, Measure

__all__ = ["asked", "is_of_others", "measure_of", "of_a_column", "worked_out"]


def is_of_others(kind: str) -> bool:
    """Whether a kind of measure is made of other measures of its query, which it names."""
    return MEASURES[kind].model_fields[kind].annotation is not str


def of_a_column() -> tuple[str, ...]:
    """The kinds that are asked of a column."""
    return tuple(kind for kind in MEASURES if not is_of_others(kind))


def asked(kind: str, target: Any, **fields: Any) -> dict[str, Any]:
    """What a spec says to ask for a kind of measure; required fields as in their example.

    Args:
        kind: The kind.
        target: A column, or a list of names of other measures.
        fields: Further fields; those that the kind does not have, or that are None, are left out.
    """
    known = MEASURES[kind].model_fields
    needed = {name: (info.examples or [None])[0] for name, info in known.items() if info.is_required() and name != kind}
    return {kind: target} | needed | {name: each for name, each in fields.items() if name in known and each is not None}


def measure_of(kind: str, target: str, **fields: Any) -> Measure:
    """A measure of a kind that is planned as it is written."""
    return PARTS[kind].model_validate(asked(kind, target, **fields))


def worked_out(formula: str, blank: Iterable[str], numbers: Sequence[int]) -> float:
    """What a formula of the recipe gives; NaN where it says that no number is published.

    The conditions are taken in order: what stands behind one that holds may not be worked out any more.
    """
    names: dict[str, Any] = {f"x{at}": number for at, number in enumerate(numbers, start=1)}
    names |= {
        "clip": lambda x, low, high: min(max(x, low), high),
        "smallest": lambda at, *values: sorted(values)[at - 1],
        "sqrt": math.sqrt,
    }
    if any(eval(each, {"__builtins__": {}}, names) for each in blank):
        return math.nan
    return float(eval(formula, {"__builtins__": {}}, names))
