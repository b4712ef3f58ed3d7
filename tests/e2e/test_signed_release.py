"""A signed release from the key to a stranger's check, as a user types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dprelease.signature import PublicKey, new_key_files
from tests.project import SETTINGS, command, small_project

BUNDLE = "releases/survey/2024"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "office.key"
    new_key_files(path, "office")
    return path


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, key: Path) -> Path:
    """A project whose release was run and signed; tests read it, and copy what they change."""
    folder = tmp_path_factory.mktemp("project")
    small_project(folder)
    (folder / "dprelease.yaml").write_text(SETTINGS + "signing_key: ${env:OFFICE_KEY}\n", encoding="utf-8")
    command(folder, "run", "spec.yaml", "--direct", variables={"OFFICE_KEY": str(key)})
    return folder


def public(key: Path) -> str:
    return Path(f"{key}.pub").read_text(encoding="utf-8").split()[0]


def checks(folder: Path, *words: str, code: int = 0) -> dict[str, bool | None]:
    text = command(folder, "verify", *words, "--json", code=code)
    found: Any = json.JSONDecoder().raw_decode(text)[0]
    return {each["name"]: each["passed"] for each in found["checks"]}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_stranger_can_check_it_by_file_and_by_text(signed: Path, key: Path, tmp_path: Path) -> None:
    shutil.copytree(signed / BUNDLE, tmp_path / "bundle")
    for given in (f"{key}.pub", public(key)):
        assert set(checks(tmp_path, "bundle", "--key", given).values()) == {True}
    assert {name for name, passed in checks(tmp_path, "bundle").items() if passed is None} == {"signer"}
    told = command(tmp_path, "verify", "bundle")
    assert "not run, and so neither passed nor failed: signer" in told
    assert PublicKey.from_text(public(key)).fingerprint in told


@pytest.mark.slow
def test_another_key_and_a_changed_byte_fail(signed: Path, tmp_path: Path) -> None:
    shutil.copytree(signed / BUNDLE, tmp_path / "bundle")
    other = new_key_files(tmp_path / "other.key")
    found = checks(tmp_path, "bundle", "--key", other.text, code=7)
    assert [name for name, passed in found.items() if passed is False] == ["signer"]
    page = tmp_path / "bundle/index.html"
    page.write_bytes(page.read_bytes().replace(b"survey", b"Survey", 1))
    found = checks(tmp_path, "bundle", code=7)
    assert [name for name, passed in found.items() if passed is False] == ["files", "rendered again"]
    assert "2 of " in command(tmp_path, "verify", "bundle", code=7)


@pytest.mark.slow
def test_publishing_again_gives_the_same_signature(signed: Path, key: Path) -> None:
    before = contents(signed / BUNDLE)
    shutil.rmtree(signed / BUNDLE)
    command(signed, "publish", "survey", variables={"OFFICE_KEY": str(key)})
    assert contents(signed / BUNDLE) == before
    assert "manifest.sig" in before


@pytest.mark.slow
def test_without_the_key_nothing_is_charged_and_nothing_published_again(signed: Path, tmp_path: Path) -> None:
    assert "DPR-K106" in command(signed, "publish", "survey", code=2)
    folder = tmp_path / "project"
    small_project(folder)
    (folder / "dprelease.yaml").write_text(SETTINGS + "signing_key: office.key\n", encoding="utf-8")
    assert "DPR-K101" in command(folder, "run", "spec.yaml", "--direct", code=2)
    assert not (folder / "state").exists()
    assert not (folder / "releases").exists()


@pytest.mark.slow
def test_a_rehearsal_needs_no_key_and_has_no_signature(tmp_path: Path) -> None:
    small_project(tmp_path)
    (tmp_path / "dprelease.yaml").write_text(SETTINGS + "signing_key: office.key\n", encoding="utf-8")
    command(tmp_path, "run", "spec.yaml", "--direct", "--synthetic")
    found = contents(tmp_path / "releases-synthetic/survey/2024")
    assert "manifest.sig" not in found
    assert json.loads(found["manifest.json"])["signature"] == "unsigned"
    new_key_files(tmp_path / "office.key")
    shutil.rmtree(tmp_path / "releases-synthetic")
    command(tmp_path, "run", "spec.yaml", "--direct", "--synthetic")
    assert "manifest.sig" not in contents(tmp_path / "releases-synthetic/survey/2024")


def test_a_key_that_is_none_is_told(tmp_path: Path) -> None:
    assert "not the base64 of 32 bytes" in command(tmp_path, "verify", ".", "--key", "ed25519:xyz", code=2).replace(
        "\n", " "
    )
    assert "DPR-K101" in command(tmp_path, "verify", ".", "--key", "nowhere.pub", code=2)
