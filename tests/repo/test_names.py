"""A public name stands in one module: a reader who searches for it finds one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "dprelease"
# Interfaces that several modules share on purpose, and names that still wait for one of their own. Nothing is added.
LISTED = {
    "Loss",
    "Parallel",
    "Problem",
    "Workload",
    "delta",
    "draws_of",
    "epsilon",
    "main",
    "reach_of",
    "total_rho",
    "verify",
}


def defined_twice() -> set[str]:
    """The public functions and classes that more than one module defines at its top level."""
    modules: dict[str, set[Path]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith(
                "_"
            ):
                modules[node.name].add(path)
    return {name for name, paths in modules.items() if len(paths) > 1}


def test_no_further_public_name_stands_in_two_modules() -> None:
    found = defined_twice()

    assert {"delta", "epsilon"} <= found  # every theorem answers both
    assert found <= LISTED, sorted(found - LISTED)
