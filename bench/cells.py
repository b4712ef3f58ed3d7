"""Seconds and memory to write and read tables of up to ten million cells, beside pandas.

Usage: ``python -m bench.cells [--cells 100000 1000000 10000000] [--what csv parquet ...]``. A table with four key
columns and one measure, its values real numbers, its margins one number for each node, as a reconciled workload of
marginals has them; then a whole release with one count of as many cells, in CSV and Parquet. Every line is a process of
its own, so that its memory is its own: the largest, with the libraries and the table itself (line ``table``). The
seconds of the processor are those that count where others use the machine. Nothing is asserted; a release of 10 million
cells is meant to be rendered and written in 3 minutes and 5 GB on two cores.
"""

from __future__ import annotations

import argparse
import atexit
import io
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.table import Catalog, Column
from dprelease.estimate import PublishedMeasure, PublishedTable, full_product, statuses
from dprelease.measures.count import Count
from dprelease.noise import Measurement
from dprelease.plan.document import Answer, Feed, PlannedQuery, Publish, ReleasePlan, Step
from dprelease.privacy.event import Sensitivity
from dprelease.publish import check_bundle, render, write
from dprelease.publish.bundle.measurements import measurement_files, measurements_in
from dprelease.publish.bundle.read_tables import READERS, Kind
from dprelease.publish.columns import table_header
from dprelease.publish.formats.datapackage import csv_blocks
from dprelease.publish.formats.parquet import parquet_bytes
from dprelease.publish.packed import Files, pack, size_in
from tests.unit import publish_example

SIZES = (100_000, 1_000_000, 10_000_000)
LINES = (
    "table",
    "csv",
    "csv back",
    "parquet",
    "parquet back",
    "measurements",
    "measurements back",
    "release",
    "verify",
)
PEER = "pandas.to_csv"
Timed = Callable[[], int]


def columns(cells: int) -> tuple[Column, ...]:
    """Four key columns with so many cells together: nodes, ages, groups and a yes or no."""
    nodes = tuple(f"{at:07d}" for at in range(cells // 1000))
    return (
        Column(name="node", type="text", keys=nodes),
        Column(name="age", type="integer", keys=tuple(range(50))),
        Column(name="race", type="text", keys=tuple(f"group {at}" for at in range(10))),
        Column(name="adult", type="boolean", keys=(False, True)),
    )


def table(cells: int) -> PublishedTable:
    """The table."""
    generator = np.random.default_rng(1)
    value = generator.normal(100, 40, cells)
    error = np.broadcast_to(generator.uniform(2, 3, cells // 1000)[:, None], (cells // 1000, 1000)).reshape(-1)
    margin = 1.96 * error
    low = np.zeros(cells, dtype=bool)
    measure = PublishedMeasure(
        "persons", Count(count="rows"), value, error, margin, value - margin, value + margin, statuses(low, low), None,
        False,
    )  # fmt: skip
    keys = full_product(columns(cells)).columns
    return PublishedTable("crosstab", "Crosstab", columns(cells), keys, (measure,), Fraction(19, 20), cells)


def release(cells: int) -> tuple[ReleasePlan, dict[str, Measurement]]:
    """A plan of one count by the four columns, and its measurement."""
    keys = columns(cells)
    people = publish_example.table().model_copy(update={"columns": keys})
    by = tuple(column.name for column in keys)
    step = Step(
        id="crosstab.rows",
        answers=(Answer(query="crosstab", measure="persons"),),
        aggregate=BoundedAggregate(table="persons", by=by, quantity=Quantity(kind="rows")),
        mechanism="discrete_gaussian",
        sensitivity=Sensitivity.of_one_cell(1),
        scale=Fraction(10),
        share=Fraction(1),
        cells=cells,
    )
    query = PlannedQuery(
        name="crosstab",
        title="Crosstab",
        table="persons",
        by=by,
        measures={"persons": Count(count="rows")},
        inputs={"persons": (Feed(step=step.id),)},
    )
    plan = publish_example.plan(
        catalog=Catalog(tables={"persons": people}),
        queries=(query,),
        steps=(step,),
        outputs=(),
        publish=Publish(formats=("csv", "parquet")),
    )
    return plan, {step.id: Measurement(step.id, np.random.default_rng(2).integers(-20, 4000, cells))}


def prepared(what: str, cells: int) -> Timed:
    """What is timed; it returns the bytes that it made or read."""
    made = table(cells) if what in ("csv", "csv back", "parquet", "parquet back", PEER) else None
    if made is not None:
        return _of_table(what, made)
    if what == "table":
        return lambda: 0 * table(cells).cells
    plan, measured = release(cells)
    if what.startswith("measurements"):
        if what == "measurements":
            return lambda: _size(measurement_files(plan, measured))
        files = measurement_files(plan, measured)
        return lambda: 0 * len(measurements_in(plan, files))
    place = tempfile.TemporaryDirectory()
    atexit.register(place.cleanup)
    folder = Path(place.name) / "bundle"
    facts = publish_example.facts(plan)

    def publish() -> int:
        published = render(plan, measured, facts)
        write(published, folder)
        return _size(published.files)

    if what == "release":
        return publish
    publish()
    return lambda: 0 * sum(each.passed is False for each in check_bundle(folder))


def _of_table(what: str, made: PublishedTable) -> Timed:
    names = table_header(made)
    if what == "csv":
        return lambda: size_in(Files({"csv": pack(csv_blocks(names, made))}), "csv")
    if what == "parquet":
        return lambda: len(parquet_bytes(made, {}, rehearsal=False))
    if what == PEER:
        return partial(_pandas, made)
    ending = what.partition(" ")[0]
    data = b"".join(csv_blocks(names, made)) if ending == "csv" else parquet_bytes(made, {}, rehearsal=False)
    kinds: dict[str, Kind] = dict.fromkeys(names, "text")
    kinds |= dict.fromkeys(names[4:9], "number")
    return lambda: 0 * READERS[ending](data, names, kinds).rows if data else 0  # type: ignore[union-attr]


def _pandas(made: PublishedTable) -> int:
    import pandas as pd

    frame = {name: pd.Categorical.from_codes(each.codes, each.keys)  # type: ignore[attr-defined]
             for name, each in zip(table_header(made), made.keys, strict=False)}  # fmt: skip
    (measure,) = made.measures
    numbers = (measure.value, measure.standard_error, measure.margin, measure.lower, measure.upper, "ok")
    frame |= dict(zip(table_header(made)[4:], numbers, strict=True))  # type: ignore[arg-type]
    sink = io.StringIO()
    pd.DataFrame(frame).to_csv(sink, index=False, lineterminator="\r\n")
    return sink.tell()


def _size(files: Mapping[str, bytes]) -> int:
    return sum(size_in(files, path) for path in files)


def _line(what: str, cells: int) -> None:
    run = prepared(what, cells)
    start, used = time.perf_counter(), time.process_time()
    size = run()
    seconds, used = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    told = f"{cells:>12,} {what:<18}{seconds:8.2f} s {used:8.2f} s of processor {peak:7.2f} GB"
    print(told + (f" {size / 1e6:10.1f} MB" if size else ""))


def main() -> None:
    """Print the lines, each from a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, nargs="+", default=SIZES)
    parser.add_argument("--what", nargs="+", choices=(*LINES, PEER), default=(*LINES, PEER))
    parser.add_argument("--here", action="store_true", help="in this process")
    asked = parser.parse_args()
    for cells in asked.cells:
        for what in asked.what:
            if asked.here:
                _line(what, cells)
                continue
            command = [sys.executable, "-m", "bench.cells", "--here", "--cells", str(cells), "--what", what]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
