"""Tables of several periods behind one draw: each clamped, times its number, added up, and hidden once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.noise import Exact
from dprelease.noise.mechanisms import shared


def test_each_number_is_clamped_before_they_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "add_noise", lambda kind, values, scale, sampler: values + 1)
    tables = [Exact(np.array(each, dtype=np.int64)) for each in ([5, 2**61], [7, -(2**61)])]
    found = shared.draw_together(tables, [3, 2], 2**20, Fraction(4))
    assert found.tolist() == [3 * 5 + 2 * 7 + 1, 3 * 2**20 - 2 * 2**20 + 1]
