"""Noise of one random scale: its table, the law of a count, and what a draw makes of its parts."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.noise import JOINT_MECHANISMS, Exact
from dprelease.noise.mechanisms import random_scale
from dprelease.noise.mechanisms.random_scale import (
    RandomScaleLaw,
    RandomScaleMechanism,
    _quadrature,
    scale_noise,
    scale_table,
)
from dprelease.privacy.event import RandomScale
from dprelease.privacy.rounding import CONTEXT

F = Fraction


@pytest.mark.parametrize("k", [40, 50, 100, 240])
def test_the_table_has_the_moments_of_the_gamma_law(k: int) -> None:
    """Of x^((d-1)/2) exp(-x), d = k + 1: the mean of x^j is (a + 1) ... (a + j); and the mean variance is 1."""
    table, power = scale_table(k), k / 2
    assert sum(table.weights) == 2**48
    assert min(table.weights) > 0
    assert len(table.weights) == len(table.stretches) == 8
    assert all(stretch * 1024 == int(stretch * 1024) for stretch in table.stretches)
    places = [(k + 2) / 2 * float(stretch) ** 2 for stretch in table.stretches]
    moment = 1.0
    for j in range(1, 6):
        moment *= power + j
        found = sum(w * x**j for w, x in zip(table.weights, places, strict=True)) / 2**48
        assert found == pytest.approx(moment, rel=2e-3 * j)
    variance = sum(w * s * s for w, s in zip(table.weights, table.stretches, strict=True)) / 2**48
    assert float(variance) == pytest.approx(1, abs=5e-4)


@pytest.mark.parametrize("k", [2, 41, 1000])
def test_the_table_is_that_of_the_eigenvectors(k: int) -> None:
    """Golub and Welsch: the places are eigenvalues, the weights squares of the first entries, in 60 digits."""
    power, matrix = CONTEXT.mpf(k) / 2, CONTEXT.zeros(8)
    for j in range(8):
        matrix[j, j] = 2 * j + 1 + power
        if j:
            matrix[j, j - 1] = matrix[j - 1, j] = CONTEXT.sqrt(j * (j + power))
    places, vectors = CONTEXT.eigsy(matrix)
    for at, (place, share) in enumerate(_quadrature(power)):
        assert abs(place / places[at] - 1) < CONTEXT.mpf(10) ** -55
        assert abs(share / vectors[0, at] ** 2 - 1) < CONTEXT.mpf(10) ** -35  # the least has 40 digits in a vector


def test_the_total_is_weighed_by_the_nearest_eighth_of_the_fourth_root() -> None:
    for k in (*range(2, 12), 40, 50, 77, 100, 150, 200, 240):
        assert scale_table(k).total == F(round(8 * k**0.25), 8)
        best = (1 + math.sqrt(k)) ** 2
        ours = (k + float(scale_table(k).total) ** 2) * (1 + float(scale_table(k).total) ** -2)
        assert ours < best * (1 + (8e-4 if k >= 40 else 1.2e-2))


def test_one_count_is_no_joint_draw() -> None:
    with pytest.raises(BrokenPromiseError, match="two counts"):
        scale_table(1)
    with pytest.raises(BrokenPromiseError):
        RandomScaleMechanism().draw_joint([Exact(np.array([1]))], F(1))
    with pytest.raises(BrokenPromiseError):
        RandomScaleMechanism().draw_joint([Exact(np.array([1])), Exact(np.array([1, 2]))], F(1))
    with pytest.raises(BrokenPromiseError, match="float"):
        RandomScaleMechanism().draw_joint([Exact(np.array([1]))] * 2, F(10, 2**61 - 1))


def test_a_draw_takes_a_secret_place_and_its_scale_and_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell has a place of its own; of w and w_0 in steps of 2^-20 a count gets half of w + w_0 / kappa."""
    table, asked = scale_table(40), []
    ends = np.cumsum(table.weights)
    answers = iter([0, int(ends[0]) - 1, int(ends[0]), 2**48 - 1])

    class Told:
        def __enter__(self) -> Told:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def below(self, limit: int) -> int:
            assert limit == 2**48
            return next(answers)

    def noise(kind: str, values: np.ndarray, scale: Fraction) -> np.ndarray:
        asked.append((kind, len(values), scale))
        assert not values.any()
        cells = len(values) // 41
        total = 5 * 2**20
        return np.tile([total, *(at << 20 for at in range(-20, 20))], cells)

    monkeypatch.setattr(random_scale, "Entropy", Told)
    monkeypatch.setattr(random_scale, "add_noise", noise)
    scale = F(3, 2)
    found = scale_noise(scale, 40, 4)
    grid = RandomScale.GRAIN
    first, second, last = (scale * table.stretches[at] * grid for at in (0, 1, 7))
    assert sorted(asked) == [("gaussian", 41, second), ("gaussian", 41, last), ("gaussian", 82, first)]
    exact = [(F(at) + 5 / table.total) / 2 for at in range(-20, 20)]
    assert found == [[math.floor(each + F(1, 2)) for each in exact]] * 4


@pytest.mark.parametrize(("k", "scale"), [(40, F(1, 2)), (50, F(3)), (100, F(30)), (200, F(10**6))])
def test_the_law_of_a_count_is_the_mixture_s(k: int, scale: Fraction) -> None:
    law, table = RandomScaleLaw(scale, k), scale_table(k)
    shares = np.array(table.weights) / 2**48
    scales = float(scale) * np.array([float(s) for s in table.stretches]) / 2
    scales *= math.sqrt(1 + 1 / float(table.total) ** 2)
    continuous = float(shares @ scales**2)
    if scale > 1:
        assert law.variance == pytest.approx(continuous + 1 / 12, rel=1e-3)
    if scale <= 30:
        values = range(-40 * int(scale + 1), 40 * int(scale + 1) + 1)
        assert sum(law.mass(v) for v in values) == pytest.approx(1, abs=1e-12)
        assert sum(v * v * law.mass(v) for v in values) == pytest.approx(law.variance, rel=2e-3)
    for confidence in (F(9, 10), F(95, 100), F(999_999, 10**6)):
        margin = law.margin(confidence)
        assert law.tail(margin) <= float(1 - confidence)
        assert margin == 0 or law.tail(margin - 1) * (1 + 2e-5) > float(1 - confidence)
    # far out a mixture has more than a normal law of its variance
    far = law.margin(1 - F(1, 10**9))
    if scale >= 30:
        assert far > 6.11 * math.sqrt(law.variance)
    with pytest.raises(BrokenPromiseError):
        law.margin(F(1))


def test_the_event_is_the_table_that_is_drawn() -> None:
    event = RandomScaleMechanism().event(F(7), 50, F(2))
    table = scale_table(50)
    assert (event.dimension, event.rows, event.scale) == (50, 2, F(7))
    assert (event.total, event.stretches, event.weights) == table
    assert event.length_squared == 50 + table.total**2
    assert RandomScaleMechanism().event(F(7), 50, F(3, 2)).rows == 2, "a part of a row is a row"
    assert RandomScale.model_validate_json(event.model_dump_json()) == event
    assert JOINT_MECHANISMS["random_scale"].law(F(7), 50).variance > 0


def test_answers_are_the_counts_and_their_noise() -> None:
    boxes = [Exact(np.full(300, 10**6 * at)) for at in range(40)]
    answers = RandomScaleMechanism().draw_joint(boxes, F(2))
    assert len(answers) == 40
    law = RandomScaleMechanism().law(F(2), 40)
    noise = np.stack([answer - 10**6 * at for at, answer in enumerate(answers)])
    assert noise.shape == (40, 300)
    assert abs(noise).max() <= law.margin(1 - F(1, 10**12))
    assert noise.var() == pytest.approx(law.variance, rel=0.15)


def test_more_noise_than_fits_its_grid_is_refused() -> None:
    assert max(max(scale_table(k).stretches) for k in (2, 40, 240)) * 12 * 2**38 * RandomScale.GRAIN < 2**64
    with pytest.raises(BrokenPromiseError, match="64 bits"):
        scale_noise(F(2**39), 40, 1)
