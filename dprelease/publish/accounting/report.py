"""The accounting, for machines (``accounting.json``) and for people (``accounting.html``)."""

from __future__ import annotations

import json
from typing import Any

from dprelease.plan.approved import approval_lines
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain import budget_facts, loss_facts, plan_facts
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Loss
from dprelease.privacy.filters import account_loss
from dprelease.publish.accounting.choices import asked_and_planned, draw, joins, laws_of_loss, other_ways
from dprelease.publish.accounting.reading import how_read, selections
from dprelease.publish.accounting.words import (
    BY_ACCOUNTANT,
    NOT_COVERED,
    SIGNATURE,
    dictionary,
    not_protected,
    post_processing,
    relation,
    what_is_hidden,
    who_is_protected,
)
from dprelease.publish.base import NOTICE, AccountFacts, CapChange, Content, Facts
from dprelease.publish.derive.tables import derived_of
from dprelease.publish.numbers import at_most, odds_factor, percent, surest_guess
from dprelease.publish.site.pages import page, utc

__all__ = ["accounting", "accounting_json", "accounting_page", "planned"]

MOST_ROWS = 500


def planned(plan: ReleasePlan) -> dict[str, Any]:
    """The part of ``accounting.json`` that follows from the plan alone; ``check_bundle`` derives it again."""
    release = plan.release
    return {
        **plan_facts(plan),
        "format": 1,
        "title": release.title,
        "curator": release.curator,
        "contact": release.contact,
        "intended_use": release.intended_use,
        "certified": plan.certified,
        "unit": {"entity": plan.unit.entity, "per": plan.unit.per},
        "neighboring": str(plan.neighboring),
        "confidence": str(plan.publish.confidence),
        "references": [
            {"name": name, "file": each.file, "sha256": each.sha256}
            for name, each in sorted(plan.catalog.references.items())
        ],
        "dictionary": dictionary(plan),
        "reading": list(how_read(plan)),
        "selections": list(selections(plan)),
        "derived": [{"name": each.name, "title": each.title, "sql": each.sql} for each in derived_of(plan)],
        "invariants": [],
        "post_processing": list(post_processing(plan)),
        "not_protected": list(not_protected(plan)),
        "not_covered": list(NOT_COVERED),
        "plan_fingerprint": plan.fingerprint(),
        "spec_fingerprint": plan.spec_fingerprint,
        "signature": SIGNATURE,
    }


def accounting(content: Content) -> dict[str, Any]:
    """All of ``accounting.json``: what was planned, and what the ledger says of its charge."""
    facts = content.facts
    return {
        **planned(content.plan),
        "accounts": [_account(content.plan, each) for each in facts.accounts],
        "windows": [{**_account(content.plan, each), "window": each.window} for each in facts.windows],
        "approvals": [each.model_dump(mode="json") for each in facts.approvals],
        "restates": facts.restates.model_dump(mode="json") if facts.restates else None,
        "changed_data": list(facts.changed_data),
        "cap_changes": [_cap_change(each) for each in facts.cap_changes],
        "environment": dict(sorted(facts.environment.items())),
        "ledger": {"sequence": facts.ledger_sequence, "hash": facts.ledger_hash, "reserved_at": facts.reserved_at},
        "rehearsal": facts.rehearsal,
        "notice": NOTICE if facts.rehearsal else "",
    }


def _cap_change(each: CapChange) -> dict[str, Any]:
    return {
        "account": each.account,
        "sequence": each.sequence,
        "at": each.at,
        "before": budget_facts(each.before),
        "after": budget_facts(each.after),
    }


def _events_of_the_ledger(facts: Facts) -> list[str]:
    """What a reader must know of how the release came about, in sentences."""
    found = [f"Approved by {line}." for line in approval_lines(facts.approvals)]
    if facts.restates is not None:
        found.append(
            f"This release replaces the one of ledger entry {facts.restates.sequence} (plan "
            f"{facts.restates.plan_fingerprint[:12]}), and was charged again: {facts.restates.reason}"
        )
    found += [f"The data changed while it was measured, and that was accepted: {why}" for why in facts.changed_data]
    for each in facts.cap_changes:
        before = _budget(each.before.epsilon, each.before.rho, each.before.delta)
        after = _budget(each.after.epsilon, each.after.rho, each.after.delta)
        found.append(
            f"The cap of account {each.account} was changed from {before} to {after} by ledger entry {each.sequence}, "
            f"{utc(each.at)}."
        )
    return found


def _account(plan: ReleasePlan, facts: AccountFacts) -> dict[str, Any]:
    alone = _alone(plan, facts)
    return {
        "name": facts.name,
        "unit": facts.unit,
        "composition": facts.composition,
        "cap": budget_facts(facts.cap),
        "before": loss_facts(facts.before),
        "this_release": loss_facts(alone),
        "after": loss_facts(facts.after),
    }


def _alone(plan: ReleasePlan, facts: AccountFacts) -> Loss:
    """What this release alone costs an account, in its own composition and at its own delta."""
    account = next(each for each in plan.accounts if each.name == facts.name)
    events = [plan.cost_of(account)]
    return account_loss(account.composition, events, facts.after.delta, kept=account.selecting, order=account.order)


def accounting_json(content: Content) -> bytes:
    """Readable JSON; the same bytes for the same content."""
    return (json.dumps(accounting(content), indent=1, ensure_ascii=False) + "\n").encode()


def accounting_page(content: Content) -> bytes:
    """The page for whoever answers for the release."""
    plan, facts = content.plan, content.facts
    certified = plan.loss[plan.certified]
    return page(
        "accounting.html.j2",
        release=plan.release,
        title=plan.release.title or plan.release.name,
        facts=facts,
        charged=utc(facts.reserved_at),
        notice=NOTICE if facts.rehearsal else "",
        plan=plan,
        unit=str(plan.unit),
        relation=relation(plan),
        who=who_is_protected(plan),
        reading=how_read(plan),
        selections=selections(plan),
        derived=derived_of(plan),
        hidden=what_is_hidden(plan),
        budget=_budget(plan.budget.epsilon, plan.budget.rho, plan.budget.delta),
        losses=[
            (name, BY_ACCOUNTANT[name], at_most(loss.epsilon, 6), at_most(loss.delta), name == plan.certified)
            for name, loss in sorted(plan.loss.items(), key=lambda each: list(ACCOUNTANTS).index(each[0]))
        ],
        epsilon=at_most(certified.epsilon, 6),
        delta=at_most(certified.delta),
        factor=odds_factor(certified.epsilon),
        guess=surest_guess(certified.epsilon, certified.delta),
        how=BY_ACCOUNTANT[plan.certified],
        asked_for=plan.accounting,
        steps=[draw(step) for step in plan.steps[:MOST_ROWS]],
        laws_of_loss=laws_of_loss(plan),
        joins=joins(plan),
        accounts=[_account_row(plan, each) for each in (*facts.accounts, *facts.windows)],
        happened=_events_of_the_ledger(facts),
        outputs=asked_and_planned(plan, MOST_ROWS),
        targets=any(query.goal.targets for query in plan.queries),
        other_ways=other_ways(plan),
        most_rows=MOST_ROWS,
        confidence=percent(plan.publish.confidence),
        post_processing=post_processing(plan),
        not_protected=not_protected(plan),
        not_covered=NOT_COVERED,
        environment=sorted(facts.environment.items()),
    )


def _budget(epsilon: Any, rho: Any, delta: Any) -> str:
    name, size = ("ε", epsilon) if epsilon is not None else ("ρ", rho)
    return f"{name} = {at_most(size, 6)}, δ = {at_most(delta)}"


def _account_row(plan: ReleasePlan, facts: AccountFacts) -> dict[str, str]:
    alone = _alone(plan, facts)
    return {
        "name": f"{facts.name}, {facts.window}" if facts.window else facts.name,
        "unit": facts.unit,
        "composition": facts.composition,
        "before": at_most(facts.before.epsilon, 6),
        "alone": at_most(alone.epsilon, 6),
        "after": at_most(facts.after.epsilon, 6),
        "cap": _budget(facts.cap.epsilon, facts.cap.rho, facts.cap.delta),
        "delta": at_most(facts.after.delta),
    }
