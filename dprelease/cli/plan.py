"""``dprelease plan``: what each query will cost and how accurate it will be."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.cli.views import columns, say, say_json
from dprelease.errors import BudgetExceeded, MissingExtra, UnsupportedEvent
from dprelease.ledger import open_ledger, price
from dprelease.plan.document import FrozenPlan, ReleasePlan, Standing, Step
from dprelease.plan.explain import loss_facts, plan_facts
from dprelease.plan.second_opinion import second_opinion
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import round_up
from dprelease.privacy.calibrate import Demand, calibrate
from dprelease.privacy.event import Composed
from dprelease.release.planning import Target, charges, freeze, open_target, plan_release

__all__ = ["show_plan"]


def show_plan(spec: Path, out: Path | None, *, compare: bool, as_json: bool) -> None:
    """Make the plan, show it, and freeze it where asked.

    Raises:
        BudgetExceeded: After showing it, if an account could not pay for it.
    """
    target = open_target(spec)
    plan = plan_release(target.project, target.loaded)
    ledger = open_ledger(target.project.settings.ledger, target.project.folder)
    known = ledger.find(plan.release.name, plan.release.period)
    standing = ledger.standing([account.name for account in plan.accounts])
    frozen = freeze(target, plan, standing)
    accounts = _accounts(target, plan, standing, charged=known is not None)
    if out is not None:
        out.write_text(frozen.canonical() + "\n", encoding="utf-8")
    if as_json:
        facts = {**plan_facts(plan), "plan_fingerprint": frozen.plan_fingerprint, "accounts": accounts}
        say_json({**facts, "compare": _comparison(plan)} if compare else facts)
    else:
        _print(plan, frozen, accounts, compare=compare)
        if known is not None:
            same = known.plan_fingerprint == frozen.plan_fingerprint
            then = "`dprelease run` spends nothing more on it" if same else "with another plan; release another period"
            say(f"\n{known.release}/{known.period} is already {known.state}: {then}")
        if out is not None:
            say(f"\nfrozen in {out}; `dprelease run {out}` refuses it once spec, policy or ledger have moved")
    for account in accounts:
        if not account["fits"]:
            raise BudgetExceeded(
                f"account {account['name']!r} cannot pay for this plan: "
                f"epsilon {account['after']} would exceed {account['cap']}",
                hint="lower the budget, or ask the data owner to raise the cap; see `dprelease ledger status`",
            )


def _accounts(target: Target, plan: ReleasePlan, standing: Standing, *, charged: bool) -> list[dict[str, Any]]:
    """Each account before and with this release; the same figure where the release is charged already."""
    found = []
    for charge in charges(plan, target.loaded):
        account, earlier = charge.account, standing.of(charge.account.name).charged
        try:
            facts = price(account, earlier, Composed() if charged else charge.events, charge.cap)
        except UnsupportedEvent as error:
            raise BudgetExceeded(f"account {account.name!r}: {error.summary}", hint=error.hint) from None
        limit = charge.cap.epsilon or Fraction(0)
        found.append(
            {
                "name": account.name,
                "composition": account.composition,
                "before": round_up(facts.before.epsilon),
                "after": round_up(facts.after.epsilon),
                "cap": str(limit),
                "delta": round_up(charge.cap.delta),
                "fits": facts.after.epsilon <= limit,
            }
        )
    return found


def _print(plan: ReleasePlan, frozen: FrozenPlan, accounts: list[dict[str, Any]], *, compare: bool) -> None:
    certified = loss_facts(plan.loss[plan.certified])
    say(f"{plan.release.name}/{plan.release.period}: {plan.release.title or 'untitled'}")
    cost = f"epsilon {certified['epsilon']} at delta {certified['delta']}"
    say(f"protects one {plan.unit} ({plan.neighboring.value}); costs {cost}")
    say(f"certified by {plan.certified}; plan {frozen.plan_fingerprint[:16]}\n")
    confidence = f"{float(plan.publish.confidence):.0%} margin"
    header = ["query", "measure", "cells", "mechanism", "scale", "L1", "L2", "share", confidence]
    say(columns(header, _rows(plan), right=frozenset({2, 4, 5, 6, 7, 8})))
    for note in sorted({output.why_null for output in plan.outputs if output.why_null}):
        say(f"\n*  {note}")
    say("")
    for account in accounts:
        state = "" if account["fits"] else "   DOES NOT FIT"
        say(
            f"account {account['name']} ({account['composition']}): epsilon {account['before']} spent, "
            f"{account['after']} with this release, of {account['cap']} at delta {account['delta']}{state}"
        )
    if compare:
        say("")
        _print_comparison(plan)


def _rows(plan: ReleasePlan) -> list[list[str]]:
    rows = []
    for output in plan.outputs:
        for k, step in enumerate(plan.step(step_id) for step_id in output.steps):
            grid = float(step.aggregate.quantity.step)
            rows.append(
                [
                    output.query if k == 0 else "",
                    output.measure if k == 0 else f"  + {step.aggregate.quantity.kind}",
                    str(step.cells),
                    step.mechanism.replace("_", " "),
                    f"{float(step.scale) * grid:,.4g}",
                    f"{float(step.sensitivity.l1) * grid:,.4g}",
                    f"{float(step.sensitivity.l2_squared) ** 0.5 * grid:,.4g}",
                    f"{float(step.share):.1%}",
                    ("" if k else f"± {float(output.margin):,.4g}" if output.margin else "*"),
                ]
            )
    return rows


def _comparison(plan: ReleasePlan) -> list[dict[str, Any]]:
    """The loss of this plan under each accountant, and the noise that each would have needed for the budget."""
    found = []
    for name in ACCOUNTANTS:
        loss = plan.loss.get(name)  # type: ignore[call-overload]  # names of ACCOUNTANTS
        needed = _needed(plan, name)
        found.append(
            {
                "accountant": name,
                "epsilon": loss_facts(loss)["epsilon"] if loss else None,
                "noise_needed": None if needed is None else f"{needed:.4g}",
            }
        )
    return found


def _needed(plan: ReleasePlan, accounting: str) -> float | None:
    """How many times this plan's noise the same steps would need if only this accountant were allowed."""
    first: Step = plan.steps[0]
    family = "laplace" if first.mechanism == "discrete_laplace" else "gaussian"
    demands = [Demand(step.sensitivity, step.share) for step in plan.steps]
    try:
        scales = calibrate(demands, family, accounting, plan.budget)  # type: ignore[arg-type]  # one of the two families
    except UnsupportedEvent:
        return None
    return float(scales[0] / first.scale)


def _print_comparison(plan: ReleasePlan) -> None:
    rows = [
        [
            each["accountant"],
            each["epsilon"] or "cannot say",
            f"{each['noise_needed']} x" if each["noise_needed"] else "-",
        ]
        for each in _comparison(plan)
    ]
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
