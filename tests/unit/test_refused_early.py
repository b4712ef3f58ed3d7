"""What cannot be computed is told before anything is charged: in the spec where it shows there, else by the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Zeros
from dprelease.engines import DuckDBEngine
from dprelease.errors import SpecError, Unsupported
from dprelease.ledger import open_ledger
from dprelease.plan.document import ReleasePlan
from dprelease.release.project import Project
from dprelease.release.run import Request, open_run
from tests.planned import SPEC, plan_of
from tests.project import small_project

COUNT = Quantity(kind="rows")


def computed(sql: str, kind: str) -> str:
    """The usual spec with one more column, declared below the others."""
    step = "      income: {type: decimal, range: [-10000, 500000], step: 1}\n"
    assert SPEC.count(step) == 1
    return SPEC.replace(step, f'{step}      more: {{sql: "{sql}", type: {kind}, range: [0, 10]}}\n')


def test_the_cast_to_the_declared_type_counts_towards_the_limits_of_an_expression() -> None:
    """As a decimal it can be computed, and with the cast to whole numbers around it there are too many steps."""
    sql = " + ".join(f"round(income / {number})" for number in range(1, 21))
    plan_of(computed(sql, "decimal"))
    with pytest.raises(SpecError) as caught:
        plan_of(computed(sql, "integer"))
    (problem,) = caught.value.problems
    assert (problem.code, problem.where and problem.where.line) == ("DPR-S561", 15)
    assert "more.sql" in problem.summary
    assert plan_of(computed("income / 3", "integer")).catalog.tables["people"].column("more").derivation


def asking(**changes: Any) -> Grouping:
    return Grouping(table="people", by=("sex",)).model_copy(update=changes)


def test_an_engine_refuses_by_declarations_alone_and_without_its_secret(tmp_path: Path) -> None:
    """There is no file and no secret here: what is refused is what could never be computed."""
    columns = ("region", "sex")
    zeros = {
        "some": Zeros(reference="never", columns=columns, cells=(1, 2)),
        "beyond": Zeros(reference="never", columns=columns, cells=(1, 6)),
    }
    catalog, engine = plan_of().catalog.model_copy(update={"zeros": zeros}), DuckDBEngine(tmp_path, {})
    engine.check(catalog, asking(), (COUNT,), {})
    engine.check(catalog, asking(zeros="some", complete=columns), (COUNT,), {})
    engine.check(catalog, asking(excluding="some", by=columns), (COUNT,), {})
    engine.check(catalog, asking(private=True), (), {})
    for grouping, quantity, code in (
        (asking(by=("income",)), COUNT, "E204"),
        (asking(max_groups=2), COUNT, "E211"),
        (asking(excluding="never(sex)"), COUNT, "E214"),
        (asking(where="income"), COUNT, "E212"),
        (asking(complete=("income",)), COUNT, "E204"),
        (asking(complete=("sex", "region")), COUNT, "E216"),
        (asking(zeros="never"), COUNT, "E217"),
        (asking(zeros="some"), COUNT, "E217"),
        (asking(zeros="beyond", complete=("region", "sex")), COUNT, "E214"),
        (asking(excluding="some"), COUNT, "E217"),
        (asking(excluding="beyond", by=("sex", "region")), COUNT, "E214"),
        (asking(private=True, zeros="some"), COUNT, "E216"),
        (asking(), Quantity(kind="sum", column="region"), "E205"),
        (asking(), Quantity(kind="sum", column="income", high=2**63), "E206"),
    ):
        with pytest.raises(Unsupported) as caught:
            engine.check(catalog, grouping, (quantity,), {})
        assert caught.value.code == f"DPR-{code}"
    engine.close()


def test_nothing_is_charged_for_a_plan_that_the_engine_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pass of the plan is asked about, with all that it measures, and the ledger still has no release."""
    asked: list[tuple[Grouping, tuple[Quantity, ...]]] = []

    def check(_: Any, catalog: Any, grouping: Grouping, quantities: tuple[Quantity, ...], *others: Any) -> None:
        assert set(others[0]) == set(catalog.references)
        asked.append((grouping, quantities))
        if len(asked) == 2:
            raise Unsupported("a made-up limit", code="DPR-E203")

    spec = small_project(tmp_path)
    monkeypatch.setattr(DuckDBEngine, "check", check)
    with pytest.raises(Unsupported, match="a made-up limit"):
        open_run(Request(target=str(spec)), "test")
    ledger = open_ledger(Project.find(spec).settings.ledger, tmp_path)
    assert ledger.reservations() == ()
    assert [grouping.by for grouping, _ in asked] == [("district", "sex"), ("region",)]
    with open_run(Request(target=str(spec)), "test") as run:
        plan: ReleasePlan = run.plan
        assert {part for step in plan.steps for part in step.parts} == {part for _, each in asked[2:] for part in each}
        assert len(ledger.reservations()) == 1
