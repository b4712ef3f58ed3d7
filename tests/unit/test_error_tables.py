"""Errors of the tables of a workload, from the law of the noise alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.estimate.workloads.reconcile import reconcile
from dprelease.plan.design.workload_design import design_of
from dprelease.plan.document import ReleasePlan
from dprelease.publish.accounting.error_tables import SIZES, error_facts, error_rows
from dprelease.release.planning import open_target, plan_release
from tests.unit import publish_example
from tests.workloads import areas, crosstabs, ordinary, small_workloads, spec_of


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ReleasePlan:
    spec = small_workloads(tmp_path_factory.mktemp("errors"), spec_of(areas(), crosstabs(), ordinary()), rows=3)
    target = open_target(spec)
    return plan_release(target)


def test_every_table_has_its_level_cells_and_errors_by_size(plan: ReleasePlan) -> None:
    found = error_facts(plan)["error_tables"]
    assert [each["table"] for each in found] == [name for workload in plan.workloads for name in workload.tables]
    cells = {(each["workload"], each["level"], *each["attributes"]): each["cells"] for each in found}
    assert cells["areas", "puma", "sex", "race"] == 5 * 2 * 3
    assert cells["crosstabs", "all", "sex", "band"] == 2 * 3
    for each in found:
        error = Fraction(each["standard_error"])
        for size in SIZES:
            assert error / size <= Fraction(each["relative_error"][str(size)]) <= error / size * Fraction(1001, 1000)


def test_the_errors_are_those_of_noise_that_is_drawn_and_reconciled(plan: ReleasePlan) -> None:
    """800 draws of the design: the variance of the worst cell of every table within 6 of its standard errors (30 %)."""
    workload = plan.workload("areas")
    design = design_of(workload, plan.catalog, {each.id: each for each in plan.steps})
    chance = np.random.default_rng(20301122)
    sums: dict[Any, Any] = dict.fromkeys(design.tables, 0.0)
    for _ in range(800):
        noise = [chance.normal(0, taken.variance**0.5, design.shape(taken.level, taken.axes)) for taken in design.taken]
        for place, errors in reconcile(design, noise).items():
            sums[place] = sums[place] + errors**2
    for each in error_facts(plan)["error_tables"]:
        if each["workload"] == "areas":
            found = np.asarray(sums[workload.place(each["table"])]) / 800
            by_area = found.reshape(found.shape[0], -1).mean(axis=1)
            assert 0.7 < float(by_area.max()) / float(each["standard_error"]) ** 2 < 1.3


def test_the_page_has_one_row_for_each_level_and_number_of_attributes(plan: ReleasePlan) -> None:
    rows = error_rows(plan)
    assert [(each["workload"], each["level"], each["attributes"], each["tables"]) for each in rows] == [
        *(("areas", level, ways, "1") for level in ("region", "state", "puma") for ways in ("total", "1", "2")),
        *(("crosstabs", "all", ways, tables) for ways, tables in (("total", "1"), ("1", "3"), ("2", "3"))),
    ]
    assert all(len(each["relative"]) == len(SIZES) for each in rows)
    assert " to " in rows[-1]["standard_error"]


def test_large_errors_and_missing_margins_are_told_as_such(plan: ReleasePlan) -> None:
    outputs = tuple(
        each.model_copy(update={"standard_error": "50.5", "margin": None}) if each.query == "areas__region" else each
        for each in plan.outputs
    )
    first = error_rows(plan.model_copy(update={"outputs": outputs}))[0]
    assert (first["margin"], first["relative"]) == ("none", ["over 100 %", "51 %", "5.1 %", "0.51 %"])


def test_a_release_without_a_workload_says_nothing_of_it() -> None:
    assert error_facts(publish_example.plan()) == {}
    assert error_rows(publish_example.plan()) == []
