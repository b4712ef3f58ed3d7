"""The accounting, for machines (``accounting.json``) and for people (``accounting.html``)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dprelease.canonical import indented
from dprelease.errors import UnsupportedEvent
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document.approval import approval_lines
from dprelease.plan.explain.facts import budget_facts, invariant_facts, loss_facts, plan_facts
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.filters import account_loss
from dprelease.publish.accounting.choices import (
    asked_and_planned,
    draw_row,
    has_random_scale,
    joins,
    joins_by_total,
    laws_of_loss,
    other_ways,
)
from dprelease.publish.accounting.clips import clip_facts
from dprelease.publish.accounting.curves import profile_of
from dprelease.publish.accounting.drawings import history_figures, profile_figure, trade_off_figure
from dprelease.publish.accounting.error_tables import SIZES, error_facts, error_rows
from dprelease.publish.accounting.glossary import (
    NOT_COVERED,
    SIGNATURE,
    compared,
    dictionary,
    not_protected,
    other_delta,
    post_processing,
    said_everywhere,
    suspicion,
    what_is_hidden,
    who_is_protected,
)
from dprelease.publish.accounting.guarantee import (
    NO_BOUND,
    allocation,
    chances_told,
    factor_text,
    guarantee,
    loss_totals,
    meanings,
    readable,
    shares,
    worked_example,
)
from dprelease.publish.accounting.guide import how_read, selections
from dprelease.publish.accounting.plan_words import told_by_plan
from dprelease.publish.accounting.threat_model import (
    ACTORS,
    MODEL,
    NOT_STATED,
    SECTIONS,
    SIDE_CHANNELS,
    apart,
    apart_facts,
    dpia,
    iso_terms,
    release_identity,
    report_fields,
    signature_line,
    surroundings,
)
from dprelease.publish.base import NOTICE, AccountFacts, CapChange, Content, Facts, Looked
from dprelease.publish.comparing.words import earlier_words
from dprelease.publish.html_text import render_page, utc
from dprelease.publish.numbers import at_most, odds_factor, percent
from dprelease.signature import PublicKey
from dprelease.words import amount, phrase

__all__ = ["account_row", "accounting_json", "accounting_page", "planned_accounting", "told_of_plan"]

MOST_ROWS, MOST_ATTRIBUTES = 500, 60
_TOLD = ("commit", "tree", "packages", "sampler", "entropy")


def planned_accounting(plan: ReleasePlan, fingerprint: str) -> dict[str, Any]:
    """The part of ``accounting.json`` that follows from the plan alone; ``check_bundle`` derives it again.

    Args:
        plan: As it is shown.
        fingerprint: The fingerprint of the plan that was measured.
    """
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
        "derived": [each.model_dump() for each in plan.derive],
        "invariants": invariant_facts(plan),
        "post_processing": list(post_processing(plan)),
        "not_protected": list(not_protected(plan)),
        "not_covered": list(NOT_COVERED),
        "plan_fingerprint": fingerprint,
        "spec_fingerprint": plan.spec_fingerprint,
        "signature": SIGNATURE,
        **guarantee(plan),
        **surroundings(plan),
        **apart_facts(plan),
        **error_facts(plan),
    }


def accounting(content: Content) -> dict[str, Any]:
    """All of ``accounting.json``: what was planned, and what the ledger says of its charge."""
    facts = content.facts
    return {
        **planned_accounting(content.plan, facts.plan_fingerprint),
        "accounts": [_account(content.plan, each) for each in facts.accounts],
        "windows": [_account(content.plan, each) for each in facts.windows],
        "approvals": [each.model_dump(mode="json") for each in facts.approvals],
        "restates": facts.restates.model_dump(mode="json") if facts.restates else None,
        **({"paid_by": facts.paid_by} if facts.paid_by is not None else {}),
        **({"compared_with": [each.model_dump(mode="json") for each in facts.earlier]} if facts.earlier else {}),
        "changed_data": list(facts.changed_data),
        "tuned_on_the_data": [each.model_dump(mode="json") for each in facts.looks],
        "cap_changes": [_cap_change(each) for each in facts.cap_changes],
        "environment": dict(sorted(facts.environment.items())),
        "ledger": facts.ledger,
        "rehearsal": facts.rehearsal,
        "notice": NOTICE if facts.rehearsal else "",
        "history": [{**each.model_dump(exclude={"after"}), "after": loss_facts(each.after)} for each in facts.history],
        **({"clips": clips} if (clips := clip_facts(content.plan, content.measurements)) else {}),
        **_signature(facts),
    }


def _signature(facts: Facts) -> dict[str, Any]:
    if not facts.signer:
        return {"signature": SIGNATURE, "signer": None}
    key = PublicKey.from_text(facts.signer)
    return {"signature": "manifest.sig", "signer": {"key": key.text, "fingerprint": key.fingerprint}}


def _cap_change(each: CapChange) -> dict[str, Any]:
    caps = {"before": budget_facts(each.before), "after": budget_facts(each.after)}
    return {**each.model_dump(include={"account", "sequence", "at"}), **caps}


def _events_of_the_ledger(facts: Facts) -> list[str]:
    """What a reader must know of how the release came about, in sentences."""
    found = [phrase("Approved by {line}.", line=line) for line in approval_lines(facts.approvals)]
    if facts.restates is not None:
        again = phrase("was paid with the first publication") if facts.paid_by else phrase("was charged again")
        found.append(
            phrase(
                "This release replaces the one of ledger entry {sequence} (plan {plan_fingerprint}), and {again}: "
                "{reason}",
                sequence=facts.restates.sequence,
                plan_fingerprint=facts.restates.plan_fingerprint[:12],
                again=again,
                reason=facts.restates.reason,
            )
        )
        if facts.restates.what:
            found.append(phrase("Beside the release that it replaces {what}.", what=facts.restates.what))
    found += [
        phrase("The data changed while it was measured, and that was accepted: {why}", why=why)
        for why in facts.changed_data
    ]
    found += [_look(each) for each in facts.looks]
    found += [
        phrase(
            "The cap of account {account} was changed from {before} to {after} by ledger entry {sequence}, {at}.",
            account=each.account,
            before=_budget(each.before),
            after=_budget(each.after),
            sequence=each.sequence,
            at=utc(each.at),
        )
        for each in facts.cap_changes
    ]
    return found


def _look(look: Looked) -> str:
    tables = ", ".join(look.tables)
    says = (
        phrase(
            "The plan was tuned while looking at these very data: on {at} a plan was compared with the truth in "
            "{tables}.",
            at=utc(look.at),
            tables=tables,
        )
        if look.tuned
        else phrase(
            "These very data were seen before they were released: on {at} `{command}` showed somebody how many rows "
            "and values of {tables} are empty, unreadable, or outside of what is declared.",
            at=utc(look.at),
            command=look.command,
            tables=tables,
        )
    )
    return phrase("{says} What that look gave away is no part of any loss that is stated here.", says=says)


def _account(plan: ReleasePlan, facts: AccountFacts) -> dict[str, Any]:
    alone = _alone(plan, facts)
    return {
        "name": facts.name,
        "unit": facts.unit,
        "composition": facts.composition,
        "cap": budget_facts(facts.cap),
        "before": loss_facts(facts.before),
        "this_release": None if alone is None else loss_facts(alone),
        "after": None if alone is None else loss_facts(facts.after),
        **({"window": facts.window} if facts.window else {}),
    }


def _alone(plan: ReleasePlan, facts: AccountFacts) -> Loss | None:
    """What this release alone costs an account, in its own composition and at its own delta.

    Where revisions are planned: the first publication and all of them. None: nothing is proved at that delta, so that
    nothing is proved of the account behind it either; such a charge is from before an erratum
    (``ledger.model.fault``).
    """
    account = next(each for each in plan.accounts if each.name == facts.name)
    try:
        events = [plan.at_revision(0).cost_of(account)]
        return account_loss(account.composition, events, facts.after.delta, kept=account.selecting, order=account.order)
    except UnsupportedEvent:
        return None


def accounting_json(content: Content) -> bytes:
    """Readable JSON; the same bytes for the same content."""
    return f"{indented(accounting(content))}\n".encode()


def accounting_page(
    content: Content,
    root: str = "",
    others: Sequence[tuple[str, str, str]] = (),
    columns: Sequence[tuple[str, str, str]] = (),
) -> bytes:
    """The page for whoever answers for the release, in the language that is spoken.

    ``root`` leads to the bundle; ``others`` are the page in other languages, ``columns`` the author's words on columns.
    """
    plan, facts = content.plan, content.facts
    return render_page(
        "accounting.html.j2",
        **said_everywhere(content),
        **told_of_plan(plan),
        identity=release_identity(plan, facts),
        signature=signature_line(facts.signer),
        happened=[*_events_of_the_ledger(facts), *earlier_words(plan, facts)],
        root=root,
        others=others,
        columns=columns,
        most_rows=MOST_ROWS,
        most_attributes=MOST_ATTRIBUTES,
        **_promised(plan, facts),
        **_done(plan),
        **_around(plan, facts),
    )


def told_of_plan(plan: ReleasePlan) -> dict[str, Any]:
    """What the accounting page and the certificate both say of a plan."""
    rows, attributes = meanings(plan)
    return {
        "plan": plan,
        "who": who_is_protected(plan),
        "hidden": what_is_hidden(plan),
        "meanings": rows,
        "attributes": attributes,
        "laws_of_loss": laws_of_loss(plan),
        "not_protected": not_protected(plan),
        "post_processing": post_processing(plan),
        "apart": apart(plan),
        "model": phrase(MODEL),
        "not_covered": tuple(map(phrase, NOT_COVERED)),
    }


def _promised(plan: ReleasePlan, facts: Facts) -> dict[str, Any]:
    """What the section on the guarantee names."""
    certified, profile = plan.loss[plan.certified], profile_of(plan)
    return {
        "suspicion": suspicion(plan),
        "budget": _budget(plan.budget),
        "exact_totals": [
            (sign, readable(text)) for sign, text in zip("εδρ", list(loss_totals(plan).values())[:3], strict=True)
        ],
        "losses": [
            (
                name,
                phrase(ACCOUNTANTS[name].words.how),
                at_most(loss.epsilon, 6),
                at_most(loss.delta),
                name == plan.certified,
            )
            for name, loss in sorted(plan.loss.items(), key=lambda each: list(ACCOUNTANTS).index(each[0]))
        ],
        "epsilon": at_most(certified.epsilon, 6),
        "delta": at_most(certified.delta),
        "factor": odds_factor(certified.epsilon),
        "chances": chances_told(plan),
        "how": phrase(ACCOUNTANTS[plan.certified].words.how),
        "compared": compared(plan),
        "asked_for": plan.accounting,
        "example": [(f"{was} %", odds, f"{low} %", f"{high} %") for was, odds, low, high in worked_example(certified)],
        "figures": [profile_figure(plan, profile), trade_off_figure(profile)],
        "accounts": [account_row(plan, each) for each in (*facts.accounts, *facts.windows)],
        "histories": history_figures(plan, facts),
        "other_delta": other_delta(certified, (*facts.accounts, *facts.windows)),
    }


def _done(plan: ReleasePlan) -> dict[str, Any]:
    """What the section on how it was done names."""
    return {
        "reading": how_read(plan),
        "selections": selections(plan),
        "shares": shares(plan),
        "allocation": [_allocated(each) for each in allocation(plan)],
        "steps": [draw_row(step) for step in plan.steps[:MOST_ROWS]],
        "joins": joins(plan),
        "joins_by_total": joins_by_total(plan),
        "random_scale": has_random_scale(plan),
        "outputs": asked_and_planned(plan, MOST_ROWS),
        "error_sizes": [amount(size) for size in SIZES],
        "error_rows": error_rows(plan),
        "error_moved": any(set(each.post) & {"nonnegative", "integer"} for each in plan.workloads),
        "unspent": told_by_plan(plan.unspent or ""),
        "targets": any(query.goal.targets for query in plan.queries),
        "other_ways": other_ways(plan),
        "derived": plan.derive,
    }


def _around(plan: ReleasePlan, facts: Facts) -> dict[str, Any]:
    """What the section on the surroundings names."""
    return {
        "actors": [tuple(map(phrase, each)) for each in ACTORS],
        "side_channels": tuple(map(phrase, SIDE_CHANNELS)),
        "environment": sorted({**dict.fromkeys(_TOLD, phrase(NOT_STATED)), **facts.environment}.items()),
        "dpia": dpia(plan),
        "iso_terms": iso_terms(plan),
        "fields": report_fields(plan),
        "sections": {name: phrase(words) for name, words in SECTIONS.items()},
    }


def _allocated(each: dict[str, Any]) -> dict[str, str]:
    return {
        "query": each["query"],
        "level": phrase("all") if each["level"] == "all" else each["level"],
        "draws": amount(len(each["steps"])),
        "cells": phrase("keys chosen") if each["cells"] is None else amount(each["cells"]),
        "share": percent(Fraction(each["share"])),
        "rho": at_most(Fraction(each["rho"]), 4),
        "reveals": at_most(Fraction(each["reveals"])),
    }


def _budget(budget: Budget) -> str:
    size, name = (budget.rho or Fraction(0), "ρ") if budget.epsilon is None else (budget.epsilon, "ε")
    return f"{name} = {at_most(size, 6)}, δ = {at_most(budget.delta)}"


def account_row(plan: ReleasePlan, facts: AccountFacts) -> dict[str, str]:
    """An account as a page shows it: before, this release alone and after, at the account's delta; all rounded up."""
    alone = _alone(plan, facts)
    return {
        "name": facts.label,
        "unit": facts.unit,
        "composition": facts.composition,
        "before": at_most(facts.before.epsilon, 6),
        "alone": phrase(NO_BOUND) if alone is None else at_most(alone.epsilon, 6),
        "after": phrase(NO_BOUND) if alone is None else at_most(facts.after.epsilon, 6),
        "cap": _budget(facts.cap),
        "delta": at_most(facts.after.delta),
        "factor": "" if alone is None else factor_text(facts.after.epsilon),
    }
