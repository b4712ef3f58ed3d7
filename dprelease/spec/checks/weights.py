"""The rules of survey weights: a number on a grid, public limits, and no number of a query that has none in silence."""

from __future__ import annotations

from fractions import Fraction

from dprelease.measures import Measure
from dprelease.spec.checks.columns import FINEST, NUMBERS, step_is_sound
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_weight", "check_weighted"]

_MOST = 2**62  # what one row may contribute, in steps of value times steps of weight
_UNWEIGHTED = "write `weighted: false` beside it, if it is to be about the records of the sample"


def check_weight(name: str, table: TableSpec, findings: Findings) -> None:
    """The weights of a table: their column, grid and clip, and the model of the sampling error."""
    weight, at = table.weight, ("tables", name, "weight")
    if weight is None:
        return
    about, column = ("tables", name, "columns", weight.column), table.columns.get(weight.column)
    if column is None:
        says = f"is no column of table {name!r}: {shown(weight.column)!r}"
        findings.add("DPR-S680", (*at, "column"), says, did_you_mean(weight.column, table.columns), about)
        return
    if column.type not in NUMBERS or weight.column == table.unit_id:
        what = "says whose row it is" if weight.column == table.unit_id else f"is {column.type}"
        hint = "name an integer or decimal column"
        findings.add("DPR-S680", (*at, "column"), f"needs a number, and {shown(weight.column)!r} {what}", hint, about)
        return
    step = column.step or weight.step or Fraction(1)
    if weight.step is not None and weight.step != step:
        says = f"is another grid than the `step` of column {shown(weight.column)!r}, {column.step}"
        findings.add("DPR-S681", (*at, "step"), says, "write it once, at the weight or at the column", about)
    elif not step_is_sound(column, step):
        says = "is no grid of its column: finer or coarser than 2^53, or no whole number beside an integer"
        findings.add("DPR-S681", (*at, "step"), says, "write a step such as 1 or 0.01", about)
    elif (weight.clip / step).denominator != 1:
        says, hint = f"is no multiple of the step {step}", "round it up to one, or write `step` at the weight"
        findings.add("DPR-S682", (*at, "clip"), says, hint, (*at, "step"), about)
    elif weight.clip / step > FINEST:
        findings.add("DPR-S682", (*at, "clip"), "is more than 2^53 steps", "take a larger `step`", (*at, "step"))
    sampling = weight.sampling
    if sampling is not None and not 0 <= sampling.fraction < 1:
        says, hint = "is no part of the population", "write a number from 0 to below 1, such as 0.01"
        findings.add("DPR-S683", (*at, "sampling", "fraction"), says, hint)


def check_weighted(spec: ReleaseSpec, name: str, query: QuerySpec, table: TableSpec, findings: Findings) -> None:
    """Every number of a query of a weighted table has weights, or says that it has none."""
    at, weight = ("queries", name), table.weight
    for label, measure in query.measures.items():
        here = (*at, "measures", label)
        if measure.weighted and weight is None:
            hint = "write `weight: {column: COLUMN, clip: 500}` at the table, or leave it out"
            findings.add("DPR-S684", (*here, "weighted"), f"needs weights, and table {query.table!r} has none", hint)
        elif measure.others and measure.weighted is not None:
            hint = "give it to the two measures that it is made of"
            findings.add("DPR-S684", (*here, "weighted"), "has no rows of its own to weigh", hint)
    if weight is None:
        return
    about = ("tables", query.table, "weight")
    if query.top_k is not None:
        says = f"ranks keys by counts, and table {query.table!r} has weights: a list knows of none"
        findings.add("DPR-S685", (*at, "top_k"), says, "count by the column, as a query with `by`", about)
    if any(invariant.query == name for invariant in spec.invariants):
        says = f"is an invariant, and table {query.table!r} has weights: these are never published exactly"
        findings.add("DPR-S685", at, says, "leave the invariant out", about, key=True)
    for label, measure in query.measures.items():
        if measure.others or measure.weighted is False:
            continue
        here = (*at, "measures", label)
        why = _why_not(measure, query, table)
        if why:
            findings.add("DPR-S686", here, f"{why}, and table {query.table!r} has weights", _UNWEIGHTED, about)
        elif _reach(measure, table) > _MOST:
            says = "reaches 2^62 steps of value and weight in one record"
            findings.add("DPR-S682", here, says, "take larger steps, or narrower clips", about)
    _check_suppress(query, at, about, findings)


def _why_not(measure: Measure, query: QuerySpec, table: TableSpec) -> str:
    """Why there is no such weighted number; empty where there is one."""
    weight = table.weight
    if not measure.weighs:
        return f"is a {measure.kind}, which is not made of weighted records"
    if measure.counted == "units":
        return "counts units, which have no weight (a record has)"
    if getattr(measure, "clip_per", None) == "unit_cell" and table.unit_id is not None:
        return "clips what a unit has in a cell, which has no weight (a record has)"
    assert weight is not None  # noqa: S101 - asked for by the caller
    column = table.columns.get(weight.column)
    step = (column.step if column is not None else None) or weight.step or Fraction(1)
    if step != 1 and (query.marginals is not None or query.ranges is not None):
        return f"is of tables that add up whole numbers, with weights in steps of {step} (write `step: 1`)"
    return ""


def _reach(measure: Measure, table: TableSpec) -> Fraction:
    """The most that one record can contribute, in steps of value and weight, as far as the spec says."""
    weight, column = table.weight, table.columns.get(measure.column or "")
    limits = measure.limits or (column.range if column is not None else None)
    if weight is None or limits is None or column is None or measure.grid_kind is None:
        return Fraction(0)
    own = table.columns.get(weight.column)
    step = (own.step if own is not None else None) or weight.step or Fraction(1)
    return weight.clip / step * 2 * max(map(abs, limits)) / (column.step or Fraction(1))


def _check_suppress(query: QuerySpec, at: Path, about: Path, findings: Findings) -> None:
    """A row is withheld where few records stand behind it, which no weighted number tells."""
    suppress = query.suppress
    measure = query.measures.get(suppress.measure) if suppress is not None else None
    if suppress is None or measure is None:
        return
    parts = [query.measures[each] for each in measure.others if each in query.measures] or [measure]
    if any(part.weighted is not False for part in parts):
        says = f"goes by {shown(suppress.measure)!r}, a weighted number: a few heavy records can be many people"
        hint = "add `records: {count: rows, weighted: false}`, which has noise and a price of its own, and name that"
        findings.add("DPR-S687", (*at, "suppress", "measure"), says, hint, about)
