"""Many independent draws together: what the composed privacy loss is made of, and the numbers that shape an integral.

Nothing here is random or rounded for certification; ``inversion`` does that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import Any, Literal, NamedTuple

import numpy as np

from dprelease.privacy.theorems.loss_laws import Bell, Family, LossList, Pair, Ramp, Response, Smooth, Staircase, Triple

__all__ = ["CellLaw", "Total", "total_of", "total_of_floats"]

Array = Any  # numpy arrays of float64
Kind = Literal["response", "triple", "staircase", "smooth", "bell", "ramp", "pair", "listed"]


class CellLaw(NamedTuple):
    """One coordinate of one draw: a one-dimensional law.

    Attributes:
        kind: ``response`` (pure; size in ``value``), ``triple`` (K-norm; size in ``value``), ``smooth`` (continuous
            Laplace; size in ``value``), ``ramp`` (bounded range; size in ``value``), ``staircase`` (discrete
            Laplace; scale in ``value``), ``bell`` (discrete Gaussian; scale in ``value``) or ``pair`` (one of two
            randomized responses; the larger size in ``value``) or ``listed`` (losses from ``shift`` times ``value``
            downwards, ``value`` apart).
        value: The size or the scale.
        shift: Whole steps that the coordinate moves; 1 where the size is in ``value``.
        mass: Of a ``triple`` the chance of its largest loss; else 0.
        small: Of a pair the smaller size, at most ``value``.
        alike: Of a pair the probability of the larger one.
        listed: The masses of listed losses, from the largest loss on.
    """

    kind: Kind
    value: Fraction
    shift: int = 1
    mass: Fraction | int = 0
    small: Fraction | int = 0
    alike: Fraction | int = 1
    listed: tuple[float, ...] = ()

    def __hash__(self) -> int:
        """Of what tells most laws apart: a rational is slow to hash, and its two numbers are not."""
        return hash((self.kind, self.value.numerator, self.value.denominator, self.shift))

    @property
    def top(self) -> Fraction:
        """The largest loss; for ``bell``, which has none, the mean loss."""
        if self.kind == "staircase":
            return self.shift / self.value
        if self.kind == "listed":
            return self.shift * self.value
        return self.value if self.kind != "bell" else Fraction(self.shift**2) / (2 * self.value**2)

    @property
    def step(self) -> Fraction | None:
        """All losses are ``top`` plus a multiple of this; None if the law is continuous."""
        if self.kind in ("response", "triple", "listed"):
            return self.value * (2 if self.kind == "response" else 1)
        if self.kind == "staircase":
            return 2 / self.value
        if self.kind == "pair":
            return _gcd(self.value - self.small, 2 * self.small)
        return self.shift / self.value**2 if self.kind == "bell" else None


@dataclass(frozen=True)
class Total:
    """The composed loss ``ref + sum of (L_i - ref_i) + N(0, squared)``.

    Attributes:
        families: The non-Gaussian draws, by shape.
        squared: mu^2 of all continuous Gaussian draws: they compose to one exactly (Dong, Roth and Su 2022,
            Corollary 3.3); its loss is normal with mean mu^2/2 (in ``ref``) and variance mu^2.
        ref: The sum of the draws' reference losses, exact.
        step: All losses are ``ref`` plus a multiple of this; 0 where no such number is useful.
        bounded: Whether ``ref`` is the largest possible loss.
        draws: How many one-dimensional laws were added up.
    """

    families: tuple[Family, ...]
    squared: Fraction
    ref: Fraction
    step: Fraction
    bounded: bool
    draws: int

    @property
    def distinct(self) -> int:
        """How many different laws there are."""
        return sum(len(family.counts) for family in self.families)

    def log_moment(self, theta: float) -> float:
        """``log E exp(theta (L - ref))``."""
        if theta not in self._moments:
            self._moments[theta] = self._log_moment(theta)
        return self._moments[theta]

    def _log_moment(self, theta: float) -> float:
        own = sum(float(family.counts @ family.log_moment(theta)) for family in self.families)
        return own + float(self.squared) * theta * theta / 2

    def slope(self, theta: float) -> float:
        """Its derivative, from the phase at one small frequency."""
        if theta not in self._slopes:
            self._slopes[theta] = self._slope(theta)
        return self._slopes[theta]

    def _slope(self, theta: float) -> float:
        reach = 1e-7 / ((1 + self._longest) * (1 + theta))
        small = np.array([reach])
        own = sum(
            float(family.counts @ np.angle(family.tilted(theta, small)[:, 0])) / reach for family in self.families
        )
        return own + float(self.squared) * theta

    @cached_property
    def _moments(self) -> dict[float, float]:
        """Those that are known: searches for a saddle point take the same path again and again."""
        return {}

    @cached_property
    def _slopes(self) -> dict[float, float]:
        return {}

    @cached_property
    def contours(self) -> dict[Any, Any]:
        """What ``inversion`` keeps of its lines."""
        return {}

    @cached_property
    def _longest(self) -> float:
        return max((_span(family) for family in self.families), default=0.0)


def _span(family: Family) -> float:
    """A loss that one draw of the family exceeds rarely or never."""
    if isinstance(family, LossList):
        return float(family.top.max())
    if isinstance(family, Response | Triple | Smooth | Ramp | Pair):
        return float(family.size.max())
    if isinstance(family, Staircase):
        return float((family.rate * family.shift).max())
    return float((family.shift * (1 + family.shift) / family.scale**2).max()) if isinstance(family, Bell) else 0.0


def total_of(parts: Counter[CellLaw], squared: Fraction = Fraction(0)) -> Total:
    """Composes parts (with their counts) and one Gaussian of this mu^2; the order of the parts does not matter."""
    some = [(part, n) for part, n in parts.items() if n and part.value and part.shift]
    quickly = {(part.kind, float(part.value), part.shift): (part, n) for part, n in some}  # the start of ``_order``
    ordered = [quickly[key] for key in sorted(quickly)] if len(quickly) == len(some) else sorted(some, key=_order)
    groups: dict[str, list[tuple[CellLaw, int]]] = {}
    for part, n in ordered:
        name = part.kind
        if name == "staircase" and part.shift == 1:
            name = "response"  # a change of one is randomized response, exactly
        groups.setdefault(f"{name}<1" if name == "bell" and part.value < 1 else name, []).append((part, n))
    step = Fraction(0) if squared else _common_step(part for part, _ in ordered)
    # Off a lattice the losses may be rounded up: a larger loss only raises delta. It keeps the denominators short.
    if step:
        ref = sum((n * part.top for part, n in ordered), Fraction(0)) + squared / 2
    else:
        tops = (
            _dyadic_top(part.kind, part.value.numerator, part.value.denominator, part.shift, n) for part, n in ordered
        )
        ref = Fraction(sum(tops), 1 << _FINE) + squared / 2
    return Total(
        families=tuple(_family(members) for _, members in sorted(groups.items())),
        squared=squared,
        ref=ref,
        step=step,
        bounded=not squared and all(part.kind != "bell" for part, _ in ordered),
        draws=sum(n for _, n in ordered),
    )


def _order(item: tuple[CellLaw, int]) -> tuple[str, float, int, int, int, float, float, float, tuple[float, ...]]:
    """A total order that compares floats first: fractions compare slowly. A mass is a float itself."""
    part = item[0]
    exact = part.value.numerator, part.value.denominator
    known = float(part.mass), float(part.small), float(part.alike), part.listed
    return part.kind, float(part.value), part.shift, *exact, *known


_FINE = 200  # binary digits of a reference loss


def _dyadic_top(kind: Kind, above: int, below: int, shift: int, n: int) -> int:
    """``n * top`` of a part of the value ``above / below`` in steps of 2^-200, rounded up, in whole numbers.

    Rationals of a thousand draws are slow.
    """
    if kind == "bell":
        above, below = (shift * below) ** 2, 2 * above * above
    elif kind == "staircase":
        above, below = shift * below, above
    elif kind == "listed":
        above = shift * above
    return -(-(n * above << _FINE) // below)


def total_of_floats(
    kind: Literal["staircase", "bell"], values: Array, shifts: Sequence[int], counts: Sequence[int]
) -> Total | None:
    """As ``total_of``, for one kind of which the values are floats; None where the losses may be on a lattice."""
    merged: Counter[tuple[float, int]] = Counter()
    for value, shift, n in zip(values.tolist(), shifts, counts, strict=True):
        merged[value, shift] += n
    ordered = [(value, shift, merged[value, shift]) for value, shift in sorted(merged)]
    if _common_step(CellLaw(kind, Fraction(value), shift) for value, shift, _ in ordered):
        return None
    groups: dict[str, list[tuple[float, int, int]]] = {}
    for value, shift, n in ordered:
        name = "response" if kind == "staircase" and shift == 1 else str(kind)
        groups.setdefault(f"{name}<1" if name == "bell" and value < 1 else name, []).append((value, shift, n))
    ref = sum(_dyadic_top(kind, *value.as_integer_ratio(), shift, n) for value, shift, n in ordered)
    families: list[Family] = []
    for name, members in sorted(groups.items()):
        some, moved, many = (np.array(column) for column in zip(*members, strict=True))
        if kind == "bell":
            families.append(Bell(many, some, moved.astype(float)))
        else:
            single = name == "response"
            families.append(Response(many, 1 / some) if single else Staircase(many, 1 / some, moved.astype(float)))
    return Total(tuple(families), Fraction(0), Fraction(ref, 1 << _FINE), Fraction(0), kind != "bell", sum(counts))


def _family(members: list[tuple[CellLaw, int]]) -> Family:
    counts = np.array([n for _, n in members], dtype=np.int64)
    values = np.array([float(part.value) for part, _ in members])
    shifts = np.array([float(part.shift) for part, _ in members])
    kind = members[0][0].kind
    if kind == "bell":
        return Bell(counts, values, shifts)
    if kind == "listed":
        longest = max(len(part.listed) for part, _ in members)
        rows = [part.listed + (0.0,) * (longest - len(part.listed)) for part, _ in members]
        return LossList(counts, np.array([float(part.top) for part, _ in members]), values, np.array(rows))
    if kind == "triple":
        return Triple(counts, values, np.array([float(part.mass) for part, _ in members]))
    if kind == "pair":
        exact = [(part.small, part.value - part.small, part.alike, 1 - part.alike) for part, _ in members]
        return Pair(
            counts, values, *(np.array([float(each) for each in column]) for column in zip(*exact, strict=True))
        )
    if kind in ("smooth", "ramp"):
        return (Smooth if kind == "smooth" else Ramp)(counts, values)
    if kind == "staircase" and shifts.max() > 1:
        return Staircase(counts, 1 / values, shifts)
    return Response(counts, np.array([float(part.top) for part, _ in members]))


def _gcd(one: Fraction, other: Fraction | int) -> Fraction:
    """The greatest rational of which two that are 0 or more are whole multiples."""
    bottom = lcm(one.denominator, other.denominator)
    top = gcd(one.numerator * (bottom // one.denominator), other.numerator * (bottom // other.denominator))
    return Fraction(top, bottom)


def _common_step(parts: Iterable[CellLaw]) -> Fraction:
    """The greatest rational of which every part's step is a multiple, or 0 when a law is continuous or it is tiny."""
    common, smallest = Fraction(0), None
    for part in parts:
        step = part.step
        if step is None:
            return Fraction(0)
        smallest = step if smallest is None else min(step, smallest)
        common = _gcd(common, step)
        if common * 2**24 < smallest:
            return Fraction(0)
    return common
