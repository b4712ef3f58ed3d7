"""Boundaries of areas from a public GeoJSON file, made small enough for a page: a path of whole steps for each key.

Coordinates that are all degrees of longitude and latitude are drawn with degrees of longitude shortened as they are
at the middle latitude; any others are taken as they are, with north above. Every corner is moved to the nearest point
of a grid. Two areas that share corners share them on the grid too, so that no gap opens between neighbours.

Areas that lie far off, or are too small to be seen, can be drawn apart: in boxes below the others, each at a scale of
its own. Areas of a box that lie on both sides of 180 degrees are put together there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from dprelease.canonical import GrownValue, Value

__all__ = ["BoundariesError", "Geography", "Inset", "read_boundaries"]

LARGEST = 32 << 20  # bytes of a file
_WIDTH = 960  # steps of the finest grid
_GRIDS = (1, 2, 3, 4, 6, 8)
_MOST = 60_000  # signs of all paths: what a page has room for
_LEAST_AREA = 8  # of an island in steps of the finest grid, squared
_MOST_NAMED = 5
_MOST_INSETS = 5
_BOX, _GAP = (180, 140), 15  # of what is drawn apart, in steps, and around it
_PAIRS = "write three corners or more, each as [longitude, latitude]"

Point = tuple[float, float]
Ring = list[tuple[int, int]]


class BoundariesError(Exception):
    """A file that gives no map.

    Attributes:
        code: The code of the problem.
        says: Completes "`geography.COLUMN.boundaries` ...".
        hint: What to do.
    """

    def __init__(self, code: str, says: str, hint: str) -> None:
        super().__init__(says)
        self.code, self.says, self.hint = code, says, hint


class Inset(Value):
    """Areas that are drawn apart, in a box: at which place, and how large; all in steps of the drawing."""

    keys: tuple[str, ...]
    x: int
    y: int
    width: int
    height: int


class Geography(GrownValue):
    """The areas of a key column as a page draws them.

    Attributes:
        column: The column, in every table that has it.
        file: As the spec names it.
        sha256: Of the file.
        width: Of the drawing, in steps.
        height: Of it.
        shapes: By the text of a key the path of its area, as SVG has it; keys without an area have none.
        insets: Which of them are drawn apart, and where.
    """

    LATER: ClassVar[tuple[str, ...]] = ("insets",)

    column: str
    file: str
    sha256: str
    width: int
    height: int
    shapes: dict[str, str]
    insets: tuple[Inset, ...] = ()


def read_boundaries(
    data: bytes,
    key: str,
    wanted: Sequence[str],
    without: Sequence[str] = (),
    apart: Sequence[Sequence[str]] = (),
) -> dict[str, Any]:
    """The areas of a column's keys.

    Args:
        data: The file: a GeoJSON ``FeatureCollection`` (RFC 7946) of polygons.
        key: The property of a feature that holds the key.
        wanted: The texts of all keys of the column.
        without: Those among them that have no area, as the author says.
        apart: Groups of keys that are drawn apart, each in a box of its own.

    Returns:
        ``width``, ``height``, ``shapes`` and, where there are some, ``insets`` of a :class:`Geography`.

    Raises:
        BoundariesError: If it is no such file, or a key has no area.
    """
    areas = _areas(_features(data), key, {*wanted} - {*without})
    missing = [each for each in wanted if each not in areas and each not in without]
    if missing:
        known = f"{', '.join(map(repr, missing[:_MOST_NAMED]))}{' and others' if missing[_MOST_NAMED:] else ''}"
        hint = f"correct `key`, add the areas to the file, or list keys that have none: `without: [{missing[0]}]`"
        raise BoundariesError("DPR-S732", f"has no area for {len(missing)} of {len(wanted)} keys: {known}", hint)
    areas = {each: areas[each] for each in wanted if each in areas}
    _check_apart(apart, areas)
    boxed = {each for group in apart for each in group}
    main = {name: rings for name, rings in areas.items() if name not in boxed}
    if not main:
        raise BoundariesError("DPR-S731", "has no area of any key", "name the property that holds the keys: `key`")
    frame = _frame(_points(main), (_WIDTH, _WIDTH))
    height = max(1, math.ceil((frame.high[1] - frame.low[1]) * frame.scale))
    places = [(_GAP + at * (_BOX[0] + _GAP), height + 2 * _GAP) for at in range(len(apart))]
    frames = [(frame, (0, 0), main)]
    for group, place in zip(apart, places, strict=True):
        own = _put_together({name: areas[name] for name in group})
        frames.append((_frame(_points(own), _BOX), place, own))
    boxes = [
        Inset(keys=tuple(group), x=x - _GAP // 2, y=y - _GAP // 2, width=_BOX[0] + _GAP, height=_BOX[1] + _GAP)
        for group, (x, y) in zip(apart, places, strict=True)
    ]
    for grid in _GRIDS:
        drawn = {
            name: _path([_snapped(ring, each, place, grid) for ring in rings], grid)
            for each, place, held in frames
            for name, rings in held.items()
        }
        shapes = {name: drawn[name] for name in areas}
        if sum(map(len, shapes.values())) <= _MOST:
            whole = boxes[0].y + boxes[0].height if boxes else height
            more = {"insets": tuple(boxes)} if boxes else {}
            return {"width": _WIDTH, "height": whole, "shapes": shapes, **more}
    hint = "simplify it first: mapshaper in.geojson -simplify 5% -o out.geojson"
    raise BoundariesError("DPR-S734", "has too many corners for a page, however coarse the grid", hint)


def _features(data: bytes) -> list[Any]:
    hint = "save the boundaries as GeoJSON: a FeatureCollection of polygons"
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BoundariesError("DPR-S730", "is no JSON in UTF-8", hint) from None
    if not isinstance(found, dict) or found.get("type") != "FeatureCollection":
        raise BoundariesError("DPR-S730", "is no FeatureCollection of GeoJSON", hint)
    features = found.get("features")
    if not isinstance(features, list) or not all(isinstance(each, dict) for each in features):
        raise BoundariesError("DPR-S730", "has no list of features", hint)
    return features


def _areas(features: Sequence[Any], key: str, wanted: set[str]) -> dict[str, list[list[Point]]]:
    """The rings of every feature whose key is wanted."""
    found: dict[str, list[list[Point]]] = {}
    there = False
    for number, feature in enumerate(features, start=1):
        told = feature.get("properties")
        written = told.get(key) if isinstance(told, dict) else None
        there = there or written is not None
        name = str(written).lower() if isinstance(written, bool) else str(written)
        if written is None or isinstance(written, dict | list | float) or name not in wanted:
            continue
        if name in found:
            says = f"has two features whose {key!r} is {name!r}"
            raise BoundariesError("DPR-S731", says, "join them to one MultiPolygon, or correct the property")
        found[name] = list(_rings(feature.get("geometry"), number))
        if not found[name]:
            raise BoundariesError("DPR-S735", f"has feature {number} without any corner", _PAIRS)
    if not there:
        says = f"has no feature with a property {key!r}"
        names = sorted({str(each) for one in features for each in (one.get("properties") or {})})[:8]
        raise BoundariesError("DPR-S731", says, f"`key` names one of: {', '.join(names) or 'none, for it has none'}")
    return found


def _rings(geometry: Any, number: int) -> Iterator[list[Point]]:
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    parts = geometry.get("coordinates") if isinstance(geometry, dict) else None
    if kind not in ("Polygon", "MultiPolygon") or not isinstance(parts, list):
        says = f"has feature {number}, which is no Polygon or MultiPolygon"
        raise BoundariesError("DPR-S730", says, "leave out points and lines, or keep them in another file")
    for polygon in [parts] if kind == "Polygon" else parts:
        for ring in polygon if isinstance(polygon, list) else [None]:
            if not isinstance(ring, list) or len(ring) < 3:
                raise BoundariesError(
                    "DPR-S735", f"has feature {number} with a ring of less than three corners", _PAIRS
                )
            yield [_point(each, number) for each in ring]


def _point(found: Any, number: int) -> Point:
    if isinstance(found, list) and len(found) >= 2 and all(type(each) in (int, float) for each in found[:2]):
        x, y = float(found[0]), float(found[1])
        if math.isfinite(x) and math.isfinite(y) and max(abs(x), abs(y)) < 1e12:
            return x, y
    says = f"has feature {number} with a corner that is no pair of numbers"
    raise BoundariesError("DPR-S735", says, _PAIRS)


def _check_apart(apart: Sequence[Sequence[str]], areas: Mapping[str, Any]) -> None:
    """Every key that is drawn apart has an area and one box.

    Raises:
        BoundariesError: DPR-S750.
    """
    named = [each for group in apart for each in group]
    unknown = [each for each in named if each not in areas]
    twice = [each for each in areas if named.count(each) > 1]
    if unknown:
        says = f"draws {unknown[0]!r} apart, which is no key with an area"
        raise BoundariesError("DPR-S750", says, f"keys with an area: {', '.join([*areas][:_MOST_NAMED])}")
    if twice:
        raise BoundariesError("DPR-S750", f"draws {twice[0]!r} apart twice", "name every key once")
    if len(apart) > _MOST_INSETS or not all(apart):
        says = f"has {len(apart)} boxes, of which {sum(not group for group in apart)} are empty"
        hint = f"write at most {_MOST_INSETS} lists of keys: `insets: [[AK], [HI]]`"
        raise BoundariesError("DPR-S750", says, hint)


def _points(areas: Mapping[str, list[list[Point]]]) -> list[Point]:
    return [point for rings in areas.values() for ring in rings for point in ring]


def _in_degrees(points: Sequence[Point]) -> bool:
    return all(-180 <= x <= 180 and -90 <= y <= 90 for x, y in points)


def _put_together(areas: dict[str, list[list[Point]]]) -> dict[str, list[list[Point]]]:
    """Areas on both sides of 180 degrees as they lie there, where that makes them less wide."""
    points = _points(areas)
    if not _in_degrees(points):
        return areas
    moved = {name: [[(x - 360 if x > 0 else x, y) for x, y in ring] for ring in rings] for name, rings in areas.items()}
    return min((areas, moved), key=lambda each: _wide(_points(each)))


def _wide(points: Sequence[Point]) -> float:
    return max(x for x, _ in points) - min(x for x, _ in points)


@dataclass(frozen=True)
class _Frame:
    """What is drawn: both corners, how much a step to the east counts, and steps for each unit."""

    low: Point
    high: Point
    across: float
    scale: float


def _frame(points: Sequence[Point], room: tuple[int, int]) -> _Frame:
    """The frame of some points, as large as there is room for it."""
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    low, high = (min(xs), min(ys)), (max(xs), max(ys))
    least = -360 if room != (_WIDTH, _WIDTH) else -180  # what is drawn apart may have been put together at 180 degrees
    degrees = low[0] >= least and high[0] <= 180 and low[1] >= -90 and high[1] <= 90
    # To four decimals, so that no library of mathematics can move a corner.
    across = max(0.1, round(math.cos(math.radians((low[1] + high[1]) / 2)), 4)) if degrees else 1.0
    wide = (high[0] - low[0]) * across
    tall = high[1] - low[1]
    if wide <= 0 or tall <= 0:
        raise BoundariesError("DPR-S735", "has areas without any extent", "write polygons with three corners or more")
    return _Frame(low, high, across, min(room[0] / wide, room[1] / tall))


def _snapped(ring: Sequence[Point], frame: _Frame, place: tuple[int, int], grid: int) -> Ring:
    """A ring on the grid, without corners that say nothing; ``place`` is where its frame begins."""
    step = frame.scale / grid
    moved = [
        (
            round((x - frame.low[0]) * frame.across * step) + round(place[0] / grid),
            round((frame.high[1] - y) * step) + round(place[1] / grid),
        )
        for x, y in ring
    ]
    found: Ring = []
    for point in moved:
        while len(found) > 1 and point != found[-1] and _turn(found[-2], found[-1], point) == 0:
            found.pop()
        if not found or found[-1] != point:
            found.append(point)
    return found[:-1] if len(found) > 1 and found[0] == found[-1] else found


def _turn(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> int:
    return (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])


def _area(ring: Ring) -> float:
    turns = (a[0] * b[1] - b[0] * a[1] for a, b in zip(ring, [*ring[1:], ring[0]], strict=True))
    return abs(sum(turns)) / 2


def _path(rings: Sequence[Ring], grid: int) -> str:
    """All rings but the smallest islands; of an area that is smaller than that a square where it is."""
    kept = [ring for ring in rings if len(ring) > 2 and _area(ring) * grid * grid >= _LEAST_AREA]
    if not kept:
        x, y = max(rings, key=_area)[0]
        kept = [[(x - 1, y - 1), (x + 1, y - 1), (x + 1, y + 1), (x - 1, y + 1)]]
    return "".join(_moves(ring, grid) for ring in kept)


def _moves(ring: Ring, grid: int) -> str:
    """One ring as SVG writes it, each corner from the one before.

    >>> _moves([(0, 0), (2, 0), (2, 3)], 2)
    'M0 0l4 0 0 6z'
    """
    steps = [f"{(b[0] - a[0]) * grid} {(b[1] - a[1]) * grid}" for a, b in pairwise(ring)]
    return f"M{ring[0][0] * grid} {ring[0][1] * grid}l{' '.join(steps)}z"
