"""The site of the documentation: built strictly, complete, and readable without a network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import pytest
import yaml

from tests.repo.documents import ROOT

_WHY = "mkdocs-material is not installed: pip install 'dprelease[docs]'"
without_theme = pytest.mark.skipif(find_spec("material") is None, reason=_WHY)
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@cache
def built() -> Path:
    """The site, built as `make docs` builds it; any warning ends it."""
    target = Path(mkdtemp(prefix="dprelease-site-"))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING  -" not in done.stderr
    return target


def _navigation(part: object) -> list[str]:
    if isinstance(part, dict):
        return [each for value in part.values() for each in _navigation(value)]
    if isinstance(part, list):
        return [each for value in part for each in _navigation(value)]
    return [str(part)]


def test_every_page_of_the_documentation_is_in_the_navigation() -> None:
    listed = _navigation(yaml.safe_load(CONFIG)["nav"])
    made = {"index.md", "reference/spec.md", "reference/commands.md", "reference/errors.md"}
    folders = {each for each in listed if each.endswith("/")}
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert {each for each in listed if each.endswith(".md")} - made <= pages
    lost = {page for page in pages - set(listed) if not any(page.startswith(each) for each in folders)}
    assert lost == set(), "add them to `nav` of mkdocs.yml"


@pytest.mark.slow
@without_theme
def test_every_page_is_there_and_none_asks_the_network_for_anything() -> None:
    pages = {path.relative_to(built()).as_posix() for path in built().rglob("*.html")}
    for source in (ROOT / "docs").rglob("*.md"):
        name = source.relative_to(ROOT / "docs").with_suffix(".html").as_posix().replace("README.html", "index.html")
        assert name in pages
    for page in pages:
        text = (built() / page).read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//', text), page
        assert not re.search(r'<link[^>]+rel="(?:stylesheet|preconnect)"[^>]+href="(?:https?:)?//', text), page


@pytest.mark.slow
@without_theme
def test_the_search_knows_every_field_of_the_spec_and_every_command() -> None:
    found = json.loads((built() / "search" / "search_index.json").read_text(encoding="utf-8"))
    texts = {each["location"].partition("#")[0]: "" for each in found["docs"]}
    for each in found["docs"]:
        texts[each["location"].partition("#")[0]] += each["title"] + " " + each["text"] + "\n"
    schema = json.loads((ROOT / "specs" / "schema.json").read_text(encoding="utf-8"))
    fields = {name for each in (schema, *schema["$defs"].values()) for name in each.get("properties", {})}
    assert {name for name in fields if f">{name}<" not in texts["reference/spec.html"]} == set()
    for command in ("dprelease run", "dprelease ledger check", "dprelease doctor"):
        assert command in texts["reference/commands.html"]
