"""Derived columns: exact edges, total maps and expressions, and what is refused before a row is read."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import (
    Binned,
    Catalog,
    Column,
    Computed,
    Derivation,
    Join,
    Mapped,
    PrivateJoin,
    Range,
    Source,
    Table,
    TableBounds,
)
from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.errors import Unsupported
from dprelease.noise.exact import Exact, open_exact

COUNT = Quantity(kind="rows")
SECRET = bytes(32)
X = Column(name="x", type="decimal")
N = Column(name="n", type="integer")
WORD = Column(name="word", type="text")


def derived(name: str, kind: Any, how: Derivation, **more: Any) -> Column:
    return Column(name=name, type=kind, derivation=how, **more)


def table(*columns: Column, **more: Any) -> Table:
    source = Source(file="t.parquet", format="parquet")
    return Table(name="t", account="a", source=source, columns=columns or (X, N, WORD), **more)


def counts(folder: Path, made: Table, by: tuple[str, ...], *asked: Quantity, **more: Any) -> list[list[int]]:
    engine = DuckDBEngine(folder, {})
    try:
        references = more.pop("references", {})
        grouping = Grouping(table="t", by=by, **more)
        boxes = engine.aggregate(Catalog(tables={"t": made}), grouping, asked or (COUNT,), references, SECRET)
        return [open_exact(box).tolist() for box in boxes if isinstance(box, Exact)]
    finally:
        engine.close()


def write(folder: Path, **columns: list[Any]) -> None:
    rows = max(len(values) for values in columns.values())
    given = {name: columns.get(name, [None] * rows) for name in ("x", "n", "word")}
    pq.write_table(pa.table({name: pa.array(values) for name, values in given.items()}), folder / "t.parquet")


def test_edges_are_exact(tmp_path: Path) -> None:
    """A third is no double: the double below it is below the edge, the one above is not."""
    third, after = 1 / 3, 0.33333333333333337
    assert Fraction(third) < Fraction(1, 3) < Fraction(after)
    how = Binned(of="x", edges=(Fraction(0), Fraction(1, 10), Fraction(1, 3), Fraction(10**400)))
    write(tmp_path, x=[-0.0, -5e-324, 0.1, third, after, 1.7e308, None, float("nan"), float("inf")])
    made = table(X, N, WORD, derived("bin", "text", how, keys=how.labels))
    # 0.1 as a double is above a tenth.
    assert Fraction(0.1) > Fraction(1, 10)
    assert counts(tmp_path, made, ("bin",)) == [[1, 2, 2]]


def test_bins_of_integers(tmp_path: Path) -> None:
    how = Binned(of="n", edges=(Fraction(-(10**30)), Fraction(-1, 2), Fraction(5, 2), Fraction(3), Fraction(10**30)))
    write(tmp_path, n=[-(2**63), -1, 0, 2, 3, 2**63 - 1, None])
    made = table(X, N, WORD, derived("bin", "text", how, keys=how.labels))
    assert counts(tmp_path, made, ("bin",)) == [[2, 2, 0, 2]]


def test_maps_give_every_value_a_key(tmp_path: Path) -> None:
    write(tmp_path, word=["a", "b", "c", "zz", None], n=[1, 2, 3, 2**62, None])
    words = Mapped(of="word", pairs=(("a", 1), ("b", 2), ("a", 2)), otherwise=3)
    numbers = Mapped(of="n", pairs=((1, "low"), (10**40, "high"), (2, "low")))
    made = table(
        X, N, WORD, derived("w", "integer", words, keys=(1, 2, 3)), derived("m", "text", numbers, keys=("low", "high"))
    )
    assert counts(tmp_path, made, ("w",)) == [[1, 1, 2]]
    assert counts(tmp_path, made, ("m",)) == [[2, 0]]


def test_derived_columns_feed_each_other_and_everything_else(tmp_path: Path) -> None:
    write(tmp_path, x=[1.0, 2.0, 3.0, 4.0, None], n=[5, 6, 7, 8, 9], word=["a", "b", "a", "b", "a"])
    double = derived("double", "decimal", Computed(sql="x + n"), range=Range(low=Fraction(7), high=Fraction(11)))
    edges = Binned(of="double", edges=(Fraction(0), Fraction(8), Fraction(100)))
    side = derived("side", "text", edges, keys=edges.labels)
    big = derived("big", "boolean", Computed(sql="side = '[8,100)'"), keys=(False, True), null=False)
    made = table(X, N, WORD, double, side, big)
    asked = [COUNT, Quantity(kind="sum", column="double", low=0, high=50), Quantity(kind="rows", where="not big")]
    assert counts(tmp_path, made, ("big",), *asked) == [[2, 3], [7, 29], [1, 0]]
    assert counts(tmp_path, made, ("side",), *asked, where="big or n = 5") == [[1, 3], [7, 29], [1, 0]]


@pytest.mark.parametrize(("outside", "total"), [("clamp", 5 + 0 + 10), ("null", 5)])
def test_computed_values_keep_to_the_range_of_their_column(outside: Any, total: int, tmp_path: Path) -> None:
    write(tmp_path, x=[1.5, -1.0, 1e300, None], n=[5, -7, 99, 0])
    limits = Range(low=Fraction(-1, 2), high=Fraction(21, 2))
    made = table(
        X, N, WORD, derived("c", "integer", Computed(sql="case when n <> 0 then n end"), range=limits, outside=outside)
    )
    asked = Quantity(kind="sum", column="c", low=-100, high=100)
    assert counts(tmp_path, made, (), asked) == [[total]]
    far = table(X, N, WORD, derived("c", "decimal", Computed(sql="x * x * n")))
    assert counts(tmp_path, far, (), Quantity(kind="nonnull", column="c")) == [[2]]


def test_quantities_of_a_table_without_units(tmp_path: Path) -> None:
    """Every row is a unit of its own, so that clipping its sum is clipping it."""
    write(tmp_path, n=[1, 1, 5, None, 7], word=["a", "a", "b", "b", None])
    word = WORD.model_copy(update={"keys": ("a", "b")})
    kinds = [
        Quantity(kind="units"), Quantity(kind="distinct", column="n"), Quantity(kind="distinct", column="n", where="n < 5"),
        Quantity(kind="sum", column="n", low=0, high=3, per="unit_cell"),
        Quantity(kind="balance", column="n", per="unit_cell"),
    ]  # fmt: skip
    found = counts(tmp_path, table(X, N, word), ("word",), *kinds)
    assert found == [[2, 2], [1, 1], [1, 0], [2, 3], [2, 0]]


UNIT: dict[str, Any] = {"unit_id": "word"}
LENT = Column(name="y", type="integer", lent_by="u")
OTHER = Table(
    name="u", account="a", source=Source(file="u.csv", format="csv"), unit_id="word",
    columns=(WORD, Column(name="y", type="integer"), Column(name="z", type="text", lent_by="t")),
    private_joins=(PrivateJoin(table="t", on="word", max_matches=1, add=("z",)),),
)  # fmt: skip
MEET = PrivateJoin(table="u", on="word", max_matches=1, add=("y",))


@pytest.mark.thin(every=2)
@pytest.mark.parametrize(
    ("code", "made", "grouping", "asked"),
    [
        ("E201", table(), {"table": "nope"}, COUNT),
        ("E205", table(**UNIT), {}, Quantity(kind="distinct", column="x", per="unit_cell")),
        ("E205", table(**UNIT), {}, Quantity(kind="quantile", column="word")),
        ("E205", table(), {}, Quantity(kind="distinct")),
        ("E206", table(), {}, Quantity(kind="quantile", column="x", high=2**63)),
        ("E208", table(X, N, WORD, LENT), {}, COUNT),
        ("E209", table(private_joins=(MEET.model_copy(update={"table": "t9", "add": ()}),), **UNIT), {}, COUNT),
        ("E209", table(X, N, WORD, LENT, private_joins=(MEET,), unit_id="n"), {}, COUNT),
        ("E209", table(X, N, WORD, LENT.model_copy(update={"type": "text"}), private_joins=(MEET,), **UNIT), {}, COUNT),
        ("E209", table(X, N, WORD, LENT, private_joins=(MEET, MEET), **UNIT), {}, COUNT),
        (
            "E209",
            table(X, N, WORD, LENT.model_copy(update={"name": "z", "type": "text"}), private_joins=(MEET.model_copy(update={"add": ("z",)}),), **UNIT),
            {}, COUNT,
        ),
        ("E210", table(unit_id="x"), {}, COUNT),
        ("E210", table(X, N.model_copy(update={"range": Range(low=Fraction(0), high=Fraction(9))}), unit_id="n"), {}, COUNT),
        ("E210", table(X, N, WORD, derived("w", "text", Computed(sql="lower(word)")), unit_id="w"), {}, COUNT),
        ("E211", table(), {"max_groups": 1}, COUNT),
        ("E211", table(), {"max_rows_per_group": 1}, COUNT),
        ("E211", table(bounds=TableBounds(max_rows=1)), {}, COUNT),
        ("E211", table(bounds=TableBounds(max_rows=1, truncate="first"), **UNIT), {}, COUNT),
        ("E211", table(bounds=TableBounds(max_rows=1, truncate="last", order_by=("nope",)), **UNIT), {}, COUNT),
        ("E211", table(bounds=TableBounds(max_rows=1, order_by=("n",)), **UNIT), {}, COUNT),
        ("E212", table(), {"where": "nope = 1"}, COUNT),
        ("E212", table(), {"where": "n + 1"}, COUNT),
        ("E212", table(), {"where": "read_text('/etc/passwd') = ''"}, COUNT),
        ("E212", table(), {}, Quantity(kind="rows", where="n")),
        ("E212", table(X, derived("a", "decimal", Computed(sql="b")), derived("b", "decimal", Computed(sql="x"))), {}, COUNT),
        ("E212", table(X, derived("a", "text", Computed(sql="x"))), {}, COUNT),
        ("E212", table(WORD, derived("a", "text", Binned(of="word", edges=(Fraction(0), Fraction(1))))), {}, COUNT),
        ("E212", table(X, derived("a", "text", Binned(of="x", edges=(Fraction(1), Fraction(0))))), {}, COUNT),
        ("E212", table(X, derived("a", "text", Binned(of="n", edges=(Fraction(0), Fraction(1))))), {}, COUNT),
        ("E212", table(X, derived("a", "text", Mapped(of="x", pairs=((1, "a"),)))), {}, COUNT),
        ("E212", table(N, derived("a", "text", Mapped(of="n", pairs=((True, "a"),)))), {}, COUNT),
        ("E212", table(N, derived("a", "integer", Mapped(of="n", pairs=((1, 2**63),)))), {}, COUNT),
        ("E213", table(), {"private": True, "by": ("n",)}, COUNT),
        ("E214", table(N.model_copy(update={"keys": (1, 2)})), {"by": ("n",), "excluding": "nope"}, COUNT),
        ("E214", table(N.model_copy(update={"keys": (1, 2)})), {"by": ("n",), "excluding": "far"}, COUNT),
        ("E201", table(), {"complete": ("nope",)}, COUNT),
        ("E204", table(), {"complete": ("n",)}, COUNT),
        ("E204", table(X.model_copy(update={"keys": (1, 2)})), {"complete": ("x",)}, COUNT),
    ],
)  # fmt: skip
def test_what_cannot_be_computed_is_refused_before_reading(
    code: str, made: Table, grouping: dict[str, Any], asked: Quantity, tmp_path: Path
) -> None:
    engine = DuckDBEngine(tmp_path, {})  # an empty folder: reading would raise Unavailable
    catalog = Catalog(tables={"t": made, "u": OTHER}, exclusions={"far": (1, 2)})
    with pytest.raises(Unsupported, match=f"DPR-{code}"):
        engine.aggregate(catalog, Grouping(**{"table": "t", "by": (), **grouping}), (asked,), {}, SECRET)
    engine.close()


def test_private_keys_and_selected_keys_go_together(tmp_path: Path) -> None:
    engine, catalog = DuckDBEngine(tmp_path, {}), Catalog(tables={"t": table()})
    private = Grouping(table="t", by=("n",), private=True)
    for grouping, keys in ((private, None), (Grouping(table="t", by=()), ((1,),))):
        with pytest.raises(Unsupported, match="DPR-E213"):
            engine.aggregate(catalog, grouping, (COUNT,), {}, SECRET, keys)
    for grouping in (Grouping(table="t", by=()), private.model_copy(update={"by": ()})):
        with pytest.raises(Unsupported, match="DPR-E213"):
            engine.units_by_key(catalog, grouping, {}, SECRET)
    with pytest.raises(Unsupported, match="DPR-E216"):
        engine.units_by_key(catalog, private.model_copy(update={"complete": ("n",)}), {}, SECRET)
    with pytest.raises(Unsupported, match="DPR-E204"):
        engine.units_by_key(catalog, private.model_copy(update={"by": ("x",)}), {}, SECRET)
    engine.close()


def test_a_public_join_may_feed_a_derived_column(tmp_path: Path) -> None:
    write(tmp_path, word=["a", "b", "a", None])
    lands = ReferenceTable(columns={"word": ("a", "b"), "size": (7, 70)})
    how = Binned(of="size", edges=(Fraction(0), Fraction(10), Fraction(100)))
    made = table(
        X, N, WORD, Column(name="size", type="integer", reference="lands"), derived("big", "text", how, keys=how.labels),
        joins=(Join(reference="lands", on="word", add=("size",)),),
    )  # fmt: skip
    assert counts(tmp_path, made, ("big",), where="size > 1", references={"lands": lands}) == [[2, 1]]
