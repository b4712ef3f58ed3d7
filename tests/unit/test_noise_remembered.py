"""Nothing that hangs on a draw is remembered: what a process keeps after a draw is what it kept before one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from functools import _lru_cache_wrapper, partial

import numpy as np
import pytest

from dprelease.noise import JOINT_MECHANISMS
from dprelease.noise.exact import Exact, ExactHistogram
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianMechanism
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from dprelease.noise.mechanisms.exponential import ExponentialQuantile, ExponentialTopK
from dprelease.noise.mechanisms.tables_knorm import TablesKNorm

SCALE = Fraction(7, 2)


def zeros(cells: int) -> Exact:
    return Exact(np.zeros(cells, dtype=np.int64))


def quantile() -> object:
    rows = np.array([4, 6, 9])
    exact = ExactHistogram(1, np.zeros_like(rows), rows, np.ones_like(rows))
    return ExponentialQuantile().draw(exact, Fraction(1, 2), 0, 100, SCALE)


DRAWS: dict[str, Callable[[], object]] = {
    "laplace": lambda: DiscreteLaplaceMechanism().draw(zeros(40), SCALE),
    "gaussian": lambda: DiscreteGaussianMechanism().draw(zeros(40), SCALE),
    "laplace, by OpenDP": lambda: DiscreteLaplaceMechanism().draw(zeros(40), SCALE, "opendp"),
    "gaussian, by OpenDP": lambda: DiscreteGaussianMechanism().draw(zeros(40), SCALE, "opendp"),
    **{
        name: partial(lambda each: each.draw_joint([zeros(4) for _ in range(45)], SCALE), each)
        for name, each in JOINT_MECHANISMS.items()
    },
    "tables": lambda: TablesKNorm().draw_tables([zeros(6), zeros(4), zeros(3)], SCALE),
    "quantile": quantile,
    "top k": lambda: ExponentialTopK().draw(zeros(20), 3, SCALE),
}


def missed() -> int:
    """How often anything of this project was worked out and remembered."""
    modules = [vars(module) for name, module in list(sys.modules.items()) if name.startswith("dprelease.")]
    classes = [vars(each) for module in modules for each in list(module.values()) if isinstance(each, type)]
    owned = {id(each): each for names in (*modules, *classes) for each in list(names.values())}
    return sum(each.cache_info().misses for each in owned.values() if isinstance(each, _lru_cache_wrapper))


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_leaves_nothing_behind(name: str) -> None:
    """The joint tables kept the differences of weights that told the sum of both caps of the noise."""
    for _ in range(3):
        DRAWS[name]()
    before = missed()
    for _ in range(12):
        DRAWS[name]()
    assert missed() == before
