"""How far one unit can move a step, derived again by enumerating extreme rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product

from dprelease.catalog.aggregate import Quantity
from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import ReleasePlan, Step
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["check_reach", "require"]

_ALL_ROWS = 6  # up to so many quantities every row of zeros and ones is tried

Vector = tuple[int, ...]


def require(holds: bool, what: str) -> None:
    """Refuse a plan of which something does not hold.

    Raises:
        BrokenPromiseError: Saying what.
    """
    if not holds:
        raise BrokenPromiseError(
            f"the plan does not verify: {what}",
            hint="nothing was drawn; please report this with the plan file",
        )


_require = require


def check_reach(plan: ReleasePlan, step: Step) -> None:
    """Derive sensitivity, gauge and number of cells of a step again.

    Raises:
        BrokenPromiseError: If the step claims anything else.
    """
    if step.gauge is not None:
        _check_joint(plan, step)
        return
    require(not step.joined, f"{step.id} hides several quantities with noise for one")
    require(step.mechanism in ("discrete_laplace", "discrete_gaussian"), f"{step.id} uses an unknown mechanism")
    _check_sensitivity(plan, step)


def _check_sensitivity(plan: ReleasePlan, step: Step) -> None:
    table = plan.catalog.tables[step.aggregate.table]
    cells = math.prod(len(table.column(name).keys or ()) for name in step.aggregate.by)
    _require(cells == step.cells, f"{step.id} has another number of cells")
    changes = list(_changes(step.aggregate.quantity, cells, plan.neighboring))
    # At most two cells change, so a change is a pair of sizes, larger first; the second is 0 where one cell changes.
    pairs = {(max(abs(a), abs(b)), min(abs(a), abs(b))) for a, b in changes}
    worst: list[tuple[int, ...]] = []
    reached = 0
    for larger, smaller in sorted(pairs, reverse=True):
        # What came before has a first coordinate at least as large: this pair is new where its second is larger.
        if larger and (not worst or smaller > reached):
            worst.append((larger, smaller) if smaller else (larger,))
            reached = smaller
    derived = Sensitivity(
        l0=max(sum(1 for c in change if c) for change in changes),
        l1=Fraction(max(sum(abs(c) for c in change) for change in changes)),
        l2_squared=Fraction(max(sum(c * c for c in change) for change in changes)),
        linf=Fraction(max(max(abs(c) for c in change) for change in changes)),
        shifts=tuple(sorted(worst)),
    )
    _require(derived == step.sensitivity, f"{step.id} claims another sensitivity than its extreme rows have")


def _changes(quantity: Quantity, cells: int, neighboring: Neighboring) -> Iterable[tuple[int, ...]]:
    """How two cells can change between neighbours, over rows with extreme, zero or no contribution.

    The norms are convex in each contribution, so their maxima lie at the ends of the allowed interval; a square has
    its ends at the ends of the clip and at its centre.
    """
    centred = {quantity.low - quantity.centre, quantity.high - quantity.centre}
    if quantity.low < quantity.centre < quantity.high:
        centred.add(0)  # where a square has its least value
    half = Fraction(1, 2)
    ends = {
        "rows": {1},
        "nonnull": {0, 1},
        "balance": {-1, 1},
        "sum": centred,
        "square": {math.floor(Fraction(x * x, quantity.grain) + half) - quantity.offset for x in centred},
    }[quantity.kind]
    places = range(min(cells, 2))
    rows = [(0, 0)] + [(place, end) for place in places for end in ends]  # (0, 0): a row that counts nowhere

    def cell_vector(row: tuple[int, int], sign: int) -> list[int]:
        return [sign * row[1] if place == row[0] else 0 for place in range(2)]

    if neighboring is Neighboring.ADD_REMOVE:
        yield from (tuple(cell_vector(row, 1)) for row in rows)
        return
    for old, new in product(rows, rows):
        yield tuple(a + b for a, b in zip(cell_vector(new, 1), cell_vector(old, -1), strict=True))


def _check_joint(plan: ReleasePlan, step: Step) -> None:
    """Several counts behind one vector of noise per cell: their joint sensitivity and gauge."""
    norm = {"count_knorm": _count_norm, "linf_knorm": _largest}.get(step.mechanism)
    require(norm is not None, f"{step.id} uses an unknown mechanism")
    require(bool(step.joined), f"{step.id} joins nothing")
    require(len(set(step.parts)) == len(step.parts), f"{step.id} hides a quantity twice")
    require(all(part.kind in ("rows", "nonnull") for part in step.parts), f"{step.id} joins what is no count")
    table = plan.catalog.tables[step.aggregate.table]
    cells = math.prod(len(table.column(name).keys or ()) for name in step.aggregate.by)
    require(cells == step.cells, f"{step.id} has another number of cells")
    changes = set(_joint_changes(step.parts, cells, plan.neighboring))
    gauge = max(sum(norm(cell) for cell in change) for change in changes) if norm else 0
    require(step.gauge == gauge, f"{step.id} claims another gauge than its extreme rows have")
    sizes = {tuple(sorted((abs(c) for cell in change for c in cell if c), reverse=True)) for change in changes}
    widest = max(sizes, key=len)
    # Every change is by one, so the change of most numbers is at least every other one, coordinate by coordinate.
    require(all(set(size) <= {1} for size in sizes), f"{step.id} joins counts that change by more than one")
    number = len(widest)
    derived = Sensitivity(
        l0=number, l1=Fraction(number), l2_squared=Fraction(number), linf=Fraction(1), shifts=(widest,)
    )
    require(derived == step.sensitivity, f"{step.id} claims another sensitivity than its extreme rows have")


def _joint_changes(
    parts: tuple[Quantity, ...], cells: int, neighboring: Neighboring
) -> Iterator[tuple[Vector, Vector]]:
    """How two cells of several counts can change between neighbours.

    Both norms, and the sizes of the changes, are convex in what a row contributes, so they are largest at rows of
    zeros and ones. With many counts four rows are enough: one that counts everywhere (alone or in two cells it
    reaches the largest change of every count) and two that never count in the same column (in one cell they change
    every column, some up and some down, the most that one cell can), beside one that belongs to no cell.
    """
    always = [part.kind == "rows" for part in parts]
    count = len(parts)
    if count <= _ALL_ROWS:
        vectors = [row for row in product((0, 1), repeat=count) if all(row[i] for i in range(count) if always[i])]
    else:
        wanted = ([True] * count, [i % 2 == 0 for i in range(count)], [i % 2 == 1 for i in range(count)])
        vectors = [tuple(int(on or fixed) for on, fixed in zip(row, always, strict=True)) for row in wanted]
    nothing = (0,) * count
    rows = [(0, nothing)] + [(place, vector) for place in range(min(cells, 2)) for vector in vectors]
    for (old_place, old), (new_place, new) in product(rows, rows):
        if neighboring is Neighboring.ADD_REMOVE and any(old) and any(new):
            continue
        change = [[0] * count, [0] * count]
        for i in range(count):
            change[new_place][i] += new[i]
            change[old_place][i] -= old[i]
        yield tuple(change[0]), tuple(change[1])


def _count_norm(cell: Vector) -> int:
    return max(0, *cell) + max(0, *(-c for c in cell))


def _largest(cell: Vector) -> int:
    return max(abs(c) for c in cell)
