"""Two samplers, one law: which one draws, and what a release records of it."""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError, MissingExtra
from dprelease.noise import (
    MECHANISMS,
    SAMPLERS,
    SELECTIONS,
    Exact,
    ExactKeys,
    Sampler,
    recorded_sampler,
    require_sampler,
    sampler,
)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_sampler_that_was_recorded_is_the_one_that_draws(name: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mechanism of integer noise asks the sampler that it is told, and no other."""
    drawn: list[str] = []

    def draws(own: str) -> object:
        def add(kind: str, values: np.ndarray, scale: Fraction) -> np.ndarray:
            drawn.append(own)
            return values + 1

        return add

    monkeypatch.setattr(sampler, "add_native", draws("native"))
    monkeypatch.setattr(sampler, "_add_opendp", draws("opendp"))
    told = recorded_sampler(SAMPLERS[name])
    assert told == name
    for mechanism in MECHANISMS.values():
        assert mechanism.draw(Exact(np.array([6])), Fraction(3), told).tolist() == [7]
    for selection in SELECTIONS.values():
        assert selection.draw(ExactKeys((("x",),), np.array([6])), Fraction(3), 7, told) == (("x",),)
    assert drawn == [name] * (len(MECHANISMS) + len(SELECTIONS))


def test_words_of_no_known_sampler_mean_the_native_one() -> None:
    assert recorded_sampler("") == recorded_sampler("another one") == "native"
    assert len(set(SAMPLERS.values())) == len(SAMPLERS)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(1, 3)])
def test_neither_draws_at_a_scale_that_was_not_accounted(name: Sampler, scale: Fraction) -> None:
    with pytest.raises(BrokenPromiseError, match="exactly"):
        sampler.add_noise("laplace", np.zeros(1, dtype=np.int64), scale, name)


@pytest.mark.parametrize("name", SAMPLERS)
def test_both_saturate(name: Sampler) -> None:
    if name == "opendp":
        pytest.importorskip("opendp", reason="the opendp extra is not installed")
    edge = np.array([2**63 - 1, -(2**63)] * 50)
    noisy = sampler.add_noise("gaussian", edge, Fraction(100), name)
    assert (noisy[::2] > 2**62).all()
    assert (noisy[1::2] < -(2**62)).all()
    assert {2**63 - 1, -(2**63)} <= set(noisy.tolist())


def test_without_opendp_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    sampler._primitive.cache_clear()
    require_sampler("native")
    with pytest.raises(MissingExtra, match=r'pip install "dprelease\[opendp\]"') as caught:
        require_sampler("opendp")
    assert (caught.value.code, caught.value.exit_code) == ("DPR-X105", 9)
    with pytest.raises(MissingExtra):
        sampler.add_noise("laplace", np.zeros(1, dtype=np.int64), Fraction(1), "opendp")
