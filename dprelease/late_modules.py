"""Packages that load more than is asked of them: their modules are loaded when somebody asks for one.

What is loaded, once it is, is what was installed, unchanged.
"""

from __future__ import annotations

import threading
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
    """A package whose modules are loaded one by one, when somebody asks for one of them. Threads may ask at once.

    The package itself must do nothing but give the names of its modules: it may be run twice.

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
        loads_all = threading.local()

        def answer(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            try:
                if name in self._defined_in:
                    return getattr(import_module(f"{module.__name__}.{self._defined_in[name]}"), name)
                return import_module(f"{module.__name__}.{name}")
            except (ModuleNotFoundError, AttributeError):
                # No lock is held, for Python's own of each module could wait for it in another thread. Two threads that
                # ask at once both load the package's names, of modules that are made once. This one answers until all
                # of them are there, so that nobody is told meanwhile that there is no such name.
                if not getattr(loads_all, "now", False):
                    loads_all.now = True
                    try:
                        self._loader.exec_module(module)
                    finally:
                        loads_all.now = False
                    if module.__dict__.get("__getattr__") is answer:
                        module.__dict__.pop("__getattr__", None)
                    return getattr(module, name)
                # A module that is being loaded by the package asks the package, which may have bound it already.
                if name in module.__dict__:
                    return module.__dict__[name]
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name) from None

        module.__dict__["__getattr__"] = answer
