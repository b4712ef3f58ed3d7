"""Real survey records through specs/acs.yaml: codes stay text, and every count lies where the noise law says."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.plan.document import ReleasePlan, Step
from tests.project import command

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
RECORDS = DATA / "nist_acs_national2019.csv"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not RECORDS.exists(), reason="the survey file is not beside the checkout"),
]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("acs")
    for name in ("dprelease.yaml", "policy.yaml", "acs.yaml"):
        shutil.copy(ROOT / "specs" / name, folder)
    shutil.copytree(ROOT / "specs" / "reference", folder / "reference")
    command(folder, "run", "acs.yaml", "--direct", variables={"DPRELEASE_ACS": str(DATA)})
    return folder / "releases" / "acs-national" / "2019"


def table(bundle: Path, query: str) -> list[dict[str, str]]:
    with (bundle / "tables" / f"{query}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def records() -> list[dict[str, str]]:
    with (ROOT / "specs/reference/acs_geography.csv").open(encoding="utf-8", newline="") as file:
        state = {row["PUMA"]: row["state"] for row in csv.DictReader(file)}
    with RECORDS.open(encoding="utf-8", newline="") as file:
        return [{**row, "state": state[row["PUMA"]]} for row in csv.DictReader(file)]


def simultaneous(bundle: Path, query: str, measure: str, cells: int) -> int:
    """The margin that holds for all cells together with probability 1 - 1e-9 or more."""
    plan = ReleasePlan.from_canonical((bundle / "plan.json").read_bytes())
    fed: list[Step] = [s for s in plan.steps if any((a.query, a.measure) == (query, measure) for a in s.answers)]
    return int(fed[0].law.margin(1 - Fraction(1, 10**9) / cells))


def test_codes_with_leading_zeros_survive_to_the_published_file(bundle: Path) -> None:
    assert "06-07502" in {row["PUMA"] for row in table(bundle, "areas")}
    assert {"01", "06", "08"} <= {row["state"] for row in table(bundle, "population")}


def test_every_count_is_where_the_law_says(bundle: Path) -> None:
    people = records()
    earners = [row for row in people if row["PINCP"] not in ("", "N")]
    cells = ("state", "SEX")
    published = [("population", "persons", cells, people), ("areas", "persons", ("PUMA",), people)]
    published.append(("income", "earners", cells, earners))
    for query, measure, keys, counted in published:
        truth = Counter(tuple(row[key] for key in keys) for row in counted)
        rows = table(bundle, query)
        margin = simultaneous(bundle, query, measure, len(rows))
        assert len(rows) == len(truth)
        for row in rows:
            assert abs(int(row[measure]) - truth[tuple(row[key] for key in keys)]) <= margin
        assert margin < 80  # tight enough to see a wrong filter; noise of joined counts has longer tails


def test_means_of_clipped_incomes_lie_within_wide_margins(bundle: Path) -> None:
    values: dict[tuple[str, str], list[float]] = {}
    for row in records():
        if row["PINCP"] not in ("", "N"):
            clipped = min(max(float(row["PINCP"]), 0), 200_000)
            values.setdefault((row["state"], row["SEX"]), []).append(clipped)
    for row in table(bundle, "income"):
        own = values[row["state"], row["SEX"]]
        assert abs(float(row["average"]) - sum(own) / len(own)) <= 4 * float(row["average_margin"])
