"""Joint tables of a workload without negative numbers, from the top of the hierarchy down.

It works where one published set contains all others (:func:`joint_set`): every other table is then a sum of the joint
one, so that all tables stay consistent. Without such a set, consistent tables without negative numbers need not exist
near the estimates, and the caller refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.blocks import Blocks
from dprelease.estimate.workloads.conditional import Conditional, conditionals, exact_tables, saying_all
from dprelease.estimate.workloads.contrast import split_residuals
from dprelease.estimate.workloads.design import Axes, Design, Floats, Table, Whole
from dprelease.estimate.workloads.nearest import Problems
from dprelease.estimate.workloads.projection import onto_simplex, onto_tables
from dprelease.estimate.workloads.zeros import possible_cells

__all__ = ["families", "joint_set", "marginals", "nonnegative"]

_CELLS = 2**20  # of the children that are worked on at a time
_TOLERANCE = 1e-3  # in counts
_MOST, _FEWEST, _WORK = 300, 10, 5 * 10**8  # rounds, and cells x rounds


def joint_set(sets: Sequence[Axes]) -> Axes | None:
    """The published set that contains all others, or None: such a workload can be neither non-negative nor whole."""
    largest = max(sets, key=len)
    return largest if all(set(axes) <= set(largest) for axes in sets) else None


def nonnegative(
    design: Design, joint: Sequence[Floats], *, tolerance: float = _TOLERANCE, rounds: int | None = None
) -> tuple[Floats, ...]:
    """The joint tables of all levels, made non-negative.

    At the top, the nearest table of {x >= 0, the node's total}. Below, for each parent the nearest tables of {x >= 0,
    in every cell the children add up to the parent, the children's totals}, these totals being the nearest ones (by
    squared distance) of {t >= 0, they add up to the parent's total}. A total below 0 at the top becomes 0.

    Where one exact table says all others (:func:`~dprelease.estimate.workloads.conditional.saying_all`), of attributes
    A at a level, it stays: there and above, the sums of every node over the cells of each key of A are its whole
    numbers, in the place of the one total. There are such tables: at the top any that divides each number among the
    cells of its block. Below, for the block of every key of A the numbers of the children and the cells of the parent
    are both parts of one sum, that of the parent, and a table of row sums r and column sums c with one sum s is ``r c /
    s``.

    Near is meant in the metric of the estimates' precision, from the mean that they have given the parent
    (:mod:`~dprelease.estimate.workloads.nearest`, :mod:`~dprelease.estimate.workloads.conditional`): what the draws
    know well moves little. The search starts at the tables that are nearest by squared distance, and a family (all
    children of a parent) keeps these if nothing nearer is found. A family without negative numbers stays as it is, if
    its parent did.

    Totals are kept where they can be, so that they have next to no bias; cells have: a true 0 gains, because its noise
    is cut on one side, and larger cells lose the same in sum, first of all those that share its margins. Clamping at 0
    would let the total gain as well. In a made-up country the one-way tables of the lowest level had 0.91 to 0.98 of
    the estimates' error (by squared distance alone 1.19 to 1.76), in the Census-style example those of all levels 0.81
    to 1.02, once 1.12 (1.08 to 2.07): ``docs/measures/workloads.md``. Margins of the estimates do not describe the
    result. Cells that are 0 by declaration stay 0.

    Args:
        design: What is published and what was drawn.
        joint: For every level the reconciled joint table, shape ``(nodes, *keys)``.
        tolerance: The tolerance of the search, in counts.
        rounds: Of the search in each family, at most; None: 300, or so many that they pass 5 x 10^8 cells in all
            (but 10 at least): 50 where all levels together have 10^7 cells.

    Returns:
        The same shapes. Cells are at least 0 and children add up to their parents, to rounding.

    Raises:
        ValueError: If no set contains all others.
    """
    largest = joint_set(design.sets)
    if largest is None:
        raise ValueError("no published set contains all others")
    if rounds is None:
        rounds = max(_FEWEST, min(_MOST, _WORK // sum(table.size for table in joint)))
    kept, made = saying_all(exact_tables(design)), list[Floats]()
    sizes, inside = tuple(design.sizes[axis] for axis in largest), _inside(design, largest)
    exact = None if kept is None else Blocks(sizes, tuple(largest.index(axis) for axis in kept[1]))
    for level, given in enumerate(conditionals(design, largest)):
        flat = joint[level].reshape(len(joint[level]), -1)
        above = None if level == 0 else _Above(joint[level - 1].reshape(-1, flat.shape[1]), made[-1])
        made.append(np.empty(flat.shape))
        firm = exact is not None and kept is not None and level <= kept[0]
        blocks = exact if firm and exact is not None else Blocks(sizes)
        search = _Search(given, flat, above, made[-1], blocks, firm, tolerance, rounds, inside)
        for parents, children in _groups(design, level, flat.shape[1]):
            search.family(parents, children)
    return tuple(found.reshape(table.shape) for found, table in zip(made, joint, strict=True))


@dataclass(frozen=True, eq=False)
class _Above:
    """The level above: its estimates, and what became of them; shape ``(nodes, cells)``."""

    estimates: Floats
    made: Floats


@dataclass(frozen=True, eq=False)
class _Search:
    """One level; estimates and what is found have the shape ``(nodes, cells)``. Each node of the top is a family.

    Every block of cells has a total: of exact tables the whole number that it is, else the one that is near.
    """

    given: Conditional
    estimates: Floats
    above: _Above | None
    found: Floats
    blocks: Blocks
    firm: bool
    tolerance: float
    rounds: int
    possible: npt.NDArray[np.bool_] | None = None

    def family(self, parents: Whole, children: Whole) -> None:
        """Find what becomes of children; ``parents`` and ``children`` are positions, one line per parent."""
        moves = (self.estimates[children] < 0).any(axis=(1, 2))
        if self.above is not None:
            moves |= (self.above.made[parents] != self.above.estimates[parents]).any(axis=1)
        self.found[children[~moves]] = self.estimates[children[~moves]]
        if self.above is not None and children.shape[1] == 1:
            self.found[children[moves, 0]] = self.above.made[parents[moves]]
        elif moves.any():
            self.found[children[moves]] = self._nearest(parents[moves], children[moves])

    def _nearest(self, parents: Whole, children: Whole) -> Floats:
        estimates, sizes = self.estimates[children], self.given.sizes
        totals = self._by_block(estimates).sum(axis=2)
        cells = None if self.above is None else self._by_block(self.above.made[parents][:, None])[:, 0]
        if self.firm:
            totals = np.maximum(np.rint(totals), 0)
        else:
            totals = np.maximum(totals, 0) if cells is None else onto_simplex(totals, cells.sum(axis=1))
        best = self._feasible(estimates, totals, cells)
        problems = self._problems(estimates, totals, parents, children)
        del estimates  # of one large table every copy counts
        begun = _families_last(best, sizes)
        before = problems.distance(begun)
        found = problems.solved(begun, tolerance=self.tolerance, rounds=self.rounds)
        del begun
        after = self._feasible(np.moveaxis(found.reshape(-1, *children.T.shape), (2, 1), (0, 1)), totals, cells)
        del found
        nearer = problems.distance(_families_last(after, sizes)) < before
        best[nearer] = after[nearer]
        return best

    def _problems(self, estimates: Floats, totals: Floats, parents: Whole, children: Whole) -> Problems:
        """The mean given the parent, and the precision; the estimates may be overwritten."""
        sizes = self.given.sizes
        targets = _families_last(estimates, sizes)
        split_residuals(np.moveaxis(targets.reshape(*sizes, -1), -1, 0))
        if self.above is not None:
            moved = _families_last((self.above.made[parents] - self.above.estimates[parents])[:, None], sizes)
            split_residuals(np.moveaxis(moved.reshape(*sizes, -1), -1, 0))
            shares = self.given.moves(children.T)
            shares *= moved
            targets += shares
        if not self.firm:
            targets[tuple(size - 1 for size in sizes)] = totals.T
        return Problems(targets, self.given.weights(children.T), self.blocks.sums, self.possible)

    def _feasible(self, tables: Floats, totals: Floats, cells: Floats | None) -> Floats:
        """The tables nearest by squared distance, shape ``(parents, children, cells)``."""
        if self.possible is not None:  # however much all numbers of a block are raised, these stay below 0
            tables = np.where(self.possible.reshape(-1), tables, -np.inf)
        parts = self._by_block(tables)
        made = onto_simplex(parts[:, 0], totals[:, 0])[:, None] if cells is None else onto_tables(parts, totals, cells)
        found = made.reshape(len(tables), self.blocks.count, *made.shape[1:])
        return self.blocks.together(np.moveaxis(found, 1, 2))

    def _by_block(self, tables: Floats) -> Floats:
        """From shape ``(parents, children, cells)`` to ``(parents x blocks, children, cells of a block)``."""
        parts = np.moveaxis(self.blocks.apart(tables), 2, 1)
        return parts.reshape(-1, *parts.shape[2:])


def _families_last(tables: Floats, sizes: tuple[int, ...]) -> Floats:
    """The tables in the shape ``(*keys, children, parents)``; not always a copy."""
    return np.ascontiguousarray(np.moveaxis(tables, (0, 1), (2, 1))).reshape(*sizes, *tables.shape[1::-1])


def _groups(design: Design, level: int, cells: int) -> Iterator[tuple[Whole, Whole]]:
    """Families of a level in parts; at the top each node by itself."""
    if level:
        return families(design.tree.parents[level - 1], design.tree.sizes[level - 1], _CELLS // cells)
    nodes, step = np.arange(design.tree.roots), max(1, _CELLS // cells)
    return ((nodes[start : start + step], nodes[start : start + step, None]) for start in range(0, len(nodes), step))


def _inside(design: Design, largest: Axes) -> npt.NDArray[np.bool_] | None:
    """Which cells of the joint table are not 0 by declaration; None: all."""
    return None if design.zeros is None else possible_cells(design, largest)


def marginals(sets: Sequence[Axes], joint: Sequence[npt.NDArray[np.generic]]) -> dict[Table, npt.NDArray[np.generic]]:
    """Every published table as a sum of the joint tables, by (level, set) in the order of a design's tables.

    Args:
        sets: The published sets; one contains all others.
        joint: For every level its table, shape ``(nodes, *keys)``.

    Raises:
        ValueError: If no set contains all others.
    """
    largest = joint_set(sets)
    if largest is None:
        raise ValueError("no published set contains all others")
    found = {}
    for level, table in enumerate(joint):
        for axes in sets:
            gone = tuple(place for place, axis in enumerate(largest, 1) if axis not in axes)
            found[level, axes] = np.asarray(table.sum(axis=gone)) if gone else table
    return found


def families(parents: Whole, above: int, nodes: int) -> Iterator[tuple[Whole, Whole]]:
    """Parents with equally many children, and these, shape ``(parents,)`` and ``(parents, children)``.

    There are at most ``sqrt(2 len(parents))`` different numbers of children. Each group comes in parts of about so
    many nodes, at least one parent.
    """
    order = np.argsort(parents, kind="stable")
    counts = np.bincount(parents, minlength=above)
    starts = np.cumsum(counts) - counts
    for count in np.unique(counts):
        alike, step = np.flatnonzero(counts == count), max(1, nodes // int(count))
        for start in range(0, len(alike), step):
            some = alike[start : start + step]
            yield some, order[starts[some][:, None] + np.arange(count)]
