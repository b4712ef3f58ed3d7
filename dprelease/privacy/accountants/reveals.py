"""Draws with a delta of their own, taken apart: what may be revealed, and what is left to be accounted for.

A mechanism that is (epsilon, delta)-private is dominated by the pair that reveals everything with probability delta and
is randomized response of epsilon otherwise (Kairouz, Oh and Viswanath 2015, Theorem 3.3 and Remark 3.2). Dominating
pairs compose, also over draws that are chosen after the answers of those before them, with parameters that are fixed
(Zhu, Dong and Wang 2022, Theorem 10). Of the product of such pairs the revealing outcomes are told apart from all
others and independent of them, so that with D = 1 - prod (1 - delta_i) ::

    delta(epsilon) = D + (1 - D) delta_rest(epsilon),

where the rest treats each draw as pure (Murtagh and Vadhan 2018, Theorem 1.5). Whatever bounds the rest bounds the
whole, so every accountant reads the rest at the delta ``(delta - D) / (1 - D)``.

In parallel a unit touches one part (or leaves one and enters another): the largest D of what it can touch, and the
largest curve of the rests, bound all of them, for ``D + (1 - D) r`` rises in D and in r.

>>> from fractions import Fraction as F
>>> found = peeled({Approximate(epsilon=F(1), delta=F(1, 10)): 2})
>>> found.failure, found.slack(F(19, 100) + F(81, 1000))
(Fraction(19, 100), Fraction(1, 10))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dprelease.privacy.accountants.base import Atom, Atoms, atoms
from dprelease.privacy.accountants.kov import kov_kept, kov_slack
from dprelease.privacy.event import Approximate, Composed, Event, Parallel
from dprelease.privacy.unit import Neighboring

__all__ = ["Peeled", "peeled", "total_reveal"]


@dataclass(frozen=True)
class Peeled:
    """Draws without their deltas, and the deltas.

    Attributes:
        atoms: The draws, none of which has a delta of its own; those that tell nothing else are left out.
        reveals: The deltas, all above 0, and how often each occurs.
    """

    atoms: Atoms
    reveals: Mapping[Fraction, int]

    @property
    def failure(self) -> Fraction:
        """``1 - prod (1 - delta_i)``, exact, or rounded up where it would have many thousand digits."""
        return 1 - kov_kept(self.reveals)

    @property
    def spent(self) -> Fraction:
        """The sum of the deltas; never below ``failure``."""
        return sum((delta * n for delta, n in self.reveals.items()), Fraction(0))

    def slack(self, delta: Fraction) -> Fraction:
        """What is left of delta for the rest: the largest r with ``failure + (1 - failure) r <= delta``.

        Raises:
            UnsupportedEvent: If the deltas of the draws alone exceed ``delta``; says by how much.
        """
        return kov_slack(self.reveals, delta) if self.reveals else delta

    def rough_slack(self, delta: float) -> float:
        """The same in floats; below 0 where nothing is left."""
        failure = float(self.failure) if self.reveals else 0.0
        return (delta - failure) / (1 - failure) if failure < 1 else -1.0

    def total(self, rest: Fraction) -> Fraction:
        """``failure + (1 - failure) rest``, at most 1."""
        if not self.reveals:
            return rest
        failure = self.failure
        return min(Fraction(1), failure + (1 - failure) * rest)


def peeled(counted: Mapping[Atom, int]) -> Peeled:
    """Take the deltas off these draws, also off those in parallel parts."""
    if not any(atom.kind in ("approximate", "parallel") for atom in counted):
        return Peeled(Counter(counted), {})
    rest: Atoms = Counter()
    reveals: Counter[Fraction] = Counter()
    for atom, n in counted.items():
        bare, delta = _bare(atom)
        if delta:
            reveals[delta] += n
        if bare is not None:
            rest[bare] += n
    return Peeled(rest, dict(reveals))


def total_reveal(event: Event) -> Fraction:
    """The sum of all deltas that draws have of their own, in parallel those of the worst parts; an upper bound.

    Sums are what an account adds up: they stay valid where later releases depend on earlier answers.
    """
    return peeled(atoms(event)).spent


def _bare(atom: Atom) -> tuple[Atom | None, Fraction]:
    """A draw without its delta (None where nothing else is left), and its delta."""
    if isinstance(atom, Approximate) and atom.delta:
        return (Approximate(epsilon=atom.epsilon) if atom.epsilon else None), atom.delta
    if not isinstance(atom, Parallel):
        return atom, Fraction(0)
    parts = [peeled(atoms(part)) for part in atom.events]
    if not any(part.reveals for part in parts):
        return atom, Fraction(0)
    touched = 1 if atom.neighboring is Neighboring.ADD_REMOVE else 2
    worst = sorted((part.failure for part in parts), reverse=True)[:touched]
    bare = tuple(Composed(events=tuple(part.atoms.elements())) for part in parts)
    return Parallel(events=bare, neighboring=atom.neighboring), 1 - kov_kept(worst)
