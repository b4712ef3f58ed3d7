"""``dprelease plan``: what each query will cost and how accurate it will be."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.catalog.aggregate import Quantity, cells_of
from dprelease.cli.views import as_decimal, complain_of, say, say_json, text_table, warn
from dprelease.cli.views.totals import print_totals
from dprelease.errors import MissingExtra, NoOpinion
from dprelease.freed_memory import memory_left
from dprelease.plan.document import Feed, FrozenPlan, Invariant, Measured, Output, PlannedQuery, ReleasePlan, Workload
from dprelease.plan.explain.cluster import cluster_texts
from dprelease.plan.explain.facts import (
    allocation_text,
    compared_text,
    passes_texts,
    pieces_texts,
    relative_error,
    unprotected,
)
from dprelease.plan.explain.facts import compare as compare_plan
from dprelease.plan.explain.figures import figure_texts
from dprelease.plan.explain.memory import memory_lacking, memory_of
from dprelease.plan.explain.rounding import grid_texts
from dprelease.plan.explain.shared_noise import series_texts
from dprelease.plan.forecast.other_budgets import Aim, WhatIf
from dprelease.plan.verify.second_opinion import second_opinion
from dprelease.privacy.budget import round_up
from dprelease.release.opinion import figures_beside
from dprelease.release.planning import Target, open_target, plans_at
from dprelease.release.quote import plan_or_solve, quote_plan, solved_facts, what_if_facts, window_of

__all__ = ["show_plan", "workload_rows"]

_MOST_CONSIDERED = 4


def show_plan(
    spec: Path,
    out: Path | None,
    *,
    compare: bool,
    solve: Aim | None,
    epsilons: tuple[Fraction, ...],
    as_json: bool,
    period: str | None = None,
    horizon: int = 0,
    replace: bool = False,
) -> None:
    """Make the plan, show it, and freeze it where asked; look ``horizon`` releases ahead.

    Raises:
        PlanError: If a plan at another budget than the spec's is to be frozen, or the file is not to be written over.
        BudgetExceeded: After showing it, if an account could not pay for it.
    """
    target = open_target(spec, period)
    plan, solved = plan_or_solve(target, solve=solve, frozen=out is not None)
    warn(target.loaded.warnings)
    ledger = target.project.open_ledger()
    quote = quote_plan(target, plan, ledger)
    warn(quote.warnings)
    frozen, known, accounts = quote.frozen, quote.known, quote.accounts
    tried = plans_at(target, epsilons) if epsilons else ()
    seen: dict[str, Any] = {}
    if horizon:
        from dprelease.cli.views.horizon import horizon_facts, print_horizon

        seen = horizon_facts(target, plan, ledger, horizon)
    if out is not None and (before := quote.write(out, replace=replace)):
        complain_of(f"{out} held another plan, {before[:16]}, and now holds this one: whoever reviewed it has to again")
    if as_json:
        facts = quote.facts
        facts |= {"solve": solved_facts(solved)} if solved is not None else {}
        facts |= {"compare": _comparison(plan)} if compare else {}
        facts |= {"what_if": [what_if_facts(each) for each in tried]} if tried else {}
        facts |= {"horizon": seen} if seen else {}
        say_json(facts)
    else:
        if solved is not None:
            _print_solved(solved_facts(solved), target.loaded.spec.privacy.noise)
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
    quote.require_payable()


def _print_solved(solved: dict[str, Any], own: str) -> None:
    """What to write into the spec, and what each noise would cost."""
    least = {"charge": "the smallest charge", "epsilon": "the smallest epsilon"}[solved["least"]]
    noise = f", with `noise: {solved['noise']}`" if solved["noise"] != own else ""
    say(f"{least} that meets every target: epsilon {solved['epsilon']}{noise}")
    for way in solved["noises"] if len(solved["noises"]) > 1 else ():
        charges = ", ".join(
            f"account {each['account']} charged "
            + (f"{each['currency']} {each['charged']}" if each["charged"] else "nothing finite")
            for each in way["charges"]
        )
        say(
            f"  noise {way['noise']}: " + (f"epsilon {way['epsilon']}; {charges}" if way["epsilon"] else way["refusal"])
        )
    say()


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


def _print(plan: ReleasePlan, frozen: FrozenPlan, accounts: list[dict[str, Any]]) -> None:
    certified = plan.loss[plan.certified]
    say(f"{plan.release.name}/{plan.release.period}: {plan.release.title or 'untitled'}")
    cost = certified.told
    cost += ", each time that it is published" if plan.release.revisions else ""
    say(f"protects one {plan.unit} ({plan.neighboring.value}); costs {cost}")
    if plan.invariants:
        say(unprotected(plan))
    say(f"certified by {plan.certified}; plan {frozen.plan_fingerprint[:16]}\n")
    confidence = f"{float(plan.publish.confidence):.0%} margin"
    header = ["query", "measure", "cells", "mechanism", "scale", "share", confidence, "relative"]
    say(text_table(header, _rows(plan), right=frozenset({2, 4, 5, 6, 7})))
    for note in sorted({output.why_null for output in plan.outputs if output.why_null}):
        say(f"\n*  {note}")
    say("")
    print_totals(plan)
    if plan.allocation is not None:
        say(allocation_text(plan))
    if told := compared_text(plan):
        say(told)
    if plan.naive is not None:
        say(f"the naive plan ({plan.naive.accounts_for}) would have {plan.naive.noise} times this noise,")
        say(f"and charge an account epsilon {plan.naive.charged}")
    for each in plan.considered[:_MOST_CONSIDERED]:
        say(f"{each.name}: {each.noise} times this noise" + (f"; {each.why_not}" if each.why_not else ""))
    if any(Decimal(each.noise) < 1 and "would charge an account" in each.why_not for each in plan.considered):
        say("less noise costs an account more: `noise: knorm` or `noise: laplace` in the spec takes it all the same,")
        say("and so does `prefer: accuracy` of the account in the policy")
    if plan.unspent is not None:
        say(plan.unspent)
    for text in (
        *series_texts(plan),
        *grid_texts(plan),
        *pieces_texts(plan),
        *passes_texts(plan),
        *cluster_texts(plan),
    ):
        say(text)
    for text in figure_texts(plan):
        complain_of(text)
    _print_memory(plan)
    for account in accounts:
        state = "" if account["fits"] else "   DOES NOT FIT"
        say(
            f"account {account['name']}{window_of(account)} ({account['composition']}): epsilon "
            f"{account['before']} spent, {account['after']} with this release, of {as_decimal(account['cap'])} "
            f"at delta {account['delta']}{state}"
        )


def _print_memory(plan: ReleasePlan) -> None:
    """What a large release takes; of others it is the libraries that do."""
    memory = memory_of(plan)
    if memory.is_large:
        say(
            f"memory: about {memory.draw / 1000:.1f} GB to draw the largest answers, and what the rows take; "
            f"{memory.publish / 1000:.1f} GB to publish"
        )
    if says := memory_lacking(plan, memory_left()):
        complain_of(f"not on this machine as it is now: {says}; `dprelease run` would refuse it before it is charged")


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
                margin = _margin(output, query.measures[label].whole)
                last = ["", ""] if k else [margin, "" if relative is None else f"{float(relative):.2%}"]
                rows.append([*first, *_step_cells(step, quantity), *last])
        for label, asked in query.compare.items():
            percent = 100 if asked.show else 1
            rows.append(
                ["", label, "", f"made of {asked.measure}", "", "", _margin(outputs[query.name, label], percent), ""]
            )
    for workload in plan.workloads:
        rows += workload_rows(plan, workload)
    return rows


def _own(plan: ReleasePlan, query: PlannedQuery, label: str) -> list[Feed]:
    """What a measure is fed by; of quantiles that are put in order together only its own one."""
    measure = query.measures[label]
    return [feed for feed in query.inputs[label] if measure.own(plan.taken(feed.step).parts[feed.part])]


def _margin(output: Output, whole: int = 1) -> str:
    return _told(output.margin) + (" %" if whole == 100 else "") if output.margin else "*"


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
        "selected" if step.cells is None else str(step.cells // quantity.in_each_cell),
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
    say(text_table(["accountant", "epsilon of this plan", "noise it would need"], rows, right=frozenset({1, 2})))
    try:
        opinions = second_opinion(plan, figures_beside)
    except (MissingExtra, NoOpinion) as error:
        say(f"\nno second opinion: {error.summary}; {error.hint}")
        return
    say("\nsecond opinion by dp_accounting")
    rows = [
        [each.accountant, each.ours, each.theirs, "agrees" if each.agrees else "DIFFERS", each.rule]
        for each in opinions
    ]
    say(text_table(["accountant", "ours", "theirs", "", "rule"], rows, right=frozenset({1, 2})))


def _print_what_if(plan: ReleasePlan, tried: tuple[WhatIf, ...]) -> None:
    header = ["query", "measure", *(f"epsilon {float(each.epsilon):g}" for each in tried)]
    rows = []
    for at, output in enumerate(plan.outputs):
        margins = [each.outputs[at].margin if each.outputs else None for each in tried]
        texts = [_told(margin) if margin else "-" for margin in margins]
        rows.append([output.query, output.measure, *texts])
    say(f"\nmargins of error at {float(plan.publish.confidence):.0%}, against the budget")
    say(text_table(header, rows, right=frozenset(range(2, 2 + len(tried)))))
    for each in tried:
        if each.refusal:
            say(f"epsilon {float(each.epsilon):g}: {each.refusal}")


def workload_rows(plan: ReleasePlan, workload: Workload) -> list[list[str]]:
    """Query, measure, cells, how, draws, share, margin and nothing relative; margins are the least and the largest."""
    outputs = {output.query: output for output in plan.outputs}
    groups: dict[tuple[int, int], list[str]] = {}
    for name in workload.tables:
        level, axes = workload.place(name)
        groups.setdefault((level, len(axes)), []).append(name)
    cells = {query.name: cells_of(query, plan.catalog) or 0 for query in plan.queries}
    share = {step.id: step.share for step in plan.steps}
    rows: list[list[str]] = []
    told: set[str] = set()  # one draw may be of several tables: it is counted with the first
    for (level, ways), names in groups.items():
        first = f"{workload.levels[level]}, " if workload.levels else ""
        in_group = {take.step for take in workload.takes if (take.level, len(take.axes)) == (level, ways)}
        drawn_here = [step for step in in_group if step in share and step not in told]
        exact = f", {len(in_group - set(share))} exact" if in_group - set(share) else ""
        again = bool(in_group & told)
        told.update(drawn_here)
        rows.append(
            [
                workload.name if not rows else "",
                f"{first}{_ways(ways)}: {len(names)} table{'s' if len(names) > 1 else ''}",
                f"{sum(cells[name] for name in names)}",
                "the same draw"
                if again
                else f"{workload.strategy}, {len(drawn_here)} draw{'s' * (len(drawn_here) != 1)}{exact}",
                "",
                "" if again else f"{float(sum(share[step] for step in drawn_here)):.1%}",
                _margins([outputs[name] for name in names]),
                "",
            ]
        )
    drawn: dict[tuple[int, int], list[Fraction]] = {}
    for take in workload.takes:
        place = (take.level, len(take.axes))
        if (
            place not in groups and take.step in share and take.step not in told
        ):  # such as the total, which all tables share
            drawn.setdefault(place, []).append(share[take.step])
    for (level, ways), shares in drawn.items():
        first = f"{workload.levels[level]}, " if workload.levels else ""
        how = f"{workload.strategy}, {len(shares)} draw{'s' * (len(shares) != 1)}"
        rows.append(["", f"{first}{_ways(ways)}: not published", "", how, "", f"{float(sum(shares)):.1%}", "", ""])
    return rows


def _ways(count: int) -> str:
    return "total" if count == 0 else f"{count}-way"


def _margins(outputs: list[Output]) -> str:
    known = sorted(float(output.margin) for output in outputs if output.margin is not None)
    ends = dict.fromkeys(f"{margin:,.4g}" for margin in (known[0], known[-1]))
    return f"± {' to '.join(ends)}"
