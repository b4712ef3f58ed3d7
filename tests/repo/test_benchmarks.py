"""The systems beside which this project is measured: their table is closed, their page is what the results say."""

from __future__ import annotations

import ast
import json
import math
import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from bench.growth.figure import growth_figure
from bench.growth.page import FIGURE
from bench.growth.results import RESULTS as GROWN
from bench.growth.results import read_growth
from bench.growth.runs import cells_spec
from bench.peers.accuracy import errors, truth_of
from bench.peers.answering import Asked, write_answers
from bench.peers.figure import figure
from bench.peers.page import RESULTS, kept_results, page
from bench.peers.rows import write_rows
from bench.peers.runs import REQUIREMENTS, Asking, turns
from bench.peers.summary import read_results
from bench.peers.systems.ours import SETTINGS, policy_text, spec_text
from bench.peers.table import COMPARED, OURS, RAW, SYSTEMS
from bench.peers.works import (
    CLIP,
    DELTA,
    EPSILON,
    KEYS,
    MOST_GROUPS,
    QUANTILES,
    WORKS,
    Work,
    bounded_rows,
    cells,
    raw_sql,
)
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.accountants.zcdp import Zcdp
from dprelease.privacy.event import Concentrated

from .documents import ROOT
from .planning import plan_text

SCRIPTS = ROOT / "bench" / "peers" / "systems"


def test_the_table_of_systems_is_closed() -> None:
    """Every script, every file of requirements and every result has its line, and the other way round."""
    named = {system.environment for system in SYSTEMS.values()} - {""}

    assert {path.stem for path in SCRIPTS.glob("*.py")} == {system.script for system in SYSTEMS.values()}
    assert {path.stem for path in REQUIREMENTS.iterdir()} == named
    assert SYSTEMS[RAW].environment == "raw"
    assert list(COMPARED) == list(WORKS)
    for work, name in COMPARED.items():
        assert work in SYSTEMS[name].works
        assert SYSTEMS[name].environment == "raw"
    assert [name for name, system in SYSTEMS.items() if not system.environment] == [OURS]
    for system in SYSTEMS.values():
        assert {*system.noise, *system.cannot, *system.without} <= {*system.works} <= {*WORKS}
    for results in kept_results():
        assert {system for _, system in results.summaries} <= set(SYSTEMS)


@pytest.mark.parametrize("path", sorted(REQUIREMENTS.iterdir()), ids=lambda path: path.stem)
def test_every_version_is_pinned_and_every_shown_package_is_among_them(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").split()
    pinned = {
        line.partition("==")[0].lower().replace("_", "-") for line in lines if re.fullmatch(r"[\w.-]+==[\w.]+", line)
    }
    shown = {package.lower() for each in SYSTEMS.values() if each.environment == path.stem for package in each.packages}

    assert len(pinned) == len(lines)
    assert shown <= pinned


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_a_script_imports_of_this_project_what_its_environment_can(path: Path) -> None:
    """The works and the harness, which need the standard library alone; only our own script calls the command."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    assert {name for name in found if name.startswith("bench")} == {"bench.peers.answering", "bench.peers.works"}
    assert {name for name in found if name.startswith("dprelease")} == (
        {"dprelease.cli"} if path.stem == "ours" else set()
    )


@pytest.mark.parametrize("work", WORKS.values(), ids=lambda work: work.name)
def test_our_spec_of_a_work_is_planned_and_verified_within_the_budget(work: Work, tmp_path: Path) -> None:
    noise = SYSTEMS[OURS].noise.get(work.name, "laplace")
    (tmp_path / "dprelease.yaml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(policy_text(noise), encoding="utf-8")

    plan = plan_text(spec_text(work, f"{work.table}.parquet", f"{EPSILON:g}", f"{DELTA:g}"), "spec.yaml", tmp_path)
    loss = verify(plan)

    assert loss == plan.loss[plan.certified]
    assert 0.999 * EPSILON < float(loss.epsilon) <= EPSILON
    assert float(loss.delta) <= DELTA
    assert {output.query for output in plan.outputs} == {query.name for query in work.queries}


def _asked(work: Work) -> Asked:
    return Asked(Path(), work, EPSILON, DELTA, Path(), "gaussian")


def test_the_rho_that_the_others_are_given_has_the_epsilon_and_delta_of_the_budget_and_no_less() -> None:
    """By our own accountant, which is proved and tested elsewhere."""
    rho = _asked(WORKS["W3"]).rho

    def epsilon(value: float) -> float:
        return float(Zcdp().epsilon(Concentrated(rho=Fraction(value)), Fraction(DELTA)))

    assert epsilon(rho) == pytest.approx(EPSILON, rel=1e-4)
    assert epsilon(rho * 0.999) < EPSILON


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), 3000)


def test_the_rows_are_the_same_wherever_they_are_made(rows: Path, tmp_path: Path) -> None:
    again = write_rows(tmp_path, 3000)

    for name in ("people", "visits"):
        one, other = (pq.read_table(folder / f"{name}.parquet") for folder in (rows, again))
        assert one.equals(other)
        assert one.num_rows == 3000
        for column in set(one.column_names) & set(KEYS):
            assert set(one[column].to_pylist()) <= set(range(1, KEYS[column] + 1))


@pytest.mark.parametrize("name", ["W1", "W2", "W4"])
def test_an_error_is_the_one_that_was_put_in(rows: Path, tmp_path: Path, name: str) -> None:
    work = WORKS[name]
    (query,) = work.queries
    table = pq.read_table(rows / f"{work.table}.parquet").to_pydict()
    exact = dict.fromkeys(cells(query), 0)
    for at, cell in enumerate(zip(*(table[column] for column in query.by), strict=True)):
        exact[cell] += min(table["income"][at], CLIP[1]) if query.kind == "sum" else 1
    off = {cell: 3 if at % 2 else -3 for at, cell in enumerate(exact)}
    write_answers(tmp_path / f"{query.name}.csv", query, [(*cell, exact[cell] + off[cell]) for cell in exact])

    found = errors(work, tmp_path, truth_of(work, rows))[query.kind]

    assert found["rmse"] == pytest.approx(3)
    assert found["relative"] == pytest.approx(float(np.median([3 / value for value in exact.values() if value])))
    assert (found["cells"], found["missing"]) == (len(exact), 0)


def test_a_cell_that_was_not_published_is_told_and_an_empty_one_has_no_median(rows: Path, tmp_path: Path) -> None:
    work = WORKS["W3"]
    query = next(each for each in work.queries if each.kind == "quantiles")
    written = [(*cell, 1, 2, 3) for cell in cells(query)][:-1]
    write_answers(tmp_path / f"{query.name}.csv", query, written)

    found = errors(work, tmp_path, truth_of(work, rows))

    assert set(found) == {"quantiles"}
    assert found["quantiles"]["missing"] == len(QUANTILES)
    assert found["quantiles"]["cells"] == len(QUANTILES) * math.prod(KEYS[column] for column in query.by)


def test_what_sampling_keeps_is_at_most_all_and_at_most_ten_for_a_user(rows: Path) -> None:
    truth = truth_of(WORKS["W4"], rows)
    table = pq.read_table(rows / "visits.parquet").to_pydict()
    pairs = set(zip(table["user_id"], table["county"], strict=True))
    of_user = Counter(user for user, _ in pairs)

    assert (truth.kept["visits"] <= truth.exact["visits"] + 1e-9).all()
    assert truth.kept["visits"].sum() == pytest.approx(sum(min(10, count) for count in of_user.values()))
    assert max(of_user.values()) > 10


def test_what_bounded_users_are_compared_with_keeps_of_each_user_what_the_work_says(rows: Path) -> None:
    """As many rows as sampling keeps, no pair of a user and a county twice, and no user in more than ten counties."""
    (query,) = WORKS["W4"].queries
    kept = bounded_rows(str(rows / "visits.parquet"))
    wanted = truth_of(WORKS["W4"], rows).kept[query.name].sum()

    pairs = duckdb.sql(f"SELECT user_id, county FROM {kept}").fetchall()
    answers = duckdb.sql(raw_sql(query, "", kept)).fetchall()

    assert len(set(pairs)) == len(pairs) == sum(count for _, count in answers) == pytest.approx(wanted)
    assert max(Counter(user for user, _ in pairs).values()) == MOST_GROUPS


def test_the_page_and_its_figure_are_what_the_kept_results_say() -> None:
    shown, growth = kept_results(), read_growth()

    assert shown
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == page(shown, growth)
    assert (ROOT / "docs" / "benchmarks.svg").read_text(encoding="utf-8") == figure(shown)
    assert (ROOT / "docs" / FIGURE).read_text(encoding="utf-8") == growth_figure(growth)


def test_a_number_of_the_results_is_on_the_page_and_another_one_makes_another_page(tmp_path: Path) -> None:
    path = sorted(RESULTS.glob("*.json"))[0]
    text = path.read_text(encoding="utf-8")
    changed = tmp_path / path.name
    changed.write_text(re.sub(r'"peak": [\d.]+', '"peak": 987654.0', text), encoding="utf-8")

    assert "987,654" not in page([read_results(path)], read_growth())
    assert "987,654" in page([read_results(changed)], read_growth())


def test_growth_is_told_by_the_least_seconds_and_the_most_memory_of_every_act_and_size(tmp_path: Path) -> None:
    told = json.loads(GROWN.read_text(encoding="utf-8"))
    both = [{**each, "cpu": cpu, "peak": peak} for each in told["runs"] for cpu, peak in ((2.0, 3.0), (1.0, 987654.0))]
    (tmp_path / "results.json").write_text(json.dumps({**told, "runs": both}), encoding="utf-8")

    found = read_growth(tmp_path / "results.json")

    assert {value for line in found.lines for value in line.cpu.values()} == {1.0}
    assert {value for line in found.lines for value in line.peak.values()} == {987654.0}
    assert sum(len(line.cpu) for line in found.lines) == len(told["runs"])
    assert "987,654" in page(kept_results(), found)


@pytest.mark.parametrize("cells", [10**4, 10**7])
def test_a_spec_of_cells_has_as_many_as_it_is_asked_for(cells: int, tmp_path: Path) -> None:
    (tmp_path / "dprelease.yaml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(policy_text("laplace"), encoding="utf-8")

    plan = plan_text(cells_spec(cells, "people.parquet"), "spec.yaml", tmp_path)

    assert [step.cells for step in plan.steps] == [cells]


def test_every_round_does_every_work_once_and_begins_with_another_system() -> None:
    names = list(SYSTEMS)
    asking = Asking(Path(), 1, len(names), 1, 1, names, list(WORKS), ("tumult:W3",), 0)
    wanted = {(work, name) for name in names for work in SYSTEMS[name].works if work not in SYSTEMS[name].cannot}
    rounds = [[(work.name, system.name) for work, system in turns(asking, number)] for number in range(len(names))]

    for each in rounds:
        assert len(each) == len(set(each))
        assert set(each) == wanted - {("W3", "tumult")}
        assert [work for work, _ in each] == sorted(work for work, _ in each)
    assert {each[0][1] for each in rounds} == {name for name in names if "W1" in SYSTEMS[name].works}


_MEASURED = """
import json, sys, pathlib
from bench.peers.measure import StoppedShort, run_measured
out = pathlib.Path(sys.argv[1])
try:
    found = run_measured([sys.executable, "-c", sys.argv[2], str(out)], out, out, float(sys.argv[3]))
    print(json.dumps({"cpu": found.cpu, "inside": found.inside, "inside_cpu": found.inside_cpu, "peak": found.peak}))
except StoppedShort as reason:
    print(json.dumps(str(reason)))
"""
_BUSY = """
import os, sys, time, json, pathlib
pathlib.Path(sys.argv[1], "phases.json").write_text(json.dumps({"start": 5, "query": 1, "write": 0.5, "cpu": 0.25, "peak": 1}))
if os.fork() == 0:
    hoard = bytearray(50_000_000)
    hoard[::4096] = b"x" * len(hoard[::4096])
    while time.process_time() < 0.5: pass
os._exit(0)
"""


@pytest.mark.parametrize(
    ("code", "limit", "said"),
    [
        (_BUSY, "60", None),
        ("raise SystemExit('no such thing')", "60", "exit 1: no such thing"),
        ("import time; time.sleep(60)", "0.3", "stopped after 0 s"),
    ],
)
def test_a_process_is_measured_with_what_outlives_it(tmp_path: Path, code: str, limit: str, said: str | None) -> None:
    """In a process of its own, for the measuring one adopts orphans."""
    command = [sys.executable, "-c", _MEASURED, str(tmp_path), code, limit]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(told.stdout)
    if said is not None:
        assert found == said
    else:
        assert found["cpu"] >= 0.5
        assert (found["inside"], found["inside_cpu"]) == (1.5, 0.25)
        assert found["peak"] > 50
