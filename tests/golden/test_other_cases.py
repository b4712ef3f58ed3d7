"""Cases of every kind that ``accounting.json`` does not have, beside independent answers (``oracles``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import UnsupportedEvent
from tests.golden.kinds import KINDS
from tests.golden.oracles import ORACLES, REFUSED
from tests.golden.oracles_planning import PLANNING

ANSWERS = {**ORACLES, **PLANNING}
GIVEN = json.loads((Path(__file__).parent / "accounting.json").read_text(encoding="utf-8"))["cases"]

EXACT = 1e-10
SEARCHED = 1e-7  # the oracle is a search in floats
CALIBRATED = 3e-7  # ours stops a part in ten million before the budget is used up


def _budget(method: str, eps: float, delta: float, k: int) -> dict[str, Any]:
    return {"method": method, "eps": eps, "delta": delta, "k": k, "sensitivity": 1}


def _response(p: float, count: int, delta: str) -> dict[str, Any]:
    return {"event": f"RandomizedResponseDpEvent(p={p},k=2), count={count}, REPLACE_ONE, delta={delta}"}


MIXED = [{"laplace_b": 3, "count": 1}, {"gauss_sigma": 4, "count": 7}, {"gauss_sigma": 2.5}]

# kind: (tolerance, inputs)
OTHERS: dict[str, tuple[float, list[dict[str, Any]]]] = {
    "basic": (EXACT, [{"eps": [0.25, 1, 0.125], "delta": [0, 1e-9, 3e-6]}, {"eps": [0.7], "delta": [0]}]),
    "advanced_drv": (
        EXACT,
        [{"eps": e, "k": k, "delta_slack": d} for e, k, d in [(2.5, 3, 1e-4), (0.001, 4000, 1e-15), (0.3, 1, 0.01)]],
    ),
    "advanced_drv_heterogeneous": (
        EXACT,
        [{"eps": [1.5, 0.01, 0.01, 0.7], "delta_slack": 1e-10}, {"eps": [0.02] * 40 + [0.4], "delta_slack": 0.001}],
    ),
    "advanced_textbook_8k": (
        EXACT,
        [
            {"eps": e, "k": k, "delta_slack": d}
            for e, k, d in [(0.01, 100, 1e-6), (0.15, 1000, 1e-6), (0.16, 1000, 1e-6), (1.2, 3, 1e-9), (3.0, 50, 1e-5)]
        ],
    ),
    "kov_homogeneous": (
        EXACT,
        [
            {"eps": e, "delta_each": own, "k": k, "delta": d}
            for e, own, k, d in [
                (0.3, 0, 7, 1e-4),
                (0.2, 1e-8, 40, 1e-6),
                (1.0, 0, 25, 1e-12),
                (0.07, 1e-7, 60, 1e-5),
                (0.5, 2e-7, 6, 1e-6),
                (4.0, 0, 2, 1e-20),
            ]
        ],
    ),
    "kov_heterogeneous_delta": (
        EXACT,
        [{"eps": [0.35, 0.05, 1.1, 0.6], "eps_total": t} for t in (0.0, 0.33, 1.5, 2.0999)]
        + [{"eps": [0.11, 0.23, 0.37, 0.41, 0.53, 0.67, 0.71, 0.83, 0.97, 1.03], "eps_total": 2.7}],
    ),
    "kov_heterogeneous_eps": (
        EXACT,
        [{"eps": [0.35, 0.05, 1.1, 0.6], "delta": d} for d in (0.3, 1e-2, 1e-7)]
        + [{"eps": [0.11, 0.23, 0.37, 0.41, 0.53, 0.67], "delta": 1e-3}],
    ),
    "kov_closed_form_thm3.5": (
        EXACT,
        [
            {"eps_multiset": {"0.02": 500, "0.3": 2}, "delta_slack": 1e-5},
            {"eps_multiset": {"0.05": 200, "0.1": 50, "0.15": 30}, "delta_slack": 1e-10},
            {"eps_multiset": {"2": 40}, "delta_slack": 0.2},
        ],
    ),
    "analytic_gaussian_eps": (
        EXACT,
        [
            {"sigma": s, "sensitivity": c, "delta": d}
            for s, c, d in [(1.3, 2, 1e-8), (100, 1, 1e-3), (0.2, 1, 1e-12), (7.5, 3, 1e-30)]
        ],
    ),
    "analytic_gaussian_sigma": (
        EXACT,
        [{"eps": e, "sensitivity": c, "delta": d} for e, c, d in [(2, 3, 1e-7), (0.05, 1, 1e-15), (25, 1, 1e-4)]],
    ),
    "gdp_delta": (EXACT, [{"mu": m, "eps": e} for m, e in [(0.7, 0.0), (0.5, 2.5), (4.0, 3.0), (0.1, 1.0)]]),
    "gaussian_composition": (EXACT, [{"sigmas": [1.5, 2, 9], "sensitivities": [1, 0.5, 6], "delta": 1e-9}]),
    "classic_gaussian": (
        EXACT,
        [
            {"eps": e, "delta": d, "sensitivity": c}
            for e, d, c in [(0.9, 1e-6, 2), (0.05, 1e-9, 1), (1.0, 1e-6, 1), (3.0, 1e-9, 1)]
        ],
    ),
    "rdp_laplace": (
        EXACT,
        [{"b": b, "sensitivity": s, "alpha": a} for b, s, a in [(3.0, 2, 2.5), (0.7, 1, 12.0), (10.0, 1, 1.01)]],
    ),
    "rdp_gaussian": (EXACT, [{"sigma": 0.3, "sensitivity": 1, "alpha": 64.0}]),
    "rdp_randomized_response": (EXACT, [{"p": p, "alpha": a} for p, a in [(0.6, 3.5), (0.99, 1.2), (0.25, 20.0)]]),
    "rdp_exponential_mechanism": (
        EXACT,
        [{"eps": e, "alpha": a} for e, a in [(0.2, 3.0), (2.0, 1.5), (0.5, 4000.0), (3.0, 9.0)]],
    ),
    "rdp_to_dp_cks": (
        SEARCHED,
        [
            {"mechs": [{"gauss_sigma": 3, "count": 4}], "delta": 1e-9},
            {"mechs": [{"laplace_b": 5, "count": 200}, {"gauss_sigma": 30, "count": 10}], "delta": 1e-5},
            {"mechs": [{"laplace_b": 40, "count": 300}], "delta": 1e-8},
        ],
    ),
    "rdp_to_delta_cks": (
        1e-6,
        [
            {"mechs": [{"laplace_b": 20, "count": 200}], "eps": 3.0},
            {"mechs": [{"gauss_sigma": 6, "count": 9}, {"laplace_b": 8, "count": 30}], "eps": 4.0},
        ],
    ),
    "rdp_to_dp_mironov": (
        SEARCHED,
        [
            {"mechs": [{"gauss_sigma": 2, "count": 3}], "delta": 1e-7},
            {"mechs": [{"laplace_b": 12, "count": 150}], "delta": 1e-6},
        ],
    ),
    "zcdp_to_eps_cks": (SEARCHED, [{"rho": r, "delta": d} for r, d in [(0.03, 1e-10), (5.0, 1e-3), (1e-4, 1e-7)]]),
    "zcdp_to_delta_cks": (1e-6, [{"rho": r, "eps": e} for r, e in [(0.2, 3.0), (1.5, 6.0), (0.001, 0.3)]]),
    "zcdp_rho_for": (SEARCHED, [{"eps": e, "delta": d} for e, d in [(3.0, 1e-9), (0.2, 1e-4), (20.0, 1e-12)]]),
    "zcdp_to_eps_bs16": (EXACT, [{"rho": 0.02, "delta": 1e-9}, {"rho": 3.0, "delta": 0.001}]),
    "pld_eps": (
        1e-6,
        [
            {"mechs": [{"laplace_b": 1.5, "count": 2}], "delta": 0.01},
            {"mechs": [{"laplace_b": 4}, {"laplace_b": 0.9}], "delta": 0.05},
            {"mechs": MIXED, "delta": 1e-5},
            {"mechs": [{"gauss_sigma": 5, "count": 30}], "delta": 1e-6},
            {"mechs": [{"discrete_gauss_sigma": 3, "count": 6}], "delta": 1e-6},
            {"mechs": [{"discrete_gauss_sigma": 0.8, "count": 2, "sensitivity": 2}], "delta": 1e-4},
            {"mechs": [{"discrete_laplace_b": 2.5, "count": 5, "sensitivity": 2}], "delta": 1e-3},
            {"mechs": [{"discrete_laplace_b": 20, "count": 60}], "delta": 1e-7},
        ],
    ),
    "discrete_gaussian_delta": (
        EXACT,
        [{"sigma": s, "sensitivity": c, "eps": e} for s, c, e in [(2.5, 3, 2.0), (0.4, 1, 5.0), (7.0, 1, 0.0)]],
    ),
    "discrete_laplace_delta": (
        EXACT,
        [{"a": a, "sensitivity": c, "eps": e} for a, c, e in [(0.25, 1, 0.1), (1.0, 4, 2.5), (0.1, 7, 0.0)]],
    ),
    "calibrate_std": (
        CALIBRATED,
        [
            *(_budget(f"L {name}", 2.0, 1e-5, 60) for name in ("basic", "DRV", "KOV closed (Thm3.5)", "KOV optimal")),
            *(_budget(f"L {name}", 2.0, 1e-5, 60) for name in ("zCDP BS", "zCDP CKS", "RDP Mironov", "RDP CKS")),
            _budget("L adv textbook (8k)", 0.5, 1e-8, 30),
            _budget("L PLD", 0.5, 0.01, 2),
            *(_budget(f"G {name}", 3.0, 1e-8, 12) for name in ("basic+classic", "basic+analytic", "zCDP BS")),
            *(_budget(f"G {name}", 3.0, 1e-8, 12) for name in ("zCDP CKS", "RDP Mironov", "RDP CKS")),
            _budget("G exact (analytic)", 3.0, 1e-8, 12),
            _budget("G basic+classic", 3.0, 1e-8, 2),
        ],
    ),
    "calibrate_laplace_b": (CALIBRATED, [{"eps": 1.5, "delta": 0.02, "k": 2}]),
    "group_privacy": (
        EXACT,
        [
            {"eps": 0.4, "delta": 1e-7, "k": 5},
            {"rho": 0.3, "k": 7},
            {"mu": 1.2, "k": 2},
            {"eps": 2, "delta": 0, "k": 1},
        ],
    ),
    "parallel": (
        EXACT,
        [
            {"rho": rho, "neighbours": neighbours}
            for rho in ([0.4, 0.05, 0.4], [0.2], [0.01, 0.02, 0.03, 0.04])
            for neighbours in ("add_remove", "replace_one")
        ],
    ),
    "noisy_max_rho": (
        EXACT,
        [{"scale": 2.0, "linf": 1, "monotone": False}, {"scale": 5.0, "linf": 3, "monotone": True}],
    ),
    "gaussian_threshold_delta": (
        EXACT,
        [
            {"sigma": s, "threshold": t, "l0": n, "linf": c}
            for s, t, n, c in [(3.0, 25, 8, 1), (12.0, 40, 1, 5), (5.0, 60, 100, 2)]
        ],
    ),
    "laplace_threshold_delta": (
        EXACT,
        [{"b": b, "threshold": t, "l0": n, "linf": c} for b, t, n, c in [(2.0, 30, 5, 1), (4.0, 50, 20, 3)]],
    ),
    "partition_pi": (
        EXACT,
        [{"eps": e, "delta": d, "n": n} for e, d in [(0.5, 1e-5), (2.0, 1e-8)] for n in (0, 1, 3, 9, 12, 20, 25, 60)],
    ),
    "laplace_tau": (EXACT, [{"eps": 0.5, "delta": 1e-8, "l0": 4}, {"eps": 2, "delta": 1e-5, "l0": 30}]),
    "gshm_delta": (
        EXACT,
        [
            {"eps": e, "sigma": s, "tau_minus_1": t, "k": k}
            for e, s, t, k in [(0.5, 6.0, 20.0, 1), (1.0, 5.0, 25.0, 3), (2.0, 20.0, 100.0, 40)]
        ],
    ),
    "alloc_gauss_weighted": (1e-5, [{"D": [3, 1, 1, 0.5], "w": [2, 5, 1, 9], "eps": 0.5, "delta": 1e-8}]),
    "alloc_laplace_weighted_var": (1e-5, [{"D": [3, 1, 1, 0.5], "w": [2, 5, 1, 9], "eps": 2.5}]),
    "alloc_gauss_minimax": (1e-9, [{"D": [3, 1, 1], "t": [20, 4, 9], "eps": 2, "delta": 1e-9}]),
    "smallest_eps": (1e-9, [{"D": [3, 1, 1], "t": [20, 4, 9], "delta": 1e-9}, {"D": [2], "t": [1], "delta": 1e-5}]),
    "residual_planner_rmse": (
        1e-9,
        [
            {"domain": [2, 3, 4], "ways": [1, 2], "pcost": 1},
            {"domain": [5, 2, 3], "ways": [0, 2], "pcost": 0.3},
            {"domain": [2, 2, 3, 2], "ways": [3], "pcost": 2},
        ],
    ),
    "residual_planner_maxvar": (
        5e-6,
        [{"domain": [2, 3, 4], "ways": [1, 2], "pcost": 1}, {"domain": [5, 2], "ways": [0, 1, 2], "pcost": 0.5}],
    ),
    "elliptic_count_std": (EXACT, [{"k": 1, "mu": 2}, {"k": 3, "mu": 1}, {"k": 8, "mu": 0.25}]),
    "linf_knorm_std": (EXACT, [{"k": 2, "eps": 0.5}, {"k": 4, "eps": 3}]),
    "count_knorm_std": (EXACT, [{"k": 1, "eps": 2}, {"k": 2, "eps": 0.1}, {"k": 4, "eps": 1}]),
    "regression": (1e-7, [_response(0.9, 100, "1e-6"), _response(0.5, 12, "1e-4")]),
}

LISTED = [(kind, inputs) for kind, (_, cases) in OTHERS.items() for inputs in cases]


def as_floats(answer: Any) -> Any:
    if isinstance(answer, Mapping):
        return {name: float(value) for name, value in answer.items()}
    return [float(value) for value in answer] if isinstance(answer, list) else float(answer)


@pytest.mark.parametrize(("kind", "inputs"), LISTED, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(LISTED)])
def test_case(kind: str, inputs: dict[str, Any]) -> None:
    expected = ANSWERS[kind](inputs)
    if isinstance(expected, str):
        assert expected == REFUSED
        with pytest.raises(UnsupportedEvent) as refusal:
            KINDS[kind](inputs)
        assert refusal.value.hint
        return
    found = as_floats(KINDS[kind](inputs))
    assert found == pytest.approx(as_floats(expected), rel=OTHERS[kind][0], abs=0.0)


def test_every_kind_has_cases_that_the_file_does_not_have() -> None:
    kinds = {case["kind"] for case in GIVEN}
    assert set(KINDS) == set(OTHERS) == set(ANSWERS) == kinds
    given = [(case["kind"], case["input"]) for case in GIVEN if case["kind"] != "regression"]
    assert not [case for case in LISTED if case in given]
