"""The engines that read in this process: all but those that a table must name, which have a cluster of their own.

Spark's own steps are held against the reference engine in ``tests/conformance``.
"""

from __future__ import annotations

from dprelease.engines import ENGINES, NAMED

__all__ = ["EMBEDDED"]

EMBEDDED = tuple(sorted({*ENGINES} - {*NAMED}))
