"""How far one unit can move a step, derived again from the catalog, apart from ``catalog.sensitivity``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.errors import BrokenPromiseError
from dprelease.measures import Measure
from dprelease.plan.document import Measured, ReleasePlan, Step
from dprelease.plan.verify.mathematics.clip_scores import spread_of_one_row
from dprelease.plan.verify.units import Bounds, derived, half_point, proved_shifts, quantile_claims, tail
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = [
    "bounds_of",
    "broken",
    "cells_of_step",
    "check_norms",
    "check_reach",
    "counts_as_said",
    "ends_of",
    "heaviest",
    "keys_of_one",
    "require",
]

_SHARE = Fraction(1, 4)
_ALL_ROWS = 6  # up to so many quantities every row of zeros and ones is tried
_TOLERANCE = 1e-9  # of a probability that is summed in floats

Vector = tuple[int, ...]


def require(holds: bool, what: str) -> None:
    """Refuse a plan of which something does not hold.

    Raises:
        BrokenPromiseError: Saying what.
    """
    if not holds:
        raise broken(what)


def broken(what: str) -> BrokenPromiseError:
    """What is raised where something does not hold."""
    return BrokenPromiseError(
        f"the plan does not verify: {what}",
        hint="nothing was drawn; please report this with the plan file",
    )


def check_reach(plan: ReleasePlan, step: Step) -> None:
    """Derive sensitivity, gauge, rounds, threshold and number of cells of a step again.

    Raises:
        BrokenPromiseError: If the step claims anything else.
    """
    cells = sum(table.cells for table in step.tables) or cells_of_step(plan, step.aggregate)
    cells = 1 if step.mechanism == "exponential_clip" else cells  # one choice for all of them
    require(step.cells == cells, f"{step.id} has another number of cells")
    require(not step.tables or step.gauge is not None, f"{step.id} counts in several tables without a gauge")
    if step.gauge is not None:
        require(step.choosing is None and step.selecting is None, f"{step.id} is of two kinds")
        (_check_tables if step.tables else _check_joint)(plan, step)
        return
    require(not step.joined, f"{step.id} hides several quantities with noise for one")
    if step.choosing is not None:
        require(step.selecting is None, f"{step.id} is of two kinds")
        _check_choice(plan, step)
    elif step.selecting is not None:
        _check_selection(plan, step)
    else:
        require(step.mechanism in ("discrete_laplace", "discrete_gaussian"), f"{step.id} uses an unknown mechanism")
        _check_sensitivity(plan, step)


def cells_of_step(plan: ReleasePlan, grouping: Grouping) -> int | None:
    """The number of cells of a grouping; None where a noisy selection decides."""
    if grouping.private:
        return None
    table = plan.catalog.tables[grouping.table]
    every = math.prod(len(table.column(name).keys or ()) for name in grouping.by)
    if grouping.excluding is None:
        return every
    left_out = plan.catalog.exclusions.get(grouping.excluding, (-1,))
    proper = list(left_out) == sorted(set(left_out)) and all(0 <= place < every for place in left_out)
    require(proper, f"{grouping.excluding} leaves out what is no cell")
    return every - len(left_out)


def bounds_of(plan: ReleasePlan, grouping: Grouping, once: bool) -> Bounds:
    """What one unit has at most; with ``once`` all of its rows in one cell are one contribution."""
    table, cells = plan.catalog.tables[grouping.table], cells_of_step(plan, grouping)
    if table.unit_id is None:
        return Bounds(1, 1, 1, cells)
    unbounded = 1 << 62
    rows = unbounded
    if table.bounds is not None:
        rows = table.bounds.max_rows
        for join in table.private_joins:
            rows *= join.max_matches
    groups = min(rows, unbounded if cells is None else cells, grouping.max_groups or unbounded)
    per_group = 1 if once else min(rows, grouping.max_rows_per_group or unbounded)
    require(groups < unbounded and per_group < unbounded, f"nothing bounds a unit of {grouping.table}")
    return Bounds(groups, per_group, min(rows, groups * per_group), cells)


def heaviest(plan: ReleasePlan, step: Step, quantity: Quantity) -> int:
    """How often one row can count, as its table declares: the clip of its weight, in steps of it; once without one.

    Raises:
        BrokenPromiseError: If the quantity has other weights than its table, or is none that has weights.
    """
    asked, declared = quantity.weight, plan.catalog.tables[step.aggregate.table].weight
    if asked is None:
        return 1
    require(declared is not None, f"{step.id} has weights, and its table has none")
    assert declared is not None  # noqa: S101 - just required
    same = (asked.column, asked.step, asked.clip) == (declared.column, declared.step, declared.clip)
    require(same, f"{step.id} has other weights than its table")
    sums = quantity.kind in ("rows", "nonnull", "balance", "rest", "sum") and quantity.per == "row"
    require(sums, f"{step.id} has weights of what is no sum over rows")
    return declared.clip


def counts_as_said(plan: ReleasePlan, step: Measured, measure: Measure) -> bool:
    """Whether the rows of a step have weights if and only if a number made of it is said to have them."""
    weighted = plan.catalog.tables[step.aggregate.table].weight is not None and measure.weighted is not False
    return (step.aggregate.quantity.weight is not None) == weighted


def _check_sensitivity(plan: ReleasePlan, step: Step) -> None:
    quantity = step.aggregate.quantity
    require(quantity.kind != "quantile", f"{step.id} adds up what is a choice")
    at_once = ("nonnull", "balance", "sum", "square")
    once = quantity.kind == "units" or (quantity.per == "unit_cell" and quantity.kind in at_once)
    # A row that weighs w is w rows, which all do the same; 0 is among the ends, so that a lighter one moves less.
    ends = [heaviest(plan, step, quantity) * end for end in ends_of(quantity)]
    check_norms(step, bounds_of(plan, step.aggregate, once), min(ends), max(ends), plan.neighboring)


def check_norms(step: Step, bounds: Bounds, low: int, high: int, neighboring: Neighboring) -> None:
    """The four norms as derived; worst cases as derived, or none, which claims nothing, for units with several rows."""
    known, claimed = derived(bounds, low, high, neighboring), step.sensitivity
    norms = [(each.l0, each.l1, each.l2_squared, each.linf) for each in (known, claimed)]
    require(norms[0] == norms[1], f"{step.id} claims another sensitivity than its extreme rows have")
    proved = proved_shifts(claimed.shifts, bounds, low, high, neighboring)
    require(proved, f"{step.id} claims other worst cases than its extreme rows have")


def ends_of(quantity: Quantity) -> set[int]:
    """What extreme rows contribute, one that is skipped among them.

    The norms are convex in each contribution, so their maxima lie at the ends of the allowed interval; a square has
    its ends at the ends of the clip and at its centre.
    """
    centred = {quantity.low - quantity.centre, quantity.high - quantity.centre}
    if quantity.low < quantity.centre < quantity.high:
        centred.add(0)  # where a square has its least value
    half = Fraction(1, 2)
    return {0} | {
        "balance": {-1, 1},
        "sum": centred,
        "square": {math.floor(Fraction(x * x, quantity.grain) + half) - quantity.offset for x in centred},
    }.get(quantity.kind, {1})


def _check_choice(plan: ReleasePlan, step: Step) -> None:
    """Rounds, spread and candidates of a step that chooses, and the norms that follow from them."""
    choosing, quantity = step.choosing, step.aggregate.quantity
    assert choosing is not None  # noqa: S101 - told apart by the caller
    rounds, spread = choosing.rounds, choosing.spread
    known = ("exponential_quantile", "exponential_top_k", "exponential_clip")
    require(step.mechanism in known, f"{step.id} uses an unknown mechanism")
    require(step.is_clip == (step.mechanism == "exponential_clip"), f"{step.id} chooses what it is no choice of")
    if step.mechanism == "exponential_top_k":
        counts = quantity.kind in ("rows", "units") and quantity.weight is None
        require(counts, f"{step.id} ranks by what is no count")
        lengths = [query.ranking.k for query in plan.queries if query.ranking and query.ranking.step == step.id]
        require(lengths == [rounds] and rounds <= (step.cells or 0), f"{step.id} chooses a list of another length")
        r = bounds_of(plan, step.aggregate, quantity.kind == "units").per_group
        # Keys of a unit that leaves, of one that enters, and of neither.
        changes = (0, r) if plan.neighboring is Neighboring.ADD_REMOVE else (-r, 0, r)
        require(spread == max(changes) - min(changes), f"{step.id} claims another spread of its scores")
        candidates = step.cells
    elif quantity.chosen is not None:
        rows = bounds_of(plan, step.aggregate, once=False).rows
        require(rounds == 1 and spread == rows * spread_of_one_row(), f"{step.id} claims another reach of its scores")
        candidates = len(quantity.chosen.candidates)
    else:
        require(quantity.kind == "quantile" and quantity.at is not None, f"{step.id} chooses no quantile")
        bounds = bounds_of(plan, step.aggregate, once=False)
        sound = quantile_claims(bounds, quantity.at or Fraction(0), plan.neighboring)
        require((rounds, spread) in sound, f"{step.id} claims another reach of its scores")
        candidates = quantity.high - quantity.low + 1
    require(choosing.candidates == candidates, f"{step.id} chooses among others")
    norms = Sensitivity(l0=rounds, l1=rounds * spread, l2_squared=rounds * spread * spread, linf=spread)
    require(step.sensitivity == norms, f"{step.id} claims another sensitivity than its scores have")


def _check_selection(plan: ReleasePlan, step: Step) -> None:
    """Reach and threshold of a step that selects keys."""
    selecting = step.selecting
    assert selecting is not None  # noqa: S101 - told apart by the caller
    known = ("laplace_threshold", "gaussian_threshold", "optimal_selection")
    require(step.mechanism in known, f"{step.id} uses an unknown mechanism")
    require(step.aggregate.private, f"{step.id} selects keys that are public")
    units = step.aggregate.quantity.kind == "units" and step.aggregate.quantity.where is None
    require(units, f"{step.id} selects keys by something else than their units")
    bounds = bounds_of(plan, step.aggregate, once=True)
    check_norms(step, bounds, 0, 1, plan.neighboring)
    require(selecting.threshold > 1, f"{step.id} has a threshold that one unit reaches without noise")
    least = step.aggregate.min_units or 1
    require(selecting.threshold >= least, f"{step.id} shows keys of fewer units than the spec allows")
    if step.mechanism == "optimal_selection":
        # its coins are (1 / scale, delta / keys)-private whatever the threshold says, which only has to be true
        half = selecting.left_out + half_point(1 / float(step.scale), float(selecting.delta) / step.sensitivity.l0)
        require(abs(selecting.threshold - half) <= 1, f"{step.id} tells of another threshold than its coins have")
        return
    require(selecting.left_out == 0, f"{step.id} leaves units out of a noisy count")
    seen = tail(step.mechanism, step.scale, selecting.threshold - 1)
    any_seen = -math.expm1(bounds.groups * math.log1p(-seen))
    within = any_seen <= float(selecting.delta) * (1 + _TOLERANCE)
    require(within, f"{step.id} has a threshold too low for its delta")


def keys_of_one(plan: ReleasePlan, step: Step) -> int:
    """How many keys one unit has at most in the cells of a step."""
    return bounds_of(plan, step.aggregate, once=True).groups


def _check_joint(plan: ReleasePlan, step: Step) -> None:
    """Several counts behind one vector of noise per cell: their joint sensitivity and gauge."""
    norm = _NORMS.get(step.mechanism)
    require(norm is not None, f"{step.id} uses an unknown mechanism")
    require(bool(step.joined), f"{step.id} joins nothing")
    require(len(set(step.parts)) == len(step.parts), f"{step.id} hides a quantity twice")
    once = all(part.kind in ("rows", "nonnull") and part.weight is None for part in step.parts)
    require(once, f"{step.id} joins what is no count")
    one_row = plan.catalog.tables[step.aggregate.table].unit_id is None
    require(one_row, f"{step.id} joins counts of units that may have several rows")
    cells = 2 if step.cells is None else step.cells
    changes = set(_joint_changes(step.parts, cells, plan.neighboring))
    # the total of a cell is the rows in it, whether or not that is published: one more count, in which all rows are
    by_total = norm in (_by_total, _by_sphere)
    counted = (Quantity(kind="rows"), *step.parts) if by_total else step.parts
    moved = set(_joint_changes(counted, cells, plan.neighboring)) if by_total else changes
    if norm is _by_sphere:  # of one length, neither more nor less, is what is known
        lengths = {sum(map(norm, change), Fraction(0)) for change in moved} - {0}
        alike = plan.neighboring is Neighboring.ADD_REMOVE and lengths == {1}
        require(alike, f"{step.id} has rows that do not all move it equally far")
    gauge = max(sum(map(norm, change), Fraction(0)) for change in moved) if norm else 0
    require(step.gauge == gauge, f"{step.id} claims another gauge than its extreme rows have")
    require(not by_total or len(step.parts) > 1, f"{step.id} has too few counts for a total")
    if step.replaced:
        told = norm is _by_total and gauge == 2 and all(_is_one_replaced(change) for change in moved)
        require(told, f"{step.id} claims that a unit is one row in the place of another")
    sizes = {tuple(sorted((abs(c) for cell in change for c in cell if c), reverse=True)) for change in changes}
    widest = max(sizes, key=len)
    # Every change is by one, so the change of most numbers is at least every other one, coordinate by coordinate.
    require(all(set(size) <= {1} for size in sizes), f"{step.id} joins counts that change by more than one")
    number = len(widest)
    derived = Sensitivity(
        l0=number, l1=Fraction(number), l2_squared=Fraction(number), linf=Fraction(1), shifts=(widest,)
    )
    require(derived == step.sensitivity, f"{step.id} claims another sensitivity than its extreme rows have")


def _check_tables(plan: ReleasePlan, step: Step) -> None:
    """Several tables of counts of the same rows behind one draw: that they are, their joint sensitivity and gauge.

    The noisy tables have one total, so that rows that are in one table and not in another would be seen at once: a row
    must be in a cell of every table, or count in none. A row that comes, goes or is another one is tried in every table
    in the same cells, in other ones, and in others of one table alone; the norm is convex, so that rows of one unit
    move most where all do the same.
    """
    aggregate = step.aggregate
    require(step.mechanism == "tables_knorm", f"{step.id} uses an unknown mechanism")
    require(len(step.tables) > 1 and aggregate.by == step.tables[0].by, f"{step.id} has other tables than it counts")
    require(
        not step.joined and aggregate.quantity == Quantity(kind="rows", weight=aggregate.quantity.weight),
        f"{step.id} counts something else than rows",
    )
    each = heaviest(plan, step, aggregate.quantity)
    whole = not aggregate.private and aggregate.excluding is None and aggregate.zeros is None
    require(whole, f"{step.id} leaves out cells of tables that are drawn together")
    limits = (aggregate.max_groups, aggregate.max_rows_per_group, aggregate.min_units)
    require(not any(limits), f"{step.id} bounds units in one of its tables")
    norms, rows = [], 0
    for table in step.tables:
        own = aggregate.model_copy(update={"by": table.by})
        require(set(table.by) <= set(aggregate.complete), f"{step.id} counts rows that are in some of its tables only")
        require(table.cells == cells_of_step(plan, own), f"{step.id} has a table of another size")
        bounds = bounds_of(plan, own, once=False)
        norms.append(derived(bounds, 0, each, plan.neighboring))
        rows = max(rows, bounds.rows)
    claimed = step.sensitivity
    summed = (
        sum(each.l0 for each in norms),
        *(sum(getattr(each, name) for each in norms) for name in ("l1", "l2_squared")),
    )
    found = (claimed.l0, claimed.l1, claimed.l2_squared)
    same = found == summed and claimed.linf == max(each.linf for each in norms) and not claimed.shifts
    require(same, f"{step.id} claims another sensitivity than its extreme rows have")
    gauge = rows * each * max(_moves_of_tables(len(step.tables), plan.neighboring))
    require(step.gauge == gauge, f"{step.id} claims another gauge than its extreme rows have")


def _moves_of_tables(tables: int, neighboring: Neighboring) -> Iterator[int]:
    """The norms of the moves of one row: the largest sum of sizes of changes in one table."""
    rows = [None, (0,) * tables, (1,) * tables, (1,) + (0,) * (tables - 1)]
    for old, new in product(rows, rows):
        if neighboring is Neighboring.ADD_REMOVE and old is not None and new is not None:
            continue
        sizes = []
        for table in range(tables):
            change = [0, 0]
            if old is not None:
                change[old[table]] -= 1
            if new is not None:
                change[new[table]] += 1
            sizes.append(sum(map(abs, change)))
        yield max(sizes)


def _joint_changes(
    parts: tuple[Quantity, ...], cells: int, neighboring: Neighboring
) -> Iterator[tuple[Vector, Vector]]:
    """How two cells of several counts can change between neighbours.

    Both norms, and the sizes of the changes, are convex in what a row contributes, so they are largest at rows of
    zeros and ones. With many counts four rows are enough: one that counts everywhere (alone or in two cells it
    reaches the largest change of every count) and two that never count in the same column (in one cell they change
    every column, some up and some down, the most that one cell can), beside one that belongs to no cell.
    """
    always = [part.kind == "rows" and part.where is None for part in parts]
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


def _is_one_replaced(change: tuple[Vector, Vector]) -> bool:
    """Whether no cell changes by more than one row that comes or goes, or by one in the place of another.

    In the first case the total moves by one and every residual, twice a count less the total, by one; in the other
    the total stays, and every residual moves by two or not at all.
    """
    steps = {(abs(total), frozenset(abs(2 * count - total) for count in counts)) for total, *counts in change}
    replaced = {(0, frozenset(some)) for some in ({0}, {2}, {0, 2})}
    alone = [cell for cell in change if any(cell)]
    return steps <= replaced | {(1, frozenset({1}))} and (len(alone) < 2 or all(abs(cell[0]) == 1 for cell in alone))


def _count_norm(cell: Vector) -> int:
    return max(0, *cell) + max(0, *(-c for c in cell))


def _by_total(cell: Vector) -> Fraction:
    """By a total and residuals, at a share of the total that no row is largest for: all rows have 1 at any share."""
    total, *counts = cell
    return (1 - _SHARE) * max(abs(2 * count - total) for count in counts) + _SHARE * abs(total)


def _by_sphere(cell: Vector) -> Fraction:
    """The squared length of 2 c - n and n, beside that of a row; the weight of n is any that no row is largest for."""
    total, *counts = cell
    whole = sum((2 * count - total) ** 2 for count in counts) + _SHARE * total**2
    return whole / (len(counts) + _SHARE)


def _largest(cell: Vector) -> int:
    return max(abs(c) for c in cell)


_NORMS: Mapping[str, Callable[[Vector], int | Fraction]] = {
    "count_knorm": _count_norm,
    "linf_knorm": _largest,
    "total_residual": _by_total,
    "random_scale": _by_sphere,
}
