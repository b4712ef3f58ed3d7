"""Bins, maps and computed columns: every engine reads each row as the reference engine does."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Binned, Column, Computed, Derivation, Key, Mapped, Range, Source, Table
from tests.conformance.people import answers
from tests.conformance.reference_engine import ReferenceEngine
from tests.conformance.unit_tables import opening

WHOLE = [
    "-9223372036854775807",
    "-7",
    "-1",
    "0",
    "1",
    "3",
    "10",
    "11",
    "9223372036854775807",
    "99999999999999999999",
    "",
]
REAL = [
    "-1e308",
    "-0.1",
    "-0.0",
    "5e-324",
    "0.1",
    "0.3333333333333333",
    "0.33333333333333337",
    "0.3",
    "1e17",
    "1e308",
    "x",
]
TEXT = ["a", "A", "1", "true", "", " ", "ä", "2024-02-29"]
DAY = ["2024-02-29", "2024-03-01", "2023-02-29", ""]
YES = ["true", "0", ""]
ROWS = list(product(WHOLE, REAL[:2], TEXT[:2], DAY[:1], YES[:1])) + [
    (WHOLE[at % 11], REAL[at % 11], TEXT[at % 8], DAY[at % 4], YES[at % 3]) for at in range(88)
]


def derived(kind: Any, how: Derivation, keys: tuple[Key, ...] | None, **more: Any) -> Column:
    return Column(name="d", type=kind, keys=keys, derivation=how, **more)


def binned(of: str, *edges: Any) -> Column:
    rule = Binned(of=of, edges=tuple(Fraction(edge) for edge in edges))
    return derived("text", rule, rule.labels)


def mapped(kind: Any, of: str, pairs: dict[Key, Key], otherwise: Key | None = None) -> Column:
    targets = tuple(dict.fromkeys([*pairs.values(), *([] if otherwise is None else [otherwise])]))
    return derived(kind, Mapped(of=of, pairs=tuple(pairs.items()), otherwise=otherwise), targets)


RANGE = Range(low=Fraction(-5, 2), high=Fraction(15, 2))
KEYED: dict[str, Column] = {
    "bins of a whole number": binned("n", -7, "-1/2", 1, "5/2", "21/2"),
    "bins as wide as 64 bits": binned("n", -(2**80), -(2**63), 0, 2**63 - 1, 2**80),
    "bins of a double": binned("x", "-1/10", 0, "1/3", "1/2", 10**17),
    "bins at doubles": binned("x", 0, "1/10", "3/10", "1/3"),
    "bins beyond doubles": binned("x", -(10**400), 0, 10**400),
    "texts to texts": mapped("text", "t", {"a": "first", "ä": "first", "": "none", "1": "second"}, "rest"),
    "texts to nothing else": mapped("boolean", "t", {"a": True, "A": False}),
    "numbers to numbers": mapped("integer", "n", {-7: 1, 0: 2, 2**63 - 1: 1, 2**70: 3}, 4),
    "booleans to texts": mapped("text", "b", {True: "yes", False: "no"}),
    "days to numbers": mapped("integer", "day", {"2024-02-29": 29}, 0),
    "a condition": derived("boolean", Computed(sql="n >= 0 AND x < 1"), (True, False), null=False),
    "a case": derived("text", Computed(sql="CASE WHEN b THEN t ELSE lower(t) END"), ("a", "", "ä", "true")),
    "a rounded number": derived("integer", Computed(sql="round(x * 10)"), (-1, 0, 1, 3), range=RANGE),
    "a number outside": derived("integer", Computed(sql="round(n / 3)"), (-2, 0, 1, 3), range=RANGE, outside="null"),
    "a day": derived("date", Computed(sql="coalesce(day, CAST('2024-03-01' AS date))"), ("2024-02-29", "2024-03-01")),
}
NUMBERS: dict[str, Column] = {
    "a quotient": derived("decimal", Computed(sql="x / n"), None, range=RANGE),
    "a product outside": derived("decimal", Computed(sql="x * 10"), None, range=RANGE, outside="null"),
    "a whole number as a decimal": derived("decimal", Computed(sql="n"), None, range=RANGE),
    "an overflow": derived("decimal", Computed(sql="x * 1e300"), None, range=Range(low=Fraction(-1), high=Fraction(1))),
    "a whole number": derived("integer", Computed(sql="least(n, 7)"), None),
}


def table_of(*columns: Column) -> Table:
    own = (
        Column(name="n", type="integer", keys=(0, 1), range=Range(low=Fraction(-(2**70)), high=Fraction(2**70))),
        Column(name="x", type="decimal"),
        Column(name="t", type="text", keys=("a", "1")),
        Column(name="day", type="date"),
        Column(name="b", type="boolean"),
    )
    source = Source(file="t.csv", format="csv", null_values=())
    return Table(name="t", account="a", source=source, columns=(*own, *columns))


def check(kind: str, folder: Path, table: Table, by: tuple[str, ...], asked: list[Quantity]) -> None:
    lines = ["n,x,t,day,b", *(",".join(row) for row in ROWS)]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    with opening(kind, folder) as engine:
        found = answers(engine, table, by, asked)
    assert found == answers(ReferenceEngine(folder, {}), table, by, asked)
    assert any(any(each) for each in found if isinstance(each, list))


@pytest.mark.thin(every=3)
@pytest.mark.parametrize("name", KEYED)
def test_a_derived_column_is_a_key(kind: str, name: str, tmp_path: Path) -> None:
    asked = [Quantity(kind="rows"), Quantity(kind="nonnull", column="d"), Quantity(kind="distinct", column="d")]
    check(kind, tmp_path, table_of(KEYED[name]), ("d",), [*asked, Quantity(kind="rows", where="d IS NOT NULL")])
    check(kind, tmp_path, table_of(KEYED[name]), (), asked)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_derived_number_is_summed(kind: str, name: str, tmp_path: Path) -> None:
    grid: dict[str, Any] = {"column": "d", "low": -20, "high": 60, "step": Fraction(1, 8)}
    asked = [
        Quantity(kind="sum", **grid),
        Quantity(kind="sum", **grid, where="d > 0"),
        Quantity(kind="quantile", **grid, at=Fraction(1, 2)),
        Quantity(kind="distinct", column="d"),
        Quantity(kind="nonnull", column="d"),
    ]
    check(kind, tmp_path, table_of(NUMBERS[name]), ("t",), asked)


def test_derived_columns_feed_each_other(kind: str, tmp_path: Path) -> None:
    first = Column(name="d", type="decimal", derivation=Computed(sql="x * 2"), range=RANGE)
    second = Column(name="e", type="text", keys=("[-1,0)", "[0,7.5)"), derivation=Binned(of="d", edges=(Fraction(-1), Fraction(0), Fraction(15, 2))))  # fmt: skip
    third = Column(
        name="f", type="integer", keys=(1, 2), derivation=Mapped(of="e", pairs=(("[-1,0)", 1),), otherwise=2)
    )
    asked = [Quantity(kind="rows"), Quantity(kind="rows", where="f = 2 AND e <> 'x'")]
    check(kind, tmp_path, table_of(first, second, third), ("f", "e"), asked)
