"""Published intervals of cells and totals hold the truth as often as they say, over 2,000 draws of the very laws."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.measures import Noisy
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw
from dprelease.plan.document import ReleasePlan, Step
from dprelease.publish.totals import reconciled_inputs
from tests.unit.test_totals import money

DRAWS = 2000
Floats = npt.NDArray[np.float64]


def noise(step: Step, size: int, chance: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draws of the law of a step by its probabilities: its scale is small enough here to list them."""
    law = step.law
    assert isinstance(law, DiscreteGaussianLaw | DiscreteLaplaceLaw)
    scale = float(law.scale)
    at = np.arange(-int(40 * scale) - 5, int(40 * scale) + 6)
    mass = np.exp(-((at / scale) ** 2) / 2) if isinstance(law, DiscreteGaussianLaw) else np.exp(-np.abs(at) / scale)
    total = np.cumsum(mass)
    found: npt.NDArray[np.int64] = at[np.searchsorted(total / total[-1], chance.random(size) * (1 - 1e-12))]
    return found


def people(seed: int) -> tuple[npt.NDArray[Any], ...]:
    """Keys and pay of some hundred people for each cell, of different numbers; some are paid nothing that is known."""
    chance = np.random.default_rng(seed)
    cells = [(a, b) for a, b in product(range(2), range(12)) for _ in range(int(chance.integers(20, 400)))]
    pay = chance.integers(-2, 6, len(cells))
    return np.array([a for a, _ in cells]), np.array([b for _, b in cells]), pay, chance.random(len(cells)) < 0.8


def exact(step: Step, rows: tuple[npt.NDArray[Any], ...]) -> npt.NDArray[np.int64]:
    a, b, pay, known = rows
    quantity, by = step.aggregate.quantity, step.aggregate.by
    counted = known if quantity.kind in ("nonnull", "sum") or quantity.column else np.ones(len(a), dtype=bool)
    if quantity.where is not None:
        counted = known & (pay > 2)
    values = {"sum": np.where(counted, pay - quantity.centre, 0), "balance": np.where(counted, 1, -1)}
    sizes = {"a": 2, "b": 12}
    place = np.zeros(len(a), dtype=np.int64)
    for name in by:
        place = place * sizes[name] + {"a": a, "b": b}[name]
    added = np.bincount(place, values.get(quantity.kind, counted.astype(np.int64)), prod(sizes[name] for name in by))
    return added.astype(np.int64)


def coverage(plan: ReleasePlan, seed: int) -> dict[tuple[str, int], tuple[Floats, Floats]]:
    """By measure and table: how often each of its intervals held the truth, and their mean width."""
    rows, chance, (query,) = people(seed), np.random.default_rng(seed + 1), plan.queries
    noisy, true = {}, {}
    for step in plan.steps:
        found = exact(step, rows)
        drawn = np.tile(found, DRAWS) + noise(step, DRAWS * len(found), chance)
        noisy[step.id] = (Noisy(quantity=step.aggregate.quantity, values=drawn, law=step.law, drawn=step.id),)
        true[step.id] = (Noisy(quantity=step.aggregate.quantity, values=found, law=step.law),)
    made, truth, held = reconciled_inputs(plan, query, noisy), reconciled_inputs(plan, query, true), {}
    for label, measure in query.measures.items():
        for at, (inputs, sure) in enumerate(zip(made, truth, strict=True)):
            estimate = measure.estimate_tested(inputs[label], plan.publish.confidence)
            value = np.tile(measure.estimate(sure[label], plan.publish.confidence).value, DRAWS)
            ends = estimate.ends or (estimate.value - estimate.margin, estimate.value + estimate.margin)
            slack = 1e-9 * (1 + np.abs(value))
            inside = (ends[0] - slack <= value) & (value <= ends[1] + slack)
            inside |= np.isnan(estimate.value)  # where nothing is published nothing is wrong
            held[label, at] = (
                inside.reshape(DRAWS, -1).mean(axis=0),
                (ends[1] - ends[0]).reshape(DRAWS, -1).mean(axis=0),
            )
    return held


@pytest.mark.parametrize("pure", [False, True])
def test_intervals_of_cells_and_totals_hold(pure: bool) -> None:
    """One standard deviation of the coverage of one number is 0.0049."""
    plan = money(pure=pure)
    found = coverage(plan, seed=3)

    assert len(found) == 6 * 4
    for label in plan.queries[0].measures:
        every = np.concatenate([found[label, at][0] for at in range(4)])
        assert every.mean() > 0.95 - 5 * 0.0049 / 5, label  # of 39 numbers, whose errors are partly the same
    for name, (held, _) in found.items():
        assert held.min() > 0.95 - 5 * 0.0049, (name, held.min())


def test_gaussian_intervals_are_no_wider_than_the_noise_asks_for() -> None:
    """Coverage near what is asked for is what a narrow interval has; cells and totals, quotients as well."""
    found = coverage(money(), seed=5)

    for (label, at), (held, _) in found.items():
        assert held.mean() < 0.972, (label, at, held.mean())
