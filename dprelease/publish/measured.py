"""From what was measured to published tables, and those as their files have them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.catalog.aggregate import left_out_of
from dprelease.catalog.table import Key
from dprelease.errors import BrokenPromiseError, PublishError
from dprelease.estimate import PublishedTable, Rows, as_rows, estimate, ranking_table
from dprelease.estimate.adjust import adjusted
from dprelease.estimate.counts import table_of_counts
from dprelease.estimate.ranges import prefix_counts
from dprelease.estimate.sampling import with_sampling
from dprelease.estimate.series import newest, periods_from_draws
from dprelease.estimate.tables import full_product
from dprelease.estimate.workloads.zeros import cell_variances, estimated
from dprelease.measures import Noisy
from dprelease.noise import Measurement
from dprelease.plan.design.accuracy import reach_of
from dprelease.plan.design.workload_design import design_of, numbers_of_take
from dprelease.plan.document import Invariant, Measured, PlannedQuery, ReleasePlan, Step, Workload
from dprelease.plan.document.series import Draws
from dprelease.publish.base import measure_names, public_rows, tested_measures
from dprelease.publish.combined.along import lines_of_series, summed_table
from dprelease.publish.combined.tables_of_series import tables_of_series
from dprelease.publish.totals import table_of_totals

__all__ = [
    "TOP_K",
    "Inputs",
    "as_table",
    "held_key",
    "inputs_of",
    "noisy_part",
    "published_tables",
    "queries_as_tables",
]

Floats = npt.NDArray[np.float64]
TOP_K = "exponential_top_k"


@dataclass(frozen=True, eq=False)
class Inputs:
    """What every step measured, and the keys that were selected.

    Attributes:
        noisy: By step id, one for each quantity of the step; nothing of steps that choose or select keys.
        keys: By the id of a step that selects keys: these, in published order.
        ranked: By the id of a step that ranks keys: their positions, the first rank first.
        measured: By the id of a step of a workload: what it measured.
        periods: By the id of a draw of a series: every period of it, in parts of a grid step.
    """

    noisy: Mapping[str, tuple[Noisy, ...]]
    keys: Mapping[str, tuple[tuple[Key, ...], ...]]
    ranked: Mapping[str, tuple[int, ...]]
    measured: Mapping[str, Measurement] = field(default_factory=dict)
    periods: Mapping[str, Sequence[npt.NDArray[np.int64]]] = field(default_factory=dict)

    def of(self, query: PlannedQuery) -> dict[str, list[Noisy]]:
        """For each measure of a query what its ``estimate`` takes."""
        return {label: [self.noisy[feed.step][feed.part] for feed in feeds] for label, feeds in query.inputs.items()}


def published_tables(plan: ReleasePlan, measurements: Mapping[str, Measurement]) -> tuple[PublishedTable, ...]:
    """Every query of a plan as a published table, in plan order.

    Args:
        plan: The plan that was measured.
        measurements: By step id.

    Raises:
        PublishError: If a step has no measurement (DPR-W101).
        BrokenPromiseError: If a measurement is of another step or size (DPR-W102).
    """
    return queries_as_tables(plan, inputs_of(plan, measurements))


def queries_as_tables(
    plan: ReleasePlan, inputs: Inputs, names: Collection[str] | None = None
) -> tuple[PublishedTable, ...]:
    """Every query of a plan as a published table, from what was measured.

    Args:
        plan: That was measured.
        inputs: What was.
        names: The names of the queries that are wanted, and no other is made; None: all of them.
    """
    wanted = [query for query in plan.queries if names is None or query.name in names]
    made: dict[str, PublishedTable] = {}
    for workload in plan.workloads:
        tables = [query.name for query in wanted if query.workload == workload.name]
        if tables:
            first = next(query for query in wanted if query.workload == workload.name)
            if first.series is not None:
                made.update(tables_of_series(plan, workload, inputs.periods, tables))
                continue
            made.update(workload_tables(plan, workload, inputs.measured, tables))
    found = [as_table(plan, query, inputs) if query.workload is None else made[query.name] for query in wanted]
    catalog = plan.catalog.tables
    return tuple(with_sampling(each, catalog[query.table]) for each, query in zip(found, wanted, strict=True))


def as_table(plan: ReleasePlan, query: PlannedQuery, inputs: Inputs, rows: Rows | None = None) -> PublishedTable:
    """A query that is no table of a workload as a published table.

    Args:
        plan: That was measured.
        query: The query.
        inputs: What was measured.
        rows: The keys of the rows that ``inputs`` has numbers for; None: those that were declared or selected.
    """
    if query.ranking is not None:
        (column,) = plan.keys(query)
        positions = inputs.ranked[query.ranking.step]
        return ranking_table(query.name, query.title, column, positions, confidence=plan.publish.confidence)
    if query.ranges is not None:
        ((noisy,),) = inputs.of(query).values()
        return (
            summed_table(plan, query, noisy) if query.series is None else lines_of_series(plan, query, inputs.periods)
        )
    if rows is None and query.selection is not None:
        rows = as_rows(inputs.keys[query.selection], len(query.by))
    if query.totals is not None:
        return table_of_totals(plan, query, inputs.noisy, lambda fed: _estimated(plan, query, fed, _unnamed(fed)))
    return _estimated(plan, query, inputs.of(query), public_rows(plan, query) if rows is None else rows)


def _unnamed(fed: Mapping[str, Sequence[Noisy]]) -> Rows:
    """As many rows as there are numbers; their keys are said where tables are put together."""
    return Rows([], max(len(noisy.values) for parts in fed.values() for noisy in parts))


def _estimated(
    plan: ReleasePlan, query: PlannedQuery, fed: Mapping[str, Sequence[Noisy]], rows: Rows | None
) -> PublishedTable:
    return estimate(
        query.name,
        query.title,
        plan.keys(query),
        {label: query.measures[label] for label in measure_names(plan, query)},
        fed,
        confidence=plan.publish.confidence,
        rows=rows,
        suppress_below=query.suppress_below,
        unreliable_above=plan.publish.unreliable_above,
        unreliable_show=plan.publish.unreliable_show,
        nearest=plan.publish.intervals == "nearest",
        tested=tested_measures(plan, query, fed),
        figures=plan.publish.figures,
    )


def inputs_of(
    plan: ReleasePlan,
    measurements: Mapping[str, Measurement],
    earlier: Draws = MappingProxyType({}),
    steps: Collection[str] | None = None,
) -> Inputs:
    """What was measured, with ``earlier`` draws of its series, held against the plan; errors as `published_tables`.

    ``steps`` are those of which it is wanted; None: all of them.
    """
    taken = [step for step in plan.measured if steps is None or step.id in steps]
    drawn = [step for step in taken if isinstance(step, Step)]
    found = {step.id: _measurement(step, measurements) for step in taken}
    selecting = [step for step in drawn if step.selecting is not None]
    keys = {step.id: _selected(found[step.id], len(step.aggregate.by)) for step in selecting}
    selections = plan.selections
    ranked = {step.id: _ranked(plan, step, found[step.id]) for step in drawn if step.mechanism == TOP_K}
    noisy = {}
    together = {take.step for workload in plan.workloads for take in workload.takes} & set(found)
    for step in taken:
        if step.id in together and found[step.id].values.shape != (step.cells,):
            raise _other(step)
        alone = step.id not in together or isinstance(step, Invariant)  # which is a table of its own as well
        if step.id not in keys and step.id not in ranked and alone:
            cells = len(keys[selections[step.id]]) if step.cells is None else step.cells
            noisy[step.id] = _noisy(_at_clip(step, found), found[step.id], cells)
    periods = {}
    for name, series in plan.series.items():
        if name not in found:
            continue
        if (draws := series.draws(name, found, earlier)) is not None:
            periods[name] = periods_from_draws(series.band, draws)
        if name in noisy:  # and no draw of a workload
            values: Any = newest(periods.get(name), len(noisy[name][0].values))  # no whole numbers, unlike all else
            noisy[name] = (replace(noisy[name][0], values=values),)
    return Inputs(noisy, keys, ranked, {name: found[name] for name in sorted(together)}, periods)


def _at_clip(step: Measured, found: Mapping[str, Measurement]) -> Measured:
    """The step with its sum on the grid of the clip that was measured, where noise chose one."""
    if not isinstance(step, Step) or step.clipped_by is None:
        return step
    chosen, values = step.aggregate.quantity.chosen, found[step.clipped_by].values
    if chosen is None or len(values) != 1 or int(values[0]) not in chosen.candidates:
        raise _other(step)
    return step.at_clip(int(values[0]))


def _measurement(step: Measured, measurements: Mapping[str, Measurement]) -> Measurement:
    found = measurements.get(step.id)
    if found is None:
        raise PublishError(
            f"step {step.id!r} has not been measured",
            hint="`dprelease run` with the same spec resumes the release",
            code="DPR-W101",
        )
    if found.step != step.id:
        raise _other(step)
    return found


def _other(step: Measured) -> BrokenPromiseError:
    return BrokenPromiseError(
        f"the measurement kept for step {step.id!r} is of another step or size",
        hint="nothing was published; check the ledger with `dprelease ledger check`",
        code="DPR-W102",
    )


def _noisy(step: Measured, found: Measurement, cells: int) -> tuple[Noisy, ...]:
    """What the step measured, one for each of its quantities."""
    if found.values.shape != (cells * len(step.parts),):
        raise _other(step)
    parts = np.split(found.values, len(step.parts))
    return tuple(noisy_part(step, at, values) for at, values in enumerate(parts))


def noisy_part(step: Measured, part: int, values: npt.NDArray[np.int64]) -> Noisy:
    """What a step measured of one of its quantities; of counts of classes with what they say of ranks.

    Args:
        step: The step or invariant of the plan.
        part: Which of its quantities.
        values: Of any number of cells; of counts of classes all classes of a cell one after the other.
    """
    quantity, prefixes = step.parts[part], None
    if isinstance(step, Step) and step.factor is not None and quantity.is_counted:
        prefixes = prefix_counts(values, step.factor, step.scale, quantity.classes, quantity.high)
    return Noisy(quantity=quantity, values=values, law=step.law, drawn=step.id, prefixes=prefixes)


def _selected(found: Measurement, columns: int) -> tuple[tuple[Key, ...], ...]:
    """The selected keys; a text that no file can hold is spelled out, for nothing may fail after the draw."""
    if found.keys is None or any(len(key) != columns for key in found.keys):
        raise BrokenPromiseError(
            f"the measurement kept for step {found.step!r} has no keys of its query",
            hint="nothing was published; check the ledger with `dprelease ledger check`",
            code="DPR-W102",
        )
    return tuple(tuple(held_key(part) for part in key) for key in found.keys)


def held_key(key: Key) -> Key:
    """The key as a file can hold it: what is no valid Unicode in a text is spelled out."""
    return key.encode(errors="backslashreplace").decode() if isinstance(key, str) else key


def _ranked(plan: ReleasePlan, step: Step, found: Measurement) -> tuple[int, ...]:
    (name,) = step.aggregate.by
    known = len(plan.catalog.tables[step.aggregate.table].column(name).keys or ())
    positions = tuple(found.values.tolist())
    whole = step.numbers == len(set(positions)) == len(positions)
    if not whole or not all(0 <= position < known for position in positions):
        raise _other(step)
    return positions


def workload_tables(
    plan: ReleasePlan,
    workload: Workload,
    measurements: Mapping[str, Measurement],
    names: Collection[str] | None = None,
) -> dict[str, PublishedTable]:
    """The tables of a workload by their names, in published order.

    Args:
        plan: That was measured.
        workload: The workload of the plan.
        measurements: By step, held against the plan.
        names: The names of the tables that are wanted; None: all of them. They are reconciled together whatever is
        wanted.
    """
    steps = {take.step: plan.taken(take.step) for take in workload.takes}
    design = design_of(workload, plan.catalog, steps)
    values = []
    for take in workload.takes:
        values.append(numbers_of_take(workload, take, steps[take.step], measurements[take.step].values, design))
    estimates = estimated(design, values)
    del values
    whole = "integer" in workload.post
    published = adjusted(
        design,
        estimates,
        non_negative="nonnegative" in workload.post,
        integer=whole,
        key=_key(workload, measurements),
    )
    variances = cell_variances(design)
    reach, table = reach_of(workload, design, steps, plan.publish.confidence), plan.catalog.tables[workload.table]
    queries = {query.name: query for query in plan.queries if query.workload == workload.name}
    found = {}
    for name in (each for each in workload.tables if names is None or each in names):
        place, left_out = workload.place(name), left_out_of(queries[name], plan.catalog)
        columns = tuple(map(table.column, workload.columns(*place)))
        before, after = estimates.pop(place), published.pop(place)
        cells = _without(before, left_out)
        found[name] = table_of_counts(
            name,
            queries[name].title,
            columns,
            full_product(columns).without(left_out),
            workload.measure,
            queries[name].measures[workload.measure],
            cells,
            cells if after is before else _without(after, left_out),
            _without(np.broadcast_to(np.sqrt(variances[place]), before.shape), left_out),
            reach=reach,
            confidence=plan.publish.confidence,
            unreliable_above=plan.publish.unreliable_above,
            unreliable_show=plan.publish.unreliable_show,
            nearest=plan.publish.intervals == "nearest",
            whole=whole,
            figures=plan.publish.figures,
        )
    return found


def _without(numbers: npt.NDArray[Any], left_out: Collection[int]) -> npt.NDArray[Any]:
    """Those of the cells that have a row; shape ``(rows,)``."""
    flat = numbers.reshape(-1)
    return np.delete(flat, list(left_out)) if left_out else flat


def _key(workload: Workload, measurements: Mapping[str, Measurement]) -> bytes:
    """The fingerprint of what was measured: rounding goes by chance, and is the same every time."""
    digest = hashlib.sha256(b"dprelease rounding of a workload 1")
    for step in dict.fromkeys(take.step for take in workload.takes):
        digest.update(bytes.fromhex(measurements[step].digest))
    return digest.digest()
