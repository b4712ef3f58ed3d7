"""What `ledger status` says of an account is what a reservation would find, and adds up."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import BudgetExceeded, Corrupt
from dprelease.plan.document import Account, ReleasePlan, Window
from dprelease.privacy.accountants import ACCOUNTANTS, losses
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import Composed
from dprelease.release.planning import charges as charges_of
from dprelease.release.planning import open_target, plan_release
from dprelease.release.records.status import accounts_of, log_lines, policy_accounts, status_facts
from tests.ledgers import SQLiteLedger, account, answer, charges, key, plan
from tests.project import SPEC, small_project

PEOPLE = account("people")


def facts(ledger: SQLiteLedger, *accounts: Account) -> dict[str, Any]:
    (found,) = accounts_of(ledger.tally(), {each.name: each for each in accounts})
    return found


def finish(ledger: SQLiteLedger, made: ReleasePlan, *accounts: Account) -> None:
    kept = ledger.reserve(made, charges(made, accounts or None))
    ledger.source(kept.release, kept.period, kept.plan_fingerprint, {"people": ("a",)}, "k")
    ledger.commit(key(kept), answer())
    ledger.close(kept.release, kept.period, kept.plan_fingerprint, "m")


def test_an_account_that_was_never_used_has_everything_left(tmp_path: Path) -> None:
    found = facts(SQLiteLedger(tmp_path / "l.db"), PEOPLE)
    assert (found["releases"], found["spent"], found["left"], found["fits"]) == (0, "0", "1", None)
    assert found["hypothetical"] == {}
    assert not (tmp_path / "l.db").exists()


def test_spent_reserved_and_left_add_up_and_the_open_release_is_named(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    finish(ledger, plan(release="done", cost="1/4"))
    ledger.reserve(opened := plan(release="open", cost="1/8"), charges(opened))
    told = status_facts(ledger, {"people": PEOPLE})
    (found,) = told["accounts"]
    assert (found["spent"], found["reserved"], found["left"]) == ("0.375", "0.125", "0.625")
    assert [(each["release"], each["state"]) for each in told["open"]] == [("open", "open")]
    assert told["locks"] == []
    assert found["plain_sum"] == {"epsilon": "2", "delta": "0"}  # what these two plans claim


@pytest.mark.parametrize("cost", ["1/10", "1/7", "3/10", "1"])
def test_as_many_more_fit_as_are_then_granted(tmp_path: Path, cost: str) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    ledger.reserve(first := plan(release="r", cost=cost), charges(first))
    fits = facts(ledger, PEOPLE)["fits"]
    for k in range(fits):
        ledger.reserve(more := plan(release=f"r{k}", cost=cost), charges(more))
    assert facts(ledger, PEOPLE)["fits"] == 0
    with pytest.raises(BudgetExceeded):
        ledger.reserve(last := plan(release="one-more", cost=cost), charges(last))


def test_as_many_more_fit_as_are_then_granted_where_losses_do_not_add_up(tmp_path: Path) -> None:
    people = account("people", epsilon="2", composition="zcdp")
    ledger = SQLiteLedger(tmp_path / "l.db")
    made = [plan(release=f"r{k}", cost="1/9", mechanism="discrete_gaussian") for k in range(40)]
    ledger.reserve(made[0], charges(made[0], [people]))
    fits = facts(ledger, people)["fits"]
    assert 3 < fits < 30
    for each in made[1 : fits + 1]:
        ledger.reserve(each, charges(each, [people]))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(made[fits + 1], charges(made[fits + 1], [people]))


def test_windows_have_their_own_amounts_and_limit_how_many_fit(tmp_path: Path) -> None:
    window = Window(
        per="year", cap=Budget(epsilon=Fraction(1, 2), delta=Fraction(1, 10**9)), column="seen", type="date"
    )
    people = PEOPLE.model_copy(update={"window": window})
    ledger = SQLiteLedger(tmp_path / "l.db")
    for release, period in (("a", "2024-01"), ("b", "2024-07"), ("c", "2025-01")):
        made = plan(release=release, period=period, cost="1/8", accounts=[people])
        ledger.reserve(made, charges(made, [people]))
    found = facts(ledger, people)
    assert [(each["window"], each["spent"], each["left"]) for each in found["windows"]] == [
        ("2024", "0.25", "0.25"),
        ("2025", "0.125", "0.375"),
    ]
    assert found["fits"] == 3  # the year of the last one has room for three, the lifetime for five


def test_a_raised_cap_is_shown_for_ever_and_a_lowered_one_is_not(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    for epsilon, why in (("2", "begin"), ("1", "be careful"), ("3", "the minister asked")):
        ledger.open_account(account("people", epsilon=epsilon), why)
    found = facts(ledger, account("people", epsilon="3"))
    assert [
        (each["entry"], each["why"], each["from"]["epsilon"], each["to"]["epsilon"]) for each in found["raised"]
    ] == [(4, "the minister asked", "1", "3")]


def test_spend_that_a_recovery_added_is_shown_without_draws(tmp_path: Path) -> None:
    path, anchor = tmp_path / "s" / "l.db", tmp_path / "a" / "head.json"
    ledger = SQLiteLedger(path, [anchor])
    finish(ledger, plan(release="kept", cost="1/8"))
    ledger.disconnect()
    backup = path.read_bytes()
    finish(ledger, plan(release="lost", cost="1/4"))
    ledger.disconnect()
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    path.write_bytes(backup)
    ledger = SQLiteLedger(path, [anchor])
    ledger.recover("restored")
    found = facts(ledger, PEOPLE)
    assert found["spent"] == "0.375"
    assert [(each["epsilon"], each["why"]) for each in found["recovered"]] == [("0.25", "restored")]
    assert found["hypothetical"]["basic"] == "0.125"  # only what is known


def test_releases_that_do_not_add_up_to_the_balance_are_an_error(tmp_path: Path, monkeypatch: Any) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    finish(ledger, plan(cost="1/8"))
    monkeypatch.setattr("dprelease.ledger.tables.tally._GRAIN", Fraction(-1))
    with pytest.raises(Corrupt, match="balance of account people"):
        ledger.tally()


@pytest.mark.slow
def test_twelve_monthly_releases_cost_what_they_cost_together(tmp_path: Path) -> None:
    made, policy, ledger = twelve(tmp_path)
    found = status_facts(ledger, policy)["accounts"][0]
    assert found["releases"] == 12
    assert found["plain_sum"] == {"epsilon": "12", "delta": "1.2e-8"}
    everything = Composed(events=tuple(each.event for each in made))
    told = losses(everything, Fraction(1, 10**9))
    assert found["hypothetical"].keys() == set(ACCOUNTANTS)
    for name, epsilon in told.items():
        assert float(epsilon) <= float(found["hypothetical"][name]) <= float(epsilon) * (1 + 1e-5)
    assert float(found["spent"]) == pytest.approx(float(told["zcdp"]), rel=1e-5)
    assert float(told["pld"]) < float(found["spent"]) < 12


def twelve(folder: Path) -> tuple[list[ReleasePlan], Mapping[str, Account], SQLiteLedger]:
    """Twelve monthly releases of epsilon 1 at delta 1e-9, from a small project, reserved.

    Planned once: the plan of another month differs in its name and its spec alone, as the last month's is held against.
    """
    made: list[ReleasePlan] = []
    ledger = SQLiteLedger(folder / "state" / "ledger.db")
    spec = small_project(folder, rows=5)
    policy = (folder / "policy.yaml").read_text().replace("epsilon: 4, delta: 1e-8", "epsilon: 12, delta: 1e-9")
    (folder / "policy.yaml").write_text(policy)
    for month in range(1, 13):
        spec.write_text(SPEC.replace("period: 2024", f'period: "2024-{month:02}"'))
        target = open_target(spec)
        if month in (1, 12):
            whole = plan_release(target)
        named = {"release": whole.release.model_copy(update={"period": target.loaded.spec.release.period})}
        made.append(whole.model_copy(update={**named, "spec_fingerprint": target.loaded.fingerprint}))
        ledger.reserve(made[-1], charges_of(made[-1], target.loaded))
    first = {"release": whole.release, "spec_fingerprint": whole.spec_fingerprint}
    assert made[0].model_copy(update=first) == whole
    return made, policy_accounts(target.project), ledger


def test_the_log_is_filtered(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    finish(ledger, plan(release="a", steps={"one": "people"}, cost="1/8"))
    other = plan(release="b", steps={"one": "firms"}, cost="1/8")
    ledger.reserve(other, charges(other))
    kinds = [each["kind"] for each in log_lines(ledger)]
    assert kinds == ["anchor", "open", "reserve", "source", "measure", "close", "open", "reserve"]
    assert [each["kind"] for each in log_lines(ledger, account="firms")] == ["open", "reserve"]
    assert [each["kind"] for each in log_lines(ledger, release="a/2024")] == ["reserve", "source", "measure", "close"]
    assert log_lines(ledger, release="a/2025") == []
    assert [each["sequence"] for each in log_lines(ledger, kind="open")] == [2, 7]
    assert [each["sequence"] for each in log_lines(ledger, since=7)] == [7, 8]
    assert [each["sequence"] for each in log_lines(ledger, last=1)] == [8]
    assert log_lines(ledger, kind="reserve")[0]["body"]["release"] == "a"
