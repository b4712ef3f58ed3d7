"""Releases of every kind of guarantee, as bundles, for the test that reads all of their sentences about privacy."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from html import escape

import numpy as np

from dprelease.noise import Measurement
from dprelease.plan.document import Account, ReleasePlan
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.filters import account_loss
from dprelease.privacy.unit import Neighboring
from dprelease.publish import AccountFacts, Facts, render
from dprelease.publish.base import AccountPoint, Content
from dprelease.publish.certificate.pdf import certificate_texts
from dprelease.publish.measured import inputs_of, queries_as_tables
from tests.planned import SPEC, plan_of
from tests.unit.publish_example import facts as example_facts

__all__ = ["BUNDLES", "bundle", "content_named", "plan_named"]

_PURE = SPEC.replace("budget: {epsilon: 1, delta: 1e-9}", "budget: {epsilon: 1/2, delta: 0}")
_REPLACED = SPEC.replace("unit: {entity: person}", "unit: {entity: person}\n  neighboring: replace_one")
_ROWS = SPEC.replace("unit: {entity: person}", "unit: {entity: row}").replace("delta: 1e-9", "delta: 1e-6")
_MANY = SPEC.replace("budget: {epsilon: 1, delta: 1e-9}", "budget: {epsilon: 3, delta: 1e-7}") + "".join(
    f"  more{at}: {{table: people, by: [sex], where: 'income > {at}', measures: {{persons: {{count: rows}}}}}}\n"
    for at in range(12)
)
_NESTED = """
dprelease: 1
release: {name: survey, period: 2024, title: A survey, curator: The office}
privacy: {unit: {entity: person}, budget: {epsilon: 2, delta: 1e-9}}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      state: {type: text, keys: ["01", "02", "06"]}
      region: {map: state, to: {"01": N, "02": N, "06": S}}
      sex: {type: integer, keys: [1, 2]}
queries:
  states: {table: people, by: [state, sex], measures: {persons: {count: rows}}}
  regions: {table: people, by: [region], measures: {persons: {count: rows}}}
"""
_CHOSEN = """
dprelease: 1
release: {name: words, period: 2024}
privacy: {unit: {entity: user}, budget: {epsilon: 2, delta: 1e-8}}
tables:
  searches:
    account: web
    source: {file: searches.csv}
    unit_id: user_id
    bounds: {max_rows: 3}
    columns:
      term: {type: text}
      sex: {type: integer, keys: [1, 2]}
queries:
  terms: {table: searches, by: [term], keys: private, bounds: {max_groups: 2}, measures: {users: {count: units}}}
  sexes: {table: searches, by: [sex], measures: {searches: {count: rows}}}
"""
BUNDLES: Mapping[str, str] = {
    "gaussian": SPEC,
    "pure": _PURE,
    "replace one": _REPLACED,
    "unit row": _ROWS,
    "composed": _MANY,
    "nested": _NESTED,
    "selection": _CHOSEN,
}


@cache
def plan_named(name: str) -> ReleasePlan:
    """The plan of one of them, with an account whose cap has another delta than the release."""
    text = BUNDLES[name]
    made = plan_of(text)
    accounts = [
        Account(
            name=each.name,
            unit=each.unit,
            neighboring=Neighboring(each.neighboring),
            composition="zcdp",
            lifetime=Budget(epsilon=Fraction(9), delta=Fraction(1, 10**5)),
            selecting=Fraction(1, 2 * 10**5),
        )
        for each in made.accounts
    ]
    return plan_of(text, accounts=accounts)


def _facts(plan: ReleasePlan) -> Facts:
    accounts, history = [], []
    for account in plan.accounts:
        delta = account.lifetime.delta
        events = [plan.cost_of(account)]
        after = account_loss(account.composition, events, delta, kept=account.selecting, order=account.order)
        before = Loss(epsilon=Fraction(0), delta=delta)
        accounts.append(
            AccountFacts(
                name=account.name,
                unit=account.unit,
                composition=account.composition,
                cap=account.lifetime,
                before=before,
                after=after,
            )
        )
        history += [  # an account is drawn from its second charge on
            AccountPoint(account=account.name, release=plan.release.name, period=period, sequence=sequence, after=loss)
            for period, sequence, loss in (("2023", 9, before), (plan.release.period, 17, after))
        ]
    return example_facts(plan, accounts=tuple(accounts), history=tuple(history))


def _measured(plan: ReleasePlan) -> dict[str, Measurement]:
    found = {}
    for step in plan.steps:
        if step.selecting is not None:
            found[step.id] = Measurement(step.id, np.ones(2, dtype=np.int64), keys=(("one",), ("two",)))
        else:
            found[step.id] = Measurement(step.id, np.arange(1, (step.numbers or 2) + 1) * 1000)
    return found


@cache
def bundle(name: str) -> Mapping[str, bytes]:
    """Its pages and texts, and the texts that its certificate is made of, as a page of paragraphs."""
    plan = plan_named(name)
    facts = _facts(plan)
    files = render(plan, _measured(plan), facts).files
    kept = {path: files[path] for path in files if path.endswith((".html", ".md", ".yaml", "accounting.json"))}
    texts = "".join(f"<p>{escape(text)}</p>" for text in certificate_texts(Content(plan, (), facts, {})))
    return {**kept, "certificate.html": texts.encode()}


@cache
def content_named(name: str) -> Content:
    """What its pages are made of."""
    plan = plan_named(name)
    inputs = inputs_of(plan, _measured(plan))
    return Content(plan, queries_as_tables(plan, inputs), _facts(plan), _measured(plan))
