"""What other packages load and the command never uses: left out, or loaded where somebody asks for it after all."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from dprelease.late_modules import WhenAsked

__all__ = ["LeanImports"]

_COMPILERS = "ibis.backends.sql.compilers"


class LeanImports(MetaPathFinder):
    """pandas is not there for the command, which never uses it: pyarrow looks whether it is, and so loads it.

    Of Ibis only the compiler of the engine that is used is loaded: the package of all twenty loads each of them, with
    its dialect, at once.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse pandas, find the compilers of Ibis, and know nothing of any other module."""
        if fullname == "pandas":
            raise ModuleNotFoundError("the command does without pandas", name=fullname)
        found = PathFinder.find_spec(fullname, path, target) if fullname == _COMPILERS else None
        if found is not None and found.loader is not None:
            found.loader = WhenAsked(found.loader)
        return found
