"""Plans of small workloads that are measured in pieces, and answers of nothing but zeros for a ledger."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dprelease.ledger import Ledger, StepKey
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document import pieces as rule
from tests.planned import planned_anew
from tests.workloads import GEO, areas, crosstabs, ordinary, spec_of

__all__ = ["FILES", "KINDS", "committed", "identity", "in_one", "planned"]

FILES = {"geo": GEO.encode()}
BUDGET = "{rho: 1/5, delta: 1e-9}"
SHARES = """shares:
  levels: {region: 1/7, state: 2/7, puma: 4/7}
  tables: {total: [null, 1/4, 1/4], sex: [1/2, 1/4, 1/4], "sex*race": 1/2}"""
KINDS = {
    "residuals": spec_of(areas(), crosstabs(), ordinary(), budget=BUDGET),
    "tables": spec_of(areas(SHARES), budget=BUDGET),
    "units": spec_of(areas(), budget=BUDGET, units=True),
    "replaced": spec_of(areas(), budget=BUDGET, relation="replace_one"),
}


@cache
def planned(text: str, above: int = 5, geo: str = GEO) -> ReleasePlan:
    """A plan in which draws of more than so many cells are cut; it keeps its pieces, whatever the rule is later."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rule, "CUT_ABOVE", above)
        return planned_anew(text, files={"geo": geo.encode()})


def in_one(plan: ReleasePlan) -> ReleasePlan:
    """The same plan, nothing of it cut."""
    steps = tuple(step.model_copy(update={"pieces": None}) for step in plan.steps)
    return plan.model_copy(update={"steps": steps})


def identity(plan: ReleasePlan) -> tuple[str, str, str]:
    return plan.release.name, plan.release.period, plan.fingerprint()


def committed(plan: ReleasePlan, ledger: Ledger, names: list[str]) -> None:
    """Commit zeros under these names."""
    for name in names:
        ledger.commit(
            StepKey(*identity(plan), name), Measurement(name, np.zeros(plan.numbers[name] or 0, dtype=np.int64))
        )
