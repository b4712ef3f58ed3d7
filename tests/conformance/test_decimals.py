"""A decimal is rounded to its grid by its own digits, wherever it comes from, in every engine; halves away from zero."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, Computed, PrivateJoin, Range, Source, Table, TableBounds
from dprelease.engines import ENGINES
from dprelease.engines.files.decimals import MOST, exact_steps
from dprelease.noise.exact import Exact, open_exact
from tests.conformance.people import SECRET, answers, integers
from tests.conformance.reference_engine import ReferenceEngine
from tests.tiers import few

CENTS = Fraction(1, 100)
HALVES = {
    "1.005": 101, "124.945": 12495, "2.675": 268, "-1.005": -101, "+1.5": 150, "0001.005": 101, "1005e-3": 101,
    "1.005E0": 101, ".005": 1, "-.005": -1, "5e-3": 1, " 1.005 ": 101, "1.00499999999999999999999999999": 100,
    "1.005000000000000000000000000000": 101, "1.0050000000000000000000000000001": 101, "8.345": 835, "0": 0, "-0.0": 0,
    "0.00499999999999999999999999999999999": 0, "1e400": None, "1e-400": 0, "x": None, "": None,
}  # fmt: skip


def decimals(**more: object) -> Table:
    price = Column(name="price", type="decimal", range=integers(-(10**6), 10**6), step=CENTS, **more)
    key = Column(name="k", type="integer", keys=tuple(range(len(HALVES))))
    return Table(name="t", account="a", source=Source(file="t.*", format="csv"), columns=(key, price))


def asked(low: int = -(10**8), high: int = 10**8) -> list[Quantity]:
    return [
        Quantity(kind=kind, column="price", step=CENTS, low=low, high=high, at=at)
        for kind, at in (("sum", None), ("quantile", Fraction(1, 2)))
    ]


def test_the_digits_of_a_text_decide(kind: str, tmp_path: Path) -> None:
    """Doubles have 1.005 as 1.00499..., and 2.675 as 2.67499...: they gave 100 and 267."""
    (tmp_path / "t.csv").write_text("k,price\n" + "".join(f"{at},{text}\n" for at, text in enumerate(HALVES)))
    engine = ENGINES[kind](tmp_path, {})
    sums, histogram = answers(engine, decimals(), ("k",), asked())
    engine.close()
    assert sums == [each or 0 for each in HALVES.values()]
    assert [sums, histogram] == answers(ReferenceEngine(tmp_path, {}), decimals(), ("k",), asked())


@pytest.mark.parametrize(
    "stored",
    [
        pa.array([Decimal(text) for text in ("1.005", "124.945", "-2.675", "0.005")], pa.decimal128(38, 20)),
        pa.array([1.005, 124.945, -2.675, 0.005], pa.float64()),  # the shortest text that is this double
    ],
)
def test_stored_numbers_are_their_digits_or_the_shortest_text_of_a_double(
    stored: pa.Array, kind: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"k": pa.array(range(4)), "price": stored}), tmp_path / "t.parquet")
    table = decimals().model_copy(update={"source": Source(file="t.parquet", format="parquet")})
    engine = ENGINES[kind](tmp_path, {})
    found = answers(engine, table, ("k",), asked()[:1])
    engine.close()
    assert found[0][:4] == [101, 12495, -268, 1]
    assert found == answers(ReferenceEngine(tmp_path, {}), table, ("k",), asked()[:1])


def test_a_computed_half_is_a_half_though_computing_lost_a_little(kind: str, tmp_path: Path) -> None:
    """1.005 is not read but computed here; a hair less than any rounding makes is less than a half."""
    rows = {"1.005": 101, "124.945": 12495, "-2.675": -268, "1.00499999999999": 100}
    (tmp_path / "t.csv").write_text("k,price\n" + "".join(f"{at},{text}\n" for at, text in enumerate(rows)))
    plain = decimals()
    twice = Column(name="twice", type="decimal", step=CENTS, derivation=Computed(sql="price * 2 / 2"))
    table = plain.model_copy(update={"columns": (*plain.columns, twice)})
    quantity = asked()[0].model_copy(update={"column": "twice"})
    engine = ENGINES[kind](tmp_path, {})
    found = answers(engine, table, ("k",), [quantity])
    engine.close()
    assert found[0][:4] == list(rows.values())
    assert found == answers(ReferenceEngine(tmp_path, {}), table, ("k",), [quantity])


def test_lent_and_bounded_decimals_keep_their_digits(kind: str, tmp_path: Path) -> None:
    """The column is read by one table and measured by another on a grid of its own; bounds leave rows out on the way."""
    (tmp_path / "people.csv").write_text("id,height\n" + "".join(f"{at},{at}.00{5 * (at % 2)}\n" for at in range(9)))
    (tmp_path / "visits.csv").write_text("id\n" + "".join(f"{at}\n" for at in range(9)) * 3)
    height = Column(name="height", type="decimal", range=integers(0, 100), step=Fraction(1, 10))
    lent = height.model_copy(update={"step": CENTS, "lent_by": "people"})
    bounds = TableBounds(max_rows=2)
    people = Table(name="people", account="a", source=Source(file="people.csv", format="csv"), columns=(height,), unit_id="id", bounds=TableBounds(max_rows=1))  # fmt: skip
    visits = Table(
        name="visits", account="a", source=Source(file="visits.csv", format="csv"), columns=(lent,), unit_id="id",
        bounds=bounds, private_joins=(PrivateJoin(table="people", on="id", max_matches=1, add=("height",)),),
    )  # fmt: skip
    catalog = Catalog(tables={"people": people, "visits": visits})
    quantity = Quantity(kind="sum", column="height", step=CENTS, low=0, high=10**4)
    found = []
    for engine in (ENGINES[kind](tmp_path, {}), ReferenceEngine(tmp_path, {})):
        grouping = Grouping(table="visits", by=(), max_rows_per_group=1)
        (box,) = engine.aggregate(catalog, grouping, [quantity], {}, SECRET)
        assert isinstance(box, Exact)
        found.append(open_exact(box).tolist())
    assert found[0] == found[1] == [3600 + 4]  # 0 + 1.005 + 2 + 3.005 + ... + 8: four of them end in a half


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=None).map(str) | st.builds(
    lambda whole, digits, power: f"{whole}.{digits}e{power}",
    st.integers(-(10**6), 10**6),
    st.text("05", min_size=1, max_size=40) | st.text("0123456789", min_size=1, max_size=40),
    st.integers(-6, 6),
)

TOGETHER = 40  # each in a cell of its own: a pass takes as long for one


@given(st.lists(NUMBERS, min_size=10, max_size=TOGETHER), st.sampled_from([CENTS, Fraction(1), Fraction(1, 10**6), Fraction(1, 3), Fraction(50)]))  # fmt: skip
@example(["1" + "0" * 5000 + "e-5000", "5" + "0" * 4999 + "e-5001", "0." + "0" * 5000 + "5e5000"], Fraction(1))
@settings(deadline=None, max_examples=few(15, 3), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_number_is_rounded_as_fractions_are(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], step: Fraction
) -> None:
    """Against the reference, which knows nothing but fractions; and no text makes anything fail."""
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "t.csv").write_text("k,price\n" + "".join(f"{at},{text}\n" for at, text in enumerate(texts)))
    plain = decimals()
    key = plain.columns[0].model_copy(update={"keys": tuple(range(TOGETHER))})
    price = plain.column("price").model_copy(update={"step": step, "range": Range(low=-(10**9) * step, high=10**9 * step)})  # fmt: skip
    table = plain.model_copy(update={"columns": (key, price)})
    quantity = Quantity(kind="sum", column="price", step=step, low=-(10**9), high=10**9)
    for name in ENGINES:
        engine = ENGINES[name](folder, {})
        found = answers(engine, table, ("k",), [quantity])
        engine.close()
        assert found == answers(ReferenceEngine(folder, {}), table, ("k",), [quantity])


def test_steps_beyond_62_bits_end_there() -> None:
    free = Column(name="x", type="decimal")
    assert exact_steps("1e300", free, CENTS) == MOST
    assert exact_steps("-1e300", free, CENTS) == -MOST
