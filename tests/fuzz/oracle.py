"""The numbers of a release without noise, worked out by pandas from the rows and from what the plan says is published.

It shares no code with engines, measures or estimates. Of expressions it takes the reference of ``tests``, which evaluates
them row by row in plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import pandas as pd

from dprelease.catalog.expressions.expression import parse
from dprelease.catalog.table import Binned, Catalog, Column, Computed, Mapped, Table
from dprelease.plan.document import PlannedQuery, ReleasePlan
from tests.reference_expressions import evaluate

__all__ = ["Expected", "Frames", "NoOracle", "Oracle", "References", "cells_of", "read"]

Frames = Mapping[str, pd.DataFrame]
References = Mapping[str, pd.DataFrame]
TOTAL = "_total"
_CLASSES = 1024


class NoOracle(Exception):
    """What is published is nothing that the oracle works out."""


class Expected:
    """Where a published number has to lie; nothing published where ``low`` is NaN.

    ``edge``: it is a quotient by the least number that there is a quotient by. Least squares leave that number, but for
    the rounding of doubles, and what is a hair below it has none.
    """

    def __init__(self, low: float | Fraction, high: float | Fraction | None = None, *, edge: bool = False) -> None:
        self.low, self.high, self.edge = float(low), float(low if high is None else high), edge

    def holds(self, number: float) -> bool:
        """Whether a number is it, but for rounding of doubles."""
        hair = 1e-9 * max(1.0, abs(self.low), abs(self.high))
        return self.low - hair <= number <= self.high + hair

    def wider(self, by: float) -> Expected:
        """The same, and so much on both sides, as for a number that is rounded afterwards."""
        return Expected(self.low - by, self.high + by, edge=self.edge)

    def __repr__(self) -> str:
        return f"{self.low}" if self.low == self.high else f"{self.low} to {self.high}"


# -- rows ----------------------------------------------------------------------------------------------------------------


def read(catalog: Catalog, table: Table, frame: pd.DataFrame, references: References) -> pd.DataFrame:
    """The rows of a table as its queries see them: typed, of the period, joined, derived; ``_unit`` says whose they are.

    Numbers are ``Fraction``; what is missing is None.

    Raises:
        NoOracle: Where the table has joins or weights that are not worked out here.
    """
    if table.private_joins or table.weight is not None:
        raise NoOracle("private joins" if table.private_joins else "weights")
    nulls = set(table.source.null_values)
    found = pd.DataFrame(index=frame.index)
    for column in table.columns:
        if column.in_source:
            found[column.name] = pd.Series(
                [_typed(column, text, nulls) for text in frame[column.name]], frame.index, object
            )
    units = list(frame.index) if table.unit_id is None else _units(table, frame, nulls)
    found["_unit"] = pd.Series(units, frame.index, object)
    if table.time is not None:
        days = pd.to_datetime(frame[table.time.column].where(~frame[table.time.column].isin(nulls)), errors="coerce")
        found = found[(days >= pd.Timestamp(table.time.start)) & (days < pd.Timestamp(table.time.end))]
    found = found[[unit is not None for unit in found["_unit"]]]
    for join in table.joins:
        public = references[join.reference].drop_duplicates(join.on).set_index(join.on)
        for name in join.add:
            column = table.column(name)
            texts = [public[name].get(_key_text(value)) if value is not None else None for value in found[join.on]]
            found[name] = pd.Series([_typed(column, text, set()) for text in texts], found.index, object)
    for column in table.columns:
        if column.derivation is not None:
            found[column.name] = pd.Series(_derived(table, column, found), found.index, object)
    return found


def _units(table: Table, frame: pd.DataFrame, nulls: set[str]) -> list[object]:
    alone = table.null_id == "unit"
    texts = frame[str(table.unit_id)]
    return [text if text not in nulls else (at if alone else None) for at, text in zip(frame.index, texts, strict=True)]


def _key_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _typed(column: Column, text: str | None, nulls: set[str]) -> Any:
    if text is None or text in nulls:
        return None
    if column.type == "text":
        return text
    if column.type == "boolean":
        return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(text.strip().lower())
    if column.type in ("date", "timestamp"):
        day = pd.to_datetime(text, errors="coerce", format="%Y-%m-%d" if column.type == "date" else None)
        return None if pd.isna(day) else text
    try:
        number = Fraction(text)
    except ValueError:
        return None
    if number.denominator != 1 if column.type == "integer" else not math.isfinite(float(text)):
        return None
    if column.type == "integer" and column.range is None and not -(2**63) <= number < 2**63:
        return None
    if column.range is not None and not column.range.low <= number <= column.range.high:
        if column.outside == "null":
            return None
        number = min(max(number, column.range.low), column.range.high)
    return number


def _derived(table: Table, column: Column, rows: pd.DataFrame) -> list[Any]:
    rule = column.derivation
    if isinstance(rule, Binned):
        edges = pd.IntervalIndex.from_breaks([float(edge) for edge in rule.edges], closed="left")
        places = edges.get_indexer(pd.Index([math.nan if value is None else float(value) for value in rows[rule.of]]))
        return [rule.labels[at] if at >= 0 else None for at in places]
    if isinstance(rule, Mapped):
        pairs = {(_key_text(given)): key for given, key in rule.pairs}
        return [None if value is None else pairs.get(_key_text(value), rule.otherwise) for value in rows[rule.of]]
    assert isinstance(rule, Computed)
    values = _evaluated(table, rule.sql, rows)
    if column.range is not None or column.type == "decimal":
        return [_within(column, value) for value in values]
    return values


def _within(column: Column, value: Any) -> Any:
    if value is None:
        return None
    number = Fraction(value)
    if column.range is not None and not column.range.low <= number <= column.range.high:
        return None if column.outside == "null" else min(max(number, column.range.low), column.range.high)
    return number


def _evaluated(table: Table, sql: str, rows: pd.DataFrame) -> list[Any]:
    expression = parse(sql, {column.name: column.type for column in table.columns})
    whole = {column.name for column in table.columns if column.type == "integer"}
    records = rows.drop(columns="_unit").to_dict("records")
    return [
        evaluate(expression, {str(name): _plain(value, name in whole) for name, value in each.items()})
        for each in records
    ]


def _plain(value: Any, whole: bool) -> Any:
    return (int(value) if whole else float(value)) if isinstance(value, Fraction) else value


def cells_of(table: Table, by: tuple[str, ...], rows: pd.DataFrame) -> pd.Series:
    """The cell of every row; None where it is in none."""
    parts = []
    for name in by:
        column = table.column(name)
        known = None if column.keys is None else {_key_text(key) for key in column.keys}
        null = None if column.null is None else _key_text(column.null)
        texts = [null if value is None else _key_text(value) for value in rows[name]]
        parts.append([text if known is None or text in known else None for text in texts])
    cells = [None if None in cell else cell for cell in zip(*parts, strict=True)] if by else [()] * len(rows)
    return pd.Series(cells, rows.index, object)


# -- tables --------------------------------------------------------------------------------------------------------------


class Oracle:
    """What a release of these rows publishes without noise."""

    def __init__(self, plan: ReleasePlan, frames: Frames, references: References) -> None:
        self.plan, self.frames, self.references = plan, frames, references

    @cached_property
    def rows(self) -> dict[str, pd.DataFrame]:
        """The rows of every table."""
        return {
            name: read(self.plan.catalog, table, self.frames[name], self.references)
            for name, table in self.plan.catalog.tables.items()
        }

    def counted(self, query: PlannedQuery) -> tuple[pd.DataFrame, tuple[str, ...]]:
        """The rows that a query looks at, with their cells in ``_cell``, and its key columns.

        Raises:
            NoOracle: Where it is of a kind that is not worked out here.
        """
        if query.zeros is not None or query.series is not None or query.ranges is not None:
            raise NoOracle("zeros, series or ranges")
        table, rows = self.plan.catalog.tables[query.table], self.rows[query.table].copy()
        rows["_cell"] = cells_of(table, query.by, rows)
        if query.where is not None:
            rows = rows[[value is True for value in _evaluated(table, query.where, rows.drop(columns="_cell"))]]
        for name in query.complete:
            rows = rows[cells_of(table, (name,), rows).notna()]
        return rows[rows["_cell"].notna()], query.by

    def expected(self, query: PlannedQuery, rows: pd.DataFrame, measure: Any) -> Expected:
        """One number of one published row, of the rows that are in its cells."""
        table = self.plan.catalog.tables[query.table]
        return _Cell(table, rows).of(measure)


class _Cell:
    def __init__(self, table: Table, rows: pd.DataFrame) -> None:
        self.table, self.rows = table, rows

    def of(self, measure: Any) -> Expected:
        """What a measure is of these rows."""
        rows = self.rows
        if measure.kind == "ratio":
            return self._ratio(measure)
        if measure.where is not None and len(rows):
            rows = rows[[value is True for value in _evaluated(self.table, measure.where, rows.drop(columns="_cell"))]]
        known = rows if measure.column is None else rows[rows[measure.column].notna()]
        kind = measure.kind
        if kind == "count":
            return Expected({"rows": len(rows), "units": rows["_unit"].nunique()}.get(measure.count, len(known)))
        if kind == "count_distinct":
            return Expected(known[measure.column].map(_key_text).nunique())
        if kind == "randomized":
            return self._randomized(measure, known)
        if kind in ("sum", "mean", "variance", "stddev"):
            return self._moment(measure, known)
        return self._ranked(measure, known)

    def _ratio(self, measure: Any) -> Expected:
        above, below = (self.of(part) for part in measure.of)
        step = 1 if measure.of[1].column is None else float(self.table.column(measure.of[1].column).grid_of("sum"))
        least = step if measure.of[1].kind == "sum" else 1
        if below.low < least:
            return Expected(math.nan)
        return Expected(measure.whole * above.low / below.low, edge=below.low == least)

    def _randomized(self, measure: Any, known: pd.DataFrame) -> Expected:
        law = measure.response
        p, q = law.kept, law.other
        answers = known[measure.column].map(_key_text)
        mine = int((answers == measure.key).sum())
        every = int(answers.isin([_key_text(key) for key in self.table.column(measure.column).keys or ()]).sum())
        found = (mine - every * q) / (p - q)
        if measure.show == "share":
            return Expected(found / every) if every else Expected(math.nan)
        return Expected(found)

    def _values(self, measure: Any, known: pd.DataFrame, kind: str, *, clips: bool = True) -> pd.Series:
        """The values on their grid, each clipped."""
        column = self.table.column(measure.column)
        step = column.grid_of(kind)
        low, high = self._limits(measure)
        rounded = known[column.name].map(lambda value: _half_away(value / step) * step)
        return rounded.map(lambda value: min(max(value, low), high)) if clips else rounded

    def _limits(self, measure: Any) -> tuple[Fraction, Fraction]:
        if measure.chosen_clip is not None:
            raise NoOracle("a clip that noise chooses")
        column = self.table.column(measure.column)
        assert column.range is not None
        return measure.clip if measure.clip is not None else (column.range.low, column.range.high)

    def _moment(self, measure: Any, known: pd.DataFrame) -> Expected:
        if measure.clip_per == "unit_cell" and self.table.unit_id is not None:
            low, high = self._limits(measure)
            sums = self._values(measure, known, "sum", clips=False).groupby([known["_unit"], known["_cell"]]).sum()
            values = sums.map(lambda value: min(max(value, low), high))
        else:
            values = self._values(measure, known, "sum")
        if measure.kind == "sum":
            return Expected(sum(values, Fraction(0)))
        if not len(values):
            return Expected(math.nan)
        mean = sum(values, Fraction(0)) / len(values)
        if measure.kind == "mean":
            return Expected(mean, edge=len(values) == 1)
        squares = sum(((value - mean) ** 2 for value in values), Fraction(0)) / len(values)
        grain = float(self._grain(measure))
        low_end, high_end = max(0.0, float(squares) - grain), float(squares) + grain
        ends = (low_end, high_end) if measure.kind == "variance" else (low_end**0.5, high_end**0.5)
        return Expected(*ends, edge=len(values) == 1)

    def _grain(self, measure: Any) -> Fraction:
        """Squares are measured in coarse grains: of a wide clip the error is a part of them, at most 1e-4 of h squared."""
        low, high = self._limits(measure)
        return ((high - low) / 2) ** 2 / 10**4

    def _ranked(self, measure: Any, known: pd.DataFrame) -> Expected:
        low, high = self._limits(measure)
        values = sorted(self._values(measure, known, "quantile"))
        step = self.table.column(measure.column).grid_of("quantile")
        if measure.kind == "quantile":
            return _quantile(values, measure.at, low, high, Fraction(0))
        wide = _widest(low, high, step, tuple(getattr(measure, "edges", ())))
        if measure.kind == "counted_quantile":  # of no values any number within the clip is one, as is said of it
            return _quantile(values, measure.at, low, high, wide)
        if not values:
            return Expected(math.nan)
        if measure.kind == "counted_share":
            share = Fraction(sum(value < measure.below for value in values), len(values))
            return Expected(share * (100 if measure.show == "percent" else 1))
        if measure.kind == "counted_ratio":
            over, under = (_quantile(values, at, low, high, wide) for at in (measure.over, measure.under))
            if under.low <= 0:
                raise NoOracle("a quantile that may be 0")
            return Expected(max(1.0, over.low / under.high), over.high / under.low)
        return _gini(values, wide if wide > step else Fraction(0))


def _half_away(value: Fraction) -> int:
    whole = int(abs(value) + Fraction(1, 2))
    return whole if value >= 0 else -whole


def _quantile(values: list[Fraction], at: Fraction, low: Fraction, high: Fraction, wide: Fraction) -> Expected:
    """Every number with at most ``at n`` values below and ``(1 - at) n`` above it, and a class of values on both sides."""
    if not values:
        return Expected(low, high)
    rank = at * len(values)
    first, last = max(math.ceil(rank) - 1, -1), math.floor(rank)
    least = values[first] if first >= 0 else low
    most = values[last] if last < len(values) else high
    return Expected(max(low, least - wide), min(high, most + wide))


def _gini(values: list[Fraction], wide: Fraction) -> Expected:
    """The mean of all differences over twice the mean: sum (2 i - n - 1) x_i / (n sum x), of the sorted values.

    Values that lie elsewhere in a class of some width move the mean difference by that width at most, and so the mean.
    What is published has what noise would have taken on average added, so that only the lower end is sharp.
    """
    size, total = len(values), sum(values, Fraction(0))
    if not total:
        return Expected(0, 1)
    found = sum((2 * at - size - 1) * value for at, value in enumerate(values, 1)) / (size * total)
    beside = float(wide * size / total)
    return Expected(float(found) - 2 * beside, 1)


def _widest(low: Fraction, high: Fraction, step: Fraction, edges: tuple[Fraction, ...]) -> Fraction:
    if edges:
        return max(after - before for before, after in zip(edges, (*edges[1:], high + step), strict=True))
    steps = (high - low) / step + 1
    return step * max(1, 10 * math.ceil(steps / _CLASSES)) if steps > _CLASSES else step
