"""Two data sets that differ by one person, and no noise: what differs in the two bundles is what the noise must hide.

Everything else - which files there are, their rows, what the accounting says - must not depend on the data at all.
The noise is taken away in this test alone, by putting another function in the place of the one that adds it.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.ledger import StepKey
from dprelease.noise import Exact, Measurement
from dprelease.plan.document import ReleasePlan, Step
from dprelease.publish import render
from dprelease.release import draw
from dprelease.release.direct import run_directly
from dprelease.release.project import Project
from dprelease.release.publishing.rendering import facts_of
from dprelease.release.run import Request
from tests.project import small_project, writable_formats

FORMATS = f"\npublish: {{formats: [{', '.join(writable_formats())}]}}\n"
# Hashes and sizes of the files whose cells differ.
LEFT_OUT = {"sha256", "bytes", "hash", "dcat:byteSize", "spdx:checksum"}  # hashes and sizes of files
DERIVED = {"manifest.json", "datapackage.json", "dcat.jsonld", "SHA256SUMS"}


def _exact(step: Step, boxes: Sequence[Exact], sampler: str, piece: object) -> npt.NDArray[np.int64]:
    return np.concatenate([box._Exact__values for box in boxes])  # type: ignore[attr-defined]


def _released(folder: Path, drop: str) -> tuple[ReleasePlan, dict[str, Measurement], Project]:
    """A release without noise; one person is left out of the data."""
    spec = small_project(folder)
    spec.write_text(spec.read_text() + FORMATS)
    rows = (folder / "people-1.csv").read_text().splitlines()
    rows.remove(drop)
    (folder / "people-1.csv").write_text("\n".join(rows) + "\n")
    run_directly(Request(target=str(spec)))
    project = Project.find(folder)
    kept = project.open_ledger().find("survey", "2024")
    assert kept is not None
    plan = ReleasePlan.from_canonical(kept.plan)
    answers = {}
    for step in plan.steps:
        stored = project.open_ledger().stored(StepKey("survey", "2024", kept.plan_fingerprint, step.id))
        assert stored is not None
        answers[step.id] = stored
    return plan, answers, project


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The two bundles, with the facts of one ledger: another ledger has another clock, and says so."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(draw, "hidden", _exact)
        plan, one, project = _released(tmp_path_factory.mktemp("one"), "06-01,1,40000")
        other, two, _ = _released(tmp_path_factory.mktemp("two"), "07-01,1,88000")
    assert plan == other
    kept = project.open_ledger().find("survey", "2024")
    assert kept is not None
    facts = facts_of(project.open_ledger(), kept, plan)
    return dict(render(plan, one, facts).files), dict(render(plan, two, facts).files)


def test_the_data_decide_no_file_and_no_word_of_the_accounting(
    bundles: tuple[dict[str, bytes], dict[str, bytes]],
) -> None:
    one, two = bundles
    assert one.keys() == two.keys()
    differ = {name for name in one if one[name] != two[name]}
    assert differ >= {"index.html", "tables/population.csv", "measurements/population.persons.csv"} - _absent(one)
    allowed = (
        {name for name in one if name.startswith(("tables/", "measurements/", "pages/"))} | {"index.html"} | DERIVED
    )
    assert differ <= allowed - {"measurements/recipe.json"}


def _absent(files: dict[str, bytes]) -> set[str]:
    """Names of measurements follow the steps, which the planner names."""
    return {"measurements/population.persons.csv"} - files.keys()


def test_the_tables_differ_in_their_numbers_alone(bundles: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    number = re.compile(rb"-?\d+(\.\d+)?(e-?\d+)?")
    for name in bundles[0]:
        if name.endswith(".csv"):
            lines = [[part.split(b",") for part in files[name].splitlines()] for files in bundles]
            assert [len(line) for line in lines[0]] == [len(line) for line in lines[1]], name
            for before, after in zip(*lines, strict=True):
                for old, new in zip(before, after, strict=True):
                    assert old == new or (number.fullmatch(old) and number.fullmatch(new)), (name, old, new)


def test_the_page_differs_in_its_numbers_and_pictures_alone(
    bundles: tuple[dict[str, bytes], dict[str, bytes]],
) -> None:
    """With every number written as a sign, only charts (another axis) and flags of unreliable numbers may differ."""
    one, two = (re.sub(r"[−-]?\d[\d,.]*", "#", files["index.html"].decode()).splitlines() for files in bundles)
    told = re.compile(r'<rect|<line|<text|MB|kB|bytes|<figcaption|class="flag"|marked unreliable')
    for line in difflib.ndiff(one, two):
        assert line[:1] in " ?" or told.search(line), line


def test_hashes_and_sizes_are_all_that_differs_in_the_lists_of_files(
    bundles: tuple[dict[str, bytes], dict[str, bytes]],
) -> None:
    lists = (files["SHA256SUMS"].decode().splitlines() for files in bundles)
    assert len({tuple(line.partition("  ")[2] for line in each) for each in lists}) == 1
    for name in (DERIVED & bundles[0].keys()) - {"SHA256SUMS"}:
        one, two = (_without_hashes(json.loads(files[name])) for files in bundles)
        assert one == two


def _without_hashes(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_hashes(part) for key, part in value.items() if key not in LEFT_OUT}
    return [_without_hashes(part) for part in value] if isinstance(value, list) else value
