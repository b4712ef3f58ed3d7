"""What a task does: read and type rows, or load those of some units, and total them by the embedded engine's steps.

Every function here runs in a Python process of an executor. Rows are read by our own readers and typed by our own code;
what they come to is found by the very steps, in the very DuckDB, that serve one machine (``engines.duck``). Spark is
left with carrying bytes: the rows of a unit to one task, and the totals of a cell to one task, both by number of a
part. It sees no value, and nothing is asked in its SQL, so that none of its casts, orders, sums or plans matter.

The secret that rows are sampled by comes with the code of a task (:class:`Work`), which Spark shows nowhere.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import count
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from dprelease.catalog.table import Column, Table
from dprelease.engines.base import scrubbed
from dprelease.engines.declared import Loading
from dprelease.engines.duck.backend import locked_connection
from dprelease.engines.duck.loaded import LoadedTables, of_several_types
from dprelease.engines.duck.loading import Layout
from dprelease.engines.duck.parts import AddedUp, ComeTo, UnitPart, check_parts
from dprelease.engines.duck.pipeline import DIFFERENT, PassQuery
from dprelease.engines.duck.query import PartTotals
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.duck.units import ALONE
from dprelease.engines.files.decimals import grids_read
from dprelease.engines.files.in_turn import in_turn
from dprelease.engines.locked import lock, unlocked_duckdb
from dprelease.engines.spark.splits import Split, stored_rows
from dprelease.errors import BrokenPromiseError, EngineError

__all__ = [
    "Sent",
    "Totals",
    "Work",
    "gathered",
    "guarded",
    "own_duckdb",
    "packed",
    "part_added_up",
    "parted",
    "scattered",
    "spread",
    "task_versions",
    "unpacked",
    "whole_rows",
]

Item = TypeVar("Item")
Sent = tuple[int, Any]  # the number of a part, and what is for it
Totals = tuple[str, tuple[str, ...], tuple[str, ...], bytes]  # a name, its groups, its sums, and the rows
_RUNS = 16  # so small are the runs of rows without units that are loaded at a time: 4 million rows
_ROWS = 1 << 14  # of one part that are sent together
_WORDS = ("dprelease", "Übung", "12")
_END = object()


@dataclass(frozen=True, repr=False)
class Work:
    """What all tasks of a job are told.

    Attributes:
        asked: The question, with the secret.
        come_to: What rows come to.
        tables: The table that is read, then those of its private joins.
        splits: How many parts their files have; of a period without a file there are none.
        needed: What is looked at of each, by its fingerprint.
        parts: In how many parts the units are, a power of 2; of a table without units 1.
        groups: In how many parts totals are added up before the driver has them; 0: the driver adds them up.
        memory: What DuckDB may take in one task; None: its own limit.
        versions: What the driver runs.
    """

    asked: PassQuery
    come_to: ComeTo
    tables: tuple[Table, ...]
    splits: tuple[int, ...]
    needed: Mapping[str, Loading]
    parts: int
    groups: int
    memory: int | None
    versions: tuple[str, ...]


class _Typed(Layout):
    """The layout of rows that are typed already."""

    def typed(self, block: Sequence[Any]) -> list[Any]:
        return list(block)


@lru_cache
def task_versions() -> tuple[str, ...]:
    """What decides how this process reads and hashes a row: packages, Python, the order of bytes, and known hashes."""
    packages = [f"{name} {version(name)}" for name in ("dprelease", "duckdb", "numpy", "pyarrow")]
    python = ".".join(platform.python_version_tuple()[:2])
    with own_duckdb(None) as backend:
        hashes = [str(backend.con.execute("SELECT hash(hash(?))", [word]).fetchone()[0]) for word in _WORDS]
    return (*packages, f"python {python}", sys.byteorder, *hashes)


def whole_rows(work: Work, splits: Iterable[Split]) -> Iterator[Sent]:
    """What rows come to where every row is a unit of its own: some rows at a time, added up."""
    return guarded(work, lambda: _whole_rows(work, list(splits)))


def scattered(work: Work, splits: Iterable[Split]) -> Iterator[Sent]:
    """Typed rows for the parts that their units are in; last, for every part, how many of each split it was sent."""
    return guarded(work, lambda: _scattered(work, list(splits)))


def gathered(work: Work, number: int, sent: Iterable[Sent]) -> Iterator[Sent]:
    """What all rows of the units of one part come to."""
    return guarded(work, lambda: _gathered(work, number, sent))


def part_added_up(work: Work, sent: Iterable[Sent]) -> Iterator[Sent]:
    """Totals of the groups of one part, added up; of different values how many there are."""
    return guarded(work, lambda: _added_up(work, sent))


def packed(rows: Any) -> bytes:
    """An Arrow table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(data: bytes) -> Any:
    """The Arrow table of such bytes."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def guarded(work: Work, make: Callable[[], Iterator[Item]]) -> Iterator[Item]:
    """The items of an iterator, whose failures say their class and nothing else: Spark logs what a task raises."""
    doing = f"table {work.tables[0].name!r}, a task of Spark"
    if scrubbed(doing, task_versions) != work.versions:
        raise EngineError(
            "an executor of Spark runs other versions than this process",
            detail="how a row is read and hashed must be the same everywhere",
            hint=f"install the same on all machines: {', '.join(work.versions[:5])}",
            code="DPR-E155",
        )
    items = make()
    while (item := scrubbed(doing, lambda: next(items, _END))) is not _END:
        yield item  # type: ignore[misc]


@contextmanager
def own_duckdb(memory: int | None) -> Iterator[Any]:
    """A DuckDB of this task alone, with so much memory at the most."""
    backend = locked_connection(memory)
    try:
        yield backend
    finally:
        backend.disconnect()


def _whole_rows(work: Work, splits: Sequence[Split]) -> Iterator[Sent]:
    numbers = count(1)

    def read(table: Table, columns: Sequence[Column]) -> Iterator[Sequence[Any]]:
        for split in splits:
            yield from stored_rows(split, table, columns)

    with own_duckdb(work.memory) as backend, Stage(backend, numbers) as results:
        added, shapes = AddedUp(results), dict[str, PartTotals]()
        with LoadedTables(backend, numbers, read, work.needed, set()) as tables:
            for each in tables.runs(work.asked, _RUNS):
                with Stage(backend, numbers) as stage:
                    found = work.come_to(stage, each, False)
                    added.take(found)
                    shapes = dict(found)
        yield from spread(work, results, {name: (added.totals[name], shapes[name]) for name in shapes})


def _scattered(work: Work, splits: Sequence[Split]) -> Iterator[Sent]:
    by_text = of_several_types(work.asked)
    with closing(unlocked_duckdb(threads="1", preserve_insertion_order="true")) as connection:
        lock(connection)
        for split in splits:
            table = work.tables[split.table]
            layout = _layout(work, table, Layout)
            place = UnitPart(0, work.parts).number_of_row(layout, by_text=by_text) if work.parts > 1 else "0"
            schema, sending = _sent_schema(layout), _Sending(split, work.parts)
            for arrays in in_turn(layout.typed, stored_rows(split, table, layout.columns)):
                rows = pa.Table.from_arrays(arrays, schema=schema)
                yield from sending.take(rows, _places(connection, rows, place))
            yield from sending.rest()


def _layout(work: Work, table: Table, kind: type[Layout]) -> Layout:
    return kind(table, work.needed[table.fingerprint()], grids_read(work.asked.catalog, table))


def _sent_schema(layout: Layout) -> Any:
    """What is sent of a row: all but the number of a row without an id, which is given where rows are loaded."""
    return pa.schema([field for field in layout.schema if field.name != ALONE])


def _places(connection: Any, rows: Any, place: str) -> Any:
    """The number of the part of every row; one thread reads one table in its order."""
    connection.register("sent", rows)
    try:
        found = connection.sql(f"SELECT CAST({place} AS INTEGER) AS part FROM sent").to_arrow_table()  # noqa: S608 - made by us alone
    finally:
        connection.unregister("sent")
    return found.column("part").to_numpy()


def parted(rows: Any, places: Any, parts: int) -> Iterator[tuple[int, Any]]:
    """The rows of each part that has some."""
    order = np.argsort(places, kind="stable")
    rows, ends = rows.take(pa.array(order)), np.searchsorted(places[order], range(parts + 1))
    for part in range(parts):
        if (length := int(ends[part + 1] - ends[part])) > 0:
            yield part, rows.slice(int(ends[part]), length)


class _Sending:
    """Rows of one split on their way to the parts that they are in."""

    def __init__(self, split: Split, parts: int) -> None:
        self._split = split
        self._waiting: list[list[Any]] = [[] for _ in range(parts)]
        self._rows, self._sent = [0] * parts, [0] * parts

    def take(self, rows: Any, places: Any) -> Iterator[Sent]:
        for part, some in parted(rows, places, len(self._rows)):
            self._waiting[part].append(some)
            self._rows[part] += len(some)
            if self._rows[part] >= _ROWS:
                yield from self._flush(part)

    def rest(self) -> Iterator[Sent]:
        for part in range(len(self._rows)):
            yield from self._flush(part)
            yield part, (self._split.table, self._split.number, self._sent[part], None)

    def _flush(self, part: int) -> Iterator[Sent]:
        if self._waiting[part]:
            rows = pa.concat_tables(self._waiting[part])
            yield part, (self._split.table, self._split.number, len(rows), packed(rows))
            self._sent[part] += len(rows)
            self._waiting[part], self._rows[part] = [], 0


def _gathered(work: Work, number: int, sent: Iterable[Sent]) -> Iterator[Sent]:
    blocks = _complete(work, sent)
    numbers, part = count(1), UnitPart(number, work.parts)

    def read(table: Table, columns: Sequence[Column]) -> Iterator[Sequence[Any]]:
        names = _sent_schema(_layout(work, table, _Typed)).names
        for data in blocks.pop(work.tables.index(table)):
            for batch in unpacked(data).to_batches():
                yield [batch.column(name) for name in names]

    with own_duckdb(work.memory) as backend, Stage(backend, numbers) as stage:
        with LoadedTables(backend, numbers, read, work.needed, set(), part, _Typed) as tables:
            found = work.come_to(stage, tables.of(work.asked), False)
            kept = {name: (stage.keep(each.rows), each) for name, each in found.items()}
            check_parts([tables.found])  # every row that was sent here is of this part
        yield from spread(work, stage, kept)


def _complete(work: Work, sent: Iterable[Sent]) -> dict[int, list[bytes]]:
    """The rows that were sent, by table, where every split was sent once and whole."""
    blocks: dict[int, list[bytes]] = {place: [] for place in range(len(work.tables))}
    rows: dict[tuple[int, int], int] = {}
    told: dict[tuple[int, int], int] = {}
    for _, (table, split, length, data) in sent:
        if data is not None:
            blocks[table].append(data)
            rows[table, split] = rows.get((table, split), 0) + length
        elif (table, split) in told:
            raise _lost(work)
        else:
            told[table, split] = length
    if any(rows.get(each, 0) != length for each, length in told.items()) or not rows.keys() <= told.keys():
        raise _lost(work)
    if told.keys() != {(table, split) for table, splits in enumerate(work.splits) for split in range(splits)}:
        raise _lost(work)
    return blocks


def _lost(work: Work) -> BrokenPromiseError:
    return BrokenPromiseError(
        f"table {work.tables[0].name!r}: rows were lost or doubled between the tasks of Spark; nothing was drawn",
        hint="report this as a bug of dprelease; the budget of this step stays reserved",
        code="DPR-B201",
    )


def spread(work: Work, stage: Stage, totals: Mapping[str, tuple[Any, PartTotals]]) -> Iterator[Sent]:
    """Totals on their way to the driver, or to those that add them up, by a hash of their group."""
    for name, (kept, shape) in totals.items():
        within, sums = tuple(shape.within), tuple(shape.names)
        parts = work.groups if within else 1
        if parts <= 1:
            yield 0, (name, within, sums, packed(stage.read_kept(kept)))
            continue
        rows = stage.read_kept(kept, within, parts)
        places, rows = rows.column("part").to_numpy(), rows.drop(["part"])
        yield 0, (name, within, sums, packed(rows.slice(0, 0)))  # even of no row there are columns
        for part, some in parted(rows, places, parts):
            yield part, (name, within, sums, packed(some))


def _added_up(work: Work, sent: Iterable[Sent]) -> Iterator[Sent]:
    waiting: dict[str, tuple[tuple[str, ...], tuple[str, ...], list[Any]]] = {}
    for _, (name, within, sums, data) in sent:
        waiting.setdefault(name, (within, sums, []))[2].append(unpacked(data))
    with own_duckdb(work.memory) as backend, Stage(backend, count(1)) as stage:
        for name, (within, sums, tables) in waiting.items():
            rows = stage.add_up([stage.lend(pa.concat_tables(tables))], within, sums)
            if sums:
                yield 0, (name, within, sums, packed(stage.read_kept(rows)))
                continue
            cell = within[:1]  # different values, each of them here once: the driver is told how many
            number = stage.keep(rows.group_by(list(cell)).aggregate(**{DIFFERENT: rows.count()}))
            yield 0, (name, cell, (DIFFERENT,), packed(stage.read_kept(number)))
