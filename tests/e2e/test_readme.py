"""What a newcomer is told to type is typed here, word for word, in an empty folder, and runs through Prefect."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.project import installed

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "start-from-your-own-csv.md"


def first_steps() -> list[list[str]]:
    """The words of each line of the console block that begins a project."""
    blocks = [part.partition("```")[0] for part in PAGE.read_text(encoding="utf-8").split("```console\n")[1:]]
    (block,) = [block for block in blocks if "dprelease init" in block]
    return [shlex.split(line) for line in block.splitlines()]


def test_the_first_steps_end_in_a_verified_release(tmp_path: Path) -> None:
    folder, said = tmp_path, ""
    for program, *words in first_steps():
        if program == "cd":
            folder = folder / words[0]
        else:
            assert program == "dprelease"
            said += installed(folder, *words)
    assert "rehearsed quickstart/2024 on made-up rows" in said
    assert "published quickstart/2024" in said
    assert "FAIL" not in said
    assert (folder / "releases-synthetic/quickstart/2024/index.html").exists()
    assert (folder / "releases/quickstart/2024/tables/income.csv").exists()
