"""The rules of what may be spent: accountings that can certify, pins that fit, targets that can be judged."""

from __future__ import annotations

from fractions import Fraction

from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget
from dprelease.spec.fields.document import PinSpec, QuerySpec, ReleaseSpec, TargetSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, nearest, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_accuracy", "check_gaussian", "check_pin", "check_privacy"]

_BUDGET: Path = ("privacy", "budget")
# Budgets that are planned: below, no noise of at most 2^50 steps is enough; above, there is no noise at all.
_LEAST = {"epsilon": Fraction(1, 10**18), "rho": Fraction(1, 10**36)}
_MOST = Fraction(10**6)


def check_privacy(spec: ReleaseSpec, findings: Findings) -> None:
    """What is no budget for noise, and what a delta of 0 rules out."""
    privacy = spec.privacy
    _check_size(privacy.budget, _BUDGET, findings)
    if privacy.budget.delta != 0:
        return
    if privacy.noise == "gaussian":
        hint = "give the budget a delta, such as 1e-9, or write `noise: laplace`"
        says = "is gaussian, and Gaussian noise needs a delta greater than 0"
        findings.add("DPR-S533", ("privacy", "noise"), says, hint, _BUDGET)
    other = "basic" if privacy.budget.rho is None else "auto"
    hint = f"give the budget a delta, such as 1e-9, or write `accounting: {other}`"
    code, says = ACCOUNTANTS[privacy.accounting].needs_delta if privacy.accounting != "auto" else ("", "")
    if code:
        findings.add(code, ("privacy", "accounting"), says, hint, _BUDGET)


def check_accuracy(spec: ReleaseSpec, query: QuerySpec, at: Path, findings: Findings) -> None:
    """One query's `expect`, `budget` and `target`: what they name is there, and they do not contradict each other."""
    counts = [name for name, measure in query.measures.items() if measure.counted is not None]
    for label in query.expect:
        if label not in counts:
            hint = did_you_mean(label, counts, "add a count, such as `persons: {count: rows}`" if not counts else "")
            about = (*at, "measures", label)
            findings.add("DPR-S515", (*at, "expect", label), "is no count of this query", hint, about, key=True)
    check_pin(spec, query, at, findings)
    sums = {} if query.series is None else query.series.named(query.measures)
    for label, target in query.target.items():
        here = (*at, "target", label)
        if label in sums and label not in query.measures:
            _check_target_of_sum(query, label, sums[label], target, counts, at, findings)
        elif label in query.compare and label not in query.measures:
            _check_target_of_comparison(query, label, target, counts, at, findings)
        elif label not in query.measures:
            hint = did_you_mean(label, [*query.measures, *sums, *query.compare])
            findings.add("DPR-S539", here, "is no measure of this query", hint, (*at, "measures", label), key=True)
        else:
            _check_target(query, label, target, counts, at, findings)


def check_pin(spec: ReleaseSpec, query: QuerySpec, at: Path, findings: Findings) -> None:
    """A pinned query has no share and no target, and costs no more than there is."""
    pin, total = query.budget, spec.privacy.budget
    if pin is None:
        return
    _check_size(pin, (*at, "budget"), findings)
    if query.share is not None:
        hint = "keep `budget`, or `share`: a pinned query costs what it costs, and the others share the rest"
        findings.add("DPR-S537", (*at, "share"), "stands beside `budget`, and a pinned query has no share", hint)
    if query.target:
        hint = "keep `budget`, and read the margin in the plan; or keep `target`, and the plan finds the cost"
        findings.add("DPR-S538", (*at, "target"), "stands beside `budget`, which already fixes the noise", hint)
    if pin.rho is not None and total.delta == 0:
        hint = "give `privacy.budget` a delta, such as 1e-9, or pin an epsilon: `budget: {epsilon: 1/10}`"
        findings.add("DPR-S543", (*at, "budget", "rho"), "is a rho, and the release has delta 0", hint, _BUDGET)
    for name, pinned, allowed in (("epsilon", pin.epsilon, total.epsilon), ("rho", pin.rho, total.rho)):
        if pinned is not None and allowed is not None and pinned > allowed:
            says = f"is {_figure(pinned)}, and the whole release has {name} {_figure(allowed)}"
            hint = f"pin less than {_figure(allowed)}, or raise `privacy.budget`"
            findings.add("DPR-S544", (*at, "budget", name), says, hint, _BUDGET)


def _check_size(budget: Budget | PinSpec, at: Path, findings: Findings) -> None:
    """An epsilon or a rho that noise can be made for."""
    for name, figure, usual in (("epsilon", budget.epsilon, "0.1 to 10"), ("rho", budget.rho, "0.001 to 3")):
        if figure is None or _LEAST[name] <= figure <= _MOST:
            continue
        says = f"is {float(figure):.3g}: no noise is " + ("wide enough" if figure < _LEAST[name] else "small enough")
        hint = f"write a number from {float(_LEAST[name]):.0e} to {float(_MOST):.0e}; releases have {usual}"
        findings.add("DPR-S548", (*at, name), says, hint)


def _check_target(
    query: QuerySpec, label: str, target: TargetSpec, counts: list[str], at: Path, findings: Findings
) -> None:
    here, expect, measure = (*at, "target", label), (*at, "expect"), query.measures[label]
    if measure.foreseen == "never":
        says = f"is a {measure.kind}, whose margin depends on the data"
        hint = "leave it out, and give the query a `share` or a `budget`"
        findings.add("DPR-S585", here, says, hint, (*at, "measures", label), key=True)
        return
    if target.relative is not None and measure.counted is None:
        hint = "write `{margin: ...}`, in units of the measure"
        findings.add("DPR-S541", (*here, "relative"), "is for counts, which alone have an `expect`", hint)
    elif target.relative is not None and label not in query.expect and not _misspelt(query, label, counts):
        hint = f"write `expect: {{{shown(label)}: 12000}}`: a public guess per cell"
        says = "is a part of `expect`, and this count has none"
        findings.add("DPR-S540", (*here, "relative"), says, hint, (*expect, label))
    if measure.foreseen != "always" and not query.expect:
        first = f"write `expect: {{{shown(counts[0])}: 12000}}`" if counts else ""
        hint = first or "add a count, such as `persons: {count: rows}`, and `expect: {persons: 12000}`"
        says = "needs an `expect`, for its margin depends on how many are in a cell"
        findings.add("DPR-S542", here, says, f"{hint}: a public guess per cell", expect, key=True)


def _check_target_of_sum(
    query: QuerySpec, label: str, of: str, target: TargetSpec, counts: list[str], at: Path, findings: Findings
) -> None:
    """A sum of periods has a margin in units of its measure; `expect` is of one period."""
    if target.relative is not None:
        hint = "write `{margin: ...}`, in units of the measure"
        findings.add(
            "DPR-S541", (*at, "target", label, "relative"), "is for counts, which alone have an `expect`", hint
        )
    elif query.measures[of].foreseen != "always" and not query.expect:
        hint = f"write `expect: {{{shown(counts[0]) if counts else 'persons'}: 12000}}`: a public guess per cell"
        says = "needs an `expect`, for its margin depends on how many are in a cell"
        findings.add("DPR-S542", (*at, "target", label), says, hint, (*at, "expect"), key=True)


def _check_target_of_comparison(
    query: QuerySpec, label: str, target: TargetSpec, counts: list[str], at: Path, findings: Findings
) -> None:
    """A column that compares has a margin in its own units; but for differences it depends on how large numbers are."""
    asked, here = query.compare[label], (*at, "target", label)
    measure = query.measures.get(asked.measure)
    if measure is None:  # told where comparisons are checked
        return
    if target.relative is not None:
        hint = "write `{margin: ...}`, in units of the column"
        findings.add("DPR-S541", (*here, "relative"), "is for counts, which alone have an `expect`", hint)
    elif not asked.in_units and not measure.is_count:
        says = f"is a part or a growth of a {measure.kind}, whose margin depends on the data"
        findings.add("DPR-S585", here, says, "set a target for the measure itself", (*at, "compare", label), key=True)
    elif (not asked.in_units or measure.foreseen != "always") and not query.expect:
        hint = f"write `expect: {{{shown(counts[0]) if counts else 'persons'}: 12000}}`: a public guess per cell"
        says = "needs an `expect`, for its margin depends on how many are in a cell"
        findings.add("DPR-S542", here, says, hint, (*at, "expect"), key=True)


def _misspelt(query: QuerySpec, label: str, counts: list[str]) -> bool:
    """Whether `expect` means this count by a name that is nearly right, which is told already."""
    return any(nearest(guess, counts) == label for guess in query.expect if guess not in counts)


def _figure(number: Fraction) -> str:
    """A number as an author may have written it.

    >>> _figure(Fraction(3, 2)), _figure(Fraction(1, 3)), _figure(Fraction(10))
    ('1.5', '1/3', '10')
    """
    whole = number.denominator
    for prime in (2, 5):
        while whole % prime == 0:
            whole //= prime
    text = f"{float(number):.15g}"
    return text if whole == 1 and Fraction(text) == number else shown(str(number))


def check_gaussian(spec: ReleaseSpec, asked: Path, code: str, instead: str, findings: Findings) -> None:
    """Whether a query whose noise is Gaussian, which needs a delta, can have it; ``instead``: what has other noise."""
    budget: Path = ("privacy", "budget")
    if spec.privacy.noise == "laplace":
        hint = f"write `noise: auto` and a budget with a delta, such as 1e-9; or {instead}"
        says = "needs Gaussian noise, and `privacy.noise` is laplace"
        findings.add(code, asked, says, hint, ("privacy", "noise"))
    elif spec.privacy.budget.delta == 0:
        hint = f"give `privacy.budget` a delta, such as 1e-9; or write {instead}"
        says = "needs Gaussian noise, and Gaussian noise needs a delta greater than 0"
        findings.add(code, asked, says, hint, budget)
