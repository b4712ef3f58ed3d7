"""Sentences on workloads: what was reconciled with what, and what happened to the tables after that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dprelease.catalog.table import Zeros
from dprelease.plan.document import ReleasePlan, Workload

__all__ = ["reconciled"]

_NONNEGATIVE = (
    "no number of it is below zero: its tables are the nearest ones to the reconciled ones that keep the totals of "
    "every level, where distance counts what is known well for more. Small counts come out too large and large ones "
    "too small by that; margins do not cover it, and the estimates without it follow from the noisy measurements "
    "beside the tables."
)
_WHOLE = (
    "its numbers were rounded to whole ones that still add up, up or down by chance, each by less than one where it "
    "was rounded; tables of fewer keys are sums of rounded ones."
)


def reconciled(plan: ReleasePlan) -> Iterator[str]:
    """For every workload how its tables came about; nothing where a plan has none."""
    exact = {each.id: f"{each.query}.{each.measure}" for each in plan.invariants}
    for workload in plan.workloads:
        yield from _reconciled(workload, exact, plan.catalog.zeros.get(workload.name))


def _reconciled(workload: Workload, exact: Mapping[str, str], zeros: Zeros | None) -> Iterator[str]:
    tables, known = len(workload.tables), [exact[take.step] for take in workload.takes if take.step in exact]
    draws = len(workload.takes) - len(known)
    levels = f" on the levels {', '.join(workload.levels)}" if workload.levels else ""
    yield (
        f"{workload.name}: {tables:,} tables{levels} were made of {draws:,} draws together, by least squares: of all "
        "unbiased estimates that are sums of the noisy numbers, these have the least variance, and all tables agree "
        "with one another wherever they say the same."
    )
    if known:
        yield (
            f"{workload.name}: these exact numbers are among what its tables were made of, and stand in them as they "
            f"are: {', '.join(known)}."
        )
    if workload.levels:
        yield f"{workload.name}: a row counts where all of its attributes and its {workload.levels[-1]} have a key."
    else:
        yield f"{workload.name}: a row counts where all of its attributes have a key."
    if zeros is not None:
        yield (
            f"{workload.name}: a row with a combination of {' and '.join(zeros.columns)} that {zeros.reference} "
            f"declares impossible ({len(zeros.cells):,} of them) counts in none of its tables. That these numbers are "
            "0 was taken as known: the estimates are the best ones given it, and numbers beside them are more accurate "
            "than the others of their table."
        )
    if "nonnegative" in workload.post:
        yield f"{workload.name}: {_NONNEGATIVE}"
    if "integer" in workload.post:
        yield f"{workload.name}: {_WHOLE}"
