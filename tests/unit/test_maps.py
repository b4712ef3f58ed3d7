"""Maps: every key where its area is, no gap between neighbours, doubt drawn as doubt, and a clear word for a wrong file."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.catalog.boundaries import BoundariesError, Geography, read_boundaries
from dprelease.estimate import PublishedTable
from dprelease.measures.mean import Mean
from dprelease.publish import published_tables, render
from dprelease.publish.site.map_labels import name_placed
from dprelease.publish.site.maps import map_of
from tests.unit.publish_example import STATES, facts, measurements, plan
from tests.unit.test_publish_pages import Outline

KEYS = tuple(f"{at:02d}" for at in range(20))


def square(at: int, size: float = 1.0) -> list[list[list[float]]]:
    x, y = size * (at % 5), size * (at // 5)
    return [[[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]]


def grid(keys: tuple[str, ...] = KEYS, **changes: Any) -> bytes:
    features = [
        {
            "type": "Feature",
            "properties": {"code": key, "name": f"Area {key}"},
            "geometry": {"type": "Polygon", "coordinates": square(at)},
        }
        for at, key in enumerate(keys)
    ]
    return json.dumps({"type": "FeatureCollection", "features": features, **changes}).encode()


def geography(keys: tuple[str, ...] = KEYS, column: str = "state") -> Geography:
    return Geography(column=column, file="g.geojson", sha256="ab" * 32, **read_boundaries(grid(keys), "code", keys))


def corners(path: str) -> set[tuple[int, int]]:
    found = set()
    for ring in re.findall(r"M(-?\d+) (-?\d+)l([^z]*)z", path):
        x, y = int(ring[0]), int(ring[1])
        found.add((x, y))
        steps = [int(each) for each in ring[2].split()]
        for dx, dy in zip(steps[::2], steps[1::2], strict=True):
            x, y = x + dx, y + dy
            found.add((x, y))
    return found


def test_neighbours_share_their_corners_and_north_is_above() -> None:
    made = geography()
    assert made.shapes.keys() == set(KEYS)
    for at in (0, 1, 2, 3):
        assert len(corners(made.shapes[KEYS[at]]) & corners(made.shapes[KEYS[at + 1]])) == 2
    lowest = {name: max(y for _, y in corners(path)) for name, path in made.shapes.items()}
    assert lowest["00"] > lowest["05"] > lowest["10"]
    assert max(x for path in made.shapes.values() for x, _ in corners(path)) <= made.width
    assert read_boundaries(grid(), "code", KEYS) == read_boundaries(grid(tuple(KEYS)), "code", KEYS)


def test_other_features_are_passed_over_and_keys_without_an_area_are_named_by_the_author() -> None:
    found = read_boundaries(grid((*KEYS, "99")), "code", (*KEYS, "away"), ("away",))
    assert found["shapes"].keys() == set(KEYS)


POINT = {"type": "Feature", "properties": {"code": "00"}, "geometry": {"type": "Point", "coordinates": [0, 0]}}
THIN = {"type": "Feature", "properties": {"code": "00"}, "geometry": {"type": "Polygon", "coordinates": [[[0, 0]]]}}
NAN = {
    "type": "Feature",
    "properties": {"code": "00"},
    "geometry": {"type": "Polygon", "coordinates": [[["x", 0]] * 4]},
}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff", "DPR-S730"),
        (b"[" * 100_000, "DPR-S730"),
        (b"{}", "DPR-S730"),
        (b'{"type": "Topology"}', "DPR-S730"),
        (grid(features=7), "DPR-S730"),
        (grid(features=[POINT]), "DPR-S730"),
        (grid(features=[]), "DPR-S731"),
        (grid(("00", "00")), "DPR-S731"),
        (grid(KEYS[:-1]), "DPR-S732"),
        (grid(features=[THIN]), "DPR-S735"),
        (grid(features=[NAN]), "DPR-S735"),
        (grid().replace(b"0.0", b"1e999"), "DPR-S735"),
    ],
)
def test_a_wrong_file_is_told_for_what_it_is(data: bytes, code: str) -> None:
    with pytest.raises(BoundariesError) as caught:
        read_boundaries(data, "code", KEYS)
    assert caught.value.code == code
    assert caught.value.hint


def test_too_many_corners_are_refused_and_many_are_made_fewer() -> None:
    def star(corners_of: int) -> bytes:
        ring = np.random.default_rng(7).uniform(0, 100, (corners_of, 2)).tolist()
        one = {"properties": {"code": "00"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
        return grid(features=[one])

    assert len(read_boundaries(star(5_000), "code", ("00",))["shapes"]["00"]) <= 60_000
    with pytest.raises(BoundariesError) as caught:
        read_boundaries(star(30_000), "code", ("00",))
    assert caught.value.code == "DPR-S734"


def table(values: list[float], margin: float) -> PublishedTable:
    made = published_tables(plan(), measurements())[1]
    (average,) = [each for each in made.measures if isinstance(each.measure, Mean)]
    value = np.array(values)
    measure = replace(
        average,
        value=value,
        lower=value - margin,
        upper=value + margin,
        margin=np.full(len(value), margin),
        status=["ok"] * len(value),
        tested=False,
    )
    column = made.key_columns[0].model_copy(update={"keys": KEYS[: len(values)], "labels": {"00": "<North>"}})
    return replace(made, key_columns=(column,), keys=(KEYS[: len(values)],), measures=(measure,), cells=len(values))


def test_an_area_is_hatched_where_its_interval_reaches_into_another_class() -> None:
    values = [10.0, 11.0, 12.0, 13.0, 20.0, 21.0, 22.0, 23.0, 30.0, 31.0, 32.0, 33.0, 40.0, 41.0, 42.0, 43.0]
    drawn = map_of(table([*values, 50.0, 51.0, 52.0, 53.0], 1.5), [geography()])
    assert drawn is not None
    assert drawn.why_not == ""
    assert [area.name[:2] for area in drawn.areas if area.unsure] == ["08"]  # from 28.5 on, and the limit is 29
    assert "29.0 to below 45.0" in [words for _, words in drawn.classes]
    shades = [area.kind for area in drawn.areas]
    assert all(one <= other for one, other in pairwise(shades))
    assert (shades[0], shades[-1]) == (1, 5)
    assert drawn.areas[0].name.startswith("<North>: 10.00 (8.5 to 11.5)")


def test_doubt_about_most_areas_is_no_map_and_says_why() -> None:
    drawn = map_of(table([float(at) for at in range(20)], 8.0), [geography()])
    assert drawn is not None
    assert drawn.areas == ()
    assert "There is no map of average: the intervals of" in drawn.why_not


def test_a_number_that_is_not_published_has_no_colour() -> None:
    drawn = map_of(table([*(float(10 * (at // 5)) for at in range(19)), np.nan], 0.1), [geography()])
    assert drawn is not None
    assert drawn.areas[-1].kind == 0
    assert drawn.areas[-1].name.endswith("not published")


def test_counts_and_tables_of_other_keys_have_no_map() -> None:
    counts, incomes = published_tables(plan(), measurements())
    assert map_of(counts, [geography()]) is None
    assert map_of(incomes, [geography()]) is None  # by state and sex
    assert map_of(table([1.0, 2.0, 3.0], 0.1), [geography(column="region")]) is None


def test_a_plan_without_a_map_is_written_as_before_and_one_with_it_is_drawn_again_from_itself() -> None:
    assert '"geography":[' not in plan().canonical()
    keys = tuple(STATES)
    made = plan(geography=(geography(keys),))
    again = type(made).from_canonical(made.canonical())
    assert again == made
    page = Outline(render(made, measurements(), facts(made)).files["index.html"].decode())
    assert "pattern" not in {tag for tag, _ in page.tags}  # income is by state and sex


APART = (("01", "02"), ("03",))


def far_off() -> bytes:
    """Two areas on both sides of 180 degrees, a speck, and the others in a square of twenty degrees."""
    data = json.loads(grid())
    places = {"01": (179.0, 60.0, 1.0), "02": (-180.0, 60.0, 1.0), "03": (-150.0, 20.0, 0.001)}
    for feature in data["features"]:
        if place := places.get(feature["properties"]["code"]):
            x, y, size = place
            corners = [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]
            feature["geometry"]["coordinates"] = [corners]
    return json.dumps(data).encode()


def test_areas_drawn_apart_fill_boxes_below_the_others_and_leave_them_their_room() -> None:
    found = read_boundaries(far_off(), "code", KEYS, (), APART)
    rest = [key for key in KEYS if key not in ("01", "02", "03")]
    alone = read_boundaries(far_off(), "code", rest)
    assert {key: found["shapes"][key] for key in rest} == alone["shapes"]
    assert [box.keys for box in found["insets"]] == [*APART]
    assert found["height"] == found["insets"][0].y + found["insets"][0].height
    for box in found["insets"]:
        points = [point for key in box.keys for point in corners(found["shapes"][key])]
        assert all(
            box.x < x < box.x + box.width and alone["height"] < box.y < y < box.y + box.height for x, y in points
        )
        assert max(x for x, _ in points) - min(x for x, _ in points) > box.width / 3  # of its own scale
    one, two = (corners(found["shapes"][key]) for key in APART[0])
    assert len(one & two) == 2  # neighbours over 180 degrees share two corners
    spread = read_boundaries(far_off(), "code", KEYS)
    assert len(corners(spread["shapes"]["05"])) == 4  # what they cost the others: 360 degrees of room
    assert spread["height"] < alone["height"] / 2


@pytest.mark.parametrize(
    ("apart", "word"),
    [
        ((("99",),), "no key"),
        ((("01",), ("01",)), "twice"),
        (((),), "empty"),
        (tuple((key,) for key in KEYS[:6]), "6 boxes"),
    ],
)
def test_boxes_that_cannot_be_are_refused(apart: tuple[tuple[str, ...], ...], word: str) -> None:
    with pytest.raises(BoundariesError) as found:
        read_boundaries(far_off(), "code", KEYS, (), apart)
    assert found.value.code == "DPR-S750"
    assert word in found.value.says


def test_a_box_is_on_the_page_with_the_labels_of_its_areas_and_a_plan_without_one_is_as_before() -> None:
    shapes = geography().shapes
    boxed = Geography(
        column="state", file="g.geojson", sha256="ab" * 32, **read_boundaries(far_off(), "code", KEYS, (), APART)
    )
    drawn = map_of(replace(table([0.1 * at for at in range(20)], 0.01)), [boxed])
    assert drawn is not None
    assert [labels for _, labels in drawn.apart] == ["01, 02", "03"]
    assert "insets" not in geography().canonical()
    assert boxed.shapes.keys() == shapes.keys()


def ring_of(path: str) -> list[tuple[int, int]]:
    first, moves = re.fullmatch(r"M(-?\d+ -?\d+)l(.+)z", path).groups()  # type: ignore[union-attr]
    found = [tuple(map(int, first.split()))]
    steps = list(map(int, moves.split()))
    for right, down in zip(steps[::2], steps[1::2], strict=True):
        found.append((found[-1][0] + right, found[-1][1] + down))
    return found  # type: ignore[return-value]


def is_inside(x: float, y: float, ring: list[tuple[int, int]]) -> bool:
    crossed = 0
    for (x1, y1), (x2, y2) in pairwise([*ring, ring[0]]):
        crossed += (y1 > y) != (y2 > y) and x < x1 + (x2 - x1) * (y - y1) / (y2 - y1)
    return crossed % 2 == 1


@given(
    st.lists(st.tuples(st.integers(20, 400), st.integers(0, 1)), min_size=5, max_size=12),
    st.sampled_from(["Ohio", "Rhode Island", "الرباط", "東京都", "x" * 40]),
)
def test_a_name_on_a_map_stands_inside_of_its_area_or_not_at_all(radii: list[tuple[int, int]], name: str) -> None:
    points = [
        (
            round(500 + far * math.cos(2 * math.pi * at / len(radii))),
            round(500 + far * math.sin(2 * math.pi * at / len(radii))),
        )
        for at, (far, _) in enumerate(radii)
    ]
    moves = " ".join(f"{b[0] - a[0]} {b[1] - a[1]}" for a, b in pairwise(points))
    path = f"M{points[0][0]} {points[0][1]}l{moves}z"
    assert ring_of(path) == points
    found = name_placed(path, name, 12)
    if found is not None:
        wide = sum(12 if sign in "東京都" else 7 for sign in name)
        across = [found[0] + wide * (part / 6 - 0.5) for part in range(7)]
        lines = [found[1] - 4 + part for part in (-6, 0, 6)]  # the middle of its letters, and as high as these are
        assert all(is_inside(x, y + 0.5, points) for x in across for y in lines), (path, found)
    assert name_placed(path, name, 12) == found
    assert name_placed("M0 0l10 0 0 5 -10 0z", name, 12) is None


def test_names_are_on_the_page_where_there_is_room_and_nowhere_else() -> None:
    drawn = map_of(table([float(at) for at in range(20)], 0.1), [geography()])
    assert drawn is not None
    fit = [area for area in drawn.areas if area.at]
    assert 0 < len(fit) <= len(drawn.areas)
    assert drawn.letters == drawn.width // 72
    for area in fit:
        assert name_placed(area.path, area.label, drawn.letters) == area.at
