"""A release whose tables are made non-negative and whole after they were estimated, with answers that make them move."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache

import numpy as np

from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.publish import render
from tests.planned import plan_of
from tests.unit.publish_example import facts
from tests.workloads import GEO, areas, ordinary, spec_of

__all__ = ["answers", "bundle", "moved_plan", "of_the_first_layout", "without_figures"]

_PUBLISH = "publish: {formats: [csv, parquet, html]}"
_ALL = """derive:
  women:
    sql: select state, sum(count) as women from areas__state__sex where sex = 2 group by state
  everybody:
    sql: select state, sum(persons) as persons from population group by state
publish: {formats: [csv, parquet, xlsx, json, sdmx, html]MORE}
"""

_BUNDLES: dict[str, Mapping[str, bytes]] = {}


@cache
def moved_plan(post: str = "[consistent, nonnegative, integer]", more: str = "") -> ReleasePlan:
    """Two tables at three levels and a table beside them; ``more`` goes into ``publish``."""
    text = spec_of(areas(), ordinary(), post=post)
    return plan_of(text.replace(_PUBLISH, _ALL.replace("MORE", more)), {"geo": GEO.encode()})


def answers(plan: ReleasePlan) -> dict[str, Measurement]:
    """What every step measured: numbers about 0, so that about half of the estimates are negative."""
    chance = np.random.default_rng(20)
    return {
        name: Measurement(name, np.asarray(chance.integers(-60, 80, size=numbers), dtype=np.int64))
        for name, numbers in plan.numbers.items()
    }


def of_the_first_layout(plan: ReleasePlan) -> ReleasePlan:
    """The same plan as it was made before there was a second layout, or rules for figures."""
    return plan.model_copy(update={"publish": plan.publish.model_copy(update={"layout": 1, "figures": None})})


def without_figures(plan: ReleasePlan) -> ReleasePlan:
    """The same plan as it was made before there were rules for figures."""
    shown = plan.publish.model_copy(update={"figures": None, "unreliable_above": Fraction(1, 2)})
    return plan.model_copy(update={"publish": shown})


def bundle(plan: ReleasePlan) -> Mapping[str, bytes]:
    """Its files, rendered once in each process."""
    fingerprint = plan.fingerprint()
    if fingerprint not in _BUNDLES:
        _BUNDLES[fingerprint] = _rendered(plan)
    return _BUNDLES[fingerprint]


def _rendered(plan: ReleasePlan) -> Mapping[str, bytes]:
    told = facts(plan)
    (account,) = told.accounts
    cap = account.cap.model_copy(update={"delta": Fraction(1, 10**5)})
    after = account.after.model_copy(update={"delta": cap.delta})
    account = account.model_copy(update={"name": "census", "cap": cap, "before": after, "after": after})
    told = told.model_copy(update={"accounts": (account,)})
    return render(plan, answers(plan), told).files
