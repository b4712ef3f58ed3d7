"""Draws in pieces: the same cells, contrasts, noise and price as in one."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.residual import Residual, grain_for, residual_sensitivity
from dprelease.engines import ENGINES, Engine
from dprelease.errors import BrokenPromiseError
from dprelease.flows.run_context import chunks
from dprelease.ledger import Ledger, StepKey
from dprelease.noise import MECHANISMS, Exact, Measurement
from dprelease.noise.truth import true_numbers, true_residual
from dprelease.plan.document import Batch, ReleasePlan, Step
from dprelease.plan.document.pieces import assembled, in_pieces
from dprelease.plan.explain.facts import pieces_texts, plan_facts
from dprelease.plan.explain.memory import memory_of
from dprelease.plan.verify.whole_plan import check_pieces, verify
from dprelease.privacy.unit import Neighboring
from dprelease.release import draw as drawing
from dprelease.release.data.sources import RunSources, SourceKey
from dprelease.release.draw import DataSource, draw_batch
from tests.pieces import FILES, KINDS, identity, in_one, planned
from tests.planned import plan_of
from tests.unit.test_draw import Zeros, reserved
from tests.workloads import GEO, small_workloads

REFERENCES = {
    "geo": ReferenceTable(
        columns={
            name: tuple(line.split(",")[at] for line in GEO.splitlines()[1:])
            for at, name in enumerate(("region", "state", "puma"))
        }
    )
}
each_kind = pytest.mark.parametrize(
    "kind", ["residuals", "tables", "units", pytest.param("replaced", marks=pytest.mark.nightly)]
)


def pieces_of(plan: ReleasePlan) -> list[tuple[Batch, Step]]:
    return [(batch, step) for batch in plan.batches() if batch.piece for step in batch.steps if isinstance(step, Step)]


# The plan.


def test_a_large_draw_below_the_top_level_is_cut_and_no_other() -> None:
    assert in_pieces(1_000_001, 1, [51, 3000]) == 51
    assert in_pieces(1_000_000, 1, [51, 3000]) is None
    assert in_pieces(10**8, 0, [51, 3000]) is None
    assert [in_pieces(10**8, level, [1, 51, 3000]) for level in range(3)] == [None, None, 51]  # a nation of states
    assert in_pieces(10**8, 1, [1, 1]) is None
    assert in_pieces(10**8, 0, []) is None
    assert in_pieces(10**8, 2, [1000, 2000, 3000]) == 1000
    assert in_pieces(10**8, 2, [1001, 2000, 3000]) is None
    assert in_pieces(None, 1, [51, 3000]) is None


def test_under_one_nation_the_states_are_the_units() -> None:
    geo = GEO.replace("S,", "US,").replace("N,", "US,")
    plan = planned(KINDS["tables"], geo=geo)
    check_pieces(plan)
    assert set(plan.pieces) == {step.id for step in plan.steps if ".puma." in step.id and (step.cells or 0) > 5}
    assert {tuple((piece.column, piece.key) for piece in pieces) for pieces in plan.pieces.values()} == {
        (("state", "06"), ("state", "36"), ("state", "48"))
    }
    assert [piece.within.nodes for piece in next(iter(plan.pieces.values()))] == [(0, 2), (1, 4), (3,)]


@pytest.mark.thin(first=1)
@each_kind
def test_a_cut_plan_is_the_uncut_one_but_for_the_number_of_pieces(kind: str) -> None:
    whole, cut = plan_of(KINDS[kind], files=FILES), planned(KINDS[kind])
    assert '"pieces"' not in whole.canonical()
    assert not whole.pieces
    assert {step.id for step in cut.steps if step.pieces} == set(cut.pieces)
    assert len(cut.pieces) >= 4
    assert in_one(cut).canonical() == whole.canonical()
    assert cut.event == whole.event
    assert cut.loss == whole.loss
    assert ReleasePlan.from_canonical(cut.canonical()) == cut
    assert verify(cut) == whole.loss[whole.certified]


def test_every_number_of_the_plan_is_in_one_measurement_and_ids_sort_as_the_units_do() -> None:
    plan = planned(KINDS["residuals"])
    found = [name for batch in plan.batches() for name in batch.ids]
    assert sorted(found) == sorted(plan.numbers)
    assert len(set(found)) == len(found)
    assert sum(number or 0 for number in plan.numbers.values()) == sum(each.numbers or 0 for each in plan.measured)
    for step, pieces in plan.pieces.items():
        names = [piece.id(step) for piece in pieces]
        assert names == sorted(names) == [f"{step}.piece-1", f"{step}.piece-2"]
        assert [piece.key for piece in pieces] == ["S", "N"]  # the order of the keys
        level = sorted(node for piece in pieces for node in piece.within.nodes)
        assert level == list(range(pieces[0].level))
    (first, *_) = (pieces for step, pieces in plan.pieces.items() if step.startswith("areas.puma"))
    assert [piece.within.nodes for piece in first] == [(0, 2, 3), (1, 4)]
    many = first[0].model_copy(update={"of": 1000, "unit": 6})
    assert many.id("a") == "a.piece-0007"


def test_a_unit_is_a_task_with_all_of_its_pieces_and_the_rest_are_as_they_were() -> None:
    plan = planned(KINDS["residuals"])
    south, north, *rest = chunks(plan.batches(), threads=4)
    assert [south.label, north.label] == ["persons: areas in region S", "persons: areas in region N"]
    assert south.size == north.size == len(plan.pieces)
    assert {batch.piece.key for batch in south.batches if batch.piece} == {"S"}
    assert all(batch.piece is None for chunk in rest for batch in chunk.batches)
    assert sum(chunk.size for chunk in (south, north, *rest)) == len(plan.numbers)
    half = [batch for batch in plan.batches() if batch not in south.batches[1:]]
    assert [chunk.label for chunk in chunks(half, threads=4)][:2] == [south.label, north.label]


def test_a_plan_says_what_is_cut_and_takes_the_memory_of_a_piece() -> None:
    """A table of nine million cells, of which each of four regions has two."""
    areas = [f"r{puma // 12},s{puma // 4},p{puma}" for puma in range(48)]
    text = KINDS["tables"].replace("keys: [1, 2]", "keys: {from: 1, to: 60000}")
    cut = planned(text, above=10**6, geo="\n".join(["region,state,puma", *areas]))
    whole = in_one(cut)
    assert memory_of(cut).publish == memory_of(whole).publish
    largest = sorted(number or 0 for number in cut.numbers.values())[-4:]
    keys = sum(len(column.keys or ()) for table in cut.catalog.tables.values() for column in table.columns)
    assert memory_of(cut).draw == 450 + -(-750 * keys // 10**6) + -(-64 * sum(largest) // 10**6)
    assert memory_of(cut).draw < memory_of(whole).draw
    assert pieces_texts(whole) == ()
    assert pieces_texts(cut) == (
        f"areas: {len(cut.pieces)} large draws are measured in 4 pieces each, one for each region",
    )
    told = {step["id"]: step.get("pieces") for step in plan_facts(cut)["steps"]}
    assert told == {step.id: step.pieces for step in cut.steps}


# The numbers.


class Opened:
    """A mechanism without noise."""

    def draw(self, exact: Exact, scale: Fraction, sampler: str = "native") -> npt.NDArray[np.int64]:
        return true_numbers(exact)


def answers(plan: ReleasePlan, engine: Engine, ledger: Ledger, *, whole: bool = False) -> dict[str, Measurement]:
    pinned = RunSources().pin(ledger, identity(plan), plan.catalog.tables, engine, SourceKey(bytes(32)))
    source = DataSource(plan.catalog, REFERENCES, engine, pinned)
    drawn = [each for batch in plan.batches(whole=whole) for each in draw_batch(batch, source, ledger, identity(plan))]
    return {each.step: each for each in drawn}


class Nowhere:
    """A ledger that knows nothing and hands on what is drawn."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def __getattr__(self, name: str) -> object:
        return getattr(self.ledger, name)

    def stored_all(self, keys: Iterable[StepKey]) -> dict[StepKey, Measurement]:
        """Nothing."""
        return {}

    def commit_all(self, drawn: dict[StepKey, Measurement]) -> dict[StepKey, Measurement]:
        return drawn


@pytest.mark.thin(first=1)
@each_kind
def test_pieces_put_together_are_the_whole_draw(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the noise taken away, on rows of a real engine: number by number, also where units have too many rows."""
    plan = planned(KINDS[kind])
    small_workloads(tmp_path, KINDS[kind], rows=700)
    monkeypatch.setattr(drawing, "MECHANISMS", dict.fromkeys(MECHANISMS, Opened()))
    monkeypatch.setattr(drawing, "draw_residual", lambda exact, residual, *_: true_residual(exact, residual))
    engine, ledger = ENGINES["duckdb"](tmp_path, {}), reserved(plan, tmp_path)
    whole = answers(plan, engine, Nowhere(ledger), whole=True)  # type: ignore[arg-type]
    parts = answers(plan, engine, ledger)
    engine.close()
    assert set(parts) == set(plan.numbers)
    for name, pieces in plan.pieces.items():
        found = assembled(plan.step(name), pieces, parts)
        assert found.step == name
        assert np.array_equal(found.values, whole[name].values)
        assert np.count_nonzero(found.values) > len(found.values) / 2
    tables = {plan.step(name).residual is None for name in plan.pieces}
    assert (True in tables, False in tables) == {"tables": (True, False), "residuals": (False, True)}.get(
        kind, (True in tables, False in tables)
    )


def test_a_residual_is_drawn_at_the_planned_scale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is handed to the noise of a residual is the step's own scale; that noise has its own tests."""
    plan = planned(KINDS["residuals"])
    scales: list[Fraction] = []

    def noted(exact: Exact, residual: Residual, scale: Fraction, *_: object) -> npt.NDArray[np.int64]:
        scales.append(scale)
        return true_residual(exact, residual)

    monkeypatch.setattr(drawing, "draw_residual", noted)
    answers(plan, Zeros(), Nowhere(reserved(plan, tmp_path)), whole=True)  # type: ignore[arg-type]
    assert sorted(scales) == sorted(step.scale for step in plan.steps if step.residual is not None)
    assert scales


def test_a_cut_residual_is_the_whole_ones_own_numbers_and_its_clamp() -> None:
    whole = Residual(shape=(5, 3, 4), axes=(1, 2), grain=grain_for((5, 3, 4), (1, 2)))
    counts = np.random.default_rng(3).integers(0, 1000, size=(5, 12))
    counts[1, 3] = whole.most_rows * 2
    nodes = [1, 4]
    cut = whole.of_nodes(len(nodes))
    assert (cut.divisor, cut.most_rows, cut.grain, cut.axes) == (
        whole.divisor,
        whole.most_rows,
        whole.grain,
        whole.axes,
    )
    every = true_residual(Exact(counts.ravel()), whole).reshape(5, 12)
    assert np.array_equal(true_residual(Exact(counts[nodes].ravel()), cut).reshape(2, 12), every[nodes])
    for wrong in (Residual(shape=(), axes=(), grain=1), Residual(shape=(3, 4), axes=(0, 1), grain=1)):
        with pytest.raises(ValueError, match="cut along its first column"):
            wrong.of_nodes(2)


def test_the_noise_of_every_piece_has_the_scale_of_the_step(tmp_path: Path) -> None:
    """All counts 0: the sum of squares is chi-square, at 1e-10 two-sided; a scale that is 5 % off is told every time.

    The numbers of two pieces are told apart, so that one draw handed out twice would be seen.
    """
    plan = planned(KINDS["tables"].replace("keys: [1, 2]", "keys: {from: 1, to: 12000}"), above=30_000)
    ledger, engine = reserved(plan, tmp_path), Empty()
    drawn = answers(plan, engine, ledger)
    looked = 0
    for batch, step in pieces_of(plan):
        values = drawn[batch.id(step)].values.astype(np.float64)
        square = float((values**2).sum() / float(step.scale) ** 2)
        low, high = stats.chi2.isf([1 - 5e-11, 5e-11], len(values))
        assert low < square < high
        assert max(abs(low - len(values)), abs(high - len(values))) < 0.09 * len(values)
        looked += 1
    assert looked == 8
    for step_id, pieces in plan.pieces.items():
        one, two = (drawn[piece.id(step_id)].values for piece in pieces)
        assert not np.array_equal(one[: len(two)], two[: len(one)])


class Empty(Zeros):
    """An engine without rows, asked for some nodes of a level."""

    def aggregate(  # type: ignore[no-untyped-def]
        self, catalog, grouping: Grouping, quantities, references, secret=b"", keys=None, within=None, cube=None
    ):
        (whole,) = super().aggregate(catalog, grouping, quantities, references, secret, keys)
        if within is None:
            return (whole,)
        each = catalog.tables[grouping.table].cells(grouping.by[1:])
        return (Exact(np.zeros(each * len(within.nodes), dtype=np.int64)),)


@pytest.mark.parametrize("relation", list(Neighboring))
def test_pieces_of_one_state_move_as_one_draw_and_of_two_states_they_may_move_twice(relation: Neighboring) -> None:
    """Why changed data are refused between the pieces of a step: the unit is in one before, in the other after."""
    residual = Residual(shape=(2, 3), axes=(1,), grain=1)
    reach = residual_sensitivity(residual, 1, relation)
    columns = [true_residual(Exact(np.eye(6, dtype=np.int64)[at]), residual).reshape(2, 3) for at in range(6)]
    nothing = [np.zeros((2, 3), dtype=np.int64)]
    gone = columns if relation is Neighboring.REPLACE_ONE else nothing
    one = max(((new - old) ** 2).sum() for new in columns + nothing for old in gone + nothing)
    assert one == reach.l2_squared
    moves = [new - old for new in columns + nothing for old in gone + nothing]
    two = max((first[0] ** 2).sum() + (second[1] ** 2).sum() for first in moves for second in moves)
    assert two > reach.l2_squared


# What is put together, and what verification refuses.


def test_parts_that_are_not_the_whole_are_not_put_together() -> None:
    plan = planned(KINDS["residuals"])
    name, pieces = next((name, pieces) for name, pieces in plan.pieces.items() if name.startswith("areas.puma"))
    step = plan.step(name)
    found = {
        piece.id(name): Measurement(piece.id(name), np.zeros(piece.numbers(step), dtype=np.int64)) for piece in pieces
    }
    assert len(assembled(step, pieces, found).values) == step.numbers
    with pytest.raises(BrokenPromiseError, match="not all of its cells"):
        assembled(step, pieces[:1], found)
    with pytest.raises(BrokenPromiseError, match="not all of its cells"):
        assembled(step, (*pieces, pieces[0]), found)
    short = {**found, pieces[0].id(name): Measurement(pieces[0].id(name), np.zeros(1, dtype=np.int64))}
    with pytest.raises(BrokenPromiseError, match="another number of cells"):
        assembled(step, pieces, short)
