"""Writing a bundle whole or not at all, and finding whatever was done to it afterwards."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event, current_thread
from typing import Any

import pytest

from dprelease.canonical import dumps, sha256
from dprelease.errors import PublishError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.facts import plan_facts
from dprelease.publish import Check, check_bundle, render, write
from dprelease.publish.base import Content
from dprelease.publish.bundle.checks.rendering import Rendered
from dprelease.publish.bundle.checks.whole_bundle import CHECKS
from dprelease.publish.manifest import Manifest, sums_file
from dprelease.words import speaking, spoken
from tests.unit.publish_example import facts, measurements, plan
from tests.unit.test_publish_files import published

PDF, CSV = "dprelease.publish.certificate.pdf.certificate_files", "dprelease.publish.formats.datapackage.text_files"


def with_certificate() -> ReleasePlan:
    shown = plan().publish
    return plan(publish=shown.model_copy(update={"formats": (*shown.formats, "pdf")}))


def test_what_is_made_aside_is_made_under_the_same_settings_and_says_what_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[object] = []

    def failing(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
        found.append((current_thread().name, spoken().tag, dict(files)))
        raise ValueError("no page")

    monkeypatch.setattr(PDF, failing)
    with speaking("de"), pytest.raises(ValueError, match="no page") as caught:
        render(with_certificate(), measurements(), facts(with_certificate()))
    assert found == [("dprelease-aside_0", "de", {})]
    assert caught.value.__notes__ == ["while making the files of format pdf"]


def test_where_another_file_fails_what_is_made_aside_has_ended_before_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, ended = Event(), Event()

    def slow(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
        begun.set()
        time.sleep(0.2)
        ended.set()
        raise ValueError("told by nobody")

    def failing(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
        assert begun.wait(60)
        raise ValueError("no table")

    monkeypatch.setattr(PDF, slow)
    monkeypatch.setattr(CSV, failing)
    with pytest.raises(ValueError, match="no table"):
        render(with_certificate(), measurements(), facts(with_certificate()))
    assert ended.is_set()


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "releases" / "regional-monitor" / "2024-03"
    write(published(), folder)
    return folder


def failed(folder: Path) -> set[str]:
    return {check.name for check in check_bundle(folder) if check.passed is False}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def forge(folder: Path, name: str, data: bytes) -> None:
    """Change a file and put its new hash into the manifest and the checksums."""
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["files"][name] = {"sha256": sha256(data), "bytes": len(data)}
    (folder / "manifest.json").write_text(dumps(manifest) + "\n")
    (folder / "SHA256SUMS").write_bytes(sums_file(Manifest.from_canonical(dumps(manifest)), None))


def test_what_was_rendered_is_what_is_written(bundle: Path) -> None:
    assert contents(bundle) == dict(published().files)
    assert [each.name for each in bundle.parent.iterdir()] == ["2024-03"]


def test_a_fresh_bundle_passes_every_check(bundle: Path) -> None:
    found = check_bundle(bundle)
    assert tuple(check.name for check in found) == CHECKS
    assert {check.name for check in found if check.passed is None} == {"signature", "signer"}
    assert [check for check in found if check.passed is False] == []
    assert found[0] == Check("manifest", True)


def test_a_rehearsal_and_a_bundle_without_pages_pass_too(tmp_path: Path) -> None:
    write(published(rehearsal=True), tmp_path / "a")
    write(published(plan(publish=plan().publish.model_copy(update={"formats": ("parquet",)}))), tmp_path / "b")
    assert failed(tmp_path / "a") == failed(tmp_path / "b") == set()


@pytest.mark.thin(first=4)
@pytest.mark.parametrize("name", sorted(published().files))
def test_a_flipped_byte_is_found_in_every_file(bundle: Path, name: str) -> None:
    data = bytearray((bundle / name).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / name).write_bytes(bytes(data))
    assert failed(bundle)
    if name != "manifest.json":
        beside = name == "SHA256SUMS"
        detail = next(check.detail for check in check_bundle(bundle) if check.name == (name if beside else "files"))
        assert name in detail


@pytest.mark.slow
def test_any_flipped_byte_of_the_manifest_is_found(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is quick to check; versions of libraries are named, and prove nothing in a bundle that is not signed."""
    for name in ("tables_agree", "values_agree"):
        monkeypatch.setattr(f"dprelease.publish.bundle.checks.whole_bundle.{name}", lambda *_: "")
    monkeypatch.setattr(
        "dprelease.publish.bundle.checks.whole_bundle.render_again",
        lambda _: Rendered(frozenset(), (Check("rendered again", None),)),
    )
    whole = (bundle / "manifest.json").read_bytes()
    for at in range(0, len(whole), 5):  # in a run of four neither a name nor a digest hides
        changed = bytearray(whole)
        changed[at] ^= 1
        (bundle / "manifest.json").write_bytes(bytes(changed))
        found = {check.name: check.passed for check in check_bundle(bundle)}
        assert False in found.values() or found["versions"] is None, f"byte {at}: {whole[max(0, at - 20) : at + 20]!r}"


@pytest.mark.thin(first=8)
@pytest.mark.parametrize("name", sorted(published().files))
def test_a_dropped_file_is_found(bundle: Path, name: str) -> None:
    (bundle / name).unlink()
    assert {"manifest.json": "manifest", "SHA256SUMS": "SHA256SUMS"}.get(name, "files") in failed(bundle)


@pytest.mark.parametrize("name", ["note.txt", "tables/more.csv", "new/file"])
def test_an_added_file_is_found(bundle: Path, name: str) -> None:
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / name).write_text("x")
    assert failed(bundle) == {"nothing else"}
    assert name in next(check.detail for check in check_bundle(bundle) if check.name == "nothing else")


def test_a_link_is_not_followed(bundle: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.csv"
    (bundle / "tables/income.csv").rename(outside)
    (bundle / "tables/income.csv").symlink_to(outside)
    assert "files" in failed(bundle)


def test_a_link_to_a_folder_is_not_followed(bundle: Path, tmp_path: Path) -> None:
    (bundle / "tables").rename(tmp_path / "tables")
    (bundle / "tables").symlink_to(tmp_path / "tables")
    assert {"files", "nothing else"} <= failed(bundle)


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"format": 1}', b"null"], ids=range(7)
)
def test_any_manifest_gives_results_and_no_traceback(bundle: Path, text: bytes) -> None:
    (bundle / "manifest.json").write_bytes(text)
    assert len(check_bundle(bundle)) == len(failed(bundle)) == len(CHECKS)


def test_a_manifest_that_points_outside_is_refused(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    manifest["files"]["../../secret"] = {"sha256": "0" * 64, "bytes": 1}
    (bundle / "manifest.json").write_text(dumps(manifest) + "\n")
    assert "manifest" in failed(bundle)


def test_a_folder_that_is_not_there_fails_every_check(tmp_path: Path) -> None:
    assert len(failed(tmp_path / "nowhere")) == len(CHECKS)


def test_a_forged_table_is_held_against_the_plan(bundle: Path) -> None:
    data = (bundle / "tables/income.csv").read_bytes()
    forge(bundle, "tables/income.csv", data.replace(b'"06"', b"6"))
    assert failed(bundle) == {"tables", "rendered again"}


@pytest.mark.thin(every=3)
@pytest.mark.parametrize("data", [b"", b"PAR1", b'"', b"a,b\r\n1\r\n", b"\xff"])
@pytest.mark.parametrize("name", ["tables/income.csv", "tables/income.parquet"])
def test_a_forged_table_that_cannot_be_read_is_a_failed_check(bundle: Path, name: str, data: bytes) -> None:
    forge(bundle, name, data)
    assert failed(bundle) == {"tables", "values", "rendered again"}


def test_a_forged_loss_is_held_against_the_plan(bundle: Path) -> None:
    found = json.loads((bundle / "accounting.json").read_bytes())
    found["loss"]["certified"]["epsilon"] = "0.1"
    forge(bundle, "accounting.json", json.dumps(found).encode())
    assert failed(bundle) == {"accounting", "rendered again"}


@pytest.mark.parametrize("field", ["accounts", "ledger", "rehearsal", "not_covered", "environment"])
def test_a_field_left_out_of_the_accounting_is_found(bundle: Path, field: str) -> None:
    found = json.loads((bundle / "accounting.json").read_bytes())
    del found[field]
    forge(bundle, "accounting.json", json.dumps(found).encode())
    assert failed(bundle) == {"accounting", "rendered again"}


def test_a_forged_plan_has_another_fingerprint(bundle: Path) -> None:
    other = plan(spec_fingerprint="6" * 64)
    forge(bundle, "plan.json", (other.canonical() + "\n").encode())
    assert "plan" in failed(bundle)


def test_publishing_again_leaves_the_same_bundle_alone(bundle: Path) -> None:
    before = {path: path.stat().st_ino for path in bundle.rglob("*")}
    write(published(), bundle)
    assert {path: path.stat().st_ino for path in bundle.rglob("*")} == before


def test_another_bundle_of_the_release_is_replaced_whole(bundle: Path) -> None:
    other = published(ledger_sequence=18)
    write(other, bundle)
    assert contents(bundle) == dict(other.files)
    assert [each.name for each in bundle.parent.iterdir()] == ["2024-03"]


def test_a_damaged_bundle_is_repaired(bundle: Path) -> None:
    (bundle / "tables/income.csv").unlink()
    (bundle / "index.html").write_text("broken")
    write(published(), bundle)
    assert failed(bundle) == set()


@pytest.mark.parametrize("call", range(3))
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "key"])
def test_an_interrupted_write_leaves_the_old_bundle_or_the_new_one(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, call: int, error: BaseException
) -> None:
    old, new = contents(bundle), published(ledger_sequence=18)
    calls, rename = iter(range(10)), Path.rename

    def failing(self: Path, target: Any) -> Path:
        if next(calls) == call:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    expected: type[BaseException] = PublishError if isinstance(error, OSError) else KeyboardInterrupt
    if call < 2:
        with pytest.raises(expected):
            write(new, bundle)
        assert contents(bundle) == old
    else:
        write(new, bundle)
        assert contents(bundle) == dict(new.files)
    assert [each.name for each in bundle.parent.iterdir()] == ["2024-03"]


@pytest.mark.parametrize("call", range(10))
def test_a_first_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    calls, sync = iter(range(100)), os.fsync

    def failing(handle: int) -> None:
        if next(calls) == call:
            raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(PublishError, match="No space left on device") as caught:
        write(published(), tmp_path / "bundle")
    assert caught.value.code == "DPR-W204"
    assert list(tmp_path.iterdir()) == []


def _keep(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize("files", [{"thesis.txt": "mine"}, {"manifest.json": "{}"}, {"manifest.json": "not JSON"}])
def test_a_folder_with_something_else_in_it_is_left_as_it_is(tmp_path: Path, files: dict[str, str]) -> None:
    _keep(tmp_path, files)
    before = contents(tmp_path)
    with pytest.raises(PublishError) as caught:
        write(published(), tmp_path)
    assert caught.value.code == "DPR-W203"
    assert contents(tmp_path) == before


def test_a_file_that_somebody_added_to_a_bundle_is_not_deleted(bundle: Path) -> None:
    _keep(bundle, {"note.txt": "mine"})
    with pytest.raises(PublishError) as caught:
        write(published(ledger_sequence=18), bundle)
    assert caught.value.code == "DPR-W203"
    assert (bundle / "note.txt").read_text() == "mine"


@pytest.mark.parametrize("changes", [{"rehearsal": True}, {"period": "2024-04"}])
def test_a_bundle_is_not_replaced_by_a_rehearsal_or_by_another_period(bundle: Path, changes: dict[str, Any]) -> None:
    made: ReleasePlan = plan()
    if "period" in changes:
        made = plan(release=made.release.model_copy(update=changes))
        changes = {}
    with pytest.raises(PublishError) as caught:
        write(render(made, measurements(), facts(made, **changes)), bundle)
    assert caught.value.code == "DPR-W203"
    assert failed(bundle) == set()


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    write(published(), tmp_path / "bundle")
    assert failed(tmp_path / "bundle") == set()


def test_a_link_or_a_file_in_the_place_of_the_bundle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("x")
    for name in ("link", "file"):
        with pytest.raises(PublishError) as caught:
            write(published(), tmp_path / name)
        assert caught.value.code == "DPR-W202"
    assert list((tmp_path / "real").iterdir()) == []


def test_the_accounting_keeps_its_shape() -> None:
    found = json.loads(published().files["accounting.json"])
    assert {"release", "period", "budget", "loss", "steps", "outputs"} <= set(found)
    assert (found["release"], found["period"]) == ("regional-monitor", "2024-03")
    assert set(found["loss"]) == {"zcdp", "rdp", "certified"}
    for loss in found["loss"].values():
        assert {"epsilon", "delta"} <= set(loss)
        assert float(loss["delta"]) == 1e-9
    assert found["loss"]["certified"]["epsilon"] == found["loss"]["zcdp"]["epsilon"] == "1.9"
    assert found["certified"] == "zcdp"
    for step in found["steps"]:
        assert {"id", "answers", "mechanism", "sensitivity", "scale", "share", "cells", "event"} <= set(step)
        assert {"l1", "l2", "linf"} <= set(step["sensitivity"])
        assert all(set(answer) == {"query", "measure"} for answer in step["answers"])
    assert found["steps"][1]["answers"] == [
        {"query": "income", "measure": "earners"},
        {"query": "income", "measure": "average"},
    ]
    for output in found["outputs"]:
        assert {"query", "table", "measure", "steps", "standard_error", "margin", "why_null"} <= set(output)
    assert found["unit"] == {"entity": "person", "per": None}
    assert found["neighboring"] == "add_remove"
    assert found["references"] == [{"name": "geography", "file": "reference/geography.csv", "sha256": "ab" * 32}]
    assert found["ledger"] == {"sequence": 17, "hash": facts(plan()).ledger_hash, "reserved_at": "2024-04-05T06:00:03Z"}
    (account,) = found["accounts"]
    assert (account["before"]["epsilon"], account["after"]["epsilon"]) == ("3.1", "3.7")
    assert found["not_covered"]
    assert found["environment"]["entropy"] == "operating system"


def test_the_accounting_says_what_the_plan_command_says() -> None:
    found = json.loads(published().files["accounting.json"])
    for name, value in json.loads(json.dumps(plan_facts(plan()))).items():
        assert found[name] == value


def test_the_manifest_names_every_other_file() -> None:
    made = published().files
    manifest = json.loads(made["manifest.json"])
    assert made["manifest.json"] == (dumps(manifest) + "\n").encode()
    assert set(manifest["files"]) == set(made) - {"manifest.json", "SHA256SUMS"}
    for name, entry in manifest["files"].items():
        assert entry == {"sha256": sha256(made[name]), "bytes": len(made[name])}
    assert manifest["plan_fingerprint"] == plan().fingerprint()
    assert manifest["spec_fingerprint"] == "5" * 64
    assert manifest["signature"] == "unsigned"
