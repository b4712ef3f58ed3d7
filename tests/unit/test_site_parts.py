"""A wide table is cut where paper ends: every number stands once, and every part holds the keys."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.catalog.table import Column
from dprelease.estimate import PublishedMeasure, PublishedTable, Status
from dprelease.publish.site import cells as cells_module
from dprelease.publish.site import parts as parts_module
from dprelease.publish.site.cells import Cells, number_cells, rows
from dprelease.publish.site.parts import PaperPart, paper_parts, part_rows

KEYS = ("one", "two", "three")
SHEET = 112  # signs of an upright sheet of A4 in small print


def wide(measures: int, size: float, status: Status = "ok") -> PublishedTable:
    """A table whose numbers differ in every cell."""
    made = []
    for at in range(measures):
        value = size + np.arange(3.0) + 10 * at
        made.append(
            PublishedMeasure(
                f"m{at}", None, value, np.full(3, 2.0), np.full(3, 4.0), value - 4, value + 4, (status,) * 3, 0, False
            )
        )
    column = Column(name="place", type="text", keys=KEYS)
    return PublishedTable("t", "T", (column,), (KEYS,), tuple(made), Fraction(95, 100), 3)


def texts(html: str) -> list[list[str]]:
    """Of every row the text of its cells."""
    lines = re.findall("<tr>(.*?)</tr>", html)
    return [[re.sub("<[^>]*>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", line)] for line in lines]


@pytest.mark.parametrize(("measures", "size"), [(1, 5.0), (4, 1e6), (12, 3e5), (100, 1e3), (30, 1e14)])
def test_every_number_stands_in_one_part_and_the_keys_in_all(measures: int, size: float) -> None:
    table = wide(measures, size)
    made = [texts(each.rows) for each in part_rows(table, paper_parts(table), 0, 3)]
    whole = texts(rows(table, 0, 3))
    for at, line in enumerate(whole):
        assert [each[at][0] for each in made] == [line[0]] * len(made)
        assert [cell for each in made for cell in each[at][1:]] == line[1:]


@pytest.mark.parametrize("status", ["ok", "unreliable"])
@pytest.mark.parametrize("size", [5.0, 3e5, 1e14])
def test_no_line_of_a_part_is_longer_than_a_sheet_of_paper(size: float, status: Status) -> None:
    table = wide(40, size, status)
    parts = paper_parts(table)
    assert len(parts) > 1
    for each in part_rows(table, parts, 0, 3):
        assert max(sum(map(len, line)) + 2 * len(line) for line in texts(each.rows)) <= SHEET
    in_one = PaperPart(table.measures, wide=True)  # the same measure of length has the power to fail
    assert max(sum(map(len, line)) for line in texts(part_rows(table, [in_one], 0, 3)[0].rows)) > SHEET


def test_one_large_number_makes_its_column_wide_on_every_page() -> None:
    table = wide(8, 10.0)
    plain = paper_parts(table)
    assert [len(each.measures) for each in plain] == [8]
    values = table.measures[0].value + np.array([0, 0, 1e15])
    large = replace(table.measures[0], value=values, lower=values - 4, upper=values + 4)
    again = replace(table, measures=(large,) * 8)
    assert len(paper_parts(replace(again, measures=tuple(replace(large, name=f"m{at}") for at in range(8))))) > 1


def test_a_table_of_keys_alone_is_one_part() -> None:
    table = replace(wide(1, 5.0), measures=())
    assert [each.measures for each in paper_parts(table)] == [()]
    assert [line[0] for line in texts(part_rows(table, paper_parts(table), 1, 3)[0].rows)] == ["two", "three"]


@pytest.mark.parametrize("status", ["ok", "unreliable"])
def test_the_cells_of_one_row_are_made_once(status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    table, made = wide(4, 3e5, status).first(1), list[str]()

    def counted(measure: PublishedMeasure, *rest: Any) -> Cells:
        made.append(measure.name)
        return number_cells(measure, *rest)

    expected = rows(table, 0, 1)
    for module in (cells_module, parts_module):
        monkeypatch.setattr(module, "number_cells", counted)
    parts = paper_parts(table)
    (only,) = part_rows(table, parts, 0, 1)
    assert only.rows == expected
    assert made == ["m0", "m1", "m2", "m3"]
    assert part_rows(table, parts, 0, 0)[0].rows == ""
