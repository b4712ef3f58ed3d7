"""The programs of docs/how-to/publication-formats.md run on a bundle and find what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from frictionless import system

from dprelease.publish.formats.datapackage import csv_files, datapackage_files
from dprelease.publish.formats.jsonstat import jsonstat_files
from dprelease.publish.formats.sdmx import sdmx_files
from tests.repo.documents import Block, blocks
from tests.unit.formats_example import plain

SHOWN = [block for block in blocks("python") if block.file == "docs/how-to/publication-formats.md"]


def test_there_are_programs_to_run() -> None:
    assert len(SHOWN) == 5


@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_it_runs_in_the_folder_of_a_bundle(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, bytes] = {}
    for make in (csv_files, datapackage_files, jsonstat_files, sdmx_files):
        files.update(make(plain(), files))
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    with system.use_context(trusted=False):
        exec(compile(block.text, str(block), "exec"), {})
