"""A plan in words, in the language that is spoken: what its steps add up, and what it says in words of its own.

A plan keeps the latter, such as why a margin is unknown and what was passed over, as English text, for they are part of
what is signed and approved. Here they are found again by their forms, so that a page in another language says them in
its own. A text of no known form, such as one of a later version, is shown as it is and marked as English.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.names import Foreign
from dprelease.measures.text import exact_text, weighed
from dprelease.words import DEFAULT, amount, marked, number_written, phrase, spoken

__all__ = ["FORMS", "quantity_words", "told_by_plan"]

FORMS = (
    marked("depends on the cell's size: give `expect` for a count of the query"),
    marked("depends on the data: how far apart the values of neighbouring ranks lie"),
    marked("depends on the data: how large the two numbers are"),
    marked("depends on the data: how large the numbers are"),
    marked("{why}; counts of values up to a point err by {error}"),
    marked(
        "in proportion to the clip that noise chooses: for each 1 of it a standard error of {error} and a margin of "
        "{margin}"
    ),
    marked("{kind} {spent} of {limit} is used: every query is pinned or has a target"),
    marked("{kind} {spent} of {limit} is used: more would not change the noise of {names}"),
    marked("{count} measures at epsilon {each} each, discrete Laplace noise, added up"),
    marked("an account's composition cannot take it"),
    marked("it would charge an account epsilon {charged} for this release"),
    marked("it would charge an account epsilon {charged} for this release, and this plan charges epsilon {ours}"),
    marked("its margins are known by bounds alone, {times} times as wide as normal ones"),
    marked(
        "its total error is larger, but {query} would have {times} times the noise that it has here; "
        "`allocation: shares` takes it"
    ),
    marked(
        "the spec asks for `noise: {noise}`, for which an account is charged {ours}; it would charge an account "
        "epsilon {other} for this release"
    ),
    marked("what it cannot take"),
    marked("the same, divided by least error"),
    marked("the same, divided by shares"),
    marked("noise: auto, which is {name}"),
    marked("discrete Laplace"),
    marked("discrete Gaussian"),
    marked("discrete Laplace, sums from means"),
    marked("discrete Gaussian, sums from means"),
    marked("correlated Gaussian counts"),
    marked("K-norm counts, Laplace"),
    marked("K-norm counts, Gaussian"),
    marked("total and residual counts, Laplace"),
    marked("total and residual counts, Gaussian"),
    marked("random-scale Gaussian counts"),
    marked("parts and rests, Laplace"),
    marked("parts and rests, Gaussian"),
    marked("disjoint counts, Laplace"),
    marked("disjoint counts, Gaussian"),
    marked("{workload}: tables"),
    marked("{workload}: even tables"),
    marked("{workload}: joint tables"),
    marked("{workload}: without its invariants"),
    marked("{workload}: without its structural zeros"),
)
_NUMBER = re.compile(r"[\d.]+(?:e[+-]?\d+)?")
_PLACE = re.compile(r"\\\{(\w+)\\\}")


def told_by_plan(text: str) -> str:
    """A text of a plan in the language that is spoken.

    >>> told_by_plan("what it cannot take")
    'what it cannot take'
    """
    if not text or spoken().tag == DEFAULT:
        return text
    for form, pattern in _patterns():
        if found := pattern.fullmatch(text):
            places = {name: _place(name, each) for name, each in found.groupdict().items()}
            return phrase(form, **places)
    return Foreign(text, DEFAULT)


def _place(name: str, text: str) -> str:
    """What stood in a place: a number, words of a form of their own, or a name."""
    if _NUMBER.fullmatch(text):
        return number_written(text)
    return told_by_plan(text) if name in ("why", "name", "ours", "other") else text


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The forms, those with the fewest places first, so that a whole sentence is not taken for a part of another."""
    found = [(form, re.compile(_PLACE.sub(r"(?P<\1>.+?)", re.escape(form)), re.DOTALL)) for form in FORMS]
    return tuple(sorted(found, key=lambda pair: pair[1].groups))


def quantity_words(quantity: Quantity) -> str:
    """What is added up in every cell of a step, before the noise.

    >>> quantity_words(Quantity(kind="sum", column="pay", step=Fraction(1, 100), low=0, high=200, centre=100))
    'pay less 1, in steps of 0.01'
    """
    only = phrase(", where {where}", where=quantity.where) if quantity.where is not None else ""
    if quantity.kind == "rest":
        only = phrase(", but for those where {where}", where=quantity.where)
    rest = phrase(", less all others") if quantity.kind == "balance" and only else ""
    weight = "" if quantity.weight is None else weighed(quantity.weight)
    return _measured(quantity) + only + rest + weight


def _counted(quantity: Quantity) -> str:
    """Of a balance: the rows that count; those that do not are told with its condition."""
    one = phrase("units with a row") if quantity.per == "unit_cell" else phrase("rows")
    if quantity.where is None:
        return phrase("{one} with a value of {column}, less those without", one=one, column=quantity.column)
    return one if quantity.column is None else phrase("{one} with a value of {column}", one=one, column=quantity.column)


def _measured(quantity: Quantity) -> str:
    column, together = quantity.column, quantity.per == "unit_cell"
    counts = {
        "rows": phrase("rows"),
        "units": phrase("units, each once"),
        "nonnull": phrase("units with a value of {column}", column=column)
        if together
        else phrase("rows with a value of {column}", column=column),
        "balance": _counted(quantity),
        "rest": phrase("rows") if column is None else phrase("rows with a value of {column}", column=column),
        "distinct": phrase("different values of {column}", column=column),
    }
    if quantity.kind in counts:
        return counts[quantity.kind]
    if quantity.kind == "quantile":
        span = phrase(
            "{low} to {high}",
            low=exact_text(quantity.low * quantity.step),
            high=exact_text(quantity.high * quantity.step),
        )
        if quantity.is_clip:
            return phrase("one clip of {column} for all cells, from {span}", column=column, span=span)
        if quantity.is_counted:
            return phrase(
                "rows in each of {count} classes of {column}, from {span}",
                count=amount(len(quantity.classes)),
                column=column,
                span=span,
            )
        return phrase(
            "rank at {percent} % of {column}, from {span}",
            percent=exact_text(100 * (quantity.at or Fraction(0))),
            column=column,
            span=span,
        )
    if together:
        column = phrase("each unit's total of {column}", column=column)
    middle = exact_text(abs(quantity.centre) * quantity.step)
    about = "" if not quantity.centre else phrase(" less {middle}", middle=middle)
    if quantity.centre < 0:
        about = phrase(" plus {middle}", middle=middle)
    if quantity.chosen is not None:
        less = phrase(" less half of that clip") if quantity.centre else ""
        return phrase(
            "{column}, clipped where noise has chosen{less}, in steps of a millionth of the clip",
            column=column,
            less=less,
        )
    if quantity.kind == "sum":
        return phrase("{column}{about}, in steps of {step}", column=column, about=about, step=exact_text(quantity.step))
    grid = quantity.grain * quantity.step**2
    off = phrase(", less {offset} each", offset=exact_text(quantity.offset * grid)) if quantity.offset else ""
    square = f"({column}{about})²" if about else f"{column}²"
    return phrase("{square}{off}, in steps of {grid}", square=square, off=off, grid=exact_text(grid))
