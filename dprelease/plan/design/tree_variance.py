"""How precisely least squares knows the nodes of a hierarchy, when every level is measured: without any data.

Each node of a level gets one unbiased measurement of precision w (1 / variance), the same at all nodes of the level,
and a node is the sum of its children. Two passes over the tree give the variance of the best linear unbiased estimate
(Hay, Rastogi, Miklau and Suciu, VLDB 2010, for w equal everywhere; the general form is a Kalman smoother on the tree):

* up: ``a = 1 / (w + 1 / Q)`` is the variance from what lies at and below a node, ``Q`` the sum of a over its children
  (no such term at the lowest level);
* down: ``P = a`` at the top; below, ``P = a (1 - a / Q) + (a / Q)^2 P'`` with Q and P' of the parent: the children are
  independent given their sum, and that sum has variance P'.

Nodes with equal trees below and equal paths above have equal variances, so that a pass runs over *classes* of nodes:
a few, unless every node has another number of children. Several measurements of independent parts (residuals) of a
level pass at once, one column each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.design import Tree

__all__ = ["TreeShape", "mean_variances", "slopes"]

Reals = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

_BLOCK = 2**18  # entries of one array of a pass: columns pass in blocks, which bounds memory


@dataclass(frozen=True, eq=False)
class TreeShape:
    """The classes of nodes of a tree.

    Attributes:
        counts: For every level, how many nodes each class has, shape (classes,).
        parents: For level 1, 2, ...: the class of the parent, shape (classes,).
        each: For level 1, 2, ...: how many nodes of the class every node of the parent's class has.
        starts: For level 1, 2, ...: the first class with each parent; classes with one parent are neighbors.
    """

    counts: tuple[Reals, ...]
    parents: tuple[Whole, ...]
    each: tuple[Reals, ...]
    starts: tuple[Whole, ...]

    @property
    def classes(self) -> int:
        """The largest number of classes of a level."""
        return max(len(count) for count in self.counts)

    @classmethod
    def of(cls, tree: Tree) -> TreeShape:
        """The classes of a tree, exactly."""
        below = _trees_below(tree)
        inside: Whole = below[0]  # the class of every node of the level
        _, inside, counts = np.unique(inside, return_inverse=True, return_counts=True)
        found = [counts]
        parents, each = [], []
        for parent, types in zip(tree.parents, below[1:], strict=True):
            code = inside[parent] * (int(types.max()) + 1) + types
            first, inside, counts = np.unique(code, return_inverse=True, return_counts=True)
            parents.append(first // (int(types.max()) + 1))
            each.append(counts / found[-1][parents[-1]])
            found.append(counts)
        starts = tuple(np.flatnonzero(np.diff(row, prepend=-1)) for row in parents)
        return cls(tuple(count.astype(np.float64) for count in found), tuple(parents), tuple(each), starts)

    @classmethod
    def average(cls, tree: Tree) -> TreeShape:
        """One class per level, each node with the average number of children: for searches, not for claims."""
        sizes = np.array(tree.sizes, dtype=np.float64)
        zero = np.zeros(1, dtype=np.int64)
        return cls(
            tuple(sizes[i : i + 1] for i in range(len(sizes))),
            (zero,) * (len(sizes) - 1),
            tuple(sizes[i + 1 : i + 2] / sizes[i] for i in range(len(sizes) - 1)),
            (zero,) * (len(sizes) - 1),
        )


def mean_variances(shape: TreeShape, precisions: Reals) -> Reals:
    """The mean over the nodes of a level of the variance of the least-squares estimate.

    Args:
        shape: The tree.
        precisions: The precisions of the measurement of one node, shape (levels, columns); 0 where a level is not
        measured.

    Returns:
        Shape (levels, columns); infinite where not every node of the level is determined.
    """
    out = np.empty_like(precisions)
    step = max(1, _BLOCK // shape.classes)
    for start in range(0, precisions.shape[1], step):
        at = slice(start, start + step)
        with np.errstate(divide="ignore", invalid="ignore"):
            up, sums = _up(shape, precisions[:, at])
            for level, each in enumerate(_down(shape, up, sums)):
                out[level, at] = shape.counts[level] @ each / shape.counts[level].sum()
    return out


def slopes(shape: TreeShape, precisions: Reals, weights: Reals) -> tuple[Reals, Reals]:
    """The weighted sum of :func:`mean_variances` over the levels, and how fast it falls with each precision.

    The passes run backwards (reverse differentiation), so that all slopes cost about one more evaluation. By
    homogeneity ``sum_l precision_l slope_l = value``.

    Args:
        shape: The tree.
        precisions: Shape (levels, columns), all above 0.
        weights: Shape (levels, columns), at least 0.

    Returns:
        The values, shape (columns,), and minus their derivatives by the precisions, shape (levels, columns).
    """
    values, falls = np.empty(precisions.shape[1]), np.empty_like(precisions)
    step = max(1, _BLOCK // shape.classes)
    for start in range(0, precisions.shape[1], step):
        at = slice(start, start + step)
        values[at], falls[:, at] = _slopes(shape, precisions[:, at], weights[:, at])
    return values, falls


def _up(shape: TreeShape, w: Reals) -> tuple[list[Reals], list[Reals]]:
    """Per level the variance from at and below a node, and per level but the last the sum of it over the children."""
    levels = len(shape.counts)
    up: list[Reals] = [np.empty(0)] * levels
    sums: list[Reals] = [np.empty(0)] * (levels - 1)
    up[-1] = np.broadcast_to(1 / w[-1], (len(shape.counts[-1]), w.shape[1]))
    for level in range(levels - 2, -1, -1):
        sums[level] = _over_children(shape, level, shape.each[level][:, None] * up[level + 1])
        up[level] = 1 / (w[level] + 1 / sums[level])
    return up, sums


def _over_children(shape: TreeShape, level: int, values: Reals) -> Reals:
    """The sum over the child classes of every class of a level."""
    return np.asarray(np.add.reduceat(values, shape.starts[level], axis=0), dtype=np.float64)


def _down(shape: TreeShape, up: list[Reals], sums: list[Reals]) -> list[Reals]:
    found = [up[0]]
    for level, parents in enumerate(shape.parents):
        a, q, above = up[level + 1], sums[level][parents], found[-1][parents]
        ratio = a / q
        variance = a * (1 - ratio) + ratio * ratio * above
        if np.isinf(a).any():
            variance = np.where(np.isinf(q), _partly(shape, level, a, above), variance)
        found.append(variance)
    return found


def _partly(shape: TreeShape, level: int, a: Reals, above: Reals) -> Reals:
    """The same where a child is not measured: it is determined only if it is the one such child of its parent."""
    each, parents = shape.each[level][:, None], shape.parents[level]
    missing = _over_children(shape, level, np.where(np.isinf(a), each, 0.0))[parents]
    others = _over_children(shape, level, np.where(np.isinf(a), 0.0, each * a))[parents]
    return np.where(np.isinf(a), np.where(missing == 1, above + others, np.inf), a)


def _slopes(shape: TreeShape, w: Reals, weights: Reals) -> tuple[Reals, Reals]:
    up, sums = _up(shape, w)
    down = _down(shape, up, sums)
    levels = len(up)
    # Derivatives of the value by P, then by a and by Q, from the lowest level to the top.
    by_p = [np.outer(n / n.sum(), weights[level]) for level, n in enumerate(shape.counts)]
    value = np.sum([np.sum(d * p, axis=0) for d, p in zip(by_p, down, strict=True)], axis=0)
    by_a: list[Reals] = [np.empty(0)] * levels
    by_q: list[Reals] = [np.empty(0)] * (levels - 1)
    for level in range(levels - 1, 0, -1):
        parents = shape.parents[level - 1]
        a, q, above = up[level], sums[level - 1][parents], down[level - 1][parents]
        ratio, part = a / q, by_p[level]
        by_a[level] = part * (1 - 2 * ratio + 2 * ratio * above / q)
        by_q[level - 1] = _over_children(shape, level - 1, part * ratio * ratio * (1 - 2 * above / q))
        by_p[level - 1] = by_p[level - 1] + _over_children(shape, level - 1, part * ratio * ratio)
    by_a[0] = by_p[0]
    # Up the tree: a = 1 / (w + 1 / Q), so da/dw = -a^2 and da/dQ = a^2 / Q^2.
    falls = np.empty_like(w)
    for level in range(levels):
        square = by_a[level] * up[level] ** 2
        falls[level] = square.sum(axis=0)
        if level < levels - 1:
            into = by_q[level] + square / sums[level] ** 2
            by_a[level + 1] = by_a[level + 1] + shape.each[level][:, None] * into[shape.parents[level]]
    return value, falls


def _trees_below(tree: Tree) -> list[Whole]:
    """For every level, equal numbers for nodes with equal trees below them."""
    types = [np.zeros(tree.sizes[-1], dtype=np.int64)]
    for level in range(tree.levels - 1, 0, -1):
        parent = tree.parents[level - 1]
        children = np.bincount(parent, minlength=tree.sizes[level - 1])
        if not types[0].any():  # all alike: only how many matters
            types.insert(0, np.unique(children, return_inverse=True)[1])
            continue
        ordered = types[0][np.lexsort((types[0], parent))]
        ends = np.cumsum(children)
        seen: dict[bytes, int] = {}
        rows = [ordered[end - n : end].tobytes() for end, n in zip(ends.tolist(), children.tolist(), strict=True)]
        types.insert(0, np.array([seen.setdefault(row, len(seen)) for row in rows], dtype=np.int64))
    return types
