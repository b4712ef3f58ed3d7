"""Releases with a clip that noise chooses, from rows of any kind: one loss for all of them, and a clip that is checked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.project import command, one_table
from tests.unit.tamper_example import Folder

SPEC = """dprelease: 1
release: {name: pay, period: 2024, title: Pay, curator: Example Office}
privacy: {unit: {entity: person}, budget: {epsilon: 1, delta: 1e-9}}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: integer, keys: [1, 2]}
      pay: {type: integer, range: [0, 100000]}
queries:
  pay:
    table: people
    by: [sex]
    measures:
      total: {sum: pay, clip: {private: true, within: [0, 100000]}}
      average: {mean: pay, clip: {private: true, within: [0, 100000]}}
publish: {formats: [csv]}
"""
ROWS: dict[str, Callable[[int], Any]] = {
    "all have the most": lambda k: 100_000,
    "most have little": lambda k: 30 + k % 50,
}

pytestmark = pytest.mark.slow


def released(folder: Path, pay: Callable[[int], Any], rows: int = 2_000) -> Path:
    folder.mkdir()
    one_table(folder, SPEC, "sex,pay", [(1 + k % 2, pay(k)) for k in range(rows)])
    command(folder, "run", "spec.yaml", "--direct")
    return folder / "releases" / "pay" / "2024"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pay")
    found = {name: released(folder / name.replace(" ", "-"), pay) for name, pay in ROWS.items()}
    return found | {"nobody is there": released(folder / "none", lambda k: 0, 0)}


def clip_of(bundle: Path) -> int:
    return int((bundle / "measurements" / "pay.pay-clip.csv").read_text().split()[1])


def test_whatever_the_rows_are_the_loss_is_the_same(bundles: dict[str, Path]) -> None:
    """Loss, events, scales and what the ledger was charged; the clip alone goes with the rows."""
    told = {name: json.loads((bundle / "accounting.json").read_text()) for name, bundle in bundles.items()}
    first = told.pop("nobody is there")
    for each in told.values():
        assert [each[field] for field in ("loss", "steps", "budget")] == [
            first[field] for field in ("loss", "steps", "budget")
        ]
    charged = {command(bundle.parents[2], "ledger", "status") for bundle in bundles.values()}
    assert len(charged) == 1
    assert clip_of(bundles["all have the most"]) == 100_000


ANOTHER = "another step or size"


@pytest.mark.parametrize(
    ("clip", "wrong"),
    [(lambda old: old * 20 // 21, "tables/pay.csv"), (lambda old: old - 1, ANOTHER), (None, ANOTHER)],
    ids=["the next candidate", "no candidate", "none"],
)
def test_another_clip_is_found_by_whoever_checks(
    bundles: dict[str, Path], tmp_path: Path, clip: Callable[[int], int] | None, wrong: str
) -> None:
    """The grid of the sums, and so every number and margin, is made again from the clip that the bundle tells."""
    bundle = shutil.copytree(bundles["all have the most"], tmp_path / "2024")
    assert "FAIL" not in command(tmp_path, "verify", "2024")
    at, name = Folder(bundle, None), "measurements/pay.pay-clip.csv"
    told = "" if clip is None else f"{clip(clip_of(bundle))}\r\n"
    at.put(name, f"value\r\n{told}".encode())
    at.reseal()
    said = command(tmp_path, "verify", "2024", code=7)
    assert wrong in said
