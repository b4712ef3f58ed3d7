"""Plans for tests, from spec text to a verified plan, with no file anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from dprelease.plan.allocate.planner import allocate
from dprelease.plan.document import Account, ReleasePlan, Step
from dprelease.plan.resolve.catalog import resolve
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Neighboring
from dprelease.spec.load import load

__all__ = ["SPEC", "VILLAGES", "half_sensitivity", "plan_of", "planned_anew"]

SPEC = """
dprelease: 1
release: {name: survey, period: 2024, title: A survey}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      region: {type: text, keys: ["01", "02", "06"]}
      sex: {type: integer, keys: [1, 2]}
      income: {type: decimal, range: [-10000, 500000], step: 1}
queries:
  population: {table: people, by: [region, sex], measures: {persons: {count: rows}}}
  income:
    table: people
    by: [region]
    share: 2
    expect: {persons: 12000}
    measures:
      persons: {count: rows}
      total: {sum: income, clip: [0, 200000]}
      average: {mean: income, clip: [0, 200000]}
"""
VILLAGES = """
dprelease: 1
release: {name: villages, period: 2024}
privacy:
  unit: {entity: person}
  budget: {epsilon: 2, delta: 1e-7}
tables:
  people:
    account: people
    unit_id: person
    bounds: {max_rows: 1}
    source: {file: people.csv}
    columns:
      village: {type: text}
queries:
  n: {table: people, by: [village], keys: private, measures: {n: {count: rows}}}
"""
"""Keys that are private: persons counted by village."""

_PLANS: dict[tuple[object, ...], ReleasePlan] = {}


def plan_of(
    text: str = SPEC,
    files: Mapping[str, bytes] | None = None,
    accounts: Sequence[Account] | None = None,
) -> ReleasePlan:
    """As ``planned_anew``, but planned once in each process for all who ask for the same plan."""
    asked = (text, tuple(sorted((files or {}).items())), repr(accounts))
    if asked not in _PLANS:
        _PLANS[asked] = planned_anew(text, files, accounts)
    return _PLANS[asked].model_copy()  # what a test has a plan work out for itself stays with that test


def planned_anew(
    text: str = SPEC,
    files: Mapping[str, bytes] | None = None,
    accounts: Sequence[Account] | None = None,
) -> ReleasePlan:
    """The plan of a spec; its accounts are opened with zCDP composition and a large cap unless given.

    For tests that change the planner, or plan twice on purpose.
    """
    loaded = load(text, "spec.yaml")
    catalog = resolve(loaded, dict(files or {}))
    if accounts is None:
        names = sorted({table.account for table in catalog.tables.values()})
        accounts = [
            Account(
                name=name,
                unit=str(loaded.spec.privacy.unit),
                neighboring=Neighboring(loaded.spec.privacy.neighboring),
                composition="zcdp",
                lifetime=Budget(epsilon=Fraction(100), delta=Fraction(1, 10**5)),
                selecting=Fraction(1, 2 * 10**5),
            )
            for name in names
        ]
    return allocate(loaded.spec, catalog, accounts, loaded.fingerprint)


def half_sensitivity(step: Step) -> Step:
    """A step that claims half of what one unit can change."""
    whole = step.sensitivity
    half = {
        "l1": whole.l1 / 2,
        "l2_squared": whole.l2_squared / 4,
        "linf": whole.linf / 2,
        "shifts": tuple(tuple(max(1, each // 2) for each in shift) for shift in whole.shifts),
    }
    return step.model_copy(update={"sensitivity": whole.model_copy(update=half)})
