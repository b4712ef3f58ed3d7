"""Which accountants a test about any noise is about: one that takes Gaussian noise alone is none of them."""

from __future__ import annotations

from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import EVERY_KIND

__all__ = ["ANY_NOISE"]

ANY_NOISE = [name for name, each in ACCOUNTANTS.items() if each.takes >= EVERY_KIND - {"concentrated"}]
"""Those that take whatever a release can draw."""
