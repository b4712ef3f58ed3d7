"""Quantiles from counts, from a spec to a bundle that verifies, and worked out again from its files alone."""

from __future__ import annotations

import csv
import json
import math
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from dprelease.spec.fields.published.figures import CAUTION_ABOVE, UNRELIABLE_ABOVE
from tests.project import command, one_table

SPEC = """dprelease: 1
release: {name: incomes, period: 2024, title: Incomes, curator: Example Office}
privacy:
  unit: {entity: person}
  budget: {rho: 0.05, delta: 1e-9}
references:
  apart: {file: apart.csv, columns: {region: text, sex: text}}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      region: {type: text, keys: [a, b, c]}
      sex: {type: text, keys: [f, m]}
      income: {type: decimal, range: [-500, 90000], step: 100, measured_in: EUR}
queries:
  areas:
    title: Incomes by area
    table: people
    by: [region]
    measures:
      earners: {count: income}
      income: {quantiles: income, at: [0.1, 0.5, 0.9], clip: [0, 60000], from: counts, ratio_of: [0.9, 0.1], below: [6000], gini: true}
  pairs:
    table: people
    by: [region, sex]
    except: {reference: apart}
    where: "sex = 'f' OR income < 50000"
    measures:
      income:
        {quantiles: income, at: [0.25, 0.75], clip: [0, 60000], from: counts, edges: [0, 100, 5000, 20000, 40000]}
derive:
  spread: {sql: "select region, income_q90 - income_q10 as spread, earners * 2 as twice from areas"}
"""
PUBLISHED = ("q10", "q50", "q90", "q90_to_q10", "below_6000", "gini")
ROWS = 3000
CLIP, STEP = 60_000, 100


def people() -> list[tuple[str, str, str]]:
    """Nobody is in c; some have no income, some one beyond the clip."""
    return [("ab"[k % 2], "fm"[k % 3 % 2], f"{k * k % 701 * 100}.{k % 7}0" if k % 20 else "") for k in range(ROWS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a project in which the spec was released."""
    made = one_table(tmp_path_factory.mktemp("counted"), SPEC, "region,sex,income", people())
    (made / "apart.csv").write_text("region,sex\nc,m\n", encoding="utf-8")
    assert "3 steps drawn, 0 reused" in command(made, "run", "spec.yaml", "--direct")
    return made


def bundle(folder: Path) -> Path:
    return folder / "releases" / "incomes" / "2024"


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (bundle(folder) / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_release_verifies_and_is_published_again_byte_by_byte(folder: Path) -> None:
    before = {path: path.read_bytes() for path in bundle(folder).rglob("*") if path.is_file()}
    command(folder, "publish", "incomes/2024")
    assert before == {path: path.read_bytes() for path in bundle(folder).rglob("*") if path.is_file()}
    assert "FAIL" not in command(folder, "verify", str(bundle(folder)))
    assert "sound" in command(folder, "ledger", "check")


def true_values(region: str) -> list[int]:
    """In steps, rounded and clipped; halves away from zero."""
    found = [Fraction(income) / STEP for area, _, income in people() if area == region and income]
    return sorted(min(max(math.floor(each + Fraction(1, 2)), 0), CLIP // STEP) * STEP for each in found)


def test_intervals_hold_the_true_quantiles_of_cells_with_people(folder: Path) -> None:
    """With a chance of 1 in 20 each they do not: of six, four at least but in one of ten thousand runs."""
    rows = {row["region"]: row for row in table(folder, "tables/areas.csv")}
    held = []
    for region, name in ((region, name) for region in "ab" for name in ("q10", "q50", "q90")):
        true, at = true_values(region), int(name[1:]) / 100
        quantile = true[math.ceil(at * len(true)) - 1]
        low, high = (float(rows[region][f"income_{name}_{end}"]) for end in ("lower", "upper"))
        held.append(low <= quantile <= high)
        assert 0 <= low <= float(rows[region][f"income_{name}"]) <= high <= CLIP
        assert high - low < 20_000
    assert sum(held) >= 4


def test_an_empty_cell_is_there_with_an_interval_that_says_how_little_is_known(folder: Path) -> None:
    (row,) = (row for row in table(folder, "tables/areas.csv") if row["region"] == "c")
    number, low, high = (float(row[f"income_q50{end}"]) for end in ("", "_lower", "_upper"))
    assert high - low > 20_000
    half = (high - low) / 2  # which number is drawn, and so how much of it that is, is chance
    limits = {"unreliable": UNRELIABLE_ABOVE, "caution": CAUTION_ABOVE, "ok": Fraction(0)}
    assert row["income_q50_status"] == next(status for status, limit in limits.items() if half > float(limit) * number)
    assert [(row["region"], row["sex"]) for row in table(folder, "tables/pairs.csv")] == [
        ("a", "f"), ("a", "m"), ("b", "f"), ("b", "m"), ("c", "f"),
    ]  # fmt: skip


def root(n: int, grain: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """F from the words of the recipe alone."""
    p = [(2**40 * math.comb(2 * k, k)) // 4**k for k in range(n)]
    r = [math.isqrt(sum(each**2 for each in p[: m + 1])) for m in range(n)]
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            found[i, j] = (2 * grain * p[i - j] + r[n - 1 - j]) // (2 * r[n - 1 - j])
    return found


@pytest.mark.parametrize(("name", "ranks"), [("areas", ("q10", "q50", "q90")), ("pairs", ("q25", "q75"))])
def test_a_stranger_works_out_every_number_from_the_measurements(
    folder: Path, name: str, ranks: tuple[str, ...]
) -> None:
    made = json.loads((bundle(folder) / "measurements" / "recipe.json").read_text(encoding="utf-8"))
    how = next(each for each in made["classes"] if each["step"].startswith(f"{name}."))
    step = next(each for each in made["steps"] if each["step"] == how["step"])
    measured = table(folder, step["file"])
    n, scale = how["n"], float(Fraction(step["scale"]))
    firsts = how["first_values"]
    lasts = [*(each - 1 for each in firsts[1:]), how["last_value"]]
    sums = np.tri(n) @ np.linalg.inv(root(n, how["grain"]))
    rows = table(folder, f"tables/{name}.csv")
    assert len(measured) == n * len(rows)
    for at, row in enumerate(rows):
        y = np.array([float(each["value"]) for each in measured[at * n : (at + 1) * n]])
        assert [each["region"] for each in measured[at * n : (at + 1) * n]] == [row["region"]] * n
        p = sums @ y
        g = (np.maximum.accumulate(p) + np.minimum.accumulate(p[::-1])[::-1]) / 2
        for rank in ranks:
            a = int(rank[1:]) / 100
            wanted = a * max(p[-1], 0)
            i = next((place for place in range(n) if g[place] >= wanted), n - 1)
            before = g[i - 1] if i else 0
            t = min(max((wanted - before) / max(g[i] - before, 1e-300), 0), 1)
            quantile = firsts[i] + math.floor((lasts[i] - firsts[i]) * t + 0.5)
            s = np.linalg.norm(sums - a * sums[-1], axis=1) * scale
            d, z = p - a * p[-1], NormalDist().inv_cdf(0.975)
            begins = next((place for place in range(n) if d[place] >= -z * s[place]), None)
            ends = max(place for place in range(n) if not place or d[place - 1] <= z * s[place - 1])
            first, last = (0, n - 1) if begins is None else (begins, ends)
            low, high = firsts[first] * STEP, lasts[last] * STEP
            value = min(max(quantile * STEP, low), high)
            said = [float(row[f"income_{rank}{end}"]) for end in ("", "_lower", "_upper", "_margin")]
            assert said == [value, low, high, max(value - low, high - value)]


def test_a_stranger_works_out_the_gini_coefficient(folder: Path) -> None:
    made = json.loads((bundle(folder) / "measurements" / "recipe.json").read_text(encoding="utf-8"))
    (output,) = (each for each in made["outputs"] if each["measure"] == "income_gini")
    assert output["formula"] == "gini(x1)"
    how = next(each for each in made["classes"] if each["step"] == output["inputs"][0]["step"])
    step = next(each for each in made["steps"] if each["step"] == how["step"])
    measured, n = table(folder, step["file"]), how["n"]
    firsts = np.array(how["first_values"])
    middles = (firsts + np.append(firsts[1:] - 1, how["last_value"])) / 2
    sums, scale = np.tri(n) @ np.linalg.inv(root(n, how["grain"])), float(Fraction(step["scale"]))
    for at, row in enumerate(table(folder, "tables/areas.csv")):
        p = sums @ np.array([float(each["value"]) for each in measured[at * n : (at + 1) * n]])
        apart = np.diff(middles)
        total = middles[-1] * p[-1] - apart @ p[:-1]
        if p[-1] < 1 or total <= 0:
            assert row["income_gini"] == ""
            continue
        s = np.linalg.norm(sums - (p / p[-1])[:, None] * sums[-1], axis=1)[:-1] * scale
        found = min(max(apart @ (p[:-1] * (p[-1] - p[:-1]) + s**2) / (p[-1] * total), 0), 1)
        said, low, high = (float(row[f"income_gini{end}"]) for end in ("", "_lower", "_upper"))
        assert said == pytest.approx(min(max(found, low), high), rel=1e-9)
        if row["region"] in "ab":
            true = np.array(true_values(row["region"]), dtype=float)
            exact = np.abs(true[:, None] - true).sum() / (2 * len(true) * true.sum())
            assert abs(said - exact) < 5 * float(row["income_gini_se"])
            assert 0 < low < said < high < low + 0.2


def test_ratios_and_shares_are_of_the_same_draw(folder: Path) -> None:
    made = json.loads((bundle(folder) / "measurements" / "recipe.json").read_text(encoding="utf-8"))
    formulas = {each["measure"]: each for each in made["outputs"] if each["query"] == "areas"}
    assert formulas["income_q90_to_q10"]["formula"].startswith("clip(quantile(x1, (9/10)) / quantile(x1, (1/10)), 1,")
    assert formulas["income_below_6000"]["formula"] == "clip(prefix(x1, 60) / prefix(x1, 601), 0, 1)"
    assert len({each["inputs"][0]["step"] for name, each in formulas.items() if name != "earners"}) == 1
    for row in table(folder, "tables/areas.csv")[:2]:
        if row["income_q90_to_q10"]:
            quotient = float(row["income_q90"]) / float(row["income_q10"])
            assert float(row["income_q90_to_q10"]) == pytest.approx(max(quotient, 1), rel=1e-9)
        true = true_values(row["region"])
        share = sum(value < 6000 for value in true) / len(true)
        assert abs(float(row["income_below_6000"]) - share) < 5 * float(row["income_below_6000_se"])
        low, high = float(row["income_below_6000_lower"]), float(row["income_below_6000_upper"])
        assert 0 <= low < float(row["income_below_6000"]) < high <= 1


def test_what_is_derived_of_counts_has_margins_and_what_is_derived_of_quantiles_has_none(folder: Path) -> None:
    rows = table(folder, "tables/spread.csv")
    assert all(row["spread"] and not row["spread_margin"] for row in rows)
    assert all(row["twice_margin"] for row in rows)


def test_pages_say_what_was_drawn_and_how_intervals_came_about(folder: Path) -> None:
    account = (bundle(folder) / "accounting.html").read_text(encoding="utf-8")
    assert "its interval holds every value at which a test by the law of the noise does not refuse it" in account
    assert "rows in each of 601 classes of income, from 0 to 60,000" in account
    assert "along classes of values by a square root of prefix sums" in account


def test_the_account_has_the_matrix_and_says_why_no_margin_is_foreseen(folder: Path) -> None:
    told = json.loads((bundle(folder) / "accounting.json").read_text(encoding="utf-8"))
    drawn = [step for step in told["steps"] if "factor" in step]
    assert [step["factor"]["shape"] for step in drawn] == [[3, 601], [5, 5]]
    outputs = {each["measure"]: each for each in told["outputs"] if each["query"] == "areas"}
    assert outputs["income_q50"]["why_null"].startswith("depends on the data")
    (step,) = [step for step in drawn if step["factor"]["shape"] == [3, 601]]
    inverse = np.tri(601) @ np.linalg.inv(root(601, step["factor"]["grain"]))
    error = float(Fraction(step["scale"])) * math.sqrt((inverse**2).sum() / 601)
    assert outputs["income_q50"]["why_null"].endswith(f"up to a point err by {error:.3g}")


def test_a_plan_tells_the_cells_that_are_published_and_not_those_of_the_draw(folder: Path) -> None:
    rows = [line.split() for line in command(folder, "plan", "spec.yaml").splitlines()]
    told = {row[1]: row[2] for row in rows if row[:1] == ["areas"]}
    assert told == dict.fromkeys(("earners", *(f"income_{each}" for each in PUBLISHED)), "3")
    assert [row[2] for row in rows if row[:1] == ["pairs"]] == ["5", "5"]


def test_a_rehearsal_and_a_comparison_with_the_truth_take_them(tmp_path: Path) -> None:
    made = one_table(tmp_path, SPEC, "region,sex,income", people())
    (made / "apart.csv").write_text("region,sex\nc,m\n", encoding="utf-8")
    command(made, "run", "spec.yaml", "--direct", "--synthetic")
    command(made, "utility", "spec.yaml", "--i-can-see-the-data", "--json", "--out", "figures.json")
    found = json.loads((made / "figures.json").read_text(encoding="utf-8"))
    errors = {(each["table"], each["measure"], each["size"]): each for each in found["errors"]}
    for name in ("income_q10", "income_q50", "income_q90"):
        assert ("areas", name, "0") not in errors  # nobody has no quantile
        assert errors["areas", name, "1,000+"]["compared"] == 10
        assert errors["areas", name, "1,000+"]["rmse"] < 4000
    assert errors["areas", "income_below_6000", "1,000+"]["rmse"] < 0.05


def test_units_of_several_rows_and_replaced_ones_are_bounded_drawn_and_verified(tmp_path: Path) -> None:
    """Of five rows of a person two are left in a cell, all with one value: the true median is that value."""
    spec = SPEC.split("  pairs:", maxsplit=1)[0].replace(
        "    source:", "    unit_id: person\n    bounds: {max_rows: 4}\n    source:"
    )
    spec = spec.replace("    by: [region]", "    by: [region]\n    bounds: {max_groups: 1, max_rows_per_group: 2}")
    spec = spec.replace("unit: {entity: person}", "unit: {entity: person}\n  neighboring: replace_one")
    spec = spec.replace("references:\n  apart: {file: apart.csv, columns: {region: text, sex: text}}\n", "")
    rows = [(f"p{k}", "abc"[k % 3], "f", "31200") for k in range(900) for _ in range(5)]
    made = one_table(tmp_path, spec, "person,region,sex,income", rows)
    policy = (made / "policy.yaml").read_text(encoding="utf-8").replace("add_remove", "replace_one")
    (made / "policy.yaml").write_text(policy, encoding="utf-8")
    assert "2 steps drawn" in command(made, "run", "spec.yaml", "--direct")
    assert "FAIL" not in command(made, "verify", str(bundle(made)))
    steps = json.loads((bundle(made) / "accounting.json").read_text(encoding="utf-8"))["steps"]
    (drawn,) = [step for step in steps if "factor" in step]
    assert float(drawn["sensitivity"]["l2"]) == pytest.approx(2 * math.sqrt(2) * 2**14, rel=1e-3)
    found = [
        (float(row["income_q50_lower"]), float(row["income_q50_upper"])) for row in table(made, "tables/areas.csv")
    ]
    assert sum(low <= 31_200 <= high for low, high in found) >= 2
    assert max(abs(float(row["earners"]) - 600) for row in table(made, "tables/areas.csv")) < 400
