"""The guard that everyone calls: re-derive sensitivity, goals and loss from what was built, and refuse on a difference.

Nothing here calls the code that built the plan: sensitivities come from enumerating extreme rows
(``reach``), losses from other forms of the same theorems and from the exact loss of all draws
(``loss``, ``draws``, ``delta``), in floats with an explicit tolerance. ``plan`` runs it, ``run``
runs it before the reservation, the report prints its number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod

import numpy as np

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.expression import parse
from dprelease.catalog.factor import Factor
from dprelease.catalog.table import Table
from dprelease.errors import PlanError
from dprelease.measures import Measure
from dprelease.plan.document import Measured, Piece, PlannedQuery, ReleasePlan, Step, Workload
from dprelease.plan.verify.accuracy import check_outputs
from dprelease.plan.verify.clips.chosen import check_clips, feeds_of_clips
from dprelease.plan.verify.events import draws_of
from dprelease.plan.verify.factor import check_factor, check_ranges
from dprelease.plan.verify.form import check_form
from dprelease.plan.verify.groups import check_groups
from dprelease.plan.verify.local.respondents import check_local
from dprelease.plan.verify.loss import check_losses, cost_within
from dprelease.plan.verify.mathematics.delta import total_rho
from dprelease.plan.verify.pairs import check_pairs
from dprelease.plan.verify.periods import flaws_of_time
from dprelease.plan.verify.reach import _check_sensitivity, broken, check_reach, require  # noqa: F401 - for its own test
from dprelease.plan.verify.residual import check_residual
from dprelease.plan.verify.series.shared_noise import check_shared, check_shared_step
from dprelease.plan.verify.shares.parts import are_whole, check_apart, is_parted
from dprelease.plan.verify.totals import feeds_of_totals
from dprelease.plan.verify.workloads import check_invariants, check_workloads, check_zeros, feeds_of_workloads
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import RandomScale, TotalResidual

__all__ = ["check_pieces", "has_room", "verify"]

_TOLERANCE = 1e-9


def verify(plan: ReleasePlan) -> Loss:
    """The certified loss of a plan, after every claim in it has been derived a second time.

    Raises:
        BrokenPromiseError: If a sensitivity, a share, a cell count, a goal or a loss is not what the plan says,
            or the certified loss exceeds the budget; or the plan makes no sense. Nothing may be drawn from such a plan.
    """
    check_form(plan)
    try:
        return _derived(plan)
    except (ArithmeticError, AssertionError, LookupError, PlanError, TypeError, ValueError) as error:
        # What makes no sense in a way that nobody thought of is no plan either.
        raise broken(f"it makes no sense ({type(error).__name__})") from error


def _derived(plan: ReleasePlan) -> Loss:
    _check_shape(plan)
    for problem in flaws_of_time(plan):
        require(False, problem)
    _check_accounts(plan)
    for step in plan.steps:
        if step.series is not None:
            check_shared_step(plan, step)
            continue
        check_step = check_apart if is_parted(step) else check_reach if step.residual is None else check_residual
        (check_step if step.factor is None else check_factor)(plan, step)
        require(has_room(step), f"{step.id} has noise that does not fit into 64 bits beside a total")
    check_clips(plan)
    check_ranges(plan)
    check_shared(plan)
    check_groups(plan)
    _check_goals(plan)
    check_outputs(plan)
    check_zeros(plan)
    check_workloads(plan)
    check_pieces(plan)
    check_pairs(plan)
    check_invariants(plan)
    check_losses(plan)
    check_local(plan)
    require(plan.certified in plan.loss, "the certified loss is not given")
    certified = plan.loss[plan.certified]
    if plan.accounting == "auto":
        smallest = all(certified.epsilon <= loss.epsilon for loss in plan.loss.values())
        require(smallest, "certified is not the smallest")
    else:
        require(plan.certified == plan.accounting, "certified by another accountant than the spec's")
    require(certified.delta <= plan.budget.delta, "delta above the budget's")
    if plan.budget.epsilon is not None:
        require(certified.epsilon <= plan.budget.epsilon, "epsilon above the budget's")
    else:
        rho = total_rho(draws_of(plan.steps))
        require(rho <= float(plan.budget.rho or 0) * (1 + _TOLERANCE), "rho above the budget's")
    return certified


def _check_accounts(plan: ReleasePlan) -> None:
    """Every table that is read, by a private join too, is of an account that the release is charged to."""
    names = {account.name for account in plan.accounts}
    for table in plan.catalog.tables.values():
        require(table.account in names, f"{table.name} is of an account that is not charged")


def _check_shape(plan: ReleasePlan) -> None:
    """Every measure is fed by what it needs, and every step feeds just what it says."""
    ids = [each.id for each in plan.measured]
    require(len(set(ids)) == len(ids), "two steps with one id")
    require(sum((step.share for step in plan.steps), Fraction(0)) == 1, "shares do not add up to one")
    by_id: dict[str, Measured] = {each.id: each for each in plan.measured}
    served = {(answer.query, answer.measure, each.id) for each in plan.measured for answer in each.answers}
    feeding = feeds_of_workloads(plan) | feeds_of_totals(plan) | feeds_of_clips(plan)
    drawn = {step.id: step for step in plan.steps}
    for query in plan.queries:
        require(set(query.inputs) == set(query.measures), f"{query.name} has inputs for other measures")
        for label in query.measures if query.workload is None else ():
            _check_feeds(plan, query, label, by_id)
            feeding |= {(query.name, label, feed.step) for feed in query.inputs[label]}
        feeding |= _check_keys(plan, query, drawn)
    require(served == feeding, "a step claims to answer what it does not feed, or feeds what it does not answer")


def _check_keys(plan: ReleasePlan, query: PlannedQuery, steps: Mapping[str, Step]) -> set[tuple[str, str, str]]:
    """What selects the keys of a query, and what makes its list: there where it must be, and nowhere else."""
    found = set()
    require(
        (query.selection is not None) == query.private, f"{query.name} has keys that nothing selects, or none to select"
    )
    for step_id, answer in ((query.selection, "(keys)"), (query.ranking.step if query.ranking else None, "(list)")):
        if step_id is None:
            continue
        require(step_id in steps, f"{query.name} needs a step that is not there")
        step = steps[step_id]
        same = step.aggregate.grouping == query.grouping
        require(same, f"{query.name} takes its keys from other cells")
        fits = step.selecting is not None if answer == "(keys)" else step.mechanism == "exponential_top_k"
        require(fits, f"{query.name} takes its keys from a step that chooses none")
        found.add((query.name, answer, step_id))
    if query.ranking is not None:
        choosing = steps[query.ranking.step].choosing
        require(
            choosing is not None and choosing.rounds == query.ranking.k, f"{query.name} is a list of another length"
        )
        require(not query.measures, f"{query.name} is a list and has measures")
    return found


def _check_feeds(plan: ReleasePlan, query: PlannedQuery, label: str, steps: Mapping[str, Measured]) -> None:
    name, table = f"{query.name}.{label}", plan.catalog.tables[query.table]
    found = []
    for feed in query.inputs[label]:
        require(feed.step in steps, f"{name} needs a step that is not there")
        step = steps[feed.step]
        require(feed.part < len(step.parts), f"{name} needs a part that its step does not have")
        selects = isinstance(step, Step) and step.selecting is not None
        require(not selects, f"{name} is fed by what selects keys, which is biased")
        part = step.parts[feed.part]
        same = step.aggregate.grouping == query.grouping
        require(same or _says_itself(step, query, table), f"{name} is fed from other cells")
        found.append((part, same))
    try:
        fits = _fed_by(found, query.measures[label].made_of, query, table)
    except (AssertionError, KeyError):
        raise broken(f"{name} measures a column that is not there, or has no range") from None
    require(fits, f"{name} is fed by other quantities")


def _says_itself(step: Measured, query: PlannedQuery, table: Table) -> bool:
    """Whether a step counts over all rows of the query's cells, so that each count says which rows it is about.

    With one row for each unit and public keys nothing is bounded after the query's own filter, so that a row counts for
    it where it passes that filter and the measure's.
    """
    cells = isinstance(step, Step) and step.residual is None and step.factor is None
    plain = table.unit_id is None and not query.private and cells and step.aggregate.where is None
    return plain and step.aggregate.grouping == query.grouping.model_copy(update={"where": None})


Fed = Sequence[tuple[Quantity, bool]]  # what feeds a measure, and whether it is of the query's rows; else of all rows


def _fed_by(found: Fed, measures: Sequence[Measure], query: PlannedQuery, table: Table) -> bool:
    """Whether these are the quantities of a form of the first measure, and then of the others."""
    if not measures:
        return not found
    first, *others = measures

    def fed(form: Sequence[Quantity], fits: Callable[[Fed, Sequence[Quantity], PlannedQuery, Table], bool]) -> bool:
        head, rest = found[: len(form)], found[len(form) :]
        return fits(head, form, query, table) and _fed_by(rest, others, query, table)

    if any(fed(form, _of_its_rows) for form in first.alternatives(table)):
        return True
    if len(found) > 1 and found[0][0].kind == "rest" and first.counted is not None:
        (rest, one), (part, other), *left = found
        together = one and other and are_whole((rest, part), first.quantities(table)[0], table)
        return together and _fed_by(left, others, query, table)
    narrowed = first.model_copy(update={"where": _and(query.where, first.where, table)})
    return any(fed(form, _centred) for form in narrowed.alternatives(table))


def _of_its_rows(found: Fed, form: Sequence[Quantity], query: PlannedQuery, table: Table) -> bool:
    """Whether each is a quantity of the query's rows; or of all rows, says itself which, and skips all others."""

    def fits(part: Quantity, same: bool, wanted: Quantity) -> bool:
        if same or part.kind != wanted.kind:
            return part == wanted
        return part == wanted.model_copy(update={"where": _and(query.where, wanted.where, table)})

    skips = all(same for _, same in found) or all(each.kind != "balance" for each in form)
    pairs = zip(found, form, strict=False)
    return skips and len(found) == len(form) and all(fits(part, same, wanted) for (part, same), wanted in pairs)


def _centred(found: Fed, form: Sequence[Quantity], query: PlannedQuery, table: Table) -> bool:
    """Whether a count is half of a balance and a total that are both of all rows, the balance saying which count.

    A row that the query does not look at is one of those that do not count, and is in the total: 1 - 1 = 0.
    """
    moved = len(form) == 2 and form[0].kind == "balance" and form[1] == Quantity(kind="rows")
    return moved and [part for part, _ in found] == list(form) and not any(same for _, same in found)


def _and(first: str | None, second: str | None, table: Table) -> str | None:
    said = [each for each in (first, second) if each is not None]
    if len(said) < 2:
        return said[0] if said else None
    both = " AND ".join(f"({each})" for each in said)
    return parse(both, table.types).text


def _check_goals(plan: ReleasePlan) -> None:
    """Pinned queries cost no more than asked and share nothing."""
    for query in plan.queries:
        budget = query.goal.budget
        if budget is not None:
            own = [step for step in plan.steps if any(answer.query == query.name for answer in step.answers)]
            alone = all(answer.query == query.name for step in own for answer in step.answers)
            require(alone, f"{query.name} has a budget of its own and shares a step")
            require(budget.delta == plan.budget.delta, f"{query.name} reads its budget at another delta")
            within = cost_within(own, budget, plan.budget.delta, plan.accounting)
            require(within, f"{query.name} costs more than its own budget")


_LARGEST_TOTAL = 2**62
_LARGEST_CONTRAST = 2**61
_LEAST_COUNT = 2**32
_LARGEST_ANSWER = 2**63 - 1

_REACH = {"discrete_laplace": 57, "laplace_threshold": 57, "discrete_gaussian": 11, "gaussian_threshold": 11}


_JOINT = ("count_knorm", "linf_knorm", "tables_knorm", "total_residual")
_WITHOUT_NOISE = ("exponential_quantile", "exponential_top_k", "exponential_clip", "optimal_selection")


def has_room(step: Step) -> bool:
    """Whether a total and its noise fit into 64 bits, but for a chance of 2^-80 a number; choices always do.

    Totals are clamped to 2^62 in size before noise is added (``engines.duck.grid_steps.MOST``), and answers to 64 bits
    after it. Clamping an answer is post-processing, and moves it no further from the total, so that neither the loss
    nor a margin depends on this check. It makes sure that answers are not clamped, and so biased, but by a chance of
    2^-80.

    The contrasts of a residual are larger than the counts that they are made of, by up to grain prod 2 (n_i - 1).
    They are clamped to 2^61 (``noise.mechanisms.residual``), and a plan where that happens
    to a count of less than 2^32 rows is refused. Counts are clamped for the sums of a factor, to the same end
    (``noise.mechanisms.factor``).

    Of a residual: 2^32 grain prod 2 (n_i - 1) <= 2^61, and 2^61 + 11 scale <= 2^63 - 1. Of a factor, in the same way,
    with the largest sum of sizes along a row of its matrix.
    """
    if step.factor is not None:
        return _LEAST_COUNT * _row_sum(step.factor) <= _LARGEST_CONTRAST and _contrast_fits(step)
    if step.residual is None:
        return _LARGEST_TOTAL + _reach(step) <= _LARGEST_ANSWER
    growth = step.residual.grain * math.prod(2 * (step.residual.shape[at] - 1) for at in step.residual.axes)
    return _LEAST_COUNT * growth <= _LARGEST_CONTRAST and _contrast_fits(step)


def _contrast_fits(step: Step) -> bool:
    return _LARGEST_CONTRAST + _reach(step) <= _LARGEST_ANSWER


def _row_sum(factor: Factor) -> int:
    """The largest sum of sizes along a row, for which counts are clamped: one row after the other."""
    return max(int(np.abs(row, dtype=np.int64).sum()) for row in factor.matrix)


def _reach(step: Step) -> Fraction:
    """What the noise on one number exceeds with a probability below 2^-80, in grid steps; 0 without noise.

    P(|X| >= t) is at most 2 exp(-t / scale) for discrete Laplace noise, and at most 2 exp(-t^2 / (2 scale^2)) for
    discrete Gaussian noise (Canonne, Kamath and Steinke 2020, section 3). A number of a K-norm draw of k is at most
    the radius, J + G_0 + ... + G_k with J <= k (``noise.mechanisms.knorm``), and E exp(G / (2 scale)) = 1 + exp(-1 / (2
    scale)) is at most 2 for each geometric G: P(sum >= t) <= 2^(k + 1) exp(-t / (2 scale)), which is 2^-80 at
    t = 2 ln 2 (k + 81) scale. 7/5 is above 2 ln 2. A total with residuals has the same radius at no larger scale, and
    half of the noise on its total besides, at most 1 + G with P(G >= t) = exp(-2 t share / scale). A cell of a
    draw over tables is at most the sum of its caps, J + G_0 + ... + G_k with J < k, k their dimension. Noise of one
    random scale is drawn in steps of its grid, and these must fit.
    """
    if step.mechanism == "random_scale" and isinstance(step.event, RandomScale):
        return 12 * step.scale * max(step.event.stretches) * RandomScale.GRAIN
    if step.mechanism in _JOINT:
        number, total = len(step.parts), Fraction(0)
        if step.tables:
            number = 1 + sum(table.cells - 1 for table in step.tables)
        if isinstance(step.event, TotalResidual):
            total = 2 + Fraction(57, 2) * step.scale / step.event.share
        return number + Fraction(7, 5) * (number + 81 + bool(total)) * step.scale + total
    return Fraction(0) if step.mechanism in _WITHOUT_NOISE else _REACH[step.mechanism] * step.scale


def check_pieces(plan: ReleasePlan) -> None:
    """Every step in pieces is a draw whose nodes have nothing to do with one another, and its pieces are its cells.

    The tree is climbed here node by node, from the level to the top, and not mapped down as ``plan.document.pieces``
    does it.

    Raises:
        BrokenPromiseError: If a step may not be cut, its pieces are not all of its cells, each once, or two
            measurements of the plan have one id.
    """
    cut = {step.id: step for step in plan.steps if step.pieces is not None}
    takes = [(workload, take) for workload in plan.workloads for take in workload.takes if take.step in cut]
    once = Counter(take.step for _, take in takes)
    pieces = plan.pieces
    require(set(pieces) == set(cut), "a step is in pieces that the plan does not have, or the other way round")
    for step in cut.values():
        require(once[step.id] == 1, f"{step.id} is in pieces and no draw of one workload")
    for workload, take in takes:
        _check_step(plan, workload, take.level, cut[take.step])
        _check_parts(plan, workload, take.level, cut[take.step], pieces[take.step])
    ids = [each.id for each in plan.measured if each.id not in cut]
    ids += [piece.id(step) for step, found in pieces.items() for piece in found]
    require(len(set(ids)) == len(ids) == len(plan.numbers), "two measurements with one id")


def _check_step(plan: ReleasePlan, workload: Workload, level: int, step: Step) -> None:
    """Independent noise on every number, and no contrast across nodes: else the parts would not be independent."""
    units = _units(plan, workload)
    require(workload.hierarchy is not None and level > units, f"{step.id} is in pieces and has no level above it")
    aggregate = step.aggregate
    require(aggregate.by[:1] == (workload.levels[level],), f"{step.id} is in pieces and not by its level first")
    whole = not aggregate.private and aggregate.excluding is None and bool(aggregate.complete)
    unbounded = aggregate.max_groups is None and aggregate.max_rows_per_group is None
    counts = aggregate.quantity.kind == "rows" and aggregate.quantity.where is None
    require(whole and unbounded and counts, f"{step.id} is in pieces and no plain count of complete rows")
    independent = step.mechanism in ("discrete_gaussian", "discrete_laplace")
    require(independent, f"{step.id} is in pieces behind noise that is not independent")
    alone = not step.joined and step.gauge is None and step.choosing is None and step.selecting is None
    require(alone, f"{step.id} is in pieces and of another kind, too")
    inside = step.residual is None or 0 not in step.residual.axes
    require(inside, f"{step.id} is in pieces and contrasts its level")
    top = plan.catalog.tables[workload.table].column(workload.levels[units])
    count = len(top.keys or ())
    require(step.pieces == count >= 2, f"{step.id} is in another number of pieces than there are {top.name} keys")
    require(step.factor is None, f"{step.id} is in pieces and adds up cells of its own")


def _check_parts(plan: ReleasePlan, workload: Workload, level: int, step: Step, pieces: Sequence[Piece]) -> None:
    table, units = plan.catalog.tables[workload.table], _units(plan, workload)
    top, own = (table.column(name).keys or () for name in (workload.levels[units], workload.levels[level]))
    under: Mapping[int, list[int]] = {unit: [] for unit in range(len(top))}
    for node in range(len(own)):
        under[_unit(plan, workload, level, node)].append(node)
    require(len(pieces) == len(top), f"{step.id} has another number of pieces than it says")
    others = prod(len(table.column(name).keys or ()) for name in step.aggregate.by[1:])
    for unit, piece in enumerate(pieces):
        named, column = (piece.unit, piece.of, piece.column, piece.key), workload.levels[units]
        require(named == (unit, len(top), column, str(top[unit])), f"{step.id} has a piece of another unit")
        nodes = (piece.within.column, piece.within.nodes)
        require(nodes == (workload.levels[level], tuple(under[unit])), f"{step.id} has a piece of other nodes")
        require(piece.level == len(own), f"{step.id} has a piece of a level of another size")
        require(piece.numbers(step) == len(under[unit]) * others, f"{step.id} has a piece of another shape")
    require(sum(piece.numbers(step) for piece in pieces) == step.cells, f"{step.id} has cells in no piece")


def _units(plan: ReleasePlan, workload: Workload) -> int:
    """The level of the units: those above it have one key each, and it has several."""
    table = plan.catalog.tables[workload.table]
    single = [len(table.column(name).keys or ()) == 1 for name in workload.levels]
    return single.index(False) if False in single else len(single)


def _unit(plan: ReleasePlan, workload: Workload, level: int, node: int) -> int:
    """The unit of one node."""
    for parents in reversed(plan.catalog.hierarchies[workload.hierarchy or ""].parents[_units(plan, workload) : level]):
        node = parents[node]
    return node
