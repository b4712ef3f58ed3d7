"""The true delta of many draws together at one epsilon, by inverting the Laplace transform of their loss; and rho.

With L the summed loss under P and K(z) = ln E exp(z L), the hockey-stick divergence is, for any theta > 0,

    delta(eps) = E (1 - exp(eps - L))_+ = (1 / 2 pi) Re int exp(K(z) - z eps) / (z (1 + z)) dw,   z = theta + i w.

Proof: int over e of exp(z e) (1 - exp(e - L))_+ is exp(z L) / (z (1 + z)) for Re z > 0; take the mean over L and invert
(the Gil-Pelaez formula, tilted; Zhu, Dong and Wang 2022, "Optimal accounting of differential privacy via
characteristic function", for its use here). Draws are independent and their worst pairs compose (their Theorem 10),
so K is a sum of closed forms. theta is the saddle point of K(theta) - theta eps - ln theta - ln(1 + theta): there
the integrand is largest at w = 0 and loses no digits however small delta is.

Numbers: the trapezoidal rule with spacing 2 pi / T is wrong by sum over m != 0 of exp(-m theta T) delta(eps - m T),
and T is taken so large that this is far below the tolerance. Few draws have lattice losses whose transform does not
decay; the integrand is multiplied by that of one more Gaussian draw of tiny mu^2, which can only raise delta, and by
two of them, and what is linear in mu^2 is taken off. Every figure is worked out at two resolutions.

Floats with a tolerance, for checking; nothing here is a bound, and nothing here calls what made the claim.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dprelease.plan.verify.mathematics.draws import Array, Cell, Draw, Loss, witnesses, worst
from dprelease.plan.verify.mathematics.sphere import SphereGroup

__all__ = ["delta_of", "revealed", "total_rho"]

_BIAS = 1e-6  # relative rise of delta by the extra Gaussian draw, before what is linear in it is taken off
_ALIAS = 21.0  # exp(-21) = 1e-9: what the trapezoidal rule may add, relative to delta
_REACH = 5.5  # where the transform of the extra draw is cut: exp(-15), beside a weight of about 1e-4
_BLOCK = 2**16  # frequencies at once
_ROWS, _CELLS = 12, 2**16  # responses at once, at least, and numbers at once
_STRIP = 8  # frequencies that are told at once
_NOTHING = 1e-15  # of a transform with its weight, beside that of frequency 0
_MOST = 2**22
_AGREE = 1e-6
_MOST_SUMMED = 1 << 14
_FINEST = 1 << 300
_NEAR = Fraction(1, 100)
_MOST_LISTED = 20_000
_FEW = 400
_WIDE = tuple(range(-4, 9))  # powers of 4: a choice has many ways, and the peak of a few choices is no peak


def delta_of(draws: Mapping[Draw, int], epsilon: Fraction) -> float:
    """Delta at epsilon of all draws together, for the unit that moves each in the worst of its ways.

    Where a draw has several ways and none is known to dominate, the way with the largest moment at the saddle point
    is taken, which is the way that makes delta largest up to the shape of its peak; the ways that are best at half
    and at twice that point are tried too. With probability D = ``revealed(draws)`` everything shows; where it does not,
    the other losses are as they are, so that delta is D + (1 - D) of theirs.
    """
    shown, others = revealed(draws), {draw: n for draw, n in draws.items() if not _reveals(draw)}
    return float(shown) + float(1 - shown) * _unrevealed(_merged(others), epsilon)


def revealed(draws: Mapping[Draw, int]) -> Fraction:
    """The probability that one of the draws reveals: 1 - (1 - d_1) ... (1 - d_n), exact."""
    kept = (((1 - draw[0][0].value) ** n) for draw, n in draws.items() if _reveals(draw))
    return 1 - math.prod(kept, start=Fraction(1))


def _reveals(draw: Draw) -> bool:
    return len(draw) == 1 and len(draw[0]) == 1 and draw[0][0].kind == "reveal"


def _unrevealed(draws: Counter[Draw], epsilon: Fraction) -> float:
    cells = _chosen(draws, 1.0)
    if all(len(draw) < 2 for draw in draws):
        return _of_cells(cells, epsilon)
    theta = 1.0
    for _ in range(3):
        loss = Loss.of(_chosen(draws, theta))
        gap = float(loss.top - epsilon)
        if loss.bounded and gap <= 0:
            break
        theta = _saddle(loss, gap)
    powers = _WIDE if any(draw[0][0].kind == "range" for draw in draws) else (-0.5, 0.0, 0.5)
    tried = {frozenset(_chosen(draws, t).items()) for t in (*(theta * 4**power for power in powers), 1e9)}
    if any(len(draw) == 2 for draw in draws):  # of one draw, or a few, the saddle point says little: each way for all
        tried |= {frozenset(_taken(draws, place).items()) for place in (0, -1)}
    return max(_of_cells(dict(each), epsilon) for each in tried)


def _of_cells(cells: Mapping[Cell, int], epsilon: Fraction) -> float:
    """Delta of the cells that move, one by one near epsilon 0 where their outcomes are few, else by a transform."""
    one_by_one = _summed(cells, epsilon) if epsilon < _NEAR else None
    return _delta(Loss.of(cells), epsilon) if one_by_one is None else one_by_one


def _summed(cells: Mapping[Cell, int], epsilon: Fraction) -> float | None:
    """The sum over all outcomes of a few responses and cells with discrete Laplace noise; None where there are more.

    Near epsilon 0 an integrand has a peak that is as narrow as epsilon, of which an integral knows four digits. A cell
    that moves by s loses (s - 2 k) / scale where the noise is k in 0..s: 0 stands for all below, s for all above.
    Losses are whole numbers of 2^-300: where epsilon is just below the largest, doubles would leave nothing of the gap.
    """
    if any(cell.kind not in ("pure", "laplace") or cell.norms is not None for cell in cells):
        return None
    sizes = {cell: cell.shift + 1 if cell.kind == "laplace" else 2 for cell in cells}
    if sum(n * math.log(sizes[cell]) for cell, n in cells.items()) > math.log(_MOST_SUMMED):
        return None
    loss, mass = np.array([-round(epsilon * _FINEST)], dtype=object), np.ones(1)
    for cell, often in cells.items():
        steps = np.arange(sizes[cell])
        each = Fraction(1) / cell.value if cell.kind == "laplace" else Fraction(cell.value)
        rate = float(each)
        beyond = np.exp(-rate * steps) / (1 + math.exp(-rate))  # of the noise from here on
        chance = np.where((steps == 0) | (steps == steps[-1]), beyond, -math.expm1(-rate) * beyond)
        lost = round(each * _FINEST) * (steps[-1] - 2 * steps).astype(object)
        for _ in range(often):
            loss, mass = np.add.outer(loss, lost).ravel(), np.multiply.outer(mass, chance).ravel()
    more = np.array(loss > 0, dtype=bool)
    gaps = loss[more].astype(np.float64) / _FINEST
    return math.fsum((mass[more] * -np.expm1(-gaps)).tolist())


def _merged(draws: Mapping[Draw, int]) -> Counter[Draw]:
    merged: Counter[Draw] = Counter()
    for draw, n in draws.items():
        merged[worst(witnesses(draw))] += n
    return merged


def _taken(draws: Mapping[Draw, int], place: int) -> Counter[Cell]:
    """The cells that move, each draw in the first or the last of its ways: a unit that can occur."""
    cells: Counter[Cell] = Counter()
    for draw, n in draws.items():
        for cell in draw[place] if draw else ():
            cells[cell] += n
    return cells


def _chosen(draws: Mapping[Draw, int], theta: float) -> Counter[Cell]:
    """The cells that move, each draw in the way with the largest E exp(theta L)."""
    cells: Counter[Cell] = Counter()
    for draw, n in draws.items():
        way = draw[0] if len(draw) == 1 else max(draw, key=lambda way: _moment(way, theta)) if draw else ()
        for cell in way:
            cells[cell] += n
    return cells


@lru_cache(maxsize=1 << 14)
def _moment(way: tuple[Cell, ...], theta: float) -> float:
    loss = Loss.of(Counter(way))
    return float(loss.moments(np.array([theta]))[0]) + theta * float(loss.top)


def _saddle(loss: Loss, gap: float) -> float:
    """The least of K(theta) - theta epsilon - ln theta - ln(1 + theta), which is convex; on finer and finer grids."""
    # next to the top of bounded losses, theta is about one over what epsilon leaves of it
    low, high = math.log(1e-9), math.log(max(1e18, 1e3 / gap if gap > 0 else 0.0))
    for points in (round((high - low) * 7 / 4) + 1, 25, 25):
        at = np.linspace(low, high, points)
        theta = np.exp(at)
        height = loss.moments(theta) + theta * gap - np.log(theta) - np.log1p(theta)
        best, width = int(np.argmin(height)), (high - low) / (points - 1)
        low, high = at[best] - width, at[best] + width
    return float(math.exp((low + high) / 2))


def _delta(loss: Loss, epsilon: Fraction) -> float:
    gap = float(loss.top - epsilon)
    if not loss.groups or (loss.bounded and gap <= 0):
        return 0.0 if epsilon >= 0 else -math.expm1(float(epsilon))
    theta = _saddle(loss, gap)
    if loss.step:
        return _on_lattice(loss, gap, theta)
    listed = _listed(loss, gap) if all(group.kind == "pure" for group in loss.groups) else None
    if listed is not None:
        return listed
    period = _period(loss, gap, theta)
    for _ in range(4):
        coarse, fine = _integral(loss, gap, theta, period)
        if abs(coarse - fine) <= _AGREE * fine:
            return fine
        period *= 2
    return fine + abs(coarse - fine)  # not settled: on the side of refusing


def _listed(loss: Loss, gap: float) -> float | None:
    """The sum over all outcomes of randomized responses that lose more than epsilon; None where these are too many.

    A response of epsilon e loses e with probability 1 / (1 + exp(-e)), else -e: an outcome in which those in F lose
    less has the loss top - 2 sum F, and exp(-sum F) times the probability of the one in which none does. Near the top
    there are few such F, their masses lie apart, and an integral knows them to five digits only; the sum knows all.
    """
    sizes = np.concatenate([group.value for group in loss.groups])
    counts = np.concatenate([group.counts for group in loss.groups])
    order = np.argsort(sizes)
    rates, numbers = sizes[order].tolist(), [int(n) for n in counts[order]]
    if sum(numbers) > _FEW:  # of many the integral knows enough digits, and numbers of ways outgrow floats
        return None
    largest = np.cumsum(2 * sizes[order][::-1])  # any that are no more than those below the gap are a term
    if sum(math.comb(len(rates), k + 1) for k in range(int((largest < gap).sum()))) > _MOST_LISTED:
        return None
    terms: list[float] = []
    stack = [(0, 0.0, 1.0)]  # the next response, what is in F, in how many ways
    while stack:
        first, inside, ways = stack.pop()
        terms.append(ways * math.exp(-inside) * -math.expm1(2 * inside - gap))
        for at in range(first, len(rates)):
            more = inside
            if 2 * (more + rates[at]) >= gap:
                break  # they rise, so that no later one fits either
            for k in range(1, numbers[at] + 1):
                more += rates[at]
                if 2 * more >= gap:
                    break
                stack.append((at + 1, more, ways * math.comb(numbers[at], k)))
        if len(terms) + len(stack) > _MOST_LISTED:
            return None
    none = -math.fsum(n * math.log1p(math.exp(-e)) for e, n in zip(rates, numbers, strict=True))
    return math.exp(none) * math.fsum(terms)


def _on_lattice(loss: Loss, gap: float, theta: float) -> float:
    """Sum over the masses of all losses, tilted by exp(theta L); of several draws convolved by one Fourier transform.

    The tilt puts what matters in the middle, so that rounding is small beside it.
    """
    pieces = [
        (int(n), *group.masses(row, theta, loss.step)) for group in loss.groups for row, n in enumerate(group.counts)
    ]
    first, masses = pieces[0][1:] if [n for n, *_ in pieces] == [1] else _convolved(pieces)
    over = loss.step * np.arange(first, first + len(masses)) + gap  # L - epsilon
    above = over > 0
    moment = float(loss.moments(np.array([theta]))[0]) + theta * gap
    return float((masses[above] * -np.expm1(-over[above]) * np.exp(moment - theta * over[above])).sum())


def _convolved(pieces: Sequence[tuple[int, int, Array]]) -> tuple[int, Array]:
    """The place of the first mass of a sum of draws, and its masses, of so many draws of each kind."""
    size = 1 + sum(n * (len(weights) - 1) for n, _, weights in pieces)
    full = 1 << (size - 1).bit_length()
    transform, first = np.ones(full // 2 + 1, dtype=complex), 0
    for n, start, weights in pieces:
        transform = transform * np.fft.rfft(weights, full) ** n
        first += n * start
    return first, np.maximum(np.fft.irfft(transform, full)[:size], 0)


def _period(loss: Loss, gap: float, theta: float) -> float:
    """T with exp(-theta T) and exp(theta T) delta(eps + T) far below delta(eps), by Chernoff's bound for the second."""
    near = np.array([theta * 0.999, theta, theta * 1.001])
    height = loss.moments(near) + near * gap - np.log(near) - np.log1p(near)
    bend = max(float(height[0] - 2 * height[1] + height[2]) / (0.001 * theta) ** 2, 1e-300)
    log_delta = min(0.0, float(height[1]) - math.log(2 * math.pi * bend) / 2)
    wanted = _ALIAS - log_delta
    steeper = theta * (1 + np.exp(np.linspace(-4, 4, 33)))
    above = float(np.min((loss.moments(steeper) + steeper * gap + wanted) / (steeper - theta)))
    return max(wanted / theta, min(above, gap) if loss.bounded else above)


def _integral(loss: Loss, gap: float, theta: float, period: float) -> tuple[float, float]:
    """The trapezoidal rule on the line through theta, with periods T and 2 T.

    Each with one and with two extra Gaussian draws of mu^2 ``extra``, extrapolated to none.
    """
    spacing = math.pi / period
    extra = 2 * _BIAS / (theta * (1 + theta))
    own = sum(float(g.counts @ (g.shift / g.value) ** 2) for g in loss.groups if g.kind == "normal")
    points = min(_MOST, math.ceil(_REACH / math.sqrt(extra + own) / spacing) + 2)
    top = float(loss.moments(np.array([theta]))[0]) + theta * gap
    sums = np.zeros((2, 2))  # every second frequency, all of them; one extra draw, two
    for start in range(0, points, _BLOCK):
        index = np.arange(start, min(points, start + _BLOCK))
        z = theta + 1j * spacing * index
        rest = np.exp(1j * z.imag * gap) * np.where(index > 0, 2, 1) / (z * (1 + z))
        size = np.abs(rest) * theta * (1 + theta) * np.exp(-extra * z.imag**2 / 2)
        kept, product = _product(loss, theta, spacing, index, size)
        for draws in (1, 2):
            more = np.exp(draws * extra * z[kept] * (1 + z[kept]) / 2)
            terms = (product * rest[kept] * more).real
            sums[:, draws - 1] += 2 * terms[index[kept] % 2 == 0].sum(), terms.sum()
    coarse, fine = (_extrapolated(once, twice) * spacing / (2 * math.pi) for once, twice in sums)
    return _exp(top, coarse), _exp(top, fine)


def _exp(log_factor: float, value: float) -> float:
    return math.exp(min(700.0, log_factor + math.log(value))) if value > 0 else 0.0


def _extrapolated(once: float, twice: float) -> float:
    rise = (twice - once) / once if once > 0 else 0.0
    # Where delta has a kink the rise is not linear in mu^2; it is then left in.
    return once * (1 - rise) if 0 <= rise < 5 * _BIAS else once


def _product(loss: Loss, theta: float, spacing: float, index: Array, weight: Array) -> tuple[Array, Array]:
    """Which of the frequencies, so many spacings each, matter, and the product of all transforms there.

    No factor exceeds 1 in size, so a frequency is dropped as soon as its part has become negligible.
    """
    kept, least = _possible(loss, theta, spacing, index, weight), (_NOTHING / weight) ** 2
    product = np.ones(len(kept), dtype=complex)
    for group in loss.groups:
        row, fewest = 0, _ROWS if group.kind == "pure" else 1
        while row < len(group.counts) and len(kept):
            some = group.part(slice(row, row + max(fewest, _CELLS // len(kept))))
            row += len(some.counts)
            if not isinstance(some, SphereGroup) and some.kind == "pure":
                turned = some.responses(theta, spacing, index[kept])
            else:
                turned = some.turned(theta, spacing * index[kept])
            if some.counts.max() > 1:
                turned = turned ** some.counts[:, None]
            product = product * turned.prod(axis=0)
            large = product.real**2 + product.imag**2 > least[kept]
            kept, product = kept[large], product[large]
    return kept, product


def _possible(loss: Loss, theta: float, spacing: float, index: Array, weight: Array) -> Array:
    """The places of the frequencies but for those of which many responses leave nothing, told in strips of frequencies.

    The square of a response of value v, tilted, is 1 - 2 w (1 - cos(2 v omega)) / (1 + w)^2 with w = exp(-v (1 + 2
    theta)). In a strip the cosine is at most 1, and at most that of the end that is nearer to a turn.
    """
    strips, height = np.arange(0, len(index), _STRIP), np.log(weight[::_STRIP] / _NOTHING)  # the weight falls
    for group in loss.groups if len(index) > 64 * _STRIP else ():
        wide = spacing * (_STRIP - 1) * group.value if group.kind == "pure" else np.ones(0)
        rows = np.flatnonzero(wide < 1)
        for row in (rows[at : at + _ROWS] for at in range(0, len(rows), _ROWS)):
            low, near = np.exp(-group.value[row] * (1 + 2 * theta)), wide[row, None]
            middle = spacing * (index[0] + strips + (_STRIP - 1) / 2)
            cosine = np.cos(np.multiply.outer(2 * group.value[row], middle))
            end = cosine * np.cos(near) + np.sqrt(1 - np.minimum(cosine**2, 1)) * np.sin(near)
            lost = 2 * (low / (1 + low) ** 2)[:, None] * (1 - np.where(cosine >= np.cos(near), 1, end))
            height += group.counts[row] @ np.log1p(-np.minimum(lost, 1 - 1e-12)) / 2
            strips, height = strips[height > 0], height[height > 0]
    found = (strips[:, None] + np.arange(_STRIP)).ravel()
    return found[found < len(index)]


def total_rho(draws: Mapping[Draw, int]) -> float:
    """Of zero-concentrated privacy, of which the cells of a draw are a composition; the largest of a draw's ways.

    A Gaussian cell costs shift^2 / (2 scale^2), a choice within a range epsilon^2 / 8, any other one the largest Renyi
    divergence of its losses over the order. What reveals costs nothing here: its delta is counted apart
    (``delta.revealed``).
    """
    return math.fsum(n * max(_rho(way) for way in draw) for draw, n in draws.items())


def _rho(way: tuple[Cell, ...]) -> float:
    return math.fsum(map(_steepest, way))


_ORDERS = np.exp(np.linspace(math.log(1e-2), math.log(1e4), 91))  # less one, times the largest loss


@lru_cache(maxsize=1 << 15)
def _steepest(cell: Cell) -> float:
    """The largest Renyi divergence over the order of one cell: its mean loss, at order 1, and looked for at all others.

    Of Laplace noise on a vector of unknown whole changes no more than of all of it in one cell, and no more than its
    squared L2 norm times what one step costs.
    """
    if cell.kind not in ("pure", "triple", "either", "laplace"):
        return float(cell.rho)
    if cell.norms is not None:
        whole = all(norm.denominator == 1 for norm in (cell.norms.l1, cell.norms.l2_squared, cell.norms.linf))
        one, all_in_one = (Cell("laplace", cell.value, int(c)) for c in (1, cell.norms.l1))
        least = min(float(cell.norms.l2_squared) * _steepest(one), _steepest(all_in_one)) if whole else math.inf
        return min(least, float(cell.rho))
    orders = _ORDERS / float(cell.top)
    others = Loss.of({cell: 1}).moments(orders) + _ORDERS
    return min(float(cell.rho), max(_mean(cell), float(np.max(others / (orders * (1 + orders))))))


def _mean(cell: Cell) -> float:
    """The mean loss, term by term; of Laplace noise that moves by many steps from the mean distance to a point."""
    size = float(cell.value)
    if cell.kind == "triple":
        return -cell.mass * size * math.expm1(-size)
    if cell.kind in ("pure", "either"):  # of a response alike is 1
        sizes = ((float(cell.alike), size), (1 - float(cell.alike), float(cell.small)))
        return math.fsum(mass * each * math.tanh(each / 2) for mass, each in sizes)
    rate = 1 / size
    one, more = rate * math.tanh(rate / 2), cell.shift - 1
    if more * rate < 1e-8:
        return float(cell.rho) if more else one
    # the mean of |x - c| - |x|: each step s further to the right adds 1 - 2 P(X > s), P(X > s) = r^(s+1) / (1 + r)
    beyond = math.exp(-2 * rate) / (1 + math.exp(-rate)) * math.expm1(-rate * more) / math.expm1(-rate)
    return one + rate * (more - 2 * beyond)
