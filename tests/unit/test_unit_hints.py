"""Where a spec's unit is not its account's, the hint is text that can be typed, and that then passes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dprelease.errors import PlanError, Problem, SpecError
from dprelease.ledger import schemes
from dprelease.privacy.convert import factor
from dprelease.privacy.unit import Neighboring
from dprelease.release.project import Project
from dprelease.spec.load import load
from dprelease.spec.project import load_policy, load_project

POLICY = "accounts:\n  people: {unit: UNIT, composition: basic, lifetime: {epsilon: 8}}\n"
SPEC = """\
dprelease: 1
release: {name: survey, period: 2024-03}
privacy:
  unit: UNIT
  budget: {epsilon: 1}
tables:
  people: {account: people, source: {file: people.csv}, columns: {sex: {type: integer, keys: [1, 2]}}}
queries:
  people: {table: people, by: [sex], measures: {n: {count: rows}}}
"""
# What a spec says, what an account says, whether the policy can help, and what else is said.
CASES = [
    ("{entity: person, per: month}", "person", True, "at most 12 of the months of every person"),
    ("{entity: person}", "person-month", False, "write `unit: {entity: person, per: month}`"),
    ("{entity: person, per: month}", "household", True, "made up of a few person-month units"),
    ("{entity: person, per: day}", "person-month", True, "unit: {entity: person, per: month}"),
    ("{entity: self-employed}", "household-head", True, "unit: {entity: household-head}"),
    ("{entity: person}", "household", True, "nests: {person: 5}"),
]


def problems(unit: str, policy: str) -> list[Problem]:
    settings = load_project("ledger: sqlite:///ledger.db\n", "dprelease.yaml", schemes())
    try:
        project = Project(Path("/somewhere"), settings, load_policy(policy, "policy.yaml"))
        project.accounts(load(SPEC.replace("UNIT", unit), "spec.yaml"))
    except SpecError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize(("unit", "account", "policy_helps", "says"), CASES)
def test_what_the_hint_says_can_be_written_and_passes(unit: str, account: str, policy_helps: bool, says: str) -> None:
    policy = POLICY.replace("UNIT", account)
    (problem,) = problems(unit, policy)
    assert problem.code == "DPR-S411"
    assert says in problem.hint
    written = re.findall("`(unit|nests): ({[^}]*})`", problem.hint)
    assert [field for field, _ in written] == (["unit", "nests"] if policy_helps else ["unit"])
    assert problems(written[0][1], policy) == []
    for _, nests in written[1:]:
        assert problems(unit, policy.replace("composition", f"nests: {nests}, composition")) == []


def test_a_part_of_a_spec_s_unit_is_never_said_to_be_made_up_of_it() -> None:
    """A number of persons in a person-month would be taken for a proof, and there is none."""
    add = Neighboring.ADD_REMOVE
    with pytest.raises(PlanError, match="DPR-P410") as refused:
        factor("person", add, "person-month", add, {})
    assert "nests" not in str(refused.value)
