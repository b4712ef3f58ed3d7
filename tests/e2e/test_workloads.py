"""Workloads of marginals from a spec to a bundle that verifies: every kind of one, as a user runs it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from scipy import stats

from dprelease.ledger import open_ledger
from dprelease.noise.weighted_sums import widest
from tests.crash.child import Orders
from tests.crash.nursery import Nursery
from tests.project import command, installed
from tests.workloads import areas, crosstabs, ordinary, published, small_workloads, spec_of, truth_of

WHOLE = "[consistent, nonnegative, integer]"
SHARES = """shares:
  levels: {region: 1/7, state: 2/7, puma: 4/7}
  tables: {total: [null, 1/4, 1/4], sex: [1/2, 1/4, 1/4], "sex*race": 1/2}"""
SPECS = {
    "flat": spec_of(crosstabs()),
    "levels": spec_of(areas(), post=WHOLE),
    "shares": spec_of(areas(SHARES), budget="{rho: 1/5, delta: 1e-9}"),
    "replaced": spec_of(crosstabs(ways="[0, 1, 2, 3]"), relation="replace_one", post="[consistent, integer]"),
    "units": spec_of(crosstabs(), areas(), units=True),
    "pinned": spec_of(crosstabs("budget: {epsilon: 1/2}"), areas("target: {count: {margin: 60}}"), ordinary()),
    "shared": spec_of(crosstabs("share: 3"), areas(), ordinary()),
    "pure": spec_of(crosstabs("share: 3"), areas("target: {count: {margin: 90}}"), ordinary(), budget="{epsilon: 2}"),
    "together": spec_of(crosstabs(ways="[0, 1]"), ordinary(), budget="{epsilon: 2}"),
    "truncated": spec_of(crosstabs(ways="[0, 1]"), units=True, budget="{epsilon: 2}").replace(
        "  budget:", "  noise: knorm\n  budget:"
    ),
}
# On every commit those that are a part of no other: "pinned" has the queries of "flat" and "shared", "shared" is killed
# and gone on with below, and shares are added up exactly by tests/unit and drawn by tests/statistical.
AT_NIGHT = ("flat", "shares", "shared", "truncated")
NAMES = [pytest.param(name, marks=pytest.mark.nightly) if name in AT_NIGHT else name for name in SPECS]
LEVELS = ("region", "state", "puma")
ATTRIBUTES = {"crosstabs": ("sex", "race", "band"), "areas": ("sex", "race")}
Tables = dict[str, list[dict[str, str]]]


@cache
def released(base: Path, name: str) -> Path:
    """The folder of a project in which one of the specs was released."""
    folder = base / name
    small_workloads(folder, SPECS[name])
    assert "0 reused" in command(folder, "run", "spec.yaml", "--direct")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workloads")


def bundle(folder: Path) -> Path:
    return folder / "releases" / "census" / "2030"


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in bundle(folder).rglob("*") if path.is_file()}


def keys_of(rows: list[dict[str, str]]) -> tuple[str, ...]:
    return tuple(name for name in rows[0] if not name.startswith(("count", "persons")))


def workload_of(table: str) -> str:
    return table.partition("__")[0]


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("name", NAMES)
def test_a_release_verifies_and_is_published_again_byte_by_byte(base: Path, name: str) -> None:
    folder = released(base, name)
    before = files(folder)
    assert "FAIL" not in command(folder, "verify", str(bundle(folder)))
    assert "nothing drawn, nothing spent" in command(folder, "run", "spec.yaml", "--direct")
    command(folder, "publish", "census/2030")
    assert files(folder) == before
    assert "sound" in command(folder, "ledger", "check")


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("name", NAMES)
def test_every_table_is_the_sum_of_every_finer_one(base: Path, name: str) -> None:
    """Over all pairs of tables of a workload in which one has the columns of the other, or a level below it."""
    tables = published(bundle(released(base, name)))
    pairs = 0
    for coarse, fine in combinations(sorted(tables, key=lambda table: len(keys_of(tables[table]))), 2):
        for above, below in ((coarse, fine), (fine, coarse)):
            if workload_of(above) == workload_of(below) != "population" and (by := _way(tables, above, below)):
                pairs += 1
                _assert_adds_up(tables[above], tables[below], by)
    assert pairs >= len(tables) - 1 - ("population" in tables)


def _way(tables: Tables, above: str, below: str) -> tuple[tuple[str, ...], str | None] | None:
    """The attributes that are summed to, and the level; None where the one table is no sum of the other."""
    high, low = keys_of(tables[above]), keys_of(tables[below])
    at = {name: LEVELS.index(name) for name in (*high[:1], *low[:1]) if name in LEVELS}
    rest = tuple(name for name in high if name not in LEVELS)
    if not set(rest) <= set(low):
        return None
    if not at:
        return (rest, None)
    return (rest, high[0]) if at[high[0]] <= at[low[0]] else None


def _assert_adds_up(
    above: list[dict[str, str]], below: list[dict[str, str]], by: tuple[tuple[str, ...], str | None]
) -> None:
    attributes, level = by
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for row in below:
        area = () if level is None else (_area(row, level),)
        sums[(*area, *(row[name] for name in attributes))] += float(row["count"])
    for row in above:
        area = () if level is None else (row[level],)
        key = (*area, *(row[name] for name in attributes))
        assert abs(sums[key] - float(row["count"])) <= 1e-9 * max(1.0, abs(sums[key]))


STATES = {"0601": "06", "0602": "06", "3601": "36", "3602": "36", "4801": "48"}
REGIONS = {"06": "S", "48": "S", "36": "N"}


def _area(row: dict[str, str], level: str) -> str:
    area = next(row[name] for name in LEVELS if name in row)
    while level not in row and area not in REGIONS.values():
        area = STATES.get(area) or REGIONS[area]
        if area in (REGIONS.values() if level == "region" else STATES.values()):
            break
    return area


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_as_near_the_truth_as_they_say(base: Path, name: str) -> None:
    """Every cell within its simultaneous limit at 1e-9. Where rows of a unit are left out, only below the truth."""
    folder = released(base, name)
    tables = published(bundle(folder))
    cells = sum(len(rows) for rows in tables.values())
    chance = Fraction(1, 10**9 * cells)
    limit = widest(1.0, 1 - chance) if name in ("pure", "together") else float(stats.norm.isf(float(chance) / 2))
    for table, rows in tables.items():
        if table == "population" or name in ("units", "truncated"):
            continue
        keys = keys_of(rows)
        attributes = ATTRIBUTES[workload_of(table)]
        truth = truth_of(folder, keys, (*attributes, *(("puma",) if workload_of(table) == "areas" else ())))
        assert truth.total() > 1000
        for row in rows:
            error = float(row["count"]) - truth[tuple(row[key] for key in keys)]
            rounding = 5 if "integer" in SPECS[name] else 1e-6  # whole numbers of sums of up to five areas
            clipped = (
                60 if "nonnegative" in SPECS[name] else 0
            )  # a projection moves cells that were not below zero, too
            # Of a number that was adjusted the standard error is that of the estimate before.
            spread = float(row["count_se"] if "count_se" in row else row["count_unadjusted_se"])
            assert abs(error) <= limit * spread + rounding + clipped


def test_whole_numbers_are_whole_and_not_below_zero(base: Path) -> None:
    for rows in published(bundle(released(base, "levels"))).values():
        for row in rows:
            assert float(row["count"]).is_integer()
            assert float(row["count"]) >= 0


@pytest.mark.slow
def test_every_cell_is_published_in_public_order_whatever_the_data(base: Path) -> None:
    """The same project with one row has tables of the same keys."""
    folder = released(base, "levels")
    other = base / "nearly-empty"
    small_workloads(other, SPECS["levels"], rows=1)
    command(other, "run", "spec.yaml", "--direct")
    one, two = published(bundle(folder)), published(bundle(other))
    assert one.keys() == two.keys()
    for table, rows in one.items():
        keys = keys_of(rows)
        assert [[row[key] for key in keys] for row in rows] == [[row[key] for key in keys] for row in two[table]]
    assert {p.relative_to(bundle(folder)) for p in files(folder)} == {
        p.relative_to(bundle(other)) for p in files(other)
    }


@pytest.mark.slow
def test_a_pinned_workload_costs_what_it_says_and_a_target_is_met(base: Path) -> None:
    folder = released(base, "pinned")
    told = json.loads(command(folder, "plan", "spec.yaml", "--json"))
    assert max(float(each["margin"]) for each in told["outputs"] if each["query"].startswith("areas")) <= 60
    assert float(told["loss"]["certified"]["epsilon"]) <= 2
    for table, rows in published(bundle(folder)).items():
        if workload_of(table) == "areas":
            assert max(float(row["count_margin"]) for row in rows) <= 60


@pytest.mark.slow
def test_a_workload_more_changes_only_the_noise_of_what_shares_the_budget(base: Path) -> None:
    """`dprelease diff` names what a release without the workload lacks; pinned draws keep their scale."""
    one, two = released(base, "pinned"), base / "without"
    small_workloads(two, spec_of(crosstabs("budget: {epsilon: 1/2}"), ordinary()))
    command(two, "run", "spec.yaml", "--direct")
    scales = []
    for folder in (one, two):
        plan = json.loads(command(folder, "plan", "spec.yaml", "--json"))
        scales.append({step["id"]: step["scale"] for step in plan["steps"] if step["id"].startswith("crosstabs")})
    assert scales[0] == scales[1]
    assert len(scales[0]) == 7
    names = [{path.stem for path in (bundle(folder) / "tables").glob("*.csv")} for folder in (one, two)]
    assert set(names[0] - names[1]) == {name for name in published(bundle(one)) if workload_of(name) == "areas"}
    said = command(two, "diff", str(bundle(one)), str(bundle(two)), "--json", code=7)
    found = json.loads(said[: said.rindex("}") + 1])
    assert any("areas" in json.dumps(each) for each in found["differences"])
    assert not any("crosstabs" in json.dumps(each) for each in found["differences"])


def test_a_draw_over_tables_holds_the_published_numbers_where_the_recipe_says(base: Path) -> None:
    """Such tables agree as they were drawn: the numbers of a table are those of its rows in the one file."""
    folder = released(base, "together")
    recipe = json.loads((bundle(folder) / "measurements" / "recipe.json").read_text(encoding="utf-8"))
    (told,), tables = recipe["workloads"], published(bundle(folder))
    (step,) = {draw["step"] for draw in told["draws"]}
    (file,) = (each["file"] for each in recipe["steps"] if each["step"] == step)
    numbers = [float(line) for line in (bundle(folder) / file).read_text(encoding="utf-8").splitlines()[1:]]
    assert len(numbers) == 2 + 3 + 3
    seen = set()
    for draw in told["draws"]:
        own = numbers[draw["of"]["first"] : draw["of"]["first"] + draw["of"]["rows"]]
        name = "crosstabs__" + ("-".join(draw["attributes"]) or "total")
        expected = own if draw["attributes"] else [sum(own)]
        assert [float(row["count"]) for row in tables[name]] == pytest.approx(expected, abs=1e-6)
        seen.add(name)
    assert seen == {name for name in tables if name != "population"}


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with Nursery(tmp_path_factory.mktemp("nursery") / "errors.txt") as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "draw.drawn",
        pytest.param("commit.committed", marks=pytest.mark.nightly),
        pytest.param("publish.begun", marks=pytest.mark.nightly),
        pytest.param("write.written", marks=pytest.mark.nightly),
    ],
)
def test_a_killed_release_goes_on_with_the_answers_it_had(nursery: Nursery, tmp_path: Path, point: str) -> None:
    folder = tmp_path / "project"
    spec = small_workloads(folder, SPECS["shared"])
    hit = 3 if point == "commit.committed" else 1
    (end,) = nursery.run(Orders(str(spec), str(tmp_path / "note"), point=point, hit=hit))
    assert end.killed
    ledger = open_ledger("sqlite:///state/ledger.db", folder)
    before = {entry.body["step"]: entry.body["digest"] for entry in ledger.entries() if entry.kind == "measure"}
    assert bool(before) == (point != "draw.drawn")
    command(folder, "run", "spec.yaml", "--direct")
    after = [(entry.body["step"], entry.body["digest"]) for entry in ledger.entries() if entry.kind == "measure"]
    assert len(dict(after)) == len(after)
    assert {step: digest for step, digest in after if step in before} == before
    assert sum(entry.kind == "reserve" for entry in ledger.entries()) == 1
    assert ledger.check() == ()
    assert "FAIL" not in command(folder, "verify", str(bundle(folder)))


@pytest.mark.nightly  # a release with a workload goes the way of every other, which test_release takes on every commit
def test_through_prefect_the_same_release(tmp_path: Path) -> None:
    small_workloads(tmp_path, SPECS["shared"])
    assert "0 reused" in installed(tmp_path, "run", "spec.yaml")
    assert "nothing drawn, nothing spent" in command(tmp_path, "run", "spec.yaml", "--direct")
    assert "FAIL" not in command(tmp_path, "verify", str(bundle(tmp_path)))
    assert len(published(bundle(tmp_path))) == 7 + 9 + 1
