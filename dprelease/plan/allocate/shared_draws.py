"""How queries that share draws divide their budget over them: a total that a thousand counts need is paid for once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dprelease.plan.allocate.candidates import Candidate
from dprelease.plan.allocate.shares import even_split
from dprelease.plan.lower.lowered import Lowered

__all__ = ["Division", "divided"]

_TURNS = 500
_EVEN = 1e-12
_WHOLE = 1 << 40  # parts of a query's budget are whole numbers of these, so that sums of many keep a short denominator

Parts = Mapping[int, Mapping[int, Fraction]]


@dataclass(frozen=True)
class Division:
    """How the budget of each query is divided over its drafts: query -> draft -> part, adding up to exactly one.

    Attributes:
        paid: What the query's own share of the budget pays for.
        needed: What the draft gets of all that the query's drafts get, whoever pays; the same where no draft is shared.
    """

    paid: Parts
    needed: Parts


def divided(lowered: Lowered, queries: Sequence[int], candidate: Candidate) -> Division:
    """Each query by itself, but those together that share a draft with another one, where counts are centred.

    What is made least is the mean of the measures' log variances, weighted by the shares of their queries. Of queries
    that share no draft that is :func:`~dprelease.plan.allocate.shares.even_split` of each, at its share of the budget:
    the stationary point is b_i = sum_q s_q f_qi, f_qi the mean over the measures m of q of the part of V_m that draft i
    causes, and the f_qi of a query add up to one. With k counts that have the balance i and one total it is the split
    of Joseph and Yu (COLT 2024): the total gets sqrt(k) times the budget of a balance. The same algorithm climbs to it,
    for all drafts at once.

    Args:
        lowered: The release in the candidate's form.
        queries: The places of the domain's queries.
        candidate: Says by which power of its budget a variance falls.
    """
    used = {query: {at for term in lowered.terms_of.get(query, ()) for at, _ in term.weights} for query in queries}
    users = Counter(at for drafts in used.values() for at in drafts)
    sharing = [query for query in queries if any(users[at] > 1 for at in used[query])]
    drawn = (lowered.drafts[at] for at in {at for query in sharing for at in used[query]})
    if not any(part.kind == "balance" for draft in drawn for part in draft.parts):
        sharing = []  # none is centred, whatever the form would have centred
    shared = set(sharing)
    alone = {query: even_split(lowered, query, candidate) for query in queries if query not in shared}
    if not sharing:
        return _with_clips(lowered, Division(alone, alone))
    together = _together(lowered, sharing, candidate)
    return _with_clips(lowered, Division({**alone, **together.paid}, {**alone, **together.needed}))


def _with_clips(lowered: Lowered, found: Division) -> Division:
    """The same, where clips are chosen with the part that their authors gave them."""
    if not lowered.clips:
        return found
    paid, needed = (
        {query: lowered.with_clips(query, of) for query, of in parts.items()} for parts in (found.paid, found.needed)
    )
    return Division(paid, needed)


def _together(lowered: Lowered, queries: Sequence[int], candidate: Candidate) -> Division:
    given = [float(goal.share) for query in queries if (goal := lowered.goals[query]).share is not None]
    usual = sum(given) / len(given) if given else 1.0  # of a query with targets alone
    terms = [(query, term.weights) for query in queries for term in lowered.terms_of[query]]
    number = Counter(query for query, _ in terms)
    weight = np.array([float(lowered.goals[query].share or usual) / number[query] for query, _ in terms])
    drafts = sorted({at for _, weights in terms for at, _ in weights})
    place = {at: n for n, at in enumerate(drafts)}
    of_term = np.array([n for n, (_, weights) in enumerate(terms) for _ in weights])
    of_draft = np.array([place[at] for _, weights in terms for at, _ in weights])
    spread = [candidate.spread(lowered.drafts[at]) ** 2 for at in drafts]
    size = np.array([each * spread[place[at]] for _, weights in terms for at, each in weights])
    part, power = np.full(len(drafts), 1 / len(drafts)), candidate.power
    weight /= weight.sum()
    for _ in range(_TURNS):
        caused = size / part[of_draft] ** power
        caused /= np.bincount(of_term, caused)[of_term]
        fresh = np.bincount(of_draft, caused * weight[of_term], minlength=len(drafts))
        settled = float(np.abs(fresh - part).max()) < _EVEN
        part = part * (np.maximum(fresh, 1e-12) / part) ** (1 / (1 + power))
        part /= part.sum()
        if settled:
            break
    paid: dict[int, dict[int, float]] = {query: {} for query in queries}
    needed: dict[int, dict[int, float]] = {query: {} for query in queries}
    rows = zip(of_term.tolist(), of_draft.tolist(), caused.tolist(), strict=True)
    for term, draft, of in rows:
        query, at = terms[term][0], drafts[draft]
        paid[query][at] = paid[query].get(at, 0.0) + of / number[query]
        needed[query][at] = float(part[draft])
    return Division(
        {query: _exact(each) for query, each in paid.items()}, {query: _exact(each) for query, each in needed.items()}
    )


def _exact(parts: Mapping[int, float]) -> dict[int, Fraction]:
    """The proportions in whole numbers that add up to a power of two; what rounding leaves goes to the largest."""
    total = sum(parts.values())
    sizes = {at: max(1, round(part / total * _WHOLE)) for at, part in parts.items()}
    largest = max(sizes, key=lambda at: sizes[at])
    sizes[largest] += _WHOLE - sum(sizes.values())
    return {at: Fraction(size, _WHOLE) for at, size in sizes.items()}
