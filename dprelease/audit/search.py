"""For every step two made-up neighbouring data sets that differ as much as the plan says they can, or nearly so."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dprelease.audit.pairs import AuditData, AuditedStep, Boxes, broken_bounds, change_of, size_of
from dprelease.errors import BrokenPromiseError, EngineError
from dprelease.privacy.unit import Neighboring
from dprelease.starter.extremes import UnitRows

__all__ = ["NeighbourPair", "Searched", "at_the_threshold", "crowd", "groups_of", "search"]

_OTHERS = (2, 0, 3, 1, 24)  # units that both data sets have, in turn: what one adds depends on who else is there
_MANY_ROWS = 100  # of a unit: of such there are never many others
_TOGETHER = 5  # units that are tried beside the same others
_FEW = 20  # units that are tried in up to twice the time, where one takes long
_LONGEST = 2.0  # times the time of a search, at most
_FEWEST, _MOST = 40, 160  # units that are tried; a pair that reaches what is stated is no reason to try no further ones
_COPIES = 400  # of a unit, at most: a threshold above them has no pair of its own
_COPIED = 20_000  # rows of all copies together, about: of a unit with many its first ones
_KEPT = 8  # of the units tried before, to put one in the place of another


@dataclass(frozen=True)
class NeighbourPair:
    """Two neighbouring data sets: the units of each, and what is counted on them.

    Attributes:
        units: Of the first and of the second.
        first: Exact totals on the first, by step.
        second: Those on the second.
        change: Of the step that the pair was chosen for.
        size: How near that is to what is stated; 1 reaches it.
    """

    units: tuple[Sequence[UnitRows], Sequence[UnitRows]]
    first: dict[str, Boxes]
    second: dict[str, Boxes]
    change: npt.NDArray[np.int64]
    size: float


@dataclass
class Searched:
    """What a search found.

    Attributes:
        best: By step the pair that moves it most.
        edges: Of a selection a pair whose last unit makes a key reach the threshold: there noise alone decides.
        whole: Pairs that move all of a group of steps most, and some of them most beside the others.
        broken: By step the stated bounds that a pair exceeds.
        tried: How many units.
    """

    best: dict[str, NeighbourPair] = field(default_factory=dict)
    edges: dict[str, NeighbourPair] = field(default_factory=dict)
    whole: list[NeighbourPair] = field(default_factory=list)
    broken: dict[str, dict[str, None]] = field(default_factory=dict)
    tried: int = 0


def search(data: AuditData, seconds: float, show: Callable[[int, int], None]) -> Searched:
    """Try units until the time is over; at least a few, and those of every table."""
    found = Searched()
    groups = groups_of(data)
    for number, (table, steps) in enumerate(groups):
        _search_group(data, table, steps, seconds / len(groups), found)
        show(number + 1, len(groups))
    return found


def groups_of(data: AuditData) -> list[tuple[str, list[AuditedStep]]]:
    """Steps whose tables a unit has rows in at once: of all tables with ids, and of each without by itself."""
    groups: dict[str, tuple[str, list[AuditedStep]]] = {}
    for each in data.steps:
        name = each.step.aggregate.table
        of = "" if data.tables[name].unit_id is not None else name
        groups.setdefault(of, (name, []))[1].append(each)
    return list(groups.values())


def crowd(data: AuditData, table: str, units: int) -> list[UnitRows]:
    """So many units, or three where one may have many rows."""
    bounds = data.tables[table].bounds
    most = units if bounds is None or bounds.max_rows <= _MANY_ROWS else min(units, max(_OTHERS[:-1]))
    return [data.units.unit(table) for _ in range(most)]


def _search_group(data: AuditData, table: str, steps: Sequence[AuditedStep], seconds: float, found: Searched) -> None:
    largest: dict[str, NeighbourPair] = {}
    begun, tried = time.monotonic(), 0
    while tried < _MOST:
        late = (time.monotonic() - begun) / seconds
        if (
            (late > 1 and tried >= _FEW)
            or (late > _LONGEST and tried)
            or (tried >= _FEWEST and _all_reached(found, steps))
        ):
            break
        others = crowd(data, table, _OTHERS[tried // _TOGETHER % len(_OTHERS)])
        pairs = _beside(data, others, table, steps, found, begun + _LONGEST * seconds)
        if pairs is None:
            return
        tried += _TOGETHER
        for way, pair in pairs.items():
            if way not in largest or pair.size > largest[way].size:
                largest[way] = pair
    found.whole += largest.values()
    for each in steps:
        if each.step.selecting is not None and each.step.id in found.best:
            at_the_threshold(data, each, found)


def at_the_threshold(data: AuditData, selection: AuditedStep, found: Searched) -> None:
    """The pair that a selection has already, beside as many copies of its last unit as are one too few to be shown."""
    step, pair = selection.step, found.best[selection.step.id]
    copies = step.selecting.threshold - 1 if step.selecting is not None else 0
    if not 0 < copies <= _COPIES:
        return
    some = max(1, _COPIED // copies)
    last = {name: rows[:some] for name, rows in pair.units[1][-1].items()}
    others = [_named(data, last, f"copy-{number}") for number in range(copies)]
    replaced = pair.units[0][-1:] if data.plan.neighboring is Neighboring.REPLACE_ONE else []
    units = ([*others, *replaced], [*others, last])
    counted = [_boxes(data, each, [selection], found) for each in units]
    if counted[0] is None or counted[1] is None:
        return
    first, second = counted[0], counted[1]
    change = change_of(step, first[step.id], second[step.id])
    for says in broken_bounds(step, change):
        found.broken.setdefault(step.id, {})[says] = None
    size = size_of(step, change, first[step.id], second[step.id])
    found.edges[step.id] = NeighbourPair(units, first, second, change, size)


def _named(data: AuditData, unit: UnitRows, name: str) -> UnitRows:
    """The same rows under another id; rows of nobody stay rows of nobody."""
    ids = {each: str(table.unit_id) for each, table in data.tables.items()}
    return {
        each: [{**row, ids[each]: name if row.get(ids[each]) else ""} for row in rows] for each, rows in unit.items()
    }


def _beside(
    data: AuditData,
    others: Sequence[UnitRows],
    table: str,
    steps: Sequence[AuditedStep],
    found: Searched,
    until: float,
) -> dict[str, NeighbourPair] | None:
    """Some units, one after the other, beside the same others: by way the pair that moves all steps most.

    No further one is tried after ``until``, once there is a pair. None where the engine breaks a promise.
    """
    replaced = data.plan.neighboring is Neighboring.REPLACE_ONE
    earlier: list[tuple[Sequence[UnitRows], dict[str, Boxes]]] = []
    first = _boxes(data, others, steps, found)
    if first is None:
        return None
    if not replaced:
        earlier.append((others, first))
    largest: dict[str, NeighbourPair] = {}
    for _ in range(_TOGETHER):
        if largest and time.monotonic() > until:
            break
        units = [*others, data.units.unit(table)]
        counted = _boxes(data, units, steps, found)
        if counted is None:
            return None
        found.tried += 1
        for before, known in earlier:
            for way, pair in _compared(data, steps, (before, units), known, counted, found).items():
                if way not in largest or pair.size > largest[way].size:
                    largest[way] = pair
        if replaced:
            earlier = [*earlier[-_KEPT + 1 :], (units, counted)]
    return largest


def _boxes(
    data: AuditData, units: Sequence[UnitRows], steps: Sequence[AuditedStep], found: Searched
) -> dict[str, Boxes] | None:
    """None where the engine breaks a promise, or fails at these rows and not without any: that is an answer."""
    try:
        return data.boxes(units, steps)
    except BrokenPromiseError as error:
        says = f"reading made-up rows broke a promise: {error.summary}"
    except EngineError as error:
        data.boxes([], steps)  # raises where the failure has nothing to do with the rows
        says = f"some made-up rows cannot be read, and no rows can: {error.summary}"
    for each in steps:
        found.broken.setdefault(each.step.id, {})[says] = None
    return None


def _all_reached(found: Searched, steps: Sequence[AuditedStep]) -> bool:
    return all(each.step.id in found.best and found.best[each.step.id].size >= 1 for each in steps)


def _compared(
    data: AuditData,
    steps: Sequence[AuditedStep],
    units: tuple[Sequence[UnitRows], Sequence[UnitRows]],
    first: dict[str, Boxes],
    second: dict[str, Boxes],
    found: Searched,
) -> dict[str, NeighbourPair]:
    """What a pair moves in every step; by way what it moves in all of them together, as pairs of their own.

    One way is the sum. The other is how much more one step moves than another: noise that two steps share is gone from
    their difference, and a unit that is in both alike is gone with it.
    """
    sizes: list[float] = []
    for step in (each.step for each in steps):
        try:
            change = change_of(step, first[step.id], second[step.id])
        except ValueError:  # of another shape
            found.broken.setdefault(step.id, {})["neighbouring data sets have totals of different shapes"] = None
            continue
        for says in broken_bounds(step, change):
            found.broken.setdefault(step.id, {})[says] = None
        size = size_of(step, change, first[step.id], second[step.id])
        sizes.append(size)
        if size and (step.id not in found.best or size > found.best[step.id].size):
            found.best[step.id] = NeighbourPair(
                units, {step.id: first[step.id]}, {step.id: second[step.id]}, change, size
            )
    nothing = np.zeros(0, dtype=np.int64)
    ways = {"sum": sum(size**2 for size in sizes), "contrast": max(sizes, default=0) - min(sizes, default=0)}
    return {way: NeighbourPair(units, first, second, nothing, size) for way, size in ways.items() if size}
