"""A realistic plan, measured on made-up integers, for the tests of publishing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.table import Catalog, Column, Range, Reference, Source, Table
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.measures.sum import Sum
from dprelease.noise import Measurement
from dprelease.plan.document import (
    Account,
    Answer,
    Output,
    PlannedQuery,
    Publish,
    ReleaseInfo,
    ReleasePlan,
    Step,
)
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring, PrivacyUnit
from dprelease.publish import AccountFacts, Facts

REGIONS = {"1": "Northeast", "2": "Midwest", "3": "South", "4": "West"}
STATES = {"06": "California", "08": "Colorado", "12": "Florida", "36": "New York", "48": "Texas", "50": "Vermont"}
SEXES = {"1": "Male", "2": "Female"}


def table() -> Table:
    return Table(
        name="persons",
        account="acs",
        source=Source(file="data/persons-*.csv", format="csv"),
        columns=(
            Column(name="region", type="text", keys=tuple(REGIONS), labels=REGIONS),
            Column(name="state", type="text", keys=tuple(STATES), labels=STATES),
            Column(name="sex", type="integer", keys=(1, 2), labels=SEXES),
            Column(name="income", type="decimal", range=Range(low=Fraction(0), high=Fraction(200_000))),
        ),
    )


def _step(name: str, answers: list[str], by: tuple[str, ...], quantity: Quantity, scale: int, cells: int) -> Step:
    low, high = quantity.contribution
    query = name.partition(".")[0]
    return Step(
        id=name,
        answers=tuple(Answer(query=query, measure=measure) for measure in answers),
        aggregate=BoundedAggregate(table="persons", by=by, quantity=quantity),
        mechanism="discrete_gaussian",
        sensitivity=Sensitivity.of_one_cell(max(-low, high)),
        scale=Fraction(scale),
        share=Fraction(1, 4),
        cells=cells,
    )


def plan(**changes: object) -> ReleasePlan:
    """Two queries: population by region and sex; income by state and sex as count, sum and mean."""
    total, average = Sum(sum="income"), Mean(mean="income")
    (summed,) = total.quantities(table())
    centred, counted = average.quantities(table())
    made = ReleasePlan(
        release=ReleaseInfo(
            name="regional-monitor",
            period="2024-03",
            title="Regional monitor: population and income",
            curator="Example Statistical Office",
            contact="statistics@example.org",
            intended_use="Regional planning",
        ),
        spec_fingerprint="5" * 64,
        unit=PrivacyUnit(entity="person"),
        neighboring=Neighboring.ADD_REMOVE,
        budget=Budget(epsilon=Fraction(2), delta=Fraction(1, 10**9)),
        accounting="auto",
        accounts=(
            Account(
                name="acs",
                unit="person",
                neighboring=Neighboring.ADD_REMOVE,
                composition="zcdp",
                lifetime=Budget(epsilon=Fraction(8), delta=Fraction(1, 10**8)),
            ),
        ),
        catalog=Catalog(
            tables={"persons": table()},
            references={
                "geography": Reference(
                    name="geography", file="reference/geography.csv", sha256="ab" * 32, columns={"state": "text"}
                )
            },
        ),
        queries=(
            PlannedQuery(
                name="population",
                title="Population by region and sex",
                table="persons",
                by=("region", "sex"),
                measures={"persons": Count(count="rows")},
                inputs={"persons": ("population.rows",)},
            ),
            PlannedQuery(
                name="income",
                title="Income by state and sex",
                table="persons",
                by=("state", "sex"),
                measures={"earners": Count(count="income"), "total": total, "average": average},
                inputs={
                    "earners": ("income.earners",),
                    "total": ("income.total",),
                    "average": ("income.centred", "income.earners"),
                },
            ),
        ),
        steps=(
            _step("population.rows", ["persons"], ("region", "sex"), Quantity(kind="rows"), 20, 8),
            _step("income.earners", ["earners", "average"], ("state", "sex"), counted, 40, 12),
            _step("income.total", ["total"], ("state", "sex"), summed, 8_000_000, 12),
            _step("income.centred", ["average"], ("state", "sex"), centred, 4_000_000, 12),
        ),
        loss={
            "zcdp": Loss(epsilon=Fraction(19, 10), delta=Fraction(1, 10**9)),
            "rdp": Loss(epsilon=Fraction(1999, 1000), delta=Fraction(1, 10**9)),
        },
        certified="zcdp",
        outputs=(
            Output(
                query="population",
                table="persons",
                measure="persons",
                steps=("population.rows",),
                standard_error="20",
                margin="39",
            ),
            Output(
                query="income",
                table="persons",
                measure="earners",
                steps=("income.earners",),
                standard_error="40",
                margin="78",
            ),
            Output(
                query="income",
                table="persons",
                measure="total",
                steps=("income.total",),
                standard_error="8000000",
                margin="15679720",
            ),
            Output(
                query="income",
                table="persons",
                measure="average",
                steps=("income.centred", "income.earners"),
                standard_error=None,
                margin=None,
                why_null="depends on the cell's size: give `expect` for a count of the query",
            ),
        ),
        publish=Publish(unreliable_above=Fraction(1, 2)),
    )
    accounts = [
        each.model_copy(update={k: v for k, v in changes.items() if k == "neighboring"}) for each in made.accounts
    ]
    return made.model_copy(update={"accounts": tuple(accounts), **changes})


def measurements() -> dict[str, Measurement]:
    """Made-up integers; one cell of the income query is too small for a mean, one is unreliable."""
    persons = np.array([2810, 2955, 3307, 3398, 6120, 6391, 3874, -12])
    earners = np.array([5210, 4877, 1490, 1322, 2904, 2817, 2650, 2544, 3333, 2999, 61, -7])
    means = np.array([61, 48, 58, 46, 52, 41, 66, 53, 55, 42, 60, 30]) * 1000
    return {
        each.step: each
        for each in (
            Measurement("population.rows", persons),
            Measurement("income.earners", earners),
            Measurement("income.total", earners * means + 1_234_567),
            Measurement("income.centred", earners * (means - 100_000)),
        )
    }


def facts(of: ReleasePlan, **changes: object) -> Facts:
    made = Facts(
        plan_fingerprint=of.fingerprint(),
        reserved_at="2024-04-05T06:00:03Z",
        ledger_sequence=17,
        ledger_hash="c0ffee" + "0" * 58,
        accounts=(
            AccountFacts(
                name="acs",
                unit="person",
                composition="zcdp",
                cap=Budget(epsilon=Fraction(8), delta=Fraction(1, 10**8)),
                before=Loss(epsilon=Fraction(31, 10), delta=Fraction(1, 10**8)),
                after=Loss(epsilon=Fraction(37, 10), delta=Fraction(1, 10**8)),
            ),
        ),
        environment={
            "python": "3.11.9",
            "dprelease": "0.1.0",
            "opendp": "0.15.0",
            "sampler": "discrete Gaussian, exact",
            "entropy": "operating system",
        },
    )
    return made.model_copy(update=changes)
