"""A public name stands in one module: a reader who searches for it finds one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "dprelease"
# Interfaces that several modules share on purpose, and names that still wait for one of their own. Nothing is added.
LISTED = {
    "Answer",
    "Asked",
    "Change",
    "Columns",
    "Compared",
    "Derived",
    "Entry",
    "Group",
    "Line",
    "Loss",
    "Node",
    "Output",
    "Parallel",
    "Part",
    "Problem",
    "Selection",
    "Side",
    "Source",
    "Table",
    "Term",
    "Workload",
    "between",
    "blocks",
    "canonical",
    "check",
    "columns",
    "columns_of",
    "compare",
    "compared",
    "counted",
    "covariance",
    "delta",
    "derived",
    "draw",
    "draws_of",
    "epsilon",
    "export",
    "fields",
    "header",
    "key_columns",
    "key_text",
    "left_out",
    "main",
    "manifest_of",
    "measured",
    "named",
    "packed",
    "planned",
    "quoted",
    "reach_of",
    "read",
    "read_by",
    "read_measurements",
    "read_text",
    "recover",
    "refuse",
    "rounded",
    "shown",
    "signed",
    "size_of",
    "split",
    "table_names",
    "total_rho",
    "totals",
    "untied",
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
