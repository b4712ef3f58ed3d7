"""Bundles before the checkers that others wrote: the W3C's for pages, and the shapes of DCAT-AP for catalogue entries.

Each is skipped where it is not installed. ``make check-pages`` installs them and runs all of this folder; ``tests/README.md``
says how. Nothing is fetched while it runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from dprelease.publish import render
from dprelease.publish.bundle.checks.checking_page import checking_page
from tests.unit import languages_example, test_hostile_bundle
from tests.unit.publish_example import facts, measurements
from tests.unit.test_catalogue import entered

VNU, SHAPES, PYTHON = (os.environ.get(f"DPRELEASE_{name}", "") for name in ("VNU", "SHAPES", "SHACL_PYTHON"))
needs_vnu = pytest.mark.skipif(
    not (VNU and Path(VNU).is_file() and shutil.which("java")),
    reason="DPRELEASE_VNU does not name vnu.jar, or there is no java",
)
needs_shapes = pytest.mark.skipif(
    not (SHAPES and Path(SHAPES, "shapes_recommended.ttl").is_file()),
    reason="DPRELEASE_SHAPES does not name a folder with shapes.ttl, range.ttl and shapes_recommended.ttl of DCAT-AP 3.0.1",
)
pytestmark = pytest.mark.slow
ADDRESS = "https://statistics.example.org/releases/a/2024-03/dcat.jsonld"
# Box and centre of a place: a spec has no words for them, and a place is told by its name or by its entry in a list.
LEFT_OUT = {"http://www.w3.org/ns/dcat#bbox", "http://www.w3.org/ns/dcat#centroid"}
PROGRAM = """
import sys
from pyshacl import validate
from rdflib import Graph, Namespace
SH = Namespace("http://www.w3.org/ns/shacl#")
data = Graph().parse(sys.argv[1], format="json-ld", publicID=sys.argv[2])
_, found, _ = validate(data, shacl_graph=Graph().parse(sys.argv[3], format="turtle"))
for each in found.objects(None, SH.resultPath):
    print(each)
"""


@cache
def catalogued() -> Mapping[str, bytes]:
    """A release of which the author says all that catalogues ask for."""
    made = entered()
    files = render(made, measurements(), facts(made)).files
    return {path: bytes(files[path]) for path in files}


def complaints(entry: Path, shapes: str) -> set[str]:
    """The terms that shapes complain of."""
    command = [PYTHON or sys.executable, "-c", PROGRAM, str(entry), ADDRESS, str(Path(SHAPES, shapes))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@needs_shapes
def test_an_entry_keeps_the_shapes_of_dcat_ap_and_has_what_they_recommend(tmp_path: Path) -> None:
    entry = tmp_path / "dcat.jsonld"
    entry.write_bytes(catalogued()["dcat.jsonld"])
    assert complaints(entry, "shapes.ttl") == complaints(entry, "range.ttl") == set()
    assert complaints(entry, "shapes_recommended.ttl") == LEFT_OUT
    entry.write_bytes(catalogued()["dcat.jsonld"].replace(b'"dct:title"', b'"dct:alternative"'))
    assert complaints(entry, "shapes.ttl") == {"http://purl.org/dc/terms/title"}


@needs_shapes
def test_an_entry_in_two_languages_keeps_the_shapes(tmp_path: Path) -> None:
    made = languages_example.plan(languages_example.SPEC.replace("[csv, json, xlsx, html]", "[csv, dcat]"))
    entry = tmp_path / "dcat.jsonld"
    entry.write_bytes(render(made, languages_example.measured(made), facts(made)).files["dcat.jsonld"])
    assert complaints(entry, "shapes.ttl") == complaints(entry, "range.ttl") == set()


@needs_vnu
def test_the_checker_of_the_w3c_finds_no_error_on_any_page(tmp_path: Path) -> None:
    pages = {f"a/{path}": data for path, data in catalogued().items() if path.endswith(".html")}
    pages |= {f"b/{path}": data for path, data in languages_example.bundle().items() if path.endswith(".html")}
    pages |= {f"c/{path}": text.encode() for path, text in test_hostile_bundle.pages().items()}
    pages["verify.html"] = checking_page([])
    for path, data in pages.items():
        at = tmp_path / "pages" / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(data)
    assert len(pages) > 10
    assert errors_of(tmp_path / "pages") == ""
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / "index.html").write_bytes(pages["a/index.html"].replace(b"<main", b"<main><table><p", 1))
    assert "error" in errors_of(wrong)


def errors_of(folder: Path) -> str:
    """What the checker says of the pages below a folder."""
    command = ["java", "-jar", VNU, "--errors-only", "--skip-non-html", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stderr
