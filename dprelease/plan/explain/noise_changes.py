"""How much more noise a number of a query has in one plan than in another: of a number, and of each draw behind it.

Draws are told apart by what they are made of. One that is only called otherwise, because the query that it was named
after is gone, did not move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.catalog.aggregate import Quantity
from dprelease.plan.document import Invariant, Measured, Output, PlannedQuery, ReleasePlan, Workload
from dprelease.plan.explain.differences import Difference, field_differences, text_of, union, unlike

__all__ = ["Drawn", "Fed", "Number", "Side", "draw_differences", "draws_of", "number_of", "share_of"]

Pair = tuple[str, str]  # before and after, empty where there is none
Fed = tuple[Measured, Quantity]


@dataclass(frozen=True)
class Drawn:
    """One draw that a number is made of.

    Attributes:
        quantity: What it hides.
        mechanism: That hides it; ``exact`` where nothing does.
        scale: The scale of the noise, exact, in units of the quantity (of a choice in ranks, of contrasts or sums of
            cells in steps of their lattice).
        share: The share of the release's budget, exact.
    """

    quantity: Pair
    mechanism: Pair
    scale: Pair
    share: Pair


@dataclass(frozen=True)
class Number:
    """The noise of one number of a query in both plans; of a table of a workload that of its worst cell.

    Attributes:
        query: The table.
        measure: Its number; ``keys`` where a draw selects them, ``first K`` of a list.
        margin: The margin of error, as decimal text, each at its plan's confidence.
        standard_error: As decimal text.
        draws: That it is made of, in the order in which its estimate takes them; none of a table of a workload.
        times: What the noise is after, in what it was before: of the margins, or where one has none of the standard
            errors, or of the scales of the first draws; None where it cannot be said.
    """

    query: str
    measure: str
    margin: Pair
    standard_error: Pair
    draws: tuple[Drawn, ...]
    times: Fraction | None

    @property
    def moved(self) -> bool:
        """Whether its noise is another one; another share of a budget is not."""
        pairs = [self.margin, self.standard_error]
        pairs += [pair for each in self.draws for pair in (each.quantity, each.mechanism, each.scale)]
        return any(before != after for before, after in pairs)


class Side:
    """One plan, with what is looked up in it by name.

    Attributes:
        plan: The plan.
        steps: Its steps and invariants.
        outputs: By query and measure what it says of the accuracy.
        parts: Its queries and, in the place of their tables, its workloads, in published order.
    """

    def __init__(self, plan: ReleasePlan) -> None:
        """Look through it once."""
        self.plan = plan
        self.steps: dict[str, Measured] = {step.id: step for step in plan.measured}
        self.outputs: dict[str, dict[str, Output]] = {}
        for output in plan.outputs:
            self.outputs.setdefault(output.query, {})[output.measure] = output
        workloads = {each.name: each for each in plan.workloads}
        self.parts: dict[str, PlannedQuery | Workload] = {}
        for query in plan.queries:
            if query.workload is None:
                self.parts[query.name] = query
            else:
                self.parts.setdefault(query.workload, workloads[query.workload])

    def measures(self, query: PlannedQuery) -> list[str]:
        """The names of a query's numbers in the author's order, which the outputs alone keep."""
        written = [name for name in self.outputs.get(query.name, {}) if name in query.measures]
        return union(written, sorted(query.measures))


def draws_of(side: Side, query: PlannedQuery) -> dict[str, list[Fed]]:
    """By number what it is made of; the draw that selects the keys, and the one that lists them, have names too."""
    found: dict[str, list[Fed]] = {}
    if query.selection is not None:
        step = side.steps[query.selection]
        found["keys"] = [(step, step.parts[0])]
    if query.ranking is not None:
        step = side.steps[query.ranking.step]
        found[f"first {query.ranking.k}"] = [(step, step.parts[0])]
    for label in side.measures(query):
        fed = [(side.steps[feed.step], feed.part) for feed in query.inputs.get(label, ())]
        found[label] = [(step, step.parts[part]) for step, part in fed]
    return found


def draw_differences(of: str, before: Sequence[Fed], after: Sequence[Fed]) -> Iterator[Difference]:
    """What the draws of a number hide otherwise, but for how much noise there is."""
    made = [" + ".join(_called(quantity) for _, quantity in fed) for fed in (before, after)]
    yield from unlike((f"draws of {of}", made[0], made[1]))
    if made[0] != made[1]:
        return
    for (step, quantity), (other, changed) in zip(before, after, strict=True):
        name = f"{_called(quantity)} of {of}"
        yield from field_differences(name, quantity, changed)
        if isinstance(step, Invariant) or isinstance(other, Invariant) or step.mechanism != other.mechanism:
            continue  # another mechanism is told beside its noise, and hides as many quantities together as it may
        reach = [each.sensitivity.model_copy(update={"shifts": ()}) for each in (step, other)]
        yield from unlike((f"sensitivity of {name}", text_of(reach[0]), text_of(reach[1])))
        for field in ("gauge", "replaced", "choosing", "selecting"):
            texts = [text_of(getattr(each, field)) for each in (step, other)]
            yield from unlike((f"{field} of {name}", texts[0], texts[1]))


def _called(quantity: Quantity) -> str:
    """Words for what a draw hides."""
    return quantity.kind if quantity.column is None else f"{quantity.column} {quantity.kind}"


def number_of(
    one: Side, two: Side, query: str, label: str, before: Sequence[Fed] = (), after: Sequence[Fed] = ()
) -> Number:
    """The noise of a number in both plans.

    Args:
        one: The plan before.
        two: The plan after.
        query: The table.
        label: The number.
        before: What it is made of before; nothing is told of draws of which nothing is given.
        after: The same after.
    """
    told = [side.outputs.get(query, {}).get(label) for side in (one, two)]
    margin = [(each.margin or "") if each else "" for each in told]
    error = [(each.standard_error or "") if each else "" for each in told]
    places = range(max(len(before), len(after)))
    draws = tuple(_drawn(before[at : at + 1], after[at : at + 1]) for at in places)
    wholes = [_whole(side, query, label) for side in (one, two)]
    ratios = [_ratio(each[0], each[1], wholes) for each in (margin, error)]
    ratios += [_ratio(*each.scale) for each in draws[:1]]
    times = next((each for each in ratios if each is not None), None)
    return Number(query, label, (margin[0], margin[1]), (error[0], error[1]), draws, times)


def _whole(side: Side, query: str, label: str) -> int:
    """100 of a percentage, whose noise is what it was before it was one."""
    part = side.parts.get(query)
    if isinstance(part, PlannedQuery) and label in part.compare:
        return part.compare[label].whole
    return part.measures[label].whole if isinstance(part, PlannedQuery) and label in part.measures else 1


def _ratio(before: str, after: str, wholes: Sequence[int] = (1, 1)) -> Fraction | None:
    if not before or not after or not Fraction(before):
        return None
    return Fraction(after) / wholes[1] / (Fraction(before) / wholes[0])


def _drawn(before: Sequence[Fed], after: Sequence[Fed]) -> Drawn:
    one, two = (_of_draw(*fed[0]) if fed else ("", "", "", "") for fed in (before, after))
    return Drawn((one[0], two[0]), (one[1], two[1]), (one[2], two[2]), (one[3], two[3]))


def _of_draw(step: Measured, quantity: Quantity) -> tuple[str, str, str, str]:
    """What it hides, its mechanism, scale and share."""
    if isinstance(step, Invariant):
        return _called(quantity), "exact", "", ""
    unit = 1 if step.choosing is not None else quantity.grid
    lattice = 1 if step.factor is None else step.factor.grain
    return _called(quantity), step.mechanism, str(step.scale * unit / lattice), str(step.share)


def share_of(draws: Mapping[str, Sequence[Fed]]) -> Fraction:
    """The share of the budget that all draws of a query have, each once."""
    steps = {step.id: step for fed in draws.values() for step, _ in fed}
    return sum((step.share for step in steps.values() if not isinstance(step, Invariant)), Fraction(0))
