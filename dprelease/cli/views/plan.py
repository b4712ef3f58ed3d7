"""``dprelease plan``: what each query will cost and how accurate it will be."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.catalog.aggregate import Quantity
from dprelease.cli.views import columns, say, say_json, warn
from dprelease.cli.views.horizon import horizon_facts, print_horizon
from dprelease.cli.views.workloads import workload_rows
from dprelease.errors import BudgetExceeded, LedgerError, MissingExtra, PlanError, Problem, UnsupportedEvent
from dprelease.ledger import NO_SERIES, AccountLosses, Ledger, Reservation
from dprelease.plan.compare import compare as compare_plan
from dprelease.plan.document import Feed, FrozenPlan, Invariant, Measured, Output, PlannedQuery, ReleasePlan
from dprelease.plan.explain import allocation_text, loss_facts, pieces_texts, plan_facts, relative_error, unprotected
from dprelease.plan.memory import memory_of
from dprelease.plan.rounded import grid_texts
from dprelease.plan.second_opinion import second_opinion
from dprelease.plan.solve import WhatIf
from dprelease.privacy.budget import round_up
from dprelease.release.planning import Target, charges, freeze, open_target, plan_at_least, plan_release, plans_at
from dprelease.release.revisions import payer_of

__all__ = ["show_plan"]

_MOST_CONSIDERED = 4
_WORTH_A_WORD = 500  # MB


def show_plan(
    spec: Path,
    out: Path | None,
    *,
    compare: bool,
    solve: bool,
    epsilons: tuple[Fraction, ...],
    as_json: bool,
    period: str | None = None,
    horizon: int = 0,
) -> None:
    """Make the plan, show it, and freeze it where asked; look ``horizon`` releases ahead.

    Raises:
        PlanError: If a plan at another budget than the spec's is to be frozen.
        BudgetExceeded: After showing it, if an account could not pay for it.
    """
    target = open_target(spec, period)
    if solve and out is not None:
        raise PlanError(
            "--solve plans another budget than the spec's, and only the spec's own plan can be frozen",
            hint="write the epsilon that --solve finds into the spec, then use --out",
            code="DPR-P303",
        )
    plan = plan_at_least(target) if solve else plan_release(target)
    warn(target.loaded.warnings)
    ledger = target.project.open_ledger()
    known = ledger.find(plan.release.name, plan.release.period)
    known = payer_of(ledger, known) if known is not None else None
    frozen = freeze(target, plan, ledger.heads([account.name for account in plan.accounts]))
    accounts = _accounts(target, plan, ledger, known)
    tried = plans_at(target, epsilons) if epsilons else ()
    seen = horizon_facts(target, plan, ledger, horizon) if horizon else {}
    if out is not None:
        out.write_text(frozen.canonical() + "\n", encoding="utf-8")
    if as_json:
        facts = {**plan_facts(plan), "plan_fingerprint": frozen.plan_fingerprint, "accounts": accounts}
        facts |= {"memory_mb": asdict(memory_of(plan))}
        facts |= _revision_facts(target)
        facts |= {"compare": _comparison(plan)} if compare else {}
        facts |= {"what_if": [_what_if_facts(each) for each in tried]} if tried else {}
        facts |= {"horizon": seen} if seen else {}
        say_json(facts)
    else:
        if solve:
            say(f"the smallest epsilon that meets every target: {round_up(plan.budget.epsilon or Fraction(0), 6)}\n")
        _print(plan, frozen, accounts)
        _print_revisions(target, plan)
        if compare:
            _print_comparison(plan)
        if tried:
            _print_what_if(plan, tried)
        if seen:
            print_horizon(seen)
        if known is not None:
            same = known.plan_fingerprint == frozen.plan_fingerprint
            then = "`dprelease run` spends nothing more on it" if same else "with another plan; release another period"
            say(f"\n{known.release}/{known.period} is already {known.state}: {then}")
        if out is not None:
            say(f"\nfrozen in {out}; `dprelease run {out}` refuses it once spec, policy or ledger have moved")
    for account in accounts:
        if not account["fits"]:
            raise BudgetExceeded(
                f"account {account['name']!r}{_window(account)} cannot pay for this plan: " + _above(account),
                hint="lower the budget, or ask the data owner to raise the cap; see `dprelease ledger status`",
            )


def _revision_facts(target: Target) -> dict[str, Any]:
    """When a period is released again, and what becomes of late rows; nothing where nothing is said of either."""
    schedule = target.loaded.spec.schedule
    if schedule is None or not (schedule.revisions or schedule.late_rows):
        return {}
    late = "next_revision" if schedule.takes_late_rows else "never"
    return {"schedule": {"revisions": [str(each) for each in schedule.revisions], "late_rows": late}}


def _print_revisions(target: Target, plan: ReleasePlan) -> None:
    """What becomes of rows that come after the release, where it has a schedule."""
    schedule, count = target.loaded.spec.schedule, plan.release.revisions
    if schedule is None:
        return
    if not count:
        say("rows that come after a release are never published: no revision is planned")
        return
    times = ", ".join(str(each) for each in schedule.revisions)
    say(f"published {1 + count} times: {count} planned revision(s), {times} after the period's end, each with the rows")
    say(f"that came late; the accounts are charged for all {1 + count} at once, and a revision then costs nothing")


def _above(account: dict[str, Any]) -> str:
    if Fraction(account["after_delta"]) > Fraction(account["delta"]):
        return f"no finite epsilon holds at delta {account['delta']}, which is what its cap is about"
    return f"epsilon {account['after']} would exceed {account['cap']}"


def _accounts(target: Target, plan: ReleasePlan, ledger: Ledger, known: Reservation | None) -> list[dict[str, Any]]:
    """Each account before and with this release; as it was charged where it is charged already."""
    if known is not None and known.state != "lost":
        return [_account(facts, fits=True) for facts in (*known.accounts, *known.windows)]
    asked = charges(plan, target.loaded)
    try:
        charged, refused = ledger.quote(asked, plan.release.period)
    except UnsupportedEvent as error:
        raise BudgetExceeded(f"an account of this plan: {error.summary}", hint=error.hint) from None
    except LedgerError as error:
        if error.code != NO_SERIES:
            raise
        warn([Problem(error.code, error.summary, error.hint)])  # to be opened with this very plan
        return []
    accounts = []
    for charge in charged:
        no = {(each.name, each.window) for each in refused}
        for facts in (charge.facts, *charge.further):
            accounts.append(_account(facts, fits=(facts.name, facts.window) not in no))
    return accounts


def _account(facts: AccountLosses, *, fits: bool) -> dict[str, Any]:
    return {
        "name": facts.name,
        "composition": facts.composition,
        "before": round_up(facts.before.epsilon),
        "after": round_up(facts.after.epsilon),
        "cap": str(facts.cap.epsilon or Fraction(0)),
        "delta": round_up(facts.cap.delta),
        "after_delta": round_up(facts.after.delta),
        "fits": fits,
        "window": facts.window,
    }


def _window(account: dict[str, Any]) -> str:
    return f", {account['window']}" if account["window"] else ""


def _print(plan: ReleasePlan, frozen: FrozenPlan, accounts: list[dict[str, Any]]) -> None:
    certified = loss_facts(plan.loss[plan.certified])
    say(f"{plan.release.name}/{plan.release.period}: {plan.release.title or 'untitled'}")
    cost = f"epsilon {certified['epsilon']} at delta {certified['delta']}"
    cost += ", each time that it is published" if plan.release.revisions else ""
    say(f"protects one {plan.unit} ({plan.neighboring.value}); costs {cost}")
    if plan.invariants:
        say(unprotected(plan))
    say(f"certified by {plan.certified}; plan {frozen.plan_fingerprint[:16]}\n")
    confidence = f"{float(plan.publish.confidence):.0%} margin"
    header = ["query", "measure", "cells", "mechanism", "scale", "share", confidence, "relative"]
    say(columns(header, _rows(plan), right=frozenset({2, 4, 5, 6, 7})))
    for note in sorted({output.why_null for output in plan.outputs if output.why_null}):
        say(f"\n*  {note}")
    say("")
    if plan.allocation is not None:
        say(allocation_text(plan))
    if plan.naive is not None:
        say(f"the naive plan ({plan.naive.accounts_for}) would have {plan.naive.noise} times this noise,")
        say(f"and charge an account epsilon {plan.naive.charged}")
    for each in plan.considered[:_MOST_CONSIDERED]:
        say(f"{each.name}: {each.noise} times this noise" + (f"; {each.why_not}" if each.why_not else ""))
    if plan.unspent is not None:
        say(plan.unspent)
    for text in (*grid_texts(plan), *pieces_texts(plan)):
        say(text)
    _print_memory(plan)
    for account in accounts:
        state = "" if account["fits"] else "   DOES NOT FIT"
        say(
            f"account {account['name']}{_window(account)} ({account['composition']}): epsilon "
            f"{account['before']} spent, {account['after']} with this release, of {account['cap']} "
            f"at delta {account['delta']}{state}"
        )


def _print_memory(plan: ReleasePlan) -> None:
    """What a large release takes; of others it is the libraries that do."""
    memory = memory_of(plan)
    if max(memory.draw, memory.publish) >= _WORTH_A_WORD:
        say(
            f"memory: about {memory.draw / 1000:.1f} GB to draw the largest answers, and what the rows take; "
            f"{memory.publish / 1000:.1f} GB to publish"
        )


def _rows(plan: ReleasePlan) -> list[list[str]]:
    rows = []
    outputs = {(output.query, output.measure): output for output in plan.outputs}
    for query in (each for each in plan.queries if each.workload is None):
        rows += _key_rows(plan, query)
        for label in query.inputs:
            output = outputs[query.name, label]
            relative = relative_error(query, output)
            for k, feed in enumerate(_own(plan, query, label)):
                step = plan.taken(feed.step)
                quantity = step.parts[feed.part]
                first = ["" if rows and k else query.name, label if k == 0 else f"  + {quantity.kind}"]
                last = ["", ""] if k else [_margin(output), "" if relative is None else f"{float(relative):.2%}"]
                rows.append([*first, *_step_cells(step, quantity), *last])
    for workload in plan.workloads:
        rows += workload_rows(plan, workload)
    return rows


def _own(plan: ReleasePlan, query: PlannedQuery, label: str) -> list[Feed]:
    """What a measure is fed by; of quantiles that are put in order together only its own one."""
    measure = query.measures[label]
    return [feed for feed in query.inputs[label] if measure.own(plan.taken(feed.step).parts[feed.part])]


def _margin(output: Output) -> str:
    return _told(output.margin) if output.margin else "*"


def _told(margin: str) -> str:
    """To four digits, and whole from a thousand on, as Prefect's page has it."""
    number = float(margin)
    return f"± {number:,.0f}" if number >= 1000 else f"± {number:.4g}"


def _step_cells(step: Measured, quantity: Quantity) -> list[str]:
    """Cells, mechanism, scale and share of a step; the scale of a choice is in ranks."""
    if isinstance(step, Invariant):
        return [str(step.cells), "none: exact", "", ""]
    unit = Fraction(1) if step.choosing is not None else quantity.grid
    if step.factor is not None:
        unit /= step.factor.grain
    return [
        "selected" if step.cells is None else str(step.cells),
        step.mechanism.replace("_", " "),
        f"{float(step.scale * unit):,.4g}",
        f"{float(step.share):.1%}",
    ]


def _key_rows(plan: ReleasePlan, query: PlannedQuery) -> list[list[str]]:
    """What decides which keys appear, and what makes a list."""
    rows = []
    if query.selection is not None:
        step = plan.step(query.selection)
        least = f"from {step.selecting.threshold:,}" if step.selecting is not None else ""
        rows.append([query.name, "keys", *_step_cells(step, step.parts[0]), least, ""])
    if query.ranking is not None:
        step = plan.step(query.ranking.step)
        rows.append([query.name, f"first {query.ranking.k}", *_step_cells(step, step.parts[0]), "*", ""])
    return rows


def _comparison(plan: ReleasePlan) -> list[dict[str, Any]]:
    """The loss of this plan under each accountant, and the noise that each would have needed for the budget."""
    return [
        {
            "accountant": each.accountant,
            "epsilon": None if each.epsilon is None else round_up(each.epsilon, 8),
            "noise_needed": None if each.noise is None else round_up(each.noise, 4),
            "why_not": each.why_not,
        }
        for each in compare_plan(plan)
    ]


def _print_comparison(plan: ReleasePlan) -> None:
    rows = [
        [
            each["accountant"],
            each["epsilon"] or "cannot say",
            f"{each['noise_needed']} x" if each["noise_needed"] else "-",
        ]
        for each in _comparison(plan)
    ]
    say("")
    say(columns(["accountant", "epsilon of this plan", "noise it would need"], rows, right=frozenset({1, 2})))
    try:
        opinions = second_opinion(plan)
    except MissingExtra as error:
        say(f"\nno second opinion: {error.summary}; {error.hint}")
        return
    say("\nsecond opinion by dp_accounting")
    rows = [
        [each.accountant, each.ours, each.theirs, "agrees" if each.agrees else "DIFFERS", each.rule]
        for each in opinions
    ]
    say(columns(["accountant", "ours", "theirs", "", "rule"], rows, right=frozenset({1, 2})))


def _what_if_facts(tried: WhatIf) -> dict[str, Any]:
    return {
        "epsilon": str(tried.epsilon),
        "outputs": [output.model_dump(mode="json") for output in tried.outputs],
        "refusal": tried.refusal,
    }


def _print_what_if(plan: ReleasePlan, tried: tuple[WhatIf, ...]) -> None:
    header = ["query", "measure", *(f"epsilon {float(each.epsilon):g}" for each in tried)]
    rows = []
    for at, output in enumerate(plan.outputs):
        margins = [each.outputs[at].margin if each.outputs else None for each in tried]
        texts = [_told(margin) if margin else "-" for margin in margins]
        rows.append([output.query, output.measure, *texts])
    say(f"\nmargins of error at {float(plan.publish.confidence):.0%}, against the budget")
    say(columns(header, rows, right=frozenset(range(2, 2 + len(tried)))))
    for each in tried:
        if each.refusal:
            say(f"epsilon {float(each.epsilon):g}: {each.refusal}")
