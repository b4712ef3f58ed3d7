"""Charts draw what the tables say: intervals as they are published, nothing where nothing is, and readable axes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.catalog.table import Column
from dprelease.estimate import PublishedMeasure, PublishedTable, Status, interval, statuses
from dprelease.measures import MEASURES, expand_measures
from dprelease.publish.site.chart import Chart, chart, charts_of


def drawn(value: list[float], margin: list[float], weak: list[bool] | None = None, **more: object) -> Chart | None:
    """The chart of some counts."""
    numbers, reach = np.array(value), np.array(margin)
    lower, upper = interval(numbers, reach, (Fraction(0), None))
    unreliable = np.array(weak or [False] * len(value))
    measure = PublishedMeasure(
        "n", None, numbers, reach / 2, reach, lower, upper, statuses(np.isnan(numbers), unreliable), 0, False
    )
    measure = replace(measure, **more)  # type: ignore[arg-type]
    column = Column(name="k", type="integer", keys=tuple(range(len(value))))
    table = PublishedTable("t", "", (column,), (range(len(value)),), (measure,), Fraction(95, 100), len(value))
    return chart(table, measure)


def at(chart: Chart, place: str | None) -> float:
    """The number at a place, by the ticks."""
    (first, low), (last, high) = chart.ticks[0], chart.ticks[-1]
    one, two = (float(text.replace(",", "").replace("−", "-")) for text in (low, high))
    assert place is not None
    return one + (float(place) - float(first)) / (float(last) - float(first)) * (two - one)


def test_a_line_ends_where_the_published_interval_ends() -> None:
    found = drawn([10, 200], [37, 30])
    assert found is not None
    assert at(found, found.bars[0].low) == pytest.approx(0, abs=0.1)
    assert at(found, found.bars[0].high) == pytest.approx(47, abs=0.1)
    assert found.ticks[0][1] == "0"


def test_the_line_of_a_number_that_was_moved_is_the_interval_of_its_estimate() -> None:
    found = drawn([10, 200], [37, 30], unadjusted=np.array([90.0, 210.0]), lower=np.array([53.0, 180.0]),
                  upper=np.array([127.0, 240.0]))  # fmt: skip
    assert found is not None
    assert at(found, found.bars[0].low) == pytest.approx(53, abs=0.1)
    assert at(found, found.bars[0].high) == pytest.approx(127, abs=0.1)
    assert "before" in found.line


def test_what_cannot_be_is_not_told_as_not_published() -> None:
    """A group has no difference from itself: of the numbers that there can be, all are published."""
    found = drawn([1, 2, float("nan")], [1, 1, float("nan")], never=np.array([False, False, True]))
    assert found is not None
    assert [each.possible for each in found.bars] == [True, True, False]
    assert found.notes == ()


def test_what_is_not_published_has_no_bar_and_is_counted() -> None:
    nothing = [float("nan")] * 27
    found = drawn([1, 2, 3, *nothing], [1, 1, 1, *nothing])
    assert found is not None
    assert [bar.label for bar in found.bars if bar.published] == ["0", "1", "2"]
    assert all(bar.at is None and bar.low is None and bar.width == "0.00" for bar in found.bars[3:])
    assert found.notes == ("27 of the 30 numbers are not published.",)
    assert drawn([1, *nothing], [1, *nothing]) is None


def test_one_unreliable_number_does_not_make_all_others_a_line_at_zero() -> None:
    found = drawn([0.2, 0.3, 0.25, -2000], [0.02, 0.02, 0.02, 3000], [False, False, False, True])
    assert found is not None
    assert all(float(bar.width) > 20 for bar in found.bars[:3])
    assert (found.bars[3].less, found.bars[3].more) == (True, True)
    assert not any(bar.less or bar.more for bar in found.bars[:3])
    assert all(0 <= float(place) <= 100 for bar in found.bars for place in (bar.left, bar.low, bar.high) if place)
    assert "arrow" in found.notes[-1]


@pytest.mark.parametrize(
    ("largest", "unit"),
    [
        (5e3, ""),
        (2e4, "thousands"),
        (3e6, "millions"),
        (4e11, "billions"),
        (5e12, "trillions"),
        (6e17, "units of 10¹⁵"),
    ],
)
def test_an_axis_has_short_numbers_whatever_the_size(largest: float, unit: str) -> None:
    found = drawn([largest, largest / 3], [largest / 10, largest / 10])
    assert found is not None
    assert found.unit == unit
    assert all(len(text) <= 5 for _, text in found.ticks)


def test_a_number_without_an_interval_has_no_line() -> None:
    none = float("nan")
    found = drawn([5, 6], [none, none])
    assert found is not None
    assert all(bar.low is None and bar.high is None for bar in found.bars)


def test_an_interval_of_a_reliable_number_is_cut_only_where_it_would_spoil_the_axis() -> None:
    found = drawn([100, 50, 40, 30, 20, 10, 5, 4, 3, 2, 1], [6, *[1] * 10])
    assert found is not None
    assert not any(bar.more for bar in found.bars)
    found = drawn([100, 50, 40, 30, 20, 10, 5, 4, 3, 2, 1], [900, *[1] * 10])
    assert found is not None
    assert [bar.more for bar in found.bars] == [True] + [False] * 10
    assert float(found.bars[1].width) > 20


def test_only_what_is_part_of_a_whole_is_a_bar() -> None:
    counts = drawn([5, 6], [1, 1])
    negative = drawn([-5, 6], [1, 1], lower=np.array([-6.0, 5.0]))
    mean = drawn([500, 510], [1, 1], measure=MEASURES["mean"].model_validate({"mean": "x"}))
    assert counts is not None
    assert negative is not None
    assert mean is not None
    assert (counts.dots, negative.dots, mean.dots) == (False, True, True)
    assert counts.zero == "0.00"
    assert mean.zero is None  # the axis is near the numbers
    assert len(mean.ticks) >= 2


def quantiles(rows: int, ranks: int) -> PublishedTable:
    at = [f"{each}/{ranks + 1}" for each in range(1, ranks + 1)]
    asked = {"pay": MEASURES["quantiles"].model_validate({"quantiles": "pay", "at": at})}
    made = []
    for place, (name, measure) in enumerate(expand_measures(asked).items()):
        value: npt.NDArray[np.float64] = np.arange(rows, dtype=np.float64) + 100 * (place + 1)
        margin = np.full(rows, 10.0)
        status: Status = "ok"
        made.append(
            PublishedMeasure(name, measure, value, margin, margin, value - 10, value + 10, (status,) * rows, 0, False)
        )
    column = Column(name="k", type="integer", keys=tuple(range(rows)))
    return PublishedTable("t", "", (column,), (range(rows),), tuple(made), Fraction(95, 100), rows)


@pytest.mark.parametrize(("rows", "charts", "bars"), [(3, 3, 9), (20, 9, 20)])
def test_quantiles_of_one_column_have_one_axis(rows: int, charts: int, bars: int) -> None:
    found = charts_of(quantiles(rows, 9))
    assert [len(each.bars) for each in found] == [bars] * charts
    assert len({each.ticks for each in found}) == 1
    assert all(not bar.less and not bar.more for each in found for bar in each.bars)
    if rows == 3:
        assert [bar.label for bar in found[0].bars][:2] == ["10 %", "20 %"]
        assert [each.measure for each in found] == ["pay: 0", "pay: 1", "pay: 2"]


def test_nobody_is_shown_a_hundred_charts() -> None:
    one = quantiles(3, 1)
    many = [replace(one.measures[0], name=f"n{at}", measure=None) for at in range(100)]
    assert charts_of(replace(one, measures=tuple(many))) == ()
    assert len(charts_of(replace(one, measures=tuple(many[:12])))) == 12
