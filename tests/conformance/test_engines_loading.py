"""What is expected to be asked decides what is read, and no answer: neither of what was expected nor of anything else."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity, TotalsCube
from dprelease.catalog.table import Catalog, Column, Table, Zeros
from dprelease.engines import ENGINES, Engine
from tests.conformance.people import COUNT, PEOPLE, REGIONS, SECRET, opened
from tests.conformance.reference_engine import ReferenceEngine
from tests.conformance.test_engines import parts, quantities, tables
from tests.conformance.test_engines_units import groupings, user_rows, visit_rows
from tests.conformance.unit_tables import WITH_USERS, asked, bounds, catalog_of, opening, table_bounds, users, visits
from tests.conformance.unit_tables import quantities as every_quantity
from tests.conformance.unit_tables import write as write_units
from tests.tiers import few

CONDITIONS = (None, "amount > 2.5", "area IS NULL", "code", "rank < 3 AND region = 's'")
UNITS, ROWS = Quantity(kind="units"), Quantity(kind="rows")


def told(engine: Engine, table: Table, catalog: Catalog, grouping: Grouping, some: list[Quantity]) -> list[Any]:
    boxes = engine.aggregate(catalog, grouping, some, {"regions": REGIONS}, SECRET)
    return [opened(box) for box in boxes]


@settings(max_examples=few(30, 4), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_expected_changes_no_answer(kind: str, data: st.DataObject) -> None:
    table = data.draw(tables())
    files = data.draw(parts(table))
    names = st.lists(st.sampled_from(["area", "Code", "code", "day", "region"]), unique=True, max_size=3).map(tuple)
    catalog = Catalog(
        tables={table.name: table},
        zeros={"never": Zeros(columns=("area", "day"), reference="none", cells=(0, 3))},
        exclusions={"some": (0,)},
    )
    questions = []
    for _ in range(data.draw(st.integers(1, 3))):
        by, complete = data.draw(names), data.draw(st.one_of(st.just(()), names))
        zeros = "never" if {"area", "day"} <= set(complete) and data.draw(st.booleans()) else None
        grouping = Grouping(
            table=table.name,
            by=by,
            complete=complete,
            zeros=zeros,
            where=data.draw(st.sampled_from(CONDITIONS)),
            excluding="some" if table.cells(by) > 1 and data.draw(st.booleans()) else None,
        )
        kinds = data.draw(st.sampled_from([st.just([COUNT]), st.lists(quantities(), min_size=1, max_size=3)]))
        questions.append((grouping, data.draw(kinds)))
    expected = data.draw(st.lists(st.sampled_from(questions), max_size=3))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at, content in enumerate(files):
            (folder / f"rows-{at}.{table.source.format}").write_bytes(content)
        engine, reference = ENGINES[kind](folder, {}), ReferenceEngine(folder, {})
        engine.expect(catalog, expected)
        for grouping, some in [*expected, *questions]:
            assert told(engine, table, catalog, grouping, some) == told(reference, table, catalog, grouping, some)
        engine.close()


@settings(max_examples=few(14, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_expected_of_units_changes_no_answer(kind: str, data: st.DataObject) -> None:
    """Counts alone need no row of a unit to be chosen, and so few columns; everything else needs all of them."""
    shape, unit = data.draw(st.sampled_from(["csv", "parquet"])), data.draw(st.sampled_from(["text", "integer"]))
    lent, null_id = data.draw(st.booleans()), data.draw(st.sampled_from(["drop", "unit"]))
    whole = data.draw(st.sampled_from([None, *table_bounds()]))
    mine = visits(shape, unit, null_id=null_id, bounds=whole, private_joins=WITH_USERS if lent else ())
    catalog = catalog_of(mine, users(shape, unit))
    questions = []
    for _ in range(data.draw(st.integers(1, 3))):
        grouping = Grouping(table="visits", **{**data.draw(groupings(lent)), **data.draw(st.sampled_from(bounds()))})
        kinds = data.draw(st.sampled_from([[ROWS, UNITS], every_quantity()]))
        questions.append((grouping, data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))))
    expected = data.draw(st.lists(st.sampled_from(questions), max_size=3))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_units(folder, mine, data.draw(visit_rows(unit)), parts=data.draw(st.integers(1, 2)))
        write_units(folder, catalog.tables["users"], data.draw(user_rows(unit)))
        with opening(kind, folder) as engine, opening("reference", folder) as reference:
            engine.expect(catalog, expected)
            for grouping, some in [*expected, *questions]:
                assert asked(engine, catalog, grouping, some) == asked(reference, catalog, grouping, some)


@pytest.mark.parametrize("shape", ["csv", "parquet"])
def test_of_a_key_column_the_places_of_its_values_are_enough(kind: str, shape: str, tmp_path: Path) -> None:
    """Keys that come twice, a key for nulls, values that are none, and whole numbers that follow one another or not."""
    import pyarrow as pa
    import pyarrow.csv as pv
    import pyarrow.parquet as pq

    columns = (
        Column(name="area", type="text", keys=("b", "a", "b", "none"), null="none"),
        Column(name="run", type="integer", keys=(3, 4, 5), null=4),
        Column(name="odd", type="integer", keys=(7, -2, 2**63 - 1, 2**70)),
        Column(name="day", type="date", keys=("2024-02-29", "2024-03-01")),
        Column(name="yes", type="boolean", keys=(False,)),
    )
    source = PEOPLE.source.model_copy(update={"file": f"t.{shape}", "format": shape})
    table = Table(name="t", account="a", source=source, columns=columns)
    stored = {
        "area": ["a", "b", None, "c", "b", "none", "a"],
        "run": [2, 3, None, 5, 6, 4, -(2**63)],
        "odd": [7, 7, -2, None, 2**63 - 1, 0, -2],
        "day": ["2024-02-29", "2024-3-1", None, "2024-03-01", "x", "2024-02-29", "2024-02-29"],
        "yes": ["false", "F", "true", None, "0", "1", "no"],
    }
    if shape == "csv":
        pv.write_csv(pa.table(stored), tmp_path / "t.csv")
    else:
        pq.write_table(pa.table(stored), tmp_path / "t.parquet")
    catalog = Catalog(tables={"t": table})
    names = [column.name for column in columns]
    questions = [(Grouping(table="t", by=(one, other)), [COUNT]) for one in names for other in names if one < other]
    questions += [(Grouping(table="t", by=(one,), complete=tuple(names)), [COUNT]) for one in names]
    engine, reference = ENGINES[kind](tmp_path, {}), ReferenceEngine(tmp_path, {})
    engine.expect(catalog, questions)
    cube = TotalsCube(by=tuple(sorted(names)), quantities=(COUNT,))
    for grouping, some in questions:
        expected = [opened(box) for box in reference.aggregate(catalog, grouping, some, {}, b"")]
        assert [opened(box) for box in engine.aggregate(catalog, grouping, some, {}, b"")] == expected
        assert [opened(box) for box in engine.aggregate(catalog, grouping, some, {}, b"", cube=cube)] == expected
    engine.close()
