"""An engine that reads once for many repetitions: for a comparison with the truth alone (``tuning/utility.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Catalog, Key
from dprelease.engines import Engine
from dprelease.noise import Exact, ExactHistogram

__all__ = ["Box", "Keys", "Listening"]

Box = Exact | ExactHistogram
Keys = tuple[tuple[Key, ...], ...] | None


class Listening:
    """An engine that keeps the boxes which it has handed out, unopened, and hands out the same ones again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._boxes: dict[tuple[Grouping, Keys, Quantity], Box] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def aggregate(
        self,
        catalog: Catalog,
        grouping: Grouping,
        quantities: Sequence[Quantity],
        references: Mapping[str, ReferenceTable],
        secret: bytes,
        keys: Sequence[tuple[Key, ...]] | None = None,
        within: None = None,
    ) -> tuple[Box, ...]:
        """As of the engine; the rows are read once, for every step is measured as a whole."""
        chosen = None if keys is None else tuple(keys)
        missing = [each for each in quantities if (grouping, chosen, each) not in self._boxes]
        if missing:
            exact = self._engine.aggregate(catalog, grouping, missing, references, secret=secret, keys=keys)
            self._boxes.update({(grouping, chosen, each): box for each, box in zip(missing, exact, strict=True)})
        return tuple(self._boxes[grouping, chosen, each] for each in quantities)

    def box(self, grouping: Grouping, keys: Keys, quantity: Quantity) -> Box:
        """A box that was handed out."""
        return self._boxes[grouping, keys, quantity]

    def forget_chosen(self) -> None:
        """Drop the boxes over keys that noise chose: it chooses others next time."""
        self._boxes = {key: box for key, box in self._boxes.items() if key[1] is None}
