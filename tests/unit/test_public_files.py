"""What is public is never the confidential file: under no name, link or copy, of this spec or another, now or then."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dprelease.engines import DuckDBEngine
from dprelease.errors import DpReleaseError, EngineError, LedgerError, SpecError
from dprelease.ledger import open_ledger
from dprelease.publish.bundle.checks.opened import largest
from dprelease.publish.manifest import Manifest
from dprelease.release import direct
from dprelease.release.check import check_release
from dprelease.release.data import public_content, public_files
from dprelease.release.planning import open_target, plan_release
from dprelease.release.project import Project
from dprelease.release.run import Request
from tests.project import POLICY, SETTINGS, command, small_project

SPEC = """dprelease: 1
release: {name: NAME, period: 2024}
privacy: {unit: {entity: person}, budget: {epsilon: 1/4, delta: 1e-9}}
references: {d: {file: REFERENCE, columns: {person: text}}}
tables:
  people:
    account: people
    source: {file: "SOURCE"}
    columns: {person: {type: text, keys: {reference: d}}}
queries: {q: {table: people, by: [person], measures: {n: {count: rows}}}}
"""
CONFIDENTIAL = "person,v\nAlice Secret,1\nBob Secret,2\nCarol Secret,3\n"
PUBLIC = "person\nAlice\nBob\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "reference").mkdir()
    for name, text in {
        "dprelease.yaml": SETTINGS,
        "policy.yaml": POLICY,
        "data/conf.csv": CONFIDENTIAL,
        "reference/d.csv": PUBLIC,
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def spec(project: Path, reference: str, source: str = "data/conf.csv", name: str = "s") -> Path:
    path = project / f"{name}.yaml"
    path.write_text(SPEC.replace("NAME", name).replace("REFERENCE", reference).replace("SOURCE", source))
    return path


def planned(path: Path) -> None:
    target = open_target(path)
    plan_release(target)


def problem(path: Path) -> tuple[str, str]:
    with pytest.raises(SpecError) as caught:
        planned(path)
    assert len(caught.value.problems) == 1
    found = caught.value.problems[0]
    assert found.where is not None
    assert found.hint
    assert not any(word in str(found) for word in ("Secret", "Alice", "person,v"))
    return found.code, found.summary


# --- By path and inode, at plan time, with no byte of the file read ---


@pytest.mark.parametrize("how", ["itself", "dots", "absolute", "symlink", "hard link", "linked folder"])
def test_the_source_itself_under_any_name(project: Path, how: str) -> None:
    name = "data/conf.csv"
    if how == "dots":
        name = "reference/../data/./conf.csv"
    if how == "absolute":
        name = str(project / "data" / "conf.csv")
    if how == "symlink":
        (project / "public.csv").symlink_to("data/conf.csv")
        name = "public.csv"
    if how == "hard link":
        os.link(project / "data" / "conf.csv", project / "public.csv")
        name = "public.csv"
    if how == "linked folder":
        (project / "open").symlink_to("data", target_is_directory=True)
        name = "open/conf.csv"
    code, summary = problem(spec(project, name))
    assert code == "DPR-S690"
    assert "data/conf.csv" in summary


def test_the_confidential_file_is_not_read_to_be_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dprelease.regular import read_regular as read

    def only_specs(path: Path, most: int) -> bytes:
        assert path.suffix == ".yaml", "the file was read"
        return read(path, most)

    monkeypatch.setattr(public_files, "read_regular", only_specs)
    assert problem(spec(project, "data/conf.csv"))[0] == "DPR-S690"


@pytest.mark.parametrize(
    "source", ["data/*.csv", "data/{{ period }}.csv", "**/conf.csv", "${env:CONFIDENTIAL}/*.csv", "data/[c]onf.csv"]
)
def test_a_file_that_a_pattern_matches(project: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFIDENTIAL", "data")
    assert problem(spec(project, "data/conf.csv", source))[0] == "DPR-S690"


def test_a_public_file_beside_the_sources_is_no_source(project: Path) -> None:
    (project / "data" / "places.csv").write_text(PUBLIC)
    planned(spec(project, "data/places.csv", "data/conf*.csv"))
    assert problem(spec(project, "data/places.csv", "data/*.csv"))[0] == "DPR-S690", "it would be read as data"


def test_the_source_of_another_spec_and_of_another_period(project: Path) -> None:
    (project / "products").mkdir()
    (project / "data" / "2019.csv").write_text(CONFIDENTIAL)
    spec(project, "reference/d.csv", "data/{{ period }}.csv", "products/other")
    code, summary = problem(spec(project, "data/2019.csv"))
    assert code == "DPR-S690"
    assert "products/other.yaml" in summary


def test_another_spec_that_is_broken_stops_nobody_and_is_still_read_as_far_as_it_goes(project: Path) -> None:
    (project / "broken.yaml").write_text("tables: {a: {source: {file: [")
    (project / "wrong.yaml").write_text("tables:\n  a: {source: {file: data/old.csv}, nonsense: 1}\nqueries: 7\n")
    (project / "list.yaml").write_text("- tables\n- source\n")
    (project / "data" / "old.csv").write_text(CONFIDENTIAL)
    planned(spec(project, "reference/d.csv"))
    assert problem(spec(project, "data/old.csv"))[0] == "DPR-S690"


# --- By content, before anything is charged ---


def refused(path: Path, error: type[DpReleaseError]) -> DpReleaseError:
    before = entries(path)
    with pytest.raises(error) as caught:
        direct.run_directly(Request(target=str(path)))
    assert entries(path) == before
    assert not any(word in str(caught.value) for word in ("Secret", "Alice"))
    return caught.value


def entries(path: Path) -> int:
    found = Project.find(path.parent)
    return len(list(open_ledger(found.settings.ledger, found.folder, found.settings.anchors).entries()))


def test_a_copy_of_a_source_is_refused_before_the_reservation(project: Path) -> None:
    shutil.copy(project / "data" / "conf.csv", project / "reference" / "d.csv")
    path = spec(project, "reference/d.csv")
    planned(path)  # a plan reads no data, so that it cannot tell
    error = refused(path, EngineError)
    assert error.code == "DPR-E320"
    assert "data/conf.csv" in error.summary


def test_a_copy_of_a_source_of_another_spec(project: Path) -> None:
    (project / "data" / "other.csv").write_text("person\nDora Secret\n")
    shutil.copy(project / "data" / "other.csv", project / "reference" / "d.csv")
    spec(project, "nothing.csv", "data/other.csv", "other")
    assert refused(spec(project, "reference/d.csv"), EngineError).code == "DPR-E320"


def test_a_file_that_the_ledger_knows_is_never_a_reference(project: Path) -> None:
    direct.run_directly(Request(target=str(spec(project, "reference/d.csv"))))
    shutil.move(project / "data" / "conf.csv", project / "reference" / "places.csv")
    (project / "data" / "conf.csv").write_text("person,v\nDora,4\n")
    error = refused(spec(project, "reference/places.csv", name="later"), LedgerError)
    assert error.code == "DPR-L175"
    assert "s/2024" in error.summary


def test_a_copy_that_differs_by_a_byte_is_another_file(project: Path) -> None:
    """What the pages say of it: content is told byte by byte, and an edited copy is not recognised."""
    (project / "reference" / "d.csv").write_text(CONFIDENTIAL + "\n")
    direct.run_directly(Request(target=str(spec(project, "reference/d.csv"))))


def test_a_release_that_was_begun_with_such_a_reference_is_not_gone_on_with(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(project / "data" / "conf.csv", project / "reference" / "d.csv")
    path = spec(project, "reference/d.csv")
    with monkeypatch.context() as before:
        before.setattr(public_content, "require_public", lambda *_: None)
        before.setattr(DuckDBEngine, "aggregate", lambda *_, **__: 1 / 0)
        with pytest.raises(DpReleaseError):
            direct.run_directly(Request(target=str(path)))
    assert refused(path, EngineError).code == "DPR-E320"


# --- Read without waiting, under a limit, and quoted nowhere ---


@pytest.mark.parametrize("kind", ["pipe", "zeros", "folder", "sparse"])
def test_what_is_no_file_or_too_large_is_told_at_once(project: Path, kind: str) -> None:
    path = project / "reference" / "x.csv"
    if kind == "pipe":
        os.mkfifo(path)
    if kind == "zeros":
        path.symlink_to("/dev/zero")
    if kind == "folder":
        path.mkdir()
    if kind == "sparse":
        with path.open("wb") as file:
            file.truncate(6 << 30)
    expected = "DPR-S692" if kind == "sparse" else "DPR-S691"
    assert problem(spec(project, "reference/x.csv"))[0] == expected


@pytest.mark.parametrize(
    "text",
    [
        "root:*:20228:0:99999:7:::\n",
        "Alice Secret,1\nBob Secret,2\n",
        'person,"Alice Secret\n',
        "person\nAlice,Secret\n",
        "\udcff".encode("utf-8", "surrogatepass").decode("latin-1") + "Secret",
    ],
)
def test_nothing_of_a_first_line_is_quoted(project: Path, text: str) -> None:
    (project / "reference" / "x.csv").write_text(text, encoding="latin-1")
    code, summary = problem(spec(project, "reference/x.csv"))
    assert code == "DPR-S602"
    assert "root" not in summary


def test_a_header_that_was_nearly_right_is_shown(project: Path) -> None:
    (project / "reference" / "x.csv").write_text("person,district\nA,1\n")
    path = spec(project, "reference/x.csv")
    path.write_text(path.read_text().replace("columns: {person: text}}}", "columns: {person: text, distrikt: text}}}"))
    assert problem(path) == (
        "DPR-S602",
        "`references.d.file` is not as declared: no column 'distrikt'; the file has: person, district",
    )


@pytest.mark.parametrize(("kind", "value"), [("integer", "Secret"), ("date", "2024-02-30"), ("date", "Secret")])
def test_a_value_of_another_type_is_told_by_its_line(project: Path, kind: str, value: str) -> None:
    (project / "reference" / "x.csv").write_text(
        f"person,day\nA,{'1' if kind == 'integer' else '2024-01-01'}\nB,{value}\n"
    )
    path = spec(project, "reference/x.csv")
    path.write_text(
        path.read_text().replace("columns: {person: text}}}", f"columns: {{person: text, day: {kind}}}}}}}")
    )
    code, summary = problem(path)
    assert code == "DPR-S602"
    assert "line 3" in summary
    assert value not in summary


@pytest.mark.parametrize("place", ["/etc/passwd", "../..", "../other.yaml", "data/../../other.yaml", "linked.yaml"])
def test_a_frozen_plan_names_a_spec_of_its_own_project(project: Path, place: str) -> None:
    spec(project, "reference/d.csv")
    command(project, "plan", "s.yaml", "--out", "plan.json")
    text = (project / "plan.json").read_text()
    assert '"spec_file":"s.yaml"' in text
    if place == "linked.yaml":  # a link that the user made himself may lead anywhere
        (project / "linked.yaml").symlink_to(project / "s.yaml")
    (project / "plan.json").write_text(text.replace('"spec_file":"s.yaml"', f'"spec_file":"{place}"'))
    if place == "linked.yaml":
        assert open_target(project / "plan.json").loaded.spec.release.name == "s"
        return
    with pytest.raises(SpecError) as caught:
        open_target(project / "plan.json")
    assert caught.value.code == "DPR-S693"


def test_a_target_that_is_no_file_is_told_at_once(project: Path) -> None:
    os.mkfifo(project / "spec.yaml")
    with pytest.raises(SpecError, match="DPR-S001"):
        open_target(project / "spec.yaml")
    with (project / "plan.json").open("wb") as file:
        file.truncate(6 << 30)
    with pytest.raises(DpReleaseError, match="DPR-P301"):
        open_target(project / "plan.json")


# --- The past ---


def test_a_published_reference_that_was_a_confidential_file_is_found_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spec(project, "data/conf.csv")
    with monkeypatch.context() as before:  # as it could be released once
        before.setattr(public_content, "require_public", lambda *_: None)
        before.setattr(Project, "confidential", property(lambda _: {}))
        direct.run_directly(Request(target=str(path)))
    said = command(project, "ledger", "check", code=7)
    assert "DPR-C101" in said
    assert "s/2024 was published with reference 'd' (data/conf.csv), which is a confidential file" in said
    assert "its keys and its SHA-256 stand in releases/s/2024" in said
    assert "dprelease ledger incident --unprotected --release s/2024" in said
    assert "Secret" not in said


def test_a_published_reference_that_was_a_copy_is_found_by_the_file_that_it_was_a_copy_of(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(project / "data" / "conf.csv", project / "reference" / "d.csv")
    path = spec(project, "reference/d.csv")
    with monkeypatch.context() as before:
        before.setattr(public_content, "require_public", lambda *_: None)
        direct.run_directly(Request(target=str(path)))
    command(project, "ledger", "check", code=7)
    (project / "reference" / "d.csv").unlink()
    command(project, "ledger", "check", code=7)
    shutil.rmtree(project / "data")
    command(project, "ledger", "check")  # neither the copy nor the file is there: nobody can tell


def test_a_ledger_without_such_a_release_is_sound(project: Path) -> None:
    direct.run_directly(Request(target=str(spec(project, "reference/d.csv"))))
    command(project, "ledger", "check")


# --- Bundles of strangers ---


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = small_project(tmp_path_factory.mktemp("bundle") / "project", rows=20)
    direct.run_directly(Request(target=str(spec)))
    return spec.parent / "releases" / "survey" / "2024"


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("name", ["manifest.json", "plan.json", "facts.json", "tables/population.csv", "manifest.sig"])
def test_a_bundle_with_a_huge_file_fails_by_name(bundle: Path, tmp_path: Path, name: str) -> None:
    """Gigabytes of nothing: never read, though a forged manifest says that it belongs there."""
    copy, size = tmp_path / "copy", largest(name) + 1
    shutil.copytree(bundle, copy)
    with (copy / name).open("wb") as file:
        file.truncate(size)
    manifest = Manifest.from_canonical((bundle / "manifest.json").read_bytes())
    if name in manifest.files:
        files = {**manifest.files, name: manifest.files[name].model_copy(update={"bytes": size})}
        (copy / "manifest.json").write_bytes(manifest.model_copy(update={"files": files}).to_bytes())
    checks = {check.name: check for check in check_release(copy)}
    if name == "manifest.json":
        assert checks["manifest"].detail == "manifest.json has more than 64 MiB: it is not read"
        assert checks["manifest"].passed is False
    elif name == "manifest.sig":
        assert checks["signature"].passed is False
    else:
        assert checks["files"].detail == f"too large to be read: {name}"
    assert "Traceback" not in command(copy, "verify", ".", code=7)
