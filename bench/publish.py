"""Seconds and memory to publish a large release, for each format by itself.

Usage: ``python -m bench.publish [--tables 200] [--cells 500000] [--profile FORMAT]``. A plan of as many counts and
means, with that many cells together, and made-up measurements of them: no engine, no ledger. Printed are the seconds of
every format and of writing the bundle, the largest memory so far, and the size of the files; ``--profile`` adds the
functions in which one format spends its time. Nothing here is asserted; 200 tables with 500,000 cells are meant to take
less than a minute and 2 GB.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from dprelease.catalog.aggregate import BoundedAggregate
from dprelease.catalog.table import Catalog, Column, Range
from dprelease.formats import FORMATS
from dprelease.measures import Measure
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.noise import Measurement
from dprelease.plan.document import Answer, Feed, PlannedQuery, Publish, ReleasePlan, Step
from dprelease.privacy.event import Sensitivity
from dprelease.publish import render, write
from dprelease.publish.base import Content
from dprelease.publish.bundle.measurements import measurement_files
from dprelease.publish.bundle.package import format_files
from dprelease.publish.measured import inputs_of, queries_as_tables
from dprelease.publish.packed import Data, Files, kept, size_in
from tests.unit import publish_example

DEFAULT = ("csv", "parquet", "xlsx", "html")
MEASURES: dict[str, Measure] = {"persons": Count(count="income"), "average": Mean(mean="income")}
SEXES = 2
T = TypeVar("T")


def release(tables: int, cells: int) -> tuple[ReleasePlan, dict[str, Measurement]]:
    """A plan with a count and a mean by place and sex in every table, and numbers for its steps."""
    places = max(1, cells // tables // SEXES)
    old = publish_example.table()
    columns = (
        Column(name="place", type="text", keys=tuple(f"{at:06d}" for at in range(places)), labels={"000001": "Aix"}),
        Column(name="sex", type="integer", keys=(1, 2), labels=publish_example.SEXES),
        Column(name="income", type="decimal", range=Range(low=Fraction(0), high=Fraction(200_000))),
    )
    table = old.model_copy(update={"columns": columns})
    centred, counted = MEASURES["average"].quantities(table)
    generator = np.random.default_rng(1)
    queries, steps, measured = [], [], {}
    for at in range(tables):
        name = f"table{at:04d}"
        made = {f"{name}.persons": counted, f"{name}.centred": centred}
        for step, quantity in made.items():
            steps.append(
                Step(
                    id=step,
                    answers=(Answer(query=name, measure="average"),),
                    aggregate=BoundedAggregate(table="persons", by=("place", "sex"), quantity=quantity),
                    mechanism="discrete_gaussian",
                    sensitivity=Sensitivity.of_one_cell(max(map(abs, quantity.contribution))),
                    scale=Fraction(20 if quantity is counted else 2_000_000),
                    share=Fraction(1, 2 * tables),
                    cells=places * SEXES,
                )
            )
        counts = generator.integers(-20, 4000, places * SEXES)
        measured[f"{name}.persons"] = Measurement(f"{name}.persons", counts)
        offsets = counts * generator.integers(-60_000, 20_000, places * SEXES)
        measured[f"{name}.centred"] = Measurement(f"{name}.centred", offsets)
        queries.append(
            PlannedQuery(
                name=name,
                title=f"Persons and income, part {at}",
                table="persons",
                by=("place", "sex"),
                measures=MEASURES,
                inputs={
                    "persons": (Feed(step=f"{name}.persons"),),
                    "average": (Feed(step=f"{name}.centred"), Feed(step=f"{name}.persons")),
                },
            )
        )
    plan = publish_example.plan(
        catalog=Catalog(tables={"persons": table}),
        queries=tuple(queries),
        steps=tuple(steps),
        outputs=(),
        publish=Publish.model_validate({"unreliable_above": Fraction(1, 2), "formats": DEFAULT}),
    )
    return plan, measured


def _timed(what: str, run: Callable[[], T]) -> T:
    start = time.perf_counter()
    found = run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    size = sum(size_in(found, path) for path in found) / 1e6 if isinstance(found, Mapping) else 0
    print(f"{what:<14}{time.perf_counter() - start:8.1f} s {peak:8.2f} GB" + (f" {size:10.1f} MB" if size else ""))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--cells", type=int, default=500_000)
    parser.add_argument("--profile", metavar="FORMAT")
    asked = parser.parse_args()
    plan, measured = release(asked.tables, asked.cells)
    facts = publish_example.facts(plan)
    print(f"{asked.tables} tables, {asked.cells} cells with two numbers each; formats {', '.join(DEFAULT)}")
    tables = _timed("estimates", lambda: queries_as_tables(plan, inputs_of(plan, measured)))
    content = Content(plan, tables, facts, measured)
    files: dict[str, Data] = {}
    for name in DEFAULT:
        profiler = cProfile.Profile()
        if name == asked.profile:
            profiler.enable()
        files.update(kept(_timed(name, partial(format_files, FORMATS[name], content, Files(files)))))
        if name == asked.profile:
            profiler.disable()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    files.update(kept(_timed("measurements", lambda: measurement_files(plan, measured))))
    print(f"index.html     {len(files['index.html']) / 1e6:.2f} MB; {len(files)} files")
    del tables, content
    files.clear()
    publication = _timed("whole render", lambda: render(plan, measured, facts))
    with tempfile.TemporaryDirectory() as folder:
        _timed("write", lambda: write(publication, Path(folder) / "bundle"))


if __name__ == "__main__":
    main()
