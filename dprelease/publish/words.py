"""The sentences that a page and ``accounting.json`` share, so that they cannot say two things."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dprelease.catalog.table import Table
from dprelease.measures import MEASURES, Measure
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.unit import Neighboring
from dprelease.publish.numbers import decimal, percent

__all__ = ["NOT_COVERED", "SIGNATURE", "described", "not_protected", "post_processing", "relation", "what_is_hidden"]

NOT_COVERED = (
    "How long the run took, how much memory it used, and whether it ran out of either.",
    "Whoever can see the data source, the machine or the orchestrator while it runs.",
    "Copies of the data, and anything published from it outside the accounts named here.",
    "What the tables say about groups: a fact that holds for many people at once is meant to be visible.",
    "A legal opinion: this page is a record of what was done, not a certificate of anonymity.",
)
SIGNATURE = "unsigned"


def relation(plan: ReleasePlan) -> str:
    """The neighbouring relation in words."""
    unit = plan.unit
    if plan.neighboring is Neighboring.ADD_REMOVE:
        return f"Two data sets are neighbours when one has the row of one {unit} more than the other."
    return f"Two data sets are neighbours when they have the same size and differ in the row of one {unit}."


def what_is_hidden(plan: ReleasePlan) -> str:
    """What an attacker cannot tell well, as the end of a sentence."""
    if plan.neighboring is Neighboring.ADD_REMOVE:
        return f"whether the row of one {plan.unit} is in the data at all"
    return f"which of two possible rows one {plan.unit} has in the data"


def described(measure: Measure, table: Table, unit: str) -> str:
    """What a measure's numbers are, from its own fields and the declared range of its column."""
    kind = next(kind for kind in MEASURES if kind in type(measure).model_fields)
    target = str(getattr(measure, kind))
    if kind == "count":
        return (
            f"number of rows; each row is one {unit}"
            if target in ("rows", "units")
            else (f"number of rows in which {target} has a value")
        )
    limits: tuple[Fraction, Fraction] | None = getattr(measure, "clip", None)
    declared = table.column(target).range
    if limits is None and declared is not None:
        limits = (declared.low, declared.high)
    within = f", each value first moved into {_limit(limits[0])} to {_limit(limits[1])}" if limits else ""
    unit_of = f" in {table.column(target).measured_in}" if table.column(target).measured_in else ""
    return f"{kind} of {target}{unit_of}{within}"


def _limit(value: Fraction) -> str:
    return decimal(Decimal(value.numerator) / value.denominator)


def post_processing(plan: ReleasePlan) -> tuple[str, ...]:
    """What happened after the noise."""
    found = [
        "Counts and sums are the noisy measurements themselves: nothing was rounded, made positive or made to add up.",
    ]
    kinds = {type(measure) for query in plan.queries for measure in query.measures.values()}
    if MEASURES["mean"] in kinds:
        found.append(
            "A mean is a noisy sum over a noisy count, held within its clip; "
            "it is blank where the noisy count is below 1."
        )
    above = plan.publish.unreliable_above
    if above is not None:
        done = "withheld" if plan.publish.unreliable_show == "blank" else "marked unreliable"
        found.append(f"A number whose margin is more than {percent(above)} % of its size is {done}.")
    found.append("Numbers on the page are rounded for reading; the files hold them in full.")
    return tuple(found)


def not_protected(plan: ReleasePlan) -> tuple[str, ...]:
    """Public facts that the guarantee does not cover, because they were never measured."""
    return (
        "No number was published exactly: there are no invariants.",
        "Keys, labels, ranges, clips and guesses are taken from the author's specification and public references; "
        "the guarantee holds for them only if they were not themselves taken from the confidential data.",
        "Every combination of the keys is published, so which rows a table has says nothing about the data.",
    )
