"""Warnings are errors where our own modules give them, and only there: what others warn of depends on the machine."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import pytest


def _warned_by(module: str) -> Any:
    """A function of a module of that name, which warns."""
    made = ModuleType(module)
    exec("import warnings\ndef warn(): warnings.warn('a library is old', DeprecationWarning)", made.__dict__)
    return made.__dict__["warn"]


@pytest.mark.parametrize("module", ["dprelease", "dprelease.publish.base", "tests.project", "bench.noise", "pipelines"])
def test_a_warning_of_ours_is_an_error(module: str) -> None:
    with pytest.raises(DeprecationWarning, match="a library is old"):
        _warned_by(module)()


@pytest.mark.parametrize("module", ["typst.compiler", "testsuite", "dpreleases"])
def test_a_warning_of_another_package_is_none(module: str) -> None:
    with warnings.catch_warnings(record=True) as heard:
        _warned_by(module)()
    assert [each.category for each in heard] == [DeprecationWarning]
