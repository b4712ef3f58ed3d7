"""A plan in which numbers are made of several draws, and which says what each query was to get; for publishing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.table import Catalog, Column, Range, Source, Table
from dprelease.measures import Measure
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.measures.sum import Sum
from dprelease.measures.variance import Stddev, Variance
from dprelease.noise import Measurement
from dprelease.plan.document import (
    Answer,
    Considered,
    Feed,
    Goal,
    Naive,
    Output,
    PlannedQuery,
    ReleasePlan,
    Step,
)
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Sensitivity
from tests.unit.publish_example import plan

CELLS = 4
CLIP = (Fraction(0), Fraction(60_000))
AREAS = tuple("1234")

PERSONS = Table(
    name="persons",
    account="acs",
    source=Source(file="data/persons.csv", format="csv"),
    columns=(
        Column(name="region", type="text", keys=AREAS),
        Column(name="income", type="decimal", range=Range(low=Fraction(0), high=Fraction(200_000)), measured_in="EUR"),
    ),
)
MEASURES: dict[str, Measure] = {
    "persons": Count(count="rows"),
    "earners": Count(count="income"),
    "total": Sum(sum="income", clip=CLIP),
    "average": Mean(mean="income", clip=CLIP),
    "spread": Variance(variance="income", clip=CLIP),
    "deviation": Stddev(stddev="income", clip=CLIP),
}
INPUTS = {
    "persons": (Feed(step="income.counts", part=0),),
    "earners": (Feed(step="income.balance"), Feed(step="income.counts", part=0)),
    "total": (Feed(step="income.sum"), Feed(step="income.counts", part=1)),
    "average": (Feed(step="income.sum"), Feed(step="income.counts", part=1)),
    "spread": (Feed(step="income.square"), Feed(step="income.sum"), Feed(step="income.counts", part=1)),
    "deviation": (Feed(step="income.square"), Feed(step="income.sum"), Feed(step="income.counts", part=1)),
}
TRUTH = {"rows": [900, 1200, 700, 40], "nonnull": [800, 1000, 650, 30]}


def _step(name: str, quantities: Sequence[Quantity], scale: int, **more: object) -> Step:
    served = [label for label, feeds in INPUTS.items() if any(feed.step == f"income.{name}" for feed in feeds)]
    made = Step(
        id=f"income.{name}",
        answers=tuple(Answer(query="income", measure=label) for label in served),
        aggregate=BoundedAggregate(table="persons", by=("region",), quantity=quantities[0]),
        joined=tuple(quantities[1:]),
        mechanism="discrete_gaussian",
        sensitivity=Sensitivity.of_one_cell(max(map(abs, quantities[0].contribution))),
        scale=Fraction(scale),
        share=Fraction(1, 5),
        cells=CELLS,
    )
    return made.model_copy(update=more)


def _query(
    name: str, measures: Mapping[str, Measure], inputs: Mapping[str, tuple[Feed, ...]], goal: Goal
) -> PlannedQuery:
    return PlannedQuery(
        name=name,
        title=f"{name.capitalize()} by region",
        table="persons",
        by=("region",),
        measures=dict(measures),
        inputs=dict(inputs),
        goal=goal,
    )


def forms(**changes: object) -> ReleasePlan:
    """Three queries: every form of every measure, with a share and a target; a pinned one; one for its target."""
    square, centred, counted = MEASURES["spread"].quantities(PERSONS)
    balance = Quantity(kind="balance", column="income")
    rows = Quantity(kind="rows")
    joint = {"mechanism": "count_knorm", "gauge": Fraction(1), "sensitivity": Sensitivity.of_shifts((1, 1))}
    pinned = _step("pinned", [rows], 30, answers=(Answer(query="pinned", measure="persons"),))
    aimed = _step("aimed", [rows], 20, answers=(Answer(query="aimed", measure="persons"),))
    outputs = [
        Output(query="income", table="persons", measure=label, steps=(), standard_error="10", margin="21.5")
        for label in MEASURES
    ]
    outputs += [
        Output(query=name, table="persons", measure="persons", steps=(), standard_error="20", margin="39")
        for name in ("pinned", "aimed")
    ]
    made = plan(
        catalog=Catalog(tables={"persons": PERSONS}),
        queries=(
            _query("income", MEASURES, INPUTS, Goal(share=Fraction(3), targets={"average": Fraction(1, 4)})),
            _query(
                "pinned",
                {"persons": MEASURES["persons"]},
                {"persons": (Feed(step="income.pinned"),)},
                Goal(budget=Budget(epsilon=Fraction(1, 5), delta=Fraction(1, 10**9))),
            ),
            _query(
                "aimed",
                {"persons": MEASURES["persons"]},
                {"persons": (Feed(step="income.aimed"),)},
                Goal(targets={"persons": Fraction(40)}),
            ),
        ),
        steps=(
            _step("counts", [rows, counted], 8, **joint),
            _step("balance", [balance], 9),
            _step("sum", [centred], 200_000),
            _step("square", [square], 10**10),
            pinned,
            aimed,
        ),
        loss={"pld": Loss(epsilon=Fraction(19, 10), delta=Fraction(1, 10**9))},
        certified="pld",
        outputs=tuple(outputs),
        considered=(
            Considered(name="discrete Laplace", noise="0.52", why_not="it would charge an account epsilon 3.8"),
            Considered(name="discrete Gaussian", noise="1.26"),
        ),
        naive=Naive(accounts_for="8 measures at epsilon 0.25 each", noise="0.7859", charged="3.059"),
        unspent="epsilon 1.9 of 2 is used: more would not change the noise of income",
    )
    return made.model_copy(update=changes)


def answers() -> dict[str, Measurement]:
    """As if the noise had been 0: what is published is then what is true of values that all are 40,000."""
    rows, values = (np.array(TRUTH[kind]) for kind in ("rows", "nonnull"))
    square = MEASURES["spread"].quantities(PERSONS)[0]
    found = {
        "counts": np.concatenate([rows, values]),
        "balance": values - (rows - values),
        "sum": values * 10_000,
        "square": values * (square.in_grains(10_000) - square.offset),
        "pinned": rows,
        "aimed": rows,
    }
    return {f"income.{name}": Measurement(f"income.{name}", numbers) for name, numbers in found.items()}
