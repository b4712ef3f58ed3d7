"""Of a package that is loaded late, what is asked for is what the whole package would give."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from dprelease.late_modules import LateModules

NAME = "late_example"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of two modules, of which it gives two names; nothing of it stays loaded."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "__init__.py").write_text("from .one import first\nfrom .two import second\nthird = 3\n")
    (folder / "one.py").write_text("first = object()\n")
    (folder / "two.py").write_text("second = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


def _loaded() -> set[str]:
    return {name for name in sys.modules if name.startswith(f"{NAME}.")}


def test_a_name_comes_from_its_module_and_any_other_one_from_the_whole(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", [LateModules({NAME: {"first": "one"}}, ()), *sys.meta_path])
    late = import_module(NAME)
    assert not _loaded()
    first = late.first
    assert _loaded() == {f"{NAME}.one"}
    assert late.third == 3
    assert _loaded() == {f"{NAME}.one", f"{NAME}.two"}
    assert late.first is first is sys.modules[f"{NAME}.one"].first
    with pytest.raises(AttributeError, match="no attribute 'fourth'"):
        _ = late.fourth


@pytest.mark.parametrize("place", ["gone", "two"])
def test_a_name_that_has_moved_is_found_by_loading_the_whole(
    place: str, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of the package may have other modules, or the name in another one."""
    monkeypatch.setattr(sys, "meta_path", [LateModules({NAME: {"first": place}}, ()), *sys.meta_path])
    late = import_module(NAME)
    assert late.first is sys.modules[f"{NAME}.one"].first
    assert late.second is sys.modules[f"{NAME}.two"].second


def test_threads_that_ask_at_once_get_the_same_names(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one of them loads the whole, no other one is told that there is no such name."""
    (package / "__init__.py").write_text(
        "import time\nfrom .one import first\ntime.sleep(.05)\nfrom .two import second\nthird = 3\n"
    )
    monkeypatch.setattr(sys, "meta_path", [LateModules({NAME: {}}, ()), *sys.meta_path])
    late, together = import_module(NAME), threading.Barrier(6)
    found: list[object] = []

    def ask(name: str) -> None:
        together.wait()
        found.append((name, getattr(late, name)))

    asking = [threading.Thread(target=ask, args=(name,)) for name in ("first", "second", "third") * 2]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    one, two = sys.modules[f"{NAME}.one"].first, sys.modules[f"{NAME}.two"].second
    assert len(found) == 6
    assert {*found} == {("first", one), ("second", two), ("third", 3)}
    assert "__getattr__" not in vars(late)
