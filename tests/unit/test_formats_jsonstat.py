"""JSON-stat: every number at its place in the cube, full tables as a list, others as an object."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dprelease.publish.base import NOTICE, Content, key_as_text
from dprelease.publish.formats.cube import Dimension
from dprelease.publish.formats.jsonstat import _dimension, jsonstat_files
from tests.unit.formats_example import HOSTILE, LABELS, chosen, hostile, plain, whole

CASES: dict[str, Callable[[], Content]] = {
    "plain": plain,
    "hostile": hostile,
    "chosen": chosen,
    "whole": whole,
    "withheld": lambda: plain(show="blank"),
}
ENDINGS = {"": "value", "_se": "standard_error", "_margin": "margin", "_lower": "lower", "_upper": "upper"}


def read(content: Content, table: str) -> dict[str, Any]:
    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    data = jsonstat_files(content, {})[f"tables/{table}.json"]
    found: dict[str, Any] = json.loads(data, parse_constant=refuse)
    return found


def at(dataset: dict[str, Any], member: str, **codes: str) -> Any:
    """What a reader of JSON-stat finds for these categories."""
    place = 0
    for name, size in zip(dataset["id"], dataset["size"], strict=True):
        order = dataset["dimension"][name]["category"]["index"]
        assert len(order) == size == len(set(order))
        place = place * size + order.index(codes[name])
    held = dataset.get(member, {})
    return held[place] if isinstance(held, list) else held.get(str(place))


@pytest.mark.parametrize("name", CASES)
def test_every_number_is_at_its_place(name: str) -> None:
    content = CASES[name]()
    for table in content.tables:
        dataset = read(content, table.name)
        assert (dataset["version"], dataset["class"]) == ("2.0", "dataset")
        assert dataset["id"][-2:] == ["period", "metric"]
        assert len(dataset["value"]) == table.cells * dataset["size"][-1]
        for row in range(table.cells):
            keys = {column.name: key_as_text(codes[row]) for column, codes in zip(table.key_columns, table.keys, strict=True)}  # fmt: skip
            for measure in table.measures:
                for ending, part in ENDINGS.items():
                    found = at(dataset, "value", **keys, period="2024-03", metric=measure.name + ending)
                    expected = float(getattr(measure, part)[row])
                    if math.isnan(expected):
                        assert found is None
                    else:
                        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
                        assert isinstance(found, int) == (measure.integer and ending != "_se")
                status = at(dataset, "status", **keys, period="2024-03", metric=measure.name)
                assert status == (None if measure.status[row] == "ok" else measure.status[row])


def test_a_full_table_is_a_list_and_one_with_left_out_cells_an_object() -> None:
    assert isinstance(read(plain(), "income")["value"], list)
    countries = read(chosen(), "countries")
    assert countries["size"][:2] == [3, 2]
    assert isinstance(countries["value"], dict)
    metrics = countries["size"][-1]
    left_out = {str(5 * metrics + at) for at in range(metrics)}
    assert not left_out & set(countries["value"])
    assert len(countries["value"]) == 5 * metrics


def test_private_keys_are_categories_in_published_order() -> None:
    terms = read(chosen(), "terms")
    assert terms["dimension"]["term"]["category"] == {"index": ["=cmd", "red shoes", "über"]}
    nothing = read(chosen(keys=()), "terms")
    assert (nothing["size"][0], len(nothing["value"])) == (0, 0)


def test_roles_labels_and_units() -> None:
    dataset = read(plain(), "income")
    assert dataset["role"] == {"time": ["period"], "metric": ["metric"]}
    assert dataset["dimension"]["state"]["category"]["label"]["06"] == "California"
    metric = dataset["dimension"]["metric"]["category"]
    assert metric["label"]["earners_margin"].endswith(": margin")
    assert metric["unit"]["earners"] == {"decimals": 0}
    assert "average" not in metric["unit"]
    assert dataset["source"] == "Example Statistical Office"
    assert dataset["updated"] == "2024-04-05T06:00:03Z"


def test_hostile_keys_and_labels_stay_as_declared() -> None:
    category = read(hostile(), "population")["dimension"]["region"]["category"]
    assert category["index"] == list(HOSTILE)
    assert category["label"] == {code: LABELS.get(code, code) for code in category["index"]}


def test_a_ranking_has_its_ranks_as_values() -> None:
    top = read(chosen(), "top")
    assert top["id"] == ["page", "period", "metric"]
    assert [at(top, "value", page=page, period="2024-03", metric="rank") for page in ("help", "home")] == [1, 2]


def test_a_table_without_keys_is_one_cell() -> None:
    dataset = read(whole(), "population")
    assert dataset["size"] == [1, 5]
    assert dataset["value"][0] == 123_456


def test_rows_with_the_same_keys_are_told_apart() -> None:
    content = chosen()
    table = next(each for each in content.tables if each.name == "gap")
    doubled = type(table)(**{**vars(table), "keys": tuple((codes[0],) * table.cells for codes in table.keys)})
    dataset = read(type(content)(content.plan, (doubled,), content.facts), "gap")
    assert dataset["id"] == ["country", "new", "row", "period", "metric"]
    assert dataset["size"][:3] == [1, 1, table.cells]
    assert len(dataset["value"]) == table.cells * 10


def test_a_rehearsal_says_so() -> None:
    dataset = read(plain(rehearsal=True), "income")
    assert dataset["label"].startswith(NOTICE)
    assert dataset["note"][0] == NOTICE
    assert NOTICE not in read(plain(), "income")["note"]


def test_the_same_release_gives_the_same_bytes() -> None:
    assert jsonstat_files(chosen(), {}) == jsonstat_files(chosen(), {})


def test_a_rank_has_no_error_and_in_the_first_layout_an_empty_one() -> None:
    made = chosen()
    first = read(made, "top")
    assert first["dimension"]["metric"]["category"]["index"] == [
        "rank",
        "rank_se",
        "rank_margin",
        "rank_lower",
        "rank_upper",
    ]
    publish = made.plan.publish.model_copy(update={"layout": 2})
    second = read(replace(made, plan=made.plan.model_copy(update={"publish": publish})), "top")
    assert second["dimension"]["metric"]["category"]["index"] == ["rank"]
    ranks = {int(place) // 5: number for place, number in first["value"].items() if number is not None}
    assert {int(place): number for place, number in second["value"].items()} == ranks
    assert not any("lower" in line for line in second["note"])


def test_where_one_code_has_a_label_every_code_has() -> None:
    """A reader that joins labels to codes (pyjstat 2.4) would leave out the codes without one, and their numbers."""
    dimension = Dimension("region", (), None, {"_total": "Total"})  # type: ignore[arg-type]
    assert _dimension(dimension, ["N", "_total"])["category"]["label"] == {"N": "N", "_total": "Total"}
    assert "label" not in _dimension(replace(dimension, labels={}), ["N"])["category"]
