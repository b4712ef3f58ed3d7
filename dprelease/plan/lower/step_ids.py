"""The ids of steps: after the query that asked first, and what is measured."""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.catalog.aggregate import Quantity

__all__ = ["step_id", "word"]


def word(quantities: Sequence[Quantity]) -> str:
    """What a step measures, as a part of its id."""
    first = quantities[0]
    if len(quantities) > 1:
        return "counts"
    if first.kind == "quantile" and first.at is not None:
        return f"{first.column}-q{float(100 * first.at):g}".replace(".", "_")
    if first.is_clip:
        return f"{first.column}-clip"
    if first.is_counted:
        return f"{first.column}-classes"
    return first.kind if first.column is None else f"{first.column}-{first.kind}"


def step_id(query: str, word: str, taken: set[str]) -> str:
    """A name that no other step has, which is added to those that are taken."""
    base = f"{query}.{word}"
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return name
