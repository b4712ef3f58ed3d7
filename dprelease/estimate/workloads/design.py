"""What a workload of marginals publishes, and what was drawn for it: the input of the reconciliation.

>>> states = Tree(1, (np.array([0, 0]),))
>>> draws = (WorkloadDraw(0, (), True, 9.0), WorkloadDraw(1, (0, 1), False, 4.0))
>>> design = Design((2, 3), states, ((), (0, 1)), draws)
>>> states.sizes, design.shape(1, (0, 1)), design.closure
((1, 2), (2, 2, 3), ((), (0,), (1,), (0, 1)))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

__all__ = ["Axes", "Design", "Floats", "StructuralZeros", "Table", "Tree", "Whole", "WorkloadDraw", "subsets"]

Axes = tuple[int, ...]
Table = tuple[int, Axes]
"""A published table: its level and its attributes."""
Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


def subsets(axes: Axes) -> tuple[Axes, ...]:
    """All subsets, the smaller ones first."""
    return tuple(found for size in range(len(axes) + 1) for found in combinations(axes, size))


@dataclass(frozen=True, eq=False)
class Tree:
    """The nodes of a hierarchy, level by level from the top; every node above the lowest level has a child.

    Attributes:
        roots: The number of nodes of the top level.
        parents: For each level below the top, the position of every node's parent in the level above; in any order.

    Raises:
        ValueError: If there is no root, a parent is none of the level above, or a node there has no child.
    """

    roots: int
    parents: tuple[Whole, ...] = ()

    def __post_init__(self) -> None:
        above = self.roots
        if above < 1:
            raise ValueError("a hierarchy has at least one node at the top")
        for level, parents in enumerate(self.parents, 1):
            if parents.ndim != 1 or not np.issubdtype(parents.dtype, np.integer):
                raise ValueError(f"the parents of level {level} are one row of whole numbers")
            if len(parents) == 0 or parents.min() < 0 or parents.max() >= above:
                raise ValueError(f"a parent of level {level} is a position below {above}, the nodes of the level above")
            if np.bincount(parents, minlength=above).min() == 0:
                raise ValueError(f"every node of level {level - 1} has a child at level {level}; one has none")
            above = len(parents)

    @classmethod
    def flat(cls) -> Tree:
        """One level with one node: a workload without a hierarchy."""
        return cls(1)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Nodes of every level."""
        return (self.roots, *(len(parents) for parents in self.parents))

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return 1 + len(self.parents)


@dataclass(frozen=True)
class WorkloadDraw:
    """One draw of a workload.

    Attributes:
        level: The level of the hierarchy, 0 at the top.
        axes: The attributes of the table that it reads, rising.
        residual: Whether it is the residual of that table (the table contrasted along each of its axes), or the table
            itself.
        variance: The variance of the noise in one number, in counts squared: of a table as drawn, of a residual before
            it is centred (``s2 / (g m)^2`` of a draw of noise variance s2, grain g, m = product of the sizes of
            ``axes``).
            0: the table is exact.
    """

    level: int
    axes: Axes
    residual: bool
    variance: float


@dataclass(frozen=True)
class StructuralZeros:
    """Key combinations that no row can have: in every table with all of these attributes their cells are 0.

    Attributes:
        axes: The attributes, rising; at least one.
        cells: The positions of the combinations in the table of these attributes, row-major; rising, at least one.
    """

    axes: Axes
    cells: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Design:
    """A workload and its draws.

    Attributes:
        sizes: The number of public keys of every attribute.
        tree: The hierarchy; :meth:`Tree.flat` without one.
        sets: The published marginals, each rising; every one is published at every level.
        taken: The draws, in the order of their values.
        zeros: What no row can have; None: nothing. Only without a hierarchy.

    Raises:
        ValueError: If a set or the axes of a draw are not rising positions of attributes, a set is there twice, a
            size is below 1, a level is none of the tree's, a variance is negative or not finite, or the zeros are
            beside a hierarchy, or no rising positions.
    """

    sizes: tuple[int, ...]
    tree: Tree
    sets: tuple[Axes, ...]
    taken: tuple[WorkloadDraw, ...]
    zeros: StructuralZeros | None = None

    def __post_init__(self) -> None:
        if any(size < 1 for size in self.sizes):
            raise ValueError("an attribute has at least one key")
        if not self.sets or len(set(self.sets)) != len(self.sets):
            raise ValueError("a workload publishes at least one marginal, and none twice")
        for axes in (*self.sets, *(take.axes for take in self.taken), *([self.zeros.axes] if self.zeros else [])):
            if list(axes) != sorted(set(axes)) or (axes and not 0 <= axes[0] <= axes[-1] < len(self.sizes)):
                raise ValueError(f"a marginal is a rising tuple of positions below {len(self.sizes)}, not {axes}")
        for take in self.taken:
            if not 0 <= take.level < self.tree.levels:
                raise ValueError(f"a draw is at a level from 0 to {self.tree.levels - 1}, not {take.level}")
            if not (np.isfinite(take.variance) and take.variance >= 0):
                raise ValueError("the variance of a draw is a finite number, at least 0")
        if self.zeros is not None:
            cells, most = self.zeros.cells, prod(self.sizes[i] for i in self.zeros.axes)
            rising = bool(cells) and list(cells) == sorted(set(cells)) and 0 <= cells[0] <= cells[-1] < most
            if self.tree.sizes != (1,) or not self.zeros.axes or not rising:
                raise ValueError("zeros are rising positions of cells of some attributes, and stand beside no levels")

    @cached_property
    def closure(self) -> tuple[Axes, ...]:
        """All subsets of the published sets: the residuals that they are sums of; the smaller ones first."""
        found = {part for axes in self.sets for part in subsets(axes)}
        return tuple(sorted(found, key=lambda axes: (len(axes), axes)))

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every published table, level by level from the top, the sets in their order."""
        return tuple((level, axes) for level in range(self.tree.levels) for axes in self.sets)

    def shape(self, level: int, axes: Axes) -> tuple[int, ...]:
        """The shape of the table of these attributes at this level: nodes first."""
        return (self.tree.sizes[level], *(self.sizes[i] for i in axes))
