"""Two releases side by side: what differs in what was asked, and which numbers moved by more than noise explains.

A number of a release lies within its margin of the truth with the margin's confidence; of one that was made
non-negative or whole that is true of the estimate before, so that estimates are compared. Where the truth is the same
in both releases, two numbers therefore differ by more than the sum of their margins with a probability of at most twice
what the margins leave out (the union bound, whatever the noise is and whatever it was shared with). With n numbers
compared, each margin is taken at 1 - (1 - confidence) / (2 n), so that the chance of naming **any** number that did not
change is at most 1 - confidence (Bonferroni). That is cautious: a change that is not named may still be one.

How many numbers are compared decides at which confidence, so that every table is made twice: as it was published, then
with those margins. Only tables that both releases have are made, one at a time (those of a workload together), and they
are compared as arrays, row by row with the same keys.

Two numbers of one series of periods that share their noise are both linear in its draws: what noise explains of their
difference is then the margin of that difference, which both sides share one error probability for, and no sum of two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.catalog.series.band import SumOf
from dprelease.catalog.table import Key
from dprelease.estimate import Coded, PublishedTable, coded
from dprelease.measures import Measure
from dprelease.noise import Measurement
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.plan.document.series import Draws
from dprelease.plan.explain.changes import Moved, moved
from dprelease.plan.explain.differences import Difference, same_table
from dprelease.publish.base import key_as_text, sql_names
from dprelease.publish.comparing.series import margin_of_change, with_sums
from dprelease.publish.measured import Inputs, inputs_of, queries_as_tables

__all__ = ["Comparison", "Difference", "NumberChange", "Places", "Released", "aligned", "compare_releases"]

Shared = dict[str, tuple[str, ...]]  # by query the measures that both ask for
Integers = npt.NDArray[np.int64]
_LARGEST = 2**62


@dataclass(frozen=True)
class Released:
    """One release as its bundle has it; ``earlier``: what earlier periods of its series measured."""

    plan: ReleasePlan
    measurements: Mapping[str, Measurement]
    earlier: Draws = field(default_factory=dict)


@dataclass(frozen=True)
class NumberChange:
    """A number that moved by more than the noise of both explains.

    Attributes:
        query: Its query.
        measure: Its measure.
        keys: The keys of its cell.
        before: In the first release; of a number that was moved after it was estimated, the estimate.
        after: In the second, likewise.
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
        moved: Between their plans.
        changes: The numbers that moved, those first that moved most beside what noise explains.
        compared: How many numbers were compared.
        left_out: How many both have that could not be: withheld, blank, or without a law.
        confidence: That no number is named that did not change.
    """

    moved: Moved
    changes: tuple[NumberChange, ...]
    compared: int
    left_out: int
    confidence: Fraction

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What was asked and promised otherwise."""
        return self.moved.differences


def compare_releases(first: Released, second: Released, confidence: Fraction) -> Comparison:
    """Hold the second release against the first.

    Args:
        first: The earlier one.
        second: The later one.
        confidence: That no number is named that did not change; between 0 and 1.

    Raises:
        PublishError, BrokenPromiseError: If the measurements are not those of their plan.
    """
    sides = (_Side(first.plan, _inputs(first)), _Side(second.plan, _inputs(second)))
    pairs = [pair for group in _shared(first.plan, second.plan) for pair in _paired(sides, group)]
    compared = sum(int(pair.fit.sum()) for pair in pairs)
    changes = _changes(sides, pairs, 1 - (1 - confidence) / (2 * compared)) if compared else []
    return Comparison(
        moved=moved(first.plan, second.plan),
        changes=tuple(sorted(changes, key=lambda each: -abs(each.after - each.before) / max(each.noise, 1e-300))),
        compared=compared,
        left_out=sum(len(pair.fit) for pair in pairs) - compared,
        confidence=confidence,
    )


def _inputs(released: Released) -> Inputs:
    return inputs_of(released.plan, released.measurements, released.earlier)


def _shared(first: ReleasePlan, second: ReleasePlan) -> list[Shared]:
    """What both ask for in the same words, for the numbers mean the same: query by query, and a workload at once."""
    others = {query.name: query for query in second.queries}
    found: dict[tuple[str, str], Shared] = {}
    for query in first.queries:
        other = others.get(query.name)
        if other is None or query.ranking is not None or not _same_rows(first, query, second, other):
            continue
        names = [name for name in sql_names(first, query) if _said(query, name) == _said(other, name) is not None]
        if names:
            group = (query.workload or query.name, other.workload or other.name)
            found.setdefault(group, {})[query.name] = tuple(names)
    return list(found.values())


def _said(query: PlannedQuery, name: str) -> tuple[Measure, SumOf | None] | None:
    """What a number of a query is: its measure, and of which periods the sum; None: it is not there."""
    asked = query.compare.get(name)
    measure = query.measures.get(name if asked is None else asked.measure)
    return None if measure is None else (measure, None if asked is None else asked.sum_of)


def _same_rows(first: ReleasePlan, query: PlannedQuery, second: ReleasePlan, other: PlannedQuery) -> bool:
    """Whether both look at rows of one definition, cell by cell; where the rows lie may differ, and their period."""
    left_out = {"excluding": None, "min_units": None}  # a cell that is there in both means the same
    same = query.grouping.model_copy(update=left_out) == other.grouping.model_copy(update=left_out)
    # A row that has an impossible combination is in no table, whatever its cells.
    same = same and first.catalog.zeros.get(query.zeros or "") == second.catalog.zeros.get(other.zeros or "")
    return (
        same
        and (query.ranking, query.ranges) == (other.ranking, other.ranges)
        and same_table(first, second, query.table)
    )


@dataclass(frozen=True, eq=False)
class _Side:
    """One release, and what its tables are made of."""

    plan: ReleasePlan
    inputs: Inputs

    def tables(self, names: Shared, confidence: Fraction | None = None) -> dict[str, PublishedTable]:
        """Some of its tables: as they are published, or with margins at a confidence and every number shown."""
        plan = self.plan
        if confidence is not None:
            shown = plan.publish.model_copy(update={"confidence": confidence, "unreliable_above": None})
            plan = plan.model_copy(update={"publish": shown})
        made = with_sums(plan, queries_as_tables(plan, self.inputs, names.keys()), self.inputs)
        return {table.name: table for table in made}


Sides = tuple[_Side, _Side]


@dataclass(frozen=True, eq=False)
class _Pair:
    """One measure of a table that both releases have.

    Attributes:
        group: What is made together with it.
        table: The table.
        measure: The measure.
        places: The places of the cells that both have, in either table.
        fit: Shape ``(cells,)``: which of these can be compared.
    """

    group: Shared
    table: str
    measure: str
    places: tuple[Places, Places]
    fit: npt.NDArray[np.bool_]


def _paired(sides: Sides, group: Shared) -> Iterator[_Pair]:
    """Every measure of some tables, as they were published: what is not shown is not compared either."""
    one, two = (side.tables(group) for side in sides)
    for name, measures in group.items():
        places = aligned(one[name], two[name])
        for measure in (each.name for each in one[name].measures if each.name in measures):
            numbers = [_numbers(table[name], measure, at) for table, at in zip((one, two), places, strict=True)]
            fit = np.logical_and.reduce([np.isfinite(each) for pair in numbers for each in pair])
            yield _Pair(group, name, measure, places, fit)


def _numbers(table: PublishedTable, name: str, places: Places) -> tuple[npt.NDArray[np.float64], ...]:
    """What the noise left of some cells, before anything was moved, and its margin."""
    (found,) = (each for each in table.measures if each.name == name)
    return found.estimate[places], found.margin[places]


def _changes(sides: Sides, pairs: Sequence[_Pair], confidence: Fraction) -> Iterator[NumberChange]:
    """The numbers that differ by more than both margins, each of them at this confidence."""
    made: Shared | None = None
    for pair in pairs:
        if pair.group is not made:
            made, (one, two) = pair.group, (side.tables(pair.group, confidence) for side in sides)
        tables = (one[pair.table], two[pair.table])
        before, margin = _numbers(tables[0], pair.measure, pair.places[0])
        after, other = _numbers(tables[1], pair.measure, pair.places[1])
        ends = [(side.plan, side.inputs) for side in sides]
        # One difference, and no two margins: it has the error probability of both.
        exact = margin_of_change(ends[0], ends[1], pair.table, pair.measure, 2 * confidence - 1)
        noise = margin + other if exact is None else np.full_like(margin, exact)
        with np.errstate(invalid="ignore"):
            far = pair.fit & (np.abs(after - before) > noise)  # never for a margin that is infinite, or none
        cells = np.arange(tables[0].cells)[pair.places[0]][far]
        keys = _keys(tables[0], cells)
        for each in zip(keys, before[far].tolist(), after[far].tolist(), noise[far].tolist(), strict=True):
            yield NumberChange(pair.table, pair.measure, *each)


def _keys(table: PublishedTable, cells: npt.NDArray[np.int64]) -> Sequence[tuple[str, ...]]:
    """The keys of some cells as text."""
    if not table.keys:
        return [()] * len(cells)
    columns = [coded(each) for each in table.keys]
    texts = ([key_as_text(column.keys[code]) for code in column.codes[cells].tolist()] for column in columns)
    return list(zip(*texts, strict=True))


Places = Integers | slice  # of rows of a table; a slice: all of them, in their order


def aligned(one: PublishedTable, two: PublishedTable) -> tuple[Places, Places]:
    """The places of the rows that both tables have, in the order of the first one.

    Keys are the same where their texts are. Of several rows of a table with the same keys (which only keys that a
    selection chose can have, where a file cannot tell them apart) the last one counts, in the place of the first.

    Args:
        one: A table.
        two: Another one, with as many key columns.

    Returns:
        Places in the first and in the second table, as many.
    """
    first, second = _numbered(one, two)
    if len(first) == len(second) and bool((first == second).all()) and bool((first[1:] > first[:-1]).all()):
        return slice(None), slice(None)
    known, begin, last = _distinct(first)
    others, _, other_last = _distinct(second)
    _, at, other_at = np.intersect1d(known, others, assume_unique=True, return_indices=True)
    order = np.argsort(begin[at])
    return last[at][order], other_last[other_at][order]


def _distinct(numbers: Integers) -> tuple[Integers, Integers, Integers]:
    """Different numbers, rising, with the first and the last place of each."""
    found, first = np.unique(numbers, return_index=True)
    last = len(numbers) - 1 - np.unique(numbers[::-1], return_index=True)[1]
    return found, first, last


def _numbered(one: PublishedTable, two: PublishedTable) -> tuple[Integers, Integers]:
    """One number for the keys of every row, the same in both tables for the same keys; row-major where keys are."""
    first, second = np.zeros(one.cells, dtype=np.int64), np.zeros(two.cells, dtype=np.int64)
    size = 1
    for column, other in zip(one.keys, two.keys, strict=True):
        codes, others, count = _codes(coded(column), coded(other))
        if size * count > _LARGEST:
            _, numbers = np.unique(np.concatenate([first, second]), return_inverse=True)
            first, second, size = numbers[: one.cells], numbers[one.cells :], len(numbers)
        first, second, size = first * count + codes, second * count + others, size * count
    return first, second


def _codes(column: Coded[Key], other: Coded[Key]) -> tuple[Integers, Integers, int]:
    """The codes of two columns in one numbering of the texts of their keys, and how many there are."""
    kinds = {type(key) for each in (column, other) for key in each.keys}
    if len(kinds) < 2 and tuple(column.keys) == tuple(other.keys):  # keys of one type have texts of their own
        return column.codes.astype(np.int64), other.codes.astype(np.int64), max(len(column.keys), 1)
    texts, others = ([key_as_text(key) for key in each.keys] for each in (column, other))
    places = {text: at for at, text in enumerate(dict.fromkeys([*texts, *others]))}
    mine, theirs = (np.array([places[text] for text in each], dtype=np.int64) for each in (texts, others))
    return mine[column.codes], theirs[other.codes], max(len(places), 1)
