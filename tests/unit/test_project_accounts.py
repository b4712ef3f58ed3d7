"""What a policy says of accounts, held against a spec: units, relations, windows, ceilings; and where a ledger is."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import DpReleaseError, LedgerError, SpecError
from dprelease.ledger import schemes
from dprelease.plan.document import Account, ReleasePlan, Window
from dprelease.privacy.budget import Budget
from dprelease.release.planning import Target, charges, plan_release
from dprelease.release.project import Project
from dprelease.spec.project import load_policy, load_project

POLICY = """\
accounts:
  web: {unit: household, composition: zcdp, nests: {person: 5, person-month: 60},
    window: {per: month, epsilon: 9, delta: 1e-7}, time: {column: seen, type: date},
    lifetime: {epsilon: 20, delta: 1e-6}}
ceilings: {epsilon: 4, delta: 1e-8, units: [person, household]}
"""
SPEC = """\
dprelease: 1
release: {name: monitor, period: 2024-W09}
privacy:
  unit: {entity: person}
  neighboring: add_remove
  budget: {epsilon: 1/10, delta: 1e-9}
tables:
  visits:
    account: web
    source: {file: data/visits.csv}
    time: {column: seen, type: date}
    columns:
      sex: {type: integer, keys: [1, 2]}
queries:
  visits: {table: visits, by: [sex], measures: {n: {count: rows}}}
"""
PROJECT = "ledger: sqlite:///state/ledger.db\n"


def project(policy: str = POLICY, settings: str = PROJECT) -> Project:
    return Project(
        Path("/somewhere"), load_project(settings, "dprelease.yaml", schemes()), load_policy(policy, "policy.yaml")
    )


def plan(spec: str = SPEC, policy: str = POLICY) -> ReleasePlan:
    from dprelease.spec.load import load

    return plan_release(Target(project(policy), Path("spec.yaml"), load(spec, "spec.yaml")))


def changed(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_an_account_is_what_the_policy_says() -> None:
    (account,) = plan().accounts

    assert account == Account(
        name="web",
        unit="household",
        neighboring="add_remove",
        composition="zcdp",
        lifetime=Budget(epsilon=Fraction(20), delta=Fraction(1, 10**6)),
        window=Window(
            per="month", cap=Budget(epsilon=Fraction(9), delta=Fraction(1, 10**7)), column="seen", type="date"
        ),
        nests={"person": 5, "person-month": 60},
    )


def test_a_nested_unit_passes_and_costs_the_account_more() -> None:
    made = plan()
    (account,) = made.accounts

    assert made.cost_of(account) != made.event_of("web")
    assert made.catalog.tables["visits"].time is not None
    assert made.catalog.tables["visits"].time.start == date(2024, 2, 26)
    again = ReleasePlan.from_canonical(made.canonical())
    assert again.fingerprint() == made.fingerprint()


def test_the_lifetime_cap_is_what_a_spec_may_lower() -> None:
    from dprelease.spec.load import load

    text = changed(SPEC, ("  budget:", "  at_most: {epsilon: 3, delta: 1e-8}\n  budget:"))
    loaded = load(text, "spec.yaml")
    (charge,) = charges(plan_release(Target(project(), Path("spec.yaml"), loaded)), loaded)

    assert charge.cap == Budget(epsilon=Fraction(3), delta=Fraction(1, 10**8))
    assert charge.account.window is not None
    assert charge.account.window.cap.epsilon == 9


REPLACE = ("neighboring: add_remove", "neighboring: replace_one")
WRONG: list[tuple[list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, int, str]]]] = [
    ([("{entity: person}", "{entity: child}")], [], [("DPR-S411", 4, "unit: {entity: household}")]),
    ([REPLACE], [], [("DPR-S412", 5, "neighboring: add_remove")]),
    ([("{entity: person}", "{entity: child}"), REPLACE], [], [("DPR-S411", 4, "household"), ("DPR-S412", 5, "add_remove")]),
    ([REPLACE], [("household, composition", "household, neighboring: replace_one, composition")], [("DPR-S412", 5, "replaced")]),
    ([("    time: {column: seen, type: date}\n", "")], [], [("DPR-S414", 8, "time: {column: seen, type: date}")]),
    (
        [("    time: {column: seen, type: date}\n", ""), ("2024-W09", "once")],
        [],
        [("DPR-S414", 8, "per month"), ("DPR-S415", 2, "2024-W09")],
    ),
    ([("{entity: person}", "{entity: person, per: month}")], [], [("DPR-S416", 4, "person, household")]),
    ([("account: web", "account: wep")], [], [("DPR-S410", 9, "web")]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "policy", "expected"), WRONG)
def test_what_an_account_does_not_take_is_told_at_its_place(
    spec: list[tuple[str, str]], policy: list[tuple[str, str]], expected: list[tuple[str, int, str]]
) -> None:
    with pytest.raises(SpecError) as caught:
        plan(changed(SPEC, *spec), changed(POLICY, *policy))

    found = [(each.code, each.where.line if each.where else 0) for each in caught.value.problems]
    assert found == [(code, line) for code, line, _ in expected], caught.value.problems
    for problem, (_, _, says) in zip(caught.value.problems, expected, strict=True):
        assert says in f"{problem.summary} {problem.hint}"


def test_the_same_unit_and_the_other_relation_pass_where_there_is_a_proof() -> None:
    policy = changed(
        POLICY, ("household, composition", "person, neighboring: replace_one, composition"), ("person: 5, ", "")
    )

    assert plan(SPEC, policy).accounts[0].neighboring == "replace_one"


@pytest.mark.parametrize("composition", ["basic", "rdp, order: 20", "pld"])
def test_accounts_of_every_composition_plan(composition: str) -> None:
    window = "\n    window: {per: month, epsilon: 9, delta: 1e-7}, time: {column: seen, type: date},"
    policy = changed(POLICY, ("zcdp", composition), *([(window, "\n   ")] if composition == "pld" else []))
    (account,) = plan(SPEC, policy).accounts

    assert account.composition == composition.split(",", maxsplit=1)[0]
    assert account.order == (20 if account.composition == "rdp" else None)


def test_files_of_a_project_start_at_its_folder() -> None:
    made = project(settings=PROJECT + "anchors: [a/head.json, /mnt/b.json]\nsource_key: k\n")

    assert made.settings.anchors == ("a/head.json", "/mnt/b.json")
    assert made.source_key == Path("/somewhere/k")
    assert project().settings.anchors == ("state-anchor/head.json",)
    assert project().source_key == Path("/somewhere/state-key/source.key")
    assert project(settings=PROJECT + "anchors: []\n").settings.anchors == ()


@pytest.mark.parametrize(
    ("written", "variables", "url"),
    [
        ("sqlite:///state/ledger.db", {}, "sqlite:///state/ledger.db"),
        ("sqlite:///${env:A}/x.db", {"A": "/m@nt"}, "sqlite:////m@nt/x.db"),
        ("${env:A}", {"A": "postgresql://u:p%40@h/d"}, "postgresql://u:p%40@h/d"),
        ("postgresql://u:${env:A}@h:1/d", {"A": "p@ss/w:rd%"}, "postgresql://u:p%40ss%2Fw%3Ard%25@h:1/d"),
        ("postgresql://${env:B}:${env:A}@${env:C}/d", {"A": "a b", "B": "ü", "C": "h:5432"}, "postgresql://%C3%BC:a%20b@h:5432/d"),
    ],
)  # fmt: skip
def test_the_place_of_a_ledger_with_its_variables(written: str, variables: dict[str, str], url: str) -> None:
    made = project(settings=f'ledger: "{written}"\n')

    assert made.ledger_url(variables) == url
    assert made.settings.ledger == written


@pytest.mark.parametrize(
    ("written", "variables"),
    [
        ("postgresql://u:${env:A}@h/d", {}),
        ("${env:A}", {"A": "mysql://u:hunter2@h/d"}),
        ("${env:A}", {"A": "hunter2"}),
        ("${env:A}", {"A": ""}),
        ("${env:A}", {"A": "sqlite:///"}),
        ("sqlite:///${env:A}", {"A": "hunter2\0"}),
    ],
)
def test_no_message_has_what_a_variable_holds(written: str, variables: dict[str, str]) -> None:
    made = project(settings=f'ledger: "{written}"\n')
    with pytest.raises(LedgerError) as caught:
        made.ledger_url(variables)

    error: DpReleaseError = caught.value
    assert error.code == "DPR-L145"
    assert written in str(error)
    assert "hunter2" not in f"{error} {error.detail} {error.hint}"


def test_a_host_without_a_name_and_a_missing_shared_anchor_are_told_before_the_ledger_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dprelease.yaml").write_text("ledger: sqlite:///ledger.db\nhost: ${env:POD_NAME}\n")
    accounts = "accounts:\n  a: {unit: person, neighboring: add_remove, composition: basic, lifetime: {epsilon: 1}}\n"
    (tmp_path / "policy.yaml").write_text(accounts)
    monkeypatch.delenv("POD_NAME", raising=False)
    with pytest.raises(LedgerError, match="DPR-L327"):
        Project.open(tmp_path).open_ledger()
    monkeypatch.setenv("POD_NAME", "worker-1")
    assert not Project.open(tmp_path).open_ledger().exists
    (tmp_path / "policy.yaml").write_text(accounts + "shared_anchor: required\n")
    with pytest.raises(LedgerError, match="DPR-L326"):
        Project.open(tmp_path).open_ledger()
    settings = tmp_path / "dprelease.yaml"
    settings.write_text(settings.read_text() + f"shared_anchors: [{tmp_path}/shared.json]\n")
    assert not Project.open(tmp_path).open_ledger().exists
