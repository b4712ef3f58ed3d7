"""Exact values can be carried and not looked at; noise refuses what was not accounted."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError, Corrupt, ExactLeakError
from dprelease.noise import MECHANISMS, Exact, Measurement
from dprelease.noise.sampler import add_noise

LOOKS: list[Callable[[Any], Any]] = [
    pickle.dumps,
    copy.copy,
    copy.deepcopy,
    list,
    len,
    bool,
    np.asarray,
    lambda e: e == e,
    lambda e: e[0],
    hash,
]


@pytest.mark.parametrize("look", LOOKS)
def test_an_exact_value_refuses_to_be_looked_at(look: Callable[[Any], Any]) -> None:
    with pytest.raises((ExactLeakError, TypeError)) as caught:
        look(Exact(np.array([123_457])))
    assert "123457" not in str(caught.value)


def test_an_exact_value_prints_as_nothing() -> None:
    exact = Exact(np.array([123_457]))
    assert {repr(exact), str(exact), f"{exact}", f"{exact:>8}"} == {"<Exact>"}
    with pytest.raises(TypeError):
        json.dumps(exact)
    assert not hasattr(exact, "__dict__")


def test_a_noisy_sum_saturates_instead_of_wrapping() -> None:
    limits = np.iinfo(np.int64)
    noisy = MECHANISMS["discrete_laplace"].draw(Exact(np.array([limits.max, limits.min] * 50)), Fraction(10))
    assert (noisy[::2] > limits.max - 10_000).all()
    assert (noisy[1::2] < limits.min + 10_000).all()


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(1, 3)])
def test_a_scale_that_cannot_be_drawn_exactly_is_refused(scale: Fraction) -> None:
    with pytest.raises(BrokenPromiseError, match="exactly"):
        add_noise("laplace", np.zeros(1, dtype=np.int64), scale)


def test_a_measurement_keeps_its_bytes() -> None:
    measurement = Measurement("q.rows", np.array([1, -2, 2**62]))
    again = Measurement.from_bytes(measurement.to_bytes())
    assert (again.step, again.values.tolist(), again.digest) == ("q.rows", [1, -2, 2**62], measurement.digest)
    with pytest.raises(ValueError, match="read-only"):
        again.values[0] = 5


@pytest.mark.parametrize("cut", [0, 5, 30, -1])
def test_a_torn_measurement_is_refused(cut: int) -> None:
    with pytest.raises(Corrupt):
        Measurement.from_bytes(Measurement("q.rows", np.array([1, 2])).to_bytes()[:cut])
