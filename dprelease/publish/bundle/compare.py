"""Two releases side by side: what differs in what was asked, and which numbers moved by more than noise explains.

A number of a release lies within its margin of the truth with the margin's confidence. Where the truth is the same in
both releases, two numbers therefore differ by more than the sum of their margins with a probability of at most twice
what the margins leave out (the union bound, whatever the noise is and whatever it was shared with). With n numbers
compared, each margin is taken at 1 - (1 - confidence) / (2 n), so that the chance of naming **any** number that did not
change is at most 1 - confidence (Bonferroni). That is cautious: a change that is not named may still be one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dprelease.catalog.table import Key
from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.noise import Measurement
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.plan.explain import budget_facts, loss_facts
from dprelease.publish.base import key_text, measure_names
from dprelease.publish.measured import inputs_of, queries_as_tables

__all__ = ["Change", "Comparison", "Difference", "Released", "compare"]

Place = tuple[str, str, tuple[str, ...]]  # query, measure, keys


@dataclass(frozen=True)
class Released:
    """One release as its bundle has it."""

    plan: ReleasePlan
    measurements: Mapping[str, Measurement]


@dataclass(frozen=True)
class Difference:
    """A fact that the two releases do not share, as text."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Change:
    """A number that moved by more than the noise of both explains.

    Attributes:
        query: Its query.
        measure: Its measure.
        keys: Of its cell.
        before: In the first release.
        after: In the second.
        noise: The largest difference that noise explains, at the comparison's confidence.
    """

    query: str
    measure: str
    keys: tuple[str, ...]
    before: float
    after: float
    noise: float


@dataclass(frozen=True)
class Comparison:
    """What differs between two releases.

    Attributes:
        differences: In what was asked and promised.
        changes: The numbers that moved, those first that moved most beside what noise explains.
        compared: How many numbers were compared.
        left_out: How many both have that could not be: withheld, blank, or without a law.
        confidence: That no number is named that did not change.
    """

    differences: tuple[Difference, ...]
    changes: tuple[Change, ...]
    compared: int
    left_out: int
    confidence: Fraction


def compare(first: Released, second: Released, confidence: Fraction) -> Comparison:
    """Hold the second release against the first.

    Args:
        first: The earlier one.
        second: The later one.
        confidence: That no number is named that did not change; between 0 and 1.

    Raises:
        PublishError, BrokenPromiseError: If the measurements are not those of their plan.
    """
    shared = _shared(first.plan, second.plan)
    one, two = _numbers(first, shared, None), _numbers(second, shared, None)
    both = [place for place in one if place in two]
    fit = [place for place in both if _has_law(one[place]) and _has_law(two[place])]
    changes = _changes(first, second, shared, fit, confidence) if fit else []
    return Comparison(
        differences=tuple(_differences(first.plan, second.plan)),
        changes=tuple(sorted(changes, key=lambda each: -abs(each.after - each.before) / max(each.noise, 1e-300))),
        compared=len(fit),
        left_out=len(both) - len(fit),
        confidence=confidence,
    )


def _shared(first: ReleasePlan, second: ReleasePlan) -> dict[str, tuple[str, ...]]:
    """The measures that both ask for in the same words, by query: their numbers mean the same."""
    others = {query.name: query for query in second.queries}
    found = {}
    for query in first.queries:
        other = others.get(query.name)
        if other is None or query.ranking is not None or not _same_rows(first, query, second, other):
            continue
        names = [name for name in measure_names(first, query) if query.measures.get(name) == other.measures.get(name)]
        if names:
            found[query.name] = tuple(names)
    return found


def _same_rows(first: ReleasePlan, query: PlannedQuery, second: ReleasePlan, other: PlannedQuery) -> bool:
    """Whether both look at rows of one definition, cell by cell; where the rows lie may differ, and their period."""
    left_out = {"excluding": None, "min_units": None}  # a cell that is there in both means the same
    same = query.grouping.model_copy(update=left_out) == other.grouping.model_copy(update=left_out)
    return same and query.ranking == other.ranking and _same_table(first, second, query.table)


def _same_table(first: ReleasePlan, second: ReleasePlan, name: str) -> bool:
    one, two = first.catalog.tables[name], second.catalog.tables[name]
    return one.model_copy(update={"source": two.source}) == two


def _numbers(
    released: Released, shared: Mapping[str, tuple[str, ...]], confidence: Fraction | None
) -> dict[Place, tuple[float, float]]:
    """Value and margin of every shared number that is published; margins at a confidence, None: as published."""
    plan = released.plan
    shown = queries_as_tables(plan, inputs_of(plan, released.measurements))
    tables = shown
    if confidence is not None:
        stricter = plan.publish.model_copy(update={"confidence": confidence, "unreliable_above": None})
        changed = plan.model_copy(update={"publish": stricter})
        tables = queries_as_tables(changed, inputs_of(changed, released.measurements))
    found: dict[Place, tuple[float, float]] = {}
    for table, as_shown in zip(tables, shown, strict=True):
        for measure, visible in zip(table.measures, as_shown.measures, strict=True):
            if measure.name in shared.get(table.name, ()):
                found.update(_cells(table, measure, visible))
    return found


def _cells(
    table: PublishedTable, measure: PublishedMeasure, shown: PublishedMeasure
) -> Iterator[tuple[Place, tuple[float, float]]]:
    keys: list[tuple[Key, ...]] = list(zip(*table.keys, strict=True)) if table.keys else [()] * table.cells
    for at, cell in enumerate(keys):
        withheld = math.isnan(float(shown.value[at]))  # what is not shown is not compared either
        value = math.nan if withheld else float(measure.value[at])
        yield (table.name, measure.name, tuple(map(key_text, cell))), (value, float(measure.margin[at]))


def _has_law(number: tuple[float, float]) -> bool:
    return all(map(math.isfinite, number))


def _changes(
    first: Released,
    second: Released,
    shared: Mapping[str, tuple[str, ...]],
    fit: list[Place],
    confidence: Fraction,
) -> Iterator[Change]:
    each = 1 - (1 - confidence) / (2 * len(fit))
    one, two = _numbers(first, shared, each), _numbers(second, shared, each)
    for place in fit:
        (before, margin), (after, other) = one[place], two[place]
        if abs(after - before) > margin + other:  # never for a margin that is infinite, or none
            yield Change(*place, before, after, margin + other)


def _differences(first: ReleasePlan, second: ReleasePlan) -> Iterator[Difference]:
    for what, before, after in _facts(first, second):
        if before != after:
            yield Difference(what, before, after)
    one, two = {query.name: query for query in first.queries}, {query.name: query for query in second.queries}
    for name in [*one, *(name for name in two if name not in one)]:
        if name not in two or name not in one:
            yield Difference(f"query {name}", "published" if name in one else "", "published" if name in two else "")
            continue
        yield from _of_query(first, one[name], second, two[name])


def _facts(first: ReleasePlan, second: ReleasePlan) -> Iterator[tuple[str, str, str]]:
    yield "release", first.release.name, second.release.name
    yield "period", first.release.period, second.release.period
    yield "revision", str(first.release.revision), str(second.release.revision)
    yield "planned revisions", str(first.release.revisions), str(second.release.revisions)
    yield "title", first.release.title, second.release.title
    yield "unit", str(first.unit), str(second.unit)
    yield "neighboring", str(first.neighboring), str(second.neighboring)
    yield "budget", _flat(budget_facts(first.budget)), _flat(budget_facts(second.budget))
    for accountant in sorted(first.loss.keys() | second.loss.keys()):
        told = [plan.loss.get(accountant) for plan in (first, second)]
        texts = [_flat(loss_facts(loss)) if loss else "" for loss in told]
        yield f"loss by {accountant}", texts[0], texts[1]
    yield "confidence", str(first.publish.confidence), str(second.publish.confidence)
    for name in sorted(first.catalog.references.keys() | second.catalog.references.keys()):
        known = [plan.catalog.references.get(name) for plan in (first, second)]
        marks = [each.sha256[:16] if each else "" for each in known]
        yield f"reference {name}", marks[0], marks[1]
    for name in sorted(first.catalog.tables.keys() & second.catalog.tables.keys()):
        yield f"definition of table {name}", "", "" if _same_table(first, second, name) else "another one"


def _flat(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)


def _of_query(first: ReleasePlan, one: PlannedQuery, second: ReleasePlan, two: PlannedQuery) -> Iterator[Difference]:
    name = one.name
    pairs = (
        ("title", one.title, two.title),
        ("table", one.table, two.table),
        ("rows", one.where or "all", two.where or "all"),
        ("keys", ", ".join(one.by), ", ".join(two.by)),
        ("measures", ", ".join(measure_names(first, one)), ", ".join(measure_names(second, two))),
    )
    for what, before, after in pairs:
        if before != after:
            yield Difference(f"{what} of {name}", before, after)
    for measure in sorted(one.measures.keys() & two.measures.keys()):
        if one.measures[measure] != two.measures[measure]:
            told = [query.measures[measure].canonical() for query in (one, two)]
            yield Difference(f"measure {measure} of {name}", told[0], told[1])
    if one.by == two.by:
        for column, other in zip(first.keys(one), second.keys(two), strict=True):
            if column.keys != other.keys:
                yield Difference(f"keys of {column.name} in {name}", _count(column.keys), _count(other.keys))


def _count(keys: tuple[Key, ...] | None) -> str:
    return "chosen by noise" if keys is None else f"{len(keys)} keys"
