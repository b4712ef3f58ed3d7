"""What no margin covers is said beside the table that it touches, and nowhere else."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.catalog.table import Catalog, Column, Range, TableBounds
from dprelease.measures.mean import Mean
from dprelease.measures.sum import Sum
from dprelease.plan.document import Publish, ReleasePlan
from dprelease.publish.site.notes import about_rows, not_in_the_margins
from tests.unit import choices_example, publish_example


def said(plan: ReleasePlan, name: str) -> str:
    query = next(each for each in plan.queries if each.name == name)
    return " ".join(not_in_the_margins(plan, query))


def changed(**table: object) -> ReleasePlan:
    plan = publish_example.plan()
    persons = plan.catalog.tables["persons"].model_copy(update=table)
    return plan.model_copy(update={"catalog": Catalog(tables={"persons": persons})})


def queried(**query: object) -> ReleasePlan:
    plan = publish_example.plan()
    return plan.model_copy(update={"queries": (plan.queries[0].model_copy(update=query), *plan.queries[1:])})


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            changed(unit_id="pid", columns=(*publish_example.table().columns, Column(name="pid", type="text"))),
            "Rows without pid are left out.",
        ),
        (
            changed(bounds=TableBounds(max_rows=3)),
            "Counted are at most 3 rows of one person. What one person has beyond",
        ),
        (queried(max_groups=1), "one person in at most 1 cell."),
        (queried(max_rows_per_group=2), "at most 2 rows of one person in a cell."),
        (queried(suppress_below=("persons", Fraction(10))), "A row is blank where its noisy persons is below 10."),
        (publish_example.plan(), "Rows whose region or sex is missing, or is not among the keys, count nowhere"),
    ],
)
def test_what_is_left_out_is_said(plan: ReleasePlan, words: str) -> None:
    assert words in said(plan, "population")
    if plan != publish_example.plan():
        assert words not in said(publish_example.plan(), "population")


def test_clips_and_ranges_are_said_of_the_tables_that_have_them() -> None:
    plan = publish_example.plan()
    assert "moved into" not in said(plan, "population")
    assert "Every value of income was first moved into 0 to 200,000" in said(plan, "income")
    assert "Means are held within" in said(plan, "income")
    narrow = {"total": Sum(sum="income", clip=(Fraction(0), Fraction(50))), "average": Mean(mean="income")}
    both = plan.queries[1].model_copy(update={"measures": narrow})
    text = said(plan.model_copy(update={"queries": (both,)}), "income")
    assert ("into 0 to 50:" in text, "into 0 to 200,000:" in text) == (True, True)


def test_values_outside_that_count_as_missing_are_said_to() -> None:
    columns = [
        each.model_copy(update={"outside": "null", "range": Range(low=Fraction(0), high=Fraction(9))})
        if each.name == "income"
        else each
        for each in publish_example.table().columns
    ]
    text = said(changed(columns=tuple(columns)), "income")
    assert "A value of income outside 0 to 9 counts as missing." in text
    assert "moved into" not in text


def test_a_key_for_missing_values_leaves_none_out() -> None:
    columns = [
        each.model_copy(update={"null": each.keys[0]} if each.keys else {}) for each in publish_example.table().columns
    ]
    assert "count nowhere" not in said(changed(columns=tuple(columns)), "population")


def test_what_is_withheld_biases_what_is_left() -> None:
    publish = Publish(unreliable_above=Fraction(1, 2), unreliable_show="blank")
    assert "A number is withheld where its margin is more than 50 % of it" in said(
        publish_example.plan(publish=publish), "income"
    )
    assert "withheld" not in said(publish_example.plan(), "income")


def test_private_keys_joins_and_clips_of_units_are_said() -> None:
    plan = choices_example.choices()
    countries, terms = said(plan, "countries"), said(plan, "terms")
    assert "At most 1 row of users of one user is joined to a row" in countries
    assert "What one user adds up to in seconds in a cell was first moved into 0 to 600" in countries
    assert "Rows without" not in countries  # each is a unit of its own
    assert "The rows add up to less than the whole" in terms
    assert "not among the keys" not in terms
    (derived,) = not_in_the_margins(plan, None)
    assert "made of" in derived


def test_conditions_and_rankings_are_said_of_the_rows() -> None:
    plan = choices_example.choices()
    told = {query.name: " ".join(about_rows(plan, query)) for query in plan.queries}
    assert "Only rows where seconds < 4000." in told["countries"]
    assert "have no row" in told["countries"]
    assert "Which rows appear was decided by noise" in told["terms"]
    assert "neighbouring ranks may be swapped" in told["top"]
