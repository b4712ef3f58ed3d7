"""How every published number is made of the noisy measurements: formulas that a stranger can work out.

Each measure says its own beside its estimate; a test works them out and holds them against the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dprelease.measures.text import Term
from dprelease.noise import JOINT_MECHANISMS, MECHANISMS
from dprelease.plan.document import Invariant, Measured, PlannedQuery, ReleasePlan, Step
from dprelease.plan.explain.facts import step_facts
from dprelease.privacy.budget import round_up
from dprelease.publish.accounting.glossary import described, measured, post_processing
from dprelease.publish.base import measure_names
from dprelease.publish.bundle.recipes.ranges import ranges_recipe
from dprelease.publish.bundle.recipes.workloads import workload_recipe
from dprelease.publish.tables.measured import TOP_K

__all__ = ["holds", "recipe", "variance_of"]

WORDS = {
    "steps": "what each file holds; numbers are whole, in steps of `grid`, and noise has been added to them",
    "variance": "of the noise on one number, in squared grid steps, rounded up; none where nothing was added to one",
    "outputs": "how each published number is made of x1, x2, ..., which are the numbers of `inputs` in the same row",
    "clip(x, a, b)": "x, but at least a and at most b",
    "smallest(i, x1, ..., xn)": "the i-th smallest of them, i from 1",
    "sqrt(x)": "the square root",
    "blank": "where one of these holds, no number is published",
}
_SLACK = 1 + Fraction(1, 10**12)


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
    if step.mechanism not in {**MECHANISMS, **JOINT_MECHANISMS}:
        return None
    found = Fraction(step.law.variance) * _SLACK
    return round_up(min(found, step.scale**2) if step.mechanism == "discrete_gaussian" else found, 15)


def recipe(plan: ReleasePlan, files: Mapping[str, str], columns: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The content of ``recipe.json``, which follows from the plan alone.

    Args:
        plan: That was measured.
        files: The file of each step.
        columns: The columns of each file.
    """
    exact = [_exact(each, files[each.id], columns[each.id]) for each in plan.invariants]
    ranges = [ranges_recipe(plan, query) for query in plan.queries if query.ranges is not None]
    return {
        "format": 1,
        "words": WORDS,
        "steps": [_step(step, files[step.id], columns[step.id]) for step in plan.steps],
        "queries": [_query(plan, query) for query in plan.queries],
        "outputs": [_output(plan, query, name) for query in plan.queries for name in measure_names(plan, query)],
        "derived": [{"name": each.name, "sql": each.sql} for each in plan.derive],
        "post_processing": list(post_processing(plan)),
        **({"workloads": [workload_recipe(plan, each) for each in plan.workloads]} if plan.workloads else {}),
        **({"ranges": ranges} if ranges else {}),
        **({"invariants": exact} if exact else {}),
    }


def _exact(invariant: Invariant, file: str, columns: Sequence[str]) -> dict[str, Any]:
    """Where numbers stand that nothing was added to."""
    return {
        "step": invariant.id,
        "query": invariant.query,
        "measure": invariant.measure,
        "why": invariant.why,
        "file": file,
        "columns": list(columns),
        "holds": holds(invariant),
        "cells": invariant.cells,
        "variance": "0",
    }


def _step(step: Step, file: str, columns: Sequence[str]) -> dict[str, Any]:
    facts = step_facts(step)
    kept = ("mechanism", "scale", "sensitivity", "gauge", "cells", "choosing", "selecting")
    return {
        **{name: facts[name] for name in kept},
        "step": step.id,
        "file": file,
        "columns": list(columns),
        "holds": holds(step),
        "parts": [{"what": measured(each), "grid": str(each.grid)} for each in step.parts],
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
    feeds, table = query.inputs[name], plan.catalog.tables[query.table]
    if query.workload is not None:
        return {
            "query": query.name,
            "measure": name,
            "what": described(query.measures[name], table, str(plan.unit)),
            "inputs": [{"step": take.step, "part": 1} for take in plan.workload(query.workload).takes],
            "formula": f"workload {query.workload}",
            "blank": [],
        }
    parts = [plan.taken(feed.step).parts[feed.part] for feed in feeds]
    if query.ranges is not None:
        return {
            "query": query.name,
            "measure": name,
            "what": f"{described(query.measures[name], table, str(plan.unit))}, added up along {query.ranges.of}",
            "inputs": [{"step": feed.step, "part": 1} for feed in feeds],
            "formula": f"ranges {query.name}",
            "blank": [],
        }
    made = query.measures[name].formula([Term(f"x{at}", part) for at, part in enumerate(parts, start=1)])
    return {
        "query": query.name,
        "measure": name,
        "what": described(query.measures[name], table, str(plan.unit)),
        "inputs": [{"step": feed.step, "part": feed.part + 1} for feed in feeds],
        "formula": made.text,
        "blank": list(made.blank),
    }
