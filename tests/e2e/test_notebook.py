"""The notebook of the documentation runs from top to bottom in an empty folder, and again in the same one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.project import environment

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# What a kernel does with a cell: the value of its last line is shown as HTML where it can be.
RUNNER = """
import ast, json, sys
names = {}
for number, cell in enumerate(json.loads(sys.stdin.read())):
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) and not cell.rstrip().endswith(";") else None
    exec(compile(tree, f"cell {number}", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        html = getattr(value, "_repr_html_", None)
        print(json.dumps([number, repr(value) if html is None else html()]))
from matplotlib import pyplot
print(json.dumps([len(pyplot.get_fignums()), "figures"]))
"""


def cells(path: Path, kind: str) -> list[str]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def run(path: Path, folder: Path) -> list[list[Any]]:
    """What each cell shows; the last line says how many figures were drawn."""
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", RUNNER],
        input=json.dumps(cells(path, "code")),
        cwd=folder,
        env=environment({"MPLBACKEND": "Agg", "MPLCONFIGDIR": str(folder / ".matplotlib")}),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_there_is_a_notebook() -> None:
    assert [path.name for path in NOTEBOOKS] == ["a-release-in-a-notebook.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_and_without_paths_of_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)

    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)
    for root in ("/home/", "/Users/", "/root/", "/tmp/", "C:\\"):
        assert root not in text
    for target in (part.split(")")[0] for each in cells(path, "markdown") for part in each.split("](")[1:]):
        assert (path.parent / target).exists(), target


@pytest.mark.slow  # its quick twin: the examples of docs/python-api.md
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom_and_once_more(path: Path, tmp_path: Path) -> None:
    first, second = run(path, tmp_path), run(path, tmp_path)

    assert first[-1] == second[-1] == [1, "figures"]
    assert first[2:] != []
    shown = dict(map(tuple, first))
    assert [value for value in shown.values() if "exists" in value] == ["('exists', 0)"]
    for told in ("plan of regions/2024", "checks passed, none failed", "epsilon 1 at delta 1e-9", "spend of 1 account"):
        assert sum(told in value for value in shown.values()) >= 1, told
    # Nothing was drawn again: what is shown of the release is the same.
    assert {number: value for number, value in first[3:] if "ledger" not in value} == {
        number: value for number, value in second[3:] if "ledger" not in value
    }
