"""How does it hide? Samplers, mechanisms, and the box around exact values.

Floor 2: its only input from outside is the operating system's entropy. ``MECHANISMS`` (one value at a time) and
``JOINT_MECHANISMS`` (several values of a cell in one draw) are closed: a privacy tool whose mechanisms can be
injected by an installed package cannot be audited.

>>> from fractions import Fraction
>>> MECHANISMS["discrete_laplace"].law(Fraction(10)).margin(Fraction(95, 100))
30
"""

from __future__ import annotations

from dprelease.noise.base import JointMechanism, Law, Measurement, Mechanism
from dprelease.noise.discrete_gaussian import DiscreteGaussianMechanism
from dprelease.noise.discrete_laplace import DiscreteLaplaceMechanism
from dprelease.noise.exact import Exact
from dprelease.noise.knorm import CountKNorm, LinfKNorm

__all__ = ["JOINT_MECHANISMS", "MECHANISMS", "Exact", "JointMechanism", "Law", "Measurement", "Mechanism"]

MECHANISMS: dict[str, Mechanism] = {
    mechanism.name: mechanism for mechanism in (DiscreteLaplaceMechanism(), DiscreteGaussianMechanism())
}

JOINT_MECHANISMS: dict[str, JointMechanism] = {mechanism.name: mechanism for mechanism in (CountKNorm(), LinfKNorm())}
