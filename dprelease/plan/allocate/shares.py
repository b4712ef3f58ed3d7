"""What each query of a domain gets of the budget that is shared, and what a plan makes least.

``allocation: shares`` divides the budget as the authors' shares say, and compares candidates by the geometric mean of
their standard errors, which no change of units can move. ``allocation: least_error`` makes the total error least:

    sum over queries of  share x  sum over the query's numbers of  tables x variance / reach^2

A number is a measure, in one of its cells; a workload has one per table, of the mean variance of its cells, and a query
of prefixes or ranges has one, of the mean variance of its sums. ``reach`` is how far one unit can move the number, so
that counts, sums of money and means can be added up: the error is told in units' largest contributions. What has no
variance that a law can tell (a quantile, a list) has the error of Gaussian noise of the same rho on a count.

``guarded_least_error`` makes the same total least among the divisions in which every query has a least part
(:func:`least_part`). It is what a plan does where a workload of several tables shares with other queries and the author
says nothing: equal shares would count a hundred published tables as one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal

from dprelease.noise import Law
from dprelease.plan.allocate.candidates import Candidate
from dprelease.plan.design.accuracy import mean_noise
from dprelease.plan.document import PlannedTotals
from dprelease.plan.lower.lowered import Lowered, Term

__all__ = ["Allocation", "blocks", "error_of", "even_split", "least_part", "reach_of", "score_of", "shares_of"]

Allocation = Literal["shares", "least_error", "guarded_least_error"]
Parts = Mapping[int, Mapping[int, Fraction]]

_TURNS = 200
_SETTLED = Fraction(1, 2**30)
_EVEN = 1e-12
# A choice of scale T costs rho = l2^2 / (8 T^2); Gaussian noise of that rho has the variance l2^2 / (2 rho) = 4 T^2.
_CHOICE = 4


def even_split(lowered: Lowered, query: int, candidate: Candidate) -> dict[int, Fraction]:
    """How a query's budget is divided over its drafts: draft -> part; the parts add up to exactly one.

    Minimises the mean over the query's measures of the logarithm of the variance, which no change of units can
    move. With V_m = sum_i w_mi V_i and V_i = v_i / b_i^p (p = 1 for rho, 2 for epsilon) the stationary point of
    sum_m ln V_m under sum_i b_i = 1 is b_i = f_i, the mean over m of w_mi V_i / V_m: every draft gets its part of
    the variances that it causes. It is found by b_i <- b_i (f_i / b_i)^(1 / (1 + p)), made to add up to one: the
    multiplicative algorithm of optimal design, which climbs to the optimum for such powers (Yu 2010, "Monotonic
    convergence of a general algorithm for computing optimal designs"). A measure with one draft gives it an equal
    part. A mean divides its part into halves, which is D_i sqrt(w_i), the closed form of weighted squared error, at
    the worst mean. Centred counts of the same rows get the split of Joseph and Yu, COLT 2024.
    """
    terms = lowered.terms_of.get(query, ())
    planned = {at: lowered.drafts[at].part for term in terms for at, _ in term.weights}
    parts = {at: part for at, part in planned.items() if part is not None}
    if parts:  # a workload's, which its strategy has chosen
        return parts
    if (totals := lowered.totals.get(query)) is not None:
        return _split_over_tables(lowered, terms, candidate, totals)
    return _split(lowered, terms, candidate)


def _split_over_tables(
    lowered: Lowered, terms: Sequence[Term], candidate: Candidate, totals: PlannedTotals
) -> dict[int, Fraction]:
    """Each table of totals has the part of the budget that the plan gives it, and the cells have theirs."""
    found: dict[int, Fraction] = {}
    for by, part in ((totals.by, totals.part), *((table.by, table.part or Fraction(0)) for table in totals.drawn)):
        own = [term for term in terms if lowered.drafts[term.weights[0][0]].aggregate.by == by]
        found |= {at: part * each for at, each in _split(lowered, own, candidate).items()}
    return found


def _split(lowered: Lowered, terms: Sequence[Term], candidate: Candidate) -> dict[int, Fraction]:
    used = sorted({draft for term in terms for draft, _ in term.weights})
    if len(used) == 1:
        return {used[0]: Fraction(1)}
    power = candidate.power
    spread = {at: candidate.spread(lowered.drafts[at]) ** 2 for at in used}
    part = dict.fromkeys(used, 1 / len(used))
    for _ in range(_TURNS):
        fresh = dict.fromkeys(used, 0.0)
        for term in terms:
            caused = [(at, weight * spread[at] / part[at] ** power) for at, weight in term.weights]
            total = sum(size for _, size in caused)
            for at, size in caused:
                fresh[at] += size / total / len(terms)
        moved = max(abs(fresh[at] - part[at]) for at in used)
        part = {at: size * (max(fresh[at], 1e-9) / size) ** (1 / (1 + power)) for at, size in part.items()}
        whole = sum(part.values())
        part = {at: size / whole for at, size in part.items()}
        if moved < _EVEN:
            break
    exact = {at: Fraction(size).limit_denominator(10**6) for at, size in part.items()}
    added = sum(exact.values(), Fraction(0))
    return {at: size / added for at, size in exact.items()}


def shares_of(
    lowered: Lowered, candidate: Candidate, queries: Sequence[int], parts: Parts, allocation: Allocation
) -> dict[int, Fraction]:
    """The part of the shared budget of each query that has one; a pinned query has all of its own.

    With ``least_error``: if no two queries share a draw, the parts of
    :func:`dprelease.plan.allocate.shares.blocks`. Draws that several queries share get the sum of what these give
    them, b_i = sum_q s_q P_qi, and the total error F(s) = sum_i a_i / b_i^p is made least by applying ``blocks`` again
    and again. Each turn lowers F: as u^-p is convex, (sum_q t_q P_qi)^-p <= b_i^-p sum_q (s_q P_qi / b_i) (t_q /
    s_q)^-p, so that F(t) <= sum_q C_q / t_q^p with C_q = s_q^(p + 1) sum_i a_i P_qi / b_i^(p + 1), with equality at t =
    s; and ``blocks`` finds the least right side. F is convex, and where the turns come to rest, its slope in every s_q
    is the same, so that it is least there. Parts move in steps of 2^-40: a query whose draws others pay for gets next
    to nothing.

    Args:
        lowered: The release in the candidate's form.
        candidate: Says in which unit, and by which power of it errors fall.
        queries: The places of the domain's queries.
        parts: The parts of each query, how its budget is divided over its drafts (:func:`even_split`).
        allocation: How the budget is divided.

    Returns:
        By query; the parts of all that are not pinned add up to exactly one.
    """
    goals = {at: lowered.goals[at] for at in queries}
    given = {at: goal.share for at, goal in goals.items() if goal.share is not None}
    total = sum(given.values(), Fraction(0))
    found = {at: Fraction(1) for at, goal in goals.items() if goal.budget is not None}
    if allocation == "shares" or len(given) < 2:
        return found | {at: share / total for at, share in given.items()}
    least = least_part(candidate.power, len(given)) if allocation == "guarded_least_error" else Fraction(0)
    return found | _least(lowered, candidate, list(given), parts, least)


def least_part(power: int, queries: int) -> Fraction:
    """The least part of each of some queries that are guarded: its noise is then some twice that of an equal part.

    To first order standard errors go by the root of b^-power: that is a quarter of an equal part where the budget is a
    rho, and half of it where it is an epsilon.
    """
    return Fraction(1, queries * (4 if power == 1 else 2))


def _least(
    lowered: Lowered, candidate: Candidate, queries: Sequence[int], parts: Parts, least: Fraction
) -> dict[int, Fraction]:
    power = candidate.power
    caused = {
        at: weight * candidate.spread(lowered.drafts[at]) ** 2 for at, weight in _weights(lowered, queries).items()
    }
    split = {query: {at: float(part) for at, part in parts[query].items()} for query in queries}
    shares = (Fraction(1, len(queries)),) * len(queries)
    for _ in range(_TURNS):
        now = dict(zip(queries, map(float, shares), strict=True))
        budgets: dict[int, float] = {}
        for query in queries:
            for at, part in split[query].items():
                budgets[at] = budgets.get(at, 0.0) + now[query] * part
        costs = [
            math.fsum(
                caused.get(at, 0.0) * part / budgets[at] * (now[query] / budgets[at]) ** power
                for at, part in split[query].items()
            )
            * now[query]
            for query in queries
        ]
        fresh = blocks(costs, power, least)
        moved = max(abs(new - old) for new, old in zip(fresh, shares, strict=True))
        shares = fresh
        if moved < _SETTLED:
            break
    return dict(zip(queries, shares, strict=True))


def _weights(lowered: Lowered, queries: Sequence[int]) -> dict[int, float]:
    """How the variance of each draft, in squared grid steps, enters the total error of the queries that share."""
    found: dict[int, float] = {}
    wanted = set(queries)
    for term in lowered.terms:
        if term.query not in wanted:
            continue
        share, workload = lowered.goals[term.query].share, lowered.workload(term.query)
        tables = len(workload.planned.tables) if workload is not None else 1
        reach = reach_of(lowered, term)
        for at, weight in term.weights:
            like = _CHOICE if lowered.drafts[at].choosing is not None else 1
            found[at] = found.get(at, 0.0) + float(share or 0) * tables * like * weight / reach**2
    return found


def reach_of(lowered: Lowered, term: Term) -> float:
    """How far one unit can move one number, to first order, in units of the measure.

    It moves a number that is sum_i c_i x_i, c_i^2 being the weights of the term, by sum_i |c_i| max |dx_i| at most. Of
    a sum that is the largest value of the clip, in either form; of a mean of n values the width of the clip over n, and
    as its variance goes by n^-2 too, guesses of n do not matter. A prefix or a range is a sum of cells, which all rows
    of a unit can be in. Weights of a workload are for units of one row each, and one that has r of them moves a cell by
    r, in a variance of r^2 as much: 1.
    """
    if lowered.workload(term.query) is not None:
        return 1.0
    reaches = []
    for at, weight in term.weights:
        draft = lowered.drafts[at]
        reaches.append(math.sqrt(weight) * float(draft.sensitivity.linf) if draft.reach is None else float(draft.reach))
    return math.fsum(reaches)


def error_of(lowered: Lowered, queries: Sequence[int], laws: Mapping[int, Law]) -> float:
    """The total error of the published numbers of the queries that share, at the laws of their drafts' noise."""
    total, goals = 0.0, lowered.goals
    for query in queries:
        workload, share = lowered.workload(query), float(goals[query].share or 0)
        tables = len(workload.queries) if workload is not None else 1
        for term in lowered.terms_of.get(query, ()) if share else ():
            like = _CHOICE if any(lowered.drafts[at].choosing is not None for at, _ in term.weights) else 1
            total += share * tables * like * lowered.variance(term, laws) / reach_of(lowered, term) ** 2
    return total


def score_of(lowered: Lowered, queries: Sequence[int], laws: Mapping[int, Law], allocation: Allocation) -> float:
    """What candidates are compared by: twice the logarithm of a standard error, less being better.

    Where the total error is made least, that of it. Else, and of a pinned query, the mean logarithm of the variances of
    the published numbers, every query by its share and the numbers of a query alike (:func:`mean_noise`).
    """
    goals = lowered.goals
    if allocation != "shares" and any(goals[at].share is not None for at in queries):
        return math.log(max(error_of(lowered, queries, laws), 1e-300))
    shared = [at for at in queries if goals[at].share is not None or goals[at].budget is not None]
    return mean_noise(
        (float(goals[at].share or 1), [lowered.variance(term, laws) for term in lowered.terms_of[at]]) for at in shared
    )


_BITS = 40  # of the root of the largest block


def blocks(costs: Sequence[float], power: int, least: Fraction = Fraction(0)) -> tuple[Fraction, ...]:
    """Which part of a budget each block gets, whose least error at the part x is ``cost / x^power``.

    Lagrange, in x: ``power C / x^(power + 1) = theta``, so x is proportional to ``C^(1 / (power + 1))``; the total
    error is ``(sum C^(1 / (power + 1)))^(power + 1)``. With power 1 (Gaussian noise, x in rho) this is the square-root
    rule, with power 2 (Laplace noise, x in epsilon) the cube-root rule. Where some blocks have a least part, giving it
    to those that would get less, and the others the same proportions of the rest, is the minimum (Karush, Kuhn and
    Tucker). A block is anything that is planned as one: a table, a workload, moments.
    Their roots are whole numbers, beside the largest one in steps of 2^-40.

    Args:
        costs: The least weighted squared error of every block at the whole budget; above 0.
        power: By which power of its budget a block's error falls: 1 or 2.
        least: The least part of every block, at most an equal one.

    Returns:
        The parts; they are above 0 and add up to exactly 1, and equal costs have equal parts.

    Raises:
        ValueError: If an argument is not as said.
    """
    if power not in (1, 2) or not costs or not all(math.isfinite(cost) and cost > 0 for cost in costs):
        raise ValueError("there is at least one block, and its error falls by the power 1 or 2; both are above 0")
    if least * len(costs) > 1:
        raise ValueError("the least part of a block is at most an equal part")
    degree, most = power + 1, Fraction(max(costs))
    roots = [max(1, _root(int((Fraction(cost) / most) * 2 ** (_BITS * degree)), degree)) for cost in costs]
    kept: set[int] = set()  # the blocks at their least part; giving it to more of them leaves the others less
    while True:
        rest, whole = 1 - least * len(kept), sum(root for at, root in enumerate(roots) if at not in kept)
        below = {at for at, root in enumerate(roots) if at not in kept and rest * root < least * whole}
        if not below:
            return tuple(least if at in kept else rest * root / whole for at, root in enumerate(roots))
        kept |= below


def _root(number: int, degree: int) -> int:
    """The whole part of a root of a whole number, by Newton's iteration from above."""
    root = 1 << -(-number.bit_length() // degree)
    while root and (less := ((degree - 1) * root + number // root ** (degree - 1)) // degree) < root:
        root = less
    return root
