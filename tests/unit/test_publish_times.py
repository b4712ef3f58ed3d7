"""Of a table with a time the accounting says which rows were read, from the plan alone."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from dprelease.catalog.table import PrivateJoin, TimeFilter
from dprelease.plan.document import ReleasePlan
from dprelease.publish import check_bundle, render, write
from dprelease.publish.accounting.guide import how_read
from dprelease.publish.accounting.report import planned_accounting
from dprelease.spec.period import span
from tests.unit.publish_example import facts, measurements, plan
from tests.unit.test_publish_pages import Outline

(NAME,) = {query.table for query in plan().queries}
LINE = (
    f"{NAME}: only rows of 2024-03 by seen are read: from 2024-03-01 to 2024-03-31; "
    "a row without a time that can be read belongs to no period."
)


def timed(period: str = "2024-03", kind: str = "date") -> ReleasePlan:
    days = span(period)
    assert days is not None
    time = TimeFilter.model_validate({"column": "seen", "type": kind, "start": days[0], "end": days[1]})
    made = plan()
    tables = {**made.catalog.tables, NAME: made.catalog.tables[NAME].model_copy(update={"time": time})}
    return made.model_copy(
        update={
            "catalog": made.catalog.model_copy(update={"tables": tables}),
            "release": made.release.model_copy(update={"period": period}),
        }
    )


def test_the_accounting_says_which_rows_were_read_on_its_page_and_to_machines(tmp_path: Path) -> None:
    made = timed()
    published = render(made, measurements(), facts(made))
    assert json.loads(published.files["accounting.json"])["reading"][0] == LINE
    assert LINE in Outline(published.files["accounting.html"].decode()).text
    assert planned_accounting(made, made.fingerprint())["reading"][0] == LINE
    write(published, tmp_path / "bundle")
    assert all(check.passed is not False for check in check_bundle(tmp_path / "bundle"))


def test_a_changed_sentence_is_found_by_the_check_of_the_bundle(tmp_path: Path) -> None:
    """It follows from the plan, so that nobody can tell another period."""
    made = timed()
    write(render(made, measurements(), facts(made)), tmp_path / "bundle")
    page = tmp_path / "bundle" / "accounting.json"
    page.write_text(page.read_text().replace("only rows of 2024-03", "only rows of 2024-04"))
    assert any(check.passed is False for check in check_bundle(tmp_path / "bundle"))


@pytest.mark.parametrize(
    ("period", "kind", "says"),
    [
        ("2024", "date", "only rows of 2024 by seen are read: from 2024-01-01 to 2024-12-31;"),
        ("2024-W01", "timestamp", "from 2024-01-01 to 2024-01-07, in UTC;"),
        ("2024-02-29", "date", "only rows of 2024-02-29 by seen are read: on 2024-02-29;"),
        ("0001-01", "date", "from 0001-01-01 to 0001-01-31;"),
    ],
)
def test_days_are_told_first_and_last(period: str, kind: str, says: str) -> None:
    assert says in how_read(timed(period, kind))[0]


def test_a_table_that_is_only_joined_is_told_too() -> None:
    made = plan()
    time = TimeFilter(column="at", type="date", start=date(2024, 1, 1), end=date(2024, 1, 1) + timedelta(days=366))
    own = made.catalog.tables[NAME]
    join = PrivateJoin(table="jobs", on="id", max_matches=2, add=("pay",))
    tables = {
        NAME: own.model_copy(update={"private_joins": (join,)}),
        "jobs": own.model_copy(update={"name": "jobs", "time": time}),
        "unread": own.model_copy(update={"name": "unread", "time": time}),
    }
    lines = how_read(made.model_copy(update={"catalog": made.catalog.model_copy(update={"tables": tables})}))
    assert [line.partition(":")[0] for line in lines if " by at are read" in line] == ["jobs"]


def test_without_a_time_nothing_is_said() -> None:
    assert how_read(plan()) == ()
