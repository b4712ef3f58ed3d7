"""Files of sources come from the folders that the policy names, whatever path, pattern or link leads to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprelease.errors import SpecError
from dprelease.release import direct
from dprelease.release.data.headers import tables_not_here
from dprelease.release.planning import open_target, plan_release
from dprelease.release.quote import quote_plan
from dprelease.release.run import Request
from tests.project import POLICY, SETTINGS

SPEC = """dprelease: 1
release: {name: s, period: 2024}
privacy: {unit: {entity: person}, budget: {epsilon: 1/4, delta: 1e-9}}
tables:
  people:
    account: people
    source: {SOURCE}
    columns: {sex: {type: text, keys: [m, f]}}
queries: {q: {table: people, by: [sex], measures: {n: {count: rows}}}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An office whose data may lie in `data` and in `/.../vault`, beside another office's."""
    office = tmp_path / "office"
    for folder in (office / "data", office / "data2", tmp_path / "vault", tmp_path / "other"):
        folder.mkdir(parents=True)
        (folder / "people.csv").write_text("sex\nm\nf\n")
    (office / "data" / "link.csv").symlink_to(tmp_path / "other" / "people.csv")
    (office / "data" / "inside.csv").symlink_to(tmp_path / "vault" / "people.csv")
    (office / "out").symlink_to(tmp_path / "other")
    (office / "dprelease.yaml").write_text(SETTINGS)
    policy(office, "[data, ../vault]")
    return office


def policy(office: Path, allowed: str) -> None:
    (office / "policy.yaml").write_text(f"{POLICY}sources_under: {allowed}\n" if allowed else POLICY)


def spec(office: Path, source: str) -> Path:
    (office / "s.yaml").write_text(SPEC.replace("SOURCE", source.replace("ROOT", str(office.parent))))
    return office / "s.yaml"


ALLOWED = [
    "file: data/people.csv",
    "file: data/inside.csv",
    "file: ROOT/vault/people.csv",
    "file: ROOT/vault/*.csv",
    "file: data/not-yet-there.csv",
    'file: "data/{{ period }}.csv"',
    'file: "${env:NOT_SET}/people.csv"',  # told by the run
    "file: s3://office/people.csv",
    'database: "postgresql://db.example.org/office", table: people',
    'database: "sqlite:///data/office.db", table: people',
]
REFUSED = [
    "file: data2/people.csv",
    "file: data/link.csv",
    "file: data/*.csv",  # one of them is a link to elsewhere
    "file: out/people.csv",
    "file: data/../data2/people.csv",
    "file: ROOT/other/*.csv",
    "file: ROOT/*/people.csv",
    'file: "../{{ period }}/people.csv"',
    "file: ROOT/nowhere/people.csv",
    "delta: ROOT/other, version: 1",
    'database: "sqlite:///../other/office.db", table: people',
    'database: "duckdb:////srv/office.duckdb", table: people',
]


@pytest.mark.parametrize("source", ALLOWED)
def test_what_lies_there_is_planned(project: Path, source: str) -> None:
    plan_release(open_target(spec(project, source)))


@pytest.mark.parametrize("source", REFUSED)
def test_what_leads_elsewhere_is_refused_unless_any_folder_is_allowed(project: Path, source: str) -> None:
    path = spec(project, source)
    with pytest.raises(SpecError) as caught:
        plan_release(open_target(path))
    (problem,) = caught.value.problems
    assert (problem.code, problem.where.line if problem.where else 0) == ("DPR-S919", 7)
    assert "data, ../vault" in problem.hint
    policy(project, "")
    plan_release(open_target(path))


def test_a_table_of_a_metastore_lies_wherever_it_says(project: Path) -> None:
    """That no name tells, and a plan asks nobody: it is refused where only some folders are allowed."""
    path = spec(project, "metastore: office.people")
    path.write_text(path.read_text().replace("    columns:", "    engine: spark\n    columns:"))
    with pytest.raises(SpecError, match="DPR-S919") as told:
        plan_release(open_target(path))
    assert "a metastore" in str(told.value)
    policy(project, "")
    target = open_target(path)
    assert b"office.people" in plan_release(target).canonical().encode()
    assert "`dprelease run` asks" in tables_not_here(target.resolved[0], project)["people"]


def test_a_plan_that_was_frozen_before_is_held_against_it_too(project: Path) -> None:
    policy(project, "")
    target = open_target(spec(project, "file: data2/people.csv"))
    quote_plan(target, plan_release(target), target.project.open_ledger()).write(project / "plan.json")
    policy(project, "[data]")
    with pytest.raises(SpecError, match="DPR-S919"):
        direct.run_directly(Request(target=str(project / "plan.json")))
    assert target.project.open_ledger().find("s", "2024") is None  # nothing was charged
