"""Every test is in a tier, every slow one has a fast twin, and the examples of properties are the same in every run."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import LONGEST, covering, steady_examples

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
README = (TESTS / "README.md").read_text(encoding="utf-8")
MODULES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))
AT_NIGHT = {"e2e/test_workers.py"}  # one test of two minutes; its processes on one ledger are raced by every run
TWINS = dict(re.findall(r"^\| `([a-z0-9_]+/test_\w+\.py)` \| (.+) \|$", README, re.MULTILINE))


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse((TESTS / module).read_text(encoding="utf-8"))


def marked(node: ast.AST, name: str) -> bool:
    return f"pytest.mark.{name}" in ast.unparse(node)


def of_module(tree: ast.Module, name: str) -> bool:
    """Whether all tests of a module have the mark."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return any(ast.unparse(node.targets[0]) == "pytestmark" and marked(node.value, name) for node in assigned)


def with_mark(tree: ast.Module, name: str) -> set[str]:
    """The tests that have the mark in all of their cases."""
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    own = {
        test.name for test in tests if any(ast.unparse(each) == f"pytest.mark.{name}" for each in test.decorator_list)
    }
    return {test.name for test in tests} if of_module(tree, name) else own


def all_tests(tree: ast.Module) -> set[str]:
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_what_is_begun_first_is_there() -> None:
    assert set(LONGEST) <= set[str]().union(*(all_tests(parsed(module)) for module in MODULES))


def test_the_commands_run_the_tiers() -> None:
    lines = dict(re.findall(r"^([a-z-]+): .*\n((?:\t.+\n)+)", MAKEFILE, re.MULTILINE))
    assert lines["test"] == "\t+$(MAKE) -s -j 2 check fast\n"
    assert lines["fast"] == '\t$(PYTEST) $(ENDING) --hypothesis-profile=fast -m "not slow and not nightly"\n'
    assert lines["test-all"] == "\t+$(MAKE) -s -j 2 check full\n"
    assert lines["full"] == '\t$(PYTEST) $(ENDING) --hypothesis-profile=full -m "not nightly"\n'
    assert lines["nightly"] == '\t$(PYTEST) --hypothesis-profile=nightly -m "nightly or hypothesis"\n'


@pytest.mark.parametrize("module", MODULES)
def test_every_module_but_one_is_reached_by_test_all(module: str) -> None:
    tree = parsed(module)
    assert bool(all_tests(tree) - with_mark(tree, "nightly")) is (module not in AT_NIGHT)


def test_every_module_with_slow_tests_names_its_fast_twin() -> None:
    assert set(TWINS) == {name for name in MODULES if with_mark(parsed(name), "slow")}


@pytest.mark.parametrize("module", sorted(TWINS))
def test_a_fast_twin_is_there_and_fast(module: str) -> None:
    named = re.findall(r"`(\S+?)::(test_\w+)`", TWINS[module])
    assert named
    for path, test in named:
        tree = parsed(path)
        assert test in all_tests(tree) - with_mark(tree, "slow") - with_mark(tree, "nightly"), f"{path}::{test}"


def test_both_default_profiles_are_derandomized_and_own_settings_keep_that() -> None:
    for name in ("fast", "full"):
        profile = settings.get_profile(name)
        assert (profile.derandomize, profile.database, profile.print_blob) == (True, None, True)
        assert settings(profile, max_examples=7).derandomize
    assert not settings.get_profile("nightly").derandomize


def test_examples_do_not_depend_on_what_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tried() -> list[tuple[int, float]]:
        seen = []

        @settings(settings.get_profile("full"), max_examples=60)
        @given(whole=st.integers(), real=st.floats(allow_nan=False))
        def property_of_nothing(whole: int, real: float) -> None:
            seen.append((whole, real))

        property_of_nothing()
        return seen

    steady_examples()
    before = tried()
    path = tmp_path / "with_telling_numbers.py"
    path.write_text("".join(f"{number}, {number}.25\n" for number in range(123_456_000, 123_456_400)))
    module = ModuleType("with_telling_numbers")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "with_telling_numbers", module)
    assert tried() == before
    assert len(set(before)) > 40


def test_a_thinned_grid_keeps_every_value() -> None:
    cases = [(("a", a), ("b", b), ("c", c)) for a in range(7) for b in range(5) for c in range(2)]
    kept = [cases[at] for at in covering(cases)]
    assert {value for case in kept for value in case} == {value for case in cases for value in case}
    assert len(kept) == 7
