"""Clips that noise chooses, from the spec to the page: drawn once, committed before their sums, told with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.chosen_clip import PARTS
from dprelease.errors import BrokenPromiseError, DpReleaseError
from dprelease.ledger import Ledger, StepKey
from dprelease.noise import Exact, ExactHistogram, ExponentialClip, Measurement
from dprelease.noise.mechanisms.clip import clip_levels
from dprelease.plan.document import Batch, ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.accounting.clips import clip_facts, clip_lines
from dprelease.publish.bundle.measurements import measurement_files, measurements_in
from dprelease.publish.measured import published_tables
from dprelease.publish.rehearsed import rehearse
from dprelease.spec.load import load
from tests.planned import SPEC, plan_of
from tests.unit.test_draw import Zeros, drawn_of, reserved

CHOSEN = SPEC.replace("clip: [0, 200000]", "clip: {private: true, within: [0, 500000]}")


class Incomes(Zeros):
    """An engine with ten rows in each region, which notes what it was asked; it can be told to die at a call."""

    def __init__(self, dies_at: int = 0) -> None:
        super().__init__()
        self.asked: list[tuple[Quantity, ...]] = []
        self.dies_at = dies_at

    def aggregate(
        self, catalog: object, grouping: Grouping, quantities: Sequence[Quantity], *_: object, **__: object
    ) -> tuple[Exact | ExactHistogram, ...]:
        self.asked.append(tuple(quantities))
        if len(self.asked) == self.dies_at:
            raise KeyboardInterrupt
        values = np.arange(1000, 11_000, 1000, dtype=np.int64)
        cell = np.repeat(np.arange(3), 10)
        histogram = ExactHistogram(3, cell, np.tile(values, 3), np.ones(30, dtype=np.int64))
        boxes: list[Exact | ExactHistogram] = []
        for each in quantities:
            moved = np.clip(np.rint(values / float(each.step)), each.low, each.high) - each.centre
            boxes.append(histogram if each.kind == "quantile" else Exact(np.full(3, int(moved.sum()), dtype=np.int64)))
        return tuple(boxes)


def clipped_batch(plan: ReleasePlan) -> Batch:
    (batch,) = (each for each in plan.batches() if each.clip is not None)
    return batch


def test_the_choice_is_drawn_first_and_alone_in_its_pass() -> None:
    plan = plan_of(CHOSEN)
    batch = clipped_batch(plan)
    assert [step.id for step in batch.steps] == ["income.income-clip", "income.income-sum"]
    assert batch.clip == batch.first == batch.steps[0].id
    assert batch.cube is None
    (clip,) = (step for step in plan.steps if step.is_clip)
    summed = plan.step("income.income-sum")
    own = plan.queries[1].goal.share
    assert own == 2
    assert clip.share == Fraction(2, 3) / 10
    assert clip.above == math.ceil(2 * 3 * math.sqrt(summed.law.variance) / PARTS)


CLIPPED = "clip: {private: true, within: [0, 500000]}"
SHARED = f"""\
  first:
    table: people
    by: [region]
    share: 10
    measures: {{total: {{sum: income, {CLIPPED}}}}}
  second:
    table: people
    by: [region]
    measures:
      earners: {{count: income}}
      average: {{mean: income, {CLIPPED}}}
"""
"""Two sums of one clip: where a unit is replaced, a total and a mean are better off with a draw of their own each."""


def test_a_clip_of_two_sums_leaves_as_many_rows_as_the_noisier_one_wants() -> None:
    head = CHOSEN.partition("  income:\n    table")[0]
    plan = plan_of(head.replace("  budget:", "  neighboring: replace_one\n  budget:") + SHARED)
    (clip,) = (step for step in plan.steps if step.is_clip)
    wanted = [
        math.ceil(2 * 3 * math.sqrt(step.law.variance) / PARTS) for step in plan.steps if step.clipped_by == clip.id
    ]
    assert len(wanted) == 2
    assert clip.above == max(wanted) > 3 * min(wanted)
    verify(plan)
    fewer = clip.model_copy(update={"above": min(wanted)})
    with pytest.raises(BrokenPromiseError, match="other rows above its clip"):
        verify(plan.model_copy(update={"steps": tuple(fewer if each is clip else each for each in plan.steps)}))


@pytest.mark.parametrize("dies_at", [1, 2])
def test_a_killed_run_keeps_its_clip(tmp_path: Path, dies_at: int) -> None:
    """Killed before the choice nothing is there; killed behind it, the sums are clipped where it was committed."""
    plan = plan_of(CHOSEN)
    ledger, batch = reserved(plan, tmp_path), clipped_batch(plan)
    with pytest.raises(KeyboardInterrupt):
        drawn_of(batch, plan, ledger, Incomes(dies_at))
    kept = stored(plan, ledger, batch)
    assert set(kept) == (set() if dies_at == 1 else {"income.income-clip"})
    engine = Incomes()
    clip, _ = drawn_of(batch, plan, ledger, engine)
    if dies_at == 2:
        assert clip.values.tolist() == kept["income.income-clip"].values.tolist()
    sums = engine.asked[-1]
    assert [each.step for each in sums] == [Fraction(int(clip.values[0]), PARTS)]
    assert [each.chosen for each in sums] == [None]
    assert len(engine.asked) == 3 - dies_at, "the values are looked at once for the choice"
    drawn_of(batch, plan, ledger, engine)
    assert len(engine.asked) == 3 - dies_at
    assert ledger.check() == ()


def stored(plan: ReleasePlan, ledger: Ledger, batch: Batch) -> Mapping[str, Measurement]:
    identity = (plan.release.name, plan.release.period, plan.fingerprint())
    found = ledger.stored_all(StepKey(*identity, step.id) for step in batch.steps)
    return {key.step: each for key, each in found.items()}


def test_two_runs_have_one_clip(tmp_path: Path) -> None:
    """Another run commits its clip while this one draws: both clip at the first one."""
    plan = plan_of(CHOSEN)
    ledger, batch = reserved(plan, tmp_path), clipped_batch(plan)

    class Slow(Incomes):
        def aggregate(self, *args: object, **more: object) -> tuple[Exact | ExactHistogram, ...]:
            if not self.asked:
                self.other = drawn_of(batch, plan, ledger, Incomes())
            return super().aggregate(*args, **more)  # type: ignore[arg-type]

    slow = Slow()
    mine = drawn_of(batch, plan, ledger, slow)
    assert [each.values.tolist() for each in mine] == [each.values.tolist() for each in slow.other]
    assert slow.asked[-1][0].step == Fraction(int(slow.other[0].values[0]), PARTS)


def measured_at(plan: ReleasePlan, clip: int) -> dict[str, Measurement]:
    """What every step might have measured, with that clip."""
    found = {}
    for step in plan.steps:
        values = np.full(step.numbers or 0, 1000, dtype=np.int64)
        found[step.id] = Measurement(step.id, np.array([clip], dtype=np.int64) if step.is_clip else values)
    return found


def test_margins_are_in_proportion_to_the_clip() -> None:
    plan = plan_of(CHOSEN)
    grid = plan.step("income.income-clip").aggregate.quantity.chosen
    assert grid is not None
    clips = (grid.candidates[0], grid.candidates[40])
    tables = [published_tables(plan, measured_at(plan, clip))[1] for clip in clips]
    ratio = clips[1] / clips[0]
    for first, second in zip(*(table.measures[1:] for table in tables), strict=True):
        assert second.margin == pytest.approx(first.margin * ratio)
        assert second.standard_error == pytest.approx(first.standard_error * ratio)
        assert second.value == pytest.approx(first.value * ratio)
    assert tables[0].measures[0].margin == pytest.approx(tables[1].measures[0].margin)
    for output in plan.outputs[2:]:
        assert output.margin is None
        assert "in proportion to the clip" in str(output.why_null)
    told = [float(str(each.why_null).rsplit(" ", 1)[1]) for each in plan.outputs[2:3]]
    assert tables[1].measures[1].margin == pytest.approx(np.full(3, told[0] * clips[1]), rel=1e-3)


def test_a_clip_that_could_not_be_chosen_is_refused() -> None:
    plan = plan_of(CHOSEN)
    with pytest.raises(BrokenPromiseError, match="another step or size"):
        published_tables(plan, measured_at(plan, 499_999))


def test_what_was_chosen_is_told_on_pages_and_in_files() -> None:
    plan = plan_of(CHOSEN)
    grid = plan.step("income.income-clip").aggregate.quantity.chosen
    assert grid is not None
    found = measured_at(plan, grid.candidates[40])
    (fact,) = clip_facts(plan, found)
    assert fact["clip"] == str(grid.candidates[40])
    assert fact["measures"] == ["total", "average"]
    step = plan.step("income.income-clip")
    assert fact["above_at_most"] == (step.above or 0) + step.law.margin(plan.publish.confidence)
    (line,) = clip_lines(plan, plan.queries[1], found)
    assert "a clip that noise has chosen" in line
    assert f"at most {fact['above_at_most']} rows" in line
    assert clip_lines(plan, plan.queries[0], found) == ()
    files = measurement_files(plan, found)
    assert bytes(files["measurements/income.income-clip.csv"]) == f"value\r\n{grid.candidates[40]}\r\n".encode()
    read = measurements_in(plan, files)
    assert {name: each.values.tolist() for name, each in read.items()} == {
        name: each.values.tolist() for name, each in found.items()
    }
    rehearse(plan)


def test_the_choice_has_the_stated_law() -> None:
    """Counts of 3,000 draws against the exact law: a scale wrong by a quarter is told apart."""
    rows, above, scale, clips = [1, 2, 2, 3, 5, 8, 8, 9], 3, Fraction(2), (10, 8, 5, 3, 1)
    values, counts = np.unique(rows, return_counts=True)
    box = ExactHistogram(2, values % 2, values.astype(np.int64), counts.astype(np.int64))
    levels = clip_levels(values.tolist(), counts.tolist(), clips, above)
    assert levels == [max(sum(r > c for r in rows) - above, above - sum(r >= c for r in rows), 0) for c in clips]
    draws = Counter(int(ExponentialClip().draw(box, clips, above, scale)[0]) for _ in range(3000))

    def distance(scale: float) -> float:
        sizes = [math.exp(-each / scale) for each in levels]
        wanted = [3000 * size / sum(sizes) for size in sizes]
        return sum((draws[clip] - size) ** 2 / size for clip, size in zip(clips, wanted, strict=True))

    assert distance(2.0) < 33.4, "the 1e-6 quantile of a chi square of four degrees"
    assert distance(2.5) > 33.4 or distance(1.6) > 33.4


@pytest.mark.parametrize(
    ("code", "was", "now"),
    [
        ("DPR-S450", "private: true", "private: 0.99"),
        ("DPR-S451", "private: true", "private: false"),
        ("DPR-S452", "within: [0, 500000]", "within: [100, 500000]"),
        ("DPR-S453", "within: [0, 500000]", "within: [0, 500000], share: 0.9"),
        ("DPR-S204", "within: [0, 500000]", "within: [0, 500000], above: two"),
        ("DPR-S453", "within: [0, 500000]", "within: [0, 500000], above: 0"),
        ("DPR-S454", "within: [0, 500000]}}", "within: [0, 500000]}, clip_per: unit_cell}"),
        ("DPR-S455", "within: [0, 500000]}}", "within: [0, 500000]}, weighted: true}"),
        ("DPR-S456", "average: {mean: income", "spread: {stddev: income"),
        ("DPR-S457", "within: [0, 500000]", "within: [0, 500000], rank: 3"),
        ("DPR-S457", "within: [0, 500000]", "within: [500000]"),
        ("DPR-S458", "    by: [region]\n", "    by: [region]\n    totals: all\n"),
        ("DPR-S459", "{mean: income, clip: {private: true,", "{mean: income, clip: {private: true, above: 3,"),
        ("DPR-S460", "step: 1}", "step: 1e-8}"),
        (
            "DPR-S461",
            "      persons: {count: rows}\n      total",
            "      persons: {count: rows}\n      r: {ratio: [total, persons]}\n      total",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(code: str, was: str, now: str) -> None:
    assert was in CHOSEN
    with pytest.raises(DpReleaseError) as caught:
        load(CHOSEN.replace(was, now), "spec.yaml")
    codes = {problem.code for problem in getattr(caught.value, "problems", ())}
    assert code in codes, caught.value


def test_a_fixed_rank_is_refused_with_the_figures() -> None:
    with pytest.raises(DpReleaseError, match=r"0\.99.*1 to 21 %.*2 to 15") as caught:
        load(CHOSEN.replace("private: true", "private: 0.99"), "spec.yaml")
    assert "write `private: true`" in str(caught.value)
