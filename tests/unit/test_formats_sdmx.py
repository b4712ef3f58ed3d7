"""SDMX-CSV: one line for each cell and measure, keys as declared, and pysdmx reads the same numbers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from typing import Any

import pytest
from pysdmx.io import read_sdmx

from dprelease.publish.base import NOTICE, Content, key_as_text
from dprelease.publish.formats.datapackage import csv_files
from dprelease.publish.formats.sdmx import is_sdmx_period, sdmx_files
from tests.unit.formats_example import HOSTILE, chosen, hostile, plain, whole

CASES: dict[str, Callable[[], Content]] = {"plain": plain, "chosen": chosen, "whole": whole, "hostile": hostile}


def text(content: Content, table: str) -> str:
    return sdmx_files(content, {})[f"tables/{table}.sdmx.csv"].decode()


def lines(content: Content, table: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text(content, table), newline=""), strict=True))


def by_pysdmx(content: Content, table: str) -> Any:
    """The one data set of a file."""
    found: Any = read_sdmx(text(content, table), validate=False)
    (dataset,) = found.data
    return dataset


def test_the_columns_are_the_standards() -> None:
    header = text(plain(), "income").partition("\r\n")[0].split(",")
    assert header[:3] == ["STRUCTURE", "STRUCTURE_ID", "ACTION"]
    assert header[3:7] == ["STATE", "SEX", "MEASURE", "TIME_PERIOD"]
    assert header[7:] == ["OBS_VALUE", "OBS_STATUS", "CONF_STATUS", "STD_ERR", "MARGIN", "CI_LOWER", "CI_UPPER", "CONFIDENCE"]  # fmt: skip
    first = lines(plain(), "income")[0]
    assert first["STRUCTURE"] == "dataflow"
    assert first["STRUCTURE_ID"] == "EXAMPLE_STATISTICAL_OFFICE:REGIONAL_MONITOR_INCOME(1.0)"
    assert (first["ACTION"], first["STATE"], first["TIME_PERIOD"]) == ("I", "06", "2024-03")


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_those_of_the_csv_files(name: str) -> None:
    content = CASES[name]()
    files = csv_files(content, {})
    for table in content.tables:
        if not table.measures:
            continue
        found = lines(content, table.name)
        plain_lines = list(csv.DictReader(io.StringIO(files[f"tables/{table.name}.csv"].decode(), newline="")))
        expected = [(line, measure.name) for line in plain_lines for measure in table.measures]
        assert len(found) == len(expected) == table.cells * len(table.measures)
        for line, (row, measure) in zip(found, expected, strict=True):
            assert line["MEASURE"] == measure
            ends = {"OBS_VALUE": "", "STD_ERR": "_se", "MARGIN": "_margin", "CI_LOWER": "_lower", "CI_UPPER": "_upper"}
            assert {column: line[column] for column in ends} == {
                column: row[f"{measure}{ending}"] for column, ending in ends.items()
            }


def test_keys_stay_as_declared() -> None:
    keys = [line["REGION"] for line in lines(hostile(), "population")]
    assert keys == [key for key in HOSTILE for _ in range(2)]


def test_statuses_are_codes_of_the_standard() -> None:
    shown = {(line["STATE"], line["SEX"], line["MEASURE"]): line for line in lines(plain(), "income")}
    normal, weak, none = (shown[key] for key in (("06", "1", "earners"), ("50", "2", "earners"), ("50", "2", "average")))  # fmt: skip
    assert (normal["OBS_STATUS"], normal["CONF_STATUS"]) == ("A", "F")
    assert (weak["OBS_STATUS"], weak["CONF_STATUS"], weak["OBS_VALUE"]) == ("U", "F", "-7")
    assert (none["OBS_STATUS"], none["CONF_STATUS"], none["OBS_VALUE"]) == ("O", "F", "")
    hidden = [line for line in lines(plain(show="blank"), "income") if line["MEASURE"] == "earners"][-1]
    assert (hidden["OBS_STATUS"], hidden["CONF_STATUS"], hidden["OBS_VALUE"]) == ("Q", "N", "")
    gone = lines(chosen(), "countries")[-1]
    assert (gone["OBS_STATUS"], gone["CONF_STATUS"], gone["OBS_VALUE"]) == ("Q", "N", "")


def test_a_ranking_has_ranks_as_observations() -> None:
    found = [(line["PAGE"], line["MEASURE"], line["OBS_VALUE"]) for line in lines(chosen(), "top")]
    assert found == [("help", "rank", "1"), ("home", "rank", "2")]
    assert "RANK" not in text(chosen(), "top").splitlines()[0]


def test_a_table_without_keys_has_one_line_for_each_measure() -> None:
    (line,) = lines(whole(), "population")
    assert (line["MEASURE"], line["OBS_VALUE"]) == ("persons", "123456")


def test_private_keys_that_nothing_reached_give_a_header_alone() -> None:
    assert lines(chosen(keys=()), "terms") == []


@pytest.mark.parametrize(
    ("period", "known"),
    [
        *((period, True) for period in ("2024", "2024-Q1", "2024-03", "2024-W09", "2024-03-07")),
        *((period, False) for period in ("2024-Q5", "2024-W54", "2024-02-30", "20240", "٢٠٢٤", "2024/25", "spring")),
    ],
)
def test_the_period_is_a_time_where_sdmx_knows_it(period: str, known: bool) -> None:
    assert is_sdmx_period(period) is known
    (line, *_) = lines(plain(period=period), "population")
    assert line["TIME_PERIOD" if known else "PERIOD"] == period
    assert ("TIME_PERIOD" in line) is known


def test_key_columns_never_take_the_name_of_another_column() -> None:
    content = plain()
    table = content.tables[0]
    renamed = [column.model_copy(update={"name": name}) for column, name in zip(table.key_columns, ("obs value", "Obs-Value"), strict=True)]  # fmt: skip
    made = type(content)(content.plan, (type(table)(**{**vars(table), "key_columns": tuple(renamed)}),), content.facts)
    header = text(made, "population").splitlines()[0].split(",")
    assert header[3:5] == ["OBS_VALUE_2", "OBS_VALUE_3"]
    assert len(set(header)) == len(header)


def test_a_rehearsal_says_so_on_every_line() -> None:
    assert {line["COMMENT_DSET"] for line in lines(plain(rehearsal=True), "income")} == {NOTICE}
    assert "COMMENT_DSET" not in text(plain(), "income")


@pytest.mark.parametrize("name", CASES)
def test_pysdmx_reads_the_same_numbers(name: str) -> None:
    content = CASES[name]()
    for table in content.tables:
        if not table.cells or not table.measures:
            continue
        dataset = by_pysdmx(content, table.name)
        frame = dataset.data
        values = [math.nan if value == "NaN" or not value else float(value) for value in frame["OBS_VALUE"]]
        expected = [float(measure.value[row]) for row in range(table.cells) for measure in table.measures]
        assert values == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)
        assert list(frame["MEASURE"]) == [measure.name for measure in table.measures] * table.cells
        assert dataset.short_urn.startswith("Dataflow=")


def test_pysdmx_makes_numbers_of_codes_and_the_file_does_not() -> None:
    """The trap that the documents warn of; when this fails, pysdmx has learnt to keep them, and the documents can say so."""
    content = plain()
    dataset = by_pysdmx(content, "income")
    assert set(dataset.data["STATE"]) == {"6", "8", "12", "36", "48", "50"}
    declared = {key_as_text(key) for key in content.tables[1].keys[0]}
    assert {line["STATE"] for line in lines(content, "income")} == declared == {"06", "08", "12", "36", "48", "50"}


def test_the_same_release_gives_the_same_bytes() -> None:
    assert sdmx_files(chosen(), {}) == sdmx_files(chosen(), {})
