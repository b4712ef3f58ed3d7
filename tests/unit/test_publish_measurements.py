"""The noisy measurements as files and back, and a recipe that gives the published numbers when it is followed."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.canonical import dumps
from dprelease.errors import CheckFailed
from dprelease.noise import JOINT_MECHANISMS, MECHANISMS, Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.publish import render
from dprelease.publish.base import safe_path
from dprelease.publish.bundle.measurements import as_published, measurement_files, measurements_in
from dprelease.publish.bundle.recipe import variance_of
from dprelease.publish.bundle.research import research_paths
from dprelease.publish.bundle.step_files import RECIPE
from dprelease.publish.measured import published_tables
from tests.measures import worked_out
from tests.planned import plan_of
from tests.unit.choices_example import DERIVED, choices, measured
from tests.unit.forms_example import answers, forms
from tests.unit.publish_example import facts, measurements, plan

STEPPED = """
dprelease: 1
release: {name: survey, period: 2024}
privacy: {unit: {entity: person}, budget: {epsilon: 1, delta: 1e-9}}
tables:
  people:
    account: acs
    source: {file: people.csv}
    columns:
      region: {type: text, keys: ["01", "02", "06"]}
      pay: {type: decimal, range: [-10, 500], step: 1/4}
queries:
  pay:
    table: people
    by: [region]
    measures:
      persons: {count: rows}
      earners: {count: pay}
      total: {sum: pay, clip: [0, 200]}
      average: {mean: pay, clip: [0, 200]}
      spread: {variance: pay, clip: [0, 200]}
      deviation: {stddev: pay, clip: [0, 200]}
      middle: {quantiles: pay, at: [0.25, 0.5], from: ranks}
      least: {min: pay}
      share: {ratio: [earners, persons]}
      each: {ratio: [total, persons]}
      over: {ratio: [persons, total]}
"""


def stepped() -> tuple[ReleasePlan, dict[str, Measurement]]:
    """A plan with a grid of quarters, and numbers as they may come: of 400 rows, of 1, and of none."""
    made = plan_of(STEPPED)
    sizes, found = np.array([400, 1, 0]), {}
    for step in made.steps:
        parts = []
        for part in step.parts:
            value = {"sum": 37, "square": 1400, "quantile": 300, "balance": 1}.get(part.kind, 1)
            parts.append(300 + 7 * sizes if part.kind == "quantile" else value * sizes + np.array([3, -1, 0]))
        found[step.id] = Measurement(step.id, np.concatenate(parts))
    return made, found


EXAMPLES: dict[str, tuple[ReleasePlan, Mapping[str, Measurement]]] = {
    "plain": (plan(), measurements()),
    "joint": (forms(), answers()),
    "choices": (choices(DERIVED), measured()),
    "stepped": stepped(),
}


def files_of(name: str) -> dict[str, bytes]:
    made, found = EXAMPLES[name]
    return dict(measurement_files(made, as_published(found)))


def same(first: Mapping[str, Measurement], second: Mapping[str, Measurement]) -> bool:
    return {name: each.digest for name, each in first.items()} == {name: each.digest for name, each in second.items()}


def rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


def renamed(made: ReleasePlan, names: Mapping[str, str]) -> ReleasePlan:
    """The plan with other ids of steps, wherever they stand."""

    def other(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: other(item) for key, item in value.items()}
        if isinstance(value, list):
            return [other(item) for item in value]
        return names.get(value, value) if isinstance(value, str) else value

    return ReleasePlan.from_canonical(dumps(other(json.loads(made.canonical()))))


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_written_is_read_back_exactly(name: str) -> None:
    made, found = EXAMPLES[name]
    assert same(measurements_in(made, files_of(name)), as_published(found))


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_bundle_holds_them_and_its_tables_can_be_made_of_them(name: str) -> None:
    made, found = EXAMPLES[name]
    told = facts(made, accounts=())
    published = render(made, found, told).files
    assert {path: published[path] for path in files_of(name)} == files_of(name)
    again = render(made, measurements_in(made, published), told)
    assert again.files == published


def test_keys_stay_as_they_were_declared() -> None:
    header, first, *_ = rows(files_of("plain")["measurements/income.earners.csv"])
    assert (header, first) == (["state", "sex", "value"], ["06", "1", "5210"])
    assert b'"06",1,5210\r\n' in files_of("plain")["measurements/income.earners.csv"]


def test_a_joint_step_has_a_column_for_each_part() -> None:
    header, first, *_ = rows(files_of("joint")["measurements/income.counts.csv"])
    assert header == ["region", "value_1", "value_2"]
    assert first[1:] == ["900", "800"]


def test_selected_keys_stand_in_the_file_of_the_selection_and_of_what_was_measured_on_them() -> None:
    found = files_of("choices")
    keys, numbers = rows(found["measurements/terms.keys.csv"]), rows(found["measurements/terms.rows.csv"])
    assert keys[0] == ["term"]
    assert numbers[0] == ["term", "value"]
    assert [row[:1] for row in numbers[1:]] == keys[1:]
    assert ["=cmd"] in keys


def test_a_ranking_has_its_keys_in_order_with_their_places() -> None:
    found = rows(files_of("choices")["measurements/top.pages.csv"])
    assert found == [["page", "position"], ["help", "2"], ["home", "0"]]


def test_cells_that_are_left_out_have_no_line() -> None:
    found = rows(files_of("choices")["measurements/countries.q0.csv"])
    assert len(found) == 6


@pytest.mark.thin(every=3)
@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("plain", "population.rows"),
        ("joint", "income.counts"),
        ("choices", "countries.q0"),
        ("choices", "terms.keys"),
        ("choices", "terms.rows"),
        ("choices", "top.pages"),
    ],
)
def test_what_is_not_written_so_is_refused_with_the_name_of_its_file(name: str, step: str) -> None:
    """Other keys, another order, spaces, signs, line ends, rows, columns, encodings."""
    made, _ = EXAMPLES[name]
    path = f"measurements/{step}.csv"
    data = files_of(name)[path]
    head, first, second, *rest = data.split(b"\r\n")
    forged = [
        data.replace(b"\r\n", b"\n"),
        data + b"\r\n",
        b"\xef\xbb\xbf" + data,
        data[:-1],
        b"x" + data,
        b"",
        b'"',
        b"\xff",
        data.replace(b'"', b""),
        data + b'"red shoes\r\n',
    ]
    if step not in ("terms.keys", "top.pages"):  # how many those have is looked at by the tables
        forged.append(b"\r\n".join([head, first, *rest]))
    if step != "terms.keys":
        keys, _, last = first.rpartition(b",")
        for number in (b"+7", b" 7", b"", b"7.0", b"1_0", b"07", b"9" * 19, b"9" * 5000, "\u0663".encode()):
            forged.append(b"\r\n".join([head, keys + b"," + number, second, *rest]))
        forged.append(b"\r\n".join([head, second.rpartition(b",")[0] + b"," + last, second, *rest]))
    for text in forged:
        with pytest.raises(CheckFailed, match=path) as caught:
            measurements_in(made, {**files_of(name), path: text})
        assert caught.value.code == "DPR-C110"


def test_a_missing_file_is_named() -> None:
    found = files_of("plain")
    del found["measurements/income.total.csv"]
    with pytest.raises(CheckFailed, match=r"measurements/income\.total\.csv: there is no such file"):
        measurements_in(plan(), found)


def test_names_that_are_no_files_or_taken_are_numbered() -> None:
    names = {"population.rows": "con", "income.earners": "A", "income.total": "a", "income.centred": "step-1"}
    made = renamed(plan(), names)
    found = {names[step]: Measurement(names[step], each.values) for step, each in measurements().items()}
    files = measurement_files(made, found)
    assert set(files) == {RECIPE, *(f"measurements/{name}.csv" for name in ("step-1_", "A", "step-3", "step-1"))}
    assert all(safe_path(path) for path in files)
    assert same(measurements_in(made, files), found)
    told = {each["step"]: each["file"] for each in json.loads(files[RECIPE])["steps"]}
    assert told["con"] == "measurements/step-1_.csv"
    assert told["a"] == "measurements/step-3.csv"


def test_a_long_name_is_numbered() -> None:
    made = renamed(plan(), {"income.total": "x" * 97})
    assert "measurements/step-3.csv" in measurement_files(
        made, {name.replace("income.total", "x" * 97): each for name, each in measurements().items()}
    )


def test_a_key_column_called_value_keeps_its_name() -> None:
    made = renamed(plan(), {"sex": "value"})
    assert rows(measurement_files(made, measurements())["measurements/income.total.csv"])[0] == [
        "state",
        "value",
        "value_",
    ]


@pytest.mark.parametrize("key", ['"', "a,b", "a\r\nb", "\n", "", "é\u202e", "\0", "true", " x "])
def test_any_selected_text_is_read_back(key: str) -> None:
    found = {
        **measured(),
        "terms.keys": Measurement("terms.keys", np.ones(3, dtype=np.int64), keys=(("a",), (key,), ("z",))),
    }
    files = measurement_files(choices(), found)
    assert same(measurements_in(choices(), files), found)


def test_text_that_no_file_can_hold_is_spelled_out_before_anything_is_made_of_it() -> None:
    odd = Measurement("terms.keys", np.zeros(3, dtype=np.int64), keys=(("a",), ("\udc80",), ("z",)))
    found = as_published({**measured(), "terms.keys": odd})
    assert found["terms.keys"].keys == (("a",), ("\\udc80",), ("z",))
    assert same(measurements_in(choices(), measurement_files(choices(), found)), found)


def test_no_selected_keys_leave_a_header() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    found = {
        **measured(),
        "terms.keys": Measurement("terms.keys", nothing, keys=()),
        "terms.rows": Measurement("terms.rows", nothing),
    }
    files = measurement_files(choices(), found)
    assert files["measurements/terms.rows.csv"] == b"term,value\r\n"
    assert same(measurements_in(choices(), files), found)


@pytest.mark.parametrize("name", EXAMPLES)
def test_whoever_follows_the_recipe_gets_the_published_numbers(name: str) -> None:
    made, drawn = EXAMPLES[name]
    files = files_of(name)
    recipe = json.loads(files[RECIPE])
    tables = {table.name: table for table in published_tables(made, drawn)}
    steps = {each["step"]: each for each in recipe["steps"]}
    seen = 0
    for output in recipe["outputs"]:
        table = tables[output["query"]]
        columns = []
        for each in output["inputs"]:
            step = steps[each["step"]]
            first = len(step["columns"]) - len(step["parts"])
            columns.append([int(row[first + each["part"] - 1]) for row in rows(files[step["file"]])[1:]])
        (measure,) = (each for each in table.measures if each.name == output["measure"])
        assert all(len(column) == table.cells for column in columns)
        for at, value in enumerate(measure.value.tolist()):
            numbers = [column[at] for column in columns]
            found = worked_out(output["formula"], output["blank"], numbers)
            if math.isnan(found):
                assert math.isnan(value)
            elif not math.isnan(value):  # a row may be suppressed
                assert value == pytest.approx(found, rel=1e-9, abs=1e-9)
                seen += 1
    assert seen >= 20


def test_the_recipe_knows_no_floats_and_says_what_is_where() -> None:
    for name, (made, _) in EXAMPLES.items():
        recipe = json.loads(files_of(name)[RECIPE])
        assert files_of(name)[RECIPE] == (dumps(recipe) + "\n").encode()
        assert {each["file"] for each in recipe["steps"]} == set(files_of(name)) - {RECIPE, *research_paths(made)}
        for step in recipe["steps"]:
            assert rows(files_of(name)[step["file"]])[0] == step["columns"]
    told = {each["step"]: each for each in json.loads(files_of("choices")[RECIPE])["steps"]}
    assert {told["terms.keys"]["holds"], told["top.pages"]["holds"]} == {"keys", "ranking"}
    assert told["terms.keys"]["variance"] is told["top.pages"]["variance"] is None
    assert "choices" in {each["holds"] for each in told.values()}


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(39), Fraction(41)])
@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
def test_the_variance_is_that_of_the_noise_and_never_less(mechanism: str, scale: Fraction) -> None:
    """Against the sum over all whole numbers, in 60 digits."""
    import mpmath

    step = plan().steps[0].model_copy(update={"mechanism": mechanism, "scale": scale})
    told = Fraction(variance_of(step) or "")
    with mpmath.workdps(60):
        s = mpmath.mpf(scale.numerator) / scale.denominator
        far = int(200 * scale) + 200
        weights = [
            mpmath.exp(-(k * k) / (2 * s * s) if mechanism == "discrete_gaussian" else -k / s) for k in range(far)
        ]
        exact = 2 * sum(k * k * w for k, w in enumerate(weights)) / (2 * sum(weights) - 1)
        ratio = mpmath.mpf(told.numerator) / told.denominator / exact
        # From scale 3 on the sum is the square to more digits than these: the last of them are the sum's own rounding.
        assert 1 - mpmath.mpf(10) ** -50 <= ratio <= 1 + mpmath.mpf(10) ** -11


def test_every_mechanism_that_adds_noise_has_a_variance() -> None:
    for name in {**MECHANISMS, **JOINT_MECHANISMS}:
        step = (forms().step("income.counts") if name in JOINT_MECHANISMS else plan().steps[0]).model_copy(
            update={"mechanism": name}
        )
        assert Fraction(variance_of(step) or "0") >= Fraction(step.law.variance) * (1 - Fraction(1, 10**15))
