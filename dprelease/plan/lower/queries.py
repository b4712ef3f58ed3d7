"""From queries to drafts: which exact aggregates are needed, each once, and how far one unit can move them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, cast

from dprelease.catalog.aggregate import Grouping, Quantity, cells_of
from dprelease.catalog.table import Catalog
from dprelease.measures import Measure
from dprelease.plan.document import Answer, Feed, Goal, PlannedQuery, PlannedTotals, Ranking
from dprelease.plan.document.invariant import Invariant
from dprelease.plan.lower.alternatives import Asked, Form, Group, Place, WorkloadNoise, forms_taken, in_even_parts
from dprelease.plan.lower.clips import CLIP, ClipOf, clip_wanted_by, paid_for_clips, wanted_clips
from dprelease.plan.lower.groups import Asking, drawn_with, grouped, in_one, is_joinable, needed_by
from dprelease.plan.lower.invariants import invariants_of, known_to
from dprelease.plan.lower.lowered import Lowered, Published, Term
from dprelease.plan.lower.lowered_workload import LoweredWorkload
from dprelease.plan.lower.ranges import LoweredRanges, lowered_ranges
from dprelease.plan.lower.series import LoweredSeries, further_numbers, lowered_series, planned_series
from dprelease.plan.lower.step_ids import step_id, word
from dprelease.plan.lower.totals import drawn_groupings, planned_totals, table_id, with_feeds
from dprelease.plan.lower.unscaled import (
    UnscaledStep,
    additive,
    ball_of,
    choice,
    clip_choice,
    counts_along,
    disjoint,
    joint,
    ranking,
    selection,
)
from dprelease.plan.lower.workloads import formed, lowered_with_each_noise
from dprelease.plan.resolve.grouping import expected_rows, goal_of, grouping_of, planned_measures
from dprelease.privacy.rounding import sqrt_up
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec
from dprelease.spec.fields.published.told import first_said

__all__ = ["KEYS", "LIST", "Lowering"]

KEYS, LIST = "(keys)", "(list)"  # what a selection and a ranking answer; no measure can have such a name
_MOST_JOINED = 240  # numbers per cell in one K-norm draw
_SELECTING = Fraction(1, 2)  # of the release's delta, for all selections of keys together

Needs = dict[Place, list[tuple[Asked, int]]]  # the measures that a quantity feeds, and where
# (query, label, key columns) -> place -> (draft, feed, quantity)
Fed = dict[tuple[int, str, tuple[str, ...]], dict[int, tuple[int, Feed, int]]]


@dataclass(frozen=True)
class Lowering:
    """A spec taken apart once, ready to be put together in any form."""

    spec: ReleaseSpec
    catalog: Catalog
    quantities: tuple[Quantity, ...]
    groups: tuple[Group, ...]
    measures: Mapping[str, Mapping[str, Measure]]
    groupings: Mapping[str, Grouping]
    workloads: Mapping[str, Mapping[WorkloadNoise, LoweredWorkload]]
    invariants: Mapping[str, Invariant]
    ranges: Mapping[str, LoweredRanges]
    totals: Mapping[str, PlannedTotals]
    series: Mapping[str, LoweredSeries]

    @classmethod
    def of(cls, spec: ReleaseSpec, catalog: Catalog) -> Lowering:
        """Every form of every measure; equal quantities become one."""
        wanted: dict[tuple[str, Grouping], list[Asking]] = {}
        measures: dict[str, Mapping[str, Measure]] = {}
        groupings: dict[str, Grouping] = {}
        workloads: dict[str, Mapping[WorkloadNoise, LoweredWorkload]] = {}
        ranges: dict[str, LoweredRanges] = {}
        totals: dict[str, PlannedTotals] = {}
        invariants = invariants_of(spec, catalog)
        for at, (name, query) in enumerate(spec.queries.items()):
            table = catalog.tables[query.table]
            if query.marginals is not None:
                known = known_to(name, query, spec, catalog, invariants)
                workloads[name] = lowered_with_each_noise(name, spec, catalog, known)
                continue
            groupings[name] = grouping_of(query, catalog)
            measures[name] = planned_measures(query, table)
            if query.ranges is not None:
                of_series, relation = planned_series(spec, query), spec.privacy.neighboring
                ranges[name] = lowered_ranges(name, query, groupings[name], catalog, relation, of_series)
                continue
            if name in invariants:
                groupings[name] = invariants[name].aggregate.grouping
                continue
            domain = name if query.budget is not None else ""
            if query.top_k is not None or query.series is not None:
                continue
            cells = [groupings[name]]
            if (found := planned_totals(name, query, catalog)) is not None:
                totals[name] = found
                cells += drawn_groupings(found, groupings[name])
            for each in cells:
                group = wanted.setdefault((domain, each), [])
                for label, measure in measures[name].items():
                    group.append(Asking(at, name, label, measure, expected_rows(query.expect, measures[name], label)))
        quantities, groups = grouped(wanted, catalog)
        series = lowered_series(spec, catalog, groupings, measures)
        return cls(
            spec, catalog, quantities, groups, measures, groupings, workloads, invariants, ranges, totals, series
        )

    def shape(self, domain: str, form: Form) -> object:
        """What a form makes of a domain: equal for two forms that make the same drafts of it."""
        found = []
        for group, needed, counted in self._needed(domain, form):
            found.append((needed, group.cells if form.knorm and counted else None, counted if form.knorm else 0))
        joined = Counter[tuple[str, Grouping] | None]()
        for _, cells, counts in found:
            joined[cells] += counts
        balls = {
            cells: ball_of(form.ball, counts, cells_of(cells[1], self.catalog), self.spec.privacy.neighboring)
            for cells, counts in joined.items()
            if cells is not None and counts > 1
        }
        own = [one for key, one in self.workloads.items() if domain == (key if self.spec.queries[key].budget else "")]
        shapes = (
            (needed, cells if cells in balls else None, None if cells is None else balls.get(cells))
            for needed, cells, _ in found
        )
        apart = tuple(each.apart for each in self.groups if form.apart and each.domain == domain and each.apart)
        return form.of_workloads == "knorm" and any("knorm" in one for one in own), apart, tuple(shapes)

    def lower(self, forms: Mapping[str, Form]) -> Lowered:
        """The drafts in these forms, one for each distinct aggregate of a domain, and what they feed; made once.

        Args:
            forms: The form of each domain: of a pinned query by its name, of all the others together by ``""``.
        """
        taken = forms if self.workloads else {name: replace(form, pure=False) for name, form in forms.items()}
        found: Lowered | None = self._known.get(frozenset(taken.items()))
        if found is None:
            found = self._known[frozenset(taken.items())] = self._lower(taken)
        return found

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: at for at, name in enumerate(self.spec.queries)}

    @cached_property
    def _known(self) -> dict[object, Any]:
        return {}  # forms taken, and what was put together

    def _lower(self, forms: Mapping[str, Form]) -> Lowered:
        needs: Needs = {}
        for at, group in enumerate(self.groups):
            chosen_forms = self._forms_taken(at, forms.get(group.domain, Form()))
            for asked, chosen in zip(group.members, chosen_forms, strict=True):
                for part, need in enumerate(chosen):
                    needs.setdefault(need, []).append((asked, part))
        feeds: Fed = {}
        names: set[str] = set()
        drafts = self._selections(names)
        clips = wanted_clips(needs, self.groups, self.quantities)
        clips_drawn: dict[ClipOf, int] = {}
        selected = {answer.query: at for at, draft in enumerate(drafts) for answer in draft.answers}
        for keys in self._joined(needs, forms):
            of_cells = [self.groups[at].grouping for at, _ in keys]
            grouping, counted = in_one(of_cells, [self.quantities[quantity] for _, quantity in keys], self.catalog)
            places = {each: at for at, each in enumerate(dict.fromkeys(counted))}  # two can count the same rows
            form = forms.get(self.groups[keys[0][0]].domain, Form())
            clip = clip_wanted_by(keys[0], self.groups, self.quantities)
            if clip is not None and clip not in clips_drawn:
                clips_drawn[clip] = len(drafts)
                drafts.append(self._choice_of_clip(clip, clips[clip], names))
            draft = self._draft(keys, grouping, list(places), needs, names, form)
            draft = draft if clip is None else replace(draft, clipped_by=drafts[clips_drawn[clip]].id)
            for key, part in zip(keys, map(places.__getitem__, counted), strict=True):
                for asked, place in needs[key]:
                    feed = (len(drafts), Feed(step=draft.id, part=part), key[1])
                    feeds.setdefault((asked.query, asked.label, grouping.by), {})[place] = feed
            drafts.append(draft)
        for name, query in self.spec.queries.items():
            if query.top_k is not None:
                selected[name] = len(drafts)
                drafts.append(self._ranking(name, query, names))
        workloads = {name: self._workload(name, forms) for name in self.workloads}
        for asked_as_one in workloads.values():
            drafts += asked_as_one.drafts
        drafts += [asked.draft for asked in self.ranges.values()]
        drafts += [draft for each in self.series.values() for draft in each.drafts]
        found = self._lowered(drafts, feeds, selected, workloads)
        return replace(found, clips=paid_for_clips(clips_drawn, clips)) if clips_drawn else found

    def _forms_taken(self, at: int, form: Form) -> list[tuple[Place, ...]]:
        """Of each measure of a group; only these three words of ``form`` matter."""
        key = (at, form.joint_sums, form.centred_counts, form.parts)
        found: list[tuple[Place, ...]] | None = self._known.get(key)
        if found is None:
            found = self._known[key] = forms_taken(self.groups[at], form, self.quantities)
        return found

    def _needed(self, domain: str, form: Form) -> list[tuple[Group, tuple[Place, ...], int]]:
        """Of each group of a domain what its measures need, and how many counts are among that; as ``_forms_taken``."""
        key = ("needed", domain, form.joint_sums, form.centred_counts, form.parts)
        if key not in self._known:
            mine = ((at, each) for at, each in enumerate(self.groups) if each.domain == domain)
            taken = [(each, self._forms_taken(at, form)) for at, each in mine]
            self._known[key] = [(each, *needed_by(of, each, self.quantities, self.catalog)) for each, of in taken]
        return cast(list[tuple[Group, tuple[Place, ...], int]], self._known[key])

    def _joined(self, needs: Needs, forms: Mapping[str, Form]) -> list[list[tuple[int, int]]]:
        """The needs in the order of the spec; with ``knorm`` the counts of the same cells together, a rest by its part.

        Of more than fit into one draw as many go into each, so that their noise is the same: one more in one of two
        draws of a hundred moves it by less than a thousandth.
        """
        order = sorted(needs, key=lambda key: (needs[key][0][0].query, self._place(needs[key][0])))
        part_of, apart = drawn_with(self.groups)
        found: dict[object, list[tuple[int, int]]] = {}
        for at, quantity in order:
            group = self.groups[at]
            form = forms.get(group.domain, Form())
            together = form.knorm and is_joinable(self.quantities[quantity], group.grouping, self.catalog)
            own = (part_of if form.parts else apart if form.apart else {}).get((at, quantity), (at, quantity))
            found.setdefault(group.cells if together else own, []).append((at, quantity))
        return [part for keys in found.values() for part in in_even_parts(keys, _MOST_JOINED)]

    def _place(self, need: tuple[Asked, int]) -> tuple[int, int]:
        asked, part = need
        return list(self.measures[asked.name]).index(asked.label), part

    def _draft(
        self,
        keys: Sequence[tuple[int, int]],
        grouping: Grouping,
        quantities: list[Quantity],
        needs: Needs,
        names: set[str],
        form: Form,
    ) -> UnscaledStep:
        fed = {(asked.name, asked.label): None for key in keys for asked, _ in needs[key]}
        answers = tuple(Answer(query=name, measure=label) for name, label in fed)
        first = next(iter(fed))[0]
        step = step_id(table_id(first, grouping.by, self.groupings[first]), word(quantities), names)
        relation = self.spec.privacy.neighboring
        if len(quantities) > 1 and (form.apart or any(each.kind == "rest" for each in quantities)):
            return disjoint(step, grouping, quantities, answers, self.catalog, relation)
        if len(quantities) > 1:
            return joint(step, grouping, quantities, answers, self.catalog, relation, wanted=form.ball)
        make = additive
        if quantities[0].kind == "quantile":
            make = counts_along if quantities[0].is_counted else choice
        return make(step, grouping, quantities[0], answers, self.catalog, relation)

    def _choice_of_clip(self, clip: ClipOf, serves: Sequence[Asked], names: set[str]) -> UnscaledStep:
        """The draw of a clip, for the first measure of each query that has it."""
        first, grouping, quantity = serves[0].name, clip.grouping, clip.quantity
        answers = tuple(Answer(query=asked.name, measure=CLIP) for asked in serves)
        step = step_id(table_id(first, grouping.by, self.groupings[first]), word([quantity]), names)
        return clip_choice(step, grouping, quantity, answers, self.catalog, self.spec.privacy.neighboring)

    def _selections(self, names: set[str]) -> list[UnscaledStep]:
        """One for each group whose keys are private; they come first, for what follows needs their keys."""
        private = [group for group in self.groups if group.grouping.private]
        found = []
        for group in private:
            queries = tuple(dict.fromkeys(asked.name for asked in group.members))
            answers = tuple(Answer(query=name, measure=KEYS) for name in queries)
            delta = self.spec.privacy.budget.delta * _SELECTING / len(private)
            step = step_id(queries[0], "keys", names)
            relation = self.spec.privacy.neighboring
            found.append(selection(step, group.grouping, answers, delta, self._about(), self.catalog, relation))
        return found

    def _about(self) -> Fraction:
        """An equal part of the budget's epsilon for every query; of a rho, of the epsilon of one pure draw."""
        budget = self.spec.privacy.budget
        whole = budget.epsilon if budget.epsilon is not None else sqrt_up(2 * (budget.rho or Fraction(1)))
        return whole / len(self.spec.queries)

    def _ranking(self, name: str, query: QuerySpec, names: set[str]) -> UnscaledStep:
        table = self.catalog.tables[query.table]
        by_unit = query.of == "units" and table.unit_id is not None
        quantity = Quantity(kind="units" if by_unit else "rows")
        answers = (Answer(query=name, measure=LIST),)
        step = step_id(name, "list", names)
        relation = self.spec.privacy.neighboring
        return ranking(step, self.groupings[name], quantity, query.k or 1, answers, self.catalog, relation)

    def takes(self, form: Form, queries: Sequence[int]) -> bool:
        """Whether every workload among the queries at these places can be drawn as a form says."""
        names = list(self.spec.queries)
        return all(formed(found, form) for at in queries if (found := self.workloads.get(names[at])))

    def _workload(self, name: str, forms: Mapping[str, Form]) -> LoweredWorkload:
        """As its domain's form says; where it has one noise only, with that."""
        domain = name if self.spec.queries[name].budget is not None else ""
        return formed(self.workloads[name], forms.get(domain, Form())) or next(iter(self.workloads[name].values()))

    def _lowered(
        self,
        drafts: Sequence[UnscaledStep],
        feeds: Fed,
        selected: Mapping[str, int],
        workloads: Mapping[str, LoweredWorkload],
    ) -> Lowered:
        counts = {(each.query, each.label): each.count for group in self.groups for each in group.members}
        asked: list[Callable[[], PlannedQuery] | LoweredWorkload] = []
        terms, totals_at = [], dict[int, PlannedTotals]()
        first = {draft.id: at for at, draft in enumerate(drafts)}
        for at, (name, query) in enumerate(self.spec.queries.items()):
            workload = workloads.get(name)
            if workload is not None:
                pairs = zip(workload.drafts, workload.weights, strict=True)
                weighed = tuple((first[draft.id], weight) for draft, weight in pairs)
                terms.append(Term(at, workload.planned.measure, weighed))
                asked.append(workload)
                continue
            if name in self.invariants:
                exact = self.invariants[name]
                asked.append(partial(self._planned, name, query, {exact.measure: (Feed(step=exact.id),)}, None))
                continue
            if (shared := self.series.get(name)) is not None:
                terms += shared.terms(at, first, query, self.measures[name])
            elif (ranged := self.ranges.get(name)) is not None:
                terms += ranged.terms(at, first, self.measures[name])
            if (alone := shared or self.ranges.get(name)) is not None:
                asked.append(partial(self._planned, name, query, alone.inputs, None))
                continue
            own = drafts[selected[name]].id if name in selected else None
            if name in selected:
                terms.append(Term(at, KEYS if query.top_k is None else LIST, ((selected[name], 1.0),)))
            totals = self.totals.get(name)
            of_tables: dict[tuple[str, ...], dict[str, tuple[Feed, ...]]] = {}
            for by in (self.groupings[name].by, *(table.by for table in (totals.drawn if totals else ()))):
                inputs = of_tables[by] = {}
                for label, measure in self.measures[name].items():
                    fed = [feed for _, feed in sorted(feeds[at, label, by].items())]
                    taken, count = tuple(self.quantities[quantity] for *_, quantity in fed), counts[at, label]
                    inputs[label] = tuple(feed for _, feed, _ in fed)
                    weights, from_drafts = measure.weights(taken, count), tuple(draft for draft, *_ in fed)
                    used = tuple(
                        (draft, weight * drafts[draft].per_number)
                        for draft, weight in zip(from_drafts, weights, strict=True)
                        if weight
                    )
                    published = None if measure.by_weights else Published(measure, taken, from_drafts, count)
                    table = "" if inputs is of_tables[self.groupings[name].by] else f" ({'-'.join(by) or 'total'})"
                    terms.append(Term(at, label + table, used, published))
            own_totals = None if totals is None else with_feeds(totals, of_tables)
            if own_totals is not None:
                totals_at[at] = own_totals
            asked.append(partial(self._planned, name, query, of_tables[self.groupings[name].by], own, own_totals))
        return Lowered(tuple(asked), self._goals, tuple(drafts), tuple(terms), totals_at)

    @cached_property
    def _goals(self) -> tuple[Goal, ...]:
        """Of each query, whatever the form."""
        delta = self.spec.privacy.budget.delta
        found = []
        for name, query in self.spec.queries.items():
            if name in self.workloads:
                found.append(next(iter(self.workloads[name].values())).planned.goal)
            else:
                found.append(Goal() if name in self.invariants else goal_of(query, delta))
        return tuple(found)

    def _planned(
        self,
        name: str,
        query: QuerySpec,
        inputs: dict[str, tuple[Feed, ...]],
        own: str | None,
        totals: PlannedTotals | None = None,
    ) -> PlannedQuery:
        asked = ("planned", name, own, *inputs.items(), *(() if totals is None else (totals.canonical(),)))
        if asked in self._known:
            return cast(PlannedQuery, self._known[asked])
        listed = Ranking(k=query.k or 1, step=own) if query.top_k is not None and own is not None else None
        found = self._known[asked] = PlannedQuery(
            **dict(self.groupings[name]),
            name=name,
            title=first_said(query.title, self.spec.release.languages) or name,
            measures=dict(self.measures[name]),
            inputs=inputs,
            selection=own if listed is None else None,
            ranking=listed,
            suppress_below=None if query.suppress is None else (query.suppress.measure, query.suppress.below),
            expect=dict(query.expect),
            ranges=self.ranges[name].planned if name in self.ranges else None,
            totals=totals,
            compare=further_numbers(name, query, self.catalog, self.measures[name]),
            series=planned_series(self.spec, query),
            goal=self._goals[self._places[name]],
        )
        return found
