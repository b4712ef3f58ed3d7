"""The tables of a workload are added up from what was found once, and are those of a pass over the rows for each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations as subsets
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Binned, Catalog, Column, Join, Source, Table, TableBounds
from dprelease.engines.duck import combinations, loaded, parts
from dprelease.engines.duck import engine as duckdb
from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.errors import BrokenPromiseError, EngineError
from dprelease.noise.exact import Exact, open_exact

ROWS = Quantity(kind="rows")
SECRET = bytes(range(32))
AGES = Binned(of="age", edges=tuple(map(Fraction, (0, 18, 65, 120))))
NAMES = ("band", "big", "race", "sex", "town")
LANDS = ReferenceTable(columns={"town": ("a", "b", "c", "d"), "big": (True, False, True, "")})
OTHERS = ReferenceTable(columns={"town": ("a", "b", "c", "d"), "big": (False, False, False, True)})


def table(**more: Any) -> Table:
    columns = (
        Column(name="town", type="text", keys=("b", "a", "d", "c")),
        Column(name="race", type="integer", keys=tuple(range(300)), null=7),
        Column(name="sex", type="integer", keys=(1, 2)),
        Column(name="age", type="integer"),
        Column(name="who", type="text"),
        Column(name="big", type="boolean", keys=(False, True), reference="lands"),
        Column(name="band", type="text", keys=AGES.labels[:2], derivation=AGES, null=AGES.labels[0]),
    )
    join = Join(reference="lands", on="town", add=("big",))
    source = Source(file="people.parquet", format="parquet")
    return Table(name="people", account="a", source=source, columns=columns, joins=(join,), **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four thousand rows, many of them alike, one in four without a key somewhere."""
    draw, made = random.Random(3), tmp_path_factory.mktemp("people")
    count = 4000
    columns = {
        "town": [draw.choice("aaaabcd" if draw.random() < 0.96 else ["x", "", None]) for _ in range(count)],
        "race": [draw.choice([0, 1, 2, 299, 1, 2, 300, None][: 6 + (draw.random() < 0.1) * 2]) for _ in range(count)],
        "sex": [draw.choice([1, 2, 1, 2, 1, 2, 3, None]) for _ in range(count)],
        "age": [draw.choice([-1, 0, 17, 18, 40, 64, 65, None]) for _ in range(count)],
        "who": [draw.choice(["u", "v", "w", None]) for _ in range(count)],
    }
    pq.write_table(pa.table(columns), made / "people.parquet")
    return made


@pytest.fixture
def engine(folder: Path) -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(folder, {})
    yield made
    made.close()


def ask(
    engine: DuckDBEngine, of: Table, by: tuple[str, ...], lands: ReferenceTable = LANDS, **more: Any
) -> list[list[int]]:
    asked = Grouping(**{"table": "people", "by": by, "complete": NAMES, **more})
    catalog = Catalog(tables={"people": of}, exclusions={"some": (0, 3, 7)})
    references: Mapping[str, ReferenceTable] = {"lands": lands}
    return [opened(box) for box in engine.aggregate(catalog, asked, (ROWS,), references, SECRET)]


def opened(box: Any) -> list[int]:
    assert isinstance(box, Exact)
    return [int(each) for each in open_exact(box)]


def tables() -> list[tuple[str, ...]]:
    return [by for size in range(4) for by in subsets(NAMES[::-1], size)][::4]


def everything(engine: DuckDBEngine, of: Table) -> list[Any]:
    found = [ask(engine, of, by, where=where) for by in tables() for where in (None, "age < 60 or sex = 1")]
    found += [ask(engine, of, ("race", "sex"), complete=names) for names in (("town",), ("band", "sex"))]
    return [*found, ask(engine, of, ("town", "big"), excluding="some"), ask(engine, of, ())]


@pytest.fixture(scope="module")
def plainly(folder: Path) -> Mapping[bool, list[Any]]:
    """One pass over the rows for each table, without and with units."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "suits", lambda _: False)
        for units in (False, True):
            engine = DuckDBEngine(folder, {})
            found[units] = everything(engine, of_units() if units else table())
            engine.close()
    return found


def of_units(most: int = 700) -> Table:
    return table(unit_id="who", null_id="unit", bounds=TableBounds(max_rows=most))


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("setting", [{}, {"_MOST": 0}, {"_FITS": 1000}])
def test_every_table_is_that_of_a_pass_over_the_rows(
    units: bool, setting: dict[str, int], plainly: Any, engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether combinations are counted together or rows are kept, and however long their numbers are."""
    for name, value in setting.items():
        monkeypatch.setattr(combinations, name, value)
    found = everything(engine, of_units() if units else table())
    assert found == plainly[units]
    kept = [each.columns for _, each in engine._combinations.values()]
    assert all(("held" in columns) == ("_MOST" not in setting) for columns in kept)
    assert len({sum(each[0]) for each in found[: 2 * len(tables()) : 2]}) == 1  # they add up to one another
    assert 0 < sum(found[0][0]) < 4000


def test_rows_that_seldom_repeat_are_kept_as_they_are(tmp_path: Path) -> None:
    """And those that do are not; the number of combinations is estimated, and is far from the half here."""
    for name, keys in (("unlike", 2000), ("alike", 20)):
        columns = {"a": [at % keys for at in range(2000)], "b": [at % keys * 7 % 13 for at in range(2000)]}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        of = Table(
            name="people",
            account="a",
            source=Source(file=f"{name}.parquet", format="parquet"),
            columns=tuple(Column(name=column, type="integer", keys=tuple(range(keys))) for column in "ab"),
        )
        engine = DuckDBEngine(tmp_path, {})
        assert sum(ask(engine, of, ("b",), complete=("a", "b"))[0]) == 2000
        ((_, kept),) = engine._combinations.values()
        assert ("held" in kept.columns) == (name == "alike")
        engine.close()


def shown(engine: DuckDBEngine) -> int:
    return len(engine._backend.con.execute("SHOW TABLES").fetchall())


def test_combinations_are_found_once_for_the_tables_of_a_workload(
    engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counting(*given: Any) -> Any:
        made.append(given)
        return combinations.combined(*given)

    monkeypatch.setattr(parts, "combined", counting)
    for by in tables():
        ask(engine, table(), by)
    assert len(made) == 1
    assert shown(engine) == 2  # the rows and their combinations
    ask(engine, table(), (), where="sex = 1")
    ask(engine, table(), ("sex",), complete=("town", "band"))
    assert len(made) == 3
    ask(engine, table(), ("town",))
    assert len(made) == 3


def test_another_reference_is_looked_at_anew(engine: DuckDBEngine) -> None:
    first = ask(engine, table(), ("big",))
    assert ask(engine, table(), ("big",), OTHERS) != first
    assert ask(engine, table(), ("big",)) == first
    assert shown(engine) == 2


@pytest.mark.slow
def test_another_secret_is_another_sample(engine: DuckDBEngine) -> None:
    of, catalog = of_units(), Catalog(tables={"people": of_units()})
    asked = Grouping(table="people", by=("race", "sex"), complete=NAMES)
    found = [
        opened(engine.aggregate(catalog, asked, (ROWS,), {"lands": LANDS}, bytes([at]) * 32)[0]) for at in (1, 2, 1)
    ]
    assert found[0] == found[2] != found[1]
    assert ask(engine, of, ("race", "sex"))[0] not in found[:2]


@pytest.mark.slow
def test_the_latest_few_are_kept(engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "_KEPT", 2)
    wheres = [f"age <> {age}" for age in range(4)]
    first = [ask(engine, table(), ("sex",), where=where) for where in wheres]
    assert len(engine._combinations) == 2
    assert shown(engine) == 3
    assert [ask(engine, table(), ("sex",), where=where) for where in wheres] == first
    assert shown(engine) == 3


def test_too_many_rows_of_a_unit_are_a_broken_promise_here_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded, "bounded_rows", lambda stage, rows, *_: rows)
    monkeypatch.setattr(loaded, "check_row_bounds", lambda *_: None)
    engine = DuckDBEngine(folder, {})
    with pytest.raises(BrokenPromiseError, match="max_rows after joins"):
        ask(engine, of_units(200), ("sex",))
    assert engine._combinations == {}
    engine.close()


def test_a_failure_on_the_way_leaves_nothing(engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ask(engine, table(), ("sex",), where="sex >= 1")
    with monkeypatch.context() as patch:
        patch.setattr(combinations, "_repeat", lambda *_: 1 / 0)
        with pytest.raises(EngineError, match="DPR-E001"):
            ask(engine, table(), ("sex",))
    assert shown(engine) == 2
    assert ask(engine, table(), ("sex",)) == expected


@pytest.mark.thin(every=2)
@pytest.mark.parametrize(
    "more", [{"complete": ()}, {"max_groups": 2}, {"max_rows_per_group": 2}, {"complete": (), "where": "sex = 1"}]
)
def test_what_a_unit_is_bounded_by_in_a_query_is_left_to_the_pass_over_its_rows(
    more: dict[str, Any], engine: DuckDBEngine
) -> None:
    ask(engine, of_units(), ("sex",), **more)
    assert engine._combinations == {}


def test_closing_forgets_them(folder: Path) -> None:
    engine = DuckDBEngine(folder, {})
    ask(engine, table(), ("sex",))
    engine.close()
    assert engine._combinations == {}
