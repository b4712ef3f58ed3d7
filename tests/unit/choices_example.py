"""A plan with quantiles, ratios, private keys, a ranking, exclusions, bounds and derived tables, for publishing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.table import Binned, Catalog, Column, Computed, PrivateJoin, Range, Source, Table, TableBounds
from dprelease.measures import Measure, expand_measures
from dprelease.measures.count import Count, CountDistinct
from dprelease.measures.mean import Mean
from dprelease.measures.quantile import Quantiles
from dprelease.measures.ratio import Ratio
from dprelease.measures.sum import Sum
from dprelease.noise import Measurement
from dprelease.plan.document import (
    Answer,
    Choosing,
    Derived,
    Feed,
    Output,
    PlannedQuery,
    Ranking,
    ReleasePlan,
    Selecting,
    Step,
)
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import PrivacyUnit
from tests.unit.publish_example import plan

COUNTRIES = ("DE", "FR", "US")
PAGES = ("home", "shop", "help", "jobs")
KEYS = (("=cmd",), ("red shoes",), ("über",))
VISITS = Table(
    name="visits",
    account="acs",
    source=Source(file="data/visits.csv", format="csv"),
    columns=(
        Column(name="country", type="text", keys=COUNTRIES, labels={"DE": "Germany"}),
        Column(name="new", type="boolean", keys=(True, False), derivation=Computed(sql="day < 3")),
        Column(name="page", type="text", keys=PAGES),
        Column(name="term", type="text"),
        Column(name="seconds", type="integer", range=Range(low=Fraction(0), high=Fraction(3600)), measured_in="s"),
        Column(name="length", type="text", derivation=Binned(of="seconds", edges=(Fraction(0), Fraction(60)))),
    ),
    unit_id="user_id",
    null_id="unit",
    bounds=TableBounds(max_rows=100),
    private_joins=(PrivateJoin(table="users", on="user_id", max_matches=1, add=()),),
)
ASKED: dict[str, Measure] = {
    "visits": Count(count="rows"),
    "users": Count(count="units"),
    "pages": CountDistinct(count_distinct="page"),
    "long": Count(count="rows", where="seconds > 60"),
    "total": Sum(sum="seconds", clip=(Fraction(0), Fraction(600)), clip_per="unit_cell"),
    "average": Mean(mean="seconds", clip=(Fraction(0), Fraction(600)), clip_per="unit_cell"),
    "middle": Quantiles(quantiles="seconds", at=(Fraction(1, 2), Fraction(9, 10))),
    "share": Ratio(ratio=("long", "visits")),
}
MEASURES = expand_measures(ASKED)
SPARSE = {"visits": Count(count="rows")}
GROUPING = {"table": "visits", "max_groups": 3, "max_rows_per_group": 10, "where": "seconds < 4000"}


def step(name: str, by: tuple[str, ...], quantity: Quantity, cells: int | None, **more: Any) -> Step:
    answers = more.pop("answers", ("visits",))
    grouping = {"table": "visits", "by": by, **more.pop("grouping", {})}
    return Step(
        id=name,
        answers=tuple(Answer(query=name.partition(".")[0], measure=measure) for measure in answers),
        aggregate=BoundedAggregate(**grouping, quantity=quantity),
        mechanism=more.pop("mechanism", "discrete_gaussian"),
        sensitivity=more.pop("sensitivity", Sensitivity.of_one_cell(max(1, *map(abs, quantity.contribution)))),
        scale=more.pop("scale", Fraction(12)),
        share=Fraction(1, 12),
        cells=cells,
        **more,
    )


def choosing(rounds: int) -> Choosing:
    """With the number of candidates, where the plan keeps it there."""
    fields: dict[str, Any] = {"rounds": rounds, "spread": Fraction(1), "candidates": 3601}
    return Choosing(**{name: value for name, value in fields.items() if name in Choosing.model_fields})


def inputs(query: str, measures: dict[str, Measure], ids: dict[Quantity, str]) -> dict[str, tuple[Feed, ...]]:
    found = {}
    for name, measure in measures.items():
        form = next(form for form in reversed(measure.alternatives(VISITS)) if all(each in ids for each in form))
        found[name] = tuple(Feed(step=ids[each]) for each in form)
    return found


def quantities() -> dict[Quantity, str]:
    """Every quantity of the query of countries, in its plain form, and the step that measures it."""
    found: dict[Quantity, str] = {}
    for measure in MEASURES.values():
        for quantity in (*measure.quantities(VISITS), Quantity(kind="nonnull", column="seconds")):
            found.setdefault(quantity, f"countries.q{len(found)}")
    return found


DERIVED = (
    Derived(name="gap", title="", sql="select country, new, visits - long as short, total / users as each from countries"),
    Derived(name="byland", title="By land", sql="select country, sum(visits) as visits, max(middle_q50) as m, count(*) as n from countries group by country"),
    Derived(name="joined", title="", sql="select c.country, c.new, t.term, c.visits / t.visits as r from countries c join terms t on c.country = t.term"),
    Derived(name="all", title="", sql="select sum(visits) as total, avg(average) as mean from countries where new"),
)  # fmt: skip


def _steps() -> tuple[Step, ...]:
    shared = {**GROUPING, "excluding": "not_applicable(country,new)"}
    made = []
    for quantity, name in quantities().items():
        more: dict[str, Any] = {"grouping": shared, "answers": ("visits",)}
        if quantity.kind == "quantile":
            more |= {"mechanism": "exponential_quantile", "choosing": choosing(3), "scale": Fraction(4)}
        made.append(step(name, ("country", "new"), quantity, 5, **more))
    private = {"table": "visits", "private": True, "max_groups": 3, "max_rows_per_group": 1}
    return (
        *made,
        step("terms.keys", ("term",), Quantity(kind="units"), None, grouping=private, mechanism="laplace_threshold",
             selecting=Selecting(threshold=40, delta=Fraction(1, 10**9)), sensitivity=Sensitivity.of_shifts((1, 1, 1)), scale=Fraction(2)),
        step("terms.rows", ("term",), Quantity(kind="rows"), None, grouping=private),
        step("top.pages", ("page",), Quantity(kind="units"), len(PAGES), mechanism="exponential_top_k",
             choosing=choosing(2), scale=Fraction(3)),
    )  # fmt: skip


def _queries(suppress: tuple[str, Fraction] | None) -> tuple[PlannedQuery, ...]:
    private = {"table": "visits", "private": True, "max_groups": 3, "max_rows_per_group": 1}
    return (
        PlannedQuery(
            **GROUPING, excluding="not_applicable(country,new)", by=("country", "new"), name="countries", title="Visits",
            measures=dict(MEASURES), inputs=inputs("countries", MEASURES, quantities()), suppress_below=suppress,
        ),
        PlannedQuery(
            **private, by=("term",), name="terms", title="Terms", measures=dict(SPARSE),
            inputs={"visits": (Feed(step="terms.rows"),)}, selection="terms.keys",
        ),
        PlannedQuery(
            table="visits", by=("page",), name="top", title="Top pages", measures={}, inputs={},
            ranking=Ranking(k=2, step="top.pages"),
        ),
    )  # fmt: skip


def choices(derive: tuple[Derived, ...] = (), suppress: tuple[str, Fraction] | None = ("users", Fraction(30)), **changes: object) -> ReleasePlan:  # fmt: skip
    """The plan, with derived tables where they are given."""
    users = Table(name="users", account="acs", source=Source(file="u.csv", format="csv"), columns=(), unit_id="user_id")
    outputs = tuple(
        Output(query=query, table="visits", measure=name, steps=(), standard_error=None, margin=None, why_null="-")
        for query, measures in (("countries", MEASURES), ("terms", SPARSE))
        for name in measures
    )
    made = plan(
        unit=PrivacyUnit(entity="user"),
        catalog=Catalog(tables={"visits": VISITS, "users": users}, exclusions={"not_applicable(country,new)": (5,)}),
        queries=_queries(suppress),
        steps=_steps(),
        outputs=outputs,
    )
    paying = tuple(each.model_copy(update={"selecting": Fraction(1, 10**9), "unit": "user"}) for each in made.accounts)
    made = made.model_copy(update={"accounts": paying, "derive": derive, **changes})
    return ReleasePlan.model_validate({name: getattr(made, name) for name in ReleasePlan.model_fields})


def measured(keys: tuple[tuple[str, ...], ...] = KEYS) -> dict[str, Measurement]:
    """Made-up integers: 1,000 rows of 100 users in four cells, and a fifth one that is too small to be shown."""
    made = {}
    for quantity, name in quantities().items():
        sums = quantity.centre and -quantity.centre + 240
        typical = {"rows": 1000, "units": 100, "distinct": 4, "nonnull": 900, "sum": sums or 24_000}
        size = typical.get(quantity.kind, 120)
        size = (
            300
            if quantity.where is not None
            else 90
            if quantity.per == "unit_cell" and quantity.kind == "nonnull"
            else size
        )
        size = size * 90 if quantity.kind == "sum" and quantity.centre else size
        if quantity.kind == "quantile":
            size = int(120 * (1 + 2 * float(quantity.at or 0)))
        last = {"units": 3, "rows": 9, "nonnull": -4}.get(quantity.kind, size)
        made[name] = Measurement(name, np.array([size, size + 1, size + 2, size + 3, last]))
    made["terms.keys"] = Measurement("terms.keys", np.zeros(0, dtype=np.int64), keys=keys)
    made["terms.rows"] = Measurement("terms.rows", np.arange(50, 50 + len(keys)))
    made["top.pages"] = Measurement("top.pages", np.array([2, 0]))
    return made
