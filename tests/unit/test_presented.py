"""What may change after the measurement, and what may not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.errors import PlanError
from dprelease.plan.document import Derived, Publish, ReleasePlan
from dprelease.plan.explain.presentation import Presentation, presentation, presented
from tests.unit import publish_example as example


def with_look(plan: ReleasePlan) -> ReleasePlan:
    """Another title, label, format, confidence and derived table."""
    table = plan.catalog.tables["persons"]
    columns = tuple(
        column.model_copy(update={"labels": {"1": "Men", "2": "Women"}}) if column.name == "sex" else column
        for column in table.columns
    )
    tables = {"persons": table.model_copy(update={"columns": columns})}
    return plan.model_copy(
        update={
            "release": plan.release.model_copy(update={"title": "Another title", "contact": "x@example.org"}),
            "queries": tuple(query.model_copy(update={"title": query.name.upper()}) for query in plan.queries),
            "catalog": plan.catalog.model_copy(update={"tables": tables}),
            "derive": (Derived(name="half", title="", sql="select region, sex, persons / 2 as half from population"),),
            "publish": Publish(formats=("csv",), confidence=Fraction(9, 10)),
            "spec_fingerprint": "6" * 64,
        }
    )


def test_a_plan_shown_as_it_was_asked_for_is_itself() -> None:
    plan = example.plan()
    assert presented(plan, Presentation.of(plan)) == plan


def test_another_look_is_taken_over_and_what_is_measured_stays() -> None:
    plan = example.plan()
    wanted = with_look(plan)
    shown = presented(plan, presentation(plan, wanted))
    assert (shown.release, shown.queries, shown.catalog) == (wanted.release, wanted.queries, wanted.catalog)
    assert (shown.derive, shown.publish) == (wanted.derive, wanted.publish)
    assert (shown.steps, shown.loss, shown.spec_fingerprint) == (plan.steps, plan.loss, plan.spec_fingerprint)


def test_the_look_of_another_period_keeps_the_identity_of_what_was_measured() -> None:
    plan = example.plan()
    look = Presentation.of(plan.model_copy(update={"release": plan.release.model_copy(update={"period": "2030"})}))
    assert presented(plan, look).release.period == plan.release.period


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", example.plan().steps[1:]),
        ("budget", example.plan().budget.model_copy(update={"epsilon": Fraction(3)})),
        ("queries", example.plan().queries[1:]),
        ("catalog", example.plan().catalog.model_copy(update={"references": {}})),
        ("release", example.plan().release.model_copy(update={"period": "2030"})),
    ],
)
def test_whatever_would_be_measured_otherwise_is_refused_by_name(name: str, value: object) -> None:
    plan = example.plan()
    with pytest.raises(PlanError, match=f"another spec: {name} differ"):
        presentation(plan, with_look(plan).model_copy(update={name: value}))
