"""How every published number, workloads and ranges among them, is made of the noisy measurements, as formulas.

Each measure says its own beside its estimate; a test works them out and holds them against the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dprelease.catalog.cells import zero_keys
from dprelease.measures.text import FormulaTerm
from dprelease.noise import JOINT_MECHANISMS, MECHANISMS, TABLES_MECHANISMS
from dprelease.plan.design.workload_design import axes_of, design_of, lattice
from dprelease.plan.design.workload_joint import table_with
from dprelease.plan.document import Invariant, Measured, PlannedQuery, PlannedTotals, ReleasePlan, Step, Take, Workload
from dprelease.plan.explain.facts import step_facts
from dprelease.privacy.budget import round_up
from dprelease.publish.accounting.glossary import described, post_processing
from dprelease.publish.accounting.plan_words import quantity_words
from dprelease.publish.base import measure_names
from dprelease.publish.bundle.recipe_of_classes import CLASS_WORDS, recipe_of_classes
from dprelease.publish.combined.along import step_of_sums
from dprelease.publish.measured import TOP_K

__all__ = ["holds", "recipe"]

WORDS = {
    "steps": "what each file holds; numbers are whole, in steps of `grid`, and noise has been added to them",
    "variance": "of the noise on one number, in squared grid steps, rounded up; none where nothing was added to one",
    "outputs": "how each published number is made of x1, x2, ..., which are the numbers of `inputs` in the same row",
    "clip(x, a, b)": "x, but at least a and at most b",
    "smallest(i, x1, ..., xn)": "the i-th smallest of them, i from 1",
    "sqrt(x)": "the square root",
    "blank": "where one of these holds, no number is published",
}
_ROWS_OF = "several steps share the file: of this one are the rows that have its id in the column named here"
_CLIPS = (
    "a step that chooses a clip holds one number, which is the same in all rows; the `grid` of what is clipped there "
    "is that of the largest clip, and the numbers made of it are multiplied by the clip over the largest one"
)
_SLACK = 1 + Fraction(1, 10**12)
_WORKLOAD_WORDS = (
    "Divide the numbers of each draw by its divisor: they are then in rows, with the variance that stands beside it. "
    "For every set b of attributes within a published one: a residual draw of b, centred along the axes of b, is an "
    "estimate of the centred table of b with its variance v; a table draw of A, added up over A without b and centred, "
    "is one with v times the number of keys of every attribute that was added up. At every level the estimates of b "
    "are averaged with weights 1 / v. Along the levels, where every node is the sum of its children, they are fitted "
    "by least squares with the same weights. A table A is the sum, over all b within it, of the fitted estimates, each "
    "divided by the number of keys of the attributes of A without b and spread evenly over them."
)
_TOGETHER = (
    "A draw with `of` is a part of a draw over several tables: of the file of its step take as many `rows`, from the "
    "`first` on, counted from 0, which are the table of the attributes beside it, and add it up over those that are "
    "not the draw's own. The variance of the total is its own, and that of a residual is of its contrasts, as for "
    "other draws; parts of one such draw are uncorrelated."
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
_TOTALS = (
    "The numbers of a measure are made by its formula, row by row; x1, x2, ... are estimates of what `numbers` "
    "lists, in that order. Each list has the draws of one quantity: the table of the columns `by`, and its variance.",
    "For every set b of columns: a draw of a table with all of b, added up over its other columns and centred along "
    "each of b, is an estimate of the centred table of b, with its variance times the number of keys of every column "
    "that was added up. The estimates of b are averaged with weights 1 over their variances. A table is the sum, over "
    "all b within its columns, of these averages, each divided by the number of keys of its other columns and spread "
    "evenly over them. Where only one table was drawn, these are its sums.",
    "In the rows of a table the columns that it does not have are keyed `_total`.",
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
_BEFORE_HELD = (
    "In the files `{0}_unadjusted` is the number before what is done last here, with its standard error, and `{0}` the "
    "one after. The interval is that of the first, lengthened up to the second where it lies outside."
)
_ROOT = (
    "F has n rows and columns, counted from 0, and no number above its diagonal. With p_k = floor(2^40 C(2k, k) / 4^k) "
    "and r_m = floor(sqrt(p_0^2 + ... + p_m^2)), the number in row i and column j is "
    "floor((2 grain p_(i - j) + r_(n - 1 - j)) / (2 r_(n - 1 - j)))."
)
_FACTORS = {
    "root": _ROOT,
    "matrix": "F is the matrix beside this, row by row.",
    "mirrored_prefixes": "With the line l (l_0 to l_n) and the times t beside this, F has in row i and column j (from "
    "0) t_j times l_d + m. d is the difference of i and j without its sign; m is l_(i+j+1) where i + j + 1 is at most "
    "n, and minus l_(2n-i-j) elsewhere.",
    "mirrored_ranges": "With the line l (l_0 to l_n, and l_(n+1) = 0) and the times t beside this, F has in row i and "
    "column j (from 0) t_j times l_d - m. d is the difference of i and j without its sign; m is l_(i+j+2) where i + j "
    "+ 2 is at most n + 1, and l_(2n-i-j) elsewhere.",
    "counts": "F is the matrix with 1 on its diagonal, and 0 elsewhere.",
}
_SUMS = {
    "prefixes": "Add up x from the first key to each key: these are the numbers of the table.",
    "all": "Add up x from each key to itself and to every later one: these are the numbers of the table.",
}


def holds(step: Measured) -> str:
    """What the file of a step holds: ``keys``, a ``ranking``, ``choices`` (values of a grid), or noisy ``numbers``.

    That of an invariant holds ``numbers`` without noise.
    """
    if isinstance(step, Invariant):
        return "numbers"
    if step.selecting is not None:
        return "keys"
    if step.mechanism == TOP_K:
        return "ranking"
    return "choices" if step.choosing is not None else "numbers"


def variance_of(step: Step) -> str | None:
    """The variance of the noise on one number, in squared grid steps, as decimal text that is not below it.

    The laws give it as a double that is off by less than 1e-13 of itself (a closed form, or a sum of positive terms);
    a part in 10^12 is added before it is rounded up. The square of the scale bounds it for discrete Gaussian noise
    (Canonne, Kamath and Steinke 2020, Corollary 9), and is taken where it is less.
    """
    if step.mechanism not in {**MECHANISMS, **JOINT_MECHANISMS, **TABLES_MECHANISMS}:
        return None
    found = Fraction(step.law.variance if step.series is None else step.scale**2) * _SLACK  # of a draw, not a period
    return round_up(min(found, step.scale**2) if step.mechanism == "discrete_gaussian" else found, 15)


def recipe(
    plan: ReleasePlan, files: Mapping[str, str], columns: Mapping[str, Sequence[str]], shared: Mapping[str, str]
) -> dict[str, Any]:
    """The content of ``recipe.json`` that follows from the plan alone, and looks at no earlier release.

    Args:
        plan: That was measured.
        files: The file of each step.
        columns: The columns of the file of each step.
        shared: Of each step the column with its id, where it shares its file; empty: it does not.
    """
    places = {
        name: {"file": file, "columns": list(columns[name]), **({"rows_of": shared[name]} if shared[name] else {})}
        for name, file in files.items()
    }
    exact = [_exact(each, places[each.id]) for each in plan.invariants]
    ranges = [_ranges(plan, query) for query in plan.queries if query.ranges is not None]
    totals = [_totals(plan, query, query.totals) for query in plan.queries if query.totals is not None]
    classes = [
        recipe_of_classes(step, _FACTORS[step.factor.kind])
        for step in plan.steps
        if step.factor and step.parts[0].is_counted
    ]
    words = {**WORDS, **(CLASS_WORDS if classes else {})}
    words |= {"clips": _CLIPS} if any(step.is_clip for step in plan.steps) else {}
    return {
        "format": 1,
        "words": {**words, **({"rows_of": _ROWS_OF} if any(shared.values()) else {})},
        "steps": [_step(step, places[step.id]) for step in plan.steps],
        "queries": [_query(plan, query) for query in plan.queries],
        "outputs": [_output(plan, query, name) for query in plan.queries for name in measure_names(plan, query)],
        "post_processing": list(post_processing(plan)),
        **({"workloads": [_workload(plan, each) for each in plan.workloads]} if plan.workloads else {}),
        **({"ranges": ranges} if ranges else {}),
        **({"totals": totals} if totals else {}),
        **({"classes": classes} if classes else {}),
        **({"invariants": exact} if exact else {}),
    }


def _exact(invariant: Invariant, place: Mapping[str, Any]) -> dict[str, Any]:
    """Where numbers stand that nothing was added to."""
    return {
        "step": invariant.id,
        "query": invariant.query,
        "measure": invariant.measure,
        "why": invariant.why,
        **place,
        "holds": holds(invariant),
        "cells": invariant.cells,
        "variance": "0",
    }


def _step(step: Step, place: Mapping[str, Any]) -> dict[str, Any]:
    facts = step_facts(step)
    kept = ("mechanism", "scale", "sensitivity", "gauge", "cells", "choosing", "selecting")
    return {
        **{name: facts[name] for name in kept},
        "step": step.id,
        **place,
        "holds": holds(step),
        "parts": [{"what": quantity_words(each), "grid": str(each.grid)} for each in step.parts],
        "variance": variance_of(step),
    }


def _query(plan: ReleasePlan, query: PlannedQuery) -> dict[str, Any]:
    """How the rows of a query come about, beside its numbers."""
    limit = query.suppress_below
    return {
        "query": query.name,
        "keys": [column.name for column in plan.keys(query)],
        "selected_by": query.selection,
        "ranked_by": None if query.ranking is None else query.ranking.step,
        "suppress_below": None if limit is None else {"measure": limit[0], "limit": str(limit[1])},
    }


def _output(plan: ReleasePlan, query: PlannedQuery, name: str) -> dict[str, Any]:
    inputs = [(feed.step, feed.part + 1) for feed in query.inputs[name]]
    along, blank = "", list[str]()
    if query.workload is not None:
        inputs = [(step, 1) for step in dict.fromkeys(take.step for take in plan.workload(query.workload).takes)]
        formula = f"workload {query.workload}"
    elif query.totals is not None:
        inputs += [(feed.step, feed.part + 1) for table in query.totals.drawn for feed in table.inputs[name]]
        formula = f"totals {query.name}"
    elif query.ranges is not None:
        inputs, formula = [(step, 1) for step, _ in inputs], f"ranges {query.name}"
        along = f", added up along {query.ranges.of}"
    elif query.series is not None:
        formula = f"series {query.name}"
    else:
        parts = [plan.taken(step).parts[part - 1] for step, part in inputs]
        made = query.measures[name].formula([FormulaTerm(f"x{at}", part) for at, part in enumerate(parts, start=1)])
        formula, blank = made.text, list(made.blank)
        formula, inputs = _at_chosen_clip(plan, formula, inputs)
    return {
        "query": query.name,
        "measure": name,
        "what": described(query.measures[name], plan.catalog.tables[query.table], str(plan.unit)) + along,
        "inputs": [{"step": step, "part": part} for step, part in inputs],
        "formula": formula,
        "blank": blank,
        **({"rounded_to": str(base)} if (base := _base(plan, query, name)) is not None else {}),
    }


def _at_chosen_clip(
    plan: ReleasePlan, formula: str, inputs: list[tuple[str, int]]
) -> tuple[str, list[tuple[str, int]]]:
    """A formula at the largest clip, times what noise has chosen over that: numbers are in proportion to the clip."""
    fed = (plan.find_step(name) for name, _ in inputs)
    clipped = next((step for step in fed if step is not None and step.clipped_by is not None), None)
    if clipped is None or clipped.clipped_by is None or clipped.aggregate.quantity.chosen is None:
        return formula, inputs
    top = clipped.aggregate.quantity.chosen.top
    return f"({formula}) * x{len(inputs) + 1} / {top}", [*inputs, (clipped.clipped_by, 1)]


def _base(plan: ReleasePlan, query: PlannedQuery, name: str) -> Fraction | None:
    """What the numbers of a measure are rounded to multiples of, in the files and on pages."""
    figures = plan.publish.figures
    return None if figures is None else figures.bases.get(query.name, {}).get(name)


def _workload(plan: ReleasePlan, workload: Workload) -> dict[str, Any]:
    """The part on one workload."""
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
                **_rows_of(workload, take, steps[take.step]),
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
            _WORKLOAD_WORDS,
            *([_TOGETHER] if any(isinstance(each, Step) and each.tables for each in steps.values()) else []),
            *([_ZEROS] if workload.name in plan.catalog.zeros else []),
            *([_EXACT] if any(each.variance == 0 for each in design.taken) else []),
            *(_AFTER[each] for each in workload.post if each in _AFTER),
            *([_before(plan).format(workload.measure)] if plan.publish.layout > 1 and moved else []),
        ],
    }


def _before(plan: ReleasePlan) -> str:
    return _BEFORE if plan.publish.figures is None else _BEFORE_HELD


def _rows_of(workload: Workload, take: Take, step: Measured) -> dict[str, Any]:
    """Where the numbers of a take stand in the file of a draw over tables; nothing for every other draw."""
    tables = axes_of(step, workload)
    if isinstance(step, Invariant) or not tables:
        return {}
    at = table_with(take.axes, tables)
    first = sum(table.cells for table in step.tables[:at])
    names = [workload.attributes[axis] for axis in tables[at]]
    return {"of": {"attributes": names, "first": first, "rows": step.tables[at].cells}}


def _zeros(plan: ReleasePlan, workload: Workload) -> dict[str, Any]:
    """The impossible combinations of a workload, as they are written in its tables; nothing where it has none."""
    zeros = plan.catalog.zeros.get(workload.name)
    if zeros is None:
        return {}
    keys = [list(each) for each in zero_keys(zeros, plan.catalog.tables[workload.table])]
    return {"zeros": {"reference": zeros.reference, "attributes": list(zeros.columns), "combinations": keys}}


def _totals(plan: ReleasePlan, query: PlannedQuery, totals: PlannedTotals) -> dict[str, Any]:
    """The part on one query with totals."""
    table = plan.catalog.tables[query.table]
    fed = {query.by: query.inputs, **{each.by: each.inputs for each in totals.drawn}}
    measures = []
    for name in measure_names(plan, query):
        parts = [plan.taken(feed.step).parts[feed.part] for feed in query.inputs[name]]
        made = query.measures[name].formula([FormulaTerm(f"x{at}", part) for at, part in enumerate(parts, start=1)])
        numbers = [
            [
                {
                    "by": list(by),
                    "step": inputs[name][at].step,
                    "part": inputs[name][at].part + 1,
                    "variance": variance_of(plan.step(inputs[name][at].step)),
                }
                for by, inputs in fed.items()
            ]
            for at in range(len(parts))
        ]
        measures.append({"measure": name, "formula": made.text, "blank": list(made.blank), "numbers": numbers})
    return {
        "query": query.name,
        "columns": [{"column": name, "keys": table.column(name).cells} for name in query.by],
        "tables": [list(query.by), *(list(each.by) for each in totals.tables)],
        "measures": measures,
        "how": list(_TOTALS),
    }


def _ranges(plan: ReleasePlan, query: PlannedQuery) -> dict[str, Any]:
    """The part on one query with ranges."""
    step, ranges = step_of_sums(plan, query), query.ranges
    if ranges is None:
        raise ValueError("only a query with ranges has sums along a column")
    factor = step.factor
    kind = "counts" if factor is None else factor.kind
    column = plan.catalog.tables[query.table].column(ranges.of)
    numbers = {} if factor is None else factor.model_dump(mode="json", include={"rows", "line", "times"})
    told = {"matrix" if name == "rows" else name: each for name, each in numbers.items() if each is not None}
    return {
        "query": query.name,
        "step": step.id,
        "of": ranges.of,
        "n": column.cells,
        "which": ranges.which,
        "kind": kind,
        "grain": None if factor is None else factor.grain,
        **told,
        "how": [
            f"For every combination of the other keys, the numbers of the step along {ranges.of} are y = F x + noise.",
            _FACTORS[kind],
            "Solve F x = y.",
            _SUMS[ranges.which],
            "The standard error of such a sum s'x is the square root of (s' F^-1 F'^-1 s) times the variance of the "
            "noise on one number, which stands beside the step.",
        ],
    }
