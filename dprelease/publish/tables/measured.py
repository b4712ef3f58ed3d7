"""From what was measured to published tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from dprelease.catalog.table import Key
from dprelease.errors import BrokenPromiseError, PublishError
from dprelease.estimate import PublishedTable, Rows, as_rows, estimate, ranking
from dprelease.measures import Noisy
from dprelease.noise import Measurement
from dprelease.plan.document import Invariant, Measured, PlannedQuery, ReleasePlan, Step
from dprelease.publish.base import measure_names, public_rows
from dprelease.publish.tables.ranges import summed_table
from dprelease.publish.tables.workloads import workload_tables

__all__ = ["TOP_K", "Inputs", "as_table", "held_key", "inputs_of", "published_tables", "queries_as_tables"]

TOP_K = "exponential_top_k"


@dataclass(frozen=True, eq=False)
class Inputs:
    """What every step measured, and the keys that were selected.

    Attributes:
        noisy: By step id, one for each quantity of the step; nothing of steps that choose or select keys.
        keys: By the id of a step that selects keys: these, in published order.
        ranked: By the id of a step that ranks keys: their positions, the first rank first.
        measured: By the id of a step of a workload: what it measured.
    """

    noisy: Mapping[str, tuple[Noisy, ...]]
    keys: Mapping[str, tuple[tuple[Key, ...], ...]]
    ranked: Mapping[str, tuple[int, ...]]
    measured: Mapping[str, Measurement] = field(default_factory=dict)

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
        names: Of the queries that are wanted, and no other is made; None: all of them.
    """
    wanted = [query for query in plan.queries if names is None or query.name in names]
    made: dict[str, PublishedTable] = {}
    for workload in plan.workloads:
        tables = [query.name for query in wanted if query.workload == workload.name]
        if tables:
            made.update(workload_tables(plan, workload, inputs.measured, tables))
    return tuple(as_table(plan, query, inputs) if query.workload is None else made[query.name] for query in wanted)


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
        return ranking(query.name, query.title, column, positions, confidence=plan.publish.confidence)
    if query.ranges is not None:
        ((noisy,),) = inputs.of(query).values()
        return summed_table(plan, query, noisy)
    if rows is None and query.selection is not None:
        rows = as_rows(inputs.keys[query.selection], len(query.by))
    return estimate(
        query.name,
        query.title,
        plan.keys(query),
        {label: query.measures[label] for label in measure_names(plan, query)},
        inputs.of(query),
        confidence=plan.publish.confidence,
        rows=public_rows(plan, query) if rows is None else rows,
        suppress_below=query.suppress_below,
        unreliable_above=plan.publish.unreliable_above,
        unreliable_show=plan.publish.unreliable_show,
        nearest=plan.publish.intervals == "nearest",
    )


def inputs_of(plan: ReleasePlan, measurements: Mapping[str, Measurement]) -> Inputs:
    """What was measured, held against the plan; errors as of :func:`published_tables`."""
    found = {step.id: _measurement(step, measurements) for step in plan.measured}
    selecting = [step for step in plan.steps if step.selecting is not None]
    keys = {step.id: _selected(found[step.id], len(step.aggregate.by)) for step in selecting}
    # By pass and not by grouping: a query with a budget of its own selects its keys by itself.
    selections = {step.id: batch.selection for batch in plan.batches() for step in batch.steps}
    ranked = {step.id: _ranked(plan, step, found[step.id]) for step in plan.steps if step.mechanism == TOP_K}
    noisy = {}
    together = {take.step for workload in plan.workloads for take in workload.takes}
    for step in plan.measured:
        if step.id in together and found[step.id].values.shape != (step.cells,):
            raise _other(step)
        alone = step.id not in together or isinstance(step, Invariant)  # which is a table of its own as well
        if step.id not in keys and step.id not in ranked and alone:
            cells = len(keys[selections[step.id] or ""]) if step.cells is None else step.cells
            noisy[step.id] = _noisy(step, found[step.id], cells)
    return Inputs(noisy=noisy, keys=keys, ranked=ranked, measured={name: found[name] for name in sorted(together)})


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
    return tuple(
        Noisy(quantity=quantity, values=found.values[at * cells : (at + 1) * cells], law=step.law)
        for at, quantity in enumerate(step.parts)
    )


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
