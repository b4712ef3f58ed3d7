"""Plan, measure once and publish differentially private statistics from one YAML file.

>>> import dprelease as dp
>>> [name for name in dp.__all__ if not name.startswith("_")]
['DpReleaseError', 'init', 'open', 'plan', 'read_measurements', 'run', 'spend', 'verify']

What a notebook uses is in ``dprelease.api``. It is imported when one of these names is first used, so that the command
answers at once and never loads pandas.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dprelease.version import __version__

if TYPE_CHECKING:
    from dprelease.api import DpReleaseError, init, open, plan, read_measurements, run, spend, verify

__all__ = [
    "DpReleaseError",
    "__version__",
    "init",
    "open",
    "plan",
    "read_measurements",
    "run",
    "spend",
    "verify",
]


class _PlanPackage(ModuleType):
    """The package ``dprelease.plan``, which is also the function of that name: both meanings of one public word."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Plan a release; see ``dprelease.api.plan``."""
        return import_module("dprelease.api").plan(*arguments, **options)


class _Package(ModuleType):
    """This package, which makes its subpackage ``plan`` callable as soon as the import system hangs it in here."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "plan" and isinstance(value, ModuleType):
            value.__class__ = _PlanPackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

if not TYPE_CHECKING:  # a type checker knows the names from above, and no others

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "plan":  # the package, which can be called, so that the name means the same thing at all times
            return import_module("dprelease.plan")
        return getattr(import_module("dprelease.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
