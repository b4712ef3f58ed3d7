"""What a spec became in one form of its measures: what is published, what is drawn, and what links the two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from dprelease.catalog.aggregate import Quantity
from dprelease.measures import Measure
from dprelease.noise import Law
from dprelease.plan.document import Goal, PlannedQuery, PlannedTotals
from dprelease.plan.document.workload import Workload
from dprelease.plan.lower.lowered_workload import LoweredWorkload
from dprelease.plan.lower.unscaled import UnscaledStep

__all__ = ["Lowered", "Published", "Term"]


@dataclass(frozen=True)
class Published:
    """A published number whose variance is more than its draws' added up by weights.

    Attributes:
        measure: Its measure.
        quantities: What that takes.
        drafts: The draft of each.
        count: The author's guess of rows per cell.
    """

    measure: Measure
    quantities: tuple[Quantity, ...]
    drafts: tuple[int, ...]
    count: int | None

    def variance(self, laws: Mapping[int, Law]) -> float:
        """The square of its standard error, given the laws of the drafts' noise."""
        return self.measure.error(self.quantities, [laws[at].variance for at in self.drafts], self.count) ** 2


@dataclass(frozen=True)
class Term:
    """A measure as planning sees it: its variance is, to first order, the weighted sum of its drafts' variances.

    Attributes:
        query: The query's place in the spec.
        label: The measure's name; ``(keys)`` of a selection, ``(list)`` of a ranking.
        weights: (draft, weight) pairs; the weight is in squared units of the measure per squared grid step.
        published: The number as it is published, where that has another variance.
    """

    query: int
    label: str
    weights: tuple[tuple[int, float], ...]
    published: Published | None = None


@dataclass(frozen=True)
class Lowered:
    """What a spec asks for in one form.

    Attributes:
        parts: Of each query of the spec, in its order, a workload, or what makes the published table: of a form that is
            not taken nobody asks for it.
        goals: Of each query of the spec.
        drafts: What is drawn.
        terms: The variances of the measures; of a workload one for all of its tables.
        totals: Of the queries that have any, by place.
        clips: By query the drafts that choose its clips, and the part of its budget of each: the error of no number
            tells what they are worth.
    """

    parts: tuple[Callable[[], PlannedQuery] | LoweredWorkload, ...]
    goals: tuple[Goal, ...]
    drafts: tuple[UnscaledStep, ...]
    terms: tuple[Term, ...]
    totals: Mapping[int, PlannedTotals]
    clips: Mapping[int, Mapping[int, Fraction]] = field(default_factory=dict)

    def drafts_of(self, query: int) -> set[int]:
        """The places of the drafts that a query pays for, those of its clips among them."""
        fed = {at for term in self.terms_of.get(query, ()) for at, _ in term.weights}
        return fed.union(self.clips.get(query, ()))

    def with_clips(self, query: int, parts: Mapping[int, Fraction]) -> dict[int, Fraction]:
        """The parts of a query's budget of all of its drafts, of those that have no clip to choose."""
        clips = self.clips.get(query, {})
        rest = 1 - sum(clips.values(), Fraction(0))
        return {**{at: rest * part for at, part in parts.items()}, **clips} if clips else dict(parts)

    @cached_property
    def asked(self) -> tuple[PlannedQuery | LoweredWorkload, ...]:
        """What each query of the spec became, in its order: a published table, or a workload of them."""
        return tuple(each if isinstance(each, LoweredWorkload) else each() for each in self.parts)

    def workload(self, query: int) -> LoweredWorkload | None:
        """The query at this place, if it is a workload."""
        part = self.parts[query]
        return part if isinstance(part, LoweredWorkload) else None

    @cached_property
    def terms_of(self) -> Mapping[int, Sequence[Term]]:
        """The terms of each query that has any, by its place."""
        found: dict[int, list[Term]] = {}
        for term in self.terms:
            found.setdefault(term.query, []).append(term)
        return found

    @cached_property
    def queries(self) -> tuple[PlannedQuery, ...]:
        """Every published table, in published order."""
        found: list[PlannedQuery] = []
        for each in self.asked:
            found += each.queries if isinstance(each, LoweredWorkload) else (each,)
        return tuple(found)

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """Every workload, in the order of the spec."""
        return tuple(each.planned for each in self.parts if isinstance(each, LoweredWorkload))

    def variance(self, term: Term, laws: Mapping[int, Law]) -> float:
        """The variance of a number as it is published, given the laws of the drafts' noise; of a workload its mean.

        Of a workload it is what the author makes least (``LoweredWorkload.variance``), of prefixes and ranges that of
        the mean sum, of a choice that of its score.
        """
        part = self.parts[term.query]
        if isinstance(part, LoweredWorkload):
            return part.variance([laws[at] for at, _ in term.weights])
        if term.published is not None:
            return term.published.variance(laws)
        if len(term.weights) == 1:
            ((at, weight),) = term.weights
            return weight * laws[at].variance
        return sum(weight * laws[at].variance for at, weight in term.weights)

    def tables_alone(self, queries: Iterable[int]) -> list[LoweredWorkload]:
        """The workloads among the queries at these places that are drawn as tables behind pure noise."""
        parts = (self.parts[at] for at in queries)
        return [each for each in parts if isinstance(each, LoweredWorkload) and each.pure is not None]
