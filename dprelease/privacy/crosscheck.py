"""What ``dp_accounting`` says of a release: the smallest epsilon by two of its accountants, from numbers alone.

Nothing of ours is imported here, and nothing of it is imported before it is asked, so that a process that does nothing
else (``release/opinion.py``) is ready as soon as that library is: loading it takes a second. What is asked of which
plan, and what is made of the answers, is told in ``plan/verify/second_opinion.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

__all__ = ["Figures", "Part", "Questions", "is_installed", "load_peer", "peer_figures", "warm_up"]

Part = tuple[str, float, float]  # kind, scale (or epsilon, or range), shift (or delta, upper loss, upper chance)

_SMOOTH = 100  # from this many lattice points per unit of noise the continuous pair is within 1e-4 of the lattice


@dataclass(frozen=True)
class Questions:
    """Two questions about one release. Equal ones have equal answers, in every process.

    Attributes:
        rhos: Every rho with the number of draws that have it.
        left: The delta at which these are compared; not above 0: they are not.
        parts: Every pair of distributions with the number of its draws; none: nothing is lost.
        grid: Of losses.
        delta: At which the epsilon of all parts is asked; not above 0: it is not.
    """

    rhos: tuple[tuple[float, int], ...]
    left: float
    parts: tuple[tuple[Part, int], ...]
    grid: float
    delta: float


@dataclass(frozen=True)
class Figures:
    """The answers: an epsilon each, or None where it was not asked."""

    curve: float | None
    pairs: float | None


def is_installed() -> bool:
    """Whether ``dp_accounting`` is there; it is not imported."""
    return find_spec("dp_accounting") is not None


def load_peer() -> None:
    """Import what is asked, which takes a second.

    Raises:
        ImportError: If it is not there, or cannot be imported.
    """
    import dp_accounting.dp_event
    import dp_accounting.pld.privacy_loss_distribution
    import dp_accounting.rdp  # noqa: F401 - to have it


def warm_up() -> None:
    """Ask it one small question, so that what every question about noise loads is there: nearly a tenth of a second.

    Raises:
        Exception: Whatever it raises; a real question then raises it again.
    """
    peer_figures(Questions(((0.5, 1),), 1e-6, ((("laplace", 1.0, 1.0), 1),), 0.01, 1e-6))


def peer_figures(asked: Questions) -> Figures:
    """Ask ``dp_accounting`` in this process.

    Raises:
        ImportError: If it is not there, or cannot be imported.
    """
    return Figures(
        curve=_curve(asked.rhos, asked.left) if asked.left > 0 else None,
        pairs=_composed(asked.parts, asked.grid, asked.delta) if asked.delta > 0 else None,
    )


def _curve(rhos: tuple[tuple[float, int], ...], left: float) -> float:
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    def best(orders: list[float]) -> tuple[float, float]:
        accountant = RdpAccountant(orders=orders)
        for rho, n in rhos:
            accountant.compose(dp_event.SelfComposedDpEvent(dp_event.ZCDpEvent(rho), n))
        epsilon, order = accountant.get_epsilon_and_optimal_order(left)
        return float(epsilon), float(order)

    coarse, order = best(_orders(math.fsum(rho * n for rho, n in rhos), left))
    return min(coarse, best([1 + (order - 1) * math.exp(0.0006 * k) for k in range(-60, 61)])[0])


def _orders(rho: float, delta: float) -> list[float]:
    """A list that has the best order in it: that is below 1 + 2 sqrt((1 + ln(1 / delta)) / rho).

    Proof: with a = 1 + t the figure is rho (1 + t) + ln(t / (1 + t)) + (ln(1 / delta) - ln(1 + t)) / t, and its slope
    rho + (ln(delta) + ln(1 + t)) / t^2 (the rest cancels) is above 0 where t^2 > ln(1 / delta) / rho.
    """
    top = math.log(2 * math.sqrt((1 - math.log(delta)) / rho)) if rho else 0.0
    return [1 + math.exp(-9 + 0.03 * k) for k in range(max(700, math.ceil((top + 9) / 0.03) + 1))]


def _composed(parts: tuple[tuple[Part, int], ...], grid: float, delta: float) -> float:
    """Epsilon of all parts together; two and two, so that large distributions are rarely handled."""
    found = [_pld(part, grid).self_compose(n) for part, n in parts]
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=False)
        found = [one.compose(other) for one, other in pairs] + (found[-1:] if len(found) % 2 else [])
    return float(found[0].get_epsilon_for_delta(delta)) if found else 0.0


def _pld(part: Part, grid: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    kind, scale, shift = part
    if kind == "box":
        upper = 1 / (1 + math.exp(-scale))
        return _listed([(scale, upper), (-scale, 1 - upper)], shift, grid)
    if kind == "range":
        upper = math.expm1(shift - scale) / math.expm1(-scale)
        return _listed([(shift, upper), (shift - scale, 1 - upper)], 0.0, grid)
    if kind == "triple":
        lower = shift * math.exp(-scale)
        return _listed([(scale, shift), (0.0, 1 - shift - lower), (-scale, lower)], 0.0, grid)
    how = {"value_discretization_interval": grid, "use_connect_dots": True}
    if kind == "laplace":
        if shift <= _SMOOTH:
            return pld.from_discrete_laplace_mechanism(1 / scale, sensitivity=int(shift), **how)
        return pld.from_laplace_mechanism(scale / shift, **how)
    if scale <= _SMOOTH:
        return pld.from_discrete_gaussian_mechanism(scale, sensitivity=int(shift), **how)
    return pld.from_gaussian_mechanism(scale / shift, **how)


def _listed(sizes: list[tuple[float, float]], delta: float, grid: float) -> Any:
    """A loss that is infinite with probability ``delta``, else one of these, each with its probability.

    By connect the dots, at the points of the grid next to the losses: in between the curve is straight.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    points = sorted({turn(loss / grid) for loss, _ in sizes for turn in (math.floor, math.ceil)})
    over = [sum(share * max(0.0, -math.expm1(point * grid - loss)) for loss, share in sizes) for point in points]
    deltas = [delta + (1 - delta) * each for each in over]
    return pld.PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(grid, points, deltas))
