"""Totals from a spec to a bundle that verifies: they add up in every format, and a stranger works them out again."""

from __future__ import annotations

import csv
import json
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow.parquet as parquet
import pytest

from tests.project import check_published_again, command, one_table

SPEC = """dprelease: 1
release: {name: totals, period: 2024, title: Totals, curator: Example Office}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      area: {type: text, keys: [n, s, w]}
      sex: {type: integer, keys: [1, 2], labels: {1: Female, 2: Male}}
      year: {type: integer, keys: {from: 1, to: 12}}
      pay: {type: integer, range: [0, 1000]}
queries:
  people:
    title: People and pay
    table: people
    by: [area, sex, year]
    totals: [[], [area], [area, sex]]
    measures:
      n: {count: rows}
      rich: {count: rows, where: "pay > 500"}
      share: {ratio: [rich, n]}
      paid: {sum: pay, clip: [0, 1000]}
      mean: {mean: pay, clip: [0, 1000]}
derive:
  areas: {sql: "select area, n, mean from people where sex = '_total' and year = '_total'"}
publish: {formats: [csv, parquet, xlsx, html, json, sdmx]}
"""
KEYS = {"area": ["n", "s", "w"], "sex": ["1", "2"], "year": [str(year) for year in range(1, 13)]}
LISTS: list[tuple[str, ...]] = [("area", "sex", "year"), ("area", "sex"), ("area",), ()]
ADDED = ("n", "rich", "paid")
Numbers = dict[tuple[str, ...], dict[str, float]]


def people() -> list[tuple[object, ...]]:
    """Some have no area, and some are of a year that is no key: they are in no cell, and so in no total."""
    return [("nsw"[k % 3] if k % 40 else None, 1 + k % 2, 1 + k * 5 % 13, k * 7 % 1000) for k in range(6000)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a project in which the spec was released."""
    made = one_table(tmp_path_factory.mktemp("totals"), SPEC, "area,sex,year,pay", people())
    command(made, "run", "spec.yaml", "--direct")
    return made


def bundle(folder: Path) -> Path:
    return folder / "releases" / "totals" / "2024"


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    with (bundle(folder) / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def published(folder: Path) -> Numbers:
    """What the CSV file has, by key."""
    found = {}
    for row in rows_of(folder, "tables/people.csv"):
        numbers = {name: float(value) for name, value in row.items() if name not in KEYS and "status" not in name}
        found[tuple(row[name] for name in KEYS)] = numbers
    return found


def test_a_release_verifies_and_is_published_again_byte_by_byte(folder: Path) -> None:
    assert "FAIL" not in command(folder, "verify", str(bundle(folder)))
    check_published_again(folder, bundle(folder))


def test_every_cell_and_every_total_is_there_once_in_public_order(folder: Path) -> None:
    wanted = {key for by in LISTS for key in product(*(KEYS[name] if name in by else ["_total"] for name in KEYS))}

    found = list(published(folder))

    assert len(found) == len(wanted) == 72 + 6 + 3 + 1
    assert set(found) == wanted
    places = {name: {key: at for at, key in enumerate([*keys, "_total"])} for name, keys in KEYS.items()}
    assert found == sorted(found, key=lambda key: [places[name][part] for name, part in zip(KEYS, key, strict=True)])


def test_totals_are_the_sums_of_their_cells(folder: Path) -> None:
    found, checked = published(folder), 0
    for key, numbers in found.items():
        below = [
            cell
            for other, cell in found.items()
            if "_total" not in other and all(one in ("_total", two) for one, two in zip(key, other, strict=True))
        ]
        for name in ADDED if "_total" in key else ():
            assert numbers[name] == pytest.approx(sum(cell[name] for cell in below), rel=1e-12, abs=1e-9)
            checked += 1
        assert numbers["share"] == pytest.approx(min(1.0, max(0.0, numbers["rich"] / numbers["n"])), rel=1e-12)
    assert checked == 3 * 10


def test_the_truth_is_within_five_margins_everywhere(folder: Path) -> None:
    known = [(a, str(s), str(y), int(str(p))) for a, s, y, p in people() if a is not None and str(y) in KEYS["year"]]
    for key, numbers in published(folder).items():
        inside = [row for row in known if all(one in ("_total", two) for one, two in zip(key, row, strict=False))]
        true = {
            "n": len(inside),
            "rich": sum(row[3] > 500 for row in inside),
            "paid": sum(row[3] for row in inside),
            "mean": sum(row[3] for row in inside) / len(inside),
        }
        for name, value in true.items():
            assert abs(numbers[name] - value) <= 5 * numbers[f"{name}_margin"], (key, name)


def test_every_format_has_the_same_numbers(folder: Path) -> None:
    found, tables = published(folder), bundle(folder) / "tables"
    names = [*next(iter(found.values()))]
    stored = parquet.read_table(tables / "people.parquet").to_pylist()
    assert [tuple(str(row[name]) for name in KEYS) for row in stored] == list(found)
    assert all(row[name] == found[tuple(str(row[each]) for each in KEYS)][name] for row in stored for name in names)

    cube = json.loads((tables / "people.json").read_text(encoding="utf-8"))
    index = [cube["dimension"][name]["category"]["index"] for name in cube["id"]]
    flat = np.full(prod(cube["size"]), np.nan)
    for place, number in cube["value"].items():  # cells that are no row are left out
        flat[int(place)] = number
    values = flat.reshape(cube["size"])
    for key, numbers in found.items():
        at = tuple(index[place].index(part) for place, part in enumerate(key))
        for name in ADDED:
            assert values[at][0][index[4].index(name)] == numbers[name]
    assert np.isfinite(values[..., index[4].index("n")]).sum() == len(found)

    lines = rows_of(folder, "tables/people.sdmx.csv")
    for line in lines:
        key = tuple("_total" if line[name.upper()] == "_T" else line[name.upper()] for name in KEYS)
        assert float(line["OBS_VALUE"]) == found[key][line["MEASURE"]]
    assert {line["YEAR"] for line in lines} == {*KEYS["year"], "_T"}

    book = openpyxl.load_workbook(tables / "workbook.xlsx", read_only=True)
    cells = [[cell for cell in row if cell is not None] for sheet in book for row in sheet.iter_rows(values_only=True)]
    totals = [row for row in cells if sum(str(cell) == "_total" for cell in row) == 3]
    assert totals
    assert found["_total", "_total", "_total"]["n"] in totals[0]

    page = (bundle(folder) / "index.html").read_text(encoding="utf-8")
    assert page.count("Total") >= 3 + 2 * 3 + 6
    assert f"{found['_total', '_total', '_total']['n']:,.1f}" in page


def test_a_stranger_works_the_totals_out_by_dense_least_squares(folder: Path) -> None:
    """Not as the recipe says, but by normal equations over all cells, with the variances that it gives."""
    recipe = json.loads((bundle(folder) / "measurements" / "recipe.json").read_text(encoding="utf-8"))
    (how,), files = recipe["totals"], {step["step"]: step for step in recipe["steps"]}
    cells, found = list(product(*KEYS.values())), published(folder)
    names = list(KEYS)

    def table_of(by: list[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
        rows = list(product(*(KEYS[name] for name in by)))
        chosen = [[cell[names.index(name)] for name in by] for cell in cells]
        return np.array([[float(list(row) == part) for part in chosen] for row in rows])

    estimates: dict[str, list[Any]] = {}
    for measure in how["measures"]:
        for number in measure["numbers"]:
            left, right = np.zeros((len(cells),) * 2), np.zeros(len(cells))
            for draw in number:
                step, matrix = files[draw["step"]], table_of(draw["by"])
                values = [float(row[step["columns"][-1]]) for row in rows_of(folder, step["file"])]
                assert len(values) == prod(len(KEYS[name]) for name in draw["by"])
                left += matrix.T @ matrix / float(draw["variance"])
                right += matrix.T @ np.array(values) / float(draw["variance"])
            estimates.setdefault(measure["measure"], []).append(np.linalg.solve(left, right))
    assert {len(number) for measure in how["measures"] for number in measure["numbers"]} == {4}
    for measure, by in product(how["measures"], LISTS):
        sums = [table_of(list(by)) @ each for each in estimates[measure["measure"]]]
        for at, row in enumerate(product(*(KEYS[each] for each in by))):
            key = tuple(row[by.index(each)] if each in by else "_total" for each in names)
            numbers = {f"x{place}": float(each[at]) for place, each in enumerate(sums, start=1)}
            value = eval(measure["formula"], {"clip": lambda x, a, b: min(max(x, a), b)}, numbers)
            assert found[key][measure["measure"]] == pytest.approx(value, rel=1e-9, abs=1e-6), (key, measure)


def test_a_derived_table_of_totals_has_margins_of_its_own(folder: Path) -> None:
    rows, found = rows_of(folder, "tables/areas.csv"), published(folder)

    assert [row["area"] for row in rows] == ["n", "s", "w", "_total"]
    for row in rows:
        total = found[row["area"], "_total", "_total"]
        assert float(row["n"]) == pytest.approx(total["n"])
        assert float(row["n_margin"]) == pytest.approx(total["n_margin"], rel=0.2)  # by 1,000 replicates
