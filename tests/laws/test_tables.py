"""Every entry of a table that contributors add to goes from a plan to a bundle, is verified, and is named by ``diff``.

A format is entered in one line, and nothing here names one but to make a wrong one: a new line is tested by itself.
"""

from __future__ import annotations

import csv
import io
import json
import mimetypes
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dprelease.errors import BrokenPromiseError, PlanError, SpecError
from dprelease.formats import FORMATS, Format
from dprelease.noise import Measurement
from dprelease.plan.document import FrozenPlan, ReleasePlan
from dprelease.plan.explain.memory import memory_of
from dprelease.publish import Facts, check_bundle
from dprelease.publish.base import table_names
from dprelease.publish.bundle.checks.opened import read_bundle
from dprelease.publish.bundle.package import bundle_files, planned_files
from dprelease.publish.formats import jsonstat
from dprelease.publish.publishable import missing_extras
from dprelease.release import direct
from dprelease.release.diff import DiffSide, compare_sides, open_side
from dprelease.release.planning import read_frozen
from dprelease.release.run import Request
from dprelease.spec.load import load
from dprelease.spec.schema import json_schema
from tests.planned import SPEC
from tests.project import writable_formats
from tests.shapes import shapes_project

names = pytest.mark.parametrize("name", list(FORMATS))


@dataclass(frozen=True)
class Released:
    """A bundle of every format that can be made here, with what it was made of."""

    folder: Path
    plan: ReleasePlan
    facts: Facts
    measured: Mapping[str, Measurement]

    def files(self, *formats: str) -> Mapping[str, bytes]:
        """The files of the same release in these formats."""
        plan = in_formats(self.plan, *formats)
        facts = self.facts.model_copy(update={"plan_fingerprint": plan.fingerprint()})
        return bundle_files(plan, self.measured, facts)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Released:
    spec = shapes_project(tmp_path_factory.mktemp("tables") / "project", writable_formats())
    folder = Path(direct.run_directly(Request(target=str(spec))).folder)
    bundle, why = read_bundle(folder)
    assert bundle is not None, why
    assert bundle.plan is not None, "plan.json"
    assert bundle.facts is not None, "facts.json"
    assert bundle.measured[0] is not None, bundle.measured[1]
    return Released(folder, bundle.plan, bundle.facts, bundle.measured[0])


def in_formats(plan: ReleasePlan, *formats: str) -> ReleasePlan:
    return plan.model_copy(update={"publish": plan.publish.model_copy(update={"formats": formats})})


def makeable(name: str) -> Format:
    missing = missing_extras([name])
    if missing:
        pytest.skip(missing[name])
    return FORMATS[name]


def faults(released: Released, form: Format) -> list[str]:
    """What is wrong with a format: other files than it declares, files of another type, other bytes the next time."""
    try:
        first, second = (released.files(form.name) for _ in range(2))
    except BrokenPromiseError as error:
        return [error.summary]
    found = [path for path in form.paths(table_names(released.plan)) if path not in first]
    own = first.keys() - set(planned_files(in_formats(released.plan)))  # those of no format are taken away
    types = [form.media_type] if form.ending or not form.once else []
    for path in sorted(own):
        is_table = bool(form.ending) and path.endswith(form.ending)
        asked = form.media_type if is_table or not types else mimetypes.guess_type(path)[0] or ""
        found += [f"{path} is not of type {asked}"] if not fits(asked, path, first[path]) else []
    return found + [f"{path} has other bytes the second time" for path in sorted(own) if first[path] != second[path]]


def fits(media_type: str, path: str, data: bytes) -> bool:
    """Whether bytes can be what a media type says, and the ending of the file does not say otherwise."""
    kind = media_type.rpartition("+")[2] if "+" in media_type else media_type.rpartition("/")[2]
    known = mimetypes.guess_type(path)[0]
    if re.fullmatch(r"[a-z]+/[a-z0-9.+-]+", media_type) is None:
        return False
    if known is not None and known != media_type and not known.endswith(f"/{kind}"):
        return False
    reads: dict[str, Callable[[bytes], bool]] = {
        "csv": lambda data: len({len(row) for row in csv.reader(io.StringIO(data.decode(), newline=""))}) == 1,
        "json": lambda data: bool(json.loads(data)),
        "html": lambda data: data.lower().startswith(b"<!doctype html>"),
        "pdf": lambda data: data.startswith(b"%PDF-"),
        "vnd.apache.parquet": lambda data: data[:4] == data[-4:] == b"PAR1",
        "vnd.openxmlformats-officedocument.spreadsheetml.sheet": lambda data: (
            "xl/workbook.xml" in zipfile.ZipFile(io.BytesIO(data)).namelist()
        ),
    }
    try:
        return reads[kind](data) if kind in reads else media_type.startswith("text/") and bool(data.decode())
    except (ValueError, zipfile.BadZipFile):
        return False


# Of every format.


@names
def test_a_spec_and_a_plan_can_name_it_and_a_plan_says_what_it_weighs(name: str, released: Released) -> None:
    assert name in json_schema()["$defs"]["PublishSpec"]["properties"]["formats"]["items"]["enum"]
    assert load(f"{SPEC}publish: {{formats: [{name}]}}\n", "spec.yaml").spec.publish.formats == (name,)
    plan = ReleasePlan.from_canonical(in_formats(released.plan, name).canonical())
    assert plan.publish.formats == (name,)
    assert memory_of(plan).publish >= memory_of(in_formats(plan)).publish


@names
def test_it_writes_the_files_that_it_declares_of_their_type_and_alike_each_time(name: str, released: Released) -> None:
    form = makeable(name)
    assert faults(released, form) == []
    assert form.wrong([], []) == tuple(sorted(path for path, _ in form.once))


@names
def test_diff_names_its_files(name: str, released: Released) -> None:
    others = tuple(each for each in FORMATS if each != name)
    before, after = (DiffSide("a", "plan", in_formats(released.plan, *each)) for each in (others, (*others, name)))
    found = compare_sides(before, after, released.plan.publish.confidence)
    assert sorted(found.added) == sorted(FORMATS[name].paths(table_names(released.plan)))
    assert found.dropped == ()
    assert [each.what for each in found.moved.differences] == ["formats"]


# Of a release of all of them.


def test_the_bundle_has_the_declared_files_and_no_other(released: Released) -> None:
    there = {path.relative_to(released.folder).as_posix() for path in released.folder.rglob("*") if path.is_file()}
    folders = tuple(form.folder for form in FORMATS.values() if form.folder)
    assert {path for path in there if not path.startswith(folders)} == set(planned_files(released.plan))


def test_the_bundle_is_verified_and_compared_with_itself(released: Released) -> None:
    checks = check_bundle(released.folder)
    assert [check.name for check in checks if check.passed is False] == []
    side = open_side(str(released.folder))
    assert compare_sides(side, side, released.plan.publish.confidence).added == ()


def test_pages_and_the_data_package_say_the_media_types_of_the_table(released: Released) -> None:
    index = (released.folder / "index.html").read_text(encoding="utf-8")
    (told,) = re.findall(r'<script type="application/ld\+json">(.*?)</script>', index, re.DOTALL)
    said = [(each["encodingFormat"], each["contentUrl"]) for each in json.loads(told)["distribution"]]
    forms = [FORMATS[name] for name in released.plan.publish.formats]
    of_tables = {form.path("income"): form.media_type for form in forms if form.ending}
    assert {path: kind for kind, path in said if path in of_tables} == of_tables
    package = json.loads((released.folder / "datapackage.json").read_bytes())
    for each in package["resources"]:
        assert each["mediatype"] == FORMATS[each["format"]].media_type
        assert each["path"] == FORMATS[each["format"]].path(Path(each["path"]).stem)


def test_the_index_lists_files_in_the_order_that_it_always_had(released: Released) -> None:
    listed = re.findall(r'<li><a href="([^"]+)">\1</a>: ', (released.folder / "index.html").read_text(encoding="utf-8"))
    order = ["tables/workbook.xlsx", "datapackage.json", "dcat.jsonld", "measurements/recipe.json", "accounting.html"]
    order += ["accounting.json", *([] if missing_extras(["pdf"]) else ["certificate.pdf"]), "registry.yaml"]
    assert listed == [*order, "nist-800-226.md", "plan.json", "facts.json", "manifest.json"]


# What is no format.


def test_an_unknown_format_in_a_spec_is_told_with_the_known_ones() -> None:
    with pytest.raises(SpecError) as caught:
        load(f"{SPEC}publish: {{formats: [csv, ods]}}\n", "spec.yaml")
    (problem,) = caught.value.problems
    assert (problem.code, problem.where and problem.where.line) == ("DPR-S202", SPEC.count("\n") + 1)
    assert all(name in problem.summary for name in FORMATS)


def test_an_unknown_format_in_a_frozen_plan_is_told_with_the_known_ones(released: Released, tmp_path: Path) -> None:
    plan = released.plan
    frozen = FrozenPlan(plan=plan, plan_fingerprint=plan.fingerprint(), spec_file="spec.yaml", heads={})
    text = frozen.canonical().replace('"formats":["csv"', '"formats":["ods"')
    (tmp_path / "plan.json").write_text(text, encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        read_frozen(tmp_path / "plan.json")
    assert caught.value.code == "DPR-P301"
    assert "'ods'" in caught.value.detail
    assert all(name in caught.value.detail for name in FORMATS)


# Wrong formats are found.


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str, bytes], dict[str, bytes]]], None]:
    """Puts something else in the place of each file that one of the formats makes."""
    right = jsonstat.jsonstat_files

    def spoil(change: Callable[[str, bytes], dict[str, bytes]]) -> None:
        monkeypatch.setattr(
            jsonstat,
            "jsonstat_files",
            lambda content, files: {
                name: data for path, made in right(content, files).items() for name, data in change(path, made).items()
            },
        )

    return spoil


def test_a_file_that_is_not_declared_or_not_made_is_found(released: Released, spoiled: Callable[..., None]) -> None:
    spoiled(lambda path, data: {path: data, f"{path}.bak": data})
    assert [each for each in faults(released, FORMATS["json"]) if "does not write the files that it declares" in each]
    spoiled(lambda path, data: {})
    assert "tables/income.json" in "".join(faults(released, FORMATS["json"]))


def test_bytes_that_differ_each_time_are_found(released: Released, spoiled: Callable[..., None]) -> None:
    spoiled(lambda path, data: {path: json.dumps(os.urandom(8).hex()).encode()})
    assert "tables/income.json has other bytes the second time" in faults(released, FORMATS["json"])


@pytest.mark.parametrize("media_type", ["text/csv", "application/vnd.apache.parquet", "json", "application/pdf"])
def test_a_wrong_media_type_is_found(media_type: str, released: Released, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, "json", replace(FORMATS["json"], media_type=media_type))
    assert f"tables/income.json is not of type {media_type}" in faults(released, FORMATS["json"])
