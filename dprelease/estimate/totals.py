"""Cells and totals of one quantity, from what was drawn of either: the least squares estimate of all, which adds up.

The estimate is that of a workload of tables (``estimate.workloads.reconcile``): linear and unbiased, with the least
variance for every number at once, and the same whatever a quantity counts or sums up. Its tables are sums of one
another. Where nothing but the cells was drawn, totals are their sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dprelease.estimate.keys import Coded, Rows, coded
from dprelease.estimate.tables import PublishedMeasure, PublishedTable, Status
from dprelease.estimate.workloads.design import Axes, Design, Tree, WorkloadDraw
from dprelease.estimate.workloads.reconcile import reconcile
from dprelease.estimate.workloads.tails import weights_of
from dprelease.measures import Noisy
from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.noise.weighted_sums import WeightedLaw

__all__ = ["design_of_tables", "in_rows", "laws_of_tables", "put_together", "with_totals"]

_Number = TypeVar("_Number", bound=np.generic)
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


def laws_of_tables(sizes: Sequence[int], sets: Sequence[Axes], drawn: Mapping[Axes, Law]) -> dict[Axes, Law]:
    """The law of a number of each table, in grid steps.

    Args:
        sizes: The number of keys of each column.
        sets: The columns of each table, as positions; all of them first.
        drawn: The law of the noise on a number of each table that was drawn, discrete Laplace or discrete Gaussian of
            all; that of the cells is among them.
    """
    gaussian = all(isinstance(law, DiscreteGaussianLaw) for law in drawn.values())
    if len(drawn) == 1:
        (law,) = drawn.values()
        variance, cells = _variance(law), int(np.prod(sizes, dtype=np.int64))
        below = {axes: cells // int(np.prod([sizes[at] for at in axes], dtype=np.int64)) for axes in sets}
        return {
            axes: law if times == 1 else WeightedLaw(((1.0, times, variance),), gaussian)
            for axes, times in below.items()
        }
    design, found = design_of_tables(sizes, sets, drawn), dict[Axes, Law]()
    for axes in sets:
        columns = (each.tolist() for each in weights_of(design, axes))
        parts = tuple((weight, round(times), variance) for weight, times, variance in zip(*columns, strict=True))
        found[axes] = WeightedLaw(parts, gaussian)
    return found


def with_totals(sizes: Sequence[int], sets: Sequence[Axes], drawn: Mapping[Axes, Noisy]) -> dict[Axes, Noisy]:
    """One quantity in the cells and in every table of totals.

    Args:
        sizes: The number of keys of each column.
        sets: As of :func:`laws_of_tables`.
        drawn: What was measured of each table that was drawn, of shape ``(times * cells,)``: several replicates may
            stand one behind the other.
    """
    full = tuple(range(len(sizes)))
    cells = int(np.prod(sizes, dtype=np.int64))
    first = drawn[full]
    times, laws = len(first.values) // cells, laws_of_tables(sizes, sets, {at: each.law for at, each in drawn.items()})
    if len(drawn) == 1:
        table = first.values.reshape(times, *sizes)
        gone = {axes: tuple(1 + at for at in full if at not in axes) for axes in sets}
        return {
            axes: replace(first, values=table.sum(axis=gone[axes]).reshape(-1), law=laws[axes], drawn="")
            for axes in sets
        }
    design = design_of_tables(sizes, sets, {at: each.law for at, each in drawn.items()}, times)
    values = [drawn[take.axes].values.reshape(design.shape(0, take.axes)) for take in design.taken]
    tables = reconcile(design, values)
    return {
        axes: replace(first, values=tables[0, axes].reshape(-1), law=laws[axes], drawn="")  # type: ignore[arg-type]  # estimates
        for axes in sets
    }


def _variance(law: Law) -> float:
    return float(law.scale) ** 2 if isinstance(law, DiscreteGaussianLaw) else law.variance


def design_of_tables(sizes: Sequence[int], sets: Sequence[Axes], drawn: Mapping[Axes, Law], times: int = 1) -> Design:
    """What was drawn of a query, as a workload without levels; replicates are nodes of one level."""
    taken = tuple(WorkloadDraw(0, axes, False, _variance(law)) for axes, law in drawn.items())
    return Design(tuple(sizes), Tree(times), tuple(sets), taken)


def put_together(
    whole: PublishedTable,
    tables: Sequence[PublishedTable],
    places: Sequence[Places],
    rows: Rows,
    left_out: Sequence[int],
) -> PublishedTable:
    """The cells and the tables of totals as one table.

    Args:
        whole: A table with its name, title and key columns.
        tables: The cells, then each table of totals, with the same measures.
        places: Where the rows of each stand in the product of the published keys.
        rows: All rows, in order.
        left_out: The positions in that product that have no row.
    """

    def joined(at: int, name: str) -> Floats:
        made = in_rows([getattr(table.measures[at], name) for table in tables], places, left_out)
        made.flags.writeable = False
        return made

    measures = tuple(
        PublishedMeasure(
            name=first.name,
            measure=first.measure,
            value=joined(at, "value"),
            standard_error=joined(at, "standard_error"),
            margin=joined(at, "margin"),
            lower=joined(at, "lower"),
            upper=joined(at, "upper"),
            status=_statuses([table.measures[at] for table in tables], places, left_out),
            places=first.places,
            integer=first.integer,
            tested=first.tested,
            held=first.held,
        )
        for at, first in enumerate(tables[0].measures)
    )
    return replace(
        whole, keys=rows.columns, measures=measures, cells=len(rows), suppressed=sum(each.suppressed for each in tables)
    )


def in_rows(
    numbers: Sequence[npt.NDArray[_Number]], places: Sequence[Places], left_out: Sequence[int]
) -> npt.NDArray[_Number]:
    """The numbers of the cells and of each table of totals in the order of the rows.

    Args:
        numbers: Of each table.
        places: As of :func:`put_together`.
        left_out: The same.
    """
    together = np.concatenate(list(numbers))
    found = np.zeros(len(together) + len(left_out), dtype=together.dtype)
    found[np.concatenate(list(places))] = together
    return np.delete(found, list(left_out))


def _statuses(measures: Sequence[PublishedMeasure], places: Sequence[Places], left_out: Sequence[int]) -> Coded[Status]:
    held = [coded(each.status) for each in measures]
    return Coded(held[0].keys, in_rows([each.codes for each in held], places, left_out))
