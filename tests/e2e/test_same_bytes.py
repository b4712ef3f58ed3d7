"""A bundle is rendered again elsewhere, on another day, in another time zone: every file has the same bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.project import command, installed, small_project, writable_formats

# Every Python process that begins here lives four hundred days later. What asks the system by itself (`datetime.now`)
# lives some seconds later, which is as much another time for whatever writes seconds.
LATER = """
import time

SHIFT = 400 * 86400.0
_time, _local, _utc = time.time, time.localtime, time.gmtime
time.time = lambda: _time() + SHIFT
time.localtime = lambda seconds=None: _local(time.time() if seconds is None else seconds)
time.gmtime = lambda seconds=None: _utc(time.time() if seconds is None else seconds)
"""


@pytest.mark.slow
def test_every_file_has_the_same_bytes_on_another_day_in_another_folder(tmp_path: Path) -> None:
    folder = tmp_path / "office"
    spec = small_project(folder)
    spec.write_text(
        spec.read_text()
        + f"publish: {{formats: [{', '.join(writable_formats())}]}}\n"
        + 'derive: {half: {sql: "select region, persons / 2 as half from income"}}\n'
    )
    command(folder, "keys", "new", "office.key")
    with (folder / "dprelease.yaml").open("a") as settings:
        settings.write("signing_key: office.key\n")
    command(folder, "run", "spec.yaml", "--direct")
    elsewhere = tmp_path / "a stranger's home" / "x"
    shutil.copytree(folder / "releases" / "survey" / "2024", elsewhere)
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "sitecustomize.py").write_text(LATER)
    variables = {"PYTHONPATH": f"{tmp_path / 'later'}:{Path.cwd()}", "TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "7"}
    said = installed(tmp_path, "verify", str(elsewhere), "--json", variables=variables)
    checks = {each["name"]: each for each in json.loads(said)["checks"]}
    beside = {"manifest.json", "manifest.sig", "SHA256SUMS", "SHA256SUMS.sig"}
    others = sum(path.is_file() and path.name not in beside for path in elsewhere.rglob("*"))
    assert others >= 20
    assert checks["rendered again"]["detail"] == f"{others} files have the same bytes"
    assert all(each["passed"] for each in checks.values() if each["name"] != "signer")
