"""The page about the code, and every other document, names what exists; its walks are those that the code takes."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from .documents import ROOT, documents

PACKAGE = ROOT / "dprelease"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
INVITATIONS = ROOT / "CONTRIBUTING.md"  # names files that are not written yet
# Paths in a project, a release or a bundle, which are no files of the repository.
ELSEWHERE = re.compile(
    r"^(state|state-anchor|state-key|(specs/)?releases|releases-synthetic|measurements|pages|tables|data)/"
    r"|^/flow_runs/$|^//$|^total\.py$|^pipeline\.py$"
)
_WALK = re.compile(r"^\| `([\w/]+\.py)` \| `([\w.]+)` \|", re.MULTILINE)
_ROOM = re.compile(r"^\| `(\w+(?:/\w+)+)/` \| (.+) \|$", re.MULTILINE)


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


@cache
def _stored() -> frozenset[str]:
    """The ends of all paths of the repository: ``a/b.py`` stands for ``a/b.py`` and ``b.py``."""
    ends = set()
    for top in ("dprelease", "tests", "docs", "bench", "specs", "pipelines"):
        for path in (ROOT / top).rglob("*"):
            parts = path.relative_to(ROOT).parts
            ends |= {"/".join(parts[start:]) for start in range(len(parts))}
    return frozenset(ends | {path.name for path in ROOT.iterdir()})


def _walk(number: int) -> list[tuple[str, str]]:
    """The stops of a walk of the page: (module, function)."""
    (text,) = re.findall(rf"^## Walk {number}: .*?(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    return _WALK.findall(text)


def _defined(module: str) -> set[str]:
    """Names of functions, classes and their methods in a module."""
    found = set()
    for node in _tree(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def _used(module: str) -> set[str]:
    """Every name that the code of a module uses."""
    nodes = list(ast.walk(_tree(module)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _returns(rooms: list[str]) -> int:
    """How often a walk enters a room that it had left."""
    return sum(room in rooms[:at] and rooms[at - 1] != room for at, room in enumerate(rooms))


def test_a_return_is_counted_where_a_room_is_entered_again() -> None:
    assert _returns(["a", "a", "b", "a", "b", "c"]) == 2


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_of_the_code_in_a_document_exists(path: Path) -> None:
    if path == INVITATIONS:
        pytest.skip("its table names the files that a contributor would write")
    named = re.findall(r"`([\w/.-]+(?:\.py|/))(?:::?\w+)?`", path.read_text(encoding="utf-8"))

    missing = [name for name in named if name.strip("/") not in _stored() and not ELSEWHERE.search(name)]

    assert missing == []


def test_every_room_is_on_the_page_with_its_own_words() -> None:
    rooms = {
        path.parent.relative_to(PACKAGE).as_posix(): (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
        for path in PACKAGE.glob("*/*/**/__init__.py")
    }

    assert dict(_ROOM.findall(PAGE)) == {room: text.splitlines()[0] for room, text in rooms.items()}


@pytest.mark.parametrize("number", [1, 2])
def test_every_stop_of_a_walk_is_defined_where_the_page_says(number: int) -> None:
    stops = _walk(number)

    assert len(stops) > 10
    assert [f"{module}: {name}" for module, name in stops if name not in _defined(module)] == []


def test_every_stop_of_the_first_walk_is_called_from_an_earlier_one() -> None:
    """By its name; of the one that reads a spec the file between them, which has the project's paths, is left out."""
    stops = _walk(1)
    called = set(_used("release/project.py"))
    apart = []
    for at, (module, name) in enumerate(stops):
        if at and name.split(".")[-1] not in called:
            apart.append(f"{module}: {name}")
        called |= _used(module)

    assert apart == []


@pytest.mark.parametrize("number", [1, 2])
def test_a_walk_seldom_returns_to_a_room_that_it_left(number: int) -> None:
    stops = _walk(number)
    rooms = [module.rpartition("/")[0] for module, _ in stops]

    assert _returns([module for module, _ in stops]) < 5
    assert _returns(rooms) < 15
