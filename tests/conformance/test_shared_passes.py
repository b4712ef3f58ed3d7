"""What lets queries share a pass: a ``where`` asked of each quantity, and totals added up from finer ones, are the same."""

from __future__ import annotations

import tempfile
from itertools import permutations
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import SUMS_OF_ROWS, Grouping, Quantity, TotalsCube
from dprelease.catalog.expressions.expression import both_hold
from dprelease.catalog.table import Catalog, Column
from dprelease.engines import ENGINES
from dprelease.engines.declared import types
from tests.conformance.people import COUNT, PEOPLE, REGIONS, answers, integers, opened
from tests.conformance.reference_engine import ReferenceEngine
from tests.conformance.test_engines import parts, quantities, tables
from tests.tiers import few

CONDITIONS = (
    "amount > 2.5",
    "Code = 1 OR code",
    "area IS NULL",
    "NOT (rank < 3 AND region = 's')",
    "amount / rank > 1",
    "code",
    'CASE WHEN "seen at" IS NULL THEN code ELSE Code IN (1, 2) END',
)


def agrees(kind: str, data: st.DataObject) -> None:
    """Several conditions in one pass are several passes of one condition each, by the engine and by the reference."""
    table = data.draw(tables())
    files = data.draw(parts(table))
    by = data.draw(st.lists(st.sampled_from(["area", "Code", "code", "day"]), unique=True, max_size=2).map(tuple))
    conditions = data.draw(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3, unique=True))
    inner = data.draw(st.sampled_from([None, *CONDITIONS]))
    movable = quantities().filter(lambda each: each.kind not in ("balance", "rest"))
    asked = [each.model_copy(update={"where": inner}) for each in data.draw(st.lists(movable, max_size=3))]
    asked = list(dict.fromkeys([COUNT, *asked]))
    moved = [
        each.model_copy(update={"where": both_hold(where, each.where, types(table))})
        for where in conditions
        for each in asked
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at, content in enumerate(files):
            (folder / f"rows-{at}.{table.source.format}").write_bytes(content)
        engine, reference = ENGINES[kind](folder, {}), ReferenceEngine(folder, {})
        together = answers(engine, table, by, moved)
        apart = [each for where in conditions for each in answers(engine, table, by, asked, where=where)]
        engine.close()
        assert together == apart
        assert together == [each for where in conditions for each in answers(reference, table, by, asked, where=where)]


def adds_up(kind: str, data: st.DataObject) -> None:
    """Every grouping of a cube, added up from it, is that grouping counted from the rows by the reference."""
    table = data.draw(tables())
    files = data.draw(parts(table))
    columns = data.draw(st.lists(st.sampled_from(["area", "Code", "code", "day", "region"]), unique=True, max_size=3))
    where = data.draw(st.sampled_from([None, *CONDITIONS]))
    added = quantities().filter(
        lambda each: each.kind in SUMS_OF_ROWS and (where or each.column or each.kind == "rows")
    )
    drawn = data.draw(st.lists(added, max_size=3))
    asked = list(dict.fromkeys([COUNT, *(each.model_copy(update={"where": where}) for each in drawn)]))
    others = [Quantity(kind="distinct", column="amount"), Quantity(kind="nonnull", column="day")]
    cube = TotalsCube(by=tuple(sorted(columns)), quantities=tuple(asked))
    groupings = [by for size in range(len(columns) + 1) for by in permutations(columns, size)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at, content in enumerate(files):
            (folder / f"rows-{at}.{table.source.format}").write_bytes(content)
        engine, reference = ENGINES[kind](folder, {}), ReferenceEngine(folder, {})
        for by in data.draw(st.permutations(groupings)):
            cells = table.cells(by)
            bounds = {"excluding": "some"} if data.draw(st.booleans()) and cells > 1 else {}
            catalog = Catalog(tables={table.name: table}, exclusions={"some": (0,)})
            grouping, every = Grouping(table=table.name, by=by, **bounds), [*asked, *others][::-1]
            found = engine.aggregate(catalog, grouping, every, {"regions": REGIONS}, b"", cube=cube)
            known = reference.aggregate(catalog, grouping, every, {"regions": REGIONS}, b"")
            assert [opened(each) for each in found] == [opened(each) for each in known]
        engine.close()


@settings(max_examples=few(30, 5), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_totals_added_up_from_a_cube_are_those_of_the_rows(kind: str, data: st.DataObject) -> None:
    adds_up(kind, data)


def test_what_is_asked_twice_is_told_twice(kind: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("sex\n1\n2\n2\n", encoding="utf-8")
    table = PEOPLE.model_copy(update={"columns": (Column(name="sex", type="integer", keys=(1, 2)),)})
    catalog, grouping = Catalog(tables={table.name: table}), Grouping(table=table.name, by=("sex",))
    held, apart = Quantity(kind="nonnull", column="sex"), Quantity(kind="distinct", column="sex")
    cube = TotalsCube(by=("sex",), quantities=(COUNT, held))
    engine = ENGINES[kind](tmp_path, {})
    found = engine.aggregate(catalog, grouping, [held, apart, COUNT, held, apart], {}, b"", cube=cube)
    engine.close()
    assert [opened(each) for each in found] == [[1, 2], [1, 1], [1, 2], [1, 2], [1, 1]]


def test_only_the_last_total_is_clamped(kind: str, tmp_path: Path) -> None:
    """Two totals beyond 62 bits of opposite signs come to 7: clamped one by one they would come to 0."""
    most = 2**61
    table = PEOPLE.model_copy(
        update={
            "columns": (
                Column(name="sex", type="integer", keys=(1, 2)),
                Column(name="pay", type="integer", range=integers(-most, most)),
            )
        }
    )
    rows = [*([f"1,{most}"] * 5), *([f"2,{-most}"] * 5), "2,7"]
    (tmp_path / "people.csv").write_text("\n".join(["sex,pay", *rows, ""]), encoding="utf-8")
    asked = Quantity(kind="sum", column="pay", low=-most, high=most)
    cube = TotalsCube(by=("sex",), quantities=(asked,))
    engine = ENGINES[kind](tmp_path, {})
    catalog = Catalog(tables={table.name: table})
    (apart,) = engine.aggregate(catalog, Grouping(table=table.name, by=("sex",)), [asked], {}, b"", cube=cube)
    (total,) = engine.aggregate(catalog, Grouping(table=table.name, by=()), [asked], {}, b"", cube=cube)
    engine.close()
    assert opened(apart) == [2**62, -(2**62)]
    assert opened(total) == [7]


@settings(max_examples=few(30, 6), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_conditions_of_one_pass_are_passes_of_one_condition(kind: str, data: st.DataObject) -> None:
    agrees(kind, data)
