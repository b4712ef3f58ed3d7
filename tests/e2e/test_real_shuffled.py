"""The four real files with their rows permuted and cut into ten: the same exact aggregates, and tables of one shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from dprelease.catalog.reference import ReferenceTable
from dprelease.engines import DuckDBEngine
from dprelease.noise import Exact, ExactHistogram
from dprelease.noise.exact import open_exact, open_histogram, open_keys
from dprelease.plan.document import Batch, ReleasePlan
from dprelease.release.planning import open_target, plan_release
from dprelease.release.project import reference_tables
from tests.e2e.real_data import FILES
from tests.e2e.real_releases import project

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not all(path.exists() for path in FILES.values()), reason="the data folder is not there"),
]

SECRET = bytes(range(32))
# In what form the shuffled parts are written. A timestamp keeps the words of its file, so the web shop stays Parquet.
PARTS = {"retail": "parquet", "crashes": "parquet", "flights": "csv", "incomes": "csv"}
# Of the two large files every n-th row, so that the test stays short; nightly reads them whole.
SAMPLES = {"retail": 6, "crashes": 1, "flights": 4, "incomes": 1}


def rewritten(spec: str, folder: Path, whole: bool) -> None:
    """The rows as they are, in ``first``; permuted by a hash and cut into ten, in ``second``."""
    source = FILES[spec]
    reader = "read_parquet" if source.suffix == ".parquet" else "read_csv"
    named = ", all_varchar = true" if reader == "read_csv" else ""
    every = 1 if whole else SAMPLES[spec]
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE TABLE kept AS SELECT * FROM (SELECT *, row_number() OVER () AS line FROM "
            f"{reader}('{source}'{named})) WHERE line % {every} = 0"
        )
        (folder / "first").mkdir()
        form = source.suffix[1:]
        _write(connection, "SELECT * EXCLUDE line FROM kept ORDER BY line", folder / "first" / f"{source.stem}.{form}")
        (folder / "second").mkdir()
        for at in range(10):
            name = folder / "second" / f"{source.stem}-{at}.{PARTS[spec]}"
            rows = f"SELECT * EXCLUDE line FROM kept WHERE hash(line) % 10 = {at} ORDER BY hash(line + 1)"
            _write(connection, rows, name)


def _write(connection: duckdb.DuckDBPyConnection, rows: str, path: Path) -> None:
    options = "FORMAT csv, HEADER" if path.suffix == ".csv" else "FORMAT parquet"
    connection.execute(f"COPY ({rows}) TO '{path}' ({options})")


def plan_over(folder: Path, spec: str, files: str) -> tuple[ReleasePlan, dict[str, ReferenceTable]]:
    """The plan of a spec whose source are other files."""
    folder.mkdir()
    path = project(folder, spec)
    text = path.read_text(encoding="utf-8")
    (old,) = [line for line in text.splitlines() if line.strip().startswith("source:")]
    new = old.replace(FILES[spec].name, files)
    path.write_text(text.replace(old, new), encoding="utf-8")
    plan = plan_release(open_target(path))
    return plan, dict(reference_tables(plan.catalog, folder))


def opened(box: Exact | ExactHistogram) -> Any:
    if isinstance(box, Exact):
        return open_exact(box).tobytes()
    cells, *entries = open_histogram(box)
    merged: dict[tuple[int, int], int] = {}
    for cell, value, count in zip(*(part.tolist() for part in entries), strict=True):
        merged[cell, value] = merged.get((cell, value), 0) + count
    return cells, sorted(merged.items())


def answers(engine: DuckDBEngine, batch: Batch, plan: ReleasePlan, references: dict[str, ReferenceTable]) -> list[Any]:
    """Everything that the steps of one pass would measure; of selected keys, all that occur."""
    drawn = [step for step in batch.steps if getattr(step, "selecting", None) is None]  # invariants select nothing
    quantities = list(dict.fromkeys(part for step in drawn for part in batch.asked(step)))
    keys, found = None, []
    if batch.selection is not None:
        keys, counts = open_keys(engine.units_by_key(plan.catalog, batch.grouping, references, SECRET))
        found += [keys, counts.tobytes()]
    boxes = engine.aggregate(plan.catalog, batch.grouping, quantities, references, SECRET, keys)
    return [*found, *(opened(box) for box in boxes)]


def check(spec: str, folder: Path, whole: bool) -> None:
    rewritten(spec, folder, whole)
    results = []
    for part, files in (("first", FILES[spec].name), ("second", f"{FILES[spec].stem}-*.{PARTS[spec]}")):
        plan, references = plan_over(folder / f"project-{part}", spec, files)
        place = str(folder / part)
        engine = DuckDBEngine(folder, {"DPRELEASE_DATA": place, "DPRELEASE_ACS": place})
        try:
            results.append([answers(engine, batch, plan, references) for batch in plan.batches()])
        finally:
            engine.close()
    assert sum(map(len, results[0])) >= 4
    assert results[0] == results[1]


@pytest.mark.parametrize("spec", sorted(FILES))
def test_order_and_files_change_no_exact_number(spec: str, tmp_path: Path) -> None:
    check(spec, tmp_path, whole=False)


@pytest.mark.nightly
@pytest.mark.parametrize("spec", sorted(FILES))
def test_order_and_files_change_no_exact_number_of_the_whole_file(spec: str, tmp_path: Path) -> None:
    check(spec, tmp_path, whole=True)
