"""The truth about the four real files, from the files themselves: DuckDB and numpy, nothing of dprelease.

Of every published number there are two truths: ``raw``, without bounds and clips, over all rows of which the unit is
known; and ``clipped``, where every value is rounded and clipped as the spec says, and still every row counts. Where
nothing is sampled, the second one is what a release hides behind noise. The specs are not read: what they ask is
written here a second time.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt

__all__ = [
    "DATA",
    "FILES",
    "QUESTIONS",
    "Question",
    "Truth",
    "country_sizes",
    "product_sizes",
    "sampled_customers",
    "truth_of",
]

Floats = npt.NDArray[np.float64]
Cell = tuple[str, ...]

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
REFERENCES = ROOT / "specs" / "reference"
FILES = {
    "retail": DATA / "online_retail.parquet",
    "crashes": DATA / "fars_crashes_2013_2015.csv",
    "flights": DATA / "nycflights13.parquet",
    "incomes": DATA / "nist_acs_national2019.csv",
}
CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")
_RETAIL, _FLIGHTS = (f"read_parquet('{FILES[name]}')" for name in ("retail", "flights"))
_CRASHES = f"read_csv('{FILES['crashes']}', all_varchar = true)"
_PERSONS = f"read_csv('{FILES['incomes']}', all_varchar = true, nullstr = ['', 'N'])"

_SALES = f"""SELECT Country, year(InvoiceDate) * 100 + month(InvoiceDate) AS month, *,
  round(Quantity * greatest(least(UnitPrice, 10000), 0), 2) AS money, Quantity * UnitPrice AS raw_money
  FROM {_RETAIL} WHERE CustomerID IS NOT NULL"""
_BASKETS = f"""SELECT Country, month, CustomerID, sum(raw_money) AS raw_money, sum(money) AS money
  FROM ({_SALES}) GROUP BY Country, month, CustomerID"""
_CRASH = f"""SELECT STATE::INT AS state, STATE::INT * 1000 + COUNTY::INT AS county, MONTH::INT AS month,
  FATALS::INT AS fatals FROM {_CRASHES}"""
_DEPARTURES = f"SELECT carrier, month, tailnum, dep_delay AS delay FROM {_FLIGHTS} WHERE tailnum IS NOT NULL"
_PEOPLE = f"""SELECT PUMA AS area, AGEP::INT AS age, DPHY, DREM, PINCP::DOUBLE AS raw_income,
  round(PINCP::DOUBLE / 100) * 100 AS income, CASE WHEN EDU::INT <= 2 THEN 'none' WHEN EDU::INT <= 7 THEN 'school'
  WHEN EDU::INT <= 10 THEN 'college' WHEN EDU::INT <= 12 THEN 'degree' END AS education FROM {_PERSONS}"""


def _clip(name: str, low: int, high: int) -> str:
    return f"greatest(least({name}, {high}), {low})"


@dataclass(frozen=True)
class Question:
    """One query, in SQL.

    Attributes:
        rows: What is read.
        by: Key columns of ``rows``, with where their values are listed.
        where: Of the query.
        measures: Name to the raw and the clipped form.
        values: Of quantiles: the measure's name before ``_q``, to the raw and the clipped value.
        exact: Whether nothing is sampled, so that the clipped truth is what noise is added to.
    """

    rows: str
    by: tuple[str, ...]
    measures: dict[str, tuple[str, str]]
    where: str = "true"
    values: dict[str, tuple[str, str]] = field(default_factory=dict)
    exact: bool = True


@dataclass(frozen=True)
class Truth:
    """Of one query, cell by cell in published order.

    Attributes:
        cells: The keys as text.
        raw: By measure, shape ``(cells,)``; NaN where there is nothing to speak of.
        clipped: As raw.
        values: By the name of a set of quantiles, for each cell its sorted values, raw and clipped.
    """

    cells: tuple[Cell, ...]
    raw: dict[str, Floats]
    clipped: dict[str, Floats]
    values: dict[str, tuple[tuple[Floats, ...], tuple[Floats, ...]]]


def _same(text: str) -> tuple[str, str]:
    return text, text


_INCOMES = {
    "earners": _same("count(income)"),
    "average": ("avg(raw_income)", f"avg({_clip('income', 0, 200_000)})"),
    "spread": ("stddev_pop(raw_income)", f"stddev_pop({_clip('income', 0, 200_000)})"),
}
_INCOME = {"income": ("raw_income", _clip("income", 0, 300_000))}
_SEVERAL = "count(*) FILTER (fatals >= 2)"
_LATE = "count(*) FILTER (delay > 15)"
_DEATHS = {"crashes": _same("count(*)"), "deaths": ("sum(fatals)", f"sum({_clip('fatals', 0, 3)})")}
_WALK, _MIND, _ASKED = "count(*) FILTER (DPHY = '1')", "count(*) FILTER (DREM = '1')", "count(DPHY)"

QUESTIONS: dict[tuple[str, str], Question] = {
    ("retail", "revenue"): Question(
        _BASKETS,
        ("Country", "month"),
        {"customers": _same("count(*)"), "revenue": ("sum(raw_money)", f"sum({_clip('money', -200, 2000)})")},
        exact=False,
    ),
    ("retail", "orders"): Question(
        _SALES, ("Country", "month"), {"orders": _same("count(DISTINCT InvoiceNo)")}, "Quantity > 0", exact=False
    ),
    ("crashes", "states"): Question(
        _CRASH,
        ("state", "month"),
        {**_DEATHS, "several": _same(_SEVERAL), "share_several": _same(f"100 * {_SEVERAL} / count(*)")},
    ),
    ("crashes", "counties"): Question(_CRASH, ("county",), _DEATHS),
    ("crashes", "counties_by_month"): Question(_CRASH, ("county", "month"), {"crashes": _same("count(*)")}),
    ("flights", "delays"): Question(
        _DEPARTURES,
        ("carrier", "month"),
        {"sampled": _same("count(delay)"), "average": ("avg(delay)", f"avg({_clip('delay', -15, 90)})")},
        values={"delay": ("delay", _clip("delay", -30, 180))},
        exact=False,
    ),
    ("flights", "carriers"): Question(
        _DEPARTURES,
        ("carrier",),
        {
            "sampled": _same("count(delay)"),
            "late": _same(_LATE),
            "rate": _same(f"100 * {_LATE} / nullif(count(delay), 0)"),
            "aircraft": _same("count(DISTINCT tailnum)"),
        },
        exact=False,
    ),
    ("incomes", "education"): Question(_PEOPLE, ("education",), _INCOMES, "age >= 25", _INCOME),
    ("incomes", "areas"): Question(_PEOPLE, ("area",), _INCOMES, "age >= 15", _INCOME),
    ("incomes", "disability"): Question(
        _PEOPLE,
        ("area",),
        {
            "asked": _same(_ASKED),
            "walking": _same(_WALK),
            "remembering": _same(_MIND),
            "walking_rate": _same(f"100 * {_WALK} / {_ASKED}"),
            "remembering_rate": _same(f"100 * {_MIND} / {_ASKED}"),
        },
    ),
}


def _listed(file: str, column: str) -> tuple[str, ...]:
    with (REFERENCES / file).open(encoding="utf-8", newline="") as lines:
        return tuple(dict.fromkeys(row[column] for row in csv.DictReader(lines)))


def _keys(spec: str, column: str) -> tuple[str, ...]:
    """The public keys, in published order."""
    if column == "month":
        months = [str(month) for month in range(1, 13)]
        return ("201012", *(f"2011{m:0>2}" for m in months)) if spec == "retail" else tuple(months)
    lists: dict[str, Callable[[], tuple[str, ...]]] = {
        "Country": lambda: _listed("markets.csv", "country"),
        "state": lambda: _listed("counties.csv", "state"),
        "county": lambda: _listed("counties.csv", "county"),
        "area": lambda: _listed("acs_geography.csv", "PUMA"),
        "carrier": lambda: CARRIERS,
        "education": lambda: ("none", "school", "college", "degree"),
    }
    return lists[column]()


def truth_of(spec: str, query: str) -> Truth:
    """Both truths of every cell of a query."""
    question = QUESTIONS[spec, query]
    cells = tuple(product(*(_keys(spec, column) for column in question.by)))
    found = [_measured(question, at, cells) for at in (0, 1)]
    values = {name: (_sorted(question, forms[0], cells), _sorted(question, forms[1], cells))
              for name, forms in question.values.items()}  # fmt: skip
    return Truth(cells, found[0], found[1], values)


def _rows(question: Question, selected: str, ending: str = "") -> list[tuple[object, ...]]:
    keys = ", ".join(f"{column}::VARCHAR" for column in question.by)
    with duckdb.connect() as connection:
        sql = f"SELECT {keys}, {selected} FROM ({question.rows}) WHERE {question.where} {ending}"
        found: list[tuple[object, ...]] = connection.execute(sql).fetchall()
        return found


def _measured(question: Question, form: int, cells: tuple[Cell, ...]) -> dict[str, Floats]:
    wide = len(question.by)
    rows = _rows(question, ", ".join(forms[form] for forms in question.measures.values()), "GROUP BY ALL")
    by_key = {row[:wide]: row[wide:] for row in rows}
    found = {}
    for at, (name, forms) in enumerate(question.measures.items()):
        adds = "/" not in forms[form] and not forms[form].startswith(("avg", "stddev"))
        empty = 0.0 if adds else np.nan
        found[name] = np.array([_number(by_key[cell][at], empty) if cell in by_key else empty for cell in cells])
    return found


def _number(value: object, empty: float) -> float:
    return empty if value is None else float(value)  # type: ignore[arg-type] # a number of DuckDB


def _sorted(question: Question, value: str, cells: tuple[Cell, ...]) -> tuple[Floats, ...]:
    gathered: dict[tuple[object, ...], list[float]] = {cell: [] for cell in cells}
    for *key, number in _rows(question, value):
        if number is not None and tuple(key) in gathered:
            gathered[tuple(key)].append(float(number))  # type: ignore[arg-type] # a number of DuckDB
    return tuple(np.sort(np.array(gathered[cell], dtype=np.float64)) for cell in cells)


def sampled_customers(most: int) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the customers of each cell, of whose cells ``most`` are kept by a fair sample."""
    groups = f"SELECT *, count(*) OVER (PARTITION BY CustomerID) AS groups FROM ({_BASKETS})"
    sql = f"SELECT Country, month::VARCHAR, least(1, {most} / groups) AS kept FROM ({groups})"
    mean, variance = np.zeros((2, 38 * 13))
    place = {cell: at for at, cell in enumerate(product(_keys("retail", "Country"), _keys("retail", "month")))}
    with duckdb.connect() as connection:
        for country, month, kept in connection.execute(sql).fetchall():
            mean[place[country, month]] += kept
            variance[place[country, month]] += kept * (1 - kept)
    return mean, np.sqrt(variance)


def product_sizes() -> dict[str, int]:
    """How many customers bought each product."""
    sql = f"SELECT StockCode, count(DISTINCT CustomerID) FROM {_RETAIL} WHERE CustomerID IS NOT NULL GROUP BY 1"
    with duckdb.connect() as connection:
        return dict(connection.execute(sql).fetchall())


def country_sizes() -> dict[str, int]:
    """How many customers each country has."""
    sql = f"SELECT Country, count(DISTINCT CustomerID) FROM {_RETAIL} WHERE CustomerID IS NOT NULL GROUP BY 1"
    with duckdb.connect() as connection:
        return dict(connection.execute(sql).fetchall())
