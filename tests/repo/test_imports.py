"""What the private path may not touch, read from the syntax tree of every file of the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from dprelease.noise import exact

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(path for folder in ("dprelease", "pipelines") for path in (ROOT / folder).rglob("*.py"))

OPENERS = (".open_exact", ".open_histogram", ".open_keys")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _inside(path: Path, folder: str) -> bool:
    return path.is_relative_to(ROOT / folder)


@cache
def names_used(source: str) -> frozenset[str]:
    """Dotted names that a source imports, or reaches through an attribute of a plain name."""
    return frozenset(_names_used(list(ast.walk(ast.parse(source)))))


def _names_used(nodes: list[ast.AST]) -> Iterator[str]:
    aliases: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                aliases[alias.asname or alias.name] = alias.name
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}"
    for node in nodes:
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            yield f"{aliases.get(owner, owner)}.{node.attr}"


def _starts(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def _seeded(source: str) -> set[str]:
    banned = ("random", "secrets", "numpy.random")
    return {name for name in names_used(source) for module in banned if _starts(name, module)}


# Margins of derived tables are simulated: after the noise, keyed by the measurements' fingerprint, so that the same
# release is rendered the same way for ever. Floor 6 has no exact value: only engines make them, and they are siblings.
SIMULATING = {f"dprelease/publish/derive/{name}.py" for name in ("tables", "run", "replicate", "workloads")}


# People who do not exist, for trying things on. Nothing on the floors of a release may import the attacks (layers).
MADE_UP = ("dprelease/starter", "dprelease/attacks")


def test_randomness_comes_from_the_samplers_alone() -> None:
    """Made-up data (starter) may use a seeded generator, and so may margins of derived tables; nothing else does."""
    found = {_name(path): _seeded(_text(path)) for path in SOURCES if not any(_inside(path, room) for room in MADE_UP)}

    allowed = {name: {"numpy.random", "numpy.random.Generator"} for name in SIMULATING}
    assert {name: wrong for name, names in found.items() if (wrong := names - allowed.get(name, set()))} == {}


def test_yaml_is_never_loaded_by_the_library() -> None:
    """The strict loader works on events: library loaders read `no` as false and follow aliases."""
    loaders = {
        f"yaml.{name}" for name in ("load", "load_all", "safe_load", "safe_load_all", "full_load", "unsafe_load")
    }

    assert [_name(path) for path in SOURCES if loaders & names_used(_text(path))] == []


def test_only_noise_opens_exact_values() -> None:
    private = re.compile(r"_(Exact|ExactHistogram|ExactKeys)__")
    outside = [path for path in SOURCES if not _inside(path, "dprelease/noise")]

    assert [(_name(path), name) for path in outside for name in names_used(_text(path)) if name.endswith(OPENERS)] == []
    assert [_name(path) for path in outside if private.search(_text(path))] == []


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from random import Random",
        "import numpy as np\nnp.random.default_rng()",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import secrets as s\ns.token_bytes(4)",
        "def draw():\n    from random import gauss",
    ],
)
def test_the_ban_finds_every_way_to_import_a_generator(source: str) -> None:
    assert _seeded(source)


def test_every_box_has_its_opener_on_the_list() -> None:
    assert {f".{name}" for name in vars(exact) if name.startswith("open_")} == set(OPENERS)
    assert {name for name in vars(exact) if name.startswith("Exact") and name != "ExactLeakError"} == {
        "Exact",
        "ExactHistogram",
        "ExactKeys",
    }


def test_the_ban_finds_loaders_and_openers() -> None:
    found = set(names_used("import yaml as y\ny.safe_load(t)\nfrom dprelease.noise.exact import open_exact"))

    assert {"yaml.safe_load", "dprelease.noise.exact.open_exact"} <= found
