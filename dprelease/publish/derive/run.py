"""Running the SQL of derived tables: on the published values, and on many replicates of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Key
from dprelease.estimate import PublishedTable, coded
from dprelease.plan.document import ReleasePlan
from dprelease.publish.combined.along import lines_again, sums_again
from dprelease.publish.combined.tables_of_series import errors_over_periods
from dprelease.publish.comparing.series import values_again
from dprelease.publish.csv_text import written
from dprelease.publish.derive.replicate import again, errors_again, periods_again
from dprelease.publish.derive.sql import Derivation
from dprelease.publish.measured import Inputs
from dprelease.publish.totals import totals_again

__all__ = ["REPLICATES", "Database", "DerivedRows", "Replicates", "answer_of", "batches_of", "replicated"]

if TYPE_CHECKING:  # few releases draw replicates, and all would load what draws them
    Chance = np.random.Generator

Floats = npt.NDArray[np.float64]
REPLICATES = 1000
_ROWS_AT_ONCE = 500_000  # of the largest table


class Database:
    """An empty DuckDB in memory that can reach nothing outside itself, with one thread, so that sums repeat."""

    def __enter__(self) -> Database:
        import duckdb

        self._connection: Any = duckdb.connect(
            ":memory:",
            config={
                "temp_directory": "",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
                "python_enable_replacements": "false",
                "threads": "1",
            },
        )
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def run(self, sql: str, tables: Mapping[str, Any]) -> Any:
        """The answer to a query over Arrow tables, as an Arrow table."""
        for name, table in tables.items():
            self._connection.register(name, table)
        try:
            return self._connection.execute(sql).to_arrow_table()
        finally:
            for name in tables:
                self._connection.unregister(name)


@dataclass(frozen=True, eq=False)
class DerivedRows:
    """A derived table without margins: its rows in published order.

    Attributes:
        told: What tells each row apart.
        keys: The keys of each row.
        values: Shape ``(rows, numbers)``; NaN where there is none.
    """

    told: list[tuple[Any, ...]]
    keys: list[tuple[Key, ...]]
    values: Floats


def answer_of(found: Derivation, tables: Sequence[PublishedTable], database: Database) -> DerivedRows:
    """Run a query on the published values."""
    made = database.run(found.plain, _loaded(found, tables))
    told: list[tuple[Any, ...]] = _rows(made, [f"i{at}" for at in range(len(found.told_by))])
    keys: list[tuple[Key, ...]] = _rows(made, [f"o{at}" for at, each in enumerate(found.outputs) if each.key])
    values = _numbers(found, made)
    order = _order(found, tables, told)
    return DerivedRows([told[at] for at in order], [keys[at] for at in order], values[order])


def _rows(made: Any, names: Sequence[str]) -> list[tuple[Any, ...]]:
    columns = [made.column(name).to_pylist() for name in names]
    return list(zip(*columns, strict=True)) if columns else [()] * made.num_rows


def _numbers(found: Derivation, made: Any) -> Floats:
    """The numbers of an answer, shape ``(rows, numbers)``; what is null or not finite is NaN."""
    names = [f"o{at}" for at, each in enumerate(found.outputs) if each.key is None]
    columns = [made.column(name).cast("float64").to_numpy() for name in names]
    values = np.stack(columns, axis=1) if columns else np.zeros((made.num_rows, 0))
    return np.where(np.isfinite(values), values, np.nan)


def _order(found: Derivation, tables: Sequence[PublishedTable], told: Sequence[tuple[Any, ...]]) -> list[int]:
    """The places of the rows in published order: by the rows that they are made of, or by the order of their keys."""
    known = {table.name: table for table in tables}
    orders: list[dict[Any, int]] = []
    for name, key in found.told_by:
        table = known[name]
        if key is None:
            orders.append({row: row for row in range(table.cells)})
            continue
        at = [column.name for column in table.key_columns].index(key)
        listed = table.key_columns[at].keys or tuple(dict.fromkeys(table.keys[at]))
        orders.append({value: place for place, value in enumerate(listed)})
    ranks = [tuple(order.get(part, len(order)) for order, part in zip(orders, row, strict=True)) for row in told]
    return sorted(range(len(ranks)), key=ranks.__getitem__)


def _loaded(found: Derivation, tables: Sequence[PublishedTable], replicates: int | None = None) -> dict[str, Any]:
    """The published tables that a query reads, as Arrow tables with the names that it gives them."""
    import pyarrow as pa

    made = {}
    for at, name in enumerate(found.tables):
        table = next(each for each in tables if each.name == name)
        times = replicates or 1
        rows = pa.array(np.tile(np.arange(table.cells), times), type=pa.int64())
        columns: dict[str, Any] = {"row": rows}
        for number, (column, keys) in enumerate(zip(table.key_columns, table.keys, strict=True)):
            kind = {"integer": pa.int64(), "boolean": pa.bool_()}.get(column.type, pa.string())
            held = coded(keys)
            codes = np.tile(held.codes, times)
            columns[f"k{number}"] = pa.array(list(held.keys), type=kind).take(pa.array(codes))
        for number, measure in enumerate(table.measures):
            numbers = written(measure.value, measure.places) if replicates is None else measure.value
            columns[f"v{number}"] = pa.array(numbers, type=pa.float64(), mask=np.isnan(numbers))
        if replicates is not None:
            columns["replicate"] = pa.array(np.repeat(np.arange(times), table.cells), type=pa.int64())
        made[f"q{at}"] = pa.table(columns)
    return made


def batches_of(largest: int) -> list[int]:
    """How many replicates are made at a time, where the largest table has so many rows."""
    size = max(1, _ROWS_AT_ONCE // max(1, largest))
    return [min(size, REPLICATES - start) for start in range(0, REPLICATES, size)]


def replicated(
    plan: ReleasePlan,
    tables: Sequence[PublishedTable],
    inputs: Inputs,
    used: Collection[str],
    chance: Chance,
    sizes: Sequence[int],
) -> Iterator[list[PublishedTable]]:
    """For each of ``sizes`` the used tables with so many replicates, their values one replicate after the other."""
    queries = [query for query in plan.queries if query.name in used]
    steps = {feed.step for query in queries for feeds in query.inputs.values() for feed in feeds}
    steps |= {feed.step for query in queries if query.totals is not None for feed in query.totals.feeds}
    # Where a quantile lies has no law that could be drawn again; what is derived from one has no margin.
    lawless = set(plan.series)  # of which all periods are drawn again
    lawless |= {step for step, parts in inputs.noisy.items() if parts[0].quantity.is_counted}
    noisy = {step: parts for step, parts in inputs.noisy.items() if step in steps - lawless}
    known = {table.name: table for table in tables}
    for count in sizes:
        fresh = Inputs(noisy=again(noisy, count, chance), keys=inputs.keys, ranked=inputs.ranked)
        steps |= {step for query in queries for step in plan.fed_by(query)}
        periods = periods_again(plan, inputs, count, chance) if steps & set(plan.series) else {}
        made = []
        errors: dict[str, Floats] = {}
        shared: dict[str, dict[str, Floats]] = {}
        for workload in plan.workloads:
            if wanted := [query.name for query in queries if query.workload == workload.name]:
                if any(query.series is not None for query in queries if query.name in wanted):
                    shared |= errors_over_periods(plan, workload, wanted, _moved(inputs, periods, count), count)
                else:
                    errors |= errors_again(plan, workload, wanted, count, chance)
        for query in queries:
            if query.name in shared:
                made.append(_shown(known[query.name], _errant(known[query.name], shared[query.name], count), count))
                continue
            if query.workload is not None:
                table = known[query.name]
                (only,) = table.measures
                value = np.tile(only.value, count) + errors[query.name]
                made.append(replace(table, measures=(replace(only, value=value),)))
                continue
            if query.series is not None:
                table = known[query.name]
                summed = lines_again(plan, query, periods) if query.ranges is not None and periods else None
                values = summed or values_again(plan, query, inputs, periods, table.cells * count)
                made.append(_shown(table, values, count))
                continue
            drawn = {name: feeds for name, feeds in query.inputs.items() if lawless.isdisjoint(f.step for f in feeds)}
            fed, table = fresh.of(query.model_copy(update={"inputs": drawn})), known[query.name]
            if query.ranges is not None:
                (only,), ((noise,),) = table.measures, fed.values()
                value = sums_again(plan, query, noise, count)
                value = np.where(np.tile(np.isnan(only.value), count), np.nan, value)
                made.append(replace(table, measures=(replace(only, value=value),)))
                continue
            if query.totals is None:
                values = {
                    each.name: query.measures[each.name].estimate(fed[each.name], plan.publish.confidence).value
                    if each.name in fed
                    else np.tile(each.value, count)
                    for each in table.measures
                }
            else:
                values = totals_again(plan, query, fresh.noisy, count)
            made.append(_shown(table, values, count))
        yield made


def _moved(inputs: Inputs, again: Mapping[str, Sequence[Any]], count: int) -> dict[str, list[Any]]:
    """By draw and period how far each replicate of a number is from it, in parts."""
    return {
        name: [fresh - np.tile(each, count) for each, fresh in zip(inputs.periods[name], periods, strict=True)]
        for name, periods in again.items()
        if name in inputs.periods
    }


def _errant(table: PublishedTable, errors: Mapping[str, Floats], count: int) -> dict[str, Floats]:
    """The numbers of a table with the errors of each replicate; those that have none have no value either."""
    none = np.full(table.cells * count, np.nan)
    return {each.name: np.tile(each.value, count) + errors.get(each.name, none) for each in table.measures}


def _shown(table: PublishedTable, values: Mapping[str, Floats], count: int) -> PublishedTable:
    """The table with replicates of its numbers: what is blank or withheld in the published one stays so."""
    measures = tuple(
        replace(each, value=np.where(np.tile(np.isnan(each.value), count), np.nan, values[each.name]))
        for each in table.measures
    )
    return replace(table, measures=measures)


def _places(found: Derivation, answer: DerivedRows) -> Any:
    """What tells the published rows apart, and their places, as an Arrow table."""
    import pyarrow as pa

    told = zip(*answer.told, strict=True) if found.told_by else ()
    columns = {f"i{at}": pa.array(list(part)) for at, part in enumerate(told)}
    return pa.table({"place": pa.array(np.arange(len(answer.values)), type=pa.int64()), **columns})


class Replicates:
    """How far the replicates of every number are from its value: the largest distances, and the first two moments."""

    def __init__(self, found: Derivation, answer: DerivedRows, confidence: Fraction) -> None:
        self._found, self._answer = found, answer
        shape = answer.values.shape
        # The k-th smallest of all is the smallest of the (all + 1 - k) largest.
        self._kept = max(0, REPLICATES + 1 - math.ceil(confidence * (REPLICATES + 1)))
        self._largest = np.zeros((*shape, self._kept))
        self._sum, self._squares = np.zeros(shape), np.zeros(shape)
        self._missing = np.zeros(shape, dtype=bool)
        self._base = _places(found, answer)

    def add(self, tables: Sequence[PublishedTable], replicates: int, database: Database) -> None:
        """Run the query on some replicates; a row or number that one does not have is infinitely far."""
        values = self._answer.values
        if not len(values):
            return
        made = database.run(self._sql(), {**_loaded(self._found, tables, replicates), "base": self._base})
        found = np.full((*values.shape, replicates), np.nan)
        found[made.column("place").to_numpy(), :, made.column("replicate").to_numpy()] = _numbers(self._found, made)
        apart = found - values[:, :, None]
        gone = np.isnan(apart)
        self._missing |= gone.any(axis=2)
        known = np.where(gone, 0.0, apart)
        self._sum += known.sum(axis=2)
        self._squares += (known**2).sum(axis=2)
        both = np.concatenate([self._largest, np.where(gone, np.inf, np.abs(apart))], axis=2)
        if self._kept:
            place = both.shape[2] - self._kept
            self._largest = np.partition(both, place, axis=2)[:, :, place:]

    def _sql(self) -> str:
        """The query on replicates, with the place of each row in the published table."""
        same = [f"r.i{at} is not distinct from b.i{at}" for at in range(len(self._found.told_by))]
        joined = (") as r join base as b on", " and ".join(same) or "true")
        return " ".join(("select b.place as place, r.* from (", self._found.replicated, *joined))

    def result(self) -> tuple[Floats, Floats]:
        """Standard errors and margins, NaN where they are not known."""
        mean = self._sum / REPLICATES
        error = np.sqrt(np.maximum(self._squares / REPLICATES - mean**2, 0.0))
        margin = self._largest.min(axis=2) if self._kept else np.full_like(mean, np.inf)
        blank = np.isnan(self._answer.values)
        return np.where(self._missing | blank, np.nan, error), np.where(np.isinf(margin) | blank, np.nan, margin)
