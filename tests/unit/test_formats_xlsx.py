"""The workbook: nothing in it is code, everything is marked up, and it says the same as the CSV files."""

from __future__ import annotations

import csv
import io
import math
import re
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import openpyxl
import pytest
from openpyxl.utils.escape import unescape

from dprelease.estimate import FigureRules
from dprelease.publish.base import NOTICE, Content
from dprelease.publish.formats import xlsx
from dprelease.publish.formats.datapackage import csv_files
from dprelease.publish.formats.signed_cells import signed_statuses
from dprelease.publish.formats.workbook import Field, Sheet, held, markup_names, sheet_names, workbook_bytes
from dprelease.publish.formats.xlsx import WORKBOOK, sheets_of, xlsx_files
from tests.unit.formats_example import HOSTILE, LABELS, chosen, hostile, plain, whole

CASES: dict[str, Callable[[], Content]] = {
    "plain": plain,
    "hostile": hostile,
    "chosen": chosen,
    "whole": whole,
    "no private key": lambda: chosen(keys=()),
    "withheld": lambda: plain(show="blank"),
}


def made(content: Content) -> bytes:
    return xlsx_files(content, csv_files(content, {}))[WORKBOOK]


@cache
def case(name: str) -> tuple[Content, bytes]:
    content = CASES[name]()
    return content, made(content)


def opened(data: bytes) -> Any:
    return openpyxl.load_workbook(io.BytesIO(data))


def table_of(sheet: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """The marked-up table of a sheet: its headers and its rows."""
    ((_, area),) = sheet.tables.items()
    cells = [[cell.value for cell in row] for row in sheet[area]]
    return cells[0], [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


def parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        return {name: package.read(name) for name in package.namelist()}


@pytest.mark.parametrize("name", CASES)
def test_no_cell_is_a_formula_and_every_part_is_well_formed(name: str) -> None:
    _, data = case(name)
    for path, part in parts(data).items():
        root = ET.fromstring(part)  # hostile signs would break it
        if "worksheets/sheet" in path:
            tags = {element.tag.rpartition("}")[2] for element in root.iter()}
            assert not tags & {"f", "mergeCell", "pane", "dataValidation"}, path
    for sheet in opened(data):
        assert {cell.data_type for row in sheet.iter_rows() for cell in row} <= {"s", "n", "inlineStr"}


@pytest.mark.parametrize("name", CASES)
def test_only_links_inside_the_workbook(name: str) -> None:
    _, data = case(name)
    assert not any(b'TargetMode="External"' in part for part in parts(data).values())


def test_hostile_keys_stay_text_as_far_as_a_cell_can_hold_them() -> None:
    _, data = case("hostile")
    _, rows = table_of(opened(data)["population"])
    keys = [unescape(row["region"]) for row in rows][::2]  # openpyxl leaves this to the reader
    assert keys == [held(key) for key in HOSTILE]
    assert {"=1+1", "+1", "-1", "@x", "06", "6", "<script>alert(1)</script>", "_x0041_", " edge ", "TRUE"} <= set(keys)
    assert {"a b", " =1", "[U+202E]abc", "[U+FFFF][U+FFFE]", "a[U+0000]b"} <= set(keys)
    labels = {row["region"]: row["region: label"] for row in rows}
    assert {key: labels[key] for key in LABELS} == LABELS
    assert labels["-1"] == "-1"


def test_markup_in_a_title_is_text() -> None:
    _, data = case("hostile")
    book = opened(data)
    assert book["population"]["A1"].value.strip() == "<r><t>=1+1</t></r>"
    assert book["Cover"]["A1"].value == "=A1 & <T>, period 2024-03"
    assert "Published by: @office[U+0001]" in [row[0].value for row in book["Cover"].iter_rows()]
    assert book.properties.creator == "@office[U+0001]"


@pytest.mark.parametrize("name", CASES)
def test_every_sheet_has_a_title_in_a1_and_one_marked_up_table_without_gaps(name: str) -> None:
    content, data = case(name)
    book = opened(data)
    assert book.sheetnames[:3] == ["Cover", "Contents", "Notes"]
    assert len(book.sheetnames) == 3 + len(content.tables)
    names = []
    for sheet in book:
        assert sheet["A1"].value
        assert sheet.freeze_panes is None
        assert not sheet.merged_cells.ranges
        if sheet.title == "Cover":
            assert all(row[0].value for row in sheet.iter_rows())
            continue
        ((table, area),) = sheet.tables.items()
        names.append(table)
        top, bottom = (int(number) for number in re.findall(r"\d+", area))
        assert bottom == sheet.max_row
        assert all(sheet.cell(row, 1).value for row in range(1, top))
        headers, rows = table_of(sheet)
        assert sheet.tables[table].column_names == headers
        assert len({header.lower() for header in headers}) == len(headers)
        assert all(headers)
        assert rows
        assert all(cell not in (None, "") for row in rows for cell in row.values())
    assert len(set(names)) == len(names)


def same(shown: Any, text: str) -> bool:
    if isinstance(shown, str):
        return shown in ("[x]", "[w]") and text == ""
    return text != "" and math.isclose(shown, float(text), rel_tol=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_the_csv_files(name: str) -> None:
    content, data = case(name)
    book, files = opened(data), csv_files(content, {})
    compared = 0
    for sheet, table in zip(book.worksheets[3:], content.tables, strict=True):
        _, rows = table_of(sheet)
        expected = list(csv.DictReader(io.StringIO(files[f"tables/{table.name}.csv"].decode(), newline="")))
        for row, line in zip(rows if expected else [], expected, strict=True):
            for measure in table.measures:
                name_ = measure.name
                for part in ("margin", "lower", "upper"):
                    assert same(row[f"{name_}: {part}"], line[f"{name_}_{part}"])
                assert same(row[name_], line[name_])
                assert row[f"{name_}: status"].startswith(("ok", "unreliable", "no estimate", "withheld"))
                compared += 1
    assert compared > 5


def test_missing_numbers_say_why_in_words() -> None:
    _, shown = case("plain")
    _, rows = table_of(opened(shown)["income"])
    assert rows[-1]["average"] == "[x]"
    assert rows[-1]["average: status"] == "no estimate [x]"
    assert rows[-1]["earners: status"] == "unreliable [u]"
    _, hidden = case("withheld")
    _, rows = table_of(opened(hidden)["income"])
    assert rows[-1]["earners"] == rows[-1]["earners: margin"] == "[w]"
    assert rows[-1]["earners: status"] == "withheld [w] as unreliable [u]"
    _, other = case("chosen")
    _, rows = table_of(opened(other)["countries"])
    assert [rows[-1][name] for name in ("visits", "users", "average")] == ["[w]"] * 3
    assert rows[-1]["visits: status"] == "withheld [w]"
    assert "[w]" not in rows[0].values()


def test_digits_of_keys_stand_in_no_groups_and_those_of_numbers_do() -> None:
    """1001 is a county, and no 1,001."""
    fields = [Field("county", [1001], "code"), Field("crashes", [1001], 0), Field("share", [1.5], 2)]
    sheet = Sheet(name="a", title="A", lines=[], table="a", fields=fields)
    data = workbook_bytes([sheet], title="", author="", created="")
    shown = [cell.number_format for cell in list(opened(data)["a"].rows)[-1]]
    assert shown == ["0", "#,##0", "#,##0.00"]
    keyed = [each.fields[0].decimals for each in sheets_of(case("plain")[0], {})[3:]]
    assert keyed
    assert set(keyed) == {"code"}


def test_numbers_to_be_used_with_care_are_called_so_in_their_status() -> None:
    measure = next(measure for table in plain().tables for measure in table.measures)
    figures = FigureRules(symbols={"caution": "[caution]", "low": "[low]"})
    told: list[Literal["caution"]] = ["caution"] * len(measure.status)
    careful = replace(measure, status=told, low=None, never=None)
    assert set(signed_statuses(careful, [False] * len(measure.status), figures)) == {"use with care [caution]"}


def test_a_title_that_has_the_period_says_it_once() -> None:
    content = plain()
    period = content.plan.release.period
    told = content.plan.release.model_copy(update={"title": f"Incomes in {period}"})
    book = opened(made(replace(content, plan=content.plan.model_copy(update={"release": told}))))
    assert book.properties.title == book["Cover"]["A1"].value == f"Incomes in {period}"


def test_notes_explain_shorthand_measures_and_clips() -> None:
    _, data = case("chosen")
    _, rows = table_of(opened(data)["Notes"])
    told = {row["about"]: row["note"] for row in rows}
    assert {"[x]", "[u]", "[w]", "margin", "lower, upper", "countries: total", "top: rank", "gap"} <= set(told)
    assert "moved into 0 to 600" in told["countries: total"]


def test_notes_call_columns_as_their_sheet_does_in_its_order_and_say_each_rule_once() -> None:
    content, data = case("plain")
    book = opened(data)
    rows = table_of(book["Notes"])[1]
    for table in content.tables:
        heads = [column.shown for column in table.key_columns] + [measure.shown for measure in table.measures]
        told = [each["about"].partition(": ")[2] for each in rows if each["about"].startswith(f"{table.name}: ")]
        assert [each for each in told if each in heads] == heads
    rules = [each["note"] for each in rows if each["about"] in ("signs", "after the noise")]
    assert len(set(rules)) == len(rules) > 3


def test_paper_has_the_head_on_every_sheet_and_small_tables_in_one_width() -> None:
    _, data = case("plain")
    for sheet in opened(data):
        assert sheet.page_setup.paperSize == 9
        assert sheet.oddFooter.right.text == "&P / &N"
        if not sheet.tables:
            continue
        ((_, area),) = sheet.tables.items()
        head = re.sub(r"[A-Z]+", "", area.split(":")[0])
        assert sheet.print_title_rows == f"${head}:${head}"
        wide = sum(each.width for each in sheet.column_dimensions.values() for _ in range(each.min, each.max + 1))
        fits = sheet.page_setup.fitToHeight == 0
        assert fits or wide > 200
        assert fits != (sheet.print_title_cols == "$A:$A")


def test_no_number_is_shown_with_more_digits_than_its_margin_allows() -> None:
    _, data = case("plain")
    seen = 0
    for sheet in opened(data).worksheets[3:]:
        heads, _ = table_of(sheet)
        ((_, area),) = sheet.tables.items()
        for name in heads:
            if not name.endswith(": margin"):
                continue
            cells = [row[heads.index(name)] for row in sheet[area][1:]]
            margins = [cell.value for cell in cells if isinstance(cell.value, float | int) and cell.value > 0]
            decimals = len(cells[0].number_format.partition(".")[2])
            assert decimals == 0 or min(margins) < 10 ** (3 - decimals)
            seen += bool(margins)
    assert seen > 2


def test_contents_leads_to_every_sheet_and_names_its_file() -> None:
    content, data = case("chosen")
    book = opened(data)
    sheet = book["Contents"]
    _, rows = table_of(sheet)
    assert [row["sheet"] for row in rows] == book.sheetnames[2:]
    assert [row["rows"] for row in rows[1:]] == [table.cells for table in content.tables]
    assert rows[1]["file with all digits"] == "tables/countries.csv"
    links = [row[0].hyperlink.location for row in sheet.iter_rows(min_row=sheet.max_row - len(rows) + 1)]
    assert links == [f"'{name}'!A1" for name in book.sheetnames[2:]]


def test_integer_keys_are_numbers_as_far_as_a_spreadsheet_is_exact() -> None:
    content, data = case("plain")
    _, rows = table_of(opened(data)["population"])
    assert {row["sex"] for row in rows} == {1, 2}
    table = content.tables[0]
    large = (table.keys[0], tuple(10**17 + key for key in range(table.cells)))
    (sheet,) = (each for each in sheets_of(replace(content, tables=(replace(table, keys=large),)), {}) if each.name == "population")  # fmt: skip
    field = next(field for field in sheet.fields if field.header == "sex")
    assert field.cells[1] == "100000000000000001"


@pytest.mark.parametrize(("limit", "most"), [("MOST_ROWS", 10), ("MOST_CELLS", 100)])
def test_a_table_that_is_too_large_is_left_out_and_the_cover_says_so(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xlsx, limit, most)
    book = opened(made(plain()))
    assert "population" in book.sheetnames
    assert "income" not in book.sheetnames
    lines = [row[0].value for row in book["Cover"].iter_rows()]
    said = "Not in this workbook, because it is too large for one: Income by state and sex (12 rows); all of it is in tables/income.csv."  # fmt: skip
    assert said in lines


def test_a_table_that_is_wider_than_a_sheet_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "SHEET_COLUMNS", 5)
    sheet = opened(made(plain()))["population"]
    lines = [row[0].value for row in sheet.iter_rows(max_row=8)]
    assert "The table is wider than a sheet: it shows 5 of 9 columns; all of it is in tables/population.csv." in lines


def test_a_rehearsal_says_so_on_every_sheet() -> None:
    for sheet in opened(made(chosen(rehearsal=True))):
        assert NOTICE in [row[0].value for row in sheet.iter_rows(max_row=5)], sheet.title
    for sheet in opened(case("chosen")[1]):
        assert NOTICE not in [row[0].value for row in sheet.iter_rows(max_row=5)]


@pytest.mark.parametrize("name", ["hostile", "chosen"])
def test_the_same_release_gives_the_same_bytes(name: str) -> None:
    _, first = case(name)
    assert made(CASES[name]()) == first
    assert opened(first).properties.created.isoformat() == "2024-04-05T06:00:03"


def test_sheet_and_table_names_are_such_that_a_spreadsheet_takes_them() -> None:
    asked = ["Cover", "cover", "HISTORY", "a" * 60, "A" * 60, "r1c1", "a-b", "a_b", "x.y"]
    names = sheet_names(asked, taken=("Cover", "Contents", "Notes"))
    assert len({name.lower() for name in names}) == len(asked)
    assert all(len(name) <= 31 and not set(name) & set("[]:*?/\\'") for name in names)
    assert not {"cover", "contents", "notes", "history"} & {name.lower() for name in names}
    marked = markup_names(asked)
    assert len({name.lower() for name in marked}) == len(asked)
    assert all(re.fullmatch(r"table_[A-Za-z0-9._]{1,249}", name) for name in marked)


def test_long_texts_are_cut_and_say_so() -> None:
    shown = held("\U0001f600" * 40_000)
    assert len(shown.encode("utf-16-le")) // 2 <= 32_767
    assert shown.endswith("[cut: the whole text is in the CSV file]")
