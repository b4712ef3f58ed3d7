"""The cells of a joint table, put together by the cells of some of its attributes.

>>> import numpy as np
>>> blocks = Blocks((2, 3), (1,))  # each of three keys has a block of two cells
>>> table = np.array([[1, 2, 3, 4, 5, 6]])
>>> blocks.apart(table).tolist()
[[[1, 4], [2, 5], [3, 6]]]
>>> blocks.together(blocks.apart(table)).tolist() == table.tolist()
True
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Blocks"]


@dataclass(frozen=True)
class Blocks:
    """One block of cells for every cell of the table of some attributes; without attributes, all cells.

    Attributes:
        sizes: Keys of the attributes of the joint table, in its order.
        axes: Positions in ``sizes`` of the attributes that the blocks are told apart by, rising.
    """

    sizes: tuple[int, ...]
    axes: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return prod(self.sizes[axis] for axis in self.axes)

    @property
    def sums(self) -> tuple[slice, ...]:
        """Where the residuals of the blocks' sums are in a joint table that ``contrast.split_residuals`` took apart."""
        return tuple(slice(None) if at in self.axes else slice(n - 1, n) for at, n in enumerate(self.sizes))

    def apart(self, tables: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """From shape ``(..., cells)`` to ``(..., blocks, cells of a block)``; a view where it can be one."""
        lead = tables.shape[:-1]
        keys = tables.reshape(*lead, *self.sizes)
        return keys.transpose(*range(len(lead)), *(len(lead) + axis for axis in self._order)).reshape(
            *lead, self.count, prod(self.sizes) // self.count
        )

    def together(self, parts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Undo :meth:`apart`."""
        lead = parts.shape[:-2]
        keys = parts.reshape(*lead, *(self.sizes[axis] for axis in self._order))
        back = np.argsort(self._order, kind="stable")
        return keys.transpose(*range(len(lead)), *(len(lead) + int(at) for at in back)).reshape(*lead, prod(self.sizes))

    @property
    def _order(self) -> tuple[int, ...]:
        return (*self.axes, *(axis for axis in range(len(self.sizes)) if axis not in self.axes))
