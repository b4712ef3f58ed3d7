"""How does it hide? Samplers, mechanisms, and the box around exact values.

Floor 2: its only input from outside is the operating system's entropy. ``MECHANISMS`` (one value at a time),
``JOINT_MECHANISMS`` (several values of a cell in one draw), ``TABLES_MECHANISMS`` (several tables in one draw),
``CHOICES`` (the answer is one of the candidates) and ``SELECTIONS`` (which keys may be shown) are closed: a privacy
tool whose mechanisms can be injected by an installed package cannot be audited.

>>> from fractions import Fraction
>>> MECHANISMS["discrete_laplace"].law(Fraction(10)).margin(Fraction(95, 100))
30
"""

from __future__ import annotations

from dprelease.noise.base import JointMechanism, KeySelector, Law, Measurement, Mechanism, TablesMechanism
from dprelease.noise.exact import Exact, ExactHistogram, ExactKeys, Key
from dprelease.noise.mechanisms.clip import ExponentialClip
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianMechanism
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from dprelease.noise.mechanisms.exponential import ExponentialQuantile, ExponentialTopK
from dprelease.noise.mechanisms.knorm import CountKNorm, LinfKNorm
from dprelease.noise.mechanisms.random_scale import RandomScaleMechanism
from dprelease.noise.mechanisms.tables_knorm import TablesKNorm
from dprelease.noise.mechanisms.threshold import GaussianThreshold, LaplaceThreshold, OptimalSelection
from dprelease.noise.mechanisms.total_residual import TotalResidualMechanism
from dprelease.noise.sampler import SAMPLERS, Sampler, recorded_sampler, require_sampler

__all__ = [
    "CHOICES",
    "JOINT_MECHANISMS",
    "MECHANISMS",
    "SAMPLERS",
    "SELECTIONS",
    "TABLES_MECHANISMS",
    "Exact",
    "ExactHistogram",
    "ExactKeys",
    "ExponentialClip",
    "ExponentialQuantile",
    "ExponentialTopK",
    "JointMechanism",
    "Key",
    "KeySelector",
    "Law",
    "Measurement",
    "Mechanism",
    "OptimalSelection",
    "Sampler",
    "TablesMechanism",
    "recorded_sampler",
    "require_sampler",
]

MECHANISMS: dict[str, Mechanism] = {
    mechanism.name: mechanism for mechanism in (DiscreteLaplaceMechanism(), DiscreteGaussianMechanism())
}

JOINT_MECHANISMS: dict[str, JointMechanism] = {
    mechanism.name: mechanism
    for mechanism in (CountKNorm(), LinfKNorm(), TotalResidualMechanism(), RandomScaleMechanism())
}

TABLES_MECHANISMS: dict[str, TablesMechanism] = {mechanism.name: mechanism for mechanism in (TablesKNorm(),)}

CHOICES: dict[str, ExponentialQuantile | ExponentialTopK | ExponentialClip] = {
    choice.name: choice for choice in (ExponentialQuantile(), ExponentialTopK(), ExponentialClip())
}

SELECTIONS: dict[str, KeySelector] = {
    selection.name: selection for selection in (LaplaceThreshold(), GaussianThreshold())
}
