"""Some keys of a column asked for by themselves: their cells hold what they hold among all, and nothing is lost."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.table import Catalog, Column, Source, Table, TableBounds
from dprelease.engines import ENGINES, Engine
from dprelease.errors import Unsupported
from dprelease.noise.exact import open_exact
from tests.conformance.people import SECRET
from tests.conformance.reference_engine import ReferenceEngine

ROWS = Quantity(kind="rows")
NODES = ("a", "b", "c", "d", "e", "f")
COMPLETE = ("node", "sex", "top")


def table(**more: Any) -> Table:
    columns = (
        Column(name="who", type="integer"),
        Column(name="top", type="text", keys=("N", "S")),
        Column(name="node", type="text", keys=NODES, null="f"),
        Column(name="sex", type="integer", keys=(1, 2)),
    )
    return Table(name="people", account="a", source=Source(file="people.csv", format="csv"), columns=columns, **more)


def rows(count: int, seed: int = 1) -> list[str]:
    """Whatever is in the column above: it says nothing of which node a row is in."""
    draw = random.Random(seed)
    return [
        f"{draw.randrange(count)},{draw.choice('NSX')},{draw.choice([*NODES[:5], '', 'zz'])},{draw.choice([1, 2, 3])}"
        for _ in range(count)
    ]


def write(folder: Path, lines: list[str]) -> None:
    (folder / "people.csv").write_text("\n".join(["who,top,node,sex", *lines]) + "\n", encoding="utf-8")


def asked(engine: Any, grouping: Grouping, of: Table, within: CellSlice | None = None) -> list[int]:
    catalog = Catalog(tables={"people": of})
    (box,) = engine.aggregate(catalog, grouping, [ROWS], {}, SECRET, within=within)
    return [int(each) for each in open_exact(box)]


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    nodes=st.sets(st.integers(0, 5), min_size=1),
    by=st.sampled_from([("node",), ("node", "sex"), ("node", "top", "sex")]),
    units=st.sampled_from([{}, {"unit_id": "who", "bounds": TableBounds(max_rows=2)}]),
    count=st.sampled_from([0, 3, 400]),
)
def test_the_cells_of_some_keys_are_those_of_all_keys(
    kind: str, nodes: set[int], by: tuple[str, ...], units: dict[str, Any], count: int
) -> None:
    of, within = table(**units), CellSlice(column="node", nodes=tuple(sorted(nodes)))
    grouping = Grouping(table="people", by=by, complete=COMPLETE)
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), rows(count))
        engine: Engine = ENGINES[kind](Path(name), {})
        try:
            whole = np.reshape(asked(engine, grouping, of), (len(NODES), -1))
            expected = whole[sorted(nodes)].ravel().tolist()
            assert asked(engine, grouping, of, within) == expected
        finally:
            engine.close()
        assert asked(ReferenceEngine(Path(name), {}), grouping, of, within) == expected


def test_a_row_counts_by_its_node_whatever_the_column_above_says(kind: str, tmp_path: Path) -> None:
    """Parts that part the keys part the rows: none is lost and none counts twice, though no level nests in the data."""
    of, grouping = table(), Grouping(table="people", by=("node",), complete=COMPLETE)
    write(tmp_path, rows(500))
    engine = ENGINES[kind](tmp_path, {})
    whole = asked(engine, grouping, of)
    assert sum(whole) > 100
    parts = [CellSlice(column="node", nodes=nodes) for nodes in ((0, 3, 5), (1,), (2, 4))]
    assert sum(sum(asked(engine, grouping, of, part)) for part in parts) == sum(whole)
    engine.close()


@pytest.mark.parametrize(
    ("grouping", "nodes", "quantity"),
    [
        ({"by": ("sex", "node"), "complete": COMPLETE}, (0,), ROWS),
        ({"by": (), "complete": COMPLETE}, (0,), ROWS),
        ({"by": ("node",)}, (0,), ROWS),
        ({"by": ("node",), "complete": COMPLETE}, (0,), Quantity(kind="nonnull", column="sex")),
        ({"by": ("node",), "complete": COMPLETE}, (), ROWS),
        ({"by": ("node",), "complete": COMPLETE}, (6,), ROWS),
        ({"by": ("node",), "complete": COMPLETE}, (1, 1), ROWS),
        ({"by": ("node",), "complete": COMPLETE}, (2, 1), ROWS),
        ({"by": ("node",), "complete": COMPLETE, "max_groups": 1}, (0,), ROWS),
    ],
)
def test_what_has_no_such_part_is_refused_before_a_row_is_read(
    kind: str, grouping: dict[str, Any], nodes: tuple[int, ...], quantity: Quantity, tmp_path: Path
) -> None:
    engine = ENGINES[kind](tmp_path, {})  # there is no file
    of = table(unit_id="who", bounds=TableBounds(max_rows=2)) if "max_groups" in grouping else table()
    with pytest.raises(Unsupported) as caught:
        engine.aggregate(
            Catalog(tables={"people": of}),
            Grouping(table="people", **grouping),
            [quantity],
            {},
            SECRET,
            within=CellSlice(column="node", nodes=nodes),
        )
    assert caught.value.code == "DPR-E218"
    engine.close()
