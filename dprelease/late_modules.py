"""Packages that load more than is asked of them: their modules are loaded when somebody asks for one.

What is loaded, once it is, is what was installed, unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any

__all__ = ["Late", "LateModules", "WhenAsked"]


class Late:
    """Stands for a module that takes long to load, and loads it when something of it is first asked for.

    >>> Late("math").gcd(12, 18)
    6

    Args:
        name: As in ``import``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # whoever looks through modules asks for these
            raise AttributeError(name)
        if self._module is None:
            self._module = import_module(self._name)
        return getattr(self._module, name)


class LateModules(MetaPathFinder):
    """Finds named packages so that they are loaded late. For a process in which one thread alone imports.

    Args:
        packages: Of which only the modules that are asked for are loaded; with each of its names that are not modules,
            and the module of it that defines the name. All of it is loaded for any other name.
        modules: That are loaded when something of them is first used; they must import nothing in place of themselves.
    """

    def __init__(self, packages: Mapping[str, Mapping[str, str]], modules: Collection[str]) -> None:
        self._packages, self._modules = packages, frozenset(modules)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find those that were named, and know nothing of any other module."""
        names = self._packages.get(fullname)
        if names is None and fullname not in self._modules:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader) if names is None else WhenAsked(found.loader, names)
        return found


class WhenAsked(Loader):
    """A package whose modules are loaded one by one, when somebody asks for one of them.

    Args:
        loader: Loads all of it; asked where a name is none of its modules, nor listed.
        defined_in: Names of the package, and the module of it that defines each.
    """

    def __init__(self, loader: Loader, defined_in: Mapping[str, str] | None = None) -> None:
        self._loader, self._defined_in = loader, defined_in or {}

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As any module is made."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Give the package what answers for names that it has not."""

        def answer(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            try:
                if name in self._defined_in:
                    return getattr(import_module(f"{module.__name__}.{self._defined_in[name]}"), name)
                return import_module(f"{module.__name__}.{name}")
            except (ModuleNotFoundError, AttributeError):
                # The package may have bound the name while it was asked for, by a module that loaded all of it.
                if module.__dict__.pop("__getattr__", None) is not None:
                    self._loader.exec_module(module)
                return getattr(module, name)

        module.__dict__["__getattr__"] = answer
