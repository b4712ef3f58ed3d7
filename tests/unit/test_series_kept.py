"""What a ledger has of a series: order and terms before a charge, rows that are read again, and the full check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from fractions import Fraction
from itertools import count
from pathlib import Path

import pytest

from dprelease.catalog.table import Catalog
from dprelease.engines import DuckDBEngine
from dprelease.errors import BudgetExceeded, LedgerError, SpecError
from dprelease.ledger import Charge
from dprelease.ledger.tables import reserving
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document.account import Parallel
from dprelease.plan.explain.series_terms import periods_charged
from dprelease.privacy.budget import Budget
from dprelease.release.data.earlier_periods import digests_of_rows, require_same_rows
from dprelease.release.series import has_series, refuse_series, require_series
from tests.ledgers import SQLiteLedger, key
from tests.unit.series_example import SERIES, series_plan

KEY = bytes(range(64))
MONTHS = ("2024-01", "2024-02", "2024-03")


def month(period: str, *changes: tuple[str, str]) -> ReleasePlan:
    return series_plan(*((("period: 2024-03", f"period: {period}"),) if period != "2024-03" else ()), *changes)


def charged(ledger: SQLiteLedger, plan: ReleasePlan, rows: str = "", *, close: bool = True, key_id: str = "k") -> None:
    """A release of it, as a run makes it, whatever came before."""
    owed = [Charge(account=each, events=plan.cost_of(each), cap=each.lifetime) for each in plan.accounts]
    kept = ledger.reserve(plan, owed, None, {"numpy": "2"})
    hashes = {"visits": (f"file {kept.sequence}",)}
    ledger.source(
        kept.release, kept.period, kept.plan_fingerprint, hashes, key_id, rows={"visits": rows} if rows else {}
    )
    for step in plan.steps:
        ledger.commit(key(kept, step.id), Measurement(step.id, [1, 2]))  # type: ignore[arg-type]  # whole numbers
    if close:
        ledger.close(kept.release, kept.period, kept.plan_fingerprint, "m")


@pytest.fixture
def ledger(tmp_path: Path) -> SQLiteLedger:
    return SQLiteLedger(tmp_path / "ledger.db")


def refused(ledger: SQLiteLedger, plan: ReleasePlan, *, restates: bool = False, accepts: bool = False) -> str:
    with pytest.raises(LedgerError) as error:
        require_series(ledger, plan, restates=restates, accepts=accepts)
    assert error.value.hint
    return f"{error.value.code} {error.value.summary}"


def test_months_in_order_by_the_same_terms_may_be_charged(ledger: SQLiteLedger) -> None:
    for period in MONTHS:
        require_series(ledger, month(period), restates=False, accepts=False)
        charged(ledger, month(period))

    assert list(ledger.check()) == []
    assert has_series(month("2024-01"))


def test_a_month_before_it_must_be_published(ledger: SQLiteLedger) -> None:
    assert refused(ledger, month("2024-02")).startswith(
        "DPR-L340 visits 2024-02 is a period of a series, and 2024-01 was"
    )
    charged(ledger, month("2024-01"), close=False)
    assert "2024-01 is open, not published" in refused(ledger, month("2024-02"))


def test_a_month_by_other_terms_is_refused(ledger: SQLiteLedger) -> None:
    charged(ledger, month("2024-01"))

    assert "DPR-L341" in (said := refused(ledger, month("2024-02", (SERIES, SERIES.replace("}", ", look_back: 3}")))))
    assert "the band differs" in said
    require_series(
        ledger, month("2024-02", (SERIES, SERIES.replace("2024-01", "2024-02"))), restates=False, accepts=False
    )


def test_the_newest_month_alone_is_replaced(ledger: SQLiteLedger) -> None:
    """The account of a plan without a policy has one sum: charged again in full, it has more than any month loses."""
    assert all(account.stretch is None for account in month("2024-01").accounts)
    for period in MONTHS[:2]:
        charged(ledger, month(period))
    require_series(ledger, month("2024-02"), restates=True, accepts=False)
    assert "DPR-L331" in (said := refused(ledger, month("2024-01"), restates=True))
    assert "2024-02 was made of its draw" in said


def apart(period: str, *changes: tuple[str, str]) -> ReleasePlan:
    """The plan of a month whose account has a cap for each month by itself."""
    plan = month(period, *changes)
    by_month = Parallel(per="month", column="day", type="date")
    accounts = tuple(account.model_copy(update={"parallel": by_month}) for account in plan.accounts)
    return plan.model_copy(update={"accounts": accounts})


def restated(ledger: SQLiteLedger, plan: ReleasePlan) -> None:
    again = plan.model_copy(update={"release": plan.release.model_copy(update={"restatement": 1})})
    owed = [Charge(account=each, events=again.cost_of(each), cap=each.lifetime) for each in again.accounts]
    ledger.reserve(again, owed, None, {"numpy": "2"}, restates="late rows")


def by_month(ledger: SQLiteLedger) -> dict[str, Fraction]:
    (stand,) = ledger.tally().state.accounts.values()
    return {name: spent.loss for name, spent in stand.balance.windows.items()}


def test_an_account_by_month_is_charged_for_every_month_that_the_replacing_draw_reads(ledger: SQLiteLedger) -> None:
    """In full: each loses a part of that (docs/proofs/series.md). A band of two reads no third month."""
    two = (SERIES, "series: {from: 2024-01, sums: [2], look_back: 2}")
    for period in MONTHS:
        charged(ledger, apart(period, two))
    (price,) = set(by_month(ledger).values())

    require_series(ledger, apart(MONTHS[2], two), restates=True, accepts=False)
    restated(ledger, apart(MONTHS[2], two))

    assert by_month(ledger) == {"2024-01": price, "2024-02": 2 * price, "2024-03": 2 * price}
    assert list(ledger.check()) == []


def test_a_ledger_that_charges_a_replacing_draw_to_its_own_month_alone_is_not_sound(
    ledger: SQLiteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for period in MONTHS[:2]:
        charged(ledger, apart(period))
    monkeypatch.setattr(reserving, "periods_charged", lambda plan, again: periods_charged(plan, again=False))
    restated(ledger, apart(MONTHS[1]))

    (said,) = ledger.check()
    assert "is not charged to what the period 2024-02, and so 2024-01 touches" in str(said)


def test_a_month_before_it_that_cannot_pay_stops_the_replacing_draw(ledger: SQLiteLedger) -> None:
    def cheap(period: str) -> ReleasePlan:
        plan = apart(period)
        caps = tuple(
            each.model_copy(update={"lifetime": Budget(epsilon=Fraction(1, 2), delta=each.lifetime.delta)})
            for each in plan.accounts
        )
        return plan.model_copy(update={"accounts": caps})

    for period in MONTHS[:2]:
        charged(ledger, cheap(period))
    with pytest.raises(BudgetExceeded) as error:
        restated(ledger, cheap(MONTHS[1]))
    assert "2024-01" in str(error.value)


def test_a_month_that_is_skipped_was_never_released(ledger: SQLiteLedger) -> None:
    skips = (SERIES, SERIES.replace("}", ", skip: [2024-02]}"))
    charged(ledger, month("2024-01", skips))
    require_series(ledger, month("2024-03", skips), restates=False, accepts=False)

    charged(ledger, month("2024-02"), close=False)
    assert "DPR-L330" in (said := refused(ledger, month("2024-03", skips)))
    assert "2024-02, which is being released" in said


def test_what_is_skipped_is_skipped_for_ever(ledger: SQLiteLedger) -> None:
    skips = (SERIES, SERIES.replace("}", ", skip: [2024-02]}"))
    for period in ("2024-01", "2024-03"):
        charged(ledger, month(period, skips))
    require_series(ledger, month("2024-04", skips), restates=False, accepts=False)
    assert list(ledger.check()) == []

    for period in ("2024-02", "2024-04"):
        charged(ledger, month(period))
    (found,) = ledger.check()
    assert "2024-03 was charged by other terms: which periods are skipped differs" in found


def test_a_month_is_not_read_from_other_data(ledger: SQLiteLedger) -> None:
    assert "other data" in refused(ledger, month("2024-01"), accepts=True)
    without = month("2024-01", (SERIES, "title: t"))
    require_series(ledger, without, restates=True, accepts=True)


def test_a_command_that_cannot_do_series_says_so() -> None:
    with pytest.raises(SpecError, match="DPR-S769"):
        refuse_series(month("2024-01"), "utility")
    refuse_series(month("2024-01", (SERIES, "title: t")), "utility")


@pytest.mark.parametrize(
    ("first", "says"),
    [
        ((SERIES, SERIES.replace("}", ", look_back: 3}")), "2024-01 was charged by other terms: the band differs"),
        (("epsilon: 1/2", "epsilon: 1/4"), "2024-01 was charged by other terms: the noise differs"),
        ((SERIES, "title: t"), "the query, which has no series there differs"),
        (None, "no entry before it charges 2024-01, whose rows it reads"),
    ],
)
def test_the_full_check_finds_a_draw_of_what_nobody_has_charged(
    ledger: SQLiteLedger, first: tuple[str, str] | None, says: str
) -> None:
    """As a run that does not ask would make it."""
    if first is not None:
        charged(ledger, month("2024-01", first))
    charged(ledger, month("2024-02"))

    (found,) = ledger.check()

    assert says in found


# --- Rows of earlier months ---


@pytest.fixture(scope="module")
def hashed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[list[str]], dict[str, str]]]:
    """Hashes of lines by month, all by one engine, each from a file of its own."""
    folder, numbers, plan = tmp_path_factory.mktemp("rows"), count(), month("2024-03")
    with closing(DuckDBEngine(folder, {})) as engine:

        def digests(lines: list[str]) -> dict[str, str]:
            name = f"{next(numbers)}.csv"
            (folder / name).write_text("\n".join(["day,sex,hours", *lines]) + "\n", encoding="utf-8")
            table = plan.catalog.tables["visits"]
            elsewhere = table.model_copy(update={"source": table.source.model_copy(update={"file": name})})
            return digests_of_rows(plan, Catalog(tables={"visits": elsewhere}), engine, KEY)["visits"]

        yield digests


LINES = ["2024-01-05,f,1", "2024-01-05,f,1", "2024-02-01,m,2", "2024-02-29,f,3", "2024-03-01,m,4", "2023-12-31,f,5"]


def test_a_hash_is_of_the_rows_of_a_month_whatever_their_order(hashed: Callable[[list[str]], dict[str, str]]) -> None:
    found = hashed(LINES)

    assert list(found) == ["2024-03", "2024-02", "2024-01"]
    assert len(set(found.values())) == 3
    assert hashed([*LINES[::-1], "2024-09-01,f,1"]) == found
    # A column that the series does not look at.
    assert hashed([line[:-1] + "9" for line in LINES]) == found
    assert hashed([*LINES, LINES[0]])["2024-01"] != found["2024-01"]  # one row more of the same


@pytest.mark.parametrize(
    ("at", "changed"), [(0, "2024-01-06,f,1"), (1, "2024-02-05,f,1"), (2, "2024-02-01,f,2"), (2, "2024-02-01,,2")]
)
def test_a_row_that_changed_moves_changes_or_goes_is_seen(
    hashed: Callable[[list[str]], dict[str, str]], at: int, changed: str
) -> None:
    found, other = hashed(LINES), hashed([changed if at == line else text for line, text in enumerate(LINES)])

    assert other[LINES[at][:7]] != found[LINES[at][:7]]
    assert other["2024-03"] == found["2024-03"]


def test_another_key_makes_other_hashes_and_no_rows_have_one_too(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("day,sex,hours\n", encoding="utf-8")
    table = month("2024-03").catalog.tables["visits"]
    days = [(date(2024, 1, 1), date(2024, 2, 1)), (date(2024, 2, 1), date(2024, 3, 1))]

    with closing(DuckDBEngine(tmp_path, {})) as engine:
        one, other = (engine.digest_rows(table, ["sex"], days, secret) for secret in (KEY, bytes(32)))

    assert one[0] == one[1] != other[0]
    assert len(one[0]) == 64


def test_rows_that_changed_are_refused_and_nobody_guesses_under_another_key(
    ledger: SQLiteLedger, hashed: Callable[[list[str]], dict[str, str]]
) -> None:
    found = {"visits": hashed(LINES)}
    for period in MONTHS[:2]:
        charged(ledger, month(period), found["visits"][period])
    plan = month("2024-03")

    require_same_rows(ledger, plan, found, "k")
    require_same_rows(ledger, plan, {"visits": {**found["visits"], "2024-03": "new"}}, "k")
    with pytest.raises(LedgerError, match="rows of 2024-02 in table 'visits' have changed") as changed:
        require_same_rows(ledger, plan, {"visits": {**found["visits"], "2024-02": "0" * 64}}, "k")
    assert changed.value.code == "DPR-L342"
    with pytest.raises(LedgerError, match="rows of 2023-12 in table 'visits' have changed"):  # nobody has recorded them
        require_same_rows(ledger, plan, {"visits": {**found["visits"], "2023-12": "0" * 64}}, "k")
    with pytest.raises(LedgerError, match="key of source fingerprints") as other:
        require_same_rows(ledger, plan, found, "another")
    assert other.value.code == "DPR-L343"


def test_the_hashes_stand_in_the_entry_and_in_no_entry_without_a_series(ledger: SQLiteLedger) -> None:
    charged(ledger, month("2024-01"), "a" * 64)
    without = month("2024-02", (SERIES, "title: t"))
    charged(ledger, without)

    bodies = [each for each in ledger.files_read() if each.release == "visits"]

    assert [each.rows for each in bodies] == [{"visits": "a" * 64}, {}]
    assert ['"rows"' in each.canonical() for each in bodies] == [True, False]
