"""Real survey weights: the errors that the research tabled, and a release beside the weighted truth of its file."""

from __future__ import annotations

import csv
import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, Source, Table
from dprelease.catalog.weight import RowWeight, Weighting
from dprelease.engines import ENGINES
from dprelease.noise import MECHANISMS, Exact
from dprelease.noise.exact import open_exact
from dprelease.plan.document import ReleasePlan
from tests.project import command

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
RECORDS = DATA / "nist_acs_national2019.csv"
CLIPS = (300, 400, 500, 700, 1000, 2068)
MU = Fraction("0.18197")  # of epsilon 1 at delta 1e-9
TOTAL_ERRORS = {
    ("PUMA", "SEX"): (4708, 3214, 3074, 3895, 5500, 11365),
    ("PUMA",): (8869, 5074, 3790, 3988, 5506, 11365),
    (): (131735, 59360, 29374, 9488, 5943, 11365),
}
"""Root of the mean squared error of a cell, clip by clip: what the clip takes off, and the noise."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not RECORDS.exists(), reason="the survey file is not beside the checkout"),
]

Reals = npt.NDArray[np.float64]


def records() -> list[dict[str, str]]:
    with (ROOT / "specs/reference/acs_geography.csv").open(encoding="utf-8", newline="") as file:
        places = {row["PUMA"]: row for row in csv.DictReader(file)}
    with RECORDS.open(encoding="utf-8", newline="") as file:
        return [{**row, **places[row["PUMA"]]} for row in csv.DictReader(file)]


def weighted(keys: tuple[str, ...], clip: int = 10**9, power: int = 1) -> dict[tuple[str, ...], float]:
    """The truth of the file, by nothing but addition."""
    found: dict[tuple[str, ...], float] = {}
    for row in records():
        key = tuple(row[name] for name in keys)
        found[key] = found.get(key, 0) + min(int(row["PWGTP"]), clip) ** power
    return found


def of_clip(clip: int) -> Catalog:
    areas = tuple(sorted({row["PUMA"] for row in records()}))
    columns = (
        Column(name="PUMA", type="text", keys=areas),
        Column(name="SEX", type="integer", keys=(1, 2)),
        Column(name="PWGTP", type="integer"),
    )
    weight = Weighting(column="PWGTP", step=Fraction(1), clip=clip)
    source = Source(file=str(RECORDS), format="csv", null_values=("", "N"))
    return Catalog(tables={"t": Table(name="t", account="a", source=source, columns=columns, weight=weight)})


@pytest.mark.parametrize("by", list(TOTAL_ERRORS))
def test_the_total_error_by_clip_is_as_tabled(by: tuple[str, ...]) -> None:
    """The exact totals of an engine, hidden again and again by the tool's own noise at the scale of the clip."""
    engine = next(iter(ENGINES.values()))(DATA, {})
    truth = np.array([each for _, each in sorted(weighted(by).items())])
    again = 20_000 // len(truth)
    for clip, tabled in zip(CLIPS, TOTAL_ERRORS[by], strict=True):
        quantity = Quantity(kind="rows", weight=RowWeight(column="PWGTP", step=Fraction(1), clip=clip))
        (box,) = engine.aggregate(of_clip(clip), Grouping(table="t", by=by), (quantity,), {}, b"")
        assert isinstance(box, Exact)
        exact = open_exact(box)
        assert np.array_equal(exact, np.array([each for _, each in sorted(weighted(by, clip).items())]))
        drawn = (
            MECHANISMS["discrete_gaussian"]
            .draw(Exact(np.tile(exact, again)), Fraction(float(clip / MU)))
            .reshape(again, -1)
        )
        squares = ((drawn - truth) ** 2).mean(axis=1)  # of the cells of one table
        blur = 5 * squares.std() / np.sqrt(again)
        assert abs(squares.mean() - tabled**2) <= blur + 2 * tabled, (clip, squares.mean() ** 0.5)
    engine.close()


def test_the_sampling_error_of_the_median_cell_is_as_tabled() -> None:
    """The root of the summed squares of weights: 3,321 where cells are areas by sex."""
    squares = sorted(weighted(("PUMA", "SEX"), power=2).values())
    assert round(float(np.sqrt((squares[19] * squares[20]) ** 0.5))) in range(3316, 3327)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    for name in ("dprelease.yaml", "policy.yaml", "survey-weights.yaml"):
        shutil.copy(ROOT / "specs" / name, folder)
    shutil.copytree(ROOT / "specs" / "reference", folder / "reference")
    command(folder, "run", "survey-weights.yaml", "--direct", variables={"DPRELEASE_ACS": str(DATA)})
    return folder / "releases" / "acs-weighted" / "2019"


def published(bundle: Path, name: str) -> list[dict[str, str]]:
    with (bundle / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("name", "label", "keys"),
    [
        ("people", "total", ("PUMA", "SEX")),
        ("income", "total", ("state",)),
        ("crossed__region__SEX", "count", ("region", "SEX")),
        ("crossed__total", "count", ()),
    ],
)
def test_totals_lie_where_the_noise_says_and_both_errors_stand_beside_them(
    bundle: Path, name: str, label: str, keys: tuple[str, ...]
) -> None:
    truth, rows = weighted(keys, 500), published(bundle, name)
    assert len(rows) == len(truth)
    far = 0
    for row in rows:
        value, error, margin, sampling, total = (
            float(row[label + end]) for end in ("", "_se", "_margin", "_sampling_se", "_total_margin")
        )
        off = abs(value - truth[tuple(row[key] for key in keys)])
        assert off <= 8 * error  # once in 10^15
        far += off > margin
        assert sampling**2 == pytest.approx(1.76 * 104.5 * (1 - 0.0096) * value, rel=1e-9)
        assert total**2 == pytest.approx((margin + 0.5) ** 2 + (1.959964 * sampling) ** 2, rel=1e-4)
    assert far <= 2 + 0.2 * len(rows)


def test_the_model_of_the_sample_is_near_what_the_weights_say(bundle: Path) -> None:
    """The design effect of the spec is that of the file, so that the modelled errors are those of the squares."""
    squares = weighted(("PUMA", "SEX"), power=2)
    rows = published(bundle, "people")
    told = np.array([float(row["total_sampling_se"]) for row in rows])
    found = np.sqrt([squares[row["PUMA"], row["SEX"]] for row in rows])
    assert np.median(told / found) == pytest.approx(1, abs=0.1)


def test_shares_and_means_are_weighted(bundle: Path) -> None:
    people = [row for row in records() if row["PINCP"] not in ("", "N")]
    for row in published(bundle, "income"):
        own = [(min(int(each["PWGTP"]), 500), float(each["PINCP"])) for each in people if each["state"] == row["state"]]
        size = sum(weight for weight, _ in own)
        mean = sum(weight * min(max(pay, 0), 200_000) for weight, pay in own) / size
        whole = sum(min(int(each["PWGTP"]), 500) for each in records() if each["state"] == row["state"])
        assert abs(float(row["average"]) - mean) <= 4 * float(row["average_margin"])
        assert abs(float(row["share"]) - size / whole) <= 4 * float(row["share_margin"])
        assert "average_sampling_se" not in row


def test_pages_and_metadata_say_what_weights_mean(bundle: Path) -> None:
    page = (bundle / "index.html").read_text(encoding="utf-8")
    assert "given the weights of the others" in page
    assert "with sampling)" in page
    assert "stands for more than 500 people" in page
    told = json.loads((bundle / "datapackage.json").read_text(encoding="utf-8"))
    fields = {field["name"]: field for each in told["resources"] for field in each.get("schema", {}).get("fields", [])}
    assert "by a public model" in fields["total_sampling_se"]["description"]
    assert "noise and sampling" in fields["total_total_margin"]["description"]
    accounting = (bundle / "accounting.html").read_text(encoding="utf-8")
    assert "does not cover what one person did to these" in accounting
    assert "a row counts as often as its PWGTP says" in accounting
    plan = ReleasePlan.from_canonical((bundle / "plan.json").read_bytes())
    assert plan.catalog.tables["persons"].weight is not None
    command(bundle.parents[2], "verify", str(bundle))
