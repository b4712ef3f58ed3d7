"""Counts of a look at the data equal those of a plain reading, row by row; nobody looks without a word and a terminal."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.engines.look import row_counts
from dprelease.errors import DpReleaseError, EngineError, SpecError
from dprelease.release.tuning.look import LookLine, TableLook, look_at
from tests.project import CANARY, POLICY, SETTINGS, small_project
from tests.project import SPEC as SMALL
from tests.statistical_files import packed_as, write_statistical

SPEC = """
dprelease: 1
release: {name: visits, period: 2024, title: Visits}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
references:
  places: {file: places.csv, columns: {district: text, region: text}}
tables:
  visits:
    account: people
    unit_id: person
    source: {file: "visits-*.FORMAT", null_values: ["", N]}
    time: {column: day, type: date}
    bounds: {max_rows: 4}
    join: [{reference: places, on: district, add: [region]}]
    columns:
      district: {type: text, keys: {reference: places}}
      region: {type: text, keys: {reference: places}}
      age: {type: integer, range: [0, 99]}
      paid: {type: decimal, range: [-10, 50], step: 0.5, outside: null}
      band: {bin: age, edges: [10, 30, 60]}
      twice: {sql: "paid * 2", type: decimal, range: [0, 60]}
queries:
  totals:
    table: visits
    where: "age >= 5"
    by: [region]
    bounds: {max_groups: 1, max_rows_per_group: 2}
    measures:
      visits: {count: rows}
      paid: {sum: paid, clip: [0, 20], clip_per: row}
      average: {mean: paid, clip: [0, 20], clip_per: row}
      each: {sum: age, clip: [0, 60], clip_per: unit_cell}
      some: {sum: age, clip: [20, 30], clip_per: row, where: "district = '06-01'"}
"""
PLACES = {"06-01": "06", "06-02": "06", "07-01": "07"}


def rows_of(count: int, seed: int) -> list[dict[str, str]]:
    """Rows with every kind of odd value."""
    chosen = random.Random(seed)
    return [
        {
            "person": chosen.choice(["", *(f"p{k}" for k in range(60))]),
            "day": chosen.choice(["2024-03-07", "2024-12-31", "2023-12-31", "2025-01-01", "07.03.2024", "", "N"]),
            "district": chosen.choice([*PLACES, "99-99", "06-01 ", "", "N"]),
            "age": chosen.choice(["", " N ", "abc", "12,5", "-1", "0", "4", "15", "33", "100", "9" * 30, "59.0"]),
            "paid": chosen.choice(
                ["", "N", "x", "1.234,5", "1e400", "-10.5", "-3", "0", "7.26", "20.2", "20.3", "50.1"]
            ),
        }
        for _ in range(count)
    ]


def number(text: str, low: float, high: float) -> tuple[str, float | None]:
    """What becomes of a number: (null | unreadable | outside | inside, its value)."""
    if text.strip() in ("", "N"):
        return "null", None
    try:
        value = float(text)
    except ValueError:
        return "unreadable", None
    if value == float("inf"):
        return "unreadable", None
    return ("inside" if low <= value <= high else "outside"), value


def truth(rows: list[dict[str, str]]) -> dict[tuple[str, str], tuple[int, int]]:
    """By (place, what): how many, and among how many."""
    found: Counter[tuple[str, str]] = Counter()
    held: Counter[tuple[str, str]] = Counter()

    def add(place: str, what: str, odd: bool, number: int = 1) -> None:
        held[place, what] += number
        found[place, what] += number * odd

    persons: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    sums: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        real = row["day"] in ("2024-03-07", "2024-12-31")
        add("", "out_of_period", not real)
        add("day", "null", row["day"] in ("", "N"))
        add("day", "unreadable", row["day"] == "07.03.2024")
        if not real:
            continue
        add("", "no_unit_id", not row["person"])
        add("person", "null", not row["person"])
        add("person", "unreadable", False)
        district = row["district"] if row["district"] not in ("", "N") else None
        add("district", "null", district is None)
        add("district", "unreadable", False)
        add("district", "not_listed", district is not None and district not in PLACES)
        told, age = number(row["age"], 0, 99)
        clamped = None if age is None else min(max(int(age), 0), 99)
        add("age", "null", told == "null")
        add("age", "unreadable", told == "unreadable")
        add("age", "outside", told == "outside")
        told, paid = number(row["paid"], -10, 50)
        paid = paid if told == "inside" else None
        add("paid", "null", told == "null")
        add("paid", "unreadable", told == "unreadable")
        add("paid", "outside", told == "outside")
        if not row["person"]:
            continue  # dropped before anything is joined
        persons[row["person"]] += 1
        region = PLACES.get(district or "")
        add("region", "null", region is None)
        add("region", "not_listed", False)
        add("band", "null", clamped is None or not 10 <= clamped < 60)
        add("band", "not_listed", False)
        add("twice", "null", paid is None)
        add("twice", "outside", paid is not None and not 0 <= paid * 2 <= 60)
        if clamped is None or clamped < 5:
            continue
        add("totals", "no_cell", region is None)
        if region is None:
            continue
        pairs[row["person"], region] += 1
        sums.setdefault((row["person"], region), []).append(clamped)
        if paid is not None:
            half = round(abs(paid) * 2 + 1e-9) * (1 if paid > 0 else -1)  # halves of the grid go away from zero
            add("totals", "clipped of paid", not 0 <= half <= 40)
            add("totals", "clipped of average", not 0 <= half <= 40)
        if district == "06-01":
            add("totals", "clipped of some", not 20 <= clamped <= 30)
    for held_by in persons.values():
        add("", "truncated", False, min(held_by, 4))
        add("", "truncated", True, max(held_by - 4, 0))
    for held_by in pairs.values():
        add("totals", "rows_in_groups", False, min(held_by, 2))
        add("totals", "rows_in_groups", True, max(held_by - 2, 0))
        add("totals", "groups", False)
    found["totals", "groups"] = sum(max(each - 1, 0) for each in Counter(person for person, _ in pairs).values())
    for ages in sums.values():
        add("totals", "clipped of each", not 0 <= sum(ages) <= 60)
    return {key: (found[key], held[key]) for key in held}


def told(found: TableLook) -> dict[tuple[str, str], tuple[int, int]]:
    def of(place: str, lines: tuple[LookLine, ...]) -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
        for line in lines:
            yield (place, f"clipped of {line.of}" if line.what == "clipped" else line.what), (line.count, line.whole)

    parts = [of("", found.rows), *(of(name, lines) for name, lines in found.columns.items())]
    parts += [of(name, lines) for name, lines in found.queries.items()]
    return dict(pair for part in parts for pair in part)


def project(folder: Path, form: str = "csv", spec: str = SPEC) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dprelease.yaml").write_text(SETTINGS)
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "places.csv").write_text("district,region\n" + "".join(f"{k},{v}\n" for k, v in PLACES.items()))
    (folder / "spec.yaml").write_text(spec.replace("FORMAT", form))
    return folder / "spec.yaml"


def seen(spec: Path, **more: Any) -> tuple[TableLook, ...]:
    return look_at(spec, allowed=True, is_terminal=True, **more)


def write(folder: Path, form: str, at: int, rows: list[dict[str, str]]) -> None:
    if form == "parquet":
        pq.write_table(
            pa.table({name: [row[name] for row in rows] for name in rows[0]}), folder / f"visits-{at}.parquet"
        )
        return
    if form == "dta":
        write_statistical(folder / f"visits-{at}.dta", {name: [row[name] for row in rows] for name in rows[0]})
        return
    lines = [",".join(rows[0]), *(",".join(f'"{each}"' for each in row.values()) for row in rows)]
    (folder / f"visits-{at}.{form}").write_bytes(packed_as(("\n".join(lines) + "\n").encode(), form))


@pytest.mark.parametrize(("form", "files"), [("csv", 12), ("parquet", 12), ("csv.gz", 12), ("dta", 3)])
def test_every_count_is_that_of_a_plain_reading(tmp_path: Path, form: str, files: int) -> None:
    """Several files: blocks are added up, and sums per unit more than once put together."""
    spec = project(tmp_path, form)
    every = []
    for at in range(files):
        rows = rows_of(150, at)
        every += rows
        write(tmp_path, form, at, rows)
    (found,) = seen(spec)
    expected = truth(every)
    counts = told(found)
    assert counts.pop(("", "rows")) == (150 * files, 150 * files)
    assert counts.pop(("", "unparsed"), (0, 150 * files)) == (0, 150 * files)
    assert found.files == files
    assert counts == expected
    none = {("person", "unreadable"), ("district", "unreadable"), ("region", "not_listed"), ("band", "not_listed")}
    assert {
        key for key, (count, _) in expected.items() if not count
    } == none or files < 12  # fewer rows have fewer faults


def test_lines_that_are_no_rows_are_counted_and_null_in_every_column(tmp_path: Path) -> None:
    spec = small_project(tmp_path, rows=40)
    with (tmp_path / "people-1.csv").open("a") as file:
        file.write('06-01,1\n06-01,1,2,3\n"06-01,1,5\n\n')
    (found,) = seen(spec)
    counts = told(found)
    assert counts["", "rows"] == (44, 44)
    assert counts["", "unparsed"] == (3, 44)
    assert counts["sex", "null"] == (3, 44)


def test_stored_numbers_and_moments_of_a_parquet_file(tmp_path: Path) -> None:
    """NaN is what pandas writes for a missing value; a word is nothing that a number could be."""
    text = SPEC.replace("by: [region]", "by: [band]").replace("age >= 5", "age >= 0")
    spec = project(tmp_path, "parquet", text)
    days = pa.array([19789, 19789, 19789, None, 19000], pa.int32()).cast(pa.date32())
    columns = {
        "person": pa.array(["a", "b", "c", "d", "e"]),
        "day": days,
        "district": pa.array(["06-01", "N", None, "x", "06-01"]).dictionary_encode(),
        "age": pa.array(["one", "two", None, "3", "4"]),
        "paid": pa.array([float("nan"), float("inf"), 7.0, 1.0, 1.0]),
    }
    pq.write_table(pa.table(columns), tmp_path / "visits-1.parquet")
    counts = told(seen(spec)[0])
    assert counts["", "out_of_period"] == (2, 5)
    assert counts["day", "null"] == (1, 5)
    assert counts["district", "null"] == (2, 3)
    assert counts["age", "unreadable"] == (2, 3)
    assert counts["age", "null"] == (1, 3)
    assert counts["paid", "null"] == (1, 3)
    assert counts["paid", "unreadable"] == (1, 3)


def test_a_stored_number_that_is_listed_as_null_is_null(tmp_path: Path) -> None:
    spec = project(tmp_path, "parquet", SPEC.replace('["", N]', '["", 99, 7.5, 2024-03-08]'))
    columns = {
        "person": pa.array([1, 2, 3]),
        "day": pa.array([19789, 19789, 19790], pa.int32()).cast(pa.date32()),
        "district": pa.array(["06-01"] * 3),
        "age": pa.array([99, 100, 5]),
        "paid": pa.array([7.5, 7.5, 1.0]),
    }
    pq.write_table(pa.table(columns), tmp_path / "visits-1.parquet")
    counts = told(seen(spec)[0])
    assert counts["day", "null"] == (1, 3)
    assert counts["age", "null"] == (1, 2)
    assert counts["age", "outside"] == (1, 2)
    assert counts["paid", "null"] == (2, 2)


def test_an_empty_file_gives_counts_of_nothing(tmp_path: Path) -> None:
    spec = project(tmp_path)
    (tmp_path / "visits-1.csv").write_text("person,day,district,age,paid\n")
    (found,) = seen(spec)
    assert set(told(found).values()) == {(0, 0)}
    assert [line.what for line in found.rows if line.is_odd] == ["rows"]


def test_private_keys_quantiles_and_a_workload_are_named_as_in_the_spec(tmp_path: Path) -> None:
    """A quantile has several published numbers, a workload several tables; each is one name of the spec."""
    text = """
  all: {table: people, marginals: {of: [district, sex], ways: [0, 1, 2]}}
  middle: {table: people, by: [sex], measures: {m: {quantiles: income, at: [0.25, 0.5], clip: [10000, 50000]}}}
  chosen: {table: people, by: [district], keys: private, measures: {n: {count: rows}}}
  most: {table: people, top_k: district, k: 2}
"""
    spec = small_project(tmp_path, SMALL + text, rows=400)
    policy = POLICY.replace("delta: 1e-8}}", "delta: 1e-8, selecting: 5e-9}}")
    (tmp_path / "policy.yaml").write_text(policy)
    expect = tmp_path / "expect.yaml"
    expect.write_text("expect_data: 1\nqueries: {middle: {clipped: {m: {at_most: 0}}}, all: {no_cell: {at_most: 0}}}")
    (found,) = seen(spec, expect=expect)
    assert set(found.queries) == {"population", "income", "all", "middle", "chosen", "most"}
    counts = told(found)
    # 400 rows: a fourth is of no listed district; every eleventh has no income; the rest are 0 to 89 thousand
    assert counts["all", "no_cell"] == (100, 401)
    assert counts["chosen", "no_cell"] == (100, 401)
    assert counts["most", "no_cell"] == (100, 401)
    incomes = [1000 * (k % 90) for k in range(400) if k % 11] + [CANARY]
    beyond = sum(not 10_000 <= each <= 50_000 for each in incomes)
    assert counts["middle", "clipped of m"] == (beyond, len(incomes))
    odd = {line.of or name for name, lines in found.queries.items() for line in lines if line.is_odd}
    assert odd == {"m", "all", "population", "income", "chosen", "most"}


def test_nothing_is_read_without_a_word_and_a_terminal(tmp_path: Path) -> None:
    nowhere = tmp_path / "there-is-none.yaml"
    with pytest.raises(SpecError) as caught:
        look_at(nowhere, allowed=False, is_terminal=True)
    assert caught.value.code == "DPR-S020"
    assert "--i-can-see-the-data" in caught.value.hint
    with pytest.raises(SpecError) as caught:
        look_at(nowhere, allowed=True, is_terminal=False)
    assert caught.value.code == "DPR-S022"
    with pytest.raises(SpecError) as caught:
        look_at(nowhere, allowed=True, is_terminal=True)
    assert caught.value.code == "DPR-S001"


def test_a_driver_that_fails_is_told_by_its_class_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = small_project(tmp_path, rows=40)

    def fails(*_: Any, **__: Any) -> None:
        raise ValueError(f"could not convert {CANARY}")

    monkeypatch.setattr(row_counts, "publicly_joined", fails)
    with pytest.raises(EngineError) as caught:
        seen(spec)
    error: DpReleaseError | BaseException | None = caught.value
    assert "ValueError" in str(error)
    assert str(CANARY) not in str(error)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
