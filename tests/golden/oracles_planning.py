"""More independent answers: composed losses, calibrated noise, optimal designs. Nothing here calls the package."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
from scipy import integrate, optimize

from tests.golden.oracles import (
    REFUSED,
    Inputs,
    M,
    cks_epsilon,
    drv,
    equal_delta,
    equal_epsilon,
    gauss_epsilon,
    gauss_mu,
    kov_closed,
    laplace_prop6,
    mironov,
    num,
    rho_for,
)

__all__ = ["PLANNING"]

Profile = Callable[[float], float]  # delta at any epsilon, also a negative one


# --- composed losses, by integration and by convolution ---


def gaussian_profile(mu: float) -> Profile:
    return lambda e: (
        math.erfc((e / mu - mu / 2) / math.sqrt(2)) / 2 - math.exp(e) * math.erfc((e / mu + mu / 2) / math.sqrt(2)) / 2
    )


def laplace_profile(each: float) -> Profile:
    def delta(e: float) -> float:
        return -math.expm1(e) if e <= -each else max(0.0, -math.expm1((e - each) / 2))

    return delta


def with_laplace(rest: Profile, each: float, kinks: Sequence[float]) -> Profile:
    """One more Laplace draw: its loss is ``each`` half of the time, -each with exp(-each) / 2, and between them has
    the density exp((l - each) / 2) / 4; delta is the mean of the rest's at what the loss leaves.
    """

    def delta(e: float) -> float:
        points = sorted({x for x in (e - kink for kink in kinks) if -each < x < each} | {-each, each})
        between: float = sum(
            integrate.quad(lambda x: math.exp((x - each) / 2) / 4 * rest(e - x), a, b, epsabs=0, epsrel=1e-11)[0]
            for a, b in pairwise(points)
        )
        return rest(e - each) / 2 + math.exp(-each) / 2 * rest(e + each) + between

    return delta


def profile(at: Inputs) -> Profile:
    """Any Gaussians and up to two Laplace draws, or several draws of one integer noise."""
    first = at["mechs"][0]
    if any(name.startswith("discrete") for name in first):
        return on_the_integers(first)
    losses = [1 / one["laplace_b"] for one in at["mechs"] if "laplace_b" in one for _ in range(one.get("count", 1))]
    squares = [one.get("count", 1) / one["gauss_sigma"] ** 2 for one in at["mechs"] if "gauss_sigma" in one]
    if squares:
        rest, kinks = gaussian_profile(math.sqrt(sum(squares))), [0.0]
    else:
        each = losses.pop()
        rest, kinks = laplace_profile(each), [-each, each]
    for each in losses:
        rest = with_laplace(rest, each, kinks)
    return rest


def on_the_integers(one: Inputs) -> Profile:
    """Draw by draw: the losses of discrete Gaussian draws add up to one line in their sum, those of discrete Laplace
    draws are whole steps of 1 / scale.
    """
    shift, count = one.get("sensitivity", 1), one.get("count", 1)
    if "discrete_gauss_sigma" in one:
        s = one["discrete_gauss_sigma"]
        at = np.arange(-int(40 * s), int(40 * s) + 1)
        mass = np.exp(-(at**2) / (2 * s * s))
        total = convolved(mass / mass.sum(), count)
        sums = np.arange(len(total)) + count * at[0]
        losses = (2 * shift * sums + count * shift * shift) / (2 * s * s)
    else:
        b = one["discrete_laplace_b"]
        at = np.arange(-int(60 * b) - shift, int(60 * b) + 1)
        mass = np.exp(-abs(at) / b)
        steps = np.bincount(abs(at + shift) - abs(at) + shift, weights=mass / mass.sum())
        total = convolved(steps, count)
        losses = (np.arange(len(total)) - count * shift) / b

    def delta(e: float) -> float:
        return float(np.sum(total * np.clip(-np.expm1(np.minimum(e - losses, 0.0)), 0, 1)))

    return delta


def convolved(mass: Any, count: int) -> Any:
    total = mass
    for _ in range(count - 1):
        total = np.convolve(total, mass)
    return total


def epsilon_of(curve: Profile, delta: float) -> float:
    if curve(0.0) <= delta:
        return 0.0
    return float(optimize.brentq(lambda e: curve(e) - delta, 0, 60, xtol=1e-13))


# --- noise of k equal queries ---


def each_for(total: Callable[[float], float], epsilon: float) -> float:
    return float(optimize.brentq(lambda e: total(e) - epsilon, 1e-7, epsilon + 1, xtol=1e-14))


def laplace_each(method: str, at: Inputs) -> Any:
    """The epsilon of one Laplace draw."""
    epsilon, delta, k = float(at["eps"]), at["delta"], at["k"]
    if method == "basic":
        return epsilon / k
    if method == "adv textbook (8k)":
        return epsilon / math.sqrt(8 * k * math.log(1 / delta))
    if method == "zCDP CKS":
        return math.sqrt(2 * rho_for(epsilon, delta) / k)
    if method == "zCDP BS":
        gap = math.log(1 / delta)
        return math.sqrt(2 / k) * (math.sqrt(gap + epsilon) - math.sqrt(gap))

    def renyi(e: float) -> Callable[[float], float]:
        return lambda a: k * laplace_prop6(1 / e, a)

    totals: dict[str, Callable[[float], Any]] = {
        "DRV": lambda e: drv([M.mpf(e)] * k, num(delta)),
        "KOV closed (Thm3.5)": lambda e: kov_closed({"eps_multiset": {repr(e): k}, "delta_slack": delta}),
        "RDP Mironov": lambda e: min(k * e, mironov({"mechs": [{"laplace_b": 1 / e, "count": k}], "delta": delta})),
        "RDP CKS": lambda e: min(k * e, cks_epsilon(renyi(e), delta)),
        "PLD": lambda e: epsilon_of(profile({"mechs": [{"laplace_b": 1 / e, "count": k}]}), delta),
    }
    if method == "KOV optimal":
        return optimize.brentq(
            lambda e: float(M.log(equal_delta(M.mpf(e), M.mpf(0), k, M.mpf(epsilon)) / delta)),
            epsilon / k * 1.0000001,
            epsilon,
            xtol=1e-14,
        )
    return each_for(lambda e: float(totals[method](e)), epsilon)


def gaussian_std(method: str, at: Inputs) -> Any:
    epsilon, delta, k = float(at["eps"]), at["delta"], at["k"]
    if method == "exact (analytic)":
        return math.sqrt(k) / gauss_mu(num(epsilon), num(delta))
    if method == "basic+analytic":
        return 1 / gauss_mu(num(epsilon) / k, num(delta) / k)
    if method == "basic+classic":
        return math.sqrt(2 * math.log(1.25 * k / delta)) * k / epsilon if epsilon / k < 1 else REFUSED
    if method in ("zCDP CKS", "RDP CKS"):
        return math.sqrt(k / (2 * rho_for(epsilon, delta)))
    if method in ("zCDP BS", "RDP Mironov"):
        gap = math.log(1 / delta)
        return math.sqrt(k / 2) / (math.sqrt(gap + epsilon) - math.sqrt(gap))
    raise KeyError(method)


def calibrated(at: Inputs) -> Any:
    noise, method = at["method"].split(" ", 1)
    return math.sqrt(2) / laplace_each(method, at) if noise == "L" else gaussian_std(method, at)


# --- optimal designs, by searches that know no closed form ---


def least(error: Callable[[Any], float], budget: Callable[[Any], float], count: int) -> list[float]:
    """Minimises an error over positive numbers, whose logarithms are searched, at budget 0."""
    found = optimize.minimize(
        lambda x: error(np.exp(x)),
        np.full(count, 1.0),
        constraints={"type": "eq", "fun": lambda x: budget(np.exp(x))},
        options={"ftol": 1e-15, "maxiter": 1000},
        method="SLSQP",
    )
    return [float(value) for value in np.exp(found.x)]


def weighted(at: Inputs) -> list[float]:
    d, w, mu = np.array(at["D"]), np.array(at["w"]), float(gauss_mu(num(at["eps"]), num(at["delta"])))
    scaled = least(
        lambda s: math.log(float(np.sum(w * s * s))), lambda s: math.log(float(np.sum(d * d / s / s))), len(d)
    )
    return [s / mu for s in scaled]


def laplace_shares(at: Inputs) -> list[float]:
    d, w = np.array(at["D"]), np.array(at["w"])
    scaled = least(lambda e: math.log(float(np.sum(w * (d / e) ** 2))), lambda e: math.log(float(np.sum(e))), len(d))
    return [at["eps"] * e for e in scaled]


def minimax(at: Inputs) -> list[float]:
    """The largest ratio to the target as a variable of its own, as small as the budget allows."""
    d, t, mu = np.array(at["D"]), np.array(at["t"]), float(gauss_mu(num(at["eps"]), num(at["delta"])))
    worst = optimize.brentq(lambda c: float(np.sum((d / (c * t)) ** 2)) - mu * mu, 1e-6, 1e6, xtol=1e-14)
    return [float(worst * target) for target in t]


def smallest(at: Inputs) -> Any:
    return gauss_epsilon(
        M.sqrt(M.fsum((num(d) / num(t)) ** 2 for d, t in zip(at["D"], at["t"], strict=True))), num(at["delta"])
    )


def marginal_rows(sizes: Sequence[int], ways: Sequence[int]) -> list[Any]:
    """The 0/1 matrix of each marginal, cells by combinations of values."""
    tables = []
    for way in ways:
        for axes in combinations(range(len(sizes)), way):
            matrix: Any = np.ones((1, 1))
            for i, size in enumerate(sizes):
                matrix = np.kron(matrix, np.eye(size) if i in axes else np.ones((1, size)))
            tables.append(matrix)
    return tables


def nuclear(matrix: Any) -> float:
    return float(np.linalg.svd(matrix, compute_uv=False).sum())


def marginals_rmse(at: Inputs) -> float:
    """The optimum over all Gaussian mechanisms: the squared nuclear norm over the number of combinations.

    Edmonds, Nikolov and Ullman 2020: the largest over weights of records; by symmetry equal weights are the largest.
    """
    rows = np.vstack(marginal_rows(at["domain"], at["ways"]))
    return math.sqrt(nuclear(rows) ** 2 / (rows.size * at["pcost"]))


def marginals_maximum(at: Inputs) -> float:
    """The same at the least favourable weights of the tables, each spread over its cells."""
    tables = marginal_rows(at["domain"], at["ways"])

    def value(weights: Any) -> float:
        scaled = [math.sqrt(w / len(table)) * table for w, table in zip(weights, tables, strict=True)]
        return float(nuclear(np.vstack(scaled)) ** 2 / (tables[0].shape[1] * at["pcost"]))

    return largest_over_weights(value, len(tables))


def largest_over_weights(value: Callable[[Any], float], count: int) -> float:
    def shares(x: Any) -> Any:
        return np.exp(x - x.max()) / np.exp(x - x.max()).sum()

    options = {"xatol": 1e-11, "fatol": 1e-14, "maxiter": 40000, "maxfev": 40000}
    found = optimize.minimize(lambda x: -value(shares(x)), np.zeros(count), method="Nelder-Mead", options=options)
    return float(-found.fun)


def elliptic(at: Inputs) -> float:
    """The optimum for the one-way marginals of k binary attributes, whose cells are alike: k counts and the rest."""
    return marginals_rmse({"domain": [2] * at["k"], "ways": [1], "pcost": at["mu"] ** 2})


def ball_std(at: Inputs, norm: Callable[[Sequence[int]], int]) -> float:
    """Points of the whole-number ball of radius r, and their sum of squares, are polynomials in r (Ehrhart): their
    leading coefficients, by differences, are the volume of the ball and its second moment, exactly.
    """
    k = at["k"]
    squares, points = [], []
    for r in range(k + 3):
        inside = [z for z in product(range(-r, r + 1), repeat=k) if norm(z) <= r]
        points.append(len(inside))
        squares.append(sum(z[0] ** 2 for z in inside))
    volume = sum((-1) ** (k - i) * math.comb(k, i) * points[i] for i in range(k + 1)) / math.factorial(k)
    n = k + 2
    moment = sum((-1) ** (n - i) * math.comb(n, i) * squares[i] for i in range(n + 1)) / math.factorial(n)
    radius: float = (k + 1) * (k + 2) / at["eps"] ** 2  # the mean square of a Gamma(k + 1, 1 / eps)
    return math.sqrt(moment / volume * radius)


def responses(at: Inputs) -> Any:
    found = re.search(r"p=([\d.]+),k=2\), count=(\d+), .*delta=([\d.e-]+)", at["event"])
    assert found is not None
    false = num(found[1]) / 2
    return {"correct": equal_epsilon(M.log((1 - false) / false), M.mpf(0), int(found[2]), num(found[3]))}


PLANNING: dict[str, Callable[[Inputs], Any]] = {
    "pld_eps": lambda at: epsilon_of(profile(at), at["delta"]),
    "calibrate_std": calibrated,
    "calibrate_laplace_b": lambda at: 1 / laplace_each("PLD", at),
    "alloc_gauss_weighted": weighted,
    "alloc_laplace_weighted_var": laplace_shares,
    "alloc_gauss_minimax": minimax,
    "smallest_eps": smallest,
    "residual_planner_rmse": marginals_rmse,
    "residual_planner_maxvar": marginals_maximum,
    "elliptic_count_std": elliptic,
    "linf_knorm_std": lambda at: ball_std(at, lambda z: max(map(abs, z))),
    "count_knorm_std": lambda at: ball_std(at, lambda z: max(0, *z) + max(0, *(-x for x in z))),
    "regression": responses,
}
