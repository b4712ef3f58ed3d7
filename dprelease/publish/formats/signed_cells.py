"""The signs of a release in the cells of a workbook: in the place of numbers that are not there, and in the status."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.estimate import FigureRules, PublishedMeasure, PublishedTable
from dprelease.publish.base import Content
from dprelease.publish.figure_words import mostly_unreliable, signs_of
from dprelease.words import marked, phrase

__all__ = ["legend_lines", "missing_signs", "signed_statuses"]

_STATUSES = {
    "ok": marked("ok"),
    "caution": marked("use with care {sign}"),
    "unreliable": marked("unreliable {sign}"),
    "withheld_as": marked("withheld as unreliable {sign}"),
    "withheld": marked("withheld {sign}"),
    "no_estimate": marked("no estimate {sign}"),
    "not_distinguishable": marked("not distinguishable {sign}"),
    "not_applicable": marked("not applicable {sign}"),
}
_SIGNED_AS = {"withheld_as": "unreliable"}


def legend_lines(content: Content, table: PublishedTable) -> list[str]:
    """The signs that occur in a table, and whether most of it is unreliable; nothing in plans without signs."""
    signs = signs_of(content.plan, table)
    if signs is None:
        return []
    told = "; ".join(f"{sign} {words}" for sign, words in signs.legend(table, 0, table.cells))
    warned = [phrase("More than half of the numbers of this table are unreliable.")] if mostly_unreliable(table) else []
    return [*warned, phrase("Signs here: {told}.", told=told) if told else phrase("No sign occurs here.")]


def missing_signs(measure: PublishedMeasure, gone: Sequence[bool], figures: FigureRules) -> list[str]:
    """For each row what stands in the place of a number that is not there.

    Args:
        measure: The numbers.
        gone: Which rows were suppressed.
        figures: The rules of the release.
    """
    return [
        figures.symbols["unreliable" if status == "unreliable" else _missing(hidden, none)]
        for status, hidden, none in zip(measure.status, gone, measure.impossible.tolist(), strict=True)
    ]


def _missing(hidden: bool, never: bool) -> str:
    return "not_applicable" if never else "withheld" if hidden else "no_estimate"


def signed_statuses(measure: PublishedMeasure, gone: Sequence[bool], figures: FigureRules) -> list[str]:
    """The status of every number in words, with its sign; arguments as of :func:`missing_signs`."""
    signs, missing = figures.symbols, np.isnan(measure.value).tolist()
    zero, nowhere = measure.lows.tolist(), measure.impossible.tolist()
    said = {
        state: phrase(words, sign=signs.get(_SIGNED_AS.get(state, state), "")) for state, words in _STATUSES.items()
    }
    found = []
    for status, none, row, low, never in zip(measure.status, missing, gone, zero, nowhere, strict=True):
        if never:
            words = said["not_applicable"]
        elif status == "blank":
            words = said["withheld" if row else "no_estimate"]
        elif status == "unreliable":
            words = said["withheld_as" if none else "unreliable"]
        else:
            words = said[status]
        found.append(f"{words} {signs['low']}" if low else words)
    return found
