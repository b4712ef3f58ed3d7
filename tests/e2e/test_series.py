"""A series over months as a user has it: released one by one, checked, made again, and refused where it must be."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from tests.project import command, one_table
from tests.unit.series_example import POLICY, SERIES, swapped

pytestmark = pytest.mark.slow

MONTHS = ("2024-01", "2024-02", "2024-03", "2024-04")
SPEC = swapped((SERIES, "series: {from: 2024-01, sums: [2, 6, ytd], look_back: 3}"), ("epsilon: 1/2", "epsilon: 2"))
SPEC += """\
  waits:
    table: visits
    by: [sex]
    measures: {late: {count: rows, where: 'hours > 3'}, rows: {count: rows}, wait: {mean: hours, clip: [0, 10]},
      share: {ratio: [late, rows], show: percent}}
    series: {from: 2024-01, sums: [2, ytd], look_back: 3}
"""
SPEC += """\
derive:
  before: {sql: "select sex, visits_ytd - visits as earlier, wait_ytd from visits join waits using (sex)"}
"""
SPEC += "publish: {formats: [csv, parquet, html, json], certificate: false}\n"


def _rows() -> list[tuple[object, ...]]:
    chance = random.Random(4)
    return [
        (f"{month}-{chance.randint(1, 28):02d}", chance.choice("fm"), chance.randint(-9, 30))
        for at, month in enumerate((*MONTHS, "2024-05"))
        for _ in range(200 + 50 * at)
    ]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of which four months were released."""
    made = one_table(tmp_path_factory.mktemp("series"), SPEC, "day,sex,hours", _rows(), POLICY)
    for period in MONTHS:
        command(made, "run", "spec.yaml", "--direct", "--period", period)
    return made


@pytest.fixture
def folder(released: Path) -> Iterator[Path]:
    """The same project, whose spec, data and bundles are put back afterwards: a ledger knows where it is."""
    kept = {path: path.read_bytes() for path in released.rglob("*") if path.is_file() and "state" not in path.parts[-2]}
    yield released
    for path, data in kept.items():
        if path.read_bytes() != data:
            path.write_bytes(data)


def _table(folder: Path, period: str, name: str = "visits") -> list[dict[str, str]]:
    with (folder / "releases" / "visits" / period / "tables" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_sums_agree_with_their_months_to_the_last_digit(released: Path) -> None:
    months = [_table(released, period) for period in MONTHS]

    for at, rows in enumerate(months):
        for cell, row in enumerate(rows):
            own = [Decimal(months[each][cell]["visits"]) for each in range(at + 1)]
            assert Decimal(row["visits_ytd"]) == sum(own)
            assert row["visits_last_6"] == ""
            assert row["visits_last_6_status"] == "blank"
            if at:
                assert Decimal(row["visits_last_2"]) == sum(own[-2:])
            assert float(row["visits_ytd_margin"]) < 2 * float(row["visits_margin"]) * len(own) ** 0.5


def test_numbers_are_near_the_truth(released: Path) -> None:
    """Within six standard errors, of which chance exceeds one in 10^8."""
    rows = _rows()
    for period in MONTHS:
        for row in _table(released, period):
            true = {
                "visits": sum(str(day).startswith(period) and sex == row["sex"] for day, sex, _ in rows),
                "visits_ytd": sum(str(day)[:7] <= period and sex == row["sex"] for day, sex, _ in rows),
            }
            for name, count in true.items():
                assert abs(float(row[name]) - count) < 6 * float(row[f"{name}_se"])


def test_a_stranger_works_every_number_out_by_the_recipe(released: Path) -> None:
    bundle = released / "releases" / "visits" / MONTHS[-1]
    told, _ = json.loads((bundle / "measurements" / "recipe.json").read_text(encoding="utf-8"))["series"]
    earlier = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((bundle / "earlier").iterdir())]
    draws = {each["period"]: each["measurements"]["visits.visits"] for each in earlier}
    recipe = json.loads((bundle / "measurements" / "recipe.json").read_text(encoding="utf-8"))
    step = recipe["steps"][0]
    with (bundle / step["file"]).open(encoding="utf-8") as file:
        draws[MONTHS[-1]] = [int(row["value"]) for row in csv.DictReader(file)]
    assert tuple(told["periods"]) == MONTHS

    first, *others = told["band"]
    for cell, row in enumerate(_table(released, MONTHS[-1])):
        exact: list[int] = []
        for period in told["periods"]:
            left = draws[period][cell] * 2**40
            for each, before in zip(others, reversed(exact), strict=False):
                left -= each * before
            exact.append(left // first)
        parts = [(each * 1000 + 2**39) // 2**40 for each in exact]
        assert Fraction(row["visits"]) == Fraction(parts[-1], 1000)
        for each in told["sums"]:
            wanted = "" if each["count"] is None else str(float(Fraction(sum(parts[-each["count"] :]), 1000)))
            assert row[each["number"]] == wanted or float(row[each["number"]]) == float(wanted)


def test_a_stranger_works_means_and_ratios_out_by_the_recipe(released: Path) -> None:
    bundle = released / "releases" / "visits" / MONTHS[-1]
    recipe = json.loads((bundle / "measurements" / "recipe.json").read_text(encoding="utf-8"))
    _, told = recipe["series"]
    files = {each["step"]: each for each in recipe["steps"]}
    earlier = {path: json.loads(path.read_text(encoding="utf-8")) for path in sorted((bundle / "earlier").iterdir())}
    with (bundle / "tables" / "waits.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for made in told["made"]:
        parts = []
        for step in made["inputs"]:
            draws = {each["period"]: each["measurements"][step] for each in earlier.values()}
            with (bundle / files[step]["file"]).open(encoding="utf-8") as file:
                drawn = [row for row in csv.DictReader(file) if row.get("step", step) == step]
            draws[MONTHS[-1]] = [int(row["value"]) for row in drawn]
            parts.append(_periods(told["band"], [draws[period] for period in told["periods"]]))
        numbers = {
            made["measure"]: 1,
            **{each["number"]: each["count"] for each in told["sums"] if each["of"] == made["measure"]},
        }
        for name, count in numbers.items():
            for cell, row in enumerate(rows):
                terms = {f"x{at}": Fraction(sum(each[cell][-count:]), 1000) for at, each in enumerate(parts, start=1)}
                blank = any(eval(each, {}, terms) for each in made["blank"])
                value = "" if blank else eval(made["formula"], {"clip": lambda x, a, b: min(max(x, a), b)}, terms)
                assert row[name] == value == "" or float(row[name]) == pytest.approx(float(value))
                assert blank or float(row[f"{name}_lower"]) <= float(row[name]) <= float(row[f"{name}_upper"])


def test_tables_by_sql_and_diff_know_what_two_numbers_share(released: Path) -> None:
    with (released / "releases/visits" / MONTHS[-1] / "tables/before.csv").open(encoding="utf-8") as file:
        derived = list(csv.DictReader(file))
    for row, own in zip(derived, _table(released, MONTHS[-1]), strict=True):
        assert float(row["earlier"]) == pytest.approx(float(own["visits_ytd"]) - float(own["visits"]), abs=1e-6)
        assert float(row["earlier_se"]) < 0.8 * (float(own["visits_ytd_se"]) ** 2 + float(own["visits_se"]) ** 2) ** 0.5

    said = command(released, "diff", f"visits/{MONTHS[1]}", f"visits/{MONTHS[3]}", "--json", code=7)
    told, _ = json.JSONDecoder().raw_decode(said)
    assert {each["measure"] for each in told["changes"]} >= {"visits", "visits_ytd"}
    assert told["compared"] > 12


def _periods(band: list[int], draws: list[list[int]]) -> list[list[int]]:
    """By cell the parts of every period."""
    first, *others = band
    found = []
    for drawn in zip(*draws, strict=True):
        exact: list[int] = []
        for each in drawn:
            left = each * 2**40
            for number, before in zip(others, reversed(exact), strict=False):
                left -= number * before
            exact.append(left // first)
        found.append([(each * 1000 + 2**39) // 2**40 for each in exact])
    return found


def test_bundles_are_checked_alone_and_with_those_before_them(folder: Path) -> None:
    last, before = (f"releases/visits/{period}" for period in (MONTHS[-1], MONTHS[0]))

    assert "FAIL" not in command(folder, "verify", last)
    assert "FAIL" not in command(folder, "verify", last, "--earlier", before)
    assert "sound" in command(folder, "ledger", "check")
    files = {path: path.read_bytes() for path in (folder / last).rglob("*") if path.is_file()}
    command(folder, "publish", f"visits/{MONTHS[-1]}")
    command(folder, "run", "spec.yaml", "--direct", "--period", MONTHS[-1])
    assert files == {path: path.read_bytes() for path in (folder / last).rglob("*") if path.is_file()}


def test_each_month_is_charged_once_with_all_of_its_readings(released: Path) -> None:
    status = json.loads(command(released, "ledger", "status", "--json"))
    facts = [
        json.loads((released / "releases" / "visits" / each / "accounting.json").read_text(encoding="utf-8"))
        for each in MONTHS
    ]

    assert {each["loss"]["zcdp"]["epsilon"] for each in facts} == {facts[0]["loss"]["zcdp"]["epsilon"]}
    assert "visits" in json.dumps(status)
    for each in facts:
        (account,) = each["accounts"]
        assert account["before"]["epsilon"] in ("0", "0.0")


def test_all_months_are_one_page_and_one_file(released: Path) -> None:
    folder = released / "releases" / "visits" / "@periods"
    page = (folder / "visits.html").read_text(encoding="utf-8")
    with (folder / "visits.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    assert rows == [{"period": period, **row} for period in MONTHS for row in _table(released, period)]
    assert 'The periods share their noise since <bdi><span class="short">2024-01</span></bdi>' in page
    assert "visits since the beginning of the year" in page
    assert page.count("<polyline") == 2 * 3  # each sex by months, two months and since January; there are no six months


def _spent(folder: Path) -> str:
    return command(folder, "ledger", "log")


def test_months_are_released_in_order(folder: Path) -> None:
    said = command(folder, "run", "spec.yaml", "--direct", "--period", "2024-06", code=4)

    assert "DPR-L340" in said
    assert "2024-05 was not released" in said


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        ("look_back: 3", "look_back: 2", "the band"),
        ("epsilon: 2", "epsilon: 1", "the noise"),
        ("[f, m]", "[f]", "table"),
    ],
)
def test_a_month_by_other_terms_is_refused(folder: Path, old: str, new: str, differs: str) -> None:
    before, spec = _spent(folder), folder / "spec.yaml"
    spec.write_text(SPEC.replace(old, new), encoding="utf-8")

    said = command(folder, "run", "spec.yaml", "--direct", "--period", "2024-05", code=4)

    assert "DPR-L341" in said
    assert differs in said
    assert _spent(folder) == before


def test_a_new_series_may_begin_by_other_terms(folder: Path) -> None:
    text = SPEC.replace("look_back: 3", "look_back: 2").replace("from: 2024-01", "from: 2025-01")
    (folder / "spec.yaml").write_text(text, encoding="utf-8")

    command(folder, "run", "spec.yaml", "--direct", "--period", "2025-01")

    assert all(row["visits_last_2"] == "" for row in _table(folder, "2025-01"))


def test_a_month_is_not_replaced(folder: Path) -> None:
    (folder / "people.csv").write_text("day,sex,hours\n", encoding="utf-8")

    said = command(folder, "run", "spec.yaml", "--direct", "--period", MONTHS[0], "--restate", "wrong", code=4)

    assert "DPR-L331" in said


def test_a_bundle_whose_earlier_draws_were_changed_does_not_verify(folder: Path) -> None:
    path = folder / "releases" / "visits" / MONTHS[-1] / "earlier" / "1.json"
    text = path.read_text(encoding="utf-8")
    draws = json.loads(text)["measurements"]["visits.visits"]
    path.write_text(text.replace(str(draws[0]), str(draws[0] + 4096), 1), encoding="utf-8")

    assert "FAIL" in command(folder, "verify", str(path.parents[1]), code=7)


def test_a_rehearsal_is_made_without_what_came_before(folder: Path) -> None:
    assert "rehearsed" in command(folder, "run", "spec.yaml", "--direct", "--synthetic", "--period", "2024-05").lower()


def test_a_month_whose_rows_have_changed_stops_the_series_before_it_is_charged(folder: Path) -> None:
    before, data = _spent(folder), folder / "people.csv"
    text = data.read_text(encoding="utf-8")
    late = text + "2024-03-30,f,1\n"

    for changed in (late, text.replace("2024-04-01,", "2024-04-02,", 1).replace(",f,", ",m,", 1)):
        data.write_text(changed, encoding="utf-8")
        said = command(folder, "run", "spec.yaml", "--direct", "--period", "2024-05", code=4)
        assert "DPR-L342" in said
        assert "nothing was charged" in said
    assert _spent(folder) == before
    # Another order of the rows, and rows of a month that is not read again, change nothing.
    lines = text.splitlines()
    data.write_text(
        "\n".join([lines[0], *reversed(lines[1:]), "2024-01-09,f,3", "2024-09-09,f,3"]) + "\n", encoding="utf-8"
    )
    assert "published" in command(folder, "run", "spec.yaml", "--direct", "--period", "2024-05")


def test_a_skipped_month_and_one_that_is_replaced(tmp_path: Path) -> None:
    """One account with one sum: the month whose rows were lost is left out, and the newest is drawn and charged again."""
    rows = [(f"{month}-05", "fm"[at % 2], at % 9) for month in (MONTHS[0], *MONTHS[2:]) for at in range(300)]
    policy = POLICY.replace(
        " parallel: month, time: {column: day, type: date},\n     lifetime: {epsilon: 4", "\n     lifetime: {epsilon: 9"
    )
    spec = SPEC.replace("look_back: 3}", "look_back: 3, skip: [2024-02]}")
    folder = one_table(tmp_path, spec, "day,sex,hours", rows, policy)
    for period in (MONTHS[0], MONTHS[2], MONTHS[3]):
        command(folder, "run", "spec.yaml", "--direct", "--period", period)

    march, april = (_table(folder, period) for period in MONTHS[2:])
    for before, row in zip(march, april, strict=True):
        assert row["visits_ytd"] == row["visits_last_6"] == before["visits_last_2"] == ""
        assert row["visits_ytd_status"] == "blank"
        assert Decimal(row["visits_last_2"]) == Decimal(before["visits"]) + Decimal(row["visits"])
        assert abs(float(row["visits"]) - 150) < 6 * float(row["visits_se"])
    assert "FAIL" not in command(folder, "verify", f"releases/visits/{MONTHS[3]}")
    told = (folder / "releases/visits" / MONTHS[3] / "accounting.html").read_text(encoding="utf-8")
    assert "2024-02" in told

    source = folder / "people.csv"
    source.write_text(source.read_text(encoding="utf-8") + f"{MONTHS[3]}-09,f,3\n" * 400, encoding="utf-8")
    command(folder, "run", "spec.yaml", "--direct", "--period", MONTHS[3], "--restate", "late rows")
    again = _table(folder, MONTHS[3])
    assert abs(float(again[0]["visits"]) - 550) < 6 * float(again[0]["visits_se"])
    assert Decimal(again[1]["visits_last_2"]) == Decimal(march[1]["visits"]) + Decimal(again[1]["visits"])
    command(folder, "run", "spec.yaml", "--direct", "--period", "2024-05")
    assert Decimal(_table(folder, "2024-05")[0]["visits_last_2"]) == Decimal(again[0]["visits"]) + Decimal(
        _table(folder, "2024-05")[0]["visits"]
    )
    assert "sound" in command(folder, "ledger", "check")
    charges = json.loads(command(folder, "ledger", "log", "--json"))
    assert json.dumps(charges).count('"reserve"') == 5


@pytest.mark.nightly
def test_ranges_and_marginals_over_months_of_which_the_newest_is_replaced(tmp_path: Path) -> None:
    """Of an account by month: what the replacing draw reads again is charged again, to each month."""
    chance = random.Random(6)
    rows = [(f"{month}-05", chance.choice("fm"), chance.randint(0, 5)) for month in MONTHS[:2] for _ in range(300)]
    text = swapped(
        (
            "    by: [sex]\n    measures: {visits: {count: rows}}\n",
            "    marginals: {sets: [[sex], [sex, hours]]}\n    measures: {visits: {count: rows}}\n",
        ),
        (
            "      hours: {type: integer, range: [-5, 20]}\n",
            "      hours: {type: integer, keys: {from: 0, to: 5}}\n",
        ),
        (SERIES, "series: {from: 2024-01, sums: [2, ytd], look_back: 2}"),
        ("epsilon: 1/2", "epsilon: 1"),
    )
    text += """\
  up_to:
    table: visits
    by: [sex, hours]
    ranges: {of: hours, which: all}
    measures: {visits: {count: rows}}
    series: {from: 2024-01, sums: [2, ytd], look_back: 2}
derive:
  before: {sql: "select sex, visits_ytd - visits as earlier from visits__sex"}
publish: {formats: [csv, html], certificate: false}
"""
    folder = one_table(tmp_path, text, "day,sex,hours", rows, POLICY)
    for period in MONTHS[:2]:
        command(folder, "run", "spec.yaml", "--direct", "--period", period)

    last = f"releases/visits/{MONTHS[1]}"
    assert "FAIL" not in command(folder, "verify", last, "--earlier", f"releases/visits/{MONTHS[0]}")
    before = {}
    for table in ("visits__sex", "visits__sex__hours", "up_to"):
        own, first = (_table(folder, each, table) for each in MONTHS[1::-1])
        before[table] = own
        for one, two in zip(own, first, strict=True):
            assert (
                Decimal(one["visits_ytd"])
                == Decimal(one["visits_last_2"])
                == Decimal(one["visits"]) + Decimal(two["visits"])
            )
            assert float(one["visits_ytd_se"]) < 1.4 * float(one["visits_se"])
    whole = [float(row["visits_ytd"]) for row in before["up_to"] if (row["hours_from"], row["hours_to"]) == ("0", "5")]
    assert all(abs(each - 300) < 60 for each in whole)

    source = folder / "people.csv"
    source.write_text(source.read_text(encoding="utf-8") + f"{MONTHS[1]}-09,f,3\n" * 400, encoding="utf-8")
    command(folder, "run", "spec.yaml", "--direct", "--period", MONTHS[1], "--restate", "late rows")
    told = (folder / last / "accounting.html").read_text(encoding="utf-8")
    assert f"charged in full for {MONTHS[0]} again" in told
    assert "sound" in command(folder, "ledger", "check")
    (account,) = json.loads(command(folder, "ledger", "status", "--json"))["accounts"]
    assert {each: json.dumps(account).count(each) > 0 for each in MONTHS[:2]} == dict.fromkeys(MONTHS[:2], True)
