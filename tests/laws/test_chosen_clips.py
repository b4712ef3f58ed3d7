"""Clips that noise chooses: how far neighbours move their scores, and that the sum is one draw for every clip."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement

import pytest

from dprelease.catalog.chosen_clip import PARTS, ClipGrid
from dprelease.errors import BrokenPromiseError
from dprelease.noise.mechanisms.clip import clip_levels
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.mathematics.clip_scores import spread_of_one_row
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.event import BoundedRange, Repeated
from tests.planned import SPEC, half_sensitivity, plan_of

CHOSEN = SPEC.replace("clip: [0, 200000]", "clip: {private: true, within: [0, 500000]}")
VISITS = (
    CHOSEN.replace(
        "    columns:\n      region", "    unit_id: id\n    bounds: {max_rows: 5}\n    columns:\n      region"
    )
    .replace("by: [region, sex],", "by: [region, sex], bounds: {max_groups: 2, max_rows_per_group: 2},")
    .replace("within: [0, 500000]}}", "within: [0, 500000]}, clip_per: row}")
    .replace("    by: [region]\n", "    by: [region]\n    bounds: {max_groups: 2, max_rows_per_group: 2}\n")
)
CLIPS = (3, 2, 1)
VALUES = range(4)
Rows = tuple[int, ...]


def scores(rows: Sequence[int], above: int) -> list[int]:
    return clip_levels(sorted(rows), [1] * len(rows), CLIPS, above)


def units(most: int) -> Iterator[Rows]:
    for size in range(most + 1):
        yield from combinations_with_replacement(VALUES, size)


@pytest.mark.parametrize("rows_of_a_unit", [1, 2, 3])
@pytest.mark.parametrize("replaced", [False, True])
def test_one_unit_moves_scores_apart_by_two_for_each_of_its_rows(rows_of_a_unit: int, replaced: bool) -> None:
    """Every table of as many other rows, every unit, every number of rows that are wanted above; and it is reached."""
    spread = 0
    every = list(units(rows_of_a_unit))
    pairs = [(one, other) for one in (every if replaced else [()]) for other in every]
    for rest in units(rows_of_a_unit):
        for above in range(1, rows_of_a_unit + 2):
            known = {unit: scores((*rest, *unit), above) for unit in every}
            for one, other in pairs:
                moved = [after - before for after, before in zip(known[other], known[one], strict=True)]
                assert max(map(abs, moved)) <= rows_of_a_unit
                spread = max(spread, max(moved) - min(moved))
    assert spread == 2 * rows_of_a_unit == spread_of_one_row() * rows_of_a_unit


def law(rows: Sequence[int], above: int, scale: float) -> list[float]:
    sizes = [math.exp(-each / scale) for each in scores(rows, above)]
    return [size / sum(sizes) for size in sizes]


def test_the_loss_of_a_choice_stays_in_the_range_that_is_charged() -> None:
    """The exact laws on neighbouring tables: the losses of all clips lie in an interval of 2 / scale, and reach it."""
    scale, widest = 1.5, 0.0
    for rest in units(3):
        for value in VALUES:
            for above in (1, 2, 3):
                one, other = law(rest, above, scale), law((*rest, value), above, scale)
                losses = [math.log(p / q) for p, q in zip(one, other, strict=True)]
                assert min(losses) <= 1e-12 <= max(losses) + 2e-12
                widest = max(widest, max(losses) - min(losses))
    assert widest == pytest.approx(2 / scale, abs=1e-12)


def test_at_every_clip_a_row_contributes_as_many_steps_as_the_plan_says() -> None:
    """The largest value gives all of them at every candidate, none gives more, and candidates are public and few."""
    grid = ClipGrid(top=500_000, step=Fraction(1, 100), above=Fraction(2), share=Fraction(1, 10))
    assert grid.candidates[0] == 500_000
    assert grid.candidates[-1] == 1
    assert all(
        0 < low < high <= low * 21 / 20 + 1 for high, low in zip(grid.candidates, grid.candidates[1:], strict=False)
    )
    for clip in grid.candidates:
        step = grid.step_at(clip)
        for value in (0, 1, clip // 2, clip, clip + 1, 500_000):
            moved = min(value, clip) * grid.step / step
            assert 0 <= round(moved) <= PARTS
        assert min(500_000, clip) * grid.step / step == PARTS


def steps_of(plan: ReleasePlan) -> tuple[Step, Step]:
    choice = next(step for step in plan.steps if step.is_clip)
    return choice, next(step for step in plan.steps if step.clipped_by == choice.id)


def changed(plan: ReleasePlan, step: Step, **fields: object) -> ReleasePlan:
    other = step.model_copy(update=fields)
    return plan.model_copy(update={"steps": tuple(other if each.id == step.id else each for each in plan.steps)})


@pytest.mark.parametrize(("spec", "rows"), [(CHOSEN, 1), (VISITS, 4)])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_choice_is_charged_for_all_rows_of_a_unit(spec: str, rows: int, relation: str) -> None:
    plan = plan_of(spec.replace("unit: {entity: person}", f"unit: {{entity: person}}\n  neighboring: {relation}"))
    choice, summed = steps_of(plan)
    assert choice.event == Repeated(event=BoundedRange(epsilon=2 * rows / choice.scale), count=1)
    assert choice.share == sum((each.share for each in (choice, *_fed(plan))), Fraction(0)) / 10
    assert summed.aggregate.quantity.high == PARTS
    verify(plan)


def _fed(plan: ReleasePlan) -> list[Step]:
    query = next(each for each in plan.queries if each.name == "income")
    ids = {feed.step for feeds in query.inputs.values() for feed in feeds}
    return [step for step in plan.steps if step.id in ids]


def test_halves_are_refused() -> None:
    """Half of the spread of a choice, half of a sum's sensitivity, and half of the steps of its clip."""
    plan = plan_of(VISITS)
    choice, summed = steps_of(plan)
    assert choice.choosing is not None
    half = choice.choosing.model_copy(update={"spread": choice.choosing.spread / 2})
    quantity = summed.aggregate.quantity.model_copy(update={"high": PARTS // 2})
    fewer = summed.aggregate.model_copy(update={"quantity": quantity})
    for step, wrong, says in (
        (choice, {"choosing": half}, "reach of its scores"),
        (summed, {"sensitivity": half_sensitivity(summed).sensitivity}, "another sensitivity"),
        (summed, {"aggregate": fewer}, "number of steps to its clip|fed by other quantities"),
        (summed, {"clipped_by": None}, "nothing chooses|does not feed"),
        (summed, {"clipped_by": summed.id}, "chooses none|does not feed"),
        (choice, {"above": (choice.above or 0) * 2}, "other rows above"),
        (choice, {"above": None}, "other rows above"),
        (choice, {"mechanism": "exponential_quantile"}, "number of cells|what it is no choice of"),
    ):
        with pytest.raises(BrokenPromiseError, match=says):
            verify(changed(plan, step, **wrong))


def test_a_choice_of_other_rows_or_values_is_refused() -> None:
    plan = plan_of(CHOSEN)
    choice, _ = steps_of(plan)
    elsewhere = choice.aggregate.model_copy(update={"where": "sex = 1"})
    quantity = choice.aggregate.quantity.model_copy(update={"where": "sex = 1"})
    others = choice.aggregate.model_copy(update={"quantity": quantity})
    for wrong in (elsewhere, others):
        with pytest.raises(BrokenPromiseError, match="takes its clip from other"):
            verify(changed(plan, choice, aggregate=wrong))
