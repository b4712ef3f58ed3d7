"""The reference of the spec that lies beside the repository: its workloads are read and planned as they are written."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from dprelease.errors import SpecError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.release.planning import Target, plan_release
from dprelease.release.project import Project
from dprelease.spec.load import load

from .documents import ROOT
from .planning import plan_text

PAGE = ROOT.parent / "shared" / "spec-language.md"
GEOGRAPHY = "region,state,puma\nW,06,06-01\nW,06,06-02\nN,36,36-01\nN,36,36-02\n"
PAGES = "page\n" + "".join(f"p{at}\n" for at in range(30))
LATER = (  # what the page has and this version says is not there yet
    ('source: {database: "${env:EVENTS_DB}", table: page_events}', "source: {file: visits.csv}"),
    ("    totals: [[state], []] ", "    # "),
)
# The page's accounts by what its spec needs: its roles have no names, its second account protects users and has no time.
PUBLIC = (
    ("approvals: {required: 1, roles: [data-owner]}", ""),
    ("{unit: user, ", "{unit: person, "),
    ("window: {per: year, ", "time: {column: seen, type: date}, window: {per: year, "),
    ("lifetime: {epsilon: 20, delta: 1e-7}", "lifetime: {epsilon: 20, delta: 1e-7, selecting: 5e-9}"),
)
JOINT = ("of: [state, sex, race, age_band], ways: [1, 2, 3]}", "of: [state, sex, race, age_band], ways: [1, 2, 3, 4]}")

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason=f"{PAGE} is not there")


def _with(text: str, changes: tuple[tuple[str, str], ...]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, f"{text.count(old)} times: {old}"
        text = text.replace(old, new)
    return text


@cache
def blocks() -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def planned(folder: Path, *changes: tuple[str, str]) -> ReleasePlan:
    """The plan of the page's spec, in a project of the page's other blocks."""
    spec, settings, policy = blocks()
    (folder / "reference").mkdir()
    for name, text in {
        "dprelease.yaml": settings,
        "policy.yaml": _with(policy, PUBLIC),
        "reference/geography.csv": GEOGRAPHY,
        "reference/pages.csv": PAGES,
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    loaded = load(_with(spec, (*LATER, *changes)), "spec.yaml")
    return plan_release(Target(Project.find(folder), folder / "spec.yaml", loaded))


@pytest.mark.slow
def test_the_workloads_of_the_page_are_planned_with_the_shares_that_it_gives(tmp_path: Path) -> None:
    plan = planned(tmp_path, JOINT)

    crosstabs, redistricting = plan.workloads
    assert verify(plan) == plan.loss[plan.certified]
    assert (len(crosstabs.tables), len(redistricting.tables)) == (15, 12)
    assert redistricting.strategy == "given shares"
    shares = [plan.step(take.step).share for take in redistricting.takes]
    within = {take.step: share / sum(shares) for take, share in zip(redistricting.takes, shares, strict=True)}
    assert within["redistricting.puma.race-adult"] == Fraction(4, 7) / 4
    assert within["redistricting.region.total"] == Fraction(1, 7) / 4


def test_tables_that_need_not_exist_are_refused_with_two_ways_out(tmp_path: Path) -> None:
    """As the page has it, no table has the columns of all: below zero or in fractions there may be no consistent ones."""
    with pytest.raises(SpecError, match=r"DPR-S662[\s\S]*add 4 to `ways`[\s\S]*\[consistent\]"):
        planned(tmp_path)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("name", ["adult-crosstabs.yaml", "redistricting.yaml"])
def test_the_two_specs_of_workloads_are_planned_to_the_last_bit_of_their_budget(name: str) -> None:
    plan = plan_text((ROOT / "specs" / name).read_text(encoding="utf-8"), name)

    assert plan.unspent is None
    assert all(step.answers[0].query in {each.name for each in plan.workloads} for step in plan.steps)
    assert {"adult-crosstabs.yaml": 92, "redistricting.yaml": 21}[name] == len(plan.queries)
