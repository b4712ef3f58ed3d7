"""What an accountant is: pure functions from an event to an upper bound on its loss, and what is said of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.near import CellDraws, NearDraws
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    KeySelection,
    KNorm,
    Laplace,
    Parallel,
    RandomScale,
    Repeated,
    TotalResidual,
)
from dprelease.privacy.theorems.joint.total_residual import total_residual_pure
from dprelease.privacy.unit import Neighboring

__all__ = [
    "EVERY_KIND",
    "Accountant",
    "Atom",
    "Atoms",
    "LossClaim",
    "Words",
    "atoms",
    "check_delta",
    "check_epsilon",
    "parts_of_one_unit",
    "pure_epsilon",
    "rest_epsilon",
    "taken",
    "unsupported",
]

Atom = (
    DiscreteLaplace
    | DiscreteGaussian
    | KNorm
    | TotalResidual
    | RandomScale
    | Laplace
    | Gaussian
    | Approximate
    | BoundedRange
    | Concentrated
    | Parallel
)
Atoms = Counter[Atom]

_PLAIN = frozenset((DiscreteLaplace, DiscreteGaussian, KNorm, BoundedRange))  # by type: `isinstance` is slow for these
EVERY_KIND = frozenset(
    {
        "discrete_laplace",
        "discrete_gaussian",
        "knorm",
        "total_residual",
        "random_scale",
        "laplace",
        "gaussian",
        "approximate",
        "bounded_range",
        "concentrated",
        "parallel",
    }
)


@dataclass(frozen=True)
class Words:
    """What the pages, the certificate and the registry say of an accountant; none of it may be empty.

    Attributes:
        how: What it does, as the end of "certified by NAME, which ...".
        framework: The notion of privacy that it works in.
        theorem: What reads its figure as (epsilon, delta), with the source.
    """

    how: str
    framework: str
    theorem: str

    def __post_init__(self) -> None:
        """Refuse an accountant that says nothing of itself, before any plan is made with it."""
        if not (self.how and self.framework and self.theorem):
            raise ValueError("an accountant says how it adds up, in which framework, and by which theorem")


class LossClaim(Protocol):
    """A loss that a plan claims, and what the verifier knows of the draws by itself: no accountant computed any of it.

    ``plan.verify.loss`` makes it, in floats with a tolerance, from mass functions and transforms of its own.
    """

    @property
    def epsilon(self) -> Fraction:
        """The claimed epsilon, or the limit that the draws must keep to."""
        ...

    @property
    def delta(self) -> Fraction:
        """The delta of the claim."""
        ...

    @property
    def kinds(self) -> frozenset[str]:
        """What the draws are: ``pure``, ``laplace``, ``gaussian``, ``range`` or ``reveal``."""
        ...

    @property
    def rho(self) -> float:
        """The summed zero-concentrated loss of the draws where they do not reveal."""
        ...

    def is_true(self) -> bool:
        """Whether the exact loss of all draws together is no larger."""
        ...

    def adds_boxes(self) -> bool:
        """Whether epsilons and deltas that add up prove it."""
        ...

    def composes_boxes(self) -> bool:
        """Whether the optimal composition of (epsilon, delta) boxes proves it."""
        ...

    def by_curves(self, *, renyi: bool) -> bool:
        """Whether summed rho, and with ``renyi`` the summed Renyi curves, give this figure: neither more nor less."""
        ...


class Accountant(ABC):
    """Turns events whose parameters were fixed before the first draw into (epsilon, delta).

    It says everything of itself, so that a file and its line in ``ACCOUNTANTS`` are all that a new one needs.

    Attributes:
        takes: The kinds of event that it has a theorem for.
        needs_delta: The code and the words of the error for a spec that asks for it at delta 0; empty where it can
            prove something there.
        most_draws: Up to how many different draws a page asks it where a quicker one has answered; 0: never.
        auto: Whether it drives ``accounting: auto``: ``law`` ones know the exact law of most draws and are asked first,
            ``fast`` ones where that is not so. Empty: it is only asked what a plan costs.
        reads_together: Whether draws with a common bound cost it what that says; else each is read by itself.
    """

    takes: frozenset[str] = EVERY_KIND
    needs_delta: tuple[str, str] = ("", "")
    most_draws: float = math.inf
    auto: Literal["law", "fast", ""] = ""
    reads_together: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in a spec."""

    @property
    @abstractmethod
    def words(self) -> Words:
        """What is said of it where a release is explained."""

    @abstractmethod
    def epsilon(self, event: Event, delta: Fraction) -> Fraction:
        """An epsilon for which the event is (epsilon, delta)-differentially private, rounded up.

        Raises:
            UnsupportedEvent: If no finite epsilon can be proved; says which accountants can.
            ValueError: If delta is not in [0, 1].
        """

    def epsilon_of_cells(self, draws: CellDraws, delta: Fraction) -> Fraction:
        """:meth:`epsilon` of their event, which an accountant that reads them as they are need not make."""
        return self.epsilon(draws.event, delta)

    @abstractmethod
    def rough_epsilon(self, event: Event | NearDraws, delta: float) -> float:
        """A fast float near :meth:`epsilon`; it guides a search and certifies nothing. Errors as there."""

    def rough_least(self, event: Event | NearDraws, delta: float) -> float:
        """What :meth:`rough_epsilon` is not below, told much sooner; 0 where nothing is known."""
        return 0.0

    @abstractmethod
    def delta(self, event: Event, epsilon: Fraction) -> Fraction:
        """A delta for which the event is (epsilon, delta)-differentially private, rounded up; at most 1.

        Raises:
            UnsupportedEvent: If the accountant has no theorem for the event; says which accountants have.
            ValueError: If epsilon is negative.
        """

    @abstractmethod
    def holds(self, claim: LossClaim) -> bool:
        """Whether this accountant's theorem, derived a second time, gives the claim.

        It is worked out from the claim alone, never by the functions that :meth:`epsilon` and :meth:`delta` call.
        """

    def takes_alone(self, atom: Atom) -> bool:
        """Whether it has a figure for this draw alone, at a delta above the draw's own ones."""
        return atom.kind in self.takes


def atoms(event: Event | NearDraws) -> Atoms:
    """The draws in an event and how often each occurs.

    Composition here neither depends on order nor on nesting, so that an event repeated n times, and n copies
    of it, are the same multiset: no accountant can count one of them differently. Parts in parallel stay together. A
    selection of keys is its noise and a (0, delta) event, for as many units as it is about.
    """
    if isinstance(event, Composed):
        return event.once(_of_composed)  # every accountant asks, several times; nobody changes what they get
    if isinstance(event, Repeated):
        return Counter({atom: n * event.count for atom, n in atoms(event.event).items()})
    if isinstance(event, NearDraws):
        return atoms(event.event)
    if isinstance(event, KeySelection):
        return Counter({event.noise: 1, Approximate(epsilon=Fraction(0), delta=event.delta): 1})
    return Counter({event: 1})


def _of_composed(event: Composed) -> Atoms:
    total: Atoms = Counter()
    for part in event.events:
        if type(part) in _PLAIN:  # a thousand draws are as many lines here, and no counter for each
            total[part] += 1  # type: ignore[index]  # a type of its own: one of those
        else:
            total.update(atoms(part))
    return total


def taken(name: str, event: Event | NearDraws, takes: frozenset[str] = EVERY_KIND) -> Atoms:
    """The atoms of an event, all of them of kinds that the accountant of that name has a theorem for (``takes``).

    Raises:
        UnsupportedEvent: Naming the first kind that it has none for, and the accountants that do.
    """
    counted = atoms(event)
    for atom in counted:
        if atom.kind not in takes:
            raise unsupported(name, atom)
    return counted


def check_delta(delta: Fraction) -> None:
    """Refuse what is no probability.

    Raises:
        ValueError: If delta is not in [0, 1].
    """
    if not 0 <= delta <= 1:
        raise ValueError(f"delta is at least 0 and at most 1, not {float(delta):.6g}")


def check_epsilon(epsilon: Fraction) -> None:
    """Refuse a negative epsilon, at which the formulas here would claim too little.

    Raises:
        ValueError: If epsilon is negative.
    """
    if epsilon < 0:
        raise ValueError(f"epsilon is at least 0, not {float(epsilon):.6g}")


def unsupported(name: str, atom: Atom, why: str = "") -> UnsupportedEvent:
    """The error for an event that the accountant of that name cannot take; it names those that can, and no other."""
    from dprelease.privacy.accountants import ACCOUNTANTS  # the table imports the accountants, and they this module

    others = [other for other, each in ACCOUNTANTS.items() if other != name and each.takes_alone(atom)]
    return UnsupportedEvent(
        f"{name} cannot take an event of kind {atom.kind!r}" + (f": {why}" if why else ""),
        hint=f"accountants that can: {', '.join(others) or 'none'}",
    )


def pure_epsilon(atom: Atom) -> Fraction | None:
    """The exact epsilon of one draw at delta 0, or None where it has none.

    Laplace noise: L1 sensitivity / scale, whichever cells move. K-norm noise: gauge / scale (Hardt and Talwar 2010), of
    which a total with residuals is a case. A bounded range: its length. In parallel: the largest part, or under
    replace-one the sum of the two largest.
    """
    if isinstance(atom, Approximate) and atom.delta:
        return None
    if isinstance(atom, Parallel):
        return parts_of_one_unit(atom, pure_epsilon)
    return rest_epsilon(atom)


def rest_epsilon(atom: Atom) -> Fraction | None:
    """The exact epsilon of one draw where it does not reveal (see ``reveals``), or None where it has none."""
    if isinstance(atom, DiscreteLaplace | Laplace):
        return atom.sensitivity.l1 / atom.scale
    if isinstance(atom, KNorm):
        return atom.gauge / atom.scale
    if isinstance(atom, TotalResidual):
        return total_residual_pure(atom)
    if isinstance(atom, BoundedRange | Approximate):
        return atom.epsilon
    if isinstance(atom, Parallel):
        return parts_of_one_unit(atom, rest_epsilon)
    return None


def _sum(event: Event, of: Callable[[Atom], Fraction | None]) -> Fraction | None:
    total = Fraction(0)
    for atom, n in atoms(event).items():
        one = of(atom)
        if one is None:
            return None
        total += n * one
    return total


def parts_of_one_unit(atom: Parallel, of: Callable[[Atom], Fraction | None]) -> Fraction | None:
    """The sum of a cost over the parts that one unit can touch: the largest part, or the two largest under replace-one.

    Args:
        atom: Draws on disjoint parts of the units.
        of: The cost of one draw, at least 0; None where it has none, and then the whole has none.
    """
    sums = [_sum(part, of) for part in atom.events]
    known = sorted((part for part in sums if part is not None), reverse=True)
    if len(known) != len(sums):
        return None
    return sum(known[: 1 if atom.neighboring is Neighboring.ADD_REMOVE else 2], Fraction(0))
