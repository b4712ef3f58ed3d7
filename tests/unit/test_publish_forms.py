"""Numbers that are made of several draws, and plans with pins and targets: what the pages say of them is true."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from dprelease.canonical import dumps, sha256
from dprelease.catalog.aggregate import Quantity
from dprelease.noise import JOINT_MECHANISMS, MECHANISMS
from dprelease.plan.document import Feed, PlannedQuery, ReleasePlan
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.publish import Publication, check_bundle, render, write
from dprelease.publish.accounting.choices import asked_and_planned, draw_row, laws_of_loss, other_ways
from dprelease.publish.accounting.glossary import described, post_processing
from dprelease.publish.accounting.plan_words import quantity_words
from dprelease.publish.manifest import Manifest, sums_file
from tests.unit.forms_example import CELLS, MEASURES, PERSONS, TRUTH, answers, forms
from tests.unit.publish_example import facts, measurements, plan
from tests.unit.test_publish_pages import Outline


@cache
def published() -> Publication:
    made = forms()
    return render(made, answers(), facts(made))


def words(page: str) -> str:
    return Outline(published().files[page].decode()).text


def with_inputs(query: PlannedQuery, **changed: tuple[Feed, ...]) -> ReleasePlan:
    """The example with other inputs for some measures of a query."""
    other = query.model_copy(update={"inputs": {**query.inputs, **changed}})
    made = forms()
    return made.model_copy(update={"queries": tuple(other if q.name == query.name else q for q in made.queries)})


def test_numbers_of_several_draws_are_put_together_as_the_page_says() -> None:
    """Without noise every form gives the truth: counts of a half sum, sums of a mean, a variance about the middle."""
    text = published().files["tables/income.csv"].decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [float(row["persons"]) for row in rows] == TRUTH["rows"]
    assert [float(row["earners"]) for row in rows] == TRUTH["nonnull"]
    assert [float(row["total"]) for row in rows] == [40_000 * count for count in TRUTH["nonnull"]]
    assert [float(row["average"]) for row in rows] == [40_000] * CELLS
    assert [float(row["spread"]) for row in rows] == pytest.approx([0] * CELLS, abs=1)


def test_a_variance_has_the_squared_unit_of_its_column() -> None:
    assert described(MEASURES["spread"], PERSONS, "person") == (
        "variance of income in EUR², each value first moved into 0 to 60,000"
    )
    assert "standard deviation of income in EUR, each" in words("index.html")
    income = PERSONS.columns[1]
    for unit, squared in (("km per hour", "(km per hour)²"), ("", "squared units of the column")):
        other = PERSONS.model_copy(
            update={"columns": (PERSONS.columns[0], income.model_copy(update={"measured_in": unit}))}
        )
        assert described(MEASURES["spread"], other, "person").startswith(f"variance of income in {squared},")


def test_what_is_no_measurement_by_itself_is_not_called_one() -> None:
    told = post_processing(forms())
    assert told[0] == "Counts, but for those named next, are the noisy measurements themselves."
    assert told[1].endswith("so that it may end in a half: income.earners.")
    assert told[2].endswith("plus the middle times a noisy count: income.total.")
    assert told[3] == "No count or sum was rounded, made positive or made to add up with others."
    assert any(line.startswith("A mean is the middle of its clip plus") for line in told)
    assert any(line.startswith("A variance is made of a noisy sum of squares, a noisy sum and a") for line in told)
    assert "A standard deviation is the square root of such a variance." in told
    assert "One draw may serve several numbers, which then err together: the steps say which." in told


def test_plain_counts_and_sums_are_the_measurements() -> None:
    told = post_processing(plan())
    assert told[0] == "Counts and sums are the noisy measurements themselves."
    assert not [line for line in told if "half" in line or "variance" in line or "middle times" in line]


def test_the_forms_are_read_from_what_feeds_a_measure() -> None:
    """The same measures, fed otherwise, are described otherwise."""
    income = forms().queries[0]
    plain = with_inputs(income, earners=(Feed(step="income.counts", part=1),))
    assert not [line for line in post_processing(plain) if "end in a half" in line]
    assert "income.total." in post_processing(plain)[1]


def test_rounded_squares_are_told() -> None:
    sentence = "Squares were rounded to their grid before they were added up; the margin covers that."
    assert sentence not in post_processing(forms())
    made = forms()
    steps = tuple(
        step.model_copy(
            update={
                "aggregate": step.aggregate.model_copy(
                    update={"quantity": step.aggregate.quantity.model_copy(update={"grain": 10})}
                )
            }
        )
        if step.id == "income.square"
        else step
        for step in made.steps
    )
    assert sentence in post_processing(made.model_copy(update={"steps": steps}))


@pytest.mark.parametrize(
    ("quantity", "said"),
    [
        (Quantity(kind="rows"), "rows"),
        (Quantity(kind="nonnull", column="pay"), "rows with a value of pay"),
        (Quantity(kind="balance", column="pay"), "rows with a value of pay, less those without"),
        (Quantity(kind="balance", column="pay", where="a"), "rows with a value of pay, where a, less all others"),
        (Quantity(kind="balance", where="a"), "rows, where a, less all others"),
        (Quantity(kind="balance", where="a", per="unit_cell"), "units with a row, where a, less all others"),
        (Quantity(kind="sum", column="pay", high=9), "pay, in steps of 1"),
        (Quantity(kind="sum", column="pay", low=-9, high=1, centre=-4), "pay plus 4, in steps of 1"),
        (Quantity(kind="sum", column="pay", high=9, step=Fraction(2, 3)), "pay, in steps of 2/3"),
        (Quantity(kind="square", column="pay", low=-3, high=3, offset=4), "pay², less 4 each, in steps of 1"),
        (
            Quantity(kind="square", column="pay", high=4000, centre=2000, grain=4, offset=500, step=Fraction(1, 2)),
            "(pay less 1,000)², less 500 each, in steps of 1",
        ),
    ],
)
def test_what_a_step_adds_up_has_words(quantity: Quantity, said: str) -> None:
    assert quantity_words(quantity) == said


def test_a_joint_draw_is_one_row_with_its_gauge() -> None:
    row = draw_row(forms().step("income.counts"))
    assert row["measured"] == "rows; rows with a value of income"
    assert row["answers"] == "income: persons, earners, total, average, spread, deviation"
    assert (row["mechanism"], row["cells"], row["sensitivity"]) == ("K-norm (counts)", "4 × 2", "gauge 1")
    assert row["loss"] == "ε = 0.125"
    page = words("accounting.html")
    assert "Its gauge is the size of the largest change that one person can make to all of them together" in page
    assert "gauge\u00a0/\u00a0scale for K-norm noise" in laws_of_loss(forms())
    plain = plan()
    assert "K-norm" not in Outline(render(plain, measurements(), facts(plain)).files["accounting.html"].decode()).text


def test_every_mechanism_has_words() -> None:
    for name in {**MECHANISMS, **JOINT_MECHANISMS}:
        joint = name in JOINT_MECHANISMS
        step = forms().step("income.counts" if joint else "income.sum").model_copy(update={"mechanism": name})
        assert "_" not in draw_row(step)["mechanism"]
        assert laws_of_loss(forms(steps=(step,)))


def test_the_page_says_what_was_asked_and_what_was_planned() -> None:
    rows = {(row["query"], row["measure"]): row for row in asked_and_planned(forms(), 500)}
    average, pinned, aimed = rows["income", "average"], rows["pinned", "persons"], rows["aimed", "persons"]
    assert (average["asked"], average["target"]) == ("100 % of the shares; no less than its targets need", "± 0.25")
    assert (pinned["asked"], pinned["target"]) == ("pinned to ε = 0.2", "")
    assert (aimed["asked"], aimed["target"], aimed["margin"]) == ("what its targets need", "± 40", "± 39")
    assert rows["income", "total"]["target"] == ""
    page = words("accounting.html")
    for said in ("pinned to ε = 0.2", "what its targets need", "± 40", "Not all of the budget was used: epsilon 1.9"):
        assert said in page
    assert len(asked_and_planned(forms(), 3)) == 3


def test_without_targets_there_is_no_column_for_them() -> None:
    made = plan()
    text = render(made, measurements(), facts(made)).files["accounting.html"].decode()
    assert "target</th>" not in text
    assert "target</th>" in published().files["accounting.html"].decode()


def test_other_ways_stand_beside_the_plan_with_the_reason() -> None:
    naive, laplace, gaussian = other_ways(forms())
    assert naive["why_not"] == "it would charge an account ε = 3.059 at the δ of its cap"
    assert laplace["why_not"] == "it would charge an account epsilon 3.8, at the δ of its cap"
    assert gaussian["why_not"] == "more noise"
    assert other_ways(plan()) == []


def test_the_accountant_that_certifies_is_named_with_what_it_does() -> None:
    page = words("accounting.html")
    assert f"certified by pld, which {ACCOUNTANTS['pld'].words.how}" in page
    assert "so the smallest bound holds, and certifies the release" in page
    asked = forms(accounting="pld")
    text = Outline(render(asked, answers(), facts(asked)).files["accounting.html"].decode()).text
    assert "the specification asks for pld, which certifies the release" in text


def test_such_a_bundle_passes_its_checks_and_keeps_the_facts_of_the_plan(tmp_path: Path) -> None:
    write(published(), tmp_path / "bundle")
    assert [check.name for check in check_bundle(tmp_path / "bundle") if check.passed is False] == []
    found = json.loads(published().files["accounting.json"])
    assert found["goals"]["aimed"]["targets"] == {"persons": "40"}
    assert found["naive"]["charged"] == "3.059"
    assert [each["name"] for each in found["considered"]] == ["discrete Laplace", "discrete Gaussian"]


@pytest.mark.parametrize("feed", [Feed(step="nowhere"), Feed(step="income.sum", part=7)])
def test_a_forged_plan_that_makes_no_sense_is_a_failed_check_and_no_traceback(feed: Feed, tmp_path: Path) -> None:
    write(published(), tmp_path / "bundle")
    forged = with_inputs(forms().queries[0], total=(feed,))
    data = (forged.canonical() + "\n").encode()
    (tmp_path / "bundle/plan.json").write_bytes(data)
    manifest = json.loads((tmp_path / "bundle/manifest.json").read_bytes())
    manifest["files"]["plan.json"] = {"sha256": sha256(data), "bytes": len(data)}
    manifest["plan_fingerprint"] = forged.fingerprint()
    (tmp_path / "bundle/manifest.json").write_text(dumps(manifest) + "\n")
    (tmp_path / "bundle/SHA256SUMS").write_bytes(sums_file(Manifest.from_canonical(dumps(manifest)), None))
    failed = {check.name for check in check_bundle(tmp_path / "bundle") if check.passed is False}
    assert failed == {"accounting", "facts", "values", "rendered again"}
