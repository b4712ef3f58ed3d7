"""From queries to drafts: which exact aggregates are needed, each once, and how far one unit can move them.

A measure can often be answered in several forms (a sum by itself, or from the centred sum and the count that a mean
needs anyway). A :class:`Form` says which to take; ``candidates`` tries them and the best plan wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dprelease.catalog.aggregate import BoundedAggregate, Quantity, sensitivity
from dprelease.catalog.table import Catalog
from dprelease.measures import MEASURES, Measure
from dprelease.measures.count import Count
from dprelease.measures.sum import Sum
from dprelease.noise.knorm import gauge
from dprelease.plan.document import Answer, Feed, Goal, PlannedQuery
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring
from dprelease.spec.document import QuerySpec, ReleaseSpec

__all__ = ["Draft", "Form", "Lowered", "Term", "expected_rows", "lower"]

Ball = Literal["count", "linf"]
_MOST_JOINED = 60  # numbers per cell in one K-norm draw


@dataclass(frozen=True)
class Form:
    """Which form of the measures to take.

    Attributes:
        joint_sums: A sum comes from the centred sum and the count, where a mean or variance measures both.
        centred_counts: Counts of columns come from "how many more have a value than not", and the rows: the
            correlated Gaussian mechanism of Lebeda 2024 (arXiv 2408.06853) as integer queries.
        knorm: The counts of one query's cells are hidden together by one K-norm draw.
    """

    joint_sums: bool = False
    centred_counts: bool = False
    knorm: bool = False


@dataclass(frozen=True)
class Draft:
    """A step before its noise is chosen.

    Attributes:
        id: The step's.
        aggregate: Its first quantity.
        joined: Its further ones, where ``ball`` is given.
        answers: The measures that it feeds.
        sensitivity: Of all of its quantities together.
        ball: The unit ball of a K-norm draw; None: independent noise.
        gauge: Of a K-norm draw.
        cells: Numbers per quantity.
    """

    id: str
    aggregate: BoundedAggregate
    joined: tuple[Quantity, ...]
    answers: tuple[Answer, ...]
    sensitivity: Sensitivity
    ball: Ball | None
    gauge: Fraction | None
    cells: int


@dataclass(frozen=True)
class Term:
    """A measure as planning sees it: its variance is, to first order, the weighted sum of its drafts' variances.

    Attributes:
        query: The query's place in the spec.
        label: The measure's name.
        weights: (draft, weight) pairs; the weight is in squared units of the measure per squared grid step.
    """

    query: int
    label: str
    weights: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Lowered:
    """What a spec asks for in one form."""

    queries: tuple[PlannedQuery, ...]
    drafts: tuple[Draft, ...]
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class _Need:
    """One quantity of one measure. Needs of one domain share their steps; a pinned query is a domain of its own."""

    domain: str
    query: int
    name: str
    label: str
    aggregate: BoundedAggregate


def _goal(query: QuerySpec, delta: Fraction) -> Goal:
    """What the author asked of a query, with relative targets made absolute by ``expect``."""
    targets = {}
    for label, target in query.target.items():
        margin = target.margin
        if margin is None:
            assert target.relative is not None  # noqa: S101 - the loader wants one of the two
            margin = target.relative * query.expect[label]
        targets[label] = margin
    pinned = query.budget
    budget = Budget(epsilon=pinned.epsilon, rho=pinned.rho, delta=delta) if pinned is not None else None
    return Goal(share=query.weight, budget=budget, targets=targets)


def lower(spec: ReleaseSpec, catalog: Catalog, forms: Mapping[str, Form]) -> Lowered:
    """The drafts of a spec, one for each distinct aggregate of a domain, and what they feed.

    Args:
        spec: What the author wrote.
        catalog: Its tables.
        forms: The form of each domain: of a pinned query by its name, and of all the others together by ``""``.
    """
    needs, quantities = _needs(spec, catalog, forms)
    groups = _groups(needs, forms)
    place: dict[tuple[str, BoundedAggregate], Feed] = {}
    drafts: list[Draft] = []
    taken: set[str] = set()
    for group in groups:
        first = group[0]
        step_id = _step_id(first, len(group) > 1, taken)
        taken.add(step_id)
        for part, need in enumerate(group):
            place[need.domain, need.aggregate] = Feed(step=step_id, part=part)
        drafts.append(_draft(step_id, group, needs, catalog, spec.privacy.neighboring))
    index = {draft.id: at for at, draft in enumerate(drafts)}
    queries, terms = [], []
    for at, (name, query) in enumerate(spec.queries.items()):
        domain = _domain(name, query)
        inputs = {}
        for label, measure in query.measures.items():
            wanted = quantities[at, label]
            feeds = [place[domain, _aggregate(query, quantity)] for quantity in wanted]
            inputs[label] = tuple(feeds)
            weights = measure.weights(wanted, expected_rows(query.expect, query.measures, label))
            pairs = tuple((index[feed.step], weight) for feed, weight in zip(feeds, weights, strict=True))
            terms.append(Term(at, label, pairs))
        queries.append(_planned(name, query, inputs, _goal(query, spec.privacy.budget.delta)))
    return Lowered(tuple(queries), tuple(drafts), tuple(terms))


def expected_rows(expect: Mapping[str, int], measures: Mapping[str, Measure], label: str) -> int | None:
    """The author's guess of the rows behind a measure: of a count of the same column, else of any count."""
    measure = measures[label]
    column = next((getattr(measure, kind) for kind in MEASURES if kind in type(measure).model_fields), None)
    own = [guess for name, guess in expect.items() if getattr(measures[name], "count", None) == column]
    return next(iter(own or expect.values()), None)


def _domain(name: str, query: QuerySpec) -> str:
    return name if query.budget is not None else ""


def _aggregate(query: QuerySpec, quantity: Quantity) -> BoundedAggregate:
    return BoundedAggregate(table=query.table, by=tuple(query.by), quantity=quantity)


def _needs(
    spec: ReleaseSpec, catalog: Catalog, given: Mapping[str, Form]
) -> tuple[list[_Need], dict[tuple[int, str], tuple[Quantity, ...]]]:
    """Every (measure, quantity) pair in published order, and the quantities that each measure takes."""
    plain: dict[tuple[str, str, tuple[str, ...]], list[tuple[int, str, Measure]]] = {}
    for at, (name, query) in enumerate(spec.queries.items()):
        key = (_domain(name, query), query.table, tuple(query.by))
        plain.setdefault(key, []).extend((at, label, measure) for label, measure in query.measures.items())
    chosen: dict[tuple[int, str], tuple[Quantity, ...]] = {}
    for (domain, table_name, _), members in plain.items():
        table = catalog.tables[table_name]
        listed = [(at, label, measure, measure.alternatives(table)) for at, label, measure in members]
        for at, label, measure, alternatives in listed:
            others = {q for _, _, other, forms in listed if other is not measure for q in forms[0]}
            form = given.get(domain, Form())
            chosen[at, label] = _chosen(measure, alternatives, others, [each[2] for each in listed], form)
    needs: dict[_Need, None] = {}
    for at, (name, query) in enumerate(spec.queries.items()):
        for label in query.measures:
            for quantity in chosen[at, label]:
                needs[_Need(_domain(name, query), at, name, label, _aggregate(query, quantity))] = None
    return list(needs), chosen


def _chosen(
    measure: Measure,
    alternatives: Sequence[tuple[Quantity, ...]],
    others: set[Quantity],
    members: Sequence[Measure],
    form: Form,
) -> tuple[Quantity, ...]:
    """The plain form, unless another one is asked for and pays: its parts are measured anyway, or serve several."""
    plain = alternatives[0]
    for other in alternatives[1:]:
        if isinstance(measure, Sum) and form.joint_sums and set(other) <= others:
            return other
        if isinstance(measure, Count) and form.centred_counts:
            counts = [each for each in members if isinstance(each, Count)]
            if len({each.count for each in counts}) >= 2 and not _fed_elsewhere(plain[0], members, measure):
                return other
    return plain


def _fed_elsewhere(quantity: Quantity, members: Sequence[Measure], measure: Measure) -> bool:
    """Whether a mean or variance needs this count anyway."""
    columns = [getattr(each, kind, None) for each in members for kind in ("mean", "variance", "stddev")]
    return quantity.column is not None and quantity.column in columns


def _groups(needs: Sequence[_Need], forms: Mapping[str, Form]) -> list[list[_Need]]:
    """Distinct aggregates in the order of first need; with ``knorm`` the counts of the same cells together."""
    distinct: dict[tuple[str, BoundedAggregate], _Need] = {}
    for need in needs:
        distinct.setdefault((need.domain, need.aggregate), need)
    groups: dict[object, list[_Need]] = {}
    for key, need in distinct.items():
        counted = forms.get(need.domain, Form()).knorm and need.aggregate.quantity.kind in ("rows", "nonnull")
        where = (need.domain, need.aggregate.table, need.aggregate.by)
        groups.setdefault(where if counted else key, []).append(need)
    return [
        group[start : start + _MOST_JOINED] for group in groups.values() for start in range(0, len(group), _MOST_JOINED)
    ]


def _draft(
    step_id: str, group: Sequence[_Need], needs: Sequence[_Need], catalog: Catalog, neighboring: Neighboring
) -> Draft:
    first = group[0]
    table = catalog.tables[first.aggregate.table]
    inside = {need.aggregate for need in group}
    answers = {
        Answer(query=need.name, measure=need.label): None
        for need in needs
        if need.domain == first.domain and need.aggregate in inside
    }
    cells = table.cells(first.aggregate.by)
    joined = tuple(need.aggregate.quantity for need in group[1:])
    if not joined:
        reach = sensitivity(first.aggregate, table, neighboring)
        return Draft(step_id, first.aggregate, (), tuple(answers), reach, None, None, cells)
    reach, ball, size = _joint(len(group), cells, neighboring)
    return Draft(step_id, first.aggregate, joined, tuple(answers), reach, ball, size, cells)


def _joint(count: int, cells: int, neighboring: Neighboring) -> tuple[Sensitivity, Ball, Fraction]:
    """Reach, ball and gauge of ``count`` counts of the same cells, each moved by at most 1 by one row.

    One row moves every count of its cell by 0 or 1, so all of them together are the worst case; a replaced row
    moves those of one cell by at most 1 either way, or those of two cells. The ball is the one with the smaller
    noise at its gauge (docs/proofs/integer-knorm.md): ``linf`` where two rows can only meet in one cell.
    """
    add_remove = neighboring is Neighboring.ADD_REMOVE
    ball: Ball = "count" if add_remove or cells > 1 else "linf"
    moved = count if add_remove or cells == 1 else 2 * count
    return Sensitivity.of_shifts((1,) * moved), ball, gauge(ball, count, neighboring, cells)


def _planned(name: str, query: QuerySpec, inputs: dict[str, tuple[Feed, ...]], goal: Goal) -> PlannedQuery:
    return PlannedQuery(
        name=name,
        title=query.title or name,
        table=query.table,
        by=tuple(query.by),
        measures=dict(query.measures),
        inputs=inputs,
        expect=dict(query.expect),
        goal=goal,
    )


def _step_id(need: _Need, joint: bool, taken: set[str]) -> str:
    quantity = need.aggregate.quantity
    kind = "counts" if joint else "rows" if quantity.kind == "rows" else f"{quantity.column}-{quantity.kind}"
    base = f"{need.name}.{kind}"
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return name
