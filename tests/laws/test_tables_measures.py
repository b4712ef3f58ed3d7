"""Every kind of measure of the table, from the spec to a bundle that is checked and compared, and what it must say.

A kind that is new is here by itself: its class says what must be measured, how the number is worked out and in which
words; what it leaves out, or says in two ways that differ, is found before anything of it was charged.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import yaml
from pydantic import TypeAdapter

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.measures import MEASURES, PARTS, PLANNED, AskedMeasure, Measure, Noisy, expand_measures, unsaid_by
from dprelease.measures.mean import Mean
from dprelease.measures.text import Formula, FormulaTerm
from dprelease.noise import MECHANISMS, Exact
from dprelease.noise.mechanisms.exponential import ScoreLaw
from dprelease.privacy.randomized import RandomizedResponse
from tests.measures import asked, is_of_others, of_a_column, worked_out
from tests.project import POLICY, SETTINGS, command

LEVEL = Fraction(95, 100)
CELLS = 4000
TABLE = Table(
    name="t",
    account="a",
    source=Source(file="t.csv", format="csv"),
    columns=(
        Column(name="x", type="decimal", range=Range(low=Fraction(0), high=Fraction(1000)), step=Fraction(1, 2)),
        Column(name="told", type="text", keys=("no", "yes"), collected=RandomizedResponse(weights=(3, 1), choices=2)),
    ),
)


def every_measure(column: str, **fields: Any) -> dict[str, dict[str, Any]]:
    """One measure of each kind, and those that they are made of."""
    found = {"rows": {"count": "rows"}, "total": asked("sum", column, **fields)}
    found |= {f"m_{kind}": asked(kind, column, **fields) for kind in of_a_column()}
    for each in found.values():
        if "quantiles" in each or "quantile" in each:
            each["from"] = "ranks"  # one number is chosen for each; from counts, there are as many as classes
    return found | {f"m_{kind}": asked(kind, ["total", "rows"]) for kind in MEASURES if is_of_others(kind)}


def every_measure_told(**fields: Any) -> dict[str, dict[str, Any]]:
    """The same; an estimate from randomized answers is asked of a column that was collected so."""
    return every_measure("x", **fields) | {"m_randomized": asked("randomized", "told", where=fields.get("where"))}


TOLD = {"type": "text", "keys": ["no", "yes"], "collect": {"randomized_response": {"epsilon": 1, "answers": 2}}}
SPEC = {
    "dprelease": 1,
    "release": {"name": "every-measure", "period": 2024},
    "privacy": {"unit": {"entity": "person"}, "budget": {"epsilon": 2, "delta": "1e-9"}},
    "tables": {
        "people": {
            "account": "people",
            "source": {"file": "people.csv"},
            "columns": {
                "region": {"type": "text", "keys": ["north", "south"]},
                "x": {"type": "decimal", "range": [0, 1000], "step": 0.5},
                "told": TOLD,
            },
        },
        "visits": {
            "account": "people",
            "source": {"file": "people.csv"},
            "unit_id": "who",
            "bounds": {"max_rows": 2},
            "columns": {
                "region": {"type": "text", "keys": ["north", "south"]},
                "x": {"type": "decimal", "range": [0, 1000], "step": 0.5},
                "told": TOLD,
            },
        },
    },
    "queries": {
        "people": {"table": "people", "by": ["region"], "expect": {"rows": 400}, "measures": every_measure_told()},
        "visits": {
            "table": "visits",
            "where": "x > 2",
            "measures": every_measure_told(where="x < 900", clip=[10, 500], clip_per="unit_cell"),
        },
    },
    "publish": {"formats": ["csv", "html"]},
}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every kind of measure was planned, measured and published."""
    folder = tmp_path_factory.mktemp("measures")
    text = yaml.safe_dump(json.loads(json.dumps(SPEC)), sort_keys=False).replace("'1e-9'", "1e-9")
    lines = ["who,region,x,told"]
    lines += [
        f"{k // 2},{('north', 'south')[k % 2]},{(7 * k) % 1000}.5,{('no', 'yes')[k % 3 // 2]}" for k in range(1200)
    ]
    for name, content in {
        "dprelease.yaml": SETTINGS,
        "policy.yaml": POLICY,
        "spec.yaml": text,
        "people.csv": "\n".join(lines),
    }.items():
        (folder / name).write_text(f"{content}\n", encoding="utf-8")
    command(folder, "validate", "spec.yaml")
    command(folder, "plan", "spec.yaml", "--out", "plan.json")
    command(folder, "run", "spec.yaml", "--direct")
    return folder


def bundle(folder: Path) -> Path:
    return folder / "releases" / "every-measure" / "2024"


def test_a_release_of_every_kind_verifies(released: Path) -> None:
    said = json.loads(command(released, "verify", str(bundle(released)), "--json"))
    assert [each["name"] for each in said["checks"] if each["passed"] is False] == []


def test_a_release_of_every_kind_is_compared_with_its_plan(released: Path) -> None:
    assert json.loads(command(released, "diff", "plan.json", str(bundle(released)), "--json"))


def test_whoever_follows_the_recipe_of_every_kind_gets_the_published_numbers(released: Path) -> None:
    folder = bundle(released)
    recipe = json.loads((folder / "measurements" / "recipe.json").read_text(encoding="utf-8"))
    steps = {each["step"]: each for each in recipe["steps"]}
    names = [each["measure"] for each in recipe["outputs"]]
    assert [kind for kind in MEASURES if not any(name.startswith(f"m_{kind}") for name in names)] == []
    for output in recipe["outputs"]:
        inputs = []
        for each in output["inputs"]:
            step = steps[each["step"]]
            with (folder / step["file"]).open(encoding="utf-8", newline="") as file:
                lines = list(csv.reader(file))[1:]
            first = len(step["columns"]) - len(step["parts"])
            inputs.append([int(line[first + each["part"] - 1]) for line in lines])
        with (folder / "tables" / f"{output['query']}.csv").open(encoding="utf-8", newline="") as file:
            published = [line[output["measure"]] for line in csv.DictReader(file)]
        for numbers, shown in zip(zip(*inputs, strict=True), published, strict=True):
            value = worked_out(output["formula"], output["blank"], numbers)
            assert shown == "" if math.isnan(value) else float(shown) == pytest.approx(value, rel=1e-9, abs=1e-9)


ASKED = {name: TypeAdapter(AskedMeasure).validate_python(each) for name, each in every_measure_told().items()}
MADE = {name: measure.settled(TABLE) for name, measure in expand_measures(ASKED).items()}
FORMS = [(name, form) for name, measure in MADE.items() for form in measure.alternatives(TABLE)]
by_form = pytest.mark.parametrize(("name", "form"), FORMS, ids=[f"{name}-{len(form)}" for name, form in FORMS])


def draws(form: Sequence[Quantity], scale: int) -> tuple[list[Noisy], list[Noisy]]:
    """Numbers of cells of 60 rows at a third of the clip, as they are and with noise; a choice has a law of ranks."""
    exact = [np.full(CELLS, _third(each, 60), dtype=np.int64) for each in form]
    laws = [
        ScoreLaw(scale=Fraction(1), candidates=2001)
        if each.kind == "quantile"
        else MECHANISMS["discrete_laplace"].law(Fraction(scale))
        for each in form
    ]
    drawn = [
        values if each.kind == "quantile" else MECHANISMS["discrete_laplace"].draw(Exact(values), Fraction(scale))
        for each, values in zip(form, exact, strict=True)
    ]
    plain = [Noisy(*each) for each in zip(form, exact, laws, strict=True)]
    return plain, [Noisy(*each) for each in zip(form, drawn, laws, strict=True)]


def _third(quantity: Quantity, rows: int) -> int:
    """What the cells add up to where every value lies at a third of the clip."""
    if quantity.kind == "distinct":
        return 1
    if quantity.kind in ("rows", "units", "nonnull", "balance"):
        return rows
    at = quantity.low + (quantity.high - quantity.low) // 3
    if quantity.kind == "quantile":
        return at
    if quantity.kind == "sum":
        return rows * (at - quantity.centre)
    return rows * (quantity.in_grains(at - quantity.centre) - quantity.offset)


def check_formula(measure: Measure, form: Sequence[Quantity], scale: int = 30) -> None:
    """The formula gives what the estimate does, blanks included."""
    _, noisy = draws(form, scale)
    found = measure.estimate(noisy, LEVEL).value[:400]
    made = measure.formula([FormulaTerm(f"x{at}", part.quantity) for at, part in enumerate(noisy, start=1)])
    by_hand = [worked_out(made.text, made.blank, [int(part.values[at]) for part in noisy]) for at in range(400)]
    np.testing.assert_allclose(found, by_hand, rtol=1e-9, atol=1e-9)


def check_margin(measure: Measure, form: Sequence[Quantity]) -> None:
    """Where the noise alone moves the number, the margin covers it as often as it says, and bounds are kept."""
    plain, noisy = draws(form, 3)
    truth, found = measure.estimate(plain, LEVEL), measure.estimate(noisy, LEVEL)
    low, high = measure.bounds(form)
    assert low is None or truth.value.min() >= float(low)
    assert high is None or truth.value.max() <= float(high)
    known = ~np.isnan(found.margin)
    missed = (np.abs(found.value - truth.value) > found.margin + 1e-9)[known].sum()
    assert missed <= CELLS * 0.05 + 4 * math.sqrt(CELLS * 0.05 * 0.95)
    if measure.held:
        assert low is not None
        assert high is not None
        _, wild = draws(form, 10_000)
        values = measure.estimate(wild, LEVEL).value
        assert np.nanmin(values) >= float(low) - 1e-9
        assert np.nanmax(values) <= float(high) + 1e-9


@by_form
def test_the_formula_gives_what_the_estimate_does(name: str, form: tuple[Quantity, ...]) -> None:
    check_formula(MADE[name], form)


@by_form
def test_the_margin_covers_the_noise_and_estimates_keep_their_bounds(name: str, form: tuple[Quantity, ...]) -> None:
    check_margin(MADE[name], form)


@by_form
def test_estimates_lie_on_the_grid_and_are_whole_where_they_count(name: str, form: tuple[Quantity, ...]) -> None:
    measure = MADE[name]
    grid = measure.grid(form)
    assert grid is not None or not measure.is_count
    if grid is not None:
        steps = measure.estimate(draws(form, 30)[1], LEVEL).value / float(grid)
        np.testing.assert_array_equal(steps, np.rint(steps))


@pytest.mark.parametrize("kind", MEASURES)
def test_what_is_told_before_the_plan_is_what_the_plan_does(kind: str) -> None:
    """The published names, and when the margin is known."""
    read = TypeAdapter(AskedMeasure).validate_python
    written = read(every_measure_told()[f"m_{kind}"])
    others = {"total": read({"sum": "x"}), "rows": read({"count": "rows"})}
    made = written.planned("m", others)
    assert written.published("m") == tuple(made)
    assert written.others == (("total", "rows") if is_of_others(kind) else ())
    for each in made.values():
        measure = each.settled(TABLE)
        form = measure.quantities(TABLE)
        laws = [part.law for part in draws(form, 30)[0]]
        known = [measure.expected(form, laws, LEVEL, count).margin is not None for count in (None, 100)]
        assert known == {"always": [True, True], "by_size": [False, True], "never": [False, False]}[written.foreseen]


@pytest.mark.parametrize("kind", PARTS)
def test_the_first_quantity_of_a_form_tells_how_many_there_are(kind: str) -> None:
    for form in MADE[f"m_{kind}"].alternatives(TABLE):
        assert MADE[f"m_{kind}"].size(form[0]) == len(form)


def test_a_measure_that_leaves_something_out_is_refused_where_it_is_defined() -> None:
    class Unsaid(Measure):
        """It says nothing but what must be measured."""

        unsaid: str

        def quantities(self, table: Table) -> tuple[Quantity, ...]:
            return (Quantity(kind="rows"),)

    class Unwritten(Mean):
        """A kind that no field asks for, and that needs a number nobody shows."""

        kind: ClassVar[str] = "unwritten"
        depth: int

    said = {"described", "estimate", "expected", "foreseen", "formula", "held", "kind", "method", "plural", "size"}
    assert set(unsaid_by(Unsaid)) == said | {"weights"}  # type: ignore[type-abstract]  # that is the point
    assert unsaid_by(Unwritten) == ["examples of `depth`", "examples of `mean`", "field `unwritten`"]
    assert [unsaid_by(each) for each in (*MEASURES.values(), *PLANNED.values()) if unsaid_by(each)] == []


def test_a_formula_and_a_margin_that_say_another_thing_than_the_estimate_are_found() -> None:
    class Other(Mean):
        """Its formula forgets the centre of the clip."""

        def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
            return Formula(f"{terms[0].name} / {terms[1].name}", (f"{terms[1].name} < 1",))

    class Bold(Mean):
        """Its margin is half of what it must be."""

        def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Any:
            found = super().estimate(noisy, confidence)
            return type(found)(found.value, found.standard_error, found.margin / 3)

    form = Mean(mean="x").quantities(TABLE)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_formula(Other(mean="x"), form)
    with pytest.raises(AssertionError):
        check_margin(Bold(mean="x"), form)
