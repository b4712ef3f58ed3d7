"""A margin of any size is told in digits that people read, on the terminal as on Prefect's page."""

from __future__ import annotations

import pytest

from dprelease.cli.views.plan import _told
from dprelease.flows.pages import _margin


@pytest.mark.parametrize(
    ("margin", "words"),
    [("0.01234", "± 0.01234"), ("7.5", "± 7.5"), ("999.94", "± 999.9"), ("1234.5", "± 1,234"), ("368123", "± 368,123")],
)
def test_a_large_margin_has_no_exponent(margin: str, words: str) -> None:
    assert _told(margin) == _margin(margin) == words
