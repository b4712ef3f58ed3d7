"""Failpoints: named places in the life of a release where crash tests may kill it.

In production hitting one only raises a Python audit event. A test installs an audit hook (`sys.addaudithook`) in a
process of its own and kills that process at the point that it wants; no setting of a user's can do that.
"""

from __future__ import annotations

import sys

__all__ = ["EVENT", "POINTS", "hit"]

EVENT = "dprelease.point"

# In the order in which a release comes by.
POINTS = (
    "run.planned",
    "reserve.begun",
    "reserve.judged",
    "reserve.opened",
    "reserve.appended",
    "reserve.indexed",
    "reserve.committed",
    "reserve.anchored",
    "source.read",
    "source.appended",
    "source.committed",
    "source.anchored",
    "secret.made",
    "secret.committed",
    "draw.begun",
    "draw.aggregated",
    "draw.drawn",
    "commit.begun",
    "commit.stored",
    "commit.appended",
    "commit.indexed",
    "commit.committed",
    "commit.anchored",
    "commit.read",
    "publish.begun",
    "publish.rendered",
    "write.begun",
    "write.written",
    "write.synced",
    "write.moved",
    "write.replaced",
    "close.begun",
    "close.appended",
    "close.indexed",
    "close.committed",
    "close.anchored",
    "close.shortened",
    "anchor.begun",
    "anchor.written",
    "anchor.synced",
)


def hit(point: str) -> None:
    """Say that a failpoint is reached.

    Raises:
        ValueError: If no such point is listed: a test could never stop there.
    """
    if point not in POINTS:
        raise ValueError(f"{point!r} is not listed in POINTS")
    sys.audit(EVENT, point)
