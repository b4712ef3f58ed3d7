"""Published figures and those of other libraries, case by case: accountants, curves, calibration, allocation.

``accounting.json`` gives each case its id, its kind, its inputs, the figure expected, how near it has to be, and where
it is from. ``kinds`` says which function answers which kind; a kind without one fails.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import UnsupportedEvent
from tests.golden.kinds import KINDS, responses

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "accounting.json").read_text(encoding="utf-8"))[
    "cases"
]


def _refused(expected: Any) -> bool:
    return expected in ("refuse", "inf") or (isinstance(expected, Mapping) and expected.get("valid") is False)


def _near(case: Mapping[str, Any], expected: Any) -> Any:
    tolerance = {"rel" if case["tol_kind"] == "rel" else "abs": case["tol"]}
    return pytest.approx(expected, **{"abs": 0.0, **tolerance})


def as_floats(answer: Any) -> Any:
    """The answer with every number as a float, for the comparison alone."""
    if isinstance(answer, Mapping):
        return {name: float(value) for name, value in answer.items()}
    return [float(value) for value in answer] if isinstance(answer, list) else float(answer)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    answer, expected = KINDS[case["kind"]], case["expected"]
    if _refused(expected):
        with pytest.raises(UnsupportedEvent) as refusal:
            answer(case["input"])
        assert refusal.value.hint
        return
    found = as_floats(answer(case["input"]))
    if isinstance(expected, Mapping):
        if "value" in expected:
            expected = {expected.get("what", "value"): expected["value"]}
            found = found if isinstance(found, Mapping) else {"value": found}
        expected = {name: value for name, value in expected.items() if name not in ("buggy", "valid")}
        found = {name: found[name] for name in expected}
    if case["kind"] == "regression":
        _beside_a_grid(case, found["correct"])
    else:
        assert found == _near(case, expected)


def _beside_a_grid(case: Mapping[str, Any], ours: float) -> None:
    """The figure is another library's, which rounds every loss up to a whole 1e-4: above the exact one by up to that
    per draw. Its own figure is as the case says; ours lies within this of it. The exact one is in test_other_cases.
    """
    accountants = pytest.importorskip("dp_accounting.pld", reason="the crosscheck extra is not installed")
    from dp_accounting import NeighboringRelation
    from dp_accounting.dp_event import RandomizedResponseDpEvent

    truth, count, delta = responses(case["input"])
    peer = accountants.PLDAccountant(NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-4)
    for _ in range(count):
        peer.compose(RandomizedResponseDpEvent(noise_parameter=float(2 * (1 - truth)), num_buckets=2))
    theirs = peer.get_epsilon(float(delta))
    assert theirs == _near(case, case["expected"]["correct"])
    assert theirs - 1e-4 * count <= ours <= theirs


def test_every_case_has_an_id_of_its_own_and_a_known_way_to_compare() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES) == 107
    assert {case["tol_kind"] for case in CASES} <= {"rel", "abs"}
