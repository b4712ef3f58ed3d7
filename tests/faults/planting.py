"""How a fault is planted for the length of one check, and how the test of the suite that must see it is called.

Most faults are one replacement in the text of one function. Whoever has imported the function by name gets the faulty one,
and what the package and the test remember (``functools``' caches) is forgotten before and after, so that neither a right
answer from before hides the fault nor a wrong one outlives it.
"""

from __future__ import annotations
import __future__

import functools
import importlib
import inspect
import itertools
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dprelease.audit import audit, canaries, path, search, timing
from dprelease.errors import BrokenPromiseError, DpReleaseError
from tests import planned

__all__ = ["SEEN", "Edit", "Fixtures", "Patch", "Seen", "everywhere", "planted", "processor_clock"]

Patch = Callable[[pytest.MonkeyPatch], None]
Fixtures = Callable[[str], object]
SEEN = (AssertionError, BrokenPromiseError, pytest.fail.Exception, DpReleaseError)
"""How a test fails that has seen a fault; anything else is an accident of the planting."""


@dataclass(frozen=True)
class Edit:
    """One replacement in one function.

    Attributes:
        place: ``module:function`` or ``module:Class.method``, below ``dprelease``.
        old: What its text has, once; indentation of lines within counts.
        new: What it shall have.
    """

    place: str
    old: str
    new: str

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        """Plant it."""
        name, _, path = self.place.partition(":")
        module = importlib.import_module(f"dprelease.{name}")
        *outer, last = path.split(".")
        owner = functools.reduce(getattr, outer, module)
        held = vars(owner)[last]
        text = textwrap.dedent(inspect.getsource(_function(held)))
        found = text.count(self.old)
        if found != 1:  # no way in which a fault is seen
            raise LookupError(f"the text of the fault at {self.place} is found {found} times")
        made = _compiled(text.replace(self.old, self.new), module, last)
        if outer:
            patch.setattr(owner, last, made)
        else:
            everywhere(patch, last, made, held)


def _function(held: Any) -> Any:
    held = held.fget if isinstance(held, property) else getattr(held, "func", held)
    return inspect.unwrap(getattr(held, "__func__", held))


def _compiled(text: str, module: ModuleType, name: str) -> Any:
    scope: dict[str, Any] = {}
    code = compile(text, f"{module.__name__} with a fault", "exec", __future__.annotations.compiler_flag)
    exec(code, vars(module), scope)
    made = scope[name]
    if isinstance(made, functools.cached_property):
        made.__set_name__(module.__class__, name)
    return made


def everywhere(patch: pytest.MonkeyPatch, name: str, value: Any, was: Any = None) -> None:
    """A name in every module of ours that has imported it; with ``was`` only where it is that very thing."""
    for module in [*sys.modules.values()]:
        ours = getattr(module, "__name__", "").startswith(("dprelease.", "tests."))
        if ours and name in vars(module) and (was is None or vars(module)[name] is was):
            patch.setattr(module, name, value)


@contextmanager
def planted(fault: Patch | None, seen_by: str = "") -> Iterator[pytest.MonkeyPatch]:
    """A fault is there within the block, and nothing of it behind it.

    Args:
        fault: None: nothing is planted.
        seen_by: The module of tests, such as ``tests.laws.test_sensitivity``, that looks at it.
    """
    memories = {name for name in sys.modules if name.startswith("dprelease.")} | _reached({seen_by} - {""})
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(planned, "_PLANS", {})
            if fault is not None:
                fault(patch)
            _forget(memories)
            yield patch
    finally:
        _forget(memories)


def _reached(names: set[str]) -> set[str]:
    """Modules of tests, and those whose names they use, and so on."""
    found: set[str] = set()
    while names:
        found |= names
        used = [held for name in names for held in vars(sys.modules[name]).values()]
        homes = {str(held.__name__ if inspect.ismodule(held) else getattr(held, "__module__", "")) for held in used}
        names = {name for name in homes if name.startswith("tests.") and name in sys.modules} - found
    return found


def _forget(names: Iterable[str]) -> None:
    for name in names:
        module = sys.modules[name]
        for held in [*vars(module).values()]:
            _forget_one(held)
            if inspect.isclass(held) and held.__module__ == name:
                for method in [*vars(held).values()]:
                    _forget_one(method)


def _forget_one(held: Any) -> None:
    if isinstance(held, functools._lru_cache_wrapper):
        held.cache_clear()


@dataclass(frozen=True)
class Seen:
    """A test of the suite that fails while a fault is planted.

    Attributes:
        module: Its module, below ``tests``, such as ``laws.test_sensitivity``.
        name: Of the function.
        cases: By parameter the text that its value must have for a case to be tried, of a function its name; empty: all
            cases but the nightly ones.
        made: Further arguments, made for the call in a folder of its own: what fixtures of the module would be.
    """

    module: str
    name: str
    cases: Mapping[str, str] = field(default_factory=dict)
    made: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """As pytest writes it."""
        return f"{self.module.replace('.', '/')}.py::{self.name}"

    @property
    def tier(self) -> str:
        """``fast``: it is in ``make test``; ``part``: some of its cases are; ``full``: it is in ``make test-all``."""
        module = importlib.import_module(f"tests.{self.module}")
        own = getattr(module, "pytestmark", [])
        marks = {
            mark.name for mark in [*getattr(self.load(), "pytestmark", []), *(own if isinstance(own, list) else [own])]
        }
        return "full" if "slow" in marks else "part" if "thin" in marks else "fast"

    def load(self) -> Any:
        """The function, imported before anything is planted."""
        return getattr(importlib.import_module(f"tests.{self.module}"), self.name)

    def calls(self, folder: Path, fixture: Fixtures) -> Iterator[Callable[[pytest.MonkeyPatch], object]]:
        """Each case that is tried, as a call.

        Args:
            folder: For ``tmp_path``, one of its own for each case.
            fixture: Gives a fixture of pytest's own by its name.
        """
        function = self.load()
        wanted = set(inspect.signature(function).parameters)
        for at, given in enumerate(_cases(function)):
            if all(_text(given.get(name)) == text for name, text in self.cases.items()):
                yield functools.partial(_call, function, wanted, given, self.made, folder / str(at), fixture)


def _call(
    function: Any,
    wanted: set[str],
    given: Mapping[str, object],
    made: Mapping[str, Callable[[Path], object]],
    folder: Path,
    fixture: Fixtures,
    patch: pytest.MonkeyPatch,
) -> object:
    folder.mkdir(parents=True)
    known = {**given, **{name: make(folder) for name, make in made.items()}}
    known = {"tmp_path": folder, "monkeypatch": patch, **known}
    return function(**{name: known[name] if name in known else fixture(name) for name in wanted})


def _cases(function: Any) -> Iterator[dict[str, object]]:
    """Every combination of a test's parameters, as pytest makes them."""
    grids = []
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            names = mark.args[0] if not isinstance(mark.args[0], str) else mark.args[0].replace(" ", "").split(",")
            rows = [_row(each, len(names)) for each in mark.args[1] if not _is_nightly(each)]
            grids.append([dict(zip(names, row, strict=True)) for row in rows])
    for parts in itertools.product(*grids):
        yield {name: value for part in parts for name, value in part.items()}


def _row(each: Any, names: int) -> tuple[object, ...]:
    """The values of one case: of ``pytest.param`` its own, else those of a tuple, or the one value of one name."""
    if hasattr(each, "marks"):
        return tuple(each.values)
    return tuple(each) if names > 1 else (each,)


def _is_nightly(each: Any) -> bool:
    return any(mark.name == "nightly" for mark in getattr(each, "marks", ()))


def _text(value: object) -> str:
    return str(getattr(value, "__name__", value))


@contextmanager
def processor_clock() -> Iterator[None]:
    """Seconds of an audit are those that this process has computed: on a busy machine it finds as much as on a quiet one."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (audit, canaries, path, search, timing):
            patch.setattr(module, "time", SimpleNamespace(monotonic=time.process_time))
        yield
