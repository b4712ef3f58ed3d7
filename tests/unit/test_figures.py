"""How numbers are judged, rounded, signed and shown: never outside of their interval, and never a margin beside a moved one."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError, SpecError
from dprelease.estimate import FigureRules, statuses
from dprelease.estimate.figures import SYMBOLS, ShareLimits, ShowRules
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.figures import figure_texts
from dprelease.plan.verify.form import check_form
from dprelease.publish import check_bundle, render
from dprelease.publish.site.notes import top_codes
from tests.planned import plan_of
from tests.unit.publish_example import facts
from tests.unit.unadjusted_example import bundle, moved_plan, without_figures

COUNTED = (Fraction(0), None)
SHARE = (Fraction(0), Fraction(1))
USUAL = FigureRules(caution_above=Fraction(1, 3), shares=ShareLimits(), symbols=SYMBOLS)
VISITS = """dprelease: 1
release: {name: visits, period: 2024}
privacy: {unit: {entity: person}, budget: {epsilon: 1, delta: 1e-9}, noise: gaussian}
tables:
  visits:
    account: a
    source: {file: f.csv}
    columns:
      region: {type: text, keys: [N, E, S, W]}
      sex: {type: integer, keys: [1, 2]}
      cost: {type: decimal, range: [0, 2000], step: 0.01}
queries:
  by_sex:
    table: visits
    by: [region, sex]
    measures: {n: {count: rows}}
    expect: {n: 20}
  by_region:
    table: visits
    by: [region]
    measures: {n: {count: rows}, dear: {count: rows, where: "cost > 100"}, share: {ratio: [dear, n]}}
    round: {n: 10, dear: auto}
  kept: {table: visits, by: [region], measures: {n: {count: rows}}, suppress: {measure: n, below: 15}, round: none}
derive: {same: {sql: "select region, n as people from by_region"}}
publish: {formats: [csv, parquet, xlsx, json, sdmx, html], round: 5MORE}
"""


def judged(value: float, lower: float, upper: float, possible: Any = COUNTED, figures: FigureRules = USUAL) -> str:
    care, weak = figures.judged(np.array([value]), np.array([lower]), np.array([upper]), possible, Fraction(2, 3))
    return "unreliable" if weak[0] else "caution" if care[0] else "ok"


@pytest.mark.parametrize(
    ("value", "lower", "upper", "expected"),
    [
        (388, 0, 776, "unreliable"),  # 388 +- 388 was published as ok
        (100, 33, 167, "unreliable"),
        (100, 34, 166, "caution"),
        (100, 66, 134, "caution"),
        (100, 67, 133, "ok"),
        (99, 66, 132, "ok"),  # a third is not more than a third
        (99, 33, 165, "caution"),
        (-38, 0, 37, "unreliable"),  # by its size it would pass: 18.5 is less than two thirds of 38
        (0, 0, 0, "ok"),  # published exactly
        (float("nan"), float("nan"), float("nan"), "ok"),
        (5, float("nan"), float("nan"), "ok"),  # nothing is known of it
    ],
)
def test_a_number_is_judged_by_half_the_width_of_its_interval(
    value: float, lower: float, upper: float, expected: str
) -> None:
    assert judged(value, lower, upper) == expected


@pytest.mark.parametrize(
    ("value", "width", "expected"),
    [
        (0.5, 0.05, "ok"),
        (0.001, 0.05, "ok"),  # 5,000 % of it, and narrow all the same
        (0.5, 0.31, "unreliable"),
        (0.5, 0.29, "ok"),
        (0.1, 0.14, "unreliable"),
        (0.1, 0.12, "ok"),
        (0.9, 0.14, "unreliable"),  # as what it leaves
    ],
)
def test_a_share_is_judged_by_the_width_of_its_interval(value: float, width: float, expected: str) -> None:
    ends = max(0.0, value - width / 2), min(1.0, value + width / 2)
    ends = (ends[0], ends[0] + width)
    assert judged(value, *ends, possible=SHARE) == expected
    plain = USUAL.model_copy(update={"shares": None})
    assert judged(0.1, 0.0, 0.2, possible=SHARE, figures=plain) == "unreliable"


def test_at_most_so_many_is_a_result_and_is_never_withheld() -> None:
    value, lower, upper = (
        np.array(each, dtype=float) for each in ([-38, 30, 40, 500], [0, 0, 5, 450], [37, 67, 77, 550])
    )
    blank = np.zeros(4, dtype=bool)
    for counts, hidden in ((True, [False, False, True, False]), (False, [True, True, True, False])):
        rules = ShowRules(Fraction(2, 3), "blank", True, USUAL)
        care, weak, gone = rules.judged(value, value * 0 + 37, lower, upper, COUNTED, blank, counts=counts)
        assert gone.tolist() == hidden
        assert weak.tolist() == [True, True, True, False]
        assert list(statuses(blank, weak, care)) == ["unreliable", "unreliable", "unreliable", "ok"]


# The spec and the plan


@cache
def visits(more: str = "") -> ReleasePlan:
    return plan_of(VISITS.replace("MORE", more))


def test_bases_are_planned_by_the_noise_and_warned_of_where_they_are_coarse() -> None:
    plan = visits()
    figures = plan.publish.figures
    assert figures is not None
    assert figures.bases == {"by_sex": {"n": 5}, "by_region": {"n": 10, "dear": 5}}
    (error,) = (each.standard_error for each in plan.outputs if (each.query, each.measure) == ("by_region", "dear"))
    assert 5 <= Fraction(error or 0) < 10  # 5 is the largest of 1, 2, 5, 10 that is at most the error
    coarse = plan_of(VISITS.replace("n: 10", "n: 1000").replace("MORE", ""))
    told = figure_texts(coarse)
    assert any("by_region.n: rounding to multiples of 1,000 is coarser than the noise" in each for each in told)
    assert not any("rounding" in each for each in figure_texts(plan))


def test_a_plan_names_tables_that_will_be_unreliable_and_a_coarser_one() -> None:
    (told,) = figure_texts(visits())
    assert told.startswith("by_sex.n: a cell of 20 rows")
    assert told.endswith("by_region has the same by fewer keys")
    assert figure_texts(without_figures(visits())) == ()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{x: 5}", "DPR-S698"),
        ("0", "DPR-S696"),
        ("-5", "DPR-S696"),
        ("[5]", "DPR-S696"),
        ("half", "DPR-S696"),
        ("1/3", "DPR-S696"),
        ("2.5", "DPR-S696"),
        ("{n: 0.01}", "DPR-S696"),
        ("{n: true}", "DPR-S696"),
    ],
)
def test_wrong_bases_are_refused(wrong: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        plan_of(VISITS.replace("{n: 10, dear: auto}", wrong).replace("MORE", ""))


def test_wrong_symbols_are_refused() -> None:
    with pytest.raises(SpecError, match="DPR-S697"):
        visits(", symbols: {unreliable: 'far too long a sign'}")
    with pytest.raises(SpecError, match="DPR-S200"):
        visits(", symbols: {nothing: '-'}")


def test_the_verifier_refuses_rules_that_are_none() -> None:
    plan = visits()
    figures = plan.publish.figures
    assert figures is not None
    check_form(plan)
    for change in (
        {"bases": {"by_sex": {"n": Fraction(0)}}},
        {"bases": {"by_sex": {"n": Fraction(1, 2)}}},
        {"bases": {"by_region": {"share": Fraction(1, 3)}}},
        {"bases": {"by_sex": {"m": Fraction(5)}}},
        {"bases": {"none": {"n": Fraction(5)}}},
        {"symbols": {"unreliable": "[u]"}},
        {"caution_above": Fraction(0)},
    ):
        wrong = plan.publish.model_copy(update={"figures": figures.model_copy(update=change)})
        with pytest.raises(BrokenPromiseError):
            check_form(plan.model_copy(update={"publish": wrong}))


def test_a_plan_from_before_keeps_its_text() -> None:
    old = without_figures(visits())
    assert "figures" not in old.canonical()
    assert ReleasePlan.from_canonical(visits().canonical()) == visits()


def test_a_key_that_holds_all_larger_values_is_said_to() -> None:
    """Values above the range are moved to its end, and count in the band or the key that holds it."""
    text = VISITS.replace(
        "by_sex:\n    table: visits\n    by: [region, sex]", "by_sex:\n    table: visits\n    by: [rooms, band]"
    )
    columns = """      rooms: {type: integer, keys: {from: 0, to: 5}, range: [0, 5]}
      age: {type: integer, range: [0, 99]}
      band: {bin: age, edges: [0, 65, 100]}
"""
    text = text.replace("      cost: {type", columns + "      cost: {type").replace("MORE", "")
    plan = plan_of(text)
    assert list(top_codes(plan, plan.queries[0])) == [
        "5 of rooms stands for 5 and more: larger values were moved there.",
        "[65,100) of band stands for 65 and more: larger values were moved there.",
    ]
    assert list(top_codes(plan, plan.queries[1])) == []
    lost = plan_of(
        text.replace("range: [0, 99]", "range: [0, 99], outside: 'null'").replace(
            "rooms: {", "rooms: {labels: {5: 5+}, "
        )
    )
    assert list(top_codes(lost, lost.queries[0])) == []


# Files and pages


def answers(plan: ReleasePlan) -> dict[str, Measurement]:
    """Counts on both sides of 0, a large one, and one that rounds to 0."""
    chance = np.random.default_rng(7)
    found = {}
    for name, numbers in plan.numbers.items():
        values = chance.integers(-60, 80, size=numbers)
        values[:] = [-38, 2, 48, 1204] if numbers == 4 else [-38, 2, 48, 9] * 2
        found[name] = Measurement(name, values.astype(np.int64))
    return found


@cache
def files(more: str = "") -> Mapping[str, bytes]:
    return render(visits(more), answers(visits(more)), facts(visits(more)).model_copy(update={"accounts": ()})).files


def lines(name: str, more: str = "", ending: str = "csv") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(files(more)[f"tables/{name}.{ending}"].decode(), newline="")))


def shown(page: str) -> list[str]:
    cells = re.findall(r'<td class="num(?: u)?">.*?</td>', page)
    return [" ".join(re.sub("<[^>]*>", " ", each).split()) for each in cells]


_CELL = re.compile(
    r"^(−?[\d,.]+)(?: ± ([\d,.]+))?(?: \((?:at (most|least) )?(−?[\d,.]+)(?: to (−?[\d,.]+))?\))?(?: \[.*)?$"
)


def number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def outside(page: str) -> list[str]:
    """Cells whose number is outside of the interval that stands beside it."""
    found = []
    for cell in shown(page):
        if cell.startswith("["):
            continue
        told = _CELL.match(cell)
        assert told is not None, cell
        value, _, side, first, last = told.groups()
        if first is None:
            continue
        low, high = number(first), number(last or first)
        held = {"most": number(value) <= low, "least": number(value) >= low}
        if not (held[side] if side else low <= number(value) <= high):
            found.append(cell)
    return found


def test_no_page_has_a_number_outside_of_its_interval() -> None:
    assert outside(files()["index.html"].decode()) == []
    assert "0 (at most 20) [u]" in shown(files()["index.html"].decode())
    assert outside('<td class="num"><b>-</b></td>'.replace("-", "−38") + '<td class="num"><b>9</b> (0 to 7)</td>') == [
        "9 (0 to 7)"
    ]


def test_no_page_has_a_margin_beside_an_adjusted_number() -> None:
    for path, data in bundle(moved_plan()).items():
        page = data.decode(errors="replace")
        if path.startswith("pages/areas") and '<table class="estimates">' in page:
            table = page[page.index('<table class="estimates">') :]
            assert "±" not in table, path
            cells = shown(table)[::2]
            assert cells
            assert outside(table) == []
            assert all("(" in cell for cell in cells)


def test_counts_below_zero_stay_in_files_with_the_interval_of_zero() -> None:
    row = next(each for each in lines("kept", "") if each["region"] == "W")
    assert row["n_status"] == "ok"
    first = lines("by_sex")[0]
    assert (first["n"], first["n_lower"]) == ("-40", "0")
    assert 0 < float(first["n_upper"]) <= 25
    assert first["n_status"] == "unreliable"


def test_every_format_has_the_same_ends_and_verify_derives_them(tmp_path: Path) -> None:
    import openpyxl
    import pyarrow.parquet as pq

    expected = [(float(row["n_lower"]), float(row["n_upper"])) for row in lines("by_region")]
    sdmx = [row for row in lines("by_region", ending="sdmx.csv") if row["MEASURE"] == "n"]
    assert [(float(row["CI_LOWER"]), float(row["CI_UPPER"])) for row in sdmx] == expected
    table = pq.read_table(io.BytesIO(files()["tables/by_region.parquet"])).to_pydict()
    assert list(zip(table["n_lower"], table["n_upper"], strict=True)) == expected
    cube = json.loads(files()["tables/by_region.json"])
    metrics = cube["dimension"]["metric"]["category"]["index"]
    values = np.array(cube["value"], dtype=float).reshape(4, len(metrics))
    at = [metrics.index("n_lower"), metrics.index("n_upper")]
    assert [tuple(row) for row in values[:, at].tolist()] == expected
    sheet = openpyxl.load_workbook(io.BytesIO(files()["tables/workbook.xlsx"]))["by_region"]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    head = next(at for at, row in enumerate(rows) if "n: lower" in row)
    columns = [rows[head].index("n: lower"), rows[head].index("n: upper")]
    assert [tuple(float(row[at]) for at in columns) for row in rows[head + 1 : head + 5]] == expected
    for path, data in files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    wrong = {each.name for each in check_bundle(tmp_path) if each.passed is False}
    assert wrong <= {"facts", "accounting"}  # whose accounts this release was made without


def test_signs_are_those_of_the_office_and_each_page_says_what_those_on_it_mean() -> None:
    more = ", symbols: {unreliable: '/', withheld: x, no_estimate: '.'}"
    page = files(more)["index.html"].decode()
    cells = shown(page)
    assert "x" in cells
    assert "." in cells
    assert any(cell.endswith(" /") for cell in cells)
    section = page[page.index('id="table-kept"') :]
    legend = re.search(r"Signs here:.*?</p>", section, re.S)
    assert legend is not None
    assert re.findall(r'class="flag">([^<]*)<', legend[0]) == ["x"]
    words = {row["OBS_STATUS"] for row in lines("by_region", more, "sdmx.csv")}
    assert words >= {"A", "U", "O"}
    package = json.loads(files(more)["datapackage.json"])
    told = [field for each in package["resources"] for field in each["schema"]["fields"] if field["name"] == "n_status"]
    assert "unreliable /" in told[0]["description"]
    assert told[0]["constraints"]["enum"] == ["ok", "caution", "unreliable", "blank"]


def test_above_a_table_that_is_mostly_unreliable_stands_a_warning_with_the_coarser_table() -> None:
    page = files()["index.html"].decode()
    section = page[page.index('id="table-by_sex"') : page.index('id="table-by_region"')]
    assert "More than half of the numbers of this table are unreliable" in section
    assert "“by_region” has the same by fewer keys" in section
    assert "More than half" not in page[page.index('id="table-kept"') :]


def test_derived_tables_are_made_of_numbers_before_they_are_rounded() -> None:
    assert [float(row["people"]) for row in lines("same")] == [-38, 2, 48, 1204]
    assert [row["n"] for row in lines("by_region")] == ["-40", "0", "50", "1200"]


def test_a_bundle_from_before_has_the_columns_and_words_that_it_had() -> None:
    old = bundle(without_figures(moved_plan()))
    head = old["tables/areas__puma__sex__race.csv"].decode().splitlines()[0].split(",")
    assert head[3:] == [
        "count",
        *(f"count{end}" for end in ("_se", "_margin", "_lower", "_upper", "_status", "_unadjusted")),
    ]
    pages = "".join(data.decode() for path, data in old.items() if path.startswith(("index", "pages/")))
    assert "Signs here" not in pages
    assert '<span class="flag">unreliable</span>' in pages
    assert "caution" not in pages
