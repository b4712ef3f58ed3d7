"""Tables by SQL over all periods of a product: pages and files like those of queries, and which lines are drawn."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow.parquet as pq

from dprelease.plan.document import Derived
from dprelease.plan.explain.presentation import presentation
from dprelease.publish import render, write
from dprelease.publish.formats.filed import filed_table
from dprelease.publish.products.over_periods import FOLDER
from dprelease.publish.products.series import drawn_over
from dprelease.release.publishing.overview import write_overview
from tests.unit.publish_example import facts, measurements
from tests.unit.series_example import series_plan
from tests.unit.test_over_periods import NAME, files_over_periods, month_plan, released, rows_of
from tests.unit.test_publish_pages import Outline

REGIONS = Derived(
    name="regions",
    title="Half of the people in PERIOD",
    sql="select region as place, sum(persons) / 2 as half from population group by region",
)
BARE = Derived(name="bare", title="", sql="select persons * 2 as twice from population")


def test_tables_by_sql_have_pages_and_files_like_any_other(tmp_path: Path) -> None:
    for at, period in enumerate(("2024-01", "2024-02", "2024-03")):
        titled = REGIONS.model_copy(update={"title": REGIONS.title.replace("PERIOD", period)})
        released(tmp_path, period, at + 1, derive=(titled, BARE) if at else (titled,))
    assert write_overview(tmp_path) == ""

    found = files_over_periods(tmp_path)
    rows, bundles = rows_of(found["regions.csv"]), tmp_path / NAME
    for period in ("2024-01", "2024-02", "2024-03"):
        own = rows_of((bundles / period / "tables/regions.csv").read_bytes())
        assert [{**each, "period": period} for each in own] == [each for each in rows if each["period"] == period]
    assert len(rows) == 3 * len(own) > 0
    parquet = pq.read_table(io.BytesIO(found["regions.parquet"]))
    assert parquet.column_names == list(rows[0])
    assert parquet["half"].to_pylist() == [float(each["half"]) for each in rows]
    page = found["regions.html"].decode()
    text = Outline(page).text
    assert "Half of the people</" in page
    assert "Northeast" in text  # the label of a key that SQL renames
    assert page.count("<polyline") == len(own)
    assert f"Made of published numbers by SQL, after the noise: {REGIONS.sql}" in text
    assert "Every period has noise of its own." in text
    product = (bundles / "index.html").read_text(encoding="utf-8")
    assert f'href="{FOLDER}/regions.html"' in product
    # Rows that no key tells apart have files and no lines; the first period has no such table.
    assert len(rows_of(found["bare.csv"])) == 2 * 8
    assert "<polyline" not in found["bare.html"].decode()


def test_sql_that_changed_is_shown_with_the_periods_of_each(tmp_path: Path) -> None:
    other = REGIONS.model_copy(update={"sql": REGIONS.sql.replace("/ 2", "/ 4").replace("half", "quarter")})
    for at, derive in enumerate((REGIONS, REGIONS, other)):
        released(tmp_path, f"2024-{at + 1:02d}", at + 1, derive=(derive,))
    write_overview(tmp_path)

    found = files_over_periods(tmp_path)
    text = Outline(found["regions.html"].decode()).text
    assert f"2024-01, 2024-02: {REGIONS.sql}" in text
    assert f"2024-03: {other.sql}" in text
    names = list(rows_of(found["regions.csv"])[0])
    assert (names.index("quarter"), names.index("half")) == (2, 2 + 6)
    assert "<polyline" in found["regions.html"].decode()


def test_numbers_of_a_series_by_sql_say_what_is_shared() -> None:
    made = series_plan()
    derive = (Derived(name="before", title="", sql="select sex, visits_ytd - visits as earlier from visits"),)
    made = made.model_copy(update={"derive": derive})

    found, query = filed_table(made, "before"), filed_table(made, "visits")

    assert (found.shared_since, found.stands_alone, found.has_declared_rows) == ("2024-01", False, True)
    assert (found.numbers, query.numbers[-1]) == (("earlier",), "visits_ytd")
    assert query.shared_since == "2024-01"
    assert [each.name for each in found.columns] == ["sex"]


def test_a_number_of_one_period_alone_is_no_line(tmp_path: Path) -> None:
    """Of a table that only the newest period has a number of there is nothing to draw a line through."""
    table = filed_table(month_plan("2024-02"), "population")
    keys = [("1", "1"), ("1", "2")]
    there = [{"region": one, "sex": two, "persons": "5"} for one, two in keys]
    none = [{**each, "persons": ""} for each in there]
    rows = {"2024-01": none, "2024-02": there}

    assert drawn_over(table, ["persons"], keys, rows, 9) == []
    assert len(drawn_over(table, ["persons"], keys, {**rows, "2024-01": [there[0], none[1]]}, 9)) == 1


def test_a_table_that_is_shown_otherwise_later_is_so_on_its_page(tmp_path: Path) -> None:
    for at, period in enumerate(("2024-01", "2024-02")):
        made = month_plan(period)
        wanted = made.model_copy(update={"derive": (REGIONS,), "publish": made.publish})
        look = presentation(made, wanted)
        told = facts(made, ledger_sequence=at + 1, ledger_hash=f"{at:064x}")
        write(render(made, measurements(), told, look=look), tmp_path / NAME / period)

    assert write_overview(tmp_path) == ""

    assert len(rows_of(files_over_periods(tmp_path)["regions.csv"])) > 0
