"""Weights through plans: a workload is that of expanded rows, and no half of a weight gets past the verifier."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.engines import ENGINES
from dprelease.errors import BrokenPromiseError, SpecError
from dprelease.estimate.sampling import is_sampled, total_margin
from dprelease.measures import Noisy
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.measures.sum import Sum
from dprelease.noise import MECHANISMS, Exact
from dprelease.noise.exact import open_exact
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.columns import column_names
from dprelease.release.draw import hidden
from dprelease.release.tuning.look import look_at
from dprelease.spec.load import load
from tests.planned import plan_of, planned_anew
from tests.project import POLICY, SETTINGS

HEAD = """
dprelease: 1
release: {name: survey, period: 2024}
privacy: {unit: {entity: person}, neighboring: RELATION, budget: BUDGET}
tables:
  people:
    account: people
    source: {file: people.csv}
    WEIGHT
    columns:
      region: {type: text, keys: [a, b, c]}
      sex: {type: integer, keys: [1, 2]}
      age: {type: integer, keys: {from: 0, to: 7}}
      pay: {type: integer, range: [-100, 1000]}
      w: {type: integer}
queries:
"""
WEIGHT = "weight: {column: w, clip: 4}"
WORKLOAD = "  n: {table: people, marginals: {of: [region, sex], ways: [0, 1, 2]}}\n"
TOTALS = """
  totals:
    table: people
    by: [region]
    measures:
      n: {count: rows}
      paid: {count: pay}
      men: {count: rows, where: sex = 1}
      records: {count: rows, weighted: false}
      sum: {sum: pay, clip: [0, 500]}
      mean: {mean: pay, clip: [0, 500]}
      share: {ratio: [men, n]}
      heavy: {ratio: [n, records]}
    expect: {n: 500}
    suppress: {measure: records, below: 5}
"""
AGES = "  ages: {table: people, by: [age], ranges: {of: age, which: prefixes}, measures: {n: {count: rows}}}\n"
EVERY = TOTALS + AGES + WORKLOAD


def spec(
    queries: str, weight: str = WEIGHT, relation: str = "add_remove", budget: str = "{epsilon: 2, delta: 1e-9}"
) -> str:
    head = HEAD.replace("WEIGHT", weight).replace("RELATION", relation).replace("BUDGET", budget)
    return head + queries.lstrip("\n")


BOTH = pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
UNITS = "unit_id: who\n    bounds: {max_rows: 4}"


def written(folder: Path) -> tuple[Path, Path]:
    """The same sample twice: as records with weights, and with every record written out as often as it weighs."""
    generator = np.random.default_rng(3)
    weighted, expanded = folder / "weighted", folder / "expanded"
    lines: dict[Path, list[str]] = {weighted: [], expanded: []}
    for who in range(400):
        weight = int(generator.integers(0, 5))
        record = (
            f"{'abcd'[generator.integers(4)]},{generator.integers(1, 3)},{generator.integers(0, 8)},7,{weight},{who}"
        )
        lines[weighted].append(record)
        lines[expanded] += [record] * weight
    for place, rows in lines.items():
        place.mkdir()
        (place / "people.csv").write_text("\n".join(["region,sex,age,pay,w,who", *rows, ""]))
    return weighted, expanded


def drawn(plan: ReleasePlan, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The noisy numbers of every step, with the same random bytes every time."""
    engine = next(iter(ENGINES.values()))(folder, {})
    found = {}
    for step in plan.steps:
        asked = [step.aggregate.model_copy(update={"by": table.by}) for table in step.tables] or [step.aggregate]
        boxes: list[Any] = []
        for each in asked:
            boxes += engine.aggregate(plan.catalog, each.grouping, step.parts, {}, bytes(32))
        with monkeypatch.context() as patched:
            generator = np.random.default_rng(11)
            patched.setattr(os, "urandom", lambda size, source=generator: source.bytes(size))
            found[step.id] = hidden(step, boxes, "native", None).tolist()
    engine.close()
    return found


@BOTH
@pytest.mark.parametrize("noise", ["", ", noise: laplace", ", noise: knorm"])
def test_a_workload_with_weights_is_that_of_expanded_rows_draw_by_draw(
    noise: str, relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all tables are one K-norm draw, of which the sum of two tables without a common column is one."""
    queries = WORKLOAD.replace("ways: [0, 1, 2]", "ways: [1]") if "knorm" in noise else WORKLOAD
    budget = "{epsilon: 2}" if noise else "{epsilon: 2, delta: 1e-9}"
    text, expanded = (
        spec(queries, weight, relation, budget).replace(f"budget: {budget}", f"budget: {budget}{noise}")
        for weight in (WEIGHT, UNITS)
    )
    plans, folders = (plan_of(text), plan_of(expanded)), written(tmp_path)
    assert verify(plans[0])
    steps = zip(*(plan.steps for plan in plans), strict=True)
    for one, other in steps:
        for name in ("id", "mechanism", "scale", "gauge", "residual", "tables", "cells", "common"):
            assert getattr(one, name) == getattr(other, name), name
        pair = (one.sensitivity, other.sensitivity)
        assert len({(each.l1, each.l2_squared, each.linf) for each in pair}) == 1
        assert one.sensitivity.l1 % 4 == 0
    numbers = [drawn(plan, folder, monkeypatch) for plan, folder in zip(plans, folders, strict=True)]
    assert numbers[0] == numbers[1]
    assert any(any(each) for each in numbers[0].values())


@BOTH
def test_every_weighted_number_is_planned_and_verified(relation: str) -> None:
    plan = plan_of(spec(EVERY, relation=relation))
    assert verify(plan)
    weights = {part.weight is None for step in plan.steps for part in step.parts}
    assert weights == {True, False}
    by_place = {(answer.query, answer.measure): step for step in plan.steps for answer in step.answers}
    pair = 2 if relation == "replace_one" else 1
    assert by_place["totals", "n"].sensitivity.l1 == 4 * pair
    assert by_place["totals", "records"].sensitivity.l1 == pair
    assert by_place["totals", "sum"].sensitivity.linf in (4 * 500, 4 * 250)


@pytest.mark.parametrize("budget", ["{epsilon: 2, delta: 1e-9}", "{epsilon: 2}"])
@BOTH
def test_half_of_a_weight_is_caught_by_the_verifier(
    relation: str, budget: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner believes that a record counts at most half as often as it can; every query by itself."""
    for query in (WORKLOAD, TOTALS, *([AGES] if "delta" in budget else [])):
        assert verify(planned_anew(spec(query, relation=relation, budget=budget)))
        with monkeypatch.context() as planted:
            planted.setattr(
                Quantity, "each", property(lambda self: 1 if self.weight is None else self.weight.clip // 2)
            )
            with pytest.raises(BrokenPromiseError, match=r"sensitivity|costs|bounded"):
                verify(planned_anew(spec(query, relation=relation, budget=budget)))


def changed(change: Callable[[Step], dict[str, Any]]) -> ReleasePlan:
    plan = plan_of(spec(EVERY))
    return plan.model_copy(update={"steps": tuple(step.model_copy(update=change(step)) for step in plan.steps)})


def test_a_plan_whose_rows_count_otherwise_than_its_numbers_say_is_refused() -> None:
    def light(step: Step) -> dict[str, Any]:
        quantity = step.aggregate.quantity.model_copy(update={"weight": None})
        return {"aggregate": step.aggregate.model_copy(update={"quantity": quantity})}

    with pytest.raises(BrokenPromiseError):
        verify(changed(light))
    plan = plan_of(spec(WORKLOAD))
    (name, *_) = [query.name for query in plan.queries]
    unsaid = tuple(
        query.model_copy(update={"measures": {"count": Count(count="rows", weighted=False)}})
        if query.name == name
        else query
        for query in plan.queries
    )
    with pytest.raises(BrokenPromiseError, match="more or less often"):
        verify(plan.model_copy(update={"queries": unsaid}))


def test_a_plan_that_suppresses_by_a_weighted_number_is_refused() -> None:
    plan = plan_of(spec(EVERY))
    queries = tuple(
        query.model_copy(update={"suppress_below": ("n", Fraction(5))}) if query.suppress_below else query
        for query in plan.queries
    )
    with pytest.raises(BrokenPromiseError, match="withholds rows by a weighted number"):
        verify(plan.model_copy(update={"queries": queries}))


MEASURE = "  q: {table: people, by: [region], measures: {m: MEASURE}MORE}\n"


@pytest.mark.parametrize(
    ("measure", "more", "code", "says"),
    [
        ("{quantiles: pay, at: [0.5]}", "", "DPR-S686", "is a quantiles"),
        ("{min: pay}", "", "DPR-S686", "is a min"),
        ("{variance: pay}", "", "DPR-S686", "is a variance"),
        ("{count_distinct: pay}", "", "DPR-S686", "is a count_distinct"),
        ("{count: units}", "", "DPR-S686", "counts units"),
        ("{count: rows}", ", suppress: {measure: m, below: 5}", "DPR-S687", "a weighted number"),
        ("{count: rows, weighted: maybe}", "", "DPR-S203", "not true or false"),
        ("{sum: pay, clip: [0, 1000]}", "", "DPR-S682", "2^62"),
    ],
)
def test_what_has_no_weights_is_told_with_what_to_write(measure: str, more: str, code: str, says: str) -> None:
    weight = WEIGHT.replace("clip: 4", f"clip: {2**52}") if code == "DPR-S682" else WEIGHT
    with pytest.raises(SpecError) as raised:
        load(spec(MEASURE.replace("MEASURE", measure).replace("MORE", more), weight), "spec.yaml")
    assert code in str(raised.value)
    assert says in str(raised.value)
    if code == "DPR-S686":
        unweighted = measure.replace("}", ", weighted: false}")
        assert plan_of(spec(MEASURE.replace("MEASURE", unweighted).replace("MORE", ""))).steps


@pytest.mark.parametrize(
    ("weight", "code"),
    [
        ("weight: {column: nobody, clip: 4}", "DPR-S680"),
        ("weight: {column: region, clip: 4}", "DPR-S680"),
        ("weight: {column: w, clip: 4, step: 0.1}", "DPR-S681"),
        ("weight: {column: w, clip: 4.5}", "DPR-S682"),
        ("weight: {column: w, clip: 0}", "DPR-S"),
        ("weight: {column: w, clip: 4, sampling: {deff: 2, mean_weight: 3, fraction: 1}}", "DPR-S683"),
        ("weight: {column: w, clip: 4, calibrated: 'no'}", "DPR-S203"),
        ("weight: {column: w}", "DPR-S"),
    ],
)
def test_a_weight_that_cannot_be_is_told(weight: str, code: str) -> None:
    with pytest.raises(SpecError) as raised:
        load(spec(WORKLOAD, weight), "spec.yaml")
    assert code in str(raised.value)


def test_weights_of_a_table_without_them_are_told() -> None:
    query = MEASURE.replace("MEASURE", "{count: rows, weighted: true}").replace("MORE", "")
    with pytest.raises(SpecError, match="DPR-S684"):
        load(spec(query, ""), "spec.yaml")
    ratio = "  q: {table: people, measures: {a: {count: rows}, b: {count: pay}, r: {ratio: [b, a], weighted: false}}}\n"
    with pytest.raises(SpecError, match="DPR-S684"):
        load(spec(ratio), "spec.yaml")


@pytest.mark.parametrize("query", ["  q: {table: people, top_k: region, k: 2}\n", WORKLOAD.replace("[region", "[age")])
def test_lists_and_fine_steps_of_tables_are_told(query: str) -> None:
    weight = "weight: {column: w, clip: 40, step: 10}"
    with pytest.raises(SpecError, match=r"DPR-S685|DPR-S686"):
        load(spec(query, weight), "spec.yaml")


def test_a_plan_without_weights_says_nothing_of_them() -> None:
    text = plan_of().canonical()
    assert "weight" not in text
    plan = plan_of(spec(EVERY))
    assert ReleasePlan.from_canonical(plan.canonical()) == plan


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 100), Fraction(10)])
def test_weighted_numbers_are_in_people_whatever_the_grid(step: Fraction) -> None:
    """Noisy steps of 2,500 people with 50,000,000 in all, on every grid of the weight."""
    text = spec(
        "  q: {table: people, measures: {n: {count: rows}, s: {sum: pay, clip: [0, 50000]}, m: {mean: pay, clip: [0, 50000]}}}\n",
        f"weight: {{column: w, clip: 400, step: {step if step.denominator == 1 else float(step)}}}",
    )
    text = text.replace("range: [-100, 1000]", "range: [0, 50000]").replace("w: {type: integer}", "w: {type: decimal}")
    plan = plan_of(text)
    table = plan.catalog.tables["people"]
    law, people = MECHANISMS["discrete_laplace"].law(Fraction(10)), int(2500 / step)

    def noisy(quantity: Quantity) -> Noisy:
        total = {"rows": people, "nonnull": people, "sum": people * (20_000 - quantity.centre)}[quantity.kind]
        return Noisy(quantity, np.array([total]), law)

    found = {}
    for measure in (Count(count="rows"), Sum(sum="pay"), Mean(mean="pay")):
        quantities = measure.quantities(table)
        parts = [noisy(each) for each in quantities]
        estimate = measure.estimate(parts, Fraction(95, 100))
        tested = measure.estimate_tested(parts, Fraction(95, 100))
        expected = measure.expected(quantities, [law] * len(parts), Fraction(95, 100), 2500)
        found[measure.kind] = float(estimate.value[0])
        assert tested.value == estimate.value
        assert expected.margin is not None
        if measure.kind == "mean":
            assert 0 < estimate.margin[0] <= expected.margin * 1.0001
        else:
            assert np.isclose(estimate.margin[0], expected.margin)
            assert np.isclose(expected.margin, law.margin(Fraction(95, 100)) * float(quantities[0].grid))
    assert found == {"count": 2500.0, "sum": 50_000_000.0, "mean": 20_000.0}


def test_the_exact_totals_are_people_in_steps(tmp_path: Path) -> None:
    plan, (folder, _) = plan_of(spec(WORKLOAD)), written(tmp_path)
    engine = next(iter(ENGINES.values()))(folder, {})
    total = next(step for step in plan.steps if step.aggregate.by == ())
    (box,) = engine.aggregate(plan.catalog, total.aggregate.grouping, total.parts, {}, bytes(32))
    lines = [line.split(",") for line in (folder / "people.csv").read_text().splitlines()[1:]]
    assert isinstance(box, Exact)
    assert open_exact(box).tolist() == [sum(int(line[4]) for line in lines if line[0] in "abc")]


@pytest.mark.parametrize("query", [WORKLOAD, TOTALS])
def test_a_look_at_the_data_tells_how_many_weights_the_clip_moves(query: str, tmp_path: Path) -> None:
    _, records = written(tmp_path), tmp_path / "weighted" / "people.csv"
    lines = [line.split(",") for line in records.read_text().splitlines()[1:]]
    text = spec(query, "weight: {column: w, clip: 3}").replace("file: people.csv", "file: weighted/people.csv")
    for name, content in (("dprelease.yaml", SETTINGS), ("policy.yaml", POLICY), ("spec.yaml", text)):
        (tmp_path / name).write_text(content)
    (found,) = look_at(tmp_path / "spec.yaml", allowed=True, is_terminal=True)
    (told,) = [line for each in found.queries.values() for line in each if line.of == "weight w"]
    inside = [int(line[4]) for line in lines if line[0] in "abc"]
    assert (told.what, told.count, told.whole) == ("clipped", sum(weight > 3 for weight in inside), len(inside))
    assert told.count > 0


def _chance(step: float, scale: Fraction, kind: str, sampling: float, reach: float) -> float:
    """The probability that integer noise and a normal error together stay within ``reach``."""
    far = int(40 * scale) + 40
    steps = np.arange(-far, far + 1) * step
    size = np.abs(steps / step) / float(scale)
    mass = np.exp(-size) if kind == "discrete_laplace" else np.exp(-(size**2) / 2)
    normal = NormalDist(0, sampling)
    inside = np.array([normal.cdf(reach - each) - normal.cdf(-reach - each) for each in steps])
    return float((mass * inside).sum() / mass.sum())


@pytest.mark.parametrize("kind", ["discrete_laplace", "discrete_gaussian"])
@pytest.mark.parametrize(
    "confidence", [Fraction(each) for each in ("0.5", "0.68", "0.8", "0.9", "0.95", "0.99", "0.999")]
)
def test_the_total_margin_covers_noise_and_sampling_together(kind: str, confidence: Fraction) -> None:
    """By the exact law of the noise, at every proportion of the two errors; squares of plain margins would not do."""
    plainly = []
    for scale, proportion in product((Fraction(1), Fraction(20)), (0.02, 0.1, 0.3, 0.7, 1.0, 1.5, 3.0, 10.0)):
        law = MECHANISMS[kind].law(scale)
        error, margin = np.array([law.variance**0.5]), np.array([float(law.margin(confidence))])
        sampling = proportion * error
        reach = total_margin(margin, error, sampling, confidence, 1.0)
        assert _chance(1.0, scale, kind, float(sampling[0]), float(reach[0])) >= float(confidence) - 1e-6
        both = np.hypot(margin, NormalDist().inv_cdf((1 + float(confidence)) / 2) * sampling)
        plainly.append(_chance(1.0, scale, kind, float(sampling[0]), float(both[0])) - float(confidence))
        if scale == 20 and confidence >= Fraction(4, 5):  # else it covers more than it is asked for
            less = total_margin(0.8 * margin, 0.8 * error, 0.8 * sampling, confidence, 1.0)
            assert _chance(1.0, scale, kind, float(sampling[0]), float(less[0])) < float(confidence)
    if (kind, confidence) == ("discrete_laplace", Fraction("0.8")):
        assert min(plainly) < -0.005


def test_sampling_errors_are_those_of_counts_and_shares_alone() -> None:
    sampling = ", sampling: {deff: 2, mean_weight: 50, fraction: 0.02}}"
    plan = plan_of(spec(TOTALS, WEIGHT.replace("}", sampling)))
    query, table = plan.queries[0], plan.catalog.tables["people"]
    told = [name for name, measure in query.measures.items() if is_sampled(measure, table)]
    assert sorted(told) == ["men", "n", "paid", "share"]
    names = column_names(plan, query)
    assert [name for name in names if name.endswith("_sampling_se")] == [
        f"{name}_sampling_se" for name in ("n", "paid", "men", "share")
    ]
    assert table.weight is not None
    assert table.weight.sampling is not None
    assert table.weight.sampling.of_one == 2 * 50 * Fraction(98, 100)
    assert not [name for name in column_names(plan_of(spec(TOTALS)), query) if "sampling" in name]
