"""How much memory may an engine take for rows? What the operator of a machine says, in its environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from dprelease.engines.base import MEMORY
from dprelease.errors import EngineError

__all__ = ["memory_for_rows"]

_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_WRITTEN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([MGT]i?B)", re.IGNORECASE | re.ASCII)
_BESIDE = 768 * 2**20  # what a process holds beside them: libraries, blocks on their way, answers
_LEAST = 2**30


def memory_for_rows(environment: Mapping[str, str]) -> int | None:
    """Bytes that an engine may hold of rows and what it makes of them; None where nobody said anything.

    ``DPRELEASE_MEMORY`` is for the whole process: a part of it is left to everything else.

    >>> memory_for_rows({"DPRELEASE_MEMORY": "2GB"})
    1194693632

    Raises:
        EngineError: If it is no size, or less than 1 GiB (DPR-E005).
    """
    written = environment.get(MEMORY, "")
    if not written:
        return None
    found = _WRITTEN.fullmatch(written.strip())
    size = int(Fraction(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if size < _LEAST:
        raise EngineError(
            f"{MEMORY} is {written!r}, which is {'less than 1 GiB' if found else 'no size'}",
            hint=f"write the memory that this process may take, such as `export {MEMORY}=2GB`, or unset it",
            code="DPR-E005",
        )
    return size - _BESIDE
