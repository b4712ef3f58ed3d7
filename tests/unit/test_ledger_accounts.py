"""How accounts add up, what windows and series allow, and what is given back."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import BrokenPromiseError, BudgetExceeded, LedgerError, PlanError, UnsupportedEvent
from dprelease.ledger import Reservation
from dprelease.ledger.model.balance import Balance
from dprelease.ledger.model.entry import AccountOpened, Voided
from dprelease.ledger.tables import view
from dprelease.plan.document import Account, ReleasePlan
from dprelease.privacy.event import Composed
from dprelease.privacy.filters import Spent, Terms, account_loss, read_total, series_loss, spent_on
from dprelease.privacy.unit import Neighboring
from tests.ledgers import SQLiteLedger, account, charges, plan


@pytest.fixture
def ledger(tmp_path: Path) -> SQLiteLedger:
    return SQLiteLedger(tmp_path / "ledger.db", [tmp_path / "anchors" / "head"])


def balance(ledger: SQLiteLedger, name: str = "people") -> Balance:
    with ledger._reading() as rows:
        assert rows is not None
        return view.whole_state(rows).accounts[name].balance


def reserve(ledger: SQLiteLedger, made: ReleasePlan, **more: Any) -> Reservation:
    return ledger.reserve(made, charges(made), **more)


def names(kept: Reservation) -> tuple[str, str, str]:
    return kept.release, kept.period, kept.plan_fingerprint


# --- Compositions ---

GAUSS = "discrete_gaussian"


@pytest.mark.parametrize(
    ("terms", "mechanism"),
    [
        (account(epsilon="9"), "discrete_laplace"),
        (account(epsilon="9", composition="zcdp"), "discrete_laplace"),
        (account(epsilon="9", composition="zcdp"), GAUSS),
        (account(epsilon="30", composition="rdp", order="2"), GAUSS),
        (account(epsilon="9", composition="rdp", order="40"), GAUSS),
        (account(epsilon="9", composition="rdp", order="40"), "discrete_laplace"),
    ],
)
def test_twelve_months_cost_what_they_cost_together(ledger: SQLiteLedger, terms: Account, mechanism: str) -> None:
    """The sum that is kept, release by release, is that of the whole, read under the account's own composition."""
    spent, how = Spent(), Terms(composition=terms.composition, order=terms.order)
    events = []
    for month in range(1, 13):
        made = plan(period=f"2024-{month:02}", mechanism=mechanism, accounts=[terms])
        (facts,) = reserve(ledger, made).accounts
        events.append(made.event)
        before, spent = spent, spent.plus(spent_on(how, made.event))
        assert facts.before == read_total(how, before, terms.lifetime.delta)
        assert facts.after == read_total(how, spent, terms.lifetime.delta)
    assert facts.after == account_loss(terms.composition, events, terms.lifetime.delta, order=terms.order)
    assert balance(ledger).spent == spent
    assert ledger.check() == ()


def test_an_rdp_account_keeps_its_order(ledger: SQLiteLedger) -> None:
    made = plan(mechanism=GAUSS, accounts=[account(epsilon="9", composition="rdp", order="8")])
    reserve(ledger, made)
    other = plan(period="2025", mechanism=GAUSS, accounts=[account(epsilon="9", composition="rdp", order="9")])
    with pytest.raises(LedgerError, match=r"DPR-L120 .* order 8, and the policy now says 9"):
        reserve(ledger, other)


def test_an_account_says_no_at_the_first_release_that_its_sum_does_not_allow(ledger: SQLiteLedger) -> None:
    terms = account(epsilon="2", composition="rdp", order="20")
    how, spent, granted = Terms(composition="rdp", order=Fraction(20)), Spent(), 0
    for number in range(2024, 2200):
        made = plan(period=str(number), cost="1/10", mechanism=GAUSS, accounts=[terms])
        after = spent.plus(spent_on(how, made.event))
        fits = read_total(how, after, terms.lifetime.delta).epsilon <= 2
        if fits:
            reserve(ledger, made)
            spent, granted = after, granted + 1
        else:
            with pytest.raises(BudgetExceeded):
                reserve(ledger, made)
            break
    assert granted > 2
    assert balance(ledger).spent == spent
    assert ledger.check() == ()


# --- Series ---

SERIES = account(epsilon="3", composition="pld")


def series(*parts: tuple[ReleasePlan, int]) -> list[tuple[Composed, int]]:
    return [(made.event_of("people"), times) for made, times in parts]


def test_a_series_is_priced_when_it_is_opened_and_takes_exactly_its_releases(ledger: SQLiteLedger) -> None:
    small = [plan(period=str(year), accounts=[SERIES]) for year in range(2024, 2028)]
    large = [plan(release="large", period=str(year), cost="1/4", accounts=[SERIES]) for year in range(2024, 2026)]
    members = series((small[0], 3), (large[0], 1))
    ledger.open_account(SERIES, "a yearly survey", members)
    total = series_loss(members, SERIES.lifetime.delta)
    (opened,) = [body for _, body in ledger.openings("people")]
    assert (opened.loss, [slot.times for slot in opened.series]) == (total, [3, 1])
    for made in (small[1], large[0], small[0], small[2]):  # in any order
        (facts,) = reserve(ledger, made).accounts
        assert (facts.before, facts.after) == (total, total)
    for made in (small[3], large[1]):
        with pytest.raises(LedgerError, match="DPR-L122"):
            reserve(ledger, made)
    alien = plan(release="alien", cost="1/100", accounts=[SERIES])
    with pytest.raises(LedgerError, match="no release with these draws is in it"):
        reserve(ledger, alien)
    ledger.void(*names(ledger.find("survey", "2025")), "no file")  # type: ignore[arg-type]  # it was reserved above
    reserve(ledger, small[3])
    assert sorted(balance(ledger).series.values()) == [1, 3]
    assert ledger.check() == ()


def test_a_series_is_opened_once_and_inside_its_cap(ledger: SQLiteLedger) -> None:
    made = plan(accounts=[SERIES])
    with pytest.raises(LedgerError, match="the series of its releases was not recorded"):
        reserve(ledger, made)
    with pytest.raises(LedgerError, match="needs a series"):
        ledger.open_account(SERIES, "none")
    with pytest.raises(LedgerError, match="takes none"):
        ledger.open_account(account(), "one", series((made, 2)))
    with pytest.raises(BudgetExceeded, match="more than account people allows: 3"):
        ledger.open_account(SERIES, "too long", series((made, 4_000)))
    assert list(ledger.entries()) == []
    ledger.open_account(SERIES, "a series", series((made, 2)))
    with pytest.raises(LedgerError, match="has its series already"):
        ledger.open_account(SERIES, "a longer one", series((made, 3)))
    reserve(ledger, made)
    assert ledger.check() == ()


def test_the_cap_of_a_series_can_change_and_the_series_cannot(ledger: SQLiteLedger) -> None:
    made = plan(accounts=[SERIES])
    members = series((made, 2))
    ledger.open_account(SERIES, "a series", members)
    raised = SERIES.model_copy(update={"lifetime": account(epsilon="4").lifetime})
    ledger.open_account(raised, "the owner agreed")
    (_, first), (_, second) = ledger.openings("people")
    assert (second.series, second.loss, second.cap.epsilon) == (first.series, first.loss, Fraction(4))
    tiny = SERIES.model_copy(update={"lifetime": account(epsilon="1/100").lifetime})
    with pytest.raises(BudgetExceeded):
        ledger.open_account(tiny, "less than what was promised already")
    reserve(ledger, plan(accounts=[raised]))
    assert ledger.check() == ()


def test_a_series_costs_what_it_costs_together_not_the_sum(ledger: SQLiteLedger) -> None:
    terms = account(epsilon="20", composition="pld")
    made = plan(mechanism=GAUSS, cost="1/2", accounts=[terms])
    ledger.open_account(terms, "twelve", series((made, 12)))
    ((_, opened),) = ledger.openings("people")
    one = series_loss(series((made, 1)), terms.lifetime.delta)
    assert opened.loss is not None
    assert one.epsilon < opened.loss.epsilon < 6 * one.epsilon


# --- Windows ---


def test_a_month_is_charged_to_its_year(ledger: SQLiteLedger) -> None:
    terms = account(epsilon="9", window=("year", "1/2"))
    kept = reserve(ledger, plan(period="2024-03", accounts=[terms]))
    assert [(facts.window, facts.after.epsilon) for facts in kept.windows] == [("2024", Fraction(1, 10))]
    reserve(ledger, plan(period="2024-Q4", accounts=[terms]))
    reserve(ledger, plan(period="2025", accounts=[terms]))
    found = {name: spent.loss for name, spent in balance(ledger).windows.items()}
    assert found == {"2024": Fraction(2, 10), "2025": Fraction(1, 10)}
    assert balance(ledger).spent.loss == Fraction(3, 10)
    assert ledger.check() == ()


def test_a_week_in_two_years_is_charged_to_both(ledger: SQLiteLedger) -> None:
    terms = account(epsilon="9", window=("year", "1/10"))
    kept = reserve(ledger, plan(period="2025-W01", accounts=[terms]))  # 30 December 2024 to 5 January 2025
    assert [facts.window for facts in kept.windows] == ["2024", "2025"]
    for period in ("2024-12", "2025-01"):
        with pytest.raises(BudgetExceeded, match=f"year {period[:4]}"):
            reserve(ledger, plan(period=period, accounts=[terms]))
    reserve(ledger, plan(period="2026", accounts=[terms]))
    assert ledger.check() == ()


def test_a_year_is_charged_to_all_of_its_months(ledger: SQLiteLedger) -> None:
    terms = account(epsilon="9", window=("month", "1/10"))
    kept = reserve(ledger, plan(period="2024", accounts=[terms]))
    assert len(kept.windows) == 12
    with pytest.raises(BudgetExceeded, match="month 2024-07"):
        reserve(ledger, plan(period="2024-07", accounts=[terms]))


def test_a_window_says_no_while_the_lifetime_has_room_and_the_other_way_round(ledger: SQLiteLedger) -> None:
    terms = account(epsilon="35/100", window=("year", "2/10"))
    for month in ("01", "02"):
        reserve(ledger, plan(period=f"2024-{month}", accounts=[terms]))
    with pytest.raises(BudgetExceeded, match=r"year 2024: asked epsilon 0\.1, already charged 0\.2, .* allowed 0\.2 "):
        reserve(ledger, plan(period="2024-03", accounts=[terms]))
    reserve(ledger, plan(period="2025-01", accounts=[terms]))
    with pytest.raises(BudgetExceeded, match=r"already charged 0\.3, .* allowed 0\.35 "):
        reserve(ledger, plan(period="2025-02", accounts=[terms]))
    assert ledger.check() == ()


def test_the_kind_of_window_is_for_ever_and_its_cap_is_not(ledger: SQLiteLedger) -> None:
    first = plan(period="2024-01", accounts=[account(epsilon="9", window=("year", "1/10"))])
    reserve(ledger, first)
    for other in (account(epsilon="9", window=("month", "1/10")), account(epsilon="9")):
        with pytest.raises(LedgerError, match=r"DPR-L120 .* with a window per year"):
            reserve(ledger, plan(period="2024-02", accounts=[other]))
    wider = account(epsilon="9", window=("year", "2/10"))
    reserve(ledger, plan(period="2024-02", accounts=[wider]))
    assert [body.why for _, body in ledger.openings("people")] == ["first used", "the policy's caps changed"]
    assert ledger.check() == ()


# --- Units and relations ---


def test_a_spec_that_protects_persons_is_charged_for_households(ledger: SQLiteLedger) -> None:
    terms = account(epsilon="2", unit="household", nests={"person": 5})
    made = plan(accounts=[terms])
    (facts,) = reserve(ledger, made).accounts
    assert made.cost_of(terms) != made.event_of("people")
    assert facts.after.epsilon == 5 * Fraction(1, 10)
    assert balance(ledger).spent.loss == Fraction(5, 10)
    cheap = charges(made)[0].model_copy(update={"events": made.event_of("people")})
    with pytest.raises(BrokenPromiseError, match="DPR-L904"):
        ledger.reserve(plan(period="2025", accounts=[terms]), [cheap])
    assert ledger.check() == ()


def test_a_spec_that_adds_and_removes_is_charged_twice_where_one_is_replaced(ledger: SQLiteLedger) -> None:
    terms = account(neighboring=Neighboring.REPLACE_ONE)
    (facts,) = reserve(ledger, plan(accounts=[terms])).accounts
    assert facts.after.epsilon == Fraction(2, 10)
    assert ledger.check() == ()


def test_units_that_cannot_be_compared_are_refused_and_nests_are_for_ever(ledger: SQLiteLedger) -> None:
    with pytest.raises(PlanError, match="DPR-P410"):
        charges(plan(accounts=[account(unit="household")]))
    first = plan(accounts=[account(epsilon="9", unit="household", nests={"person": 5})])
    reserve(ledger, first)
    wider = plan(period="2025", accounts=[account(epsilon="9", unit="household", nests={"person": 6})])
    with pytest.raises(LedgerError, match=r"DPR-L120 .* nests"):
        reserve(ledger, wider)


# --- Caps ---


def test_raising_a_cap_is_an_entry_that_says_what_it_replaces(ledger: SQLiteLedger) -> None:
    reserve(ledger, plan(cost="9/10"))
    ledger.open_account(account(epsilon="2"), "the board agreed", command="dprelease ledger open")
    reserve(ledger, plan(period="2025", cost="9/10", accounts=[account(epsilon="2")]))
    last = list(ledger.entries())
    bodies = [entry.facts() for entry in last]
    opened = [
        (entry.sequence, body) for entry, body in zip(last, bodies, strict=True) if isinstance(body, AccountOpened)
    ]
    assert [(at, body.replaces, body.cap.epsilon, body.why) for at, body in opened] == [
        (2, None, Fraction(1), "first used"),
        (4, 2, Fraction(2), "the board agreed"),
    ]
    assert opened[1][1].by.command == "dprelease ledger open"
    assert tuple(opened) == ledger.openings("people")
    assert balance(ledger).opened == 4
    assert ledger.check() == ()


def test_lowering_a_cap_below_what_is_spent_stops_everything(ledger: SQLiteLedger) -> None:
    reserve(ledger, plan(cost="9/10"))
    ledger.open_account(account(epsilon="1/2"), "less from now on")
    low = [account(epsilon="1/2")]
    with pytest.raises(BudgetExceeded, match="left 0"):
        reserve(ledger, plan(period="2025", cost="1/100", accounts=low))
    assert ledger.check() == ()


def test_what_a_mechanism_has_no_theorem_for_is_charged_to_no_account(ledger: SQLiteLedger) -> None:
    made = plan(steps={"a": "people", "b": "visits"}, mechanism=GAUSS)
    made = made.model_copy(update={"accounts": (account(composition="zcdp"), account("visits"))})
    with pytest.raises(UnsupportedEvent):
        ledger.reserve(made, charges(made))
    assert list(ledger.entries()) == []


# --- Giving back ---


@pytest.mark.parametrize(
    "terms",
    [
        account(epsilon="9"),
        account(epsilon="9", window=("quarter", "9")),
        account(epsilon="9", composition="zcdp", window=("year", "9")),
        account(epsilon="9", composition="rdp", order="8", window=("week", "9")),
        account(epsilon="9", composition="pld"),
    ],
    ids=["basic", "quarters", "zcdp", "rdp", "pld"],
)
def test_what_is_given_back_is_exactly_what_was_added(ledger: SQLiteLedger, terms: Account) -> None:
    mechanism = "discrete_laplace" if terms.composition in ("basic", "pld") else GAUSS
    visits = terms.model_copy(update={"name": "visits"})

    def made(period: str) -> ReleasePlan:
        steps = {"a": "people", "b": "visits", "c": "people"}
        return plan(period=period, steps=steps, cost="1/7", mechanism=mechanism, accounts=[terms, visits])

    if terms.composition == "pld":
        for each in (terms, visits):
            ledger.open_account(each, "a series", [(made("2024").event_of(each.name), 9)])
    reserve(ledger, made("2024-03"))
    reserve(ledger, made("2024-W10"))
    before = {name: balance(ledger, name) for name in ("people", "visits")}
    kept = reserve(ledger, made("2024-02"))
    between = reserve(ledger, made("2024-05"))
    assert balance(ledger) != before["people"]
    ledger.void(*names(kept), "no file")
    ledger.void(*names(between), "no file")
    for name, then in before.items():
        now = balance(ledger, name)
        assert (now.spent, now.releases) == (then.spent, then.releases)
        assert {each: spent for each, spent in now.windows.items() if spent != Spent()} == then.windows
        assert {digest: taken for digest, taken in now.series.items() if taken} == then.series
    assert ledger.check() == ()
    bodies = [entry.facts() for entry in ledger.entries()]
    assert [body.why for body in bodies if isinstance(body, Voided)] == ["no file", "no file"]
    reserve(ledger, made("2024-02"))
    assert ledger.check() == ()


def test_nothing_is_given_back_once_it_was_read(ledger: SQLiteLedger) -> None:
    """Whether a file could be read may depend on its rows: what fails from then on is charged."""
    kept = reserve(ledger, plan())
    assert ledger.sourced(*names(kept)) is None
    ledger.source(*names(kept), {"people": ("hash",)}, "key")
    with pytest.raises(BrokenPromiseError, match="DPR-L902"):
        ledger.void(*names(kept), "out of memory")
    assert balance(ledger).spent.loss == Fraction(1, 10)
    assert ledger.check() == ()
