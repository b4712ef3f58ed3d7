"""A decimal without a step gets one that costs nothing, the plan and the pages say it, and old plans are told apart."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Catalog
from dprelease.errors import BrokenPromiseError, SpecError
from dprelease.ledger import Ledger
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.rounding import grid_facts, grid_texts, rounded_in_silence
from dprelease.plan.resolve import catalog as resolving
from dprelease.plan.verify.form import check_form
from dprelease.publish.site.notes import not_in_the_margins
from dprelease.release.check import ROUNDING, check_release, rounded_releases
from dprelease.release.direct import run_directly
from dprelease.release.project import Project
from dprelease.release.run import Request
from dprelease.release.tuning.fine_grids import unrounded
from dprelease.release.tuning.utility import utility
from dprelease.spec.load import load
from dprelease.spec.steps import Grid
from tests.planned import plan_of
from tests.project import SETTINGS

SHARES = """dprelease: 1
release: {name: shares, period: 2024, title: Shares}
privacy: {unit: {entity: person}, budget: {epsilon: 1, delta: 1e-9}}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      share: {type: decimal, range: [0, 1]}
queries:
  q: {table: people, measures: {m: {mean: share}}}
"""
POLICY = """accounts:
  people: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 9, delta: 1e-8}}
"""
ONE = "range: [0, 1], step: 1}"


def spec(column: str = "", measure: str = "{mean: share}") -> str:
    return SHARES.replace("range: [0, 1]}", column or "range: [0, 1]}").replace("{mean: share}", measure)


def project(folder: Path, text: str = SHARES, rows: int = 10_000, value: str = "0.3") -> Path:
    for name, content in {"dprelease.yaml": SETTINGS, "policy.yaml": POLICY, "spec.yaml": text}.items():
        (folder / name).write_text(content)
    (folder / "people.csv").write_text("share\n" + f"{value}\n" * rows)
    return folder / "spec.yaml"


def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan as it was done when a step that was not written was 1, and no plan said who chose it."""
    monkeypatch.setattr(resolving, "grid_of", lambda *_: Grid(Fraction(1), Fraction(1), None))


def silent(plan: ReleasePlan) -> ReleasePlan:
    """The same plan without who chose its steps."""
    tables = {
        name: table.model_copy(
            update={"columns": tuple(each.model_copy(update={"step_from": None}) for each in table.columns)}
        )
        for name, table in plan.catalog.tables.items()
    }
    return plan.model_copy(update={"catalog": Catalog(tables=tables)})


@pytest.mark.thin(every=3)
@pytest.mark.parametrize(
    ("column", "measure", "step", "ranks"),
    [
        ("range: [0, 1]}", "{mean: share}", "1/1000000", None),
        ("range: [0, 1]}", "{quantiles: share, at: [0.4, 0.5]}", "1/1000", None),
        ("range: [0, 5]}", "{max: share}", "1/1000", None),
        ("range: [0, 500000]}", "{sum: share, clip: [0, 60000]}", "1/100", None),
        ("range: [0, 500000]}", "{quantiles: share, at: [0.5], clip: [0, 60000]}", "1", None),
        ("range: [0, 1e12]}", "{mean: share}", "1", None),
        ("range: [0, 0.333]}", "{variance: share}", "1/10000000", None),
        ("range: [-20000, 5000000]}", "{stddev: share, clip: [0, 0.005]}", "1/1000000000", None),
        (ONE, "{mean: share}", "1", None),
        ("range: [0, 1], step: 1/8}", "{quantiles: share, at: [0.5]}", "1/8", None),
    ],
)
def test_a_step_is_derived_from_the_limits_of_what_is_measured(
    column: str, measure: str, step: str, ranks: str | None
) -> None:
    plan = plan_of(spec(column, measure))
    share = plan.catalog.tables["people"].column("share")
    assert (str(share.step), share.rank_step and str(share.rank_step)) == (step, ranks)
    assert share.step_from == ("spec" if "step" in column else "limits")
    parts = [part for each in plan.measured for part in each.parts if part.kind in ("sum", "square", "quantile")]
    assert {part.step for part in parts} == {Fraction(ranks or step)}
    assert all((part.high - part.low) * part.step * Fraction(1, 1000) >= part.step for part in parts) or column == ONE or "1/8" in column  # fmt: skip


def test_the_finest_of_several_clips_decides_for_all_queries() -> None:
    both = SHARES + "  r: {table: people, measures: {m: {sum: share, clip: [0, 0.01]}}}\n"
    assert str(plan_of(both).catalog.tables["people"].column("share").step) == "1/100000000"


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("measure", ["{mean: share}", "{sum: share}", "{variance: share}", "{stddev: share}"])
def test_a_derived_grid_costs_no_accuracy(measure: str) -> None:
    """Against a grid of a thousandth and the whole numbers of before: never more noise, and mostly a little less."""
    expect = "measures: {c: {count: share}, m: %s}, expect: {c: 10000}}"
    made = {}
    for column in ("range: [0, 1000]}", "range: [0, 1000], step: 1}"):
        text = spec(column, measure).replace(f"measures: {{m: {measure}}}}}", expect % measure)
        made[column] = {each.measure: Fraction(each.margin or 0) for each in plan_of(text).outputs}
    derived, whole = made.values()
    assert all(0 < derived[name] <= whole[name] * Fraction(1001, 1000) for name in derived)


def test_quantiles_have_a_grid_of_their_own_beside_sums() -> None:
    plan = plan_of(SHARES.replace("{m: {mean: share}}", "{m: {mean: share}, r: {max: share, clip: [0, 0.5]}}"))
    share = plan.catalog.tables["people"].column("share")
    assert (str(share.step), str(share.rank_step)) == ("1/1000000", "1/10000")
    assert {part.kind: str(part.step) for each in plan.measured for part in each.parts} == {
        "sum": "1/1000000",
        "nonnull": "1",
        "quantile": "1/10000",
    }


def test_limits_on_no_decimal_grid_want_a_step() -> None:
    with pytest.raises(SpecError, match="DPR-S676"):
        load(spec("range: [0, 1/3]}"), "s")
    with pytest.raises(SpecError, match="DPR-S676"):
        load(spec("range: [0, 8e15]}", "{mean: share, clip: [0, 10]}"), "s")
    assert load(spec("range: [0, 1/3], step: 1/3000}"), "s")


def test_a_coarse_step_is_warned_of() -> None:
    found = load(spec("range: [0, 1], step: 0.002}"), "s").warnings
    assert [(each.code, "0.2 % of its clip" in each.summary) for each in found] == [("DPR-W121", True)]
    assert load(spec("range: [0, 1], step: 0.001}"), "s").warnings == ()
    assert load(SHARES, "s").warnings == ()


def test_specs_keep_their_fingerprint_unless_a_step_of_one_is_written() -> None:
    """An unwritten step was written as 1 into fingerprints; releases of such specs are found by them."""
    plain, one = load(SHARES, "s"), load(spec(ONE), "s")
    assert plain.fingerprint == "17a99ccb4fce3f46265b7f8f205c5a57d7dfc4597ee3281edbe60e17d8d6bf07"
    assert one.fingerprint != plain.fingerprint
    whole = SHARES.replace("decimal", "integer")
    assert load(whole, "s").fingerprint == load(whole.replace("[0, 1]}", "[0, 1], step: 1}"), "s").fingerprint


def test_the_plan_says_what_nobody_wrote() -> None:
    plan = plan_of(spec(measure="{quantiles: share, at: [0.5]}"))
    assert grid_texts(plan) == (
        "people.share: no `step` is written, so its values are rounded to multiples of 0.001 for quantiles",
    )
    assert grid_facts(plan) == [
        {"table": "people", "column": "share", "of": ["quantile"], "step": "1/1000", "chosen_by": "limits"}
    ]
    assert grid_texts(plan_of(spec(ONE))) == ()
    assert [each["chosen_by"] for each in grid_facts(plan_of(spec(ONE)))] == ["spec"]


def test_the_page_lists_rounding_beside_clipping_and_old_pages_keep_their_words() -> None:
    plan = plan_of(spec(ONE))
    words = "Every value of share was first rounded to a multiple of 1: a mean or a quantile of it can be off by half"
    first, second = [each for each in not_in_the_margins(plan, plan.queries[0]) if each.startswith("Every value")]
    assert first.startswith(words)
    assert second.startswith("Every value of share was first moved into 0 to 1")
    assert "rounded" not in " ".join(not_in_the_margins(silent(plan), plan.queries[0]))


def test_verify_refuses_another_grid_than_the_columns() -> None:
    plan = plan_of()
    check_form(plan)
    plan = plan_of(SHARES)
    check_form(plan)
    table = plan.catalog.tables["people"]
    for step, words in ((Fraction(1, 10), "another grid"), (Fraction(1), "another grid")):
        share = table.column("share").model_copy(update={"step": step})
        wrong = Catalog(tables={"people": table.model_copy(update={"columns": (share,)})})
        with pytest.raises(BrokenPromiseError, match=words):
            check_form(plan.model_copy(update={"catalog": wrong}))
    claimed = plan_of(spec(ONE))
    share = claimed.catalog.tables["people"].column("share").model_copy(update={"step_from": "limits"})
    wrong = Catalog(tables={"people": table.model_copy(update={"columns": (share,)})})
    with pytest.raises(BrokenPromiseError, match="over a thousandth"):
        check_form(claimed.model_copy(update={"catalog": wrong}))


def test_only_old_plans_were_rounded_in_silence() -> None:
    assert rounded_in_silence(plan_of(SHARES)) == ()
    assert rounded_in_silence(plan_of(spec(ONE))) == ()
    (found,) = rounded_in_silence(silent(plan_of(spec(ONE))))
    assert (found.column.name, found.step, found.width) == ("share", Fraction(1), Fraction(1))
    wide = silent(plan_of(spec("range: [0, 60000], step: 1}")))
    assert rounded_in_silence(wide) == ()


def published(folder: Path) -> dict[str, str]:
    with (folder / "releases/shares/2024/tables/q.csv").open() as file:
        (row,) = csv.DictReader(file)
    return row


def books(folder: Path) -> Ledger:
    return Project.find(folder).open_ledger()


@pytest.mark.slow
def test_shares_of_three_tenths_are_three_tenths_and_old_zeros_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 shares of 0.3 were published as 0.00000 +- 0.00323, status ok, and every check passed."""
    target = project(tmp_path)
    with monkeypatch.context() as patch:
        as_it_was(patch)
        run_directly(Request(target=str(target)))
    assert abs(float(published(tmp_path)["m"])) < 0.01
    (old,) = [each for each in check_release(tmp_path / "releases/shares/2024") if each.passed is False]
    assert old.name == ROUNDING
    assert "people.share (a step of 1 is 100 % of its clip)" in old.detail
    assert rounded_releases(books(tmp_path)) == ("shares/2024: people.share (a step of 1 is 100 % of its clip)",)

    run_directly(Request(target=str(target)))  # the same spec finds the release, and draws nothing
    assert len(books(tmp_path).reservations()) == 1
    run_directly(Request(target=str(target), restate="values had been rounded to whole numbers"))
    row = published(tmp_path)
    assert abs(float(row["m"]) - 0.3) <= float(row["m_margin"]) * 2 < 0.01
    assert all(each.passed is not False for each in check_release(tmp_path / "releases/shares/2024"))
    assert rounded_releases(books(tmp_path)) == ()
    told = json.loads((tmp_path / "releases/shares/2024/accounting.json").read_text())
    assert told["grids"][0]["step"] == "1/1000000"
    assert "first rounded to a multiple of 0.000001" in (tmp_path / "releases/shares/2024/index.html").read_text()


def test_the_truth_of_a_comparison_is_not_rounded(tmp_path: Path) -> None:
    """With whole numbers for steps the bias is seen; it was +0.001, within the margin at 100.0 %."""
    found = utility(project(tmp_path, spec(ONE), rows=2000), allowed=True, repeat=2).errors
    assert [(round(each.bias, 1), each.coverage) for each in found] == [(-0.3, 0.0)]
    (tmp_path / "spec.yaml").write_text(SHARES)
    (fine,) = utility(tmp_path / "spec.yaml", allowed=True, repeat=2).errors
    assert abs(fine.bias) < 0.05


def test_an_unrounded_quantity_has_the_same_clip() -> None:
    plan = plan_of(spec(ONE, "{variance: share}"))
    table = plan.catalog.tables["people"]
    for part in (part for each in plan.measured for part in each.parts):
        fine = unrounded(part, table)
        assert (fine.low * fine.step, fine.high * fine.step) == (part.low * part.step, part.high * part.step)
        assert (fine.kind in ("sum", "square")) == (fine.step <= Fraction(1, 10**9))
        assert fine.kind != "square" or (fine.squares[1] <= 2**30 and fine.grain < 2**60)
    assert unrounded(Quantity(kind="rows"), table) == Quantity(kind="rows")
