"""Lists of public codes: as many as their sources have, unique, in order, and each with a source and a date."""

from __future__ import annotations

import csv
import io
from datetime import date
from importlib.resources import files

import pytest

from dprelease.errors import SpecError
from dprelease.starter.code_lists import CODE_LISTS, code_list

SIZES = {
    "iso-countries-alpha2": 249,
    "iso-countries-alpha3": 249,
    "us-states": 56,
    "us-states-postal": 56,
    "nace-rev2-sections": 21,
    "isco-major-groups": 10,
}


def rows(name: str) -> dict[str, str]:
    head, *lines = csv.reader(io.StringIO(code_list(name).content.decode("utf-8")))
    assert head == ["code", "name"]
    assert all(len(line) == 2 and all(line) for line in lines)
    found = dict(lines)
    assert len(found) == len(lines)
    return found


@pytest.mark.parametrize("name", CODE_LISTS)
def test_a_list_has_the_codes_of_its_source(name: str) -> None:
    assert len(rows(name)) == SIZES[name]
    assert code_list(name).source
    assert code_list(name).note
    assert date.fromisoformat(code_list(name).as_of)


def test_every_file_is_a_list() -> None:
    there = {each.name for each in (files("dprelease.starter") / "lists").iterdir() if each.name.endswith(".csv")}
    assert there == {f"{name}.csv" for name in CODE_LISTS}


def test_lists_of_the_same_things_agree() -> None:
    assert sorted(rows("iso-countries-alpha2").values()) == sorted(rows("iso-countries-alpha3").values())
    assert sorted(rows("us-states").values()) == sorted(rows("us-states-postal").values())
    assert {code: rows("us-states")[code] for code in ("01", "11", "56", "72")} == {
        "01": "Alabama",
        "11": "District of Columbia",
        "56": "Wyoming",
        "72": "Puerto Rico",
    }
    assert list(rows("nace-rev2-sections")) == list("ABCDEFGHIJKLMNOPQRSTU")
    assert sorted(rows("isco-major-groups")) == list("0123456789")


def test_countries_are_those_of_an_independent_package() -> None:
    iso3166 = pytest.importorskip("iso3166")
    for name, field in (("iso-countries-alpha2", "alpha2"), ("iso-countries-alpha3", "alpha3")):
        assert set(rows(name)) == {getattr(each, field) for each in iso3166.countries if each.alpha2 != "XK"}


def test_an_unknown_list_is_told_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="did you mean `us-states`"):
        code_list("us-state")
