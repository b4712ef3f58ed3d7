"""A share of rows as a part and a rest: two counts of which a row is in one alone.

A row of the part is in the number above and in the number below, so that noise has to hide a change of both. The part
and the *rest*, the rows below that are not above, are disjoint: a row that comes or goes moves one of the two numbers,
and the number below is their sum. The same budget hides them with half the discrete Laplace noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.expression import ExpressionError, parse
from dprelease.catalog.table import Table
from dprelease.measures.estimates import Noisy

__all__ = ["error_of_parts", "part_and_rest"]

Floats = npt.NDArray[np.float64]


def part_and_rest(counted: Sequence[Quantity], table: Table) -> tuple[Quantity, Quantity] | None:
    """The rows that are counted above, and the rest of those below; None where the two are not told so.

    The rest is of the rows of which the condition of the part is not true: where that is null, a row is no part, and is
    one of the whole. It is told where the whole has no condition of its own, and where both count single rows.

    Args:
        counted: What a count takes of which every row is counted below, too, and what the one below takes.
        table: Of both.
    """
    if len(counted) != 2:
        return None
    part, whole = counted
    if whole.where is not None or not {part.kind, whole.kind} <= {"rows", "nonnull"}:
        return None
    said = [] if part.where is None else [part.where]
    if part.column not in (None, whole.column):
        said.append(_has_value(str(part.column)))
    if not said:
        return None
    try:
        where = parse(" AND ".join(f"({each})" for each in said), table.types).text
    except ExpressionError:  # too long to write
        return None
    return part, Quantity(kind="rest", column=whole.column, where=where, weight=whole.weight)


def error_of_parts(weights: Mapping[Quantity, tuple[float, float]], noisy: Sequence[Noisy], value: Floats) -> Floats:
    """The standard error of A - r B at the published quotient r, of independent draws; ``(cells,)``.

    Args:
        weights: How often each draw is in A and in B.
        noisy: The draws.
        value: r.
    """
    variance = {part.quantity: part.law.variance for part in noisy}
    squares = [(a - value * b) ** 2 * variance[quantity] for quantity, (a, b) in weights.items()]
    return np.sqrt(np.sum(squares, axis=0, dtype=np.float64))


def _has_value(column: str) -> str:
    quoted = column.replace('"', '""')
    return f'"{quoted}" IS NOT NULL'
