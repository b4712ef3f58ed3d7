"""What a mechanism is, and what a measurement holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dprelease.canonical import dumps, sha256
from dprelease.errors import BrokenPromiseError, Corrupt
from dprelease.noise.exact import Exact, ExactKeys, Key
from dprelease.noise.sampler import Sampler
from dprelease.privacy.event import Event, Sensitivity

__all__ = ["JointMechanism", "KeySelector", "Law", "Measurement", "Mechanism", "TablesMechanism"]

Integers = npt.NDArray[np.int64]


class Law(Protocol):
    """The public distribution of the noise on one cell, in grid steps."""

    @property
    def variance(self) -> float:
        """Its variance."""
        ...

    def margin(self, confidence: Fraction) -> float:
        """The smallest m with P(|noise| <= m) >= confidence; of one draw a whole number."""
        ...


class Mechanism(Protocol):
    """A rule that hides exact integers behind integer noise."""

    @property
    def name(self) -> str:
        """Its name in a plan."""
        ...

    def event(self, scale: Fraction, sensitivity: Sensitivity) -> Event:
        """What it costs."""
        ...

    def law(self, scale: Fraction) -> Law:
        """The distribution of its noise."""
        ...

    def draw(self, exact: Exact, scale: Fraction, sampler: Sampler = "native") -> Integers:
        """Noisy values, one fresh draw per cell from operating-system entropy."""
        ...


class JointMechanism(Protocol):
    """A rule that hides k exact integers of one cell behind one draw of a vector of k integers."""

    @property
    def name(self) -> str:
        """Its name in a plan."""
        ...

    def event(self, scale: Fraction, dimension: int, gauge: Fraction) -> Event:
        """What it costs, when one unit changes the cells by ``gauge`` in its norm, summed over cells."""
        ...

    def law(self, scale: Fraction, dimension: int) -> Law:
        """The distribution of the noise on one of the k values of a cell."""
        ...

    def draw_joint(self, exacts: Sequence[Exact], scale: Fraction) -> tuple[Integers, ...]:
        """Noisy values of k quantities, each ``(cells,)``; one fresh vector per cell, from the operating system."""
        ...


class TablesMechanism(Protocol):
    """A rule that hides several tables of counts of the same rows behind one draw."""

    @property
    def name(self) -> str:
        """Its name in a plan."""
        ...

    def event(self, scale: Fraction, gauge: Fraction) -> Event:
        """What it costs, when one unit changes all tables together by ``gauge`` in its norm."""
        ...

    def law(self, scale: Fraction, sizes: tuple[int, ...]) -> Law:
        """The distribution of the noise on tables with so many cells."""
        ...

    def draw_tables(self, exacts: Sequence[Exact], scale: Fraction) -> tuple[Integers, ...]:
        """Noisy tables, each ``(cells,)``; one fresh draw for all of them, from the operating system."""
        ...


class KeySelector(Protocol):
    """A rule that says which of the keys that occur may be shown: a noisy count and a threshold."""

    @property
    def name(self) -> str:
        """Its name in a plan."""
        ...

    def draw(
        self, keys: ExactKeys, scale: Fraction, threshold: int, sampler: Sampler = "native"
    ) -> tuple[tuple[Key, ...], ...]:
        """The selected keys, in the order of their text."""
        ...


@dataclass(frozen=True, eq=False)
class Measurement:
    """What one step returned: noisy integers on its grid. Safe to keep, to hand on and to publish.

    Attributes:
        step: The id of the step.
        values: One noisy integer per cell, shape ``(cells,)``, ``int64``, read-only.
        keys: For a selection the selected keys, each a tuple of plain ``bool``, ``int`` and ``str``; ``values`` then
            tells nothing. For every other step None.

    Raises:
        BrokenPromiseError: If a key is of another type.
    """

    step: str
    values: Integers
    keys: tuple[tuple[Key, ...], ...] | None = None

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.int64)
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        if self.keys is not None:
            keys = tuple(tuple(key) for key in self.keys)
            if not all(type(part) in {bool, int, str} for key in keys for part in key):
                raise BrokenPromiseError(f"a key of the step {self.step} is not of plain booleans, integers and texts")
            object.__setattr__(self, "keys", keys)

    def to_bytes(self) -> bytes:
        """One line of canonical JSON, then the cells as little-endian 64-bit integers.

        Format 1 has no keys, format 2 has; a text that is not valid Unicode is written as it is found, because
        nothing may fail here.
        """
        facts = {"cells": len(self.values), "format": 1, "step": self.step}
        head = dumps(facts if self.keys is None else {**facts, "format": 2, "keys": self.keys})
        return head.encode("utf-8", "surrogatepass") + b"\n" + self.values.astype("<i8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Measurement:
        """Read back what :meth:`to_bytes` wrote.

        Raises:
            Corrupt: If the bytes are not a whole measurement.
        """
        head, _, body = data.partition(b"\n")
        try:
            facts = json.loads(head.decode("utf-8", "surrogatepass"))
            whole = facts["format"] in {1, 2} and len(body) == 8 * facts["cells"]
            keys = _keys(facts["keys"]) if facts["format"] == 2 else None
        except (ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            raise Corrupt("a stored measurement is not whole", hint="restore the ledger from its backup")
        return cls(step=facts["step"], values=np.frombuffer(body, dtype="<i8").astype(np.int64), keys=keys)

    @property
    def digest(self) -> str:
        """SHA-256 of its bytes."""
        return sha256(self.to_bytes())


def _keys(stored: list[list[Key]]) -> tuple[tuple[Key, ...], ...]:
    """Keys as they were written.

    Raises:
        TypeError: If they are not lists of plain values.
    """
    if not all(type(key) is list and all(type(part) in {bool, int, str} for part in key) for key in stored):
        raise TypeError("keys are lists of booleans, integers and texts")
    return tuple(tuple(key) for key in stored)
