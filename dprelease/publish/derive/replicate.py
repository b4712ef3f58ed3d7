"""Fresh noise of the published laws, for margins of what is made of published numbers.

This is after the noise that protects: it reads public laws and published measurements alone, and a repeatable
generator is what it needs. Nothing here may be used to hide anything.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.errors import PlanError
from dprelease.estimate.series import PARTS
from dprelease.estimate.workloads.zeros import estimated, possible_cells
from dprelease.measures import Noisy
from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw
from dprelease.noise.mechanisms.knorm import KNormLaw
from dprelease.noise.mechanisms.lattice_ball import numerator
from dprelease.noise.mechanisms.random_scale import RandomScaleLaw, scale_table
from dprelease.noise.mechanisms.tables_knorm import TablesLaw, TablesSampler
from dprelease.noise.mechanisms.total_residual import TotalResidualLaw
from dprelease.plan.design.workload_design import design_of, numbers_of_take
from dprelease.plan.document import Invariant, Measured, ReleasePlan, Workload
from dprelease.publish.measured import Inputs

__all__ = ["again", "check_size", "errors_again", "periods_again"]

Floats = npt.NDArray[np.float64]
_LARGEST = 2.0**63 - 1024
_MOST_DRAWN = 100_000  # noisy numbers of a workload: a thousand times as many are drawn and reconciled
_TABLED = 20  # the largest scale of a discrete Gaussian that is drawn from a table of its probabilities


def again(
    noisy: Mapping[str, tuple[Noisy, ...]], replicates: int, chance: np.random.Generator
) -> dict[str, tuple[Noisy, ...]]:
    """Every measurement ``replicates`` times, each with one more draw of noise of its own law.

    A draw is added once, however many measures it feeds, and the quantities of a joint draw get one vector together,
    so that what errs together does so here. A choice (a quantile) has no law of its value and stays as it is.

    Args:
        noisy: By step.
        replicates: How many.
        chance: Where the noise comes from.

    Returns:
        By step; values of shape ``(replicates * cells,)``, one replicate after the other.
    """
    return {step: _again(parts, replicates, chance) for step, parts in noisy.items()}


def _again(parts: tuple[Noisy, ...], replicates: int, chance: np.random.Generator) -> tuple[Noisy, ...]:
    size = replicates * len(parts[0].values)
    drawn = noise_of(parts[0].law, len(parts), size, chance)
    made = []
    for part, noise in zip(parts, drawn, strict=True):
        values = np.tile(part.values.astype(np.float64), replicates) + noise
        held = np.clip(np.rint(values), -_LARGEST, _LARGEST).astype(np.int64)
        made.append(Noisy(quantity=part.quantity, values=held, law=part.law))
    return tuple(made)


def noise_of(law: Law, parts: int, size: int, chance: np.random.Generator) -> Floats:
    """Noise of a law, shape ``(parts, size)``; of a law that is none of a value, zeros.

    The laws are those of the mechanisms up to the rounding of doubles: the discrete Gaussian of a scale above 20 is
    the rounded normal one, whose variance is larger by less than a part in 4,800.
    """
    if isinstance(law, KNormLaw):
        return _knorm(law, size, chance)
    if isinstance(law, TotalResidualLaw):
        return _total_residual(law, size, chance)
    if isinstance(law, RandomScaleLaw):
        return _random_scale(law, size, chance)
    if isinstance(law, DiscreteLaplaceLaw):
        return np.stack([_laplace(law.scale, size, chance) for _ in range(parts)])
    if isinstance(law, DiscreteGaussianLaw):
        return np.stack([_gaussian(law.scale, size, chance) for _ in range(parts)])
    return np.zeros((parts, size))


def _whole(step: Measured, chance: np.random.Generator) -> Floats:
    """Noise on all numbers of a step, one after the other; an invariant has none."""
    if isinstance(step, Invariant):
        return np.zeros(step.cells)
    if isinstance(step.law, TablesLaw):
        return _tables(step.law, chance)
    return np.asarray(noise_of(step.law, 1, step.cells or 0, chance)[0])


def _tables(law: TablesLaw, chance: np.random.Generator) -> Floats:
    """One draw of tables by their own sampler, which takes its integers from here: a few milliseconds."""
    sampler = _sampler(law)
    return np.array([number for table in sampler.tables(lambda limit: _below(limit, chance)) for number in table], "f8")


@lru_cache(maxsize=64)
def _sampler(law: TablesLaw) -> TablesSampler:
    return TablesSampler(law.scale, law.sizes)


def _below(limit: int, chance: np.random.Generator) -> int:
    """A uniform integer in 0..limit-1, of any size."""
    bits = (limit - 1).bit_length()
    while True:
        found = int.from_bytes(chance.bytes(-(-bits // 8)), "big") >> (-bits % 8)
        if found < limit:
            return found


def _geometric(scale: Fraction, size: int, chance: np.random.Generator) -> Floats:
    """P(g) proportional to exp(-g / scale) for g = 0, 1, ...: the whole part of an exponential variable."""
    return np.asarray(np.floor(chance.standard_exponential(size) * float(scale)))


def _laplace(scale: Fraction, size: int, chance: np.random.Generator) -> Floats:
    """The difference of two geometric variables."""
    return _geometric(scale, size, chance) - _geometric(scale, size, chance)


def _gaussian(scale: Fraction, size: int, chance: np.random.Generator) -> Floats:
    sigma = float(scale)
    if scale > _TABLED:
        return np.asarray(np.rint(chance.standard_normal(size) * sigma))
    reach = int(14 * sigma) + 2
    at = np.arange(-reach, reach + 1, dtype=np.float64)
    total = np.cumsum(np.exp(-(at * at) / (2 * sigma * sigma)))
    found = np.searchsorted(total, chance.random(size) * total[-1], side="right")
    return np.asarray(at[np.minimum(found, len(at) - 1)])


def _knorm(law: KNormLaw, size: int, chance: np.random.Generator) -> Floats:
    """A radius and a uniform point of its ball, as ``knorm`` draws them: J + G_0 + ... + G_k, then a point."""
    k, scale = law.dimension, float(law.scale)
    weights = np.array([float(h) for h in numerator(law.ball, k)])
    weights = weights * np.exp(-np.arange(len(weights)) / scale)
    radius = chance.choice(len(weights), size, p=weights / weights.sum()).astype(np.float64)
    for _ in range(k + 1):
        radius = radius + _geometric(law.scale, size, chance)
    if law.ball == "linf":
        return np.asarray(np.floor(chance.random((k, size)) * (2 * radius + 1)) - radius)
    # u_0..u_k in 0..r with smallest 0; the first that is 0 is u_j with probability proportional to (r / (r + 1))^j.
    shares = (radius / (radius + 1)) ** np.arange(k + 1)[:, None]
    total = np.cumsum(shares, axis=0)
    first = (chance.random(size) * total[-1] >= total).sum(axis=0)
    place = np.arange(k + 1)[:, None]
    part = chance.random((k + 1, size))
    whole = np.where(place < first, 1 + np.floor(part * radius), np.floor(part * (radius + 1)))
    whole = np.where(place == first, 0.0, whole)
    return np.asarray(whole[1:] - whole[0])


def _total_residual(law: TotalResidualLaw, size: int, chance: np.random.Generator) -> Floats:
    """Term, radius, total and a point of the cube, as ``total_residual`` draws them."""
    k = law.dimension
    radius_scale, total_scale = law.scale / (2 * (1 - law.share)), law.scale / (2 * law.share)
    # logarithms: the numbers of a hundred and seventy counts and more are too large for floats
    even = np.array([math.log(h) for h in numerator("linf", k)])
    odd = np.array([math.log(h) for h in numerator("count", k - 1)]) + k * math.log(2)
    even -= np.arange(len(even)) / float(radius_scale)
    odd -= np.arange(len(odd)) / float(radius_scale) + 1 / float(law.scale)
    logs = np.concatenate([even, even - 1 / float(total_scale), odd, odd])
    weights = np.exp(logs - logs.max())
    term = chance.choice(len(weights), size, p=weights / weights.sum())
    starts = np.cumsum([0, len(even), len(even), len(odd)])
    branch = np.searchsorted(starts, term, side="right") - 1
    radius = 2.0 * (term - starts[branch]) + (branch >= 2)
    for _ in range(k + 1):
        radius = radius + 2 * _geometric(radius_scale, size, chance)
    total = np.array([0, -2, 1, -1])[branch] + np.array([2, -2, 2, -2])[branch] * _geometric(total_scale, size, chance)
    return np.asarray(np.floor(chance.random((k, size)) * (radius + 1)) + (total - radius) / 2)


def _random_scale(law: RandomScaleLaw, size: int, chance: np.random.Generator) -> Floats:
    """A place of the table, then a normal vector of its scale on all counts and the total, as ``random_scale`` does."""
    table = scale_table(law.dimension)
    weights = np.array(table.weights, dtype=np.float64)
    place = chance.choice(len(weights), size, p=weights / weights.sum())
    scale = float(law.scale) * np.array([float(stretch) for stretch in table.stretches])[place]
    total, counts = chance.standard_normal(size), chance.standard_normal((law.dimension, size))
    return np.asarray(np.rint(scale * (counts + total / float(table.total)) / 2))


def periods_again(
    plan: ReleasePlan, inputs: Inputs, replicates: int, chance: np.random.Generator
) -> dict[str, list[npt.NDArray[np.int64]]]:
    """Every period of every draw of a series, with one more draw of noise on each draw that it was made of.

    The estimates are linear in the draws: with z the fresh noise, it moves period t by
    ``e_t = (z_t - c_1 e_(t-1) - c_2 e_(t-2) - ...) / c_0``.

    Args:
        plan: That was measured.
        inputs: What was measured.
        replicates: How many.
        chance: Where the noise comes from.

    Returns:
        By step its periods, each of shape ``(replicates * cells,)``, one replicate after the other.
    """
    found = {}
    for step, series in plan.series.items():
        first, *others = series.band.coefficients
        sigma, errors = float(plan.step(step).scale), list[Floats]()
        for known in inputs.periods.get(step, ()):
            left = np.rint(chance.standard_normal(replicates * len(known)) * sigma)
            for each, before in zip(others, reversed(errors), strict=False):
                left = left - each * before
            errors.append(left / first)
        told = zip(inputs.periods.get(step, ()), errors, strict=True)
        found[step] = [np.tile(known, replicates) + np.rint(error * PARTS).astype(np.int64) for known, error in told]
    return found


def check_size(plan: ReleasePlan, used: Collection[str]) -> None:
    """Refuse SQL over a workload whose noise is too large to be drawn a thousand times.

    Args:
        plan: The plan.
        used: Names of the tables that the SQL reads.

    Raises:
        PlanError: DPR-P159; names the workload.
    """
    for workload in plan.workloads:
        drawn = sum(plan.taken(step).cells or 0 for step in {take.step for take in workload.takes})
        if drawn > _MOST_DRAWN and set(workload.tables) & set(used):
            raise PlanError(
                f"a derived table reads workload {workload.name!r}, of which {drawn:,} numbers are drawn",
                detail=f"its margins take a thousand times as many; at most {_MOST_DRAWN:,} are done",
                hint="publish the table as a query of its own, or derive it from the files afterwards",
                code="DPR-P159",
            )


def errors_again(
    plan: ReleasePlan, workload: Workload, wanted: Collection[str], replicates: int, chance: np.random.Generator
) -> dict[str, Floats]:
    """The errors of tables under fresh draws of all of the workload's noise, one replicate after the other.

    Reconciling is linear, so that the errors of the estimates are what the noise alone becomes. What was made
    non-negative or whole afterwards is not repeated: the margins are those of the estimates.

    Args:
        plan: The plan.
        workload: The workload of the plan.
        wanted: Names of tables of the workload.
        replicates: How many.
        chance: Where the noise comes from.

    Returns:
        By table, shape ``(replicates * cells,)``.
    """
    steps = {take.step: plan.taken(take.step) for take in workload.takes}
    design = design_of(workload, plan.catalog, steps)
    found: dict[str, list[Floats]] = {name: [] for name in wanted}
    for _ in range(replicates):
        drawn = {name: _whole(step, chance) for name, step in steps.items()}
        values = [
            numbers_of_take(workload, take, steps[take.step], drawn[take.step], design) for take in workload.takes
        ]
        tables = estimated(design, values)
        for name, errors in found.items():
            place = workload.place(name)
            errors.append(tables[place][:, possible_cells(design, place[1])].reshape(-1))
    return {name: np.concatenate(errors) for name, errors in found.items()}
