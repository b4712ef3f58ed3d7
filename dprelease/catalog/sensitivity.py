"""How far one unit can move what is drawn, by declared bounds alone; proofs in docs/proofs/unit-sensitivity.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from math import ceil

from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity, cells_of
from dprelease.catalog.table import Catalog
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["Limits", "choice_reach", "limits_of", "selection_reach", "sensitivity", "sensitivity_of_parts"]

_MOST_SHIFTS = 24  # so many worst cases are listed at most,
_MOST_NUMBERS = 64  # of so many numbers each,
_MOST_ALONE = 1024  # or of so many, where all cells of a unit are full and there is just one
_MOST_PAIRED = 4  # rows of a unit up to which every way to meet another unit's rows is listed

Shift = tuple[int, ...]


@dataclass(frozen=True)
class Limits:
    """How many rows one unit has at most.

    Every combination within the limits is possible: ``rows_per_group <= rows <= groups * rows_per_group`` and
    ``groups <= rows``, and ``groups <= cells``.

    Attributes:
        groups: In how many cells (g).
        rows_per_group: Rows in one cell (r); None: no bound is declared.
        rows: Rows in all cells (t); None: no bound is declared.
        cells: How many cells there are; None: a noisy selection decides, any number.
    """

    groups: int
    rows_per_group: int | None
    rows: int | None
    cells: int | None


def limits_of(grouping: Grouping, catalog: Catalog) -> Limits:
    """The limits of one unit in a grouping, from the bounds of the table and of the query.

    Raises:
        ValueError: If there are no cells, or nothing bounds in how many cells one unit can be.
    """
    table, cells = catalog.tables[grouping.table], cells_of(grouping, catalog)
    if cells is not None and cells < 1:
        raise ValueError(f"{grouping.table} by {', '.join(grouping.by)} has no cells")
    if table.unit_id is None:
        return Limits(1, 1, 1, cells)
    most = table.most_rows
    groups = _least(grouping.max_groups, most, cells)
    if groups is None:
        raise ValueError(f"nothing bounds in how many groups of {grouping.table} one unit is: give max_groups")
    per_group = _least(grouping.max_rows_per_group, most)
    rows = None if per_group is None else _least(most, groups * per_group)
    return Limits(groups, per_group, rows, cells)


def sensitivity(aggregate: BoundedAggregate, catalog: Catalog, neighboring: Neighboring) -> Sensitivity:
    """How far one unit can move the cells of an aggregate, in grid steps.

    One row contributes c in [a, b], a <= 0 <= b, to one cell; p = max(-a, b), q = min(-a, b). A unit has at most r
    rows in a cell, in at most g cells, and t in all; ``units``, and sums of what a unit has in a cell (``per``
    unit_cell), are one contribution per cell: r = 1, t = g. A row more changes ``distinct`` by 0 or 1. A weight is in
    [a, b] already (``Quantity.contribution``; docs/proofs/weights.md).

    Proof, in short. *Add or remove* a unit with n(c) rows in cell c: that cell changes by at most p n(c), all at once.
    L0 and Linf are plain; L1 is p t; the sum of squares is convex in n, so that it is largest at a corner of the
    possible n: t // r full cells and one with the rest. *Replace* a unit with n(c) rows by one with m(c): in a cell
    with max(n, m) = x and min(n, m) = y the change is at most p x + q y, all at once (the unit with more rows
    contributes the larger end, the other one the smaller end). That is the larger of two functions that are linear in
    (n, m), so it is convex, and so is its square: both sums are largest where each unit is at a corner. What is left
    is which cells of the two units coincide: ``_meetings``.

    All four norms are reached, but for ``distinct`` of a column with fewer values than a unit has rows, and where no
    value reaches an end of the clip.

    Args:
        aggregate: A quantity that adds up; no quantile.
        catalog: Where its table is declared.
        neighboring: Which tables are neighbours.

    Raises:
        ValueError: For a quantile, or if a bound is missing.
    """
    quantity = aggregate.quantity
    if quantity.kind == "quantile":
        raise ValueError("a quantile is chosen, not summed: it has no sensitivity of its own")
    low, high = quantity.contribution
    limits = _counted(limits_of(aggregate, catalog), quantity)
    return _of(*limits, max(-low, high), min(-low, high), neighboring)


def sensitivity_of_parts(
    aggregate: BoundedAggregate, parts: int, catalog: Catalog, neighboring: Neighboring
) -> Sensitivity:
    """How far one unit can move several counts of the same cells, of which every row is in one at most.

    Which of the counts a row is in is one more key of it: the numbers are those of ``parts`` times as many cells, in
    each of which a unit has no more rows than it may have in a cell, and in all no more than it has in all. So they
    move no further than the numbers of such cells do (:func:`sensitivity`), and they move so far where all of a unit's
    rows in a cell are of one part.

    Args:
        aggregate: One of the counts, of single rows.
        parts: How many counts there are.
        catalog: Where the table is declared.
        neighboring: Which tables are neighbours.

    Raises:
        ValueError: If a bound is missing.
    """
    low, high = aggregate.quantity.contribution
    groups, per_group, rows, cells = _counted(limits_of(aggregate, catalog), aggregate.quantity)
    finer = None if cells is None else parts * cells
    return _of(min(parts * groups, rows), per_group, rows, finer, max(-low, high), min(-low, high), neighboring)


def choice_reach(
    aggregate: BoundedAggregate, catalog: Catalog, neighboring: Neighboring, rounds_of_list: int | None = None
) -> tuple[int, Fraction, Sensitivity]:
    """How far one unit can move the scores of choices by the exponential mechanism.

    Args:
        aggregate: A quantile, of which every cell is one choice; or with ``rounds_of_list`` the counts by which the
            keys of a list are ranked.
        catalog: Where its table is declared.
        neighboring: Which tables are neighbours.
        rounds_of_list: The length of the list; None: a quantile.

    Returns:
        ``rounds`` and ``spread``: all choices together cost no more than ``rounds`` of them in each of which the
        change of the score differs by at most ``spread`` between two things that can be chosen. And the norms of the
        scores' change, if each round had one score.

    Raises:
        ValueError: For other quantities, or if a bound is missing.
    """
    limits, replace = limits_of(aggregate, catalog), neighboring is Neighboring.REPLACE_ONE
    quantity = aggregate.quantity
    if rounds_of_list is not None:
        if quantity.kind not in ("rows", "units") or quantity.weight is not None:
            raise ValueError("a list is ranked by rows or by units, without weights")
        # Every count changes by 0 up to r, all in one direction; a replaced unit moves one down and another one up.
        per_group = _counted(limits, quantity)[1]
        return _scores(rounds_of_list, Fraction(2 * per_group if replace else per_group))
    if quantity.is_clip:
        # At any clip a row more moves the score by 1 at most, up or down; so does a row in the place of another
        # (docs/proofs/chosen-clips.md). All cells together are one choice.
        return _scores(1, Fraction(2 * _counted(limits, quantity)[2]))
    if quantity.kind != "quantile" or quantity.at is None:
        raise ValueError("only a quantile, a clip or a list is chosen")
    return _scores(*_quantile(_counted(limits, quantity), quantity.at, replace))


def selection_reach(grouping: Grouping, catalog: Catalog, neighboring: Neighboring) -> tuple[int, Sensitivity]:
    """How many keys one unit can have, and how far it can move the numbers of units per key: each by 1.

    A replaced unit leaves all of its keys and has as many others.

    Raises:
        ValueError: If no bound of the number of keys is declared.
    """
    groups = limits_of(grouping, catalog).groups
    return groups, _of(groups, 1, groups, None, 1, 0, neighboring)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _counted(limits: Limits, quantity: Quantity) -> tuple[int, int, int, int | None]:
    """Groups, contributions per cell, contributions in all, cells; what a unit has in a cell may count once."""
    summed = quantity.per == "unit_cell" and quantity.kind in ("nonnull", "balance", "sum", "square")
    if summed or quantity.kind == "units":
        return limits.groups, 1, limits.groups, limits.cells
    if limits.rows_per_group is None or limits.rows is None:
        raise ValueError("nothing bounds how many rows one unit has in a group: give max_rows_per_group or max_rows")
    return limits.groups, limits.rows_per_group, limits.rows, limits.cells


@lru_cache(maxsize=4096)  # the steps of a plan have few different limits
def _of(
    groups: int, per_group: int, rows: int, cells: int | None, most: int, least: int, neighboring: Neighboring
) -> Sensitivity:
    """The sensitivity for g, r, t, number of cells, p, q."""
    if not most:
        return Sensitivity.of_shifts()
    full, rest = divmod(rows, per_group)
    if neighboring is Neighboring.ADD_REMOVE:
        squares = full * per_group**2 + rest**2
        return Sensitivity(
            l0=groups,
            l1=Fraction(rows * most),
            l2_squared=Fraction(squares * most**2),
            linf=Fraction(per_group * most),
            shifts=_few(tuple(most * n for n in profile) for profile in _profiles(groups, per_group, rows)),
        )
    room = 2 * groups if cells is None else min(cells, 2 * groups)
    ways = [
        [(count, most * more + least * fewer) for more, fewer, count in way]
        for way in _meetings(full, rest, per_group, room)
    ]
    return Sensitivity(
        l0=room,
        l1=Fraction(max(sum(n * change for n, change in way) for way in ways)),
        l2_squared=Fraction(max(sum(n * change**2 for n, change in way) for way in ways)),
        linf=Fraction(per_group * (most + least)),
        shifts=_few(_exchanges(groups, per_group, rows, room, most, least)),
    )


def _meetings(full: int, rest: int, per_group: int, room: int) -> Iterator[list[tuple[int, int, int]]]:
    """Every way in which two units, each with ``full`` full cells and one of ``rest`` rows, can lie in ``room`` cells.

    A way lists (rows of the unit that has more, rows of the other one, number of such cells). The number of cells in
    which both are full enters linearly, so that its least and its largest value are enough.
    """
    r, s = per_group, rest
    # Of the rests: the cells that hold one, and how many full cells of the one and the other unit they take up.
    ways: list[tuple[list[tuple[int, int, int]], int, int]] = [([], 0, 0)]
    if rest:
        ways = [([(s, 0, 2)], 0, 0), ([(s, s, 1)], 0, 0), ([(r, s, 1), (s, 0, 1)], 1, 0), ([(r, s, 2)], 1, 1)]
    for rests, mine, yours in ways:
        left, other = full - mine, full - yours
        taken = sum(count for *_, count in rests)
        fewest = max(0, left + other + taken - room)
        if min(left, other) >= fewest:
            for both in {fewest, min(left, other)}:
                yield [*rests, (r, r, both), (r, 0, left + other - 2 * both)]


def _profiles(groups: int, per_group: int, rows: int) -> Iterator[Shift]:
    """Every way to fill the cells of a unit that has all of its rows: the others are below one of these.

    A unit with fewer than ``rows <= groups * per_group`` rows has room for one more in some cell.
    """
    if rows == groups * per_group:
        yield (per_group,) * min(groups, _MOST_ALONE + 1)
    elif rows <= _MOST_NUMBERS * per_group:
        yield from _partitions(rows, groups, per_group)
    else:
        yield (1,) * (_MOST_ALONE + 1)  # too long to be listed


def _partitions(rows: int, groups: int, most: int) -> Iterator[Shift]:
    """``rows`` as a sum of at most ``groups`` numbers from 1 to ``most``, falling."""
    for first in range(min(rows, most), -(-rows // groups) - 1, -1):
        for others in _partitions(rows - first, groups - 1, first) if rows > first else ((),):
            yield (first, *others)


def _exchanges(groups: int, per_group: int, rows: int, room: int, most: int, least: int) -> Iterator[Shift]:
    """Changes that cover every change by a replaced unit.

    Rows and cells that are added to a unit never lower what any cell can change by, so that units with all of their
    rows are enough; in full cells it is only their number in common that counts, and the fewest where ``least`` is 0.
    """
    if rows == groups * per_group:
        fewest = 2 * groups - room
        for both in range(fewest, (groups if least else fewest) + 1):
            full = (per_group * (most + least),) * min(both, _MOST_ALONE + 1)
            yield full + (per_group * most,) * min(2 * (groups - both), _MOST_ALONE + 1)
    elif rows > _MOST_PAIRED:
        yield (1,) * (_MOST_ALONE + 1)  # too many ways to be listed
    else:
        profiles = list(_profiles(groups, per_group, rows))
        for mine, yours in combinations_with_replacement(profiles, 2):
            for pairs in _matched(mine, yours):
                if len(pairs) <= room:
                    yield tuple(most * max(pair) + least * min(pair) for pair in pairs)


def _matched(mine: Shift, yours: Shift) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every way in which the cells of two units coincide: pairs of rows, 0 where the other one is not there."""
    if not mine:
        yield tuple((0, n) for n in yours)
        return
    for others in _matched(mine[1:], yours):
        yield ((mine[0], 0), *others)
    for at, met in enumerate(yours):
        for others in _matched(mine[1:], yours[:at] + yours[at + 1 :]):
            yield ((mine[0], met), *others)


def _few(shifts: Iterable[Shift]) -> tuple[Shift, ...]:
    """Those that no other one covers, if they are few; else nothing, which claims nothing."""
    different: set[Shift] = set()
    for shift in shifts:
        different.add(tuple(sorted(shift, reverse=True)))
        longest = _MOST_NUMBERS if len(different) > 1 else _MOST_ALONE
        if any(len(each) > longest for each in different) or len(different) > 8 * _MOST_SHIFTS:
            return ()
    worst = Sensitivity.of_shifts(*different).shifts
    return worst if len(worst) <= _MOST_SHIFTS else ()


def _quantile(limits: tuple[int, int, int, int | None], at: Fraction, replace: bool) -> tuple[int, Fraction]:
    """Rounds and spread of a quantile in every cell; proofs in docs/proofs/unit-sensitivity.md, section 5.

    With n values in a cell score(x) = max(u, w, 0), u = #{< x} - at n, w = #{> x} - (1 - at) n. One value more
    changes the score at x by ``at`` and that at x' by ``-at``, or by ``1 - at`` and ``at - 1``, at the utmost: the
    changes differ by ``rate`` = 2 max(at, 1 - at); for a minimum or maximum u or w is never positive, and they differ
    by at most 1. r values more: r times that. r values of one cell exchanged for others: 2 r, or r at the ends.

    A unit that is replaced changes at most ``room`` cells, each by itself; or g pairs of a cell that is left and one
    that is entered. What costs less in all is claimed. Draws in different cells are independent, so that cells whose
    changes differ by s and s' cost what one draw costs where they differ by s + s'.
    """
    groups, per_group, rows, cells = limits
    inner = 0 < at < 1
    rate = 2 * max(at, 1 - at) if inner else Fraction(1)
    if not replace:
        return _packed(groups, rate * rows, rate * per_group)
    room = 2 * groups if cells is None else min(cells, 2 * groups)
    alone = _packed(room, 2 * rate * rows, Fraction(2 * per_group if inner else per_group))
    paired = _packed(groups, 2 * rate * rows, 2 * rate * per_group)
    return min(paired, alone, key=lambda claim: (claim[0] * claim[1], claim[1]))


def _packed(rounds: int, total: Fraction, spread: Fraction) -> tuple[int, Fraction]:
    """At most so many rounds of that spread for cells that spread by ``total`` together.

    Cells that fit into one round are taken together until no two rounds do: then any two of b >= 2 rounds hold more
    than one spread, all of them more than b spread / 2, and b < 2 total / spread.
    """
    return min(rounds, max(1, ceil(2 * total / spread) - 1)), spread


def _scores(rounds: int, spread: Fraction) -> tuple[int, Fraction, Sensitivity]:
    norms = Sensitivity(l0=rounds, l1=rounds * spread, l2_squared=rounds * spread**2, linf=spread)
    return rounds, spread, norms
