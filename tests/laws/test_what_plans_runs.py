"""What a spec may say, a run can do: whatever is accepted is measured, published and checked, on whatever rows.

A refusal costs the author a minute before the budget is charged, and the budget after it. So every accepted spec must
run to its end, over columns with any name, keys of any type and rows that mean nothing; and what its files look like,
their columns, their rows and the order of these, must follow from the plan and the keys alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest

from dprelease.catalog.reference import read_reference
from dprelease.catalog.table import Key
from dprelease.engines import ENGINES
from dprelease.errors import BudgetTooSmall
from dprelease.ledger import Charge, Ledger, Reservation, open_ledger
from dprelease.noise import Measurement
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish import Publication, check_bundle, check_publishable, write
from dprelease.release.data.sources import RunSources, SourceKey
from dprelease.release.draw import DataSource, draw_batch
from dprelease.release.publishing.rendering import rendered
from tests.laws.running import Example, example
from tests.laws.running import write as write_files
from tests.planned import plan_of

OFTEN, FULL, BLOCKS = 4, 300, 10  # specs on every commit, and at night in so many tests


def ran(made: Example, folder: Path) -> bool:
    """Whether the example was accepted; then it was run to its end, and every law is asserted on it."""
    try:
        plan = plan_of(made.text, dict(made.references))
    except BudgetTooSmall:
        return False
    verify(plan)
    check_publishable(plan)
    write_files(made, folder)
    ledger = open_ledger("sqlite:///ledger.db", folder)
    charges = [Charge(account=each, events=plan.cost_of(each), cap=each.lifetime) for each in plan.accounts]
    reservation = ledger.reserve(plan, charges)
    found = measured(plan, reservation, ledger, folder)
    check_shapes(plan, found)
    publication = rendered(ledger, reservation)
    write(publication, folder / "bundle")
    assert [check for check in check_bundle(folder / "bundle") if check.passed is False] == []
    check_rows(plan, found, publication)
    return True


def measured(plan: ReleasePlan, reservation: Reservation, ledger: Ledger, folder: Path) -> Mapping[str, Measurement]:
    """The committed answer of every step."""
    read = {
        name: read_reference((folder / reference.file).read_bytes(), reference.columns)
        for name, reference in plan.catalog.references.items()
    }
    identity = (reservation.release, reservation.period, reservation.plan_fingerprint)
    engine = ENGINES["duckdb"](folder, {})
    try:
        for table in plan.catalog.tables.values():
            engine.describe(table)
        for batch in plan.batches():
            for grouping, asked in batch.questions.items():
                engine.check(plan.catalog, grouping, asked, read)
        pinned = RunSources().pin(ledger, identity, plan.catalog.tables, engine, SourceKey.thrown_away())
        source = DataSource(plan.catalog, read, engine, pinned)
        answers = [each for batch in plan.batches() for each in draw_batch(batch, source, ledger, identity)]
    finally:
        engine.close()
    return {answer.step: answer for answer in answers}


def check_shapes(plan: ReleasePlan, found: Mapping[str, Measurement]) -> None:
    """Every step has one answer, of the planned size; those over selected keys have one number for each of these."""
    assert sorted(found) == sorted(step.id for step in plan.steps)
    selections = {query.name: query.selection or "" for query in plan.queries}
    for step in plan.steps:
        answer = found[step.id]
        if step.selecting is not None:
            assert answer.keys is not None
            assert list(answer.keys) == sorted(set(answer.keys), key=texts)
            assert len(answer.values) == len(answer.keys)
        elif step.aggregate.private:
            assert len(answer.values) == len(step.parts) * len(found[selections[step.answers[0].query]].keys or ())
        else:
            assert len(answer.values) == step.numbers


def check_rows(plan: ReleasePlan, found: Mapping[str, Measurement], publication: Publication) -> None:
    """The rows of a table are the keys in declared order, without what is left out; or the selected ones, as drawn."""
    if not any(path.startswith("tables/") and path.endswith(".csv") for path in publication.files):
        return
    for query in plan.queries:
        data = publication.files[f"tables/{query.name}.csv"].decode()
        rows = list(csv.reader(io.StringIO(data, newline="")))[1:]
        if query.ranking is not None:
            step = found[query.ranking.step]
            known = plan.keys(query)[0].keys or ()
            expected = [texts((rank, known[at])) for rank, at in enumerate(step.values.tolist(), start=1)]
        else:
            keys = found[query.selection].keys or () if query.selection is not None else declared(plan, query)
            expected = [texts(key) for key in keys]
        assert [tuple(row[: len(expected[0])]) for row in rows] == expected if expected else rows == []


def declared(plan: ReleasePlan, query: PlannedQuery) -> list[tuple[Key, ...]]:
    """The declared cells of a query in row-major order; ``apart`` is the one reference that leaves cells out."""
    cells = product(*(column.keys or () for column in plan.keys(query)))
    out = {("DE", True), ("FR", False)} if query.excluding is not None else set()
    return [cell for cell in cells if cell not in out]


def shown(key: Key) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def texts(key: tuple[Key, ...]) -> tuple[str, ...]:
    return tuple(map(shown, key))


@pytest.mark.slow
def test_whatever_is_accepted_runs_and_is_published(tmp_path: Path) -> None:
    accepted = 0
    for seed in range(OFTEN):
        (folder := tmp_path / str(seed)).mkdir()
        accepted += ran(example(seed, most=1), folder)
    assert accepted >= OFTEN * 0.8  # most of them run, and are not refused


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(BLOCKS))
def test_three_hundred_specs_run(block: int, tmp_path: Path) -> None:
    seeds = range(block * FULL // BLOCKS, (block + 1) * FULL // BLOCKS)
    accepted = 0
    for seed in seeds:
        (folder := tmp_path / str(seed)).mkdir()
        accepted += ran(example(seed), folder)
    assert accepted >= len(seeds) * 0.8
