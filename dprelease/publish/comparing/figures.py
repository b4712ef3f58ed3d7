"""The numbers of each kind of comparison: values, errors, intervals and p-values by the noise's own laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.estimate import PublishedTable, coded, interval
from dprelease.estimate.intervals import outward_ends
from dprelease.estimate.two_numbers import of_part_and_total, of_two_groups
from dprelease.measures import Measure, Noisy, Possible
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.measures.comparing.distances import Distances, noise_of_sum
from dprelease.measures.comparing.parts import TwoSums, share_sets
from dprelease.measures.tested.quotients import Draw, quotients
from dprelease.noise import Law
from dprelease.noise.weighted_sums import WeightedLaw
from dprelease.publish.base import key_as_text
from dprelease.publish.comparing.levels import Axes, Levels, OneLevel, linear_value
from dprelease.publish.comparing.measured_apart import measured_change, measured_difference
from dprelease.publish.comparing.rows import ComparedRows

__all__ = ["difference_noise", "figures_of", "share_sums"]

Floats = npt.NDArray[np.float64]
_ANYTHING: Possible = (None, None)


def figures_of(asked: ComparedNumber, now: Levels, before: Levels | None, table: PublishedTable) -> ComparedRows:
    """The numbers of one comparison in the rows of a query's table.

    Args:
        asked: What is compared.
        now: The query.
        before: The same query of the period that it looks back to; None: it looks back to none, or there is none.
        table: As published, for the keys of its rows.
    """
    measure, confidence = now.query.measures[asked.measure], now.plan.publish.confidence
    if asked.kind == "share":
        return _share(asked, now, confidence)
    if asked.kind == "difference":
        return _difference(asked, now, table, measure, confidence)
    if before is None:
        told = _is_linear(measure, now.levels[0], asked.measure) or not asked.proved
        return _nothing(table.cells, linear=told and asked.says_p)
    pairs = list(zip(now.levels, before.levels, strict=True))
    if asked.kind == "change" and not asked.proved:
        made = [measured_change(*pair, asked, measure, confidence) for pair in pairs]
    elif asked.kind == "change" and not _is_linear(measure, now.levels[0], asked.measure):
        made = [
            _apart(_wide(one, asked, measure, confidence), _wide(two, asked, measure, confidence)) for one, two in pairs
        ]
    elif asked.kind == "change":
        made = [_change(one, two, asked, measure, confidence) for one, two in pairs]
    else:
        made = [_times(one, two, asked, measure, confidence) for one, two in pairs]
    return _rows(now, made)


def _rows(now: Levels, made: Sequence[ComparedRows]) -> ComparedRows:
    def joined(name: str) -> Floats:
        return now.in_rows([getattr(each, name) for each in made])

    p_value = None if made[0].p_value is None else joined("p_value")
    return ComparedRows(joined("value"), joined("error"), joined("lower"), joined("upper"), p_value)


def _nothing(rows: int, *, linear: bool) -> ComparedRows:
    none = np.full(rows, np.nan)
    return ComparedRows(none, none, none, none, none if linear else None)


def _is_linear(measure: Measure, level: OneLevel, label: str) -> bool:
    return measure.coefficients([each.quantity for each in level.inputs[label]]) is not None


def _about(value: Floats, noise: Distances, confidence: Fraction) -> ComparedRows:
    """A number whose noise has one law in all rows."""
    margin = np.full(value.shape, noise.margin(confidence))
    whole = Fraction(1) if noise.unit == 1 and bool((value == np.rint(value)).all()) else None
    lower, upper = interval(value, margin, _ANYTHING, grid=whole)
    return ComparedRows(value, np.full(value.shape, noise.standard_error), lower, upper, noise.p_values(value))


def _parts(noisy: Sequence[Noisy], weights: Sequence[float]) -> list[tuple[float, Law]]:
    return [(weight, each.law) for weight, each in zip(weights, noisy, strict=True)]


def _change(
    now: OneLevel, before: OneLevel, asked: ComparedNumber, measure: Measure, confidence: Fraction
) -> ComparedRows:
    """A number less that of an earlier period: the two releases have independent noise."""
    one, ours = linear_value(measure, now.inputs[asked.measure])
    two, theirs = linear_value(measure, before.inputs[asked.measure])
    parts = [*_parts(now.inputs[asked.measure], ours), *_parts(before.inputs[asked.measure], theirs)]
    return _about(one - two, noise_of_sum(parts), confidence)


def _times(
    now: OneLevel, before: OneLevel, asked: ComparedNumber, measure: Measure, confidence: Fraction
) -> ComparedRows:
    """How many times a number is that of an earlier period: an index, or less 1 and in percent a growth.

    The set is that of all quotients which the exact test of both releases' noise does not refuse. The p-value of a
    growth is that of the change, which is 0 where the growth is.
    """
    above, below = now.inputs[asked.measure], before.inputs[asked.measure]
    (one, ours), (two, theirs) = linear_value(measure, above), linear_value(measure, below)
    draws = [Draw(each.law, weight, 0.0, each.drawn) for weight, each in zip(ours, above, strict=True)]
    draws += [Draw(each.law, 0.0, weight, f"earlier {each.drawn}") for weight, each in zip(theirs, below, strict=True)]
    bounds, least = (
        measure.bounds([each.quantity for each in above]),
        measure.least_above_zero([each.quantity for each in below]),
    )
    floor = float(least or 0)
    known = np.where((two > 0) & (two >= floor), two, np.nan)
    zero = 0.0 if bounds[0] is not None and bounds[0] >= 0 else None
    low, high = quotients(one, np.nan_to_num(known), draws, (zero, None), confidence, floor)
    ratio = one / known if zero is None else np.maximum(one, 0.0) / known
    error = np.sqrt(_variance(above, ours) + ratio**2 * _variance(below, theirs)) / known
    bare = ~(np.isfinite(low) & np.isfinite(high))  # no upper end: nothing is said of the lower one either
    low, high = (np.where(bare, np.nan, each) for each in (low, high))
    shift = 0.0 if asked.kind == "index" else asked.whole
    ends = outward_ends(asked.whole * low - shift, asked.whole * high - shift, _ANYTHING)
    value = asked.whole * ratio - shift
    p_value = _change(now, before, asked, measure, confidence).p_value if asked.says_p else None
    return ComparedRows(value, asked.whole * error, *ends, p_value)


def _variance(noisy: Sequence[Noisy], weights: Sequence[float]) -> float:
    return float(sum(weight**2 * each.law.variance for weight, each in zip(weights, noisy, strict=True)))


def _wide(level: OneLevel, asked: ComparedNumber, measure: Measure, confidence: Fraction) -> ComparedRows:
    """A number of any kind with an interval at half the error probability, so that two of them hold together."""
    noisy = level.inputs[asked.measure]
    found = measure.estimate_tested(noisy, 1 - (1 - confidence) / 2)
    bounds = measure.bounds([each.quantity for each in noisy])
    if found.ends is None:
        lower, upper = interval(found.value, found.margin, bounds, nearest=True)
    else:
        lower, upper = outward_ends(*found.ends, bounds)
    return ComparedRows(found.value, found.standard_error, lower, upper)


def _apart(one: ComparedRows, two: ComparedRows, *, independent: bool = True) -> ComparedRows:
    """The difference of two numbers by their intervals: where both hold, it lies between their ends."""
    sizes = one.error**2 + two.error**2
    error = np.sqrt(sizes) if independent else one.error + two.error
    ends = outward_ends(one.lower - two.upper, one.upper - two.lower, _ANYTHING)
    return ComparedRows(one.value - two.value, error, *ends)


def _difference(
    asked: ComparedNumber, now: Levels, table: PublishedTable, measure: Measure, confidence: Fraction
) -> ComparedRows:
    """Each row less the row of another group; rows of that group, and totals over the groups, have none."""
    other = _other_rows(asked, table)
    known = other >= 0
    if not asked.proved:
        return measured_difference(asked, now, other, measure, confidence)
    linear = _is_linear(measure, now.levels[0], asked.measure)
    if not linear:
        wide = _rows(now, [_wide(level, asked, measure, confidence) for level in now.levels])
        beside = ComparedRows(*(getattr(wide, name)[other] for name in ("value", "error", "lower", "upper")))
        drawn = now.query.totals is not None and bool(now.query.totals.drawn)
        return replace(_only(known, _apart(wide, beside, independent=not drawn)), never=~known)
    value = now.in_rows([linear_value(measure, level.inputs[asked.measure])[0] for level in now.levels])
    which = now.in_rows([np.full(level.rows, float(at)) for at, level in enumerate(now.levels)])
    found, result = value - value[other], _nothing(table.cells, linear=True)
    filled = {name: np.full(table.cells, np.nan) for name in ("value", "error", "lower", "upper", "p_value")}
    for at, level in enumerate(now.levels):
        rows = known & (which == at)
        if not rows.any():
            continue
        figures = _about(found[rows], difference_noise(asked, now, level, measure), confidence)
        for name, numbers in filled.items():
            numbers[rows] = getattr(figures, name)
    return replace(ComparedRows(**filled) if known.any() else result, never=~known)


def difference_noise(asked: ComparedNumber, now: Levels, level: OneLevel, measure: Measure) -> Distances:
    """The noise of the difference of two rows of a level that have different keys in one column."""
    noisy = level.inputs[asked.measure]
    _, weights = linear_value(measure, noisy)
    if now.query.totals is None:
        return noise_of_sum([*_parts(noisy, weights), *_parts(noisy, weights)])
    assert asked.difference_from is not None  # noqa: S101 - asked for by the caller
    along = now.query.by.index(asked.difference_from[0])
    unit = abs(weights[0]) if len(weights) == 1 else 1.0
    sums = [of_two_groups(now.sizes, drawn, level.axes, along) for drawn in now.drawn(asked.measure)]
    parts = tuple(
        (abs(weight) / unit * abs(a - b), times, variance)
        for weight, each in zip(weights, sums, strict=True)
        for a, b, times, variance in each.parts
        if a != b
    )
    return Distances(WeightedLaw(parts, sums[0].gaussian), unit)


def _other_rows(asked: ComparedNumber, table: PublishedTable) -> npt.NDArray[np.int64]:
    """For each row the place of the one with the other group's key and otherwise its own; -1: there is none."""
    assert asked.difference_from is not None  # noqa: S101 - asked for by the caller
    column, key = asked.difference_from
    at = [each.name for each in table.key_columns].index(column)
    columns = [coded(keys) for keys in table.keys]
    names = [key_as_text(each) for each in columns[at].keys]
    if key not in names:
        return np.full(table.cells, -1, dtype=np.int64)
    place = np.zeros(table.cells, dtype=np.int64)
    wanted = np.zeros(table.cells, dtype=np.int64)
    for number, each in enumerate(columns):
        own = each.codes.astype(np.int64)
        place = place * len(each.keys) + own
        wanted = wanted * len(each.keys) + (names.index(key) if number == at else own)
    order = np.argsort(place)
    found = np.searchsorted(place[order], wanted)
    held = np.minimum(found, table.cells - 1)
    there = (place[order][held] == wanted) & (wanted != place)
    total = names.index("_total") if "_total" in names else -1
    there &= columns[at].codes != total
    return np.where(there, order[held], -1)


def _only(known: npt.NDArray[np.bool_], figures: ComparedRows) -> ComparedRows:
    def kept(numbers: Floats) -> Floats:
        return np.where(known, numbers, np.nan)

    return ComparedRows(kept(figures.value), kept(figures.error), kept(figures.lower), kept(figures.upper))


def share_sums(now: Levels, label: str, axes: Axes, total: Axes, measure: Measure, level: OneLevel) -> TwoSums:
    """The noise of a number and of the total that it is a part of, in units of the number."""
    _, weights = linear_value(measure, level.inputs[label])
    sums = [of_part_and_total(now.sizes, drawn, axes, total) for drawn in now.drawn(label)]
    parts = tuple(
        (weight * a, weight * b, times, variance)
        for weight, each in zip(weights, sums, strict=True)
        for a, b, times, variance in each.parts
        if times
    )
    return TwoSums(parts, sums[0].gaussian)


def _share(asked: ComparedNumber, now: Levels, confidence: Fraction) -> ComparedRows:
    """Each number over its total: rows of that very total are all of it, rows of coarser totals have no share."""
    measure, whole = now.query.measures[asked.measure], asked.whole
    names = set(asked.share_of or ())
    total = tuple(at for at, name in enumerate(now.query.by) if name in names)
    of_total = next(level for level in now.levels if level.axes == total)
    summed, _ = linear_value(measure, of_total.inputs[asked.measure])
    least = float(measure.least_above_zero([each.quantity for each in of_total.inputs[asked.measure]]) or 0)
    known = np.where((summed > 0) & (summed >= least), summed, np.nan)
    made, without = [], [not set(total) <= set(level.axes) for level in now.levels]
    never = now.in_rows([np.full(level.rows, float(each)) for level, each in zip(now.levels, without, strict=True)]) > 0
    for level in now.levels:
        if not set(total) <= set(level.axes):
            made.append(_nothing(level.rows, linear=False))
            continue
        if level.axes == total:
            full = np.where(np.isnan(known), np.nan, float(whole))
            made.append(ComparedRows(full, full * 0, full, full))
            continue
        below = known[_total_of(now, level.axes, total)]
        part, _ = linear_value(measure, level.inputs[asked.measure])
        sums = share_sums(now, asked.measure, level.axes, total, measure, level)
        low, high = share_sets(part, np.nan_to_num(below), sums, confidence)
        share = np.clip(part / below, 0.0, 1.0)
        low, high = np.fmin(low, share), np.fmax(high, share)
        low, high = (np.where(np.isnan(below), np.nan, each) for each in (low, high))
        ends = outward_ends(whole * low, whole * high, (Fraction(0), Fraction(whole)))
        made.append(ComparedRows(whole * share, whole * sums.error(share) / below, *ends))
    return replace(_rows(now, made), never=never)


def _total_of(now: Levels, axes: Axes, total: Axes) -> npt.NDArray[np.int64]:
    """For each row of a table the place of its total."""
    shape = tuple(now.sizes[at] for at in axes)
    grid = np.indices(shape).reshape(len(shape), -1)
    place = np.zeros(grid.shape[1], dtype=np.int64)
    for at in total:
        place = place * now.sizes[at] + grid[axes.index(at)]
    return place
