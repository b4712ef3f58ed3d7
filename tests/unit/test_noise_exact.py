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
from dprelease.noise import MECHANISMS, Exact, ExactHistogram, ExactKeys, Measurement
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


ONE = np.array([1])
BOXES: list[Callable[[], Any]] = [
    lambda: Exact(np.array([123_457])),
    lambda: ExactHistogram(123_458, ONE, np.array([123_457]), np.array([123_457])),
    lambda: ExactKeys((("123457", 123_457),), np.array([123_457])),
]


@pytest.mark.parametrize("make", BOXES)
@pytest.mark.parametrize("look", LOOKS)
def test_an_exact_value_refuses_to_be_looked_at(look: Callable[[Any], Any], make: Callable[[], Any]) -> None:
    with pytest.raises((ExactLeakError, TypeError)) as caught:
        look(make())
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize("make", BOXES)
def test_an_exact_value_prints_as_nothing(make: Callable[[], Any]) -> None:
    exact = make()
    assert {repr(exact), str(exact), f"{exact}", f"{exact:>18}"} == {f"<{type(exact).__name__}>"}
    with pytest.raises(TypeError):
        json.dumps(exact)
    assert not hasattr(exact, "__dict__")


@pytest.mark.parametrize(
    ("cells", "cell", "value", "count"),
    [(3, [3], [77], [1]), (3, [-1], [77], [1]), (3, [0], [77], [-1]), (3, [0, 1], [77], [1]), (-1, [], [], [])],
)
def test_a_histogram_that_is_none_is_refused_without_a_value(
    cells: int, cell: list[int], value: list[int], count: list[int]
) -> None:
    with pytest.raises(BrokenPromiseError) as caught:
        ExactHistogram(cells, np.array(cell), np.array(value), np.array(count))
    assert "77" not in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ((("x77",), ("x77",)), [1, 1]),
        (((1,), (True,)), [1, 1]),
        ((("x77",), ("x77", "x")), [1, 1]),
        ((("x77",),), [0]),
        ((("x77",),), [1, 1]),
        (((None,),), [1]),
        (((np.int64(77),),), [1]),
        (((7.7,),), [1]),
    ],
)
def test_keys_that_are_none_are_refused_without_a_key(keys: Any, count: list[int]) -> None:
    with pytest.raises(BrokenPromiseError) as caught:
        ExactKeys(keys, np.array(count))
    assert "77" not in str(caught.value)


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


def test_the_bytes_of_a_measurement_without_keys_are_as_they_ever_were() -> None:
    written = b'{"cells":2,"format":1,"step":"q.rows"}\n' + bytes([1, *[0] * 7, *[255] * 8])
    assert Measurement("q.rows", np.array([1, -1])).to_bytes() == written
    again = Measurement.from_bytes(written)
    assert (again.values.tolist(), again.keys) == ([1, -1], None)


def test_a_measurement_keeps_its_keys_and_their_types() -> None:
    keys = (("1", 1, True), ("line\nbreak \u2028", -(2**63), False), ("\ud800 half a pair", 0, True))
    measurement = Measurement("q.keys", np.ones(3, dtype=np.int64), keys)
    again = Measurement.from_bytes(measurement.to_bytes())
    assert again.keys == keys
    assert [[type(part) for part in key] for key in again.keys] == [[str, int, bool]] * 3
    assert again.digest == measurement.digest != Measurement("q.keys", np.ones(3, dtype=np.int64)).digest
    assert Measurement.from_bytes(Measurement("q.keys", np.array([]), ()).to_bytes()).keys == ()


def test_a_key_of_another_type_is_refused() -> None:
    with pytest.raises(BrokenPromiseError) as caught:
        Measurement("q.keys", np.array([1]), ((7.25,),))  # type: ignore[arg-type]
    assert "7.25" not in str(caught.value)


@pytest.mark.parametrize("keys", ['"x"', "[[1.5]]", "[[null]]", '["x"]', "null", "3"])
def test_stored_keys_that_are_none_are_refused(keys: str) -> None:
    with pytest.raises(Corrupt):
        Measurement.from_bytes(f'{{"cells":0,"format":2,"keys":{keys},"step":"q.keys"}}\n'.encode())
