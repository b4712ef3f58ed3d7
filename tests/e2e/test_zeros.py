"""Workloads with impossible key combinations, from a spec to a bundle that verifies, as a user runs them."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats
from scipy.linalg import null_space

from tests.project import command
from tests.workloads import crosstabs, ordinary, published, small_workloads, spec_of, truth_of

ATTRIBUTES = ("sex", "race", "band")
NEVER = [("1", "[0,18)"), ("2", "[65,100)"), ("1", "[65,100)")]
FILE = "band,why,race\n" + "".join(f'"{band}",as is known,{race}\n' for race, band in NEVER)
WHOLE = "[consistent, nonnegative, integer]"
EVERY = crosstabs("except: {reference: never}", ways="[0, 1, 2, 3]")
PAIRS = crosstabs("except: {reference: never}")
SPECS = {
    "pairs": spec_of(PAIRS, ordinary()),
    "whole": spec_of(EVERY, post=WHOLE, relation="replace_one"),
    "units": spec_of(EVERY, units=True),
    "exact": spec_of(
        EVERY,
        "  by_race: {table: persons, by: [race], measures: {persons: {count: rows}}}\n",
        post="[consistent, nonnegative]",
    )
    + "invariants:\n  - {query: by_race, measure: persons, why: A law asks for it}\n",
}
# At night bounded contributions, too: what is left out of a cell they have in common with every other query.
NAMES = [pytest.param(name, marks=pytest.mark.nightly) if name == "units" else name for name in SPECS]
Floats = npt.NDArray[np.float64]


def project(folder: Path, spec: str, file: str = FILE) -> Path:
    declared = "references:\n  never: {file: never.csv, columns: {race: integer, band: text}}\n"
    small_workloads(folder, spec.replace("references:\n", declared))
    (folder / "never.csv").write_text(file, encoding="utf-8")
    policy = folder / "policy.yaml"
    if "invariants:" in spec:
        text = policy.read_text(encoding="utf-8").replace("{unit: person, ", "{unit: person, invariants: true, ")
        policy.write_text(text, encoding="utf-8")
    return folder


@cache
def released(base: Path, name: str) -> Path:
    folder = project(base / name, SPECS[name])
    assert "0 reused" in command(folder, "run", "spec.yaml", "--direct")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zeros")


def bundle(folder: Path) -> Path:
    return folder / "releases" / "census" / "2030"


def tables_of(folder: Path) -> dict[tuple[str, ...], list[dict[str, str]]]:
    """The tables of the workload by their columns."""
    found = {name: rows for name, rows in published(bundle(folder)).items() if name.startswith("crosstabs")}
    return {tuple(name for name in rows[0] if name in ATTRIBUTES): rows for rows in found.values()}


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("name", NAMES)
def test_a_release_verifies_and_is_published_again_byte_by_byte(base: Path, name: str) -> None:
    folder = released(base, name)
    before = {path: path.read_bytes() for path in bundle(folder).rglob("*") if path.is_file()}
    assert "FAIL" not in command(folder, "verify", str(bundle(folder)))
    command(folder, "publish", "census/2030")
    assert {path: path.read_bytes() for path in bundle(folder).rglob("*") if path.is_file()} == before


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("name", NAMES)
def test_tables_agree_and_have_no_row_for_what_is_impossible(base: Path, name: str) -> None:
    tables = tables_of(released(base, name))
    assert len(tables) == (7 if name == "pairs" else 8)
    for by, rows in tables.items():
        keys = [tuple(row[key] for key in by) for row in rows]
        every = list(product(*({"sex": "12", "race": "123", "band": BANDS}[key] for key in by)))
        assert keys == [each for each in every if not impossible(by, each)]
    for coarse, fine in combinations(sorted(tables, key=len), 2):
        if set(coarse) <= set(fine):
            sums: dict[tuple[str, ...], float] = defaultdict(float)
            for row in tables[fine]:
                sums[tuple(row[key] for key in coarse)] += float(row["count"])
            for row in tables[coarse]:
                assert abs(sums[tuple(row[key] for key in coarse)] - float(row["count"])) < 1e-7


BANDS = ("[0,18)", "[18,65)", "[65,100)")


def impossible(by: Sequence[str], keys: Sequence[str]) -> bool:
    row = dict(zip(by, keys, strict=True))
    return (row.get("race"), row.get("band")) in NEVER


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pairs", "whole", "exact"])
def test_rows_with_an_impossible_combination_count_nowhere_and_numbers_are_as_near_as_they_say(
    base: Path, name: str
) -> None:
    """A good fifth of the rows of this project have one; every table is near the truth without them."""
    folder = released(base, name)
    cells = truth_of(folder, ATTRIBUTES, ATTRIBUTES)
    gone = sum(number for keys, number in cells.items() if impossible(ATTRIBUTES, keys))
    assert gone > 300
    limit = float(stats.norm.isf(1e-9 / 2 / 50))
    for by, rows in tables_of(folder).items():
        for row in rows:
            here = [row[key] for key in by]
            true = sum(
                number
                for keys, number in cells.items()
                if [keys[ATTRIBUTES.index(key)] for key in by] == here and not impossible(ATTRIBUTES, keys)
            )
            moved = 5 if name == "whole" else 1e-6
            error = float(row["count_unadjusted_se" if "count_unadjusted_se" in row else "count_se"])
            assert abs(float(row["count"]) - true) <= limit * error + moved
    exact = [float(row["persons"]) for row in published(bundle(folder)).get("by_race", [])]
    if exact:
        assert exact == [
            sum(number for keys, number in cells.items() if keys[1] == race and not impossible(ATTRIBUTES, keys))
            for race in "123"
        ]
        assert [float(row["count"]) for row in tables_of(folder)["race",]] == exact


@pytest.mark.slow
def test_the_plan_shows_what_they_are_worth_and_the_report_that_they_are_public(base: Path) -> None:
    folder = released(base, "pairs")
    told = json.loads(command(folder, "plan", "spec.yaml", "--json"))
    worth = {each["name"]: float(each["noise"]) for each in told["considered"]}
    assert worth["crosstabs: without its structural zeros"] > 1.02
    assert "without its structural zeros" in command(folder, "plan", "spec.yaml")
    facts = json.loads((bundle(folder) / "accounting.json").read_text(encoding="utf-8"))
    (said,) = [each for each in facts["not_protected"] if "declared impossible" in each]
    assert "race and band" in said
    assert "reference never" in said
    assert "no noise protects it" in said
    assert any("counts in none of its tables" in each for each in facts["post_processing"])
    page = (bundle(folder) / "pages" / "crosstabs__sex.html").read_text(encoding="utf-8")
    assert "are declared impossible" in page
    assert "declared impossible" in (bundle(folder) / "accounting.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_stranger_makes_the_tables_again_from_the_recipe(base: Path) -> None:
    """By dense least squares over the tables that fit, with nothing of this package."""
    folder = released(base, "pairs")
    recipe = json.loads((bundle(folder) / "measurements" / "recipe.json").read_text(encoding="utf-8"))
    (told,) = recipe["workloads"]
    sizes = {each["column"]: each["keys"] for each in told["attributes"]}
    rows, values = [], []
    for draw in told["draws"]:
        with (bundle(folder) / "measurements" / f"{draw['step']}.csv").open(encoding="utf-8", newline="") as file:
            noisy = np.array([float(line["value"]) for line in csv.DictReader(file)]) / draw["divisor"]
        own = {name: sizes[name] for name in draw["attributes"]}
        turned = kron([np.eye(n) - (1 / n if draw["holds"] == "residual" else 0) for n in own.values()])
        scale = float(draw["variance"]) ** -0.5
        rows.append(scale * turned @ summing(sizes, draw["attributes"]))
        values.append(scale * turned @ noisy)
    zeros = told["zeros"]
    keys = {"race": ["1", "2", "3"], "band": list(BANDS)}
    assert zeros["attributes"] == ["race", "band"]
    listed = [
        [keys[name].index(str(key)) for name, key in zip(keys, each, strict=True)] for each in zeros["combinations"]
    ]
    shape = [sizes[name] for name in zeros["attributes"]]
    basis = null_space(summing(sizes, zeros["attributes"])[[int(np.ravel_multi_index(each, shape)) for each in listed]])
    stacked = np.vstack(rows) @ basis
    found = basis @ np.linalg.pinv(stacked, rcond=1e-10) @ np.concatenate(values)
    for by, lines in tables_of(folder).items():
        table = summing(sizes, by) @ found
        inside = list(np.ndindex(*(sizes[name] for name in by)))
        shown = [
            table[int(np.ravel_multi_index(each, [sizes[name] for name in by]))] if by else table[0]
            for each in inside
            if not impossible(
                by, [{"sex": "12", "race": "123", "band": BANDS}[k][at] for k, at in zip(by, each, strict=True)]
            )
        ]
        assert [float(line["count"]) for line in lines] == pytest.approx(shown, abs=1e-6)


def kron(parts: Sequence[Floats]) -> Floats:
    found: Floats = np.ones((1, 1))
    for each in parts:
        found = np.asarray(np.kron(found, each), dtype=np.float64)
    return found


def summing(sizes: dict[str, int], by: Sequence[str]) -> Floats:
    return kron([np.eye(n) if name in by else np.ones((1, n)) for name, n in sizes.items()])


@pytest.mark.slow
@pytest.mark.parametrize("cells", [[0, 2], [0, 2, 4], [0, 2, 5, 6], []])
def test_a_list_that_was_changed_afterwards_is_refused(base: Path, tmp_path: Path, cells: list[int]) -> None:
    """In the plan of a bundle another list leaves other rows and other numbers."""
    folder = released(base, "pairs")
    copy = tmp_path / "bundle"
    for path in bundle(folder).rglob("*"):
        if path.is_file():
            to = copy / path.relative_to(bundle(folder))
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())
    plan: dict[str, Any] = json.loads((copy / "plan.json").read_text(encoding="utf-8"))
    inner = plan.get("plan", plan)
    assert inner["catalog"]["zeros"]["crosstabs"]["cells"] == [0, 2, 5]
    inner["catalog"]["zeros"]["crosstabs"]["cells"] = cells
    (copy / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    said = command(folder, "verify", str(copy), code=7)
    assert "FAIL" in said


@pytest.mark.slow
def test_another_list_after_the_release_is_another_plan(base: Path, tmp_path: Path) -> None:
    one = json.loads(command(released(base, "pairs"), "plan", "spec.yaml", "--json"))
    folder = project(tmp_path, SPECS["pairs"], FILE.replace('"[65,100)",as is known,2\n', ""))
    two = json.loads(command(folder, "plan", "spec.yaml", "--json"))
    errors = [{each["query"]: each["standard_error"] for each in told["outputs"]} for told in (one, two)]
    assert errors[0].keys() == errors[1].keys()
    assert float(errors[0]["crosstabs__race__band"]) < float(errors[1]["crosstabs__race__band"])
