"""dprelease.yaml and policy.yaml: by the same strict rules, and nothing that is not built is ignored."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.errors import SpecError
from dprelease.ledger import schemes
from dprelease.privacy.unit import Neighboring
from dprelease.spec.project import load_policy, load_project

PROJECT = "ledger: sqlite:///state/ledger.db\n"
POLICY = """\
accounts:
  acs: {unit: person, neighboring: replace_one, composition: zcdp, lifetime: {epsilon: 8, delta: 1e-8}}
  pure: {unit: person, composition: basic, lifetime: {epsilon: 1/2}}
ceilings: {epsilon: 4, delta: 1e-8}
approvals: {required: 0}
"""


def test_a_project_has_defaults_for_all_but_its_ledger() -> None:
    project = load_project(PROJECT, "dprelease.yaml", schemes())

    assert project.ledger == "sqlite:///state/ledger.db"
    assert (project.releases, project.prefect_home, project.policy) == ("releases", "state/prefect", "policy.yaml")
    assert (project.anchors, project.source_key) == (("state-anchor/head.json",), "state-key/source.key")


@pytest.mark.parametrize(
    "ledger",
    [
        *("postgresql://user@host/db", "postgres:///db", "${env:LEDGER}", "sqlite:///${env:STATE}/ledger.db"),
        *("postgresql://user:${env:PASSWORD}@host:5432/db", "postgresql://${env:USER}:${env:PASSWORD}@${env:HOST}/db"),
        *("postgresql://host/db?user=u&password=${env:PASSWORD}&sslmode=require", "postgresql://u@[::1]:5432/db"),
    ],
)
def test_a_ledger_may_be_on_a_server_and_its_secrets_in_variables(ledger: str) -> None:
    assert load_project(f'ledger: "{ledger}"\nanchors: []\n', "dprelease.yaml", schemes()).ledger == ledger


def test_a_host_has_a_name_and_hosts_may_share_anchors() -> None:
    made = load_project(PROJECT + "host: ${env:POD}-1\nshared_anchors: [/mnt/a.json]\n", "dprelease.yaml", schemes())

    assert (made.host, made.shared_anchors) == ("${env:POD}-1", ("/mnt/a.json",))
    assert load_project(PROJECT, "dprelease.yaml", schemes()).host is None


def test_anchors_may_be_several_or_none() -> None:
    assert load_project(PROJECT + "anchors: []\n", "dprelease.yaml", schemes()).anchors == ()
    assert load_project(PROJECT + "anchors: [/mnt/a.json, b.json]\n", "f", schemes()).anchors == (
        "/mnt/a.json",
        "b.json",
    )


def test_a_signing_key_is_a_file_or_a_variable_that_names_one() -> None:
    assert load_project(PROJECT, "f", schemes()).signing_key is None
    assert load_project(PROJECT + "signing_key: ../office.key\n", "f", schemes()).signing_key == "../office.key"
    assert load_project(PROJECT + "signing_key: ${env:OFFICE_KEY}\n", "f", schemes()).signing_key == "${env:OFFICE_KEY}"


def test_a_policy_is_exact() -> None:
    policy = load_policy(POLICY, "policy.yaml")

    assert policy.accounts["acs"].neighboring is Neighboring.REPLACE_ONE
    assert policy.accounts["acs"].lifetime.delta == Fraction(1, 10**8)
    assert policy.accounts["pure"].lifetime.epsilon == Fraction(1, 2)
    assert policy.accounts["pure"].lifetime.delta == 0
    assert policy.accounts["pure"].neighboring is Neighboring.ADD_REMOVE
    assert policy.ceilings is not None
    assert policy.ceilings.epsilon == 4
    assert policy.approvals.required == 0


def test_ceilings_and_approvals_may_be_left_out() -> None:
    policy = load_policy(POLICY[: POLICY.index("ceilings")], "policy.yaml")

    assert policy.ceilings is None
    assert policy.approvals.required == 0


@pytest.mark.parametrize(
    ("text", "code", "line", "says"),
    [
        ("releases: r\n", "DPR-S201", 1, "sqlite:///state/ledger.db"),
        ("ledger: postgresql://\n", "DPR-S220", 1, "postgresql://user@host/database"),
        ("ledger: mysql://user:secret@host/db\n", "DPR-S220", 1, "names no place"),
        ("ledger: postgresql://user:secret@host/db\n", "DPR-S226", 1, "${env:NAME}"),
        ("ledger: postgresql://user:${env:A}secret@host/db\n", "DPR-S226", 1, "${env:NAME}"),
        ("ledger: postgresql://host/db?password=secret\n", "DPR-S226", 1, "${env:NAME}"),
        ("ledger: ${env:SERVER}:secret@host/db\n", "DPR-S226", 1, "${env:NAME}"),
        ("ledger: postgresql://${PASSWORD}@host/db\n", "DPR-S219", 1, "${env:NAME}"),
        (PROJECT + "anchors: a.json\n", "DPR-S203", 2, "[a.json]"),
        (PROJECT + "anchors: [a.json, a.json]\n", "DPR-S597", 2, "once"),
        (PROJECT + "anchors: ['${env:A}']\n", "DPR-S213", 2, "write the value here"),
        (PROJECT + 'source_key: ""\n', "DPR-S215", 2, "empty"),
        ("ledger: state/ledger.db\n", "DPR-S220", 1, "sqlite:///"),
        ("ledger: sqlite:///\n", "DPR-S220", 1, "state/ledger.db"),
        (PROJECT + "signing_key: ${KEY}\n", "DPR-S219", 2, "${env:NAME}"),
        (PROJECT + 'signing_key: ""\n', "DPR-S215", 2, "empty"),
        (PROJECT + "shared_anchors: [a.json]\n", "DPR-S229", 2, "/mnt/shared/head.json"),
        (PROJECT + "shared_anchors: [/a, /a]\n", "DPR-S597", 2, "once"),
        (PROJECT + 'host: "a b"\n', "DPR-S228", 2, "worker-1"),
        (PROJECT + "host: ${env:A}:x\n", "DPR-S228", 2, "worker-1"),
        (PROJECT + "relases: r\n", "DPR-S200", 2, "`releases`"),
        (PROJECT + "policy:\n", "DPR-S215", 2, "empty"),
        (PROJECT + "releases: ${env:OUT}\n", "DPR-S213", 2, "write the value here"),
    ],
)
def test_a_wrong_project(text: str, code: str, line: int, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_project(text, "dprelease.yaml", schemes())

    (problem,) = caught.value.problems
    assert (problem.code, problem.where.line if problem.where else 0) == (code, line)
    assert says in f"{problem.summary} {problem.hint}"


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "says"),
    [
        ("required: 0", "required: 1", "DPR-S626", 5, "`approvers`"),
        ("required: 0", "required: 0, roles: [x]", "DPR-S625", 5, "no approver"),
        ("composition: zcdp", "composition: advanced", "DPR-S202", 2, "basic"),
        ("composition: zcdp, ", "", "DPR-S201", 2, "composition: zcdp"),
        ("{epsilon: 8, delta: 1e-8}", "{epsilon: 8}", "DPR-S536", 2, "composition: basic"),
        ("{epsilon: 8, delta: 1e-8}", "{epsilon: 0, delta: 1e-8}", "DPR-S205", 2, "greater than 0"),
        ("ceilings: {epsilon: 4, delta: 1e-8}", "ceilings: {epsilon: 4}", "DPR-S201", 4, "delta"),
        ("ceilings:", "celings:", "DPR-S200", 4, "`ceilings`"),
        ("  pure:", "  acs:", "DPR-S109", 3, "2:3"),
        ("  pure:", "  pu re:", "DPR-S502", 3, "letters"),
    ],
)
def test_a_wrong_policy(old: str, new: str, code: str, line: int, says: str) -> None:
    assert POLICY.count(old) == 1
    with pytest.raises(SpecError) as caught:
        load_policy(POLICY.replace(old, new), "policy.yaml")

    (problem,) = caught.value.problems
    assert (problem.code, problem.where.line if problem.where else 0) == (code, line)
    assert says in f"{problem.summary} {problem.hint}"
