"""What other packages load and the command never uses: left out, or loaded where somebody asks for it after all."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

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
            found.loader = _WhenAsked(found.loader)
        return found


class _WhenAsked(Loader):
    """A package whose modules are loaded one by one, when somebody asks for one of them.

    Args:
        loader: Loads all of it; asked where a name is none of its modules.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As any module is made."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Give the package what answers for names that it has not."""

        def answer(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            try:
                return import_module(f"{module.__name__}.{name}")
            except ModuleNotFoundError:
                del module.__dict__["__getattr__"]
                self._loader.exec_module(module)
                return getattr(module, name)

        module.__dict__["__getattr__"] = answer
