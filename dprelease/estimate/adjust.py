"""What ``postprocess`` asks for beyond consistency: non-negative tables, tables in whole numbers, or both.

Whole numbers add up and have no bias: every number goes up or down to a next one.

>>> country = Tree(1, (np.array([0, 0, 0]),))
>>> top, states = whole(country, np.array([[1.5, 0.0], [2.5, 0.25], [3.0, 1.75]]), bytes(32))
>>> top.tolist() == states.sum(axis=0, keepdims=True).tolist(), int(top.sum())
(True, 9)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import shake_256

import numpy as np
import numpy.typing as npt

from dprelease.errors import PlanError
from dprelease.estimate.workloads.blocks import Blocks
from dprelease.estimate.workloads.conditional import exact_tables, saying_all
from dprelease.estimate.workloads.design import Axes, Design, Floats, Table, Tree, Whole
from dprelease.estimate.workloads.nonnegative import joint_set, marginals, nonnegative

__all__ = ["adjusted", "whole"]


def adjusted(
    design: Design,
    tables: Mapping[Table, Floats],
    *,
    non_negative: bool,
    integer: bool,
    key: bytes = bytes(32),
) -> dict[Table, npt.NDArray[np.generic]]:
    """Reconciled tables made non-negative, or whole, or first the one and then the other; they stay consistent.

    Exact tables stay as they are where one of them says all others.

    Args:
        design: What is published and what was drawn.
        tables: Every published table, as reconciled.
        non_negative: Whether numbers below 0 are not allowed.
        integer: Whether only whole numbers are.
        key: The key of the rounding: 32 bytes that the measurements of the workload fix.

    Returns:
        By (level, set) as given; float64, or int64 where they are whole.

    Raises:
        PlanError: DPR-P161, if no published set contains all others.
        ValueError: If no exact table says all other ones; no plan asks for it.
    """
    if not (non_negative or integer):
        return dict(tables)
    largest = joint_set(design.sets)
    if largest is None:
        raise PlanError(
            "no published marginal contains all others, so that they cannot be made non-negative or whole together",
            detail="consistent non-negative whole numbers near the estimates need not exist without the joint table",
            hint="publish the marginal of all attributes, or leave `nonnegative` and `integer` out of `postprocess`",
            code="DPR-P161",
        )
    exact = exact_tables(design)
    kept = saying_all(exact)
    if exact and kept is None:
        raise ValueError("no exact table says all others, so that they do not stay exact")
    joint = [tables[level, largest] for level in range(design.tree.levels)]
    if non_negative:
        joint = list(nonnegative(design, joint))
    if integer:
        lowest, axes = (None, ()) if kept is None else (kept[0], tuple(largest.index(axis) for axis in kept[1]))
        return marginals(design.sets, whole(design.tree, joint[-1], key, lowest, axes))
    found = marginals(design.sets, joint)
    for level, axes in found:
        if kept is not None and level <= kept[0] and set(axes) <= set(kept[1]):
            found[level, axes] = np.rint(found[level, axes])  # whole, but for the rounding of floats
    return found


_CELLS = 2**20  # that are worked on at a time


def whole(tree: Tree, finest: Floats, key: bytes, kept: int | None = None, axes: Axes = ()) -> tuple[Whole, ...]:
    """The joint tables of all levels, rounded from the top down to whole numbers that add up.

    Every number becomes one of its two neighbours (a whole one stays), so that it moves by less than 1. In every cell
    the children add up to their parent. Nothing has bias: the mean of each result over all keys is the number itself.

    At the top a table is rounded by systematic sampling (Madow 1949): with one offset U, uniform on [0, 1), a number
    goes up where the running sum of the fractions plus U passes a whole number; it does so with a probability of its
    fraction, and every run of cells, the total among them, moves by less than 1 (a run inside the table: 2).

    Below, the children of a parent are halved, the halves halved and so on, and each time a number P = L + R, whose
    whole number M is known, is told apart. With the fractions f and g of L and R, M less the two whole parts is 0, 1 or
    2. At 0 neither goes up, at 2 both. At 1 one of them does, L with the probability ``q = f / (f + g)`` where
    ``f + g < 1``, else ``q = (1 - g) / (2 - f - g)``. Without bias in M, that is ``(f + g) q = f`` or
    ``(f + g - 1) + (2 - f - g) q = f``: none in L. Systematic sampling over the cells of the table decides, so that the
    total of L moves by less than 1 from its mean given the numbers above it. How far totals move in all is in
    ``docs/measures/workloads.md``.

    The offsets are SHAKE-256 of the key: the same key gives the same tables. It is rounding after the noise and hides
    nothing, so that the key may be known to everybody.

    Args:
        tree: The hierarchy.
        finest: The joint table of the lowest level, shape ``(nodes, *keys)``, below 2^52; negative numbers will do.
        key: 32 bytes; another one for every table: the fingerprint of what it is made of.
        kept: The lowest level whose totals are whole already, but for the rounding of floats, and stay: every node of
            it is rounded as a top by itself, and the levels above are sums, which move by more than 1 in a cell.
        axes: Positions of attributes among the keys: not only the totals of ``kept`` are whole and stay, but the table
            of these. The cells of each of its keys are then rounded as a hierarchy by themselves.

    Returns:
        For every level, shape ``(nodes, *keys)``.

    Raises:
        ValueError: If the key has another length.
    """
    if len(key) != 32:
        raise ValueError("the key of the rounding has 32 bytes")
    if axes:
        return _by_block(tree, finest, key, kept, Blocks(finest.shape[1:], axes))
    if kept:
        below = whole(Tree(tree.sizes[kept], tree.parents[kept:]), finest, key, 0)
        return (*_above(tree, below[0], kept), *below)
    halvings: list[list[_Halving]] = []
    numbers = finest.reshape(len(finest), -1)
    for parents in reversed(tree.parents):
        steps, numbers = _halved(numbers, parents)
        halvings.append(steps)
    made = [_systematic(numbers, _offsets(key, "top", len(numbers)))]
    if kept is not None:
        _keep_totals(made[0], numbers)
    for level, steps in enumerate(reversed(halvings), 1):
        found = made[-1]
        for place, step in enumerate(reversed(steps)):
            found = step.apart(found, _offsets(key, f"{level}.{place}", len(step.pairs)))
        made.append(found)
    return tuple(found.reshape(len(found), *finest.shape[1:]) for found in made)


def _by_block(tree: Tree, finest: Floats, key: bytes, kept: int | None, blocks: Blocks) -> tuple[Whole, ...]:
    """Every block of cells by itself: as many hierarchies side by side, each with the cells of a block as its table."""
    count, keys = blocks.count, finest.shape[1:]
    parts = np.moveaxis(blocks.apart(finest.reshape(len(finest), -1)), 1, 0).reshape(count * len(finest), -1)
    which = np.arange(count)[:, None]
    parents = tuple((which * above + each).ravel() for above, each in zip(tree.sizes, tree.parents, strict=False))
    found = whole(Tree(count * tree.roots, parents), parts, key, kept)
    apart = (np.moveaxis(each.reshape(count, -1, each.shape[1]), 0, 1) for each in found)
    return tuple(blocks.together(each).reshape(len(each), *keys) for each in apart)


def _above(tree: Tree, table: Whole, level: int) -> list[Whole]:
    """The tables of the levels above one, as sums of its table; the top first."""
    found: list[Whole] = []
    for at in range(level, 0, -1):
        total = np.zeros((tree.sizes[at - 1], *table.shape[1:]), dtype=np.int64)
        np.add.at(total, tree.parents[at - 1], table)
        found.insert(0, total)
        table = total
    return found


def _keep_totals(made: Whole, numbers: Floats) -> None:
    """Let every row of ``made`` add up to the total of its numbers, which is whole but for the rounding of floats.

    A running sum of floats can pass a whole number a cell too early or too late: with a probability of the size of its
    error the last one is wrong by one. There the cell that was nearest to going the other way goes it.
    """
    wanted = np.rint(numbers.sum(axis=1)).astype(np.int64)
    for row in np.flatnonzero(made.sum(axis=1) != wanted).tolist():
        fractions = numbers[row] - np.floor(numbers[row])
        up = made[row] > np.floor(numbers[row])
        missing = int(wanted[row] - made[row].sum())
        can = np.flatnonzero((fractions > 0) & (up if missing < 0 else ~up))
        nearest = can[np.argsort(fractions[can] if missing < 0 else -fractions[can], kind="stable")][: abs(missing)]
        made[row, nearest] += 1 if missing > 0 else -1


@dataclass(frozen=True, eq=False)
class _Halving:
    """Neighbours added up by pairs.

    Attributes:
        numbers: Before, shape ``(nodes, cells)``.
        order: Where each of them, sorted by parent, is in ``numbers``; None: in that order.
        first: Which sorted nodes begin a pair or stand alone, shape ``(sums,)``.
        pairs: Which sums have two nodes.
    """

    numbers: Floats
    order: Whole | None
    first: Whole
    pairs: Whole

    def apart(self, sums: Whole, offsets: Floats) -> Whole:
        """The whole numbers of the nodes, given those of the sums."""
        places = self.first if self.order is None else self.order[self.first]
        partner = self.first[self.pairs] + 1
        partners = partner if self.order is None else self.order[partner]
        found = np.empty(self.numbers.shape, dtype=np.int64)
        found[places] = sums
        step = max(1, _CELLS // sums.shape[1])
        for start in range(0, len(self.pairs), step):
            some = slice(start, start + step)
            left, right, both = places[self.pairs[some]], partners[some], self.pairs[some]
            running = offsets[some].copy()
            for cells in _pieces(sums.shape[1]):
                known = sums[both, cells]
                lefts = _left(self.numbers[left, cells], self.numbers[right, cells], known, running)
                found[left, cells] = lefts
                found[right, cells] = known - lefts
        return found


def _halved(numbers: Floats, parents: Whole) -> tuple[list[_Halving], Floats]:
    """Pairs of children added up until every parent has one number, and these."""
    rising = bool((parents[1:] >= parents[:-1]).all())
    order = None if rising else np.argsort(parents, kind="stable")
    of = parents if order is None else parents[order]
    steps: list[_Halving] = []
    while True:
        starts = np.flatnonzero(np.diff(of, prepend=-1))
        if len(starts) == len(of) and order is None:
            return steps, numbers
        place = np.arange(len(of)) - np.repeat(starts, np.diff(starts, append=len(of)))
        first = np.flatnonzero(place % 2 == 0)
        pairs = np.flatnonzero(np.diff(first, append=len(of)) == 2)
        added = numbers[first if order is None else order[first]]
        seconds = first[pairs] + 1
        added[pairs] += numbers[seconds if order is None else order[seconds]]
        steps.append(_Halving(numbers, order, first, pairs))
        numbers, of, order = added, of[first], None


def _left(left: Floats, right: Floats, sums: Whole, running: Floats) -> Whole:
    """The whole numbers of the left halves, given those of the sums; as told in :func:`whole`."""
    low, least = np.floor(left), np.floor(right)
    f, g = left - low, right - least
    extra = sums - low.astype(np.int64) - least.astype(np.int64)
    above, under = f + g, 2 - f - g
    few = above < 1
    q = np.where(few, f, 1 - g) / np.maximum(np.where(few, above, under), np.finfo(np.float64).tiny)
    up = _chosen(np.where(extra == 1, q, 0), running)
    up[extra > 1] = 1
    return np.asarray(low.astype(np.int64) + up)


def _systematic(numbers: Floats, running: Floats) -> Whole:
    """Every row rounded by systematic sampling, from its offset."""
    found = np.empty(numbers.shape, dtype=np.int64)
    for cells in _pieces(numbers.shape[1]):
        low = np.floor(numbers[:, cells])
        found[:, cells] = low.astype(np.int64) + _chosen(numbers[:, cells] - low, running)
    return found


def _chosen(chances: Floats, running: Floats) -> Whole:
    """1 with each chance, else 0: where the running sum of a row passes a whole number; the sum is carried on."""
    sums = np.cumsum(chances, axis=1)
    sums += running[:, None]
    found = np.diff(np.floor(sums), axis=1, prepend=np.floor(running)[:, None])
    running[:] = sums[:, -1]
    np.clip(found, 0, 1, out=found)  # rounding of a running sum cannot say more
    found[chances <= 0] = 0
    found[chances >= 1] = 1
    return found.astype(np.int64)


def _pieces(cells: int) -> Iterator[slice]:
    """Runs of cells that are worked on together."""
    return (slice(start, start + _CELLS) for start in range(0, cells, _CELLS))


def _offsets(key: bytes, label: str, count: int) -> Floats:
    """Numbers on [0, 1), 53 bits each."""
    digest = shake_256(key + label.encode()).digest(8 * count)
    return np.asarray((np.frombuffer(digest, dtype="<u8") >> np.uint64(11)) * 2.0**-53)
