"""From a query with marginals to the draws of its workload: the best strategy, each draw with its share.

Where some tables are known exactly, it also checks what must be true then, and says what these are worth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity, cells_of
from dprelease.catalog.residual import Residual, grain_for, residual_sensitivity
from dprelease.catalog.sensitivity import limits_of, sensitivity
from dprelease.catalog.table import Catalog
from dprelease.errors import PlanError
from dprelease.estimate.workloads.conditional import saying_all
from dprelease.estimate.workloads.design import Design, Tree, WorkloadDraw
from dprelease.measures.count import Count
from dprelease.plan.design.workload_design import tree_of, zeros_in
from dprelease.plan.design.workload_objective import aimed, lost
from dprelease.plan.design.workload_pure import PureDraws, problem_of, pure_strategies
from dprelease.plan.design.workload_strategy import Part, Strategy
from dprelease.plan.design.workload_zeros import spared
from dprelease.plan.document import Answer, Goal, PlannedQuery
from dprelease.plan.document.pieces import in_pieces
from dprelease.plan.document.workload import Take, Workload
from dprelease.plan.lower.alternatives import Form, WorkloadNoise
from dprelease.plan.lower.invariants import Known
from dprelease.plan.lower.joint_tables import drawn_together
from dprelease.plan.lower.lowered_workload import LoweredWorkload, at_rho_one, bounded_together, draws_of
from dprelease.plan.lower.series import workload_in_series
from dprelease.plan.lower.unscaled import Together, UnscaledStep
from dprelease.plan.resolve.grouping import canonical_text, goal_of
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget
from dprelease.privacy.rounding import sqrt_up
from dprelease.privacy.unit import Neighboring
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec
from dprelease.spec.fields.published.told import first_said
from dprelease.spec.fields.published_sets import published_sets, workload_shares
from dprelease.spec.fields.workloads import Minimize

__all__ = ["check_known", "formed", "gained", "lowered_with_each_noise", "lowered_workload"]

Axes = tuple[int, ...]
_MOST_PURE = 100  # tables of a workload for which discrete Laplace noise is tried beside Gaussian noise


def lowered_workload(
    name: str,
    query: QuerySpec,
    goal: Goal,
    spec: ReleaseSpec,
    catalog: Catalog,
    known: tuple[Known, ...] = (),
    *,
    epsilon: float | None = None,
    beside: LoweredWorkload | None = None,
) -> LoweredWorkload:
    """Choose the strategy of a query with marginals, and lay out its draws.

    The strategy is the best one given what invariants say for certain, and draws nothing of that; with an author's
    shares every draw stays as told. It is chosen as if no combination was impossible, and draws whole tables.

    Args:
        name: The name of the query.
        query: The query of a spec that was loaded without a problem.
        goal: What its author asked of it.
        spec: Has the hierarchies, the neighbouring relation and what is done after the noise.
        catalog: The catalog of the same spec.
        known: Its tables that are invariants.
        epsilon: About what it has: it draws tables behind discrete Laplace noise. None: its noise is Gaussian.
        beside: The same with Gaussian noise, where it can have that.

    Raises:
        PlanError: The draws leave a table open (DPR-P106); or invariants leave nothing to draw, or would be changed by
            what is done after the noise (DPR-P107).
    """
    table = catalog.tables[query.table]
    if query.marginals is None:
        raise ValueError("only a query with marginals is a workload")
    attributes = query.marginals.attributes
    place = {column: at for at, column in enumerate(attributes)}
    listed = published_sets(name, query, spec.hierarchies)
    levels = tuple(dict.fromkeys(each.level for each in listed if each.level is not None))
    first = [each for each in listed if each.level == listed[0].level]
    sets = tuple(tuple(sorted(place[column] for column in each.columns)) for each in first)
    (label,) = query.measures
    shares = workload_shares(query, spec.hierarchies)
    relation = spec.privacy.neighboring if query.series is None else Neighboring.ADD_REMOVE
    tree = tree_of(catalog, query.levels, levels, table)
    sizes = tuple(table.column(column).cells for column in attributes)
    counted = Count(count="rows", weighted=query.measures[label].weighted)
    (quantity,) = counted.quantities(table)
    most_rows = _rows(Grouping(table=query.table, by=()), catalog) * quantity.each
    at_epsilon = None if epsilon is None else epsilon / most_rows
    asked = ACCOUNTANTS.get(spec.privacy.accounting)
    together = asked is None or asked.reads_together
    aim = partial(
        partial(aimed, together=together) if at_epsilon is None else partial(pure_strategies, epsilon=at_epsilon),
        sizes,
        tree,
        sets,
        query.marginals.minimize,
        replace_one=relation is Neighboring.REPLACE_ONE,
        level_shares=None if shares is None else shares.levels,
        table_shares=None
        if shares is None
        else {tuple(sorted(place[each] for each in columns)): parts for columns, parts in shares.tables.items()},
    )
    found = unaided = aim()
    if known:
        beside_it = {"blind": unaided} if at_epsilon is None else {}
        found = aim(known=[(each.level, each.axes) for each in known], **beside_it)
    workload = Workload(
        name=name,
        title=first_said(query.title, spec.release.languages) or name,
        measure=label,
        table=query.table,
        attributes=attributes,
        hierarchy=query.levels,
        levels=levels,
        sets=sets,
        tables=tuple(each.name for each in listed),
        takes=(),
        strategy=found[0].name,
        post=tuple(spec.postprocess or ("consistent",)),
        goal=goal,
    )
    rows = Grouping(
        table=query.table,
        by=(),
        where=canonical_text(query.where, table),
        complete=tuple({*attributes, *levels}),  # levels above the lowest follow from it: one staging for all
        zeros=name if name in catalog.zeros else None,
    )
    check_known(workload, found[0], known)
    gain = gained(unaided[0], found[0], query.marginals.minimize) if known else None
    zeros = zeros_in(catalog, name, attributes)
    replace_one = relation is Neighboring.REPLACE_ONE
    pure = (
        None
        if at_epsilon is None
        else _tables(found[0], sizes, tree, sets, query.marginals.minimize, known, replace_one)
    )
    at_one = (
        at_rho_one(found[0], sizes, tree, replace_one)
        if pure is None or at_epsilon is None
        else pure.noise(np.array([float(part.share) for part in found[0].parts]), at_epsilon).tolist()
    )
    exact = [WorkloadDraw(each.level, each.axes, False, 0.0) for each in known]
    taken = (*draws_of(found[0], at_one), *exact)
    plain = found[0]
    helped = spared(plain, zeros, Design(sizes, tree, sets, taken, zeros), query.marginals.minimize)
    found = (helped.strategy, *found[1:])
    bounds = bounded_together(found[0], sizes, tree) if pure is None else (None,) * len(found[0].parts)
    drafts = tuple(
        _draft(workload, part, rows, quantity, catalog, relation, each, grained=query.series is None)
        for part, each in zip(found[0].parts, bounds, strict=True)
    )
    if found[0].undetermined:
        raise _undetermined(workload, found[0].undetermined[0])
    takes = tuple(
        Take(step=draft.id, level=part.level, axes=part.axes)
        for draft, part in zip(drafts, found[0].parts, strict=True)
    )
    takes += tuple(Take(step=each.step, level=each.level, axes=each.axes) for each in known)
    workload = workload.model_copy(update={"takes": takes})
    mean = float(found[0].variances.mean())
    return LoweredWorkload(
        planned=workload,
        queries=tuple(_query(workload, at, rows, counted, catalog) for at in range(len(workload.tables))),
        drafts=drafts,
        strategies=found,
        weights=tuple(mean / len(drafts) * 2 * float(draft.part or 0) / float(draft.squared) for draft in drafts)
        if pure is None
        else tuple(mean / len(drafts) / each for each in at_one),
        sizes=sizes,
        tree=tree,
        replace_one=replace_one,
        rows=most_rows,
        known=known,
        gain=gain,
        zeros=zeros,
        spared=helped.gain,
        minimize=query.marginals.minimize,
        pure=pure,
        exchange=mean / lost(plain, query.marginals.minimize) if beside is None else beside.exchange,
    )


def _tables(
    strategy: Strategy,
    sizes: Axes,
    tree: Tree,
    sets: tuple[Axes, ...],
    minimize: Minimize,
    known: Sequence[Known],
    replace_one: bool,
) -> PureDraws:
    """What the tables of a strategy of discrete Laplace noise tell, for the aim."""
    problem = problem_of(sizes, tree, sets, minimize, [(each.level, each.axes) for each in known], replace_one)
    return PureDraws.of(problem, [(part.level, part.axes) for part in strategy.parts], replace_one)


def _draft(
    workload: Workload,
    part: Part,
    rows: Grouping,
    quantity: Quantity,
    catalog: Catalog,
    relation: Neighboring,
    together: Together | None,
    *,
    grained: bool = True,
) -> UnscaledStep:
    """One draw: the counts of a table, or of its residual; not ``grained``: on the lattice of a band alone.

    Draws that are bounded together are read as Gaussian noise, all of them or none, which takes scales of many steps:
    tables are on a fine lattice there, too.
    """
    by = workload.columns(part.level, part.axes)
    grouping = rows.model_copy(update={"by": by})
    aggregate = BoundedAggregate(**dict(grouping), quantity=quantity)
    answers = (Answer(query=workload.name, measure=workload.measure),)
    cells = cells_of(grouping, catalog)
    reach, residual = sensitivity(aggregate, catalog, relation), None
    if (part.residual and part.axes) or together is not None:
        table, offset = catalog.tables[workload.table], len(by) - len(part.axes)
        shape = tuple(table.column(column).cells for column in by)
        axes = tuple(range(offset, len(by))) if part.residual else ()
        residual, most = (
            Residual(shape=shape, axes=axes, grain=grain_for(shape, axes) if grained else 1),
            _rows(grouping, catalog),
        )
        reach = residual_sensitivity(residual, most, relation, quantity.each)
        if together is not None:  # of one row, in counts
            together = together._replace(common=together.common * (most * quantity.each * residual.divisor) ** 2)
    keys = [catalog.tables[workload.table].column(name).cells for name in workload.levels]
    pieces = in_pieces(cells, part.level, keys)
    return UnscaledStep(
        _id(workload, part),
        aggregate,
        (),
        answers,
        reach,
        cells,
        residual=residual,
        part=part.share,
        pieces=pieces,
        together=together,
    )


def _rows(grouping: Grouping, catalog: Catalog) -> int:
    """How many rows one unit has at most.

    Raises:
        ValueError: If no bound is declared.
    """
    rows = limits_of(grouping, catalog).rows
    if rows is None:
        raise ValueError(f"nothing bounds how many rows of {grouping.table} one unit has: give max_rows")
    return rows


def _undetermined(workload: Workload, first: tuple[int, int]) -> PlanError:
    level, at = first
    table = workload.tables[level * len(workload.sets) + at]
    return PlanError(
        f"the shares of {workload.name} leave {table} without a measurement that says anything of it",
        hint="give it, or a table with all of its columns, a share at that level or at one below",
        code="DPR-P106",
    )


def _id(workload: Workload, part: Part) -> str:
    """``redistricting.puma.race-adult``; of a residual ``crosstabs.sex-race.residual``."""
    attributes = "-".join(workload.attributes[at] for at in part.axes) or "total"
    level = workload.levels[part.level : part.level + 1]
    return ".".join((workload.name, *level, attributes, *(("residual",) if part.residual and part.axes else ())))


def _query(workload: Workload, at: int, rows: Grouping, counted: Count, catalog: Catalog) -> PlannedQuery:
    """A published table of the workload; it leaves out the cells of impossible combinations that it has."""
    name = workload.tables[at]
    level, axes = workload.place(name)
    by = workload.columns(level, axes)
    has_zeros = rows.zeros is not None and set(catalog.zeros[rows.zeros].columns) <= set(by)
    return PlannedQuery(
        table=workload.table,
        by=by,
        where=rows.where,
        complete=rows.complete,
        zeros=rows.zeros,
        excluding=rows.zeros if has_zeros else None,
        name=name,
        title=f"{workload.title}: {_titled(workload, level, axes)}",
        measures={workload.measure: counted},
        inputs={workload.measure: ()},
        goal=Goal(),
        workload=workload.name,
    )


def _titled(workload: Workload, level: int, axes: Axes) -> str:
    """``race by adult, for each puma``; ``total``."""
    attributes = " by ".join(workload.attributes[at] for at in axes) or "total"
    return f"{attributes}, for each {workload.levels[level]}" if workload.levels else attributes


def check_known(workload: Workload, strategy: Strategy, known: Sequence[Known]) -> None:
    """Something is left to be drawn, and what is done after the noise leaves what is exact as it is.

    Non-negative and whole tables keep one exact table, and with it all that follow from it: the cells of each of its
    keys are then numbers with one sum. Tables that say different things are not kept (for three of them no
    non-negative whole numbers with all these sums need to be near).

    Raises:
        PlanError: DPR-P107.
    """
    if not strategy.parts:
        raise PlanError(
            f"every table of {workload.name} follows from invariants, so that nothing of it is protected",
            hint="leave the query out, or some of its invariants",
            code="DPR-P107",
        )
    if not known or not set(workload.post) - {"consistent"} or saying_all((e.level, e.axes) for e in known):
        return
    lowest = max(known, key=lambda each: (each.level, len(each.axes)))
    other = next(each for each in known if not set(each.axes) <= set(lowest.axes))
    first, second = (", ".join(workload.columns(each.level, each.axes)) for each in (lowest, other))
    raise PlanError(
        f"invariants by {first} and by {second} would not both stay exact in {workload.name}: what is done after the "
        "noise keeps one exact table, and those that follow from it",
        hint="write `postprocess: [consistent]`, or leave one of the invariants out",
        code="DPR-P107",
    )


def gained(unaided: Strategy, found: Strategy, minimize: Minimize) -> float | None:
    """How many times the noise a workload would have without what it knows; None where it would be endless.

    Args:
        unaided: The best strategy that knows nothing.
        found: The one that was chosen.
        minimize: What is made least.
    """
    without, beside = lost(unaided, minimize), lost(found, minimize)
    return math.sqrt(without / beside) if math.isfinite(without) and beside > 0 else None


def lowered_with_each_noise(
    name: str, spec: ReleaseSpec, catalog: Catalog, known: tuple[Known, ...]
) -> Mapping[WorkloadNoise, LoweredWorkload]:
    """A workload for each noise that it can have: Gaussian, discrete Laplace, and one K-norm draw for all tables.

    Beside Gaussian noise, tables behind discrete Laplace noise are tried where they are few: the noise of T draws goes
    with T, and that of Gaussian ones with its square root. One K-norm draw is tried where it has less noise than these,
    or where the spec names that noise; tables whose shares an author has written are drawn apart.
    """
    query, privacy, found = spec.queries[name], spec.privacy, dict[WorkloadNoise, LoweredWorkload]()
    goal = goal_of(query, privacy.budget.delta)
    if privacy.noise != "laplace" and privacy.budget.delta:
        found["gaussian"] = lowered_workload(name, query, goal, spec, catalog, known)
    if query.series is not None:
        return {noise: workload_in_series(each, query, spec) for noise, each in found.items()}
    if privacy.noise != "gaussian":
        beside = found.get("gaussian")
        epsilon = _epsilon_of(name, spec)
        if beside is None or len(beside.queries) <= _MOST_PURE:
            pure = lowered_workload(name, query, goal, spec, catalog, known, epsilon=epsilon, beside=beside)
            found["laplace"] = pure
            unshared = privacy.noise != "laplace" and workload_shares(query, spec.hierarchies) is None
            joint = drawn_together(pure, epsilon, catalog) if unshared else None
            less = joint is not None and lost(joint.strategy, pure.minimize) < lost(pure.strategy, pure.minimize)
            if joint is not None and (less or privacy.noise == "knorm"):
                found["knorm"] = joint
    return found


def formed(found: Mapping[WorkloadNoise, LoweredWorkload], form: Form) -> LoweredWorkload | None:
    """A workload as a form says, by table where one K-norm draw does not hide it; None: it cannot be."""
    return found.get(form.of_workloads) or (found.get("laplace") if form.pure else None)


def _epsilon_of(name: str, spec: ReleaseSpec) -> float:
    """About what a query has: its own epsilon, or its share of what is shared; of a rho, that of one pure draw."""
    own = spec.queries[name].budget
    budget = spec.privacy.budget if own is None else Budget(epsilon=own.epsilon, rho=own.rho)
    whole = budget.epsilon if budget.epsilon is not None else sqrt_up(2 * (budget.rho or Fraction(1)))
    goals = {each: goal_of(query, spec.privacy.budget.delta) for each, query in spec.queries.items()}
    shares = {each: goal.share for each, goal in goals.items() if goal.share is not None}
    return float(whole * shares[name] / sum(shares.values()) if name in shares else whole)
