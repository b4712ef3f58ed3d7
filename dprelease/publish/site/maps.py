"""Maps of rates, shares and means: areas in classes of colour, hatched where the noise may have chosen the class.

Counts are never drawn so: large areas would look like many people. Classes are five at most, with round limits near
the quantiles; where the intervals of more than a fifth of the areas reach into another class there are fewer, and where
that does not help there is no map, and it is said why. A number that is not published has no colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from dprelease.catalog.boundaries import Geography
from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.measures.text import decimal
from dprelease.publish.base import key_as_text
from dprelease.publish.numbers import with_margin
from dprelease.publish.site.cells import between
from dprelease.publish.site.map_labels import Placed, label_size, name_placed
from dprelease.words import amount, phrase

__all__ = ["MOST_MAPS", "Area", "AreaMap", "map_of"]

MOST_MAPS = 4  # of a release
_RATES = (
    "mean",
    "ratio",
    "counted_ratio",
    "counted_share",
    "counted_gini",
    "quantile",
    "counted_quantile",
    "variance",
    "stddev",
)
_MOST_CLASSES, _LEAST_CLASSES = 5, 3
_UNSURE = 0.2  # of the areas, at most
_SHADES = ((3,), (1, 5), (1, 3, 5), (1, 2, 4, 5), (1, 2, 3, 4, 5))  # by how many limits there are


@dataclass(frozen=True)
class Area:
    """One area.

    Attributes:
        path: As SVG has it.
        name: Its label, and its number with the interval.
        kind: Its shade from 1 to 5; 0: nothing is published.
        unsure: Whether its interval reaches into another class.
        label: Its label alone.
        at: Where that stands on the map; None: there is no room for it.
    """

    path: str
    name: str
    kind: int
    unsure: bool
    label: str
    at: Placed | None


@dataclass(frozen=True)
class AreaMap:
    """A map of one measure, or why there is none.

    Attributes:
        measure: What readers see in the place of its name.
        width: Of the drawing, in its own steps.
        height: Of it.
        areas: In the order of the table; none where the map would say what is not known.
        classes: The shade and the words of each class.
        missing: Labels of areas that are not on the map.
        apart: Of what is drawn apart its box (x, y, width, height) and the labels of its areas.
        why_not: Why there is no map; empty: there is one.
    """

    measure: str
    width: int
    height: int
    areas: tuple[Area, ...]
    classes: tuple[tuple[int, str], ...]
    missing: tuple[str, ...]
    why_not: str = ""
    apart: tuple[tuple[tuple[int, int, int, int], str], ...] = ()

    @property
    def letters(self) -> int:
        """How high the letters of labels are, in the steps of the drawing."""
        return label_size(self.width)


def map_of(table: PublishedTable, geography: Sequence[Geography]) -> AreaMap | None:
    """The map of the first rate, share or mean of a table whose one key is a column with boundaries; None: of none."""
    names = [column.name for column in table.key_columns]
    found = next((each for each in geography if names == [each.column]), None)
    measure = next((each for each in table.measures if each.measure and each.measure.kind in _RATES), None)
    return None if found is None or measure is None else _drawn(table, measure, found)


def _drawn(table: PublishedTable, measure: PublishedMeasure, geography: Geography) -> AreaMap:
    column = table.key_columns[0]
    keys = [key_as_text(key) for key in table.keys[0]]
    labels = [column.labels.get(key, key) for key in keys]
    named = dict(zip(keys, labels, strict=True))
    numbers = list(zip(*(each.tolist() for each in (measure.value, measure.lower, measure.upper)), strict=True))
    there = [at for at, (value, _, _) in enumerate(numbers) if math.isfinite(value) and keys[at] in geography.shapes]
    missing = tuple(label for key, label in zip(keys, labels, strict=True) if key not in geography.shapes)
    classes = min(_MOST_CLASSES, max(_LEAST_CLASSES, len(there) // 5))
    shown = [_shown(*numbers[at]) for at in there]
    limits, unsure = list[float](), [False] * len(there)
    for count in range(classes, _LEAST_CLASSES - 1, -1):
        limits = _limits(shown, count)
        unsure = [_class(lower, limits) != _class(upper, limits) for _, lower, upper in shown]
        if sum(unsure) <= _UNSURE * len(unsure):
            break
    else:
        why = phrase(
            "There is no map of {measure}: the intervals of {unsure} of {all} areas reach over the limit of a class, "
            "so that its colours would say what is not known.",
            measure=measure.shown,
            unsure=amount(sum(unsure)),
            all=amount(len(unsure)),
        )
        return AreaMap(measure.shown, 0, 0, (), (), (), why)
    told = dict(zip(there, zip(shown, unsure, strict=True), strict=True))
    shades, areas = _SHADES[len(limits)], []
    for at, (key, label) in enumerate(zip(keys, labels, strict=True)):
        if key in geography.shapes:
            (value, lower, upper), weak = told.get(at, ((math.nan,) * 3, False))
            words = f"{label}: {_words(value, lower, upper, measure)}"
            kind = shades[_class(value, limits)] if at in told else 0
            path = geography.shapes[key]
            areas.append(Area(path, words, kind, weak, label, name_placed(path, label, label_size(geography.width))))
    return AreaMap(
        measure=measure.shown,
        width=geography.width,
        height=geography.height,
        areas=tuple(areas),
        classes=tuple(zip(shades, _class_words(limits, "" if not measure.unit else " %"), strict=True)),
        missing=missing,
        apart=tuple(
            ((box.x, box.y, box.width, box.height), ", ".join(named.get(key, key) for key in box.keys))
            for box in geography.insets
        ),
    )


def _shown(value: float, lower: float, upper: float) -> tuple[float, float, float]:
    """A number as its table shows it, within its interval; both ends the number itself where none is known."""
    if not math.isfinite(lower) or not math.isfinite(upper):
        return value, value, value
    return min(max(value, lower), upper), lower, upper


def _words(value: float, lower: float, upper: float, measure: PublishedMeasure) -> str:
    if not math.isfinite(value):
        return phrase("not published")
    margin = max(upper - value, value - lower)
    number, _ = with_margin(value, margin, measure.places)
    unit = " %" if measure.unit else ""
    return f"{number}{unit} ({between(lower, upper, margin, measure.places)})" if margin > 0 else f"{number}{unit}"


def _limits(shown: Sequence[tuple[float, float, float]], classes: int) -> list[float]:
    """Limits between classes, rising and round: near each quantile where the fewest intervals reach over one.

    Near is a third of a class to either side; of equal ones the nearest is taken.

    >>> _limits([(value, value - 0.2, value + 0.2) for value in (1.0, 2.1, 2.3, 4.1, 5.2, 6.6)], 3)
    [2.6, 4.5]
    """
    ordered = sorted(value for value, _, _ in shown)
    if len(ordered) < 2 or ordered[0] == ordered[-1]:
        return []
    finest = 1 - math.floor(math.log10((ordered[-1] - ordered[0]) / classes))
    found: list[float] = []
    for part in range(1, classes):
        place = (len(ordered) - 1) * part / classes
        room = len(ordered) / classes / 3
        tried = [_at(ordered, place), *(_at(ordered, place + room * step / 8) for step in range(-8, 9))]
        ranked = [
            (sum(low < limit <= high for _, low, high in shown), abs(limit - tried[0]), limit)
            for limit in dict.fromkeys(round(each, finest) for each in tried)
            if not found or limit > found[-1]
        ]
        found += [min(ranked)[2]] if ranked else []
    return found


def _at(ordered: Sequence[float], place: float) -> float:
    """The value at a place among ordered ones, between two where it is between."""
    place = min(max(place, 0.0), len(ordered) - 1.0)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _class(value: float, limits: Sequence[float]) -> int:
    return sum(value >= limit for limit in limits)


def _class_words(limits: Sequence[float], unit: str) -> tuple[str, ...]:
    """What each class holds.

    >>> _class_words([0.1, 0.25], " %")
    ('below 0.1 %', '0.1 to below 0.25 %', '0.25 % and above')
    """
    texts = [decimal(Decimal(repr(each))) for each in limits]
    if not texts:
        return (phrase("all alike"),)
    inside = [phrase("{low} to below {high}", low=low, high=f"{high}{unit}") for low, high in pairwise(texts)]
    lowest, highest = (f"{texts[at]}{unit}" for at in (0, -1))
    return (phrase("below {limit}", limit=lowest), *inside, phrase("{limit} and above", limit=highest))
