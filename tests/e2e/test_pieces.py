"""Draws in pieces from a spec to a bundle: through threads, through Prefect, and through kills between two pieces.

What is cut is written into the plan when it is made. So a release is reserved here under a rule for small data, and
the command, which knows the common rule alone, goes on with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dprelease.ledger import Ledger, StepKey, open_ledger
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document import pieces as rule
from dprelease.release.run import Request, open_run
from tests.crash.child import Orders
from tests.crash.nursery import Nursery
from tests.e2e.prefect_server import prepare
from tests.project import command, installed
from tests.workloads import areas, crosstabs, ordinary, published, small_workloads, spec_of, truth_of

pytestmark = pytest.mark.slow

WHOLE = "[consistent, nonnegative, integer]"
SPECS = {
    "plain": spec_of(areas(), ordinary(), post=WHOLE),
    "units": spec_of(areas(), crosstabs(), units=True),
    "replaced": spec_of(areas(), relation="replace_one"),
}


def begun(folder: Path, spec: str, rows: int = 3000) -> ReleasePlan:
    """The plan of a release that is reserved in pieces and not measured."""
    path = small_workloads(folder, spec, rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rule, "CUT_ABOVE", 5)
        with open_run(Request(target=str(path)), "a run that stops before anything is drawn") as run:
            assert len(run.plan.pieces) >= 4
            return run.plan


def bundle(folder: Path) -> Path:
    return folder / "releases" / "census" / "2030"


def books(folder: Path) -> Ledger:
    return open_ledger("sqlite:///state/ledger.db", folder)


def answers(ledger: Ledger) -> list[tuple[str, str]]:
    return [(entry.body["step"], entry.body["digest"]) for entry in ledger.entries() if entry.kind == "measure"]


@pytest.mark.parametrize(
    "name", ["plain", *(pytest.param(n, marks=pytest.mark.nightly) for n in ("units", "replaced"))]
)
def test_a_release_in_pieces_is_published_verified_and_published_again(tmp_path: Path, name: str) -> None:
    """On every commit of "plain": "replaced" is held against the truth, and "units" verified after kills, below."""
    plan = begun(tmp_path, SPECS[name])
    said = command(tmp_path, "run", "spec.yaml", "--direct")
    assert f"{len(plan.numbers)} steps drawn, 0 reused" in said
    ledger = books(tmp_path)
    assert sorted(step for step, _ in answers(ledger)) == sorted(plan.numbers)
    assert ledger.check() == ()
    files = {path: path.read_bytes() for path in bundle(tmp_path).rglob("*") if path.is_file()}
    assert "FAIL" not in command(tmp_path, "verify", str(bundle(tmp_path)))
    assert "nothing drawn, nothing spent" in command(tmp_path, "run", "spec.yaml", "--direct")
    command(tmp_path, "publish", "census/2030")
    assert {path: path.read_bytes() for path in bundle(tmp_path).rglob("*") if path.is_file()} == files
    stored = {path.stem for path in (bundle(tmp_path) / "measurements").glob("*.csv")}
    assert not any("piece" in each for each in stored), "a stranger sees steps, as the plan has them"


def test_the_tables_are_as_near_the_truth_as_those_in_one_piece(tmp_path: Path) -> None:
    """A piece in another node's place, or one that is lacking, would be off by a hundred persons and more."""
    begun(tmp_path, SPECS["replaced"].replace("budget: {epsilon: 2", "budget: {epsilon: 19"))
    command(tmp_path, "run", "spec.yaml", "--direct")
    tables = published(bundle(tmp_path))
    looked = 0
    for name, rows in tables.items():
        keys = tuple(column for column in rows[0] if not column.startswith("count"))
        truth = truth_of(tmp_path, keys, ("sex", "race", "puma"))
        for row in rows:
            error = float(row["count"]) - truth[tuple(row[key] for key in keys)]
            assert abs(error) <= 6.5 * float(row["count_se"]) + 1e-6, (name, row)
            looked += truth[tuple(row[key] for key in keys)] > 100
    assert looked > 20


def test_through_prefect_every_unit_is_a_task_and_public_names_are_all_that_it_keeps(
    tmp_path: Path, empty: Path
) -> None:
    plan = begun(tmp_path, SPECS["plain"])
    prepare(tmp_path / "state" / "prefect", empty)
    assert f"{len(plan.numbers)} steps drawn, 0 reused" in installed(tmp_path, "run", "spec.yaml")
    with closing(sqlite3.connect(tmp_path / "state" / "prefect" / "prefect.db")) as database:
        tasks = [name for (name,) in database.execute("select name from task_run order by name")]
    units = [name for name in tasks if " in region " in name]
    assert units == [f"measure persons: areas in region {key} (2030)" for key in "NS"]
    assert "FAIL" not in command(tmp_path, "verify", str(bundle(tmp_path)))


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with Nursery(tmp_path_factory.mktemp("nursery") / "errors.txt") as made:
        yield made


@pytest.mark.parametrize(
    ("point", "hits"),
    [
        ("commit.committed", (2, 5)),
        pytest.param("draw.drawn", (4,), marks=pytest.mark.nightly),
        pytest.param("commit.indexed", (3,), marks=pytest.mark.nightly),
        pytest.param("draw.aggregated", (7,), marks=pytest.mark.nightly),
        pytest.param("publish.begun", (1,), marks=pytest.mark.nightly),
    ],
)
def test_a_kill_between_pieces_loses_no_piece_and_draws_none_twice(
    nursery: Nursery, tmp_path: Path, point: str, hits: tuple[int, ...]
) -> None:
    plan = begun(tmp_path, SPECS["units"])
    ledger = books(tmp_path)
    kept: dict[str, str] = {}
    for hit in hits:
        (end,) = nursery.run(Orders(str(tmp_path / "spec.yaml"), str(tmp_path / "note"), point=point, hit=hit))
        assert end.killed
        now = dict(answers(ledger))
        assert {step: digest for step, digest in now.items() if step in kept} == kept
        kept = now
    assert point.startswith("draw") or any(".piece-" in step for step in kept)
    assert point == "publish.begun" or len(kept) < len(plan.numbers)
    said = command(tmp_path, "run", "spec.yaml", "--direct")
    assert f"{len(plan.numbers) - len(kept)} steps drawn, {len(kept)} reused" in said
    found = answers(ledger)
    assert len(found) == len(dict(found)) == len(plan.numbers)
    assert {step: digest for step, digest in found if step in kept} == kept
    identity = ("census", "2030", plan.fingerprint())
    assert all(ledger.stored(StepKey(*identity, step)) for step in plan.numbers)
    assert sum(entry.kind == "reserve" for entry in ledger.entries()) == 1
    assert ledger.check() == ()
    assert "FAIL" not in command(tmp_path, "verify", str(bundle(tmp_path)))


def test_changed_data_are_not_accepted_between_two_pieces_of_a_step(nursery: Nursery, tmp_path: Path) -> None:
    begun(tmp_path, SPECS["plain"])
    orders = Orders(str(tmp_path / "spec.yaml"), str(tmp_path / "note"), point="commit.committed", hit=1)
    (end,) = nursery.run(orders)
    assert end.killed
    data = tmp_path / "persons.csv"
    before = data.read_bytes()
    data.write_bytes(before + b"99999,0601,1,1,30\r\n")
    assert "DPR-L150" in command(tmp_path, "run", "spec.yaml", "--direct", code=4)
    said = command(tmp_path, "run", "spec.yaml", "--direct", "--accept-changed-data", "a correction", code=4)
    assert "DPR-L155" in said
    assert "of the 2 pieces of areas" in said
    data.write_bytes(before)
    command(tmp_path, "run", "spec.yaml", "--direct")
    assert books(tmp_path).check() == ()
