"""Tables of a product over all of its periods: which pages there are, what they show, and the files with all rows."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dprelease.catalog.table import Column
from dprelease.measures.count import Count
from dprelease.plan.document import Derived, PlannedQuery, ReleasePlan
from dprelease.publish import Restated, folder_for, render, write
from dprelease.publish.formats.all_periods import TableOfPeriod, rows_of_csv, stacked_over_periods
from dprelease.publish.formats.filed import filed_table
from dprelease.publish.products import tables
from dprelease.publish.products.over_periods import FOLDER, MOST_TABLES, in_order, tables_of
from dprelease.release.publishing import overview
from dprelease.release.publishing.overview import write_overview
from tests.unit import languages_example
from tests.unit.publish_example import facts, measurements, plan
from tests.unit.test_publish_pages import Outline

NAME = "regional-monitor"


def month_plan(period: str, derive: tuple[Derived, ...] = (), **publish: object) -> ReleasePlan:
    made = plan()
    queries = tuple(
        each.model_copy(update={"title": f"{each.title} in {period}"}) if each.name == "population" else each
        for each in made.queries
    )
    release = made.release.model_copy(update={"period": period, "title": f"Visits, {period}"})
    changed = made.publish.model_copy(update={"formats": ("csv",), **publish})
    return made.model_copy(update={"release": release, "publish": changed, "queries": queries, "derive": derive})


def released(
    root: Path, period: str, sequence: int, folder: str = "", derive: tuple[Derived, ...] = (), **changes: object
) -> None:
    """A publication; with a folder one that replaces that of its period."""
    made = month_plan(period, derive, **changes)
    told = facts(made, ledger_sequence=sequence, ledger_hash=f"{sequence:064x}")
    if folder:
        before = month_plan(period).fingerprint()
        told = told.model_copy(update={"restates": Restated(plan_fingerprint=before, sequence=1, reason="late rows")})
    write(render(made, measurements(), told), root / NAME / (folder or period))


def files_over_periods(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / NAME / FOLDER).iterdir())}


def rows_of(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def test_each_table_has_a_page_and_two_files_from_the_second_period_on(tmp_path: Path) -> None:
    released(tmp_path, "2024-01", 1)
    assert write_overview(tmp_path) == ""
    assert not (tmp_path / NAME / FOLDER).exists()

    released(tmp_path, "2024-02", 2)
    assert write_overview(tmp_path) == ""

    found = files_over_periods(tmp_path)
    assert list(found) == [f"{name}.{end}" for name in ("income", "population") for end in ("csv", "html", "parquet")]
    product = (tmp_path / NAME / "index.html").read_text(encoding="utf-8")
    for name in ("population", "income"):
        assert f'href="{FOLDER}/{name}.html"' in product
        text = found[f"{name}.html"].decode()
        links = re.findall(r'href="([^"#][^"]*)"', text)
        assert links
        assert all((tmp_path / NAME / FOLDER / link).resolve().is_file() for link in links), links
    assert "Population by region and sex</" in found["population.html"].decode()


def test_all_rows_are_in_the_files_with_the_digits_of_their_bundles(tmp_path: Path) -> None:
    for at, period in enumerate(("2024-01", "2024-02", "2024-03")):
        released(tmp_path, period, at + 1)
    write_overview(tmp_path)

    found = files_over_periods(tmp_path)
    for name in ("population", "income"):
        lines = found[f"{name}.csv"].split(b"\r\n")
        for at, period in enumerate(("2024-01", "2024-02", "2024-03")):
            of_bundle = (tmp_path / NAME / period / "tables" / f"{name}.csv").read_bytes().split(b"\r\n")
            rows = len(of_bundle) - 2
            assert lines[0] == b"period," + of_bundle[0]
            assert lines[1 + at * rows : 1 + (at + 1) * rows] == [
                b'"%s",%s' % (period.encode(), line) for line in of_bundle[1:-1]
            ]
        parquet = pq.read_table(io.BytesIO(found[f"{name}.parquet"]))
        told = rows_of(found[f"{name}.csv"])
        assert parquet.column_names == list(told[0])
        assert parquet.num_rows == len(told) == 3 * rows
        for each, row in zip(parquet.to_pylist(), told, strict=True):
            for column, value in each.items():
                number = column not in ("period", "region", "state", "sex") and not column.endswith("_status")
                text = row[column]
                blank = number and text == ""
                assert value == (None if blank else float(text) if number else int(text) if column == "sex" else text)


def test_the_newest_publication_of_a_period_counts_and_the_order_of_bundles_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released(tmp_path, "2024-02", 1)
    released(tmp_path, "2024-01", 2)  # late
    released(tmp_path, "2024-02", 3, folder="2024-02-again", period_column=True)
    write_overview(tmp_path)
    found = files_over_periods(tmp_path)

    periods = [row["period"] for row in rows_of(found["population.csv"])]
    assert periods == ["2024-01"] * 8 + ["2024-02"] * 8
    assert found["population.csv"].startswith(b"period,region,")
    assert "../2024-02-again/manifest.json" in found["population.html"].decode()
    assert "../2024-02/manifest.json" not in found["population.html"].decode()
    bundles = overview._bundles
    monkeypatch.setattr(overview, "_bundles", lambda root: dict(reversed(bundles(root).items())))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / NAME / FOLDER).iterdir()}
    write_overview(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert files_over_periods(tmp_path) == found


def test_periods_that_were_given_up_are_gaps(tmp_path: Path) -> None:
    for at, period in enumerate(("2024-01", "2024-02", "2024-05", "2024-07")):
        released(tmp_path, period, at + 1)
    write_overview(tmp_path)

    page = Outline(files_over_periods(tmp_path)["population.html"].decode())
    gaps = re.findall(r"(2024-\d\d(?: to 2024-\d\d)?)\s*not published", page.text)
    assert gaps == ["2024-06", "2024-03 to 2024-04"]
    lines = [str(attributes["points"]) for tag, attributes in page.tags if tag == "polyline"]
    assert len(lines) == 8 * 3
    assert [len(each.split()) for each in lines[:3]] == [2, 1, 1]


def test_pages_of_tables_that_are_gone_are_taken_away_and_other_files_stay(tmp_path: Path) -> None:
    for at, period in enumerate(("2024-01", "2024-02")):
        released(tmp_path, period, at + 1)
    write_overview(tmp_path)
    folder = tmp_path / NAME / FOLDER
    (folder / "gone.csv").write_bytes(b"what was replaced")
    (folder / "notes.txt").write_bytes(b"mine")
    before = files_over_periods(tmp_path)

    write_overview(tmp_path)

    assert files_over_periods(tmp_path) == {name: data for name, data in before.items() if name != "gone.csv"}


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.csv").write_bytes(b"mine")
    for at, period in enumerate(("2024-01", "2024-02")):
        released(tmp_path / "releases", period, at + 1)
    (tmp_path / "releases" / NAME / FOLDER).symlink_to(tmp_path / "elsewhere")

    assert "is a link" in write_overview(tmp_path / "releases")

    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["mine.csv"]


def test_no_period_has_the_folder_of_the_pages() -> None:
    assert folder_for(Path("releases"), NAME, FOLDER) != Path("releases") / NAME / FOLDER


def test_a_changed_table_is_no_part_of_a_page(tmp_path: Path) -> None:
    for at, period in enumerate(("2024-01", "2024-02", "2024-03")):
        released(tmp_path, period, at + 1)
    path = tmp_path / NAME / "2024-02" / "tables" / "population.csv"
    path.write_bytes(path.read_bytes().replace(b"ok", b"no", 1))

    assert write_overview(tmp_path) == ""

    found = files_over_periods(tmp_path)
    assert {row["period"] for row in rows_of(found["income.csv"])} == {"2024-01", "2024-03"}
    assert f"{NAME}/2024-02" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_large_tables_have_no_page_and_the_product_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at, period in enumerate(("2024-01", "2024-02")):
        released(tmp_path, period, at + 1)
    sizes = {
        name: (tmp_path / NAME / "2024-01/tables" / f"{name}.csv").stat().st_size for name in ("population", "income")
    }
    monkeypatch.setattr(tables, "_LARGEST_TABLE", 2 * sizes["income"] - 1)

    write_overview(tmp_path)

    assert not any(name.startswith("income") for name in files_over_periods(tmp_path))
    assert "not published as CSV: income." in Outline((tmp_path / NAME / "index.html").read_text(encoding="utf-8")).text
    monkeypatch.setattr(tables, "_LARGEST_PROJECT", 2 * sizes["population"] - 1)
    write_overview(tmp_path)
    assert files_over_periods(tmp_path) == {}


def test_pages_are_in_every_language_of_the_newest_publication(tmp_path: Path) -> None:
    for at, period in enumerate(("2024-02", "2024-03")):
        made = languages_example.plan()
        release = made.release.model_copy(update={"period": period})
        publish = made.publish.model_copy(update={"formats": ("csv",)})
        made = made.model_copy(update={"release": release, "publish": publish})
        told = facts(made, ledger_sequence=at + 1, ledger_hash=f"{at:064x}")
        write(render(made, languages_example.measured(made), told), folder_for(tmp_path, made.release.name, period))
    assert write_overview(tmp_path) == ""
    folder = tmp_path / "bevoelkerung" / FOLDER
    pages = sorted(path.name for path in folder.glob("*.html"))
    assert pages
    assert len(pages) == 2 * sum(".en." not in name for name in pages)
    for path in folder.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        tag = "en" if ".en." in path.name else "de"
        assert f'<html lang="{tag}">' in text
        assert ("Jede Zahl" in text, "Every number" in text) == (tag == "de", tag == "en")
        links = re.findall(r'href="([^"#][^"]*)"', text)
        assert all((folder / link).resolve().is_file() for link in links), links


def part(
    period: str, rows: list[dict[str, str]], columns: tuple[Column, ...], measures: tuple[str, ...]
) -> TableOfPeriod:
    made = plan()
    table = made.catalog.tables["persons"].model_copy(update={"columns": columns})
    query = PlannedQuery(
        name="people",
        title="People",
        table="persons",
        by=tuple(column.name for column in columns),
        measures={name: Count(count="rows") for name in measures},
        inputs=dict.fromkeys(measures, ()),
    )
    catalog = made.catalog.model_copy(update={"tables": {"persons": table}})
    publish = made.publish.model_copy(update={"csv_formulas": "escape", "layout": 3})
    changed = made.model_copy(update={"catalog": catalog, "publish": publish, "queries": (query,)})
    return TableOfPeriod(period, filed_table(changed, "people"), rows)


def numbers(name: str, value: str) -> dict[str, str]:
    return {name: value, f"{name}_se": "1.5", f"{name}_status": "ok"}


def test_other_columns_and_rows_are_united_by_name_and_blank_where_they_are_not() -> None:
    town, sex = Column(name="town", type="text", keys=("=a", "b")), Column(name="sex", type="integer", keys=(1, 2))
    older = part("2023", [{"sex": "1", **numbers("persons", "7")}], (sex,), ("persons",))
    newer = part("2024", [{"town": "=a", "sex": "2", **numbers("visits", "3.25")}], (town, sex), ("visits",))

    found = stacked_over_periods([newer, older])

    assert found.csv().decode().split("\r\n") == [
        "period,town,sex,visits,visits_se,visits_status,persons,persons_se,persons_status",
        '"2023",,1,,,,7,1.5,ok',
        '"2024","\'=a",2,3.25,1.5,ok,,,',
        "",
    ]
    parquet = pq.read_table(io.BytesIO(found.parquet({"title": "People"})))
    assert parquet.schema.metadata[b"title"] == b"People"
    assert [str(each.type) for each in parquet.schema] == ["string", "string", "int64"] + [
        "double",
        "double",
        "string",
    ] * 2
    assert parquet.to_pylist()[1]["town"] == "=a"
    assert parquet.to_pylist()[0]["visits"] is None


def test_a_key_that_is_called_period_and_a_measure_that_ends_in_status_keep_their_names() -> None:
    column = Column(name="period", type="date", keys=("2024-01-01",))
    row = {"period": "2024-01-01", **numbers("a_status", "4")}

    found = stacked_over_periods([part("2024", [row], (column,), ("a_status",))])

    assert found.csv().decode().split("\r\n")[:2] == [
        "publication_period,period,a_status,a_status_se,a_status_status",
        '"2024",2024-01-01,4,1.5,ok',
    ]
    types = [str(each.type) for each in pq.read_schema(io.BytesIO(found.parquet({})))]
    assert types == ["string", "date32[day]", "double", "double", "string"]


def test_a_key_of_another_type_in_another_period_is_text() -> None:
    old, new = (Column(name="code", type=kind) for kind in ("text", "integer"))
    found = stacked_over_periods(
        [part("2024", [{"code": "6"}], (new,), ()), part("2023", [{"code": "06"}], (old,), ())]
    )

    assert found.csv().decode().split("\r\n")[1:3] == ['"2023","06"', '"2024","6"']
    assert pq.read_table(io.BytesIO(found.parquet({})))["code"].to_pylist() == ["06", "6"]


def test_texts_of_any_kind_come_back_from_the_file_and_are_inert_on_the_page(tmp_path: Path) -> None:
    odd = 'a"b\r\n,<script>1</script>\u202e'
    column = Column(name="town", type="text", keys=(odd,))
    one = part("2024", [{"town": odd, **numbers("persons", "4")}], (column,), ("persons",))
    text = stacked_over_periods([one]).csv().decode()
    assert [row["town"] for row in rows_of(text.encode())] == [odd]

    for at, period in enumerate(("2024-01", "2024-02")):
        made = month_plan(period)
        table = made.catalog.tables["persons"]
        labels = {"1": "<script>1</script>", **{key: f"{key}\u202e" for key in "234"}}
        columns = tuple(
            each.model_copy(update={"labels": labels}) if each.name == "region" else each for each in table.columns
        )
        catalog = made.catalog.model_copy(update={"tables": {"persons": table.model_copy(update={"columns": columns})}})
        queries = (made.queries[0].model_copy(update={"title": "<i>People</i>"}), *made.queries[1:])
        made = made.model_copy(update={"catalog": catalog, "queries": queries})
        told = facts(made, ledger_sequence=at + 1, ledger_hash=f"{at:064x}")
        write(render(made, measurements(), told), tmp_path / NAME / period)
    write_overview(tmp_path)
    page = files_over_periods(tmp_path)["population.html"].decode()
    assert "&lt;script&gt;1" in page
    assert "&lt;i&gt;People" in page
    assert not any(sign in page for sign in ("<script>1", "<i>", "\u202e"))


def test_keys_are_read_as_they_were_before_formulas_were_escaped() -> None:
    each = part("2024", [], (Column(name="town", type="text"),), ("persons",))
    text = 'town,persons\r\n"\'=a",1\r\n"",2\r\n'

    assert [row["town"] for row in rows_of_csv(text, each.table)] == ["=a", ""]
    with pytest.raises(ValueError, match="not escaped"):
        rows_of_csv(text.replace("'", ""), each.table)


def test_tables_are_those_of_all_periods_the_newest_first_and_no_two_of_one_file() -> None:
    def named(*names: str) -> ReleasePlan:
        made = plan()
        return made.model_copy(
            update={"queries": tuple(made.queries[0].model_copy(update={"name": name}) for name in names)}
        )

    assert tables_of([named("b", "a"), named("A", "c")]) == ("b", "a", "c")
    assert len(tables_of([named(*(f"q{at}" for at in range(2 * MOST_TABLES)))])) == MOST_TABLES


def test_periods_stand_by_their_days_and_others_as_they_came() -> None:
    assert in_order(["2023-12", "2024-02", "2024-01"]) == ["2024-02", "2024-01", "2023-12"]
    assert in_order(["spring", "2024-02", "autumn"]) == ["spring", "2024-02", "autumn"]
