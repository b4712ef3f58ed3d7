"""What other packages load and our processes never use: left out, or loaded where somebody asks for it after all."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from dprelease.late_modules import WhenAsked

__all__ = ["LeanImports"]

_COMPILERS = "ibis.backends.sql.compilers"
_WITHOUT = ("pandas", "rfc3986_validator", "rfc3987_syntax")


class LeanImports(MetaPathFinder):
    """Three packages are not there for the command and for Prefect's temporary server, which never use them.

    pyarrow looks whether there is pandas, and so loads it. jsonschema, which Prefect imports, looks whether something
    checks addresses, and so loads a grammar (``rfc3987_syntax``) for as long as all else of Prefect takes.

    Of Ibis only the compiler of the engine that is used is loaded: the package of all twenty loads each of them, with
    its dialect, at once.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse the three, find the compilers of Ibis, and know nothing of any other module."""
        if fullname in _WITHOUT:
            raise ModuleNotFoundError(f"{fullname} is done without", name=fullname)
        found = PathFinder.find_spec(fullname, path, target) if fullname == _COMPILERS else None
        if found is not None and found.loader is not None:
            found.loader = WhenAsked(found.loader)
        return found
