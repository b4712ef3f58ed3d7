"""From queries to drafts: which exact aggregates are needed, each once, and how far one unit can move them.

A measure can often be answered in several forms (a sum by itself, or from the centred sum and the count that a mean
needs anyway). A :class:`Form` says which to take; ``candidates`` tries them and the best plan wins.
"""

from __future__ import annotations

from collections import Counter
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

__all__ = ["Draft", "Form", "Lowered", "Lowering", "Term", "expected_rows"]

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
class _Asked:
    """One measure of one query, with every form of it; a quantity is its place in ``Lowering.quantities``."""

    query: int
    name: str
    label: str
    measure: Measure
    forms: tuple[tuple[int, ...], ...]
    count: int | None


@dataclass(frozen=True)
class _Group:
    """The measures over the same cells that may share steps: one table, one ``by``, one domain.

    A pinned query is a domain of its own, for its price is that of its own steps; all others are one.
    """

    domain: str
    table: str
    by: tuple[str, ...]
    members: tuple[_Asked, ...]


Needs = dict[tuple[int, int], list[tuple[_Asked, int]]]  # (group, quantity) -> the measures that it feeds, and where


@dataclass(frozen=True)
class Lowering:
    """A spec taken apart once, ready to be put together in any form."""

    spec: ReleaseSpec
    catalog: Catalog
    quantities: tuple[Quantity, ...]
    groups: tuple[_Group, ...]

    @classmethod
    def of(cls, spec: ReleaseSpec, catalog: Catalog) -> Lowering:
        """Every form of every measure; equal quantities become one."""
        places: dict[Quantity, int] = {}
        members: dict[tuple[str, str, tuple[str, ...]], list[_Asked]] = {}
        for at, (name, query) in enumerate(spec.queries.items()):
            table = catalog.tables[query.table]
            domain = name if query.budget is not None else ""
            group = members.setdefault((domain, query.table, tuple(query.by)), [])
            for label, measure in query.measures.items():
                forms = tuple(
                    tuple(places.setdefault(quantity, len(places)) for quantity in form)
                    for form in measure.alternatives(table)
                )
                count = expected_rows(query.expect, query.measures, label)
                group.append(_Asked(at, name, label, measure, forms, count))
        groups = tuple(_Group(*key, tuple(each)) for key, each in members.items())
        return cls(spec, catalog, tuple(places), groups)

    def shape(self, domain: str, form: Form) -> object:
        """What a form makes of a domain: equal for two forms that make the same drafts of it."""
        found = []
        for group in self.groups:
            if group.domain == domain:
                needed = {quantity: None for taken in _taken(group, form, self.quantities) for quantity in taken}
                found.append((tuple(needed), form.knorm and sum(self._counts(each) for each in needed) > 1))
        return tuple(found)

    def lower(self, forms: Mapping[str, Form]) -> Lowered:
        """The drafts in these forms, one for each distinct aggregate of a domain, and what they feed.

        Args:
            forms: The form of each domain: of a pinned query by its name, of all the others together by ``""``.
        """
        needs: Needs = {}
        for at, group in enumerate(self.groups):
            taken = _taken(group, forms.get(group.domain, Form()), self.quantities)
            for asked, chosen in zip(group.members, taken, strict=True):
                for part, quantity in enumerate(chosen):
                    needs.setdefault((at, quantity), []).append((asked, part))
        joined = self._joined(needs, forms)
        feeds: dict[tuple[int, str], dict[int, tuple[int, Feed, int]]] = {}
        drafts: list[Draft] = []
        taken_ids: set[str] = set()
        for keys in joined:
            draft = self._draft(keys, needs, taken_ids)
            for part, key in enumerate(keys):
                for asked, place in needs[key]:
                    feed = (len(drafts), Feed(step=draft.id, part=part), key[1])
                    feeds.setdefault((asked.query, asked.label), {})[place] = feed
            drafts.append(draft)
        return self._lowered(drafts, feeds)

    def _counts(self, quantity: int) -> bool:
        return self.quantities[quantity].kind in ("rows", "nonnull")

    def _joined(self, needs: Needs, forms: Mapping[str, Form]) -> list[list[tuple[int, int]]]:
        """The needs in the order of the spec; with ``knorm`` the counts of the same cells together."""
        order = sorted(needs, key=lambda key: (needs[key][0][0].query, _label_at(self.spec, needs[key][0])))
        found: dict[object, list[tuple[int, int]]] = {}
        for at, quantity in order:
            together = forms.get(self.groups[at].domain, Form()).knorm and self._counts(quantity)
            found.setdefault(at if together else (at, quantity), []).append((at, quantity))
        return [
            keys[start : start + _MOST_JOINED] for keys in found.values() for start in range(0, len(keys), _MOST_JOINED)
        ]

    def _draft(self, keys: Sequence[tuple[int, int]], needs: Needs, taken: set[str]) -> Draft:
        group = self.groups[keys[0][0]]
        quantities = [self.quantities[quantity] for _, quantity in keys]
        first = BoundedAggregate(table=group.table, by=group.by, quantity=quantities[0])
        fed = {(asked.name, asked.label): None for key in keys for asked, _ in needs[key]}
        answers = tuple(Answer(query=name, measure=label) for name, label in fed)
        step_id = _step_id(next(iter(fed))[0], quantities, taken)
        taken.add(step_id)
        table, neighboring = self.catalog.tables[group.table], self.spec.privacy.neighboring
        cells = table.cells(group.by)
        if len(keys) == 1:
            reach = sensitivity(first, table, neighboring)
            return Draft(step_id, first, (), answers, reach, None, None, cells)
        reach, ball, size = _joint(len(keys), cells, neighboring)
        return Draft(step_id, first, tuple(quantities[1:]), answers, reach, ball, size, cells)

    def _lowered(
        self, drafts: Sequence[Draft], feeds: Mapping[tuple[int, str], Mapping[int, tuple[int, Feed, int]]]
    ) -> Lowered:
        counts = {(each.query, each.label): each.count for group in self.groups for each in group.members}
        queries, terms = [], []
        for at, (name, query) in enumerate(self.spec.queries.items()):
            inputs = {}
            for label, measure in query.measures.items():
                fed = [feed for _, feed in sorted(feeds[at, label].items())]
                weights = measure.weights([self.quantities[quantity] for *_, quantity in fed], counts[at, label])
                inputs[label] = tuple(feed for _, feed, _ in fed)
                pairs = tuple((draft, weight) for (draft, *_), weight in zip(fed, weights, strict=True))
                terms.append(Term(at, label, pairs))
            queries.append(_planned(name, query, inputs, _goal(query, self.spec.privacy.budget.delta)))
        return Lowered(tuple(queries), tuple(drafts), tuple(terms))


def _label_at(spec: ReleaseSpec, need: tuple[_Asked, int]) -> tuple[int, int]:
    asked, part = need
    return list(spec.queries[asked.name].measures).index(asked.label), part


def _taken(group: _Group, form: Form, quantities: Sequence[Quantity]) -> list[tuple[int, ...]]:
    """The form of each member: the plain one, unless another is asked for and pays.

    A sum comes from other quantities where these are measured anyway. Counts of columns are centred where the
    group has several counts; one that a mean or variance needs anyway stays as it is.
    """
    plainly = Counter(quantity for asked in group.members for quantity in asked.forms[0])
    needed = {
        quantities[quantity].column
        for asked in group.members
        if not isinstance(asked.measure, Count)
        for quantity in asked.forms[0]
        if quantities[quantity].kind == "nonnull"
    }
    counts = len({asked.forms[0] for asked in group.members if isinstance(asked.measure, Count)})
    found = []
    for asked in group.members:
        own, chosen = Counter(asked.forms[0]), asked.forms[0]
        for other in asked.forms[1:]:
            shared = isinstance(asked.measure, Sum) and form.joint_sums and all(plainly[q] > own[q] for q in other)
            count = isinstance(asked.measure, Count) and form.centred_counts and counts > 1
            if shared or (count and quantities[chosen[0]].column not in needed):
                chosen = other
        found.append(chosen)
    return found


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


def expected_rows(expect: Mapping[str, int], measures: Mapping[str, Measure], label: str) -> int | None:
    """The author's guess of the rows behind a measure: of a count of the same column, else of any count."""
    measure = measures[label]
    column = next((getattr(measure, kind) for kind in MEASURES if kind in type(measure).model_fields), None)
    own = [guess for name, guess in expect.items() if getattr(measures[name], "count", None) == column]
    return next(iter(own or expect.values()), None)


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


def _step_id(query: str, quantities: Sequence[Quantity], taken: set[str]) -> str:
    first = quantities[0]
    kind = "rows" if first.kind == "rows" else f"{first.column}-{first.kind}"
    base = f"{query}.{kind if len(quantities) == 1 else 'counts'}"
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    return name
