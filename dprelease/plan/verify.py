"""The guard that everyone calls: re-derive sensitivity and loss from what was built, and refuse on a difference.

Nothing here calls the code that built the plan: sensitivities come from enumerating extreme rows, losses from
other forms of the same theorems (delta at the claimed epsilon instead of epsilon at delta), in floats with an
explicit tolerance. ``plan`` runs it, ``run`` runs it before the reservation, the report prints its number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import product

from dprelease.catalog.aggregate import Quantity
from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import ReleasePlan, Step
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["verify"]

_TOLERANCE = 1e-9


def verify(plan: ReleasePlan) -> Loss:
    """The certified loss of a plan, after every claim in it has been derived a second time.

    Raises:
        BrokenPromiseError: If a sensitivity, a share, a cell count or a loss is not what the plan says, or
            the certified loss exceeds the budget. Nothing may be drawn from such a plan.
    """
    _check_shape(plan)
    for step in plan.steps:
        _check_sensitivity(plan, step)
    epsilons, rho = _costs(plan.steps)
    for name, loss in plan.loss.items():
        _check_loss(name, loss, epsilons, rho)
    certified = plan.loss[plan.certified]
    if plan.accounting == "auto":
        _require(
            all(certified.epsilon <= loss.epsilon for loss in plan.loss.values()),
            "certified is not the smallest",
        )
    else:
        _require(plan.certified == plan.accounting, "certified by another accountant than the spec's")
    _require(certified.delta <= plan.budget.delta, "delta above the budget's")
    if plan.budget.epsilon is not None:
        _require(certified.epsilon <= plan.budget.epsilon, "epsilon above the budget's")
    else:
        total = sum(rho) + sum(epsilon * epsilon / 2 for epsilon in epsilons)
        _require(total <= float(plan.budget.rho or 0) * (1 + _TOLERANCE), "rho above the budget's")
    return certified


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenPromiseError(
            f"the plan does not verify: {what}",
            hint="nothing was drawn; please report this with the plan file",
        )


def _check_shape(plan: ReleasePlan) -> None:
    ids = [step.id for step in plan.steps]
    _require(len(set(ids)) == len(ids), "two steps with one id")
    _require(sum((step.share for step in plan.steps), Fraction(0)) == 1, "shares do not add up to one")
    by_id = {step.id: step for step in plan.steps}
    served = {(answer.query, answer.measure, step.id) for step in plan.steps for answer in step.answers}
    for query in plan.queries:
        table = plan.catalog.tables[query.table]
        for label, measure in query.measures.items():
            fed = [by_id.get(step) for step in query.inputs[label]]
            _require(all(step is not None for step in fed), f"{query.name}.{label} needs a step that is not there")
            found = tuple(step.aggregate.quantity for step in fed if step)
            _require(found == measure.quantities(table), f"{query.name}.{label} is fed by other quantities")
            for step in fed:
                same = step is not None and (step.aggregate.table, step.aggregate.by) == (
                    query.table,
                    query.by,
                )
                _require(same, f"{query.name}.{label} is fed from other cells")
                served.discard((query.name, label, step.id if step else ""))
    _require(not served, "a step claims to answer what it does not feed")


def _check_sensitivity(plan: ReleasePlan, step: Step) -> None:
    table = plan.catalog.tables[step.aggregate.table]
    cells = math.prod(len(table.column(name).keys or ()) for name in step.aggregate.by)
    _require(cells == step.cells, f"{step.id} has another number of cells")
    changes = list(_changes(step.aggregate.quantity, cells, plan.neighboring))
    derived = Sensitivity(
        l0=max(sum(1 for c in change if c) for change in changes),
        l1=Fraction(max(sum(abs(c) for c in change) for change in changes)),
        l2_squared=Fraction(max(sum(c * c for c in change) for change in changes)),
        linf=Fraction(max(max(abs(c) for c in change) for change in changes)),
    )
    _require(derived == step.sensitivity, f"{step.id} claims another sensitivity than its extreme rows have")


def _changes(quantity: Quantity, cells: int, neighboring: Neighboring) -> Iterable[tuple[int, ...]]:
    """How two cells can change between neighbours, over rows with extreme, zero or no contribution.

    The norms are convex in each contribution, so their maxima lie at the ends of the allowed interval.
    """
    ends = {0, 1} if quantity.kind != "sum" else {quantity.low - quantity.centre, quantity.high - quantity.centre}
    places = range(min(cells, 2))
    rows = [(0, 0)] + [(place, end) for place in places for end in ends]  # (0, 0): a row that counts nowhere

    def cell_vector(row: tuple[int, int], sign: int) -> list[int]:
        return [sign * row[1] if place == row[0] else 0 for place in range(2)]

    if neighboring is Neighboring.ADD_REMOVE:
        yield from (tuple(cell_vector(row, 1)) for row in rows)
        return
    for old, new in product(rows, rows):
        yield tuple(a + b for a, b in zip(cell_vector(new, 1), cell_vector(old, -1), strict=True))


def _costs(steps: Iterable[Step]) -> tuple[list[float], list[float]]:
    epsilons, rho = [], []
    for step in steps:
        if step.mechanism == "discrete_laplace":
            epsilons.append(float(step.sensitivity.l1) / float(step.scale))
        elif step.mechanism == "discrete_gaussian":
            rho.append(float(step.sensitivity.l2_squared) / (2.0 * float(step.scale) ** 2))
        else:
            _require(False, f"{step.id} uses a mechanism that cannot be verified")
    return epsilons, rho


def _check_loss(name: str, loss: Loss, epsilons: list[float], rho: list[float]) -> None:
    epsilon, delta = float(loss.epsilon), float(loss.delta)
    if name == "zcdp":
        total = sum(rho) + sum(e * e / 2 for e in epsilons)
        holds = _delta_at(epsilon, lambda order: order * total) <= delta * (1 + 1e-6)
    elif name == "rdp":
        pure_enough = not rho and epsilon >= sum(epsilons) * (1 - _TOLERANCE)
        holds = pure_enough or _delta_at(epsilon, lambda order: _renyi(order, epsilons, rho)) <= delta * (1 + 1e-6)
    elif name == "basic":
        each = delta / len(rho) if rho else 0.0
        holds = epsilon >= (sum(epsilons) + sum(_epsilon_at(r, each) for r in rho)) * (1 - 1e-6)
    elif name == "advanced":
        slack = delta / 2 if rho else delta
        every = epsilons + [_epsilon_at(r, slack / len(rho)) for r in rho]
        bound = math.sqrt(-2 * math.log(slack) * sum(e * e for e in every)) + sum(e * math.expm1(e) for e in every)
        holds = epsilon >= bound * (1 - 1e-6)
    else:
        holds = False
    _require(holds, f"the loss under {name} is larger than claimed")


def _renyi(order: float, epsilons: list[float], rho: list[float]) -> float:
    """The summed Renyi divergence, written from the two-point distributions themselves."""
    total = order * sum(rho)
    for epsilon in epsilons:
        likely, rare = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
        first = order * math.log(likely) + (1 - order) * math.log(rare)
        second = order * math.log(rare) + (1 - order) * math.log(likely)
        total += (max(first, second) + math.log1p(math.exp(-abs(first - second)))) / (order - 1)
    return total


def _delta_at(epsilon: float, curve: Callable[[float], float]) -> float:
    """Inf over a of exp((a - 1)(R(a) - epsilon) + a ln(1 - 1/a)) / (a - 1): the other direction of CKS20, Prop. 12."""
    best, at = math.inf, 0.0
    step = 0.5
    grid = [-12 + step * k for k in range(64)]
    for _ in range(6):
        for x in grid:
            order = 1 + math.exp(x)
            value = (order - 1) * (curve(order) - epsilon) + order * math.log1p(-1 / order) - x
            if value < best:
                best, at = value, x
        step /= 8
        grid = [at + step * k for k in range(-16, 17)]
    return math.exp(min(best, 700.0))


def _epsilon_at(rho: float, delta: float) -> float:
    """Epsilon of one rho-zCDP draw by bisection on :func:`_delta_at`."""
    low, high = 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta_at(middle, lambda order: order * rho) > delta else (low, middle)
    return high
