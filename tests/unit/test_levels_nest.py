"""A row with a key at the lowest level has that key's ancestors, whatever the data hold: asked of the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.reference import read_reference
from dprelease.catalog.table import Catalog, Column
from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.noise.exact import Exact, open_exact
from dprelease.plan.resolve.catalog import resolve
from dprelease.spec.load import load

from .workloads_example import GEO, WORKLOADS

COUNT = Quantity(kind="rows")
LOADED = load(WORKLOADS, "spec.yaml")
CATALOG = resolve(LOADED, {"geo": GEO})
# Known and unknown codes, codes that nearly are known ones, nulls, and ages at and beyond every edge.
PUMAS = ["0601", "3601", "0602", "4801", "3602", "9999", "601", " 0601", "", "0601.0", "S", "06"]
AGES = ["0", "17", "18", "34", "35", "65", "99", "100", "-5", "", "x", "17.5", "1e9"]
PAGES = ["a", "b", "c", "d", "", " a", "A"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("levels")
    (made / "data").mkdir()
    people = [f"{puma},{age},1,2,x" for puma in PUMAS for age in AGES]
    (made / "data" / "persons.csv").write_text("\n".join(["puma,age,sex,race,note", *people]) + "\n")
    visits = [f"{who},{page},desk" for who in range(3) for page in PAGES]
    (made / "data" / "visits.csv").write_text("\n".join(["who,page,device", *visits]) + "\n")
    return made


def counted(folder: Path, catalog: Catalog, table: str, by: tuple[str, ...]) -> np.ndarray:
    references = {"geo": read_reference(GEO, LOADED.spec.references["geo"].columns)}
    engine = DuckDBEngine(folder, {})
    try:
        (box,) = engine.aggregate(catalog, Grouping(table=table, by=by), (COUNT,), references, bytes(32))
    finally:
        engine.close()
    assert isinstance(box, Exact)
    return open_exact(box).reshape([catalog.tables[table].column(name).cells for name in by])


@pytest.mark.parametrize(("name", "table"), [("geography", "persons"), ("ages", "persons"), ("topics", "visits")])
def test_each_row_lies_in_the_parent_of_the_node_that_it_lies_in(folder: Path, name: str, table: str) -> None:
    tree = CATALOG.hierarchies[name]
    for level, parents in enumerate(tree.parents, start=1):
        above, below = tree.levels[level - 1 : level + 1]
        both = counted(folder, CATALOG, table, (above, below))
        alone = counted(folder, CATALOG, table, (below,))

        assert alone.sum() > 0
        expected = np.zeros_like(both)
        expected[list(parents), range(len(parents))] = alone
        assert (both == expected).all()


def test_a_key_for_nulls_at_one_level_alone_would_break_it(folder: Path) -> None:
    """Why `null` is refused there: such rows are in a node, and in no parent of it."""

    def changed(column: Column) -> Column:
        return column.model_copy(update={"null": "0601"}) if column.name == "puma" else column

    table = CATALOG.tables["persons"]
    table = table.model_copy(update={"columns": tuple(map(changed, table.columns))})
    broken = CATALOG.model_copy(update={"tables": {**CATALOG.tables, "persons": table}})

    assert (
        counted(folder, broken, "persons", ("puma",)).sum()
        > counted(folder, broken, "persons", ("state", "puma")).sum()
    )
