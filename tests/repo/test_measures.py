"""What a measure is stands in its own file: no other module asks of which kind one is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dprelease.measures import Measure

PACKAGE = Path(__file__).parents[2] / "dprelease"
# Where one is made, not asked for; and the largest square that an engine takes.
MADE_BY = {
    ("plan/lower/workloads.py", "Count"),
    ("release/tuning/fine_grids.py", "LARGEST_SQUARE"),
}
SHARED = {"dprelease.measures", "dprelease.measures.text", "dprelease.measures.tested.quotients"}
COMPARING = "dprelease.measures.comparing."  # the room of what is made of published numbers: no kind is in it


def kinds() -> set[str]:
    """The names of all classes of measures but the base of all."""
    found, left = set(), [Measure]
    while left:
        below = left.pop().__subclasses__()
        found |= {each.__name__ for each in below if each.__module__.startswith("dprelease.")}
        left += below
    return found


def asked_for(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """The classes, of those with these names, that code compares the class of a value with."""
    for node in ast.walk(tree):
        tests: list[ast.expr] = []
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            tests = node.args[1:]
        elif isinstance(node, ast.MatchClass):
            tests = [node.cls]
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node):
            tests = [node.left, *node.comparators]
        for part in (part for test in tests for part in ast.walk(test)):
            name = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
            if name in names:
                yield name


def taken(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """What a module imports from inside of ``measures``: the module and the name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dprelease.measures"):
            yield from ((str(node.module), each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.startswith("dprelease.measures"))


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.AST]:
    paths = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "measures"]
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def test_no_module_outside_asks_for_the_class_of_a_measure(modules: dict[str, ast.AST]) -> None:
    names = kinds()
    assert {"Count", "Quantile", "PlannedRatio", "Ranged", "WrittenMeasure"} <= names
    assert [(path, name) for path, tree in modules.items() for name in asked_for(tree, names)] == []


def test_no_module_outside_imports_a_kind_of_measure(modules: dict[str, ast.AST]) -> None:
    inside = {
        (path, name)
        for path, tree in modules.items()
        for module, name in taken(tree)
        if module not in SHARED and not module.startswith(COMPARING)
    }
    assert inside == MADE_BY


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(x, Count)",
        "isinstance(x, Count | Sum)",
        "isinstance(x, (int, count.Count))",
        "issubclass(X, Count)",
        "type(x) is Count",
        "match x:\n    case Count(count='rows'):\n        pass",
    ],
)
def test_whoever_asks_is_found(text: str) -> None:
    assert "Count" in asked_for(ast.parse(text), {"Count", "Sum"})
    assert list(asked_for(ast.parse(text), {"Mean"})) == []
