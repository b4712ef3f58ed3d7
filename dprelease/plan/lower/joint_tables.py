"""A workload whose tables are hidden by one K-norm draw, made of the same workload with a draw for each table."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dprelease.catalog.sensitivity import sensitivity
from dprelease.catalog.table import Catalog
from dprelease.noise.mechanisms.tables_knorm import TablesKNorm
from dprelease.plan.design.workload_joint import JointDraws, joint_strategy, joint_tables_of
from dprelease.plan.design.workload_pure import problem_of
from dprelease.plan.document import Answer, JointTable
from dprelease.plan.document.workload import Take
from dprelease.plan.lower.lowered_workload import LoweredWorkload
from dprelease.plan.lower.unscaled import UnscaledStep
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["drawn_together"]


def drawn_together(apart: LoweredWorkload, epsilon: float, catalog: Catalog) -> LoweredWorkload | None:
    """The same tables behind one K-norm draw; None where one cannot hide them, or something of them is exact.

    Args:
        apart: With a draw for each table, in shares that no author has written.
        epsilon: About what it has.
        catalog: The catalog of the plan.
    """
    tables = joint_tables_of(apart.sizes, apart.tree, apart.planned.sets)
    if not tables or apart.known or apart.zeros is not None:
        return None
    problem = problem_of(apart.sizes, apart.tree, apart.planned.sets, apart.minimize, (), apart.replace_one)
    draws, of_row = JointDraws(problem, tables), epsilon / apart.rows
    strategy = joint_strategy(draws, of_row, apart.replace_one)
    draft = _draft(apart, draws, catalog)
    takes = tuple(Take(step=draft.id, level=0, axes=part.axes) for part in strategy.parts)
    planned = apart.planned.model_copy(update={"takes": takes, "strategy": strategy.name})
    reach = 2 if apart.replace_one else 1
    widest = TablesKNorm().law(reach / Fraction(of_row), draws.cells).variance * of_row**2
    return replace(
        apart,
        planned=planned,
        drafts=(draft,),
        strategies=(strategy, *apart.strategies),
        weights=(float(strategy.variances.mean()) / widest,),
        pure=draws,
    )


def _draft(apart: LoweredWorkload, draws: JointDraws, catalog: Catalog) -> UnscaledStep:
    """One row is in one cell of every table, and a replaced row leaves one and enters another.

    So it has the norm 1, or 2, and by the triangle inequality the rows of a unit, each as often as it weighs, have as
    many times that; it is reached
    where all of them are in the same cells, and those that take their place in others
    (docs/proofs/joint-tables.md, section 3).
    """
    workload = apart.planned
    named = [
        JointTable(by=workload.columns(0, axes), cells=n) for axes, n in zip(draws.tables, draws.cells, strict=True)
    ]
    rows = apart.drafts[0].aggregate
    counts = [rows.model_copy(update={"by": each.by}) for each in named]
    relation = Neighboring.REPLACE_ONE if apart.replace_one else Neighboring.ADD_REMOVE
    reaches = [sensitivity(each, catalog, relation) for each in counts]
    moved = Sensitivity(
        l0=sum(each.l0 for each in reaches),
        l1=sum((each.l1 for each in reaches), Fraction(0)),
        l2_squared=sum((each.l2_squared for each in reaches), Fraction(0)),
        linf=max(each.linf for each in reaches),
    )
    sides = 2 if apart.replace_one else 1
    return UnscaledStep(
        f"{workload.name}.tables",
        counts[0],
        (),
        (Answer(query=workload.name, measure=workload.measure),),
        moved,
        sum(draws.cells),
        ball="tables",
        gauge=Fraction(sides * apart.rows),
        part=Fraction(1),
        tables=tuple(named),
    )
