"""Small plans, charges and answers for the tests of ledgers; no spec, no file, no data."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import numpy as np

from dprelease.canonical import Value
from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.table import Catalog, Column, Source, Table, TimeFilter
from dprelease.ledger import Charge, Ledger, Reservation, StepKey
from dprelease.ledger.model.balance import Balance
from dprelease.ledger.model.process import utc_now
from dprelease.ledger.stores.sqlite import SQLiteStore
from dprelease.ledger.tables import view
from dprelease.noise import Measurement
from dprelease.plan.document import Account, Composition, Head, Publish, ReleaseInfo, ReleasePlan, Step
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Event, Sensitivity
from dprelease.privacy.unit import Neighboring, PrivacyUnit
from dprelease.spec.period import span

__all__ = [
    "CELLS",
    "SQLiteLedger",
    "Standing",
    "World",
    "account",
    "answer",
    "charges",
    "fill",
    "key",
    "plan",
    "standing_of",
]

CELLS = 3


def account(
    name: str = "people",
    epsilon: str | None = "1",
    rho: str | None = None,
    delta: str = "1/1000000000",
    composition: Composition = "basic",
    unit: str = "person",
    neighboring: Neighboring = Neighboring.ADD_REMOVE,
    order: str | None = None,
    window: tuple[str, str] | None = None,
    nests: Mapping[str, int] | None = None,
    parallel: str | None = None,
) -> Account:
    """An account as a policy has it; by default epsilons add up to at most 1.

    ``window`` is how long it is, and the epsilon of its cap, at the same delta. ``parallel`` is how long a stretch is;
    rows of both have their time in ``seen``.
    """
    cap = Budget(
        epsilon=Fraction(epsilon) if rho is None and epsilon else None,
        rho=Fraction(rho) if rho else None,
        delta=Fraction(delta),
    )
    return Account.model_validate(
        {
            "name": name,
            "unit": unit,
            "neighboring": neighboring,
            "composition": composition,
            "lifetime": cap,
            "order": Fraction(order) if order else None,
            "window": window
            and {
                "per": window[0],
                "cap": Budget(epsilon=Fraction(window[1]), delta=Fraction(delta)),
                "column": "seen",
                "type": "date",
            },
            "nests": dict(nests or {}),
            "parallel": parallel and {"per": parallel, "column": "seen", "type": "date"},
        }
    )


def _table(name: str, time: TimeFilter | None = None) -> Table:
    column = Column(name="k", type="text", keys=("a", "b", "c"))
    return Table(name=name, account=name, source=Source(file="x.csv", format="csv"), columns=(column,), time=time)


def _time(terms: Account | None, period: str) -> TimeFilter | None:
    """Of a table of an account with stretches of time: the rows of the period."""
    days = span(period)
    if terms is None or terms.stretch is None or days is None:
        return None
    column, kind = (terms.parallel.column, terms.parallel.type) if terms.parallel else ("seen", "date")
    return TimeFilter(column=column, type=kind, start=days[0], end=days[1])


def plan(
    release: str = "survey",
    period: str = "2024",
    steps: Mapping[str, str] | None = None,
    cost: str = "1/10",
    spec: str = "spec",
    mechanism: str = "discrete_laplace",
    neighboring: Neighboring = Neighboring.ADD_REMOVE,
    accounts: Sequence[Account] = (),
    unit: str = "person",
) -> ReleasePlan:
    """A plan of counts; ``steps`` maps a step to the account that it debits; ``accounts``: as the policy has them.

    Every step has sensitivity 1 and scale ``1 / cost``: with Laplace noise it costs epsilon ``cost``, with
    Gaussian noise rho ``cost^2 / 2``.
    """
    wanted = dict(steps or {"one": "people"})
    names = sorted(set(wanted.values()))
    known = {each.name: each for each in accounts}
    made = tuple(
        Step(
            id=step,
            answers=(),
            aggregate=BoundedAggregate(table=name, by=("k",), quantity=Quantity(kind="rows")),
            mechanism=mechanism,
            sensitivity=Sensitivity.of_one_cell(1),
            scale=1 / Fraction(cost),
            share=Fraction(1, len(wanted)),
            cells=CELLS,
        )
        for step, name in wanted.items()
    )
    return ReleasePlan(
        release=ReleaseInfo(name=release, period=period),
        spec_fingerprint=spec,
        unit=PrivacyUnit(entity=unit),
        neighboring=neighboring,
        budget=Budget(epsilon=Fraction(1)),
        accounting="basic",
        accounts=tuple(accounts)
        or tuple(account(name, composition="zcdp" if "gauss" in mechanism else "basic") for name in names),
        catalog=Catalog(tables={name: _table(name, _time(known.get(name), period)) for name in names}),
        queries=(),
        steps=made,
        loss={"basic": Loss(epsilon=Fraction(1), delta=Fraction(0))},
        certified="basic",
        outputs=(),
        publish=Publish(),
    )


def charges(
    of: ReleasePlan, accounts: Sequence[Account] | None = None, at_most: Budget | None = None
) -> tuple[Charge, ...]:
    """What the plan asks of its accounts; the plan's own unless given."""
    planned = {each.name: each for each in of.accounts}
    return tuple(
        Charge(account=each, events=of.cost_of(planned.get(each.name, each)), cap=at_most or each.lifetime)
        for each in accounts or of.accounts
    )


def fill(ledger: Ledger, made: ReleasePlan | None = None, value: int = 7) -> Reservation:
    """A release from its reservation to its end; two steps on the account ``people`` unless a plan is given."""
    wanted = made or plan(steps={"a": "people", "b": "people"})
    kept = ledger.reserve(wanted, charges(wanted))
    names = (kept.release, kept.period, kept.plan_fingerprint)
    ledger.sourced(*names)
    ledger.source(*names, {step.aggregate.table: (f"file of {step.aggregate.table}",) for step in wanted.steps}, "key")
    for step in wanted.steps:
        ledger.commit(key(kept, step.id), answer(step.id, value))
    ledger.close(*names, "manifest")
    return kept


def key(reservation: Reservation, step: str = "one") -> StepKey:
    """The key of one step of a reservation."""
    return StepKey(reservation.release, reservation.period, reservation.plan_fingerprint, step)


def answer(step: str = "one", value: int = 7) -> Measurement:
    """A measurement whose every cell is ``value``."""
    return Measurement(step, np.full(CELLS, value, dtype=np.int64))


class SQLiteLedger(Ledger):
    """A `Ledger` in a SQLite file; ``anchors`` are files, elsewhere, that its head is written to."""

    def __init__(self, path: Path, anchors: Sequence[Path] = (), clock: Callable[[], datetime] = utc_now) -> None:
        super().__init__(SQLiteStore(path, clock), anchors, clock)
        self.path = path


class AccountStanding(Value):
    """The last entry that changed an account, and the draws that stand charged to it."""

    head: Head = Head()
    charged: tuple[Event, ...] = ()


class Standing(Value):
    """What stands charged, by account."""

    accounts: dict[str, AccountStanding] = {}

    def of(self, account: str) -> AccountStanding:
        """What stands charged to an account; nothing where the ledger does not know it."""
        return self.accounts.get(account, AccountStanding())


def standing_of(ledger: Ledger, accounts: Sequence[str]) -> Standing:
    """What stands charged to these accounts, worked out from all entries; unknown ones are left out."""
    with ledger._reading() as rows:
        stands = view.whole_state(rows).accounts if rows else {}
    known = {name: stands[name] for name in accounts if name in stands}
    charged = {name: tuple(paid.events for paid in stand.charged.values()) for name, stand in known.items()}
    return Standing(
        accounts={name: AccountStanding(head=stand.head, charged=charged[name]) for name, stand in known.items()}
    )


class World:
    """A ledger, its anchor, and backups of both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "state" / "ledger.db"
        self.head = folder / "anchors" / "head"
        self._open: list[SQLiteLedger] = []

    def ledger(self, *heads: Path, path: Path | None = None, bare: bool = False) -> SQLiteLedger:
        """A new process; with no other list, the one anchor."""
        made = SQLiteLedger(path or self.path, [] if bare else heads or [self.head])
        self._open.append(made)
        return made

    def stop(self) -> None:
        for each in self._open:
            each.disconnect()
        self._open.clear()

    def backup(self, name: str = "backup") -> None:
        """As `sqlite3 .backup` does it."""
        self.stop()
        with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(self.folder / name)) as target:
            source.backup(target)
        if self.head.exists():
            shutil.copy(self.head, self.folder / f"{name}.head")

    def forget(self, name: str = "backup") -> None:
        """Put the anchor back as it was at a backup, too: what came after that is known to nobody."""
        self.stop()
        self.head.rename(self.folder / "newer.head")
        shutil.copy(self.folder / f"{name}.head", self.head)

    def remember(self) -> None:
        """The anchor that knows more comes back."""
        self.stop()
        (self.folder / "newer.head").replace(self.head)

    def restore(self, name: str = "backup") -> None:
        self.delete()
        shutil.copy(self.folder / name, self.path)

    def delete(self) -> None:
        self.stop()
        for each in self.path.parent.glob("ledger.db*"):
            each.unlink()

    def balances(self) -> dict[str, Balance]:
        ledger = self.ledger()
        with ledger._reading() as rows:
            assert rows is not None
            return {name: stand.balance for name, stand in view.whole_state(rows).accounts.items()}

    def spent(self, name: str = "people") -> Fraction:
        return self.balances()[name].spent.loss
