"""How the tables of a workload are made of its draws, so that a stranger can work them out again."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dprelease.catalog.cells import zero_keys
from dprelease.plan.design.workload_design import design_of, lattice
from dprelease.plan.document import ReleasePlan, Workload
from dprelease.privacy.budget import round_up

__all__ = ["WORDS", "workload_recipe"]

WORDS = (
    "Divide the numbers of each draw by its divisor: they are then in rows, with the variance that stands beside it. "
    "For every set b of attributes within a published one: a residual draw of b, centred along the axes of b, is an "
    "estimate of the centred table of b with its variance v; a table draw of A, added up over A without b and centred, "
    "is one with v times the number of keys of every attribute that was added up. At every level the estimates of b "
    "are averaged with weights 1 / v. Along the levels, where every node is the sum of its children, they are fitted "
    "by least squares with the same weights. A table A is the sum, over all b within it, of the fitted estimates, each "
    "divided by the number of keys of the attributes of A without b and spread evenly over them."
)
_EXACT = (
    "A draw of variance 0 is an invariant, a table without noise: where it says something of b, it alone counts. Its "
    "numbers, and their sums, also stay as they are in what is done after that."
)
_ZEROS = (
    "The combinations under `zeros` are impossible: in every table with all of their attributes those numbers are 0. "
    "With x the numbers of all tables so made, S their covariance and C x those that are to be 0, the tables are x - S "
    "C' (C S C')^+ C x, and the cells of these combinations have no row."
)
_AFTER = {
    "nonnegative": "Then the tables are moved to the nearest ones without a number below zero that keep the totals.",
    "integer": "Then they are rounded to whole numbers that still add up; where there is a choice it is made by "
    "chance, keyed by the fingerprint of the measurements.",
}
_BEFORE = (
    "In the files `{0}_unadjusted` is the number before what is done last here, and `{0}` the one after; standard "
    "error, margin and interval are about the first."
)


def workload_recipe(plan: ReleasePlan, workload: Workload) -> dict[str, Any]:
    """The part of ``recipe.json`` on one workload; it follows from the plan alone.

    Args:
        plan: That was measured.
        workload: Of the plan.
    """
    steps = {take.step: plan.taken(take.step) for take in workload.takes}
    design, moved = design_of(workload, plan.catalog, steps), _AFTER.keys() & set(workload.post)
    return {
        "workload": workload.name,
        "measure": workload.measure,
        "attributes": [
            {"column": name, "keys": keys} for name, keys in zip(workload.attributes, design.sizes, strict=True)
        ],
        "levels": [
            {"column": name, "nodes": nodes, "parents": None if at == 0 else design.tree.parents[at - 1].tolist()}
            for at, (name, nodes) in enumerate(zip(workload.levels, design.tree.sizes, strict=False))
        ],
        "draws": [
            {
                "step": take.step,
                "level": take.level,
                "attributes": [workload.attributes[at] for at in take.axes],
                "holds": "residual" if taken.residual else "table",
                "divisor": lattice(steps[take.step]),
                "variance": round_up(Fraction(taken.variance), 15),
            }
            for take, taken in zip(workload.takes, design.taken, strict=True)
        ],
        "tables": [
            {
                "query": name,
                "level": workload.place(name)[0],
                "attributes": [workload.attributes[at] for at in workload.place(name)[1]],
            }
            for name in workload.tables
        ],
        **_zeros(plan, workload),
        "how": [
            WORDS,
            *([_ZEROS] if workload.name in plan.catalog.zeros else []),
            *([_EXACT] if any(each.variance == 0 for each in design.taken) else []),
            *(_AFTER[each] for each in workload.post if each in _AFTER),
            *([_BEFORE.format(workload.measure)] if plan.publish.layout > 1 and moved else []),
        ],
    }


def _zeros(plan: ReleasePlan, workload: Workload) -> dict[str, Any]:
    """The impossible combinations of a workload, as they are written in its tables; nothing where it has none."""
    zeros = plan.catalog.zeros.get(workload.name)
    if zeros is None:
        return {}
    keys = [list(each) for each in zero_keys(zeros, plan.catalog.tables[workload.table])]
    return {"zeros": {"reference": zeros.reference, "attributes": list(zeros.columns), "combinations": keys}}
