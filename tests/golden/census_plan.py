"""The persons and the units of the 2020 redistricting data as plans: the published facts, and what they imply.

The Bureau's certificates publish rho, delta, and how rho is divided among geography levels and queries, as exact
rationals. Here every query of every level is one step whose ``share`` is exactly the published product of the two. Its
noise has ``rho = share * total`` up to the last bit of a 64-bit number: the certificates' mechanism takes any rational
variance, a step's scale is a 64-bit number, so that the scale is the next one above ``sqrt(L2^2 / (2 share total))``
and the step costs at most, and less than 1e-15 relative below, what was published.

What the certificates do not say is made up, and no figure of the loss depends on it: two areas of each level stand for
all areas of the one above, and keys are numbers. The attributes have the numbers of values that the 2020 queries had.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.sensitivity import sensitivity
from dprelease.catalog.table import Catalog, Column, Mapped, Source, Table
from dprelease.measures.count import Count
from dprelease.plan.design.accuracy import outputs
from dprelease.plan.document import (
    Account,
    Answer,
    Goal,
    PlannedQuery,
    Publish,
    ReleaseInfo,
    ReleasePlan,
    Step,
)
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Composed
from dprelease.privacy.unit import Neighboring, PrivacyUnit
from dprelease.publish import AccountFacts, Facts
from dprelease.publish.base import Content

FACTS: dict[str, Any] = json.loads((Path(__file__).parent / "census2020.json").read_text(encoding="utf-8"))
VALUES = {
    "persons": {"hhgq": 8, "votingage": 2, "hispanic": 2, "cenrace": 63},
    "units": {"h1": 2},
}
RECODED = {"persons": {"hhinstlevels": ("hhgq", 3)}, "units": {}}
ENTITY = {"persons": "person", "units": "housing unit"}
CHARGED = "2021-06-25T03:00:05Z"


def levels(name: str) -> list[str]:
    """The geography levels as column names, the widest first."""
    return [level.lower() for level in FACTS[name]["geolevels"]]


def table(name: str) -> Table:
    """Blocks, what they lie in, and the attributes of a person or a housing unit."""
    columns, finer = [], ""
    for depth, level in reversed(list(enumerate(levels(name)))):
        keys = tuple(range(2**depth))
        pairs = tuple((key, key // 2) for key in range(2 ** (depth + 1)))
        derivation = Mapped(of=finer, pairs=pairs) if finer else None
        columns.append(Column(name=level, type="integer", keys=keys, derivation=derivation))
        finer = level
    for attribute, values in VALUES[name].items():
        columns.append(Column(name=attribute, type="integer", keys=tuple(range(values))))
    for column, (of, values) in RECODED[name].items():
        pairs = tuple((key, min(key, values - 1)) for key in range(VALUES[name][of]))
        keys = tuple(range(values))
        columns.append(Column(name=column, type="integer", keys=keys, derivation=Mapped(of=of, pairs=pairs)))
    return Table(name=name, account="census", source=Source(file=f"{name}.csv", format="csv"), columns=tuple(columns))


def allocated(name: str) -> list[tuple[str, str, Fraction]]:
    """Level, query and share of every pair that has one."""
    facts = FACTS[name]
    return [
        (level, query, Fraction(part) * Fraction(shares[at]))
        for at, (level, part) in enumerate(zip(levels(name), facts["geolevel_proportions"], strict=True))
        for query, shares in facts["query_proportions"].items()
        if shares[at] is not None
    ]


def keys_of(name: str, query: str) -> tuple[str, ...]:
    """The attributes that a query tabulates."""
    if query == "detailed":
        return tuple(VALUES[name])
    return () if query == "total" else tuple(query.split("*"))


def scale_above(square: Fraction) -> Fraction:
    """The smallest 64-bit number whose square is at least this."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while Fraction(math.nextafter(root, 0)) ** 2 >= square:
        root = math.nextafter(root, 0)
    return Fraction(root)


def _step(name: str, catalog: Catalog, level: str, query: str, share: Fraction) -> Step:
    aggregate = BoundedAggregate(table=name, by=(level, *keys_of(name, query)), quantity=Quantity(kind="rows"))
    reach = sensitivity(aggregate, catalog, Neighboring.REPLACE_ONE)
    rho = share * Fraction(FACTS[name]["rho"])
    return Step(
        id=f"{named(level, query)}.n",
        answers=(Answer(query=named(level, query), measure="n"),),
        aggregate=aggregate,
        mechanism="discrete_gaussian",
        sensitivity=reach,
        scale=scale_above(reach.l2_squared / (2 * rho)),
        share=share,
        cells=catalog.tables[name].cells(aggregate.by),
    )


def named(level: str, query: str) -> str:
    """The name of a query of ours: a star is no sign of a file's name."""
    return f"{level}-{query.replace('*', '-')}"


def plan(name: str) -> ReleasePlan:
    """The plan of one of the two releases, ``persons`` or ``units``."""
    facts, catalog = FACTS[name], Catalog(tables={name: table(name)})
    shares = allocated(name)
    steps = tuple(_step(name, catalog, *each) for each in shares)
    queries = tuple(
        PlannedQuery(
            name=named(level, query),
            title=f"{query} by {level}",
            table=name,
            by=(level, *keys_of(name, query)),
            measures={"n": Count(count="rows")},
            inputs={"n": (f"{named(level, query)}.n",)},
            goal=Goal(share=share),
        )
        for level, query, share in shares
    )
    delta = Fraction(facts["delta"])
    event = Composed(events=tuple(step.event for step in steps))
    budget = Budget(rho=Fraction(facts["rho"]), delta=delta)
    publish = Publish()
    return ReleasePlan(
        release=ReleaseInfo(
            name=f"pl94-{name}", period="2020", title=facts["release"], curator="U.S. Census Bureau (as published)"
        ),
        spec_fingerprint="0" * 64,
        unit=PrivacyUnit(entity=ENTITY[name]),
        neighboring=Neighboring.REPLACE_ONE,
        budget=budget,
        accounting="zcdp",
        accounts=(
            Account(
                name="census",
                unit=ENTITY[name],
                neighboring=Neighboring.REPLACE_ONE,
                composition="zcdp",
                lifetime=budget,
            ),
        ),
        catalog=catalog,
        queries=queries,
        steps=steps,
        loss={"zcdp": Loss(epsilon=ACCOUNTANTS["zcdp"].epsilon(event, delta), delta=delta)},
        certified="zcdp",
        outputs=outputs(queries, (), catalog, {step.id: step for step in steps}, publish.confidence),
        publish=publish,
    )


def content(name: str) -> Content:
    """The plan as if it had been charged to an empty account; nothing is measured."""
    made = plan(name)
    certified = made.loss["zcdp"]
    account = AccountFacts(
        name="census",
        unit=ENTITY[name],
        composition="zcdp",
        cap=made.budget,
        before=Loss(epsilon=Fraction(0), delta=certified.delta),
        after=certified,
    )
    facts = Facts(
        plan_fingerprint=made.fingerprint(),
        reserved_at=CHARGED,
        ledger_sequence=1,
        ledger_hash="0" * 64,
        accounts=(account,),
        environment={"sampler": "as in the Bureau's code; not this tool's"},
    )
    return Content(made, (), facts)
