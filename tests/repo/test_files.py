"""Files are short, named for what they do, and agree with one another."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import dprelease

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path for folder in ("dprelease", "pipelines", "tests", "bench") for path in (ROOT / folder).rglob("*.py")
)
PACKAGES = sorted((ROOT / "dprelease").rglob("__init__.py"))
STARTER = ROOT / "dprelease" / "starter" / "project"


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _parts(path: Path) -> tuple[str, ...]:
    return path.relative_to(ROOT).parts


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_a_file_has_fewer_than_400_lines() -> None:
    long = {_name(path): lines for path in SOURCES if (lines := len(_text(path).splitlines())) >= 400}

    assert long == {}


def test_a_room_has_at_most_sixteen_modules() -> None:
    """One that is picked out of more is not found at a glance (docs/decisions/0048); what a room says of itself is none."""
    rooms = Counter(path.parent for path in SOURCES if _parts(path)[0] == "dprelease" and path.name != "__init__.py")

    assert {_name(room): modules for room, modules in rooms.items() if modules > 16} == {}


def test_a_file_is_named_for_what_it_does() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "manager", "core", "misc"}

    assert [_name(path) for path in SOURCES if vague & {part.removesuffix(".py") for part in _parts(path)}] == []


def test_a_package_says_what_it_is_for() -> None:
    """Which question it answers, and its floor."""
    silent = [_name(path) for path in PACKAGES if not ast.get_docstring(ast.parse(_text(path)))]

    assert silent == []


def test_nothing_is_left_to_do() -> None:
    words = re.compile("TO" + r"DO\b|FIX" + r"ME\b|X" + r"XX\b")

    assert [_name(path) for path in SOURCES if words.search(_text(path))] == []


def test_a_silenced_lint_rule_gives_its_reason() -> None:
    bare = re.compile(r"#\s*noqa(?::\s*[A-Z0-9, ]+)?\s*$", re.MULTILINE)

    silent = [_name(path) for path in SOURCES if bare.search(_text(path))]

    assert silent == []


def test_the_version_is_the_same_everywhere() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert newest is not None
    assert declared == dprelease.__version__ == newest[1]


@pytest.mark.parametrize("name", ["quickstart.yaml", "dprelease.yaml", "reference/districts.csv"])
def test_specs_and_a_new_project_hold_the_same_file(name: str) -> None:
    assert (STARTER / name).read_bytes() == (ROOT / "specs" / name).read_bytes()


def test_every_template_is_in_the_wheel() -> None:
    """Hatchling leaves out what .gitignore names; none of its patterns may match a template."""
    from dprelease.starter import FILES

    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split() if line]
    templates = {path.relative_to(STARTER).as_posix() for path in STARTER.rglob("*") if path.is_file()}

    assert templates == set(FILES.values())
    assert not [name for name in templates for part in name.split("/") if part in ignored]


def test_continuous_integration_runs_every_test_but_the_nightly_ones() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert "set -euo pipefail" in script
    assert script.rstrip().endswith("make test-all")
