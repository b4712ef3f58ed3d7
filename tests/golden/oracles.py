"""Independent answers for the kinds of ``kinds``: other formulas, in 40 digits, by sums, integrals and searches.

Nothing here calls the package under test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import mpmath
import numpy as np
from scipy import optimize

__all__ = ["ORACLES", "REFUSED"]

REFUSED = "refused"
Inputs = Mapping[str, Any]

M: Any = mpmath.mp.clone()
M.dps = 40


def num(value: float | str) -> Any:
    return M.mpf(str(value))


def root(falling: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Where a falling function crosses zero, by halving."""
    low, high = M.mpf(low), M.mpf(high)
    for _ in range(110):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return high


# --- boxes ---


def subsets_delta(epsilons: Sequence[Any], epsilon: Any) -> Any:
    """Over all 2^n outcomes of n randomized responses."""
    p = [M.exp(e) / (1 + M.exp(e)) for e in epsilons]
    total = M.mpf(0)
    for truths in product((True, False), repeat=len(p)):
        true = M.fprod(q if t else 1 - q for q, t in zip(p, truths, strict=True))
        false = M.fprod(1 - q if t else q for q, t in zip(p, truths, strict=True))
        total += max(M.mpf(0), true - M.exp(epsilon) * false)
    return total


def equal_delta(each: Any, own: Any, k: int, epsilon: Any) -> Any:
    """Kairouz, Oh and Viswanath 2017, Theorem 3.3, as printed."""
    kept = M.fsum(
        M.binomial(k, i) * max(M.mpf(0), M.exp((k - i) * each) - M.exp(epsilon + i * each)) for i in range(k + 1)
    )
    return 1 - (1 - own) ** k * (1 - kept / (1 + M.exp(each)) ** k)


def equal_epsilon(each: Any, own: Any, k: int, delta: Any) -> Any:
    if 1 - (1 - own) ** k > delta:
        return REFUSED
    return root(lambda e: equal_delta(each, own, k, e) - delta, 0, k * each)


def drv(epsilons: Sequence[Any], slack: Any) -> Any:
    squares = M.fsum(e**2 for e in epsilons)
    return M.sqrt(2 * M.log(1 / slack) * squares) + M.fsum(e * (M.exp(e) - 1) for e in epsilons)


def textbook(at: Inputs) -> Any:
    e, k, slack = num(at["eps"]), at["k"], num(at["delta_slack"])
    if M.exp(e) - 1 > M.sqrt(2 * M.log(1 / slack) / k):
        return REFUSED
    return e * M.sqrt(8 * k * M.log(1 / slack))


def kov_closed(at: Inputs) -> Any:
    epsilons = [num(e) for e, n in at["eps_multiset"].items() for _ in range(n)]
    slack, squares = num(at["delta_slack"]), M.fsum(e**2 for e in epsilons)
    drift = M.fsum((M.exp(e) - 1) * e / (M.exp(e) + 1) for e in epsilons)
    return min(
        M.fsum(epsilons),
        drift + M.sqrt(2 * squares * M.log(M.e + M.sqrt(squares) / slack)),
        drift + M.sqrt(2 * squares * M.log(1 / slack)),
    )


# --- Gaussian noise ---


def gauss_delta(mu: Any, epsilon: Any) -> Any:
    """The integral of max(0, p - exp(epsilon) q) for N(mu, 1) and N(0, 1)."""
    start = epsilon / mu + mu / 2
    cuts = [start, start + 1, start + 2, start + 4, start + 8, start + 30]
    return M.quad(lambda x: M.npdf(x, mu) - M.exp(epsilon) * M.npdf(x), cuts)


def gauss_fast(mu: Any, epsilon: Any) -> Any:
    return M.ncdf(mu / 2 - epsilon / mu) - M.exp(epsilon) * M.ncdf(-mu / 2 - epsilon / mu)


def gauss_epsilon(mu: Any, delta: Any) -> Any:
    return root(lambda e: gauss_fast(mu, e) - delta, 0, 200)


def gauss_mu(epsilon: Any, delta: Any) -> Any:
    return 1 / root(lambda s: gauss_fast(1 / s, epsilon) - delta, "0.01", 10000)


def composition(at: Inputs) -> Any:
    pairs = zip(at["sigmas"], at["sensitivities"], strict=True)
    mu = M.sqrt(M.fsum((num(d) / num(s)) ** 2 for s, d in pairs))
    return {"mu": mu, "eps": gauss_epsilon(mu, num(at["delta"]))}


def classic(at: Inputs) -> Any:
    if not 0 < at["eps"] < 1:
        return REFUSED
    return M.sqrt(2 * M.log(num("1.25") / num(at["delta"]))) * num(at["sensitivity"]) / num(at["eps"])


# --- Renyi ---


def laplace_renyi(at: Inputs) -> Any:
    b, s, a = num(at["b"]), num(at["sensitivity"]), num(at["alpha"])

    def integrand(x: Any) -> Any:
        return M.exp(-a * abs(x) / b - (1 - a) * abs(x - s) / b) / (2 * b)

    inside = M.quad(integrand, [-60 * b, -10 * b, 0, s / 2, s, s + 10 * b, s + 60 * b])
    return M.log(inside) / (a - 1)


def response_renyi(at: Inputs) -> Any:
    p, a = num(at["p"]), num(at["alpha"])
    return M.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)


def range_renyi(at: Inputs) -> Any:
    e, a = num(at["eps"]), num(at["alpha"])
    t = e / (M.exp(e) - 1)
    return min(e, a * e**2 / 8, t - 1 - M.log(t) - e**2 / 8 + a * e**2 / 8)


def laplace_prop6(b: float, a: float) -> float:
    """Mironov 2017, Proposition 6, for sensitivity 1."""
    first = math.log(a / (2 * a - 1)) + (a - 1) / b
    second = math.log((a - 1) / (2 * a - 1)) - a / b
    return float(np.logaddexp(first, second)) / (a - 1)


def renyi_sum(at: Inputs) -> Callable[[float], float]:
    def total(a: float) -> float:
        value = 0.0
        for one in at["mechs"]:
            n = one.get("count", 1)
            if "laplace_b" in one:
                value += n * laplace_prop6(one["laplace_b"], a)
            else:
                value += n * a / (2 * one["gauss_sigma"] ** 2)
        return value

    return total


def over_orders(objective: Callable[[float], float]) -> float:
    """The least value over all orders above 1: a dense grid, then a search about its best."""
    logs = np.linspace(-6, 9, 600)
    values = [objective(1 + math.exp(t)) for t in logs]
    at = int(np.argmin(values))
    bounds = (logs[max(at - 1, 0)], logs[min(at + 1, len(logs) - 1)])
    found = optimize.minimize_scalar(
        lambda t: objective(1 + math.exp(t)), bounds=bounds, method="bounded", options={"xatol": 1e-10}
    )
    return float(found.fun)


def cks_epsilon(curve: Callable[[float], float], delta: float) -> float:
    return over_orders(lambda a: curve(a) + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1))


def cks_delta(curve: Callable[[float], float], epsilon: float) -> float:
    log_delta = over_orders(lambda a: (a - 1) * (curve(a) - epsilon) - math.log(a - 1) + a * math.log1p(-1 / a))
    return math.exp(min(0.0, log_delta))


def mironov(at: Inputs) -> float:
    curve, delta = renyi_sum(at), at["delta"]
    return over_orders(lambda a: curve(a) - math.log(delta) / (a - 1))


def rho_for(epsilon: float, delta: float) -> float:
    return float(
        optimize.brentq(lambda rho: cks_epsilon(lambda a: a * rho, delta) - epsilon, 1e-9, epsilon + 1, xtol=1e-15)
    )


def bun_steinke(at: Inputs) -> Any:
    rho = num(at["rho"])
    return rho + 2 * M.sqrt(rho * M.log(1 / num(at["delta"])))


# --- single draws on the integers ---


def lattice_delta(log_mass: Callable[[int], Any], shift: int, epsilon: Any, reach: int) -> Any:
    """The sum of max(0, P(k) - exp(epsilon) P(k + shift)), with the masses normalised."""
    masses = {k: M.exp(log_mass(k)) for k in range(-reach, reach + shift + 1)}
    total = M.fsum(masses.values())
    grow = M.exp(epsilon)
    return M.fsum(max(M.mpf(0), masses[k] - grow * masses[k + shift]) for k in range(-reach, reach + 1)) / total


def discrete_gaussian(at: Inputs) -> Any:
    s = num(at["sigma"])
    return lattice_delta(lambda k: -(M.mpf(k) ** 2) / (2 * s**2), at["sensitivity"], num(at["eps"]), int(25 * s) + 20)


def discrete_laplace(at: Inputs) -> Any:
    a = num(at["a"])
    return lattice_delta(lambda k: -abs(k) * a, at["sensitivity"], num(at["eps"]), int(70 / a) + 20)


# --- groups, thresholds, selection ---


def group(at: Inputs) -> Any:
    """Step by step along a chain of neighbours."""
    k = at["k"]
    if "rho" in at:
        return {"rho": k**2 * num(at["rho"])}
    if "mu" in at:
        return {"mu": k * num(at["mu"])}
    e, d = num(at["eps"]), num(at["delta"])
    return {"eps": k * e, "delta": M.fsum(d * M.exp(i * e) for i in range(k))}


def parallel(at: Inputs) -> Any:
    """The dearest way in which one changed record can touch the parts."""
    rhos = [num(r) for r in at["rho"]]
    touched = 1 if at["neighbours"] == "add_remove" else min(2, len(rhos))
    return {"rho": max(M.fsum(some) for some in combinations(rhos, touched))}


def any_of(p: Any, l0: int) -> Any:
    return 1 - (1 - p) ** l0


def gaussian_threshold(at: Inputs) -> Any:
    s, start = num(at["sigma"]), M.mpf(at["threshold"] - at["linf"])
    return any_of(M.quad(lambda x: M.npdf(x, 0, s), [start, start + s, start + 4 * s, start + 30 * s]), at["l0"])


def laplace_threshold(at: Inputs) -> Any:
    b = num(at["b"])
    start = at["threshold"] - at["linf"] + 1
    mass = M.fsum(M.exp(-abs(M.mpf(k)) / b) for k in range(-3000, 3000))
    return any_of(M.fsum(M.exp(-M.mpf(k) / b) for k in range(start, 3000)) / mass, at["l0"])


def partition(at: Inputs) -> Any:
    """Desfontaines et al. 2022, Theorem 1: the closed form, not the recursion."""
    e, d, n = num(at["eps"]), num(at["delta"]), at["n"]
    grow = M.exp(e)
    first = 1 + int(M.floor(M.log((grow + 2 * d - 1) / ((grow + 1) * d)) / e))
    low = (M.exp(min(n, first) * e) - 1) / (grow - 1) * d
    if n <= first:
        return low
    second = first + int(M.floor(M.log(1 + (grow - 1) / d * (1 - low)) / e))
    if n > second:
        return M.mpf(1)
    fade = M.exp(-(n - first) * e)
    return (1 - fade) * (1 + d / (grow - 1)) + fade * low


def laplace_tau(at: Inputs) -> Any:
    """The threshold over which l0 keys of one unit each go with probability delta: by a root, not by the formula."""
    b, l0 = at["l0"] / num(at["eps"]), at["l0"]
    return root(lambda t: any_of(M.exp(-(t - 1) / b) / 2, l0) - num(at["delta"]), 1, 10**6)


def sparse_histogram(at: Inputs) -> Any:
    e, s, k = num(at["eps"]), num(at["sigma"]), at["k"]
    below = M.ncdf(num(at["tau_minus_1"]) / s)
    found = []
    for shared in range(k + 1):
        kept = below ** (k - shared)
        added, removed = e - M.log(kept), e + M.log(kept)
        if shared:
            mu = M.sqrt(shared) / s
            found += [1 - kept + kept * gauss_fast(mu, added), gauss_fast(mu, removed)]
        else:
            found += [1 - kept + kept * max(0, 1 - M.exp(added)), max(0, 1 - M.exp(removed))]
    return max(found)


ORACLES: dict[str, Callable[[Inputs], Any]] = {
    "basic": lambda at: {"eps": M.fsum(map(num, at["eps"])), "delta": M.fsum(map(num, at["delta"]))},
    "advanced_drv": lambda at: drv([num(at["eps"])] * at["k"], num(at["delta_slack"])),
    "advanced_drv_heterogeneous": lambda at: drv([num(e) for e in at["eps"]], num(at["delta_slack"])),
    "advanced_textbook_8k": textbook,
    "kov_homogeneous": lambda at: equal_epsilon(num(at["eps"]), num(at["delta_each"]), at["k"], num(at["delta"])),
    "kov_heterogeneous_delta": lambda at: subsets_delta([num(e) for e in at["eps"]], num(at["eps_total"])),
    "kov_heterogeneous_eps": lambda at: root(
        lambda e: subsets_delta([num(one) for one in at["eps"]], e) - num(at["delta"]), 0, sum(at["eps"])
    ),
    "kov_closed_form_thm3.5": kov_closed,
    "analytic_gaussian_eps": lambda at: gauss_epsilon(num(at["sensitivity"]) / num(at["sigma"]), num(at["delta"])),
    "analytic_gaussian_sigma": lambda at: num(at["sensitivity"]) / gauss_mu(num(at["eps"]), num(at["delta"])),
    "gdp_delta": lambda at: gauss_delta(num(at["mu"]), num(at["eps"])),
    "gaussian_composition": composition,
    "classic_gaussian": classic,
    "rdp_laplace": laplace_renyi,
    "rdp_gaussian": lambda at: num(at["alpha"]) * (num(at["sensitivity"]) / num(at["sigma"])) ** 2 / 2,
    "rdp_randomized_response": response_renyi,
    "rdp_exponential_mechanism": range_renyi,
    "rdp_to_dp_cks": lambda at: cks_epsilon(renyi_sum(at), at["delta"]),
    "rdp_to_delta_cks": lambda at: cks_delta(renyi_sum(at), at["eps"]),
    "rdp_to_dp_mironov": mironov,
    "zcdp_to_eps_cks": lambda at: cks_epsilon(lambda a: a * at["rho"], at["delta"]),
    "zcdp_to_delta_cks": lambda at: cks_delta(lambda a: a * at["rho"], at["eps"]),
    "zcdp_rho_for": lambda at: rho_for(at["eps"], at["delta"]),
    "zcdp_to_eps_bs16": bun_steinke,
    "discrete_gaussian_delta": discrete_gaussian,
    "discrete_laplace_delta": discrete_laplace,
    "group_privacy": group,
    "parallel": parallel,
    "noisy_max_rho": lambda at: ((1 if at["monotone"] else 2) * num(at["linf"]) / num(at["scale"])) ** 2 / 8,
    "gaussian_threshold_delta": gaussian_threshold,
    "laplace_threshold_delta": laplace_threshold,
    "partition_pi": partition,
    "laplace_tau": laplace_tau,
    "gshm_delta": sparse_histogram,
}
