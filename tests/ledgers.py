"""Small plans, charges and answers for the tests of ledgers; no spec, no file, no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.table import Catalog, Column, Source, Table
from dprelease.ledger import Charge, Reservation, StepKey
from dprelease.noise import Measurement
from dprelease.plan.document import Account, Composition, Publish, ReleaseInfo, ReleasePlan, Step
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring, PrivacyUnit

__all__ = ["CELLS", "account", "answer", "charges", "key", "plan"]

CELLS = 3


def account(
    name: str = "people",
    epsilon: str | None = "1",
    rho: str | None = None,
    delta: str = "1/1000000000",
    composition: Composition = "basic",
    unit: str = "person",
    neighboring: Neighboring = Neighboring.ADD_REMOVE,
) -> Account:
    """An account as a policy has it; by default epsilons add up to at most 1."""
    cap = Budget(
        epsilon=Fraction(epsilon) if rho is None and epsilon else None,
        rho=Fraction(rho) if rho else None,
        delta=Fraction(delta),
    )
    return Account(name=name, unit=unit, neighboring=neighboring, composition=composition, lifetime=cap)


def _table(name: str) -> Table:
    column = Column(name="k", type="text", keys=("a", "b", "c"))
    return Table(name=name, account=name, source=Source(file="x.csv", format="csv"), columns=(column,))


def plan(
    release: str = "survey",
    period: str = "2024",
    steps: Mapping[str, str] | None = None,
    cost: str = "1/10",
    spec: str = "spec",
    mechanism: str = "discrete_laplace",
    neighboring: Neighboring = Neighboring.ADD_REMOVE,
) -> ReleasePlan:
    """A plan of counts; ``steps`` maps a step to the account that it debits.

    Every step has sensitivity 1 and scale ``1 / cost``: with Laplace noise it costs epsilon ``cost``, with
    Gaussian noise rho ``cost^2 / 2``.
    """
    wanted = dict(steps or {"one": "people"})
    names = sorted(set(wanted.values()))
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
        unit=PrivacyUnit(entity="person"),
        neighboring=neighboring,
        budget=Budget(epsilon=Fraction(1)),
        accounting="basic",
        accounts=tuple(account(name, composition="zcdp" if "gauss" in mechanism else "basic") for name in names),
        catalog=Catalog(tables={name: _table(name) for name in names}),
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
    return tuple(
        Charge(account=each, events=of.event_of(each.name), cap=at_most or each.lifetime)
        for each in accounts or of.accounts
    )


def key(reservation: Reservation, step: str = "one") -> StepKey:
    """The key of one step of a reservation."""
    return StepKey(reservation.release, reservation.period, reservation.plan_fingerprint, step)


def answer(step: str = "one", value: int = 7) -> Measurement:
    """A measurement whose every cell is ``value``."""
    return Measurement(step, np.full(CELLS, value, dtype=np.int64))
