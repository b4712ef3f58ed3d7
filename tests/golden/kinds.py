"""Every kind of golden case, and the public function of dprelease that answers it: a closed table.

A case is a mapping of inputs. Floats are read by their shortest text, so that 0.1 is a tenth exactly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from bench.methods import METHODS
from dprelease.errors import UnsupportedEvent
from dprelease.plan.design.residuals import Workload, max_variance, rmse
from dprelease.privacy import group
from dprelease.privacy.accountants.advanced import Advanced, drv_epsilon
from dprelease.privacy.accountants.basic import Basic
from dprelease.privacy.accountants.kov import (
    kov_closed_epsilon,
    kov_delta_unequal,
    kov_epsilon_unequal,
)
from dprelease.privacy.accountants.pld import Pld
from dprelease.privacy.accountants.rdp import Rdp, curve_of
from dprelease.privacy.accountants.zcdp import Zcdp, total_rho
from dprelease.privacy.event import (
    Approximate,
    Composed,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Parallel,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.privacy.theorems import gaussian, single, threshold
from dprelease.privacy.theorems.concentrated import rho_to_delta, rho_to_epsilon
from dprelease.privacy.unit import Neighboring
from tests import reference_comparisons as compared
from tests import reference_splits as split
from tests import reference_thresholds
from tests.reference_textbook import textbook_epsilon

__all__ = ["KINDS", "Answer", "Inputs", "exact", "responses"]

Inputs = Mapping[str, Any]
Answer = Any  # a number, a list of them, or a mapping to them, as in the case

ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
CPS = (50, 100, 7, 4, 2)
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)
DOMAINS = {"Adult": ADULT, "CPS": CPS, "Loans": LOANS}


def exact(value: float) -> Fraction:
    """The rational that the shortest text of a number stands for."""
    return Fraction(repr(value))


def _all(values: list[float]) -> list[Fraction]:
    return [exact(value) for value in values]


def _cell(at: Inputs) -> Sensitivity:
    return Sensitivity.of_one_cell(int(at.get("sensitivity", 1)))


NOISES: dict[str, Callable[[Fraction, Sensitivity], Event]] = {
    "laplace_b": lambda scale, s: Laplace(scale=scale, sensitivity=s),
    "gauss_sigma": lambda scale, s: Gaussian(scale=scale, sensitivity=s),
    "discrete_laplace_b": lambda scale, s: DiscreteLaplace(scale=scale, sensitivity=s),
    "discrete_gauss_sigma": lambda scale, s: DiscreteGaussian(scale=scale, sensitivity=s),
}


def _event(at: Inputs) -> Event:
    draws = []
    for mechanism in at["mechs"]:
        (name,) = NOISES.keys() & mechanism.keys()
        one = NOISES[name](exact(mechanism[name]), _cell(mechanism))
        draws.append(Repeated(event=one, count=mechanism.get("count", 1)))
    return Composed(events=tuple(draws))


def _basic(at: Inputs) -> Answer:
    boxes = zip(_all(at["eps"]), _all(at["delta"]), strict=True)
    event = Composed(events=tuple(Approximate(epsilon=e, delta=d) for e, d in boxes))
    total = Basic().delta(event, sum(_all(at["eps"]), Fraction(0)))
    return {"eps": Basic().epsilon(event, total), "delta": total}


def _kov(at: Inputs) -> Answer:
    each = exact(at["eps"]), exact(at["delta_each"])
    found = compared.kov_epsilon(*each, at["k"], exact(at["delta"]))
    event = Repeated(event=Approximate(epsilon=each[0], delta=each[1]), count=at["k"])
    # the optimum is what the accountant of that name reports for these boxes
    assert math.isclose(Advanced().epsilon(event, exact(at["delta"])), found, rel_tol=1e-12)
    return found


def _kov_closed(at: Inputs) -> Answer:
    return kov_closed_epsilon({Fraction(e): n for e, n in at["eps_multiset"].items()}, exact(at["delta_slack"]))


def _mu_squared(at: Inputs) -> Fraction:
    return (exact(at["sensitivity"]) / exact(at["sigma"])) ** 2


def _gaussian_composition(at: Inputs) -> Answer:
    squared = compared.composed_mu_squared(_all(at["sigmas"]), _all(at["sensitivities"]))
    return {"mu": math.sqrt(squared), "eps": gaussian.epsilon(squared, exact(at["delta"]))}


def _mironov(at: Inputs) -> Answer:
    return compared.mironov_epsilon(curve_of(_event(at)), exact(at["delta"]))


def _zcdp_epsilon(at: Inputs) -> Answer:
    rho, delta = exact(at["rho"]), exact(at["delta"])
    found = rho_to_epsilon(rho, delta)
    assert Zcdp().epsilon(Concentrated(rho=rho), delta) == found
    return found


def _one_draw(noise: str, scale: Fraction, at: Inputs) -> Answer:
    return single.delta(NOISES[noise](scale, _cell(at)), exact(at["eps"]))


def _calibrate(at: Inputs) -> Answer:
    found = METHODS[at["method"]](exact(at["eps"]), exact(at["delta"]), at["k"])
    if found is None:
        raise UnsupportedEvent(f"{at['method']} is not proved for this budget", hint="take another method")
    return found * at["sensitivity"]


def _calibrate_laplace(at: Inputs) -> Answer:
    return _calibrate({**at, "method": "L PLD", "sensitivity": 1}) / math.sqrt(2)


def _group(at: Inputs) -> Answer:
    k = at["k"]
    if "rho" in at:
        return {"rho": group.concentrated(exact(at["rho"]), k)}
    if "mu" in at:
        return {"mu": k * exact(at["mu"])}  # Dong, Roth and Su 2022, Theorem 2.14
    return dict(zip(("eps", "delta"), group.approximate(exact(at["eps"]), exact(at["delta"]), k), strict=True))


def _parallel(at: Inputs) -> Answer:
    parts = tuple(Concentrated(rho=rho) for rho in _all(at["rho"]))
    return {"rho": total_rho(Parallel(events=parts, neighboring=Neighboring(at["neighbours"])))}


def _threshold(tail: Callable[[Fraction, int], Any], scale: str) -> Callable[[Inputs], Answer]:
    return lambda at: reference_thresholds.above_delta(tail, exact(at[scale]), at["threshold"], at["l0"], at["linf"])


def _mu(at: Inputs) -> float:
    return 1 / float(compared.gaussian_sigma(Fraction(1), exact(at["eps"]), exact(at["delta"])))


def _smallest_epsilon(at: Inputs) -> Answer:
    return gaussian.epsilon(exact(split.smallest_mu(at["D"], at["t"])) ** 2, exact(at["delta"]))


def _marginals(of: Callable[[Workload, float], float]) -> Callable[[Inputs], Answer]:
    def answer(at: Inputs) -> Answer:
        sizes = DOMAINS[at["domain"]] if isinstance(at["domain"], str) else at["domain"]
        return of(Workload.ways(sizes, at["ways"]), at["pcost"])

    return answer


def responses(at: Inputs) -> tuple[Fraction, int, Fraction]:
    """Of a case about randomized response: how often it tells the truth, out of two answers; draws; delta.

    p is how often a uniform one of the two answers is given instead of the true one.
    """
    pattern = r"RandomizedResponseDpEvent\(p=([\d.]+),k=2\), count=(\d+), REPLACE_ONE, delta=([\d.e-]+)"
    found = re.fullmatch(pattern, at["event"])
    assert found is not None
    return 1 - Fraction(found[1]) / 2, int(found[2]), Fraction(found[3])


def _randomized_response(at: Inputs) -> Answer:
    """The events of a bug elsewhere, which counts n draws as one; here n draws and one n times are the same."""
    truth, count, delta = responses(at)
    once = Approximate(epsilon=upper(CONTEXT.log(real(truth / (1 - truth)))))
    repeated, listed = Repeated(event=once, count=count), Composed(events=(once,) * count)
    assert Pld().epsilon(repeated, delta) == Pld().epsilon(listed, delta)
    return {"correct": Pld().epsilon(repeated, delta)}


KINDS: dict[str, Callable[[Inputs], Answer]] = {
    "basic": _basic,
    "advanced_drv": lambda at: drv_epsilon({exact(at["eps"]): at["k"]}, exact(at["delta_slack"])),
    "advanced_drv_heterogeneous": lambda at: drv_epsilon(_all(at["eps"]), exact(at["delta_slack"])),
    "advanced_textbook_8k": lambda at: textbook_epsilon(exact(at["eps"]), at["k"], exact(at["delta_slack"])),
    "kov_homogeneous": _kov,
    "kov_heterogeneous_delta": lambda at: kov_delta_unequal(_all(at["eps"]), {}, exact(at["eps_total"])),
    "kov_heterogeneous_eps": lambda at: kov_epsilon_unequal(_all(at["eps"]), {}, exact(at["delta"])),
    "kov_closed_form_thm3.5": _kov_closed,
    "analytic_gaussian_eps": lambda at: gaussian.epsilon(_mu_squared(at), exact(at["delta"])),
    "analytic_gaussian_sigma": lambda at: compared.gaussian_sigma(
        exact(at["sensitivity"]), exact(at["eps"]), exact(at["delta"])
    ),
    "gdp_delta": lambda at: gaussian.delta(exact(at["mu"]) ** 2, exact(at["eps"])),
    "gaussian_composition": _gaussian_composition,
    "classic_gaussian": lambda at: compared.classic_sigma(
        exact(at["eps"]), exact(at["delta"]), exact(at["sensitivity"])
    ),
    "rdp_laplace": lambda at: compared.shifted_divergence(exact(at["b"]), exact(at["sensitivity"]), exact(at["alpha"])),
    "rdp_gaussian": lambda at: exact(at["alpha"]) * _mu_squared(at) / 2,
    "rdp_randomized_response": lambda at: compared.response_divergence(exact(at["p"]), exact(at["alpha"])),
    "rdp_exponential_mechanism": lambda at: compared.range_divergence(exact(at["eps"]), exact(at["alpha"])),
    "rdp_to_dp_cks": lambda at: Rdp().epsilon(_event(at), exact(at["delta"])),
    "rdp_to_delta_cks": lambda at: Rdp().delta(_event(at), exact(at["eps"])),
    "rdp_to_dp_mironov": _mironov,
    "zcdp_to_eps_cks": _zcdp_epsilon,
    "zcdp_to_delta_cks": lambda at: rho_to_delta(exact(at["rho"]), exact(at["eps"])),
    "zcdp_rho_for": lambda at: compared.epsilon_to_rho(exact(at["eps"]), exact(at["delta"])),
    "zcdp_to_eps_bs16": lambda at: compared.bun_steinke_epsilon(exact(at["rho"]), exact(at["delta"])),
    "pld_eps": lambda at: Pld().epsilon(_event(at), exact(at["delta"])),
    "discrete_gaussian_delta": lambda at: _one_draw("discrete_gauss_sigma", exact(at["sigma"]), at),
    "discrete_laplace_delta": lambda at: _one_draw("discrete_laplace_b", 1 / exact(at["a"]), at),
    "calibrate_std": _calibrate,
    "calibrate_laplace_b": _calibrate_laplace,
    "group_privacy": _group,
    "parallel": _parallel,
    "noisy_max_rho": lambda at: compared.noisy_max_rho(exact(at["scale"]), exact(at["linf"]), at["monotone"]),
    "gaussian_threshold_delta": _threshold(threshold.continuous_tail, "sigma"),
    "laplace_threshold_delta": _threshold(threshold.laplace_tail, "b"),
    "partition_pi": lambda at: reference_thresholds.partition_pi(exact(at["eps"]), exact(at["delta"]), at["n"]),
    "laplace_tau": lambda at: reference_thresholds.laplace_tau(exact(at["eps"]), exact(at["delta"]), at["l0"]),
    "gshm_delta": lambda at: reference_thresholds.gshm_delta(
        exact(at["eps"]), exact(at["sigma"]), exact(at["tau_minus_1"]), at["k"]
    ),
    "alloc_gauss_weighted": lambda at: list(split.gaussian_weighted(at["D"], at["w"], _mu(at))),
    "alloc_laplace_weighted_var": lambda at: list(split.laplace_weighted_variance(at["D"], at["w"], at["eps"])),
    "alloc_gauss_minimax": lambda at: list(split.gaussian_minimax(at["D"], at["t"], _mu(at))),
    "smallest_eps": _smallest_epsilon,
    "residual_planner_rmse": _marginals(rmse),
    "residual_planner_maxvar": _marginals(max_variance),
    "elliptic_count_std": lambda at: split.elliptic_std(at["k"], at["mu"]),
    "linf_knorm_std": lambda at: compared.linf_knorm_std(at["k"], at["eps"]),
    "count_knorm_std": lambda at: compared.count_knorm_std(at["k"], at["eps"]),
    "regression": _randomized_response,
}
