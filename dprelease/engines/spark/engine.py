"""Spark: the rows of files are read, bounded and totalled in the tasks of a cluster; the driver adds up cells.

It is the embedded engine with another answer to one question: what do all rows come to? There they are loaded into one
process, or into it part by part; here each part is loaded by a task, by the same code. That the parts may be looked at
one by one is shown in ``engines.duck.parts``: units are never split, and totals add up exactly. So every answer is the
one of the embedded engine, to the last bit, whatever the number of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.cells import MOST_CELLS, CellSlice, cells_asked
from dprelease.catalog.reference import References
from dprelease.catalog.source import MetastoreSource
from dprelease.catalog.table import Catalog, Table
from dprelease.engines.base import scrubbed
from dprelease.engines.declared import loading
from dprelease.engines.duck.array_totals import ArrayTotals
from dprelease.engines.duck.combinations import cell_counts, combinations_identity, counted_columns
from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.engines.duck.parts import ComeTo, combinations_of
from dprelease.engines.duck.pipeline import PassQuery
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.files.formats import FILE_FORMATS
from dprelease.engines.files.reader import FileReader
from dprelease.engines.memory import memory_for_rows
from dprelease.engines.spark.jobs import TaskTotals, run_job
from dprelease.engines.spark.kept import KeptCombinations
from dprelease.engines.spark.metastore_reader import MetastoreReader
from dprelease.engines.spark.session import spark_context
from dprelease.engines.spark.splits import Split, bytes_of, splits_of
from dprelease.engines.spark.tasks import Work, task_versions
from dprelease.errors import EngineError, NotEnoughMemory, Unsupported
from dprelease.noise.exact import Exact, ExactHistogram

__all__ = ["SparkEngine"]

Result = TypeVar("Result")
_SIZE = 1 << 27  # bytes of files whose rows one task bounds
_MOST = 1 << 12  # parts of the units
_FEW = 1 << 21  # totals that the driver adds up by itself
_KEPT = 4  # sets of combinations on the cluster


class SparkEngine(DuckDBEngine):
    """The engine of a cluster; arguments as of the embedded one. Java is started with the first question.

    Raises:
        EngineError: As there.
    """

    formats: ClassVar[frozenset[str]] = frozenset({*FILE_FORMATS, "delta", "metastore"})

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(folder, environment)
        self._memory = memory_for_rows(environment)
        self._kept: dict[Any, KeptCombinations] = {}
        self._files, self._metastore = FileReader(folder, environment), MetastoreReader(folder, environment)
        self._more: dict[str, int] = {}  # how many times as many parts a table needs

    def __repr__(self) -> str:
        return "<SparkEngine>"

    def _reader(self, table: Table) -> FileReader:
        """What finds and reads the files of a table; Spark has no other sources."""
        return self._metastore if isinstance(table.source, MetastoreSource) else self._files

    def check(
        self,
        catalog: Catalog,
        grouping: Grouping,
        quantities: Sequence[Quantity],
        references: References,
        within: CellSlice | None = None,
    ) -> None:
        """Refuse what cannot be computed, and answers that are too large for a driver."""
        super().check(catalog, grouping, quantities, references, within)
        table = catalog.tables[grouping.table]
        cells = 0 if grouping.private else cells_asked(table, grouping.by, within)
        if cells > MOST_CELLS:
            raise Unsupported(
                f"table {table.name!r}: {cells:,} cells in one answer are more than {MOST_CELLS:,}",
                detail="Spark hands all cells of an answer to one driver",
                hint="take a column out of `by`; ask for it by `levels`, whose draws are made in pieces; or leave "
                "`engine: spark` out",
                code="DPR-E156",
            )

    def _arrays_of(self, table: Table) -> ArrayTotals | None:
        """Its rows are not read here."""
        return None

    def _answered(
        self, asked: PassQuery, come_to: ComeTo, finish: Callable[[Stage, Mapping[str, Any]], Result]
    ) -> Result:
        """What is asked, from what the tasks of one job come to."""
        return self._finished(asked, self._in_tasks(asked, come_to, run_job), finish)

    def _finished(
        self,
        asked: PassQuery,
        found: Mapping[str, TaskTotals],
        finish: Callable[[Stage, Mapping[str, Any]], Result],
    ) -> Result:
        doing = f"table {asked.table.name!r}, aggregating by ({', '.join(asked.grouping.by)})"
        with Stage(self._backend, self._numbers) as results:

            def act() -> Result:
                return finish(results, {name: _added_up(results, each) for name, each in found.items()})

            return scrubbed(doing, act)

    def _from_combinations(self, asked: PassQuery, within: CellSlice | None) -> tuple[Exact | ExactHistogram, ...]:
        """Numbers of complete rows, whose keys are kept for other tables: few of them here, many on the cluster."""
        if asked.table.cells(counted_columns(asked.grouping)) <= _FEW:
            return super()._from_combinations(asked, within)
        found = self._in_tasks(asked, partial(combinations_of, asked), partial(self._kept_cells, asked, within))
        return self._finished(asked, found, lambda stage, totals: cell_counts(stage, asked, totals["kept"], within))

    def _kept_cells(
        self, asked: PassQuery, within: CellSlice | None, context: Any, work: Work, splits: Sequence[Split]
    ) -> Mapping[str, TaskTotals]:
        """The cells of a question, from what the cluster keeps; the latest few sets of combinations are kept."""
        place = combinations_identity(asked)
        kept = self._kept.pop(place, None)
        if kept is not None and not kept.serves(context, work):
            kept.forget()
            kept = None
        if kept is None:
            while len(self._kept) >= _KEPT:
                self._kept.pop(next(iter(self._kept))).forget()
            kept = KeptCombinations(context, work, splits)
        self._kept[place] = kept
        return kept.cells(asked, within)

    def _forget(self) -> None:
        for kept in self._kept.values():
            kept.forget()
        self._kept.clear()
        super()._forget()

    def _in_tasks(
        self,
        asked: PassQuery,
        come_to: ComeTo,
        run: Callable[[Any, Work, Sequence[Split]], Mapping[str, TaskTotals]],
    ) -> Mapping[str, TaskTotals]:
        """What all rows come to; in more parts where the rows of some did not fit into a task."""
        tables = (asked.table, *(asked.catalog.tables[join.table] for join in asked.table.private_joins))
        context, looked = spark_context(self._environment), loading(asked.catalog, asked.grouping, asked.quantities)
        cores = int(context.defaultParallelism)
        split = [splits_of(table, at, self._reader(table).files(table), cores) for at, table in enumerate(tables)]
        splits = [each for some in split for each in some]
        work = Work(
            asked=asked,
            come_to=come_to,
            tables=tables,
            splits=tuple(map(len, split)),
            needed={table.fingerprint(): looked[table.name] for table in tables},
            parts=1,
            groups=0,
            memory=self._memory,
            versions=task_versions(),
        )
        for table in tables:
            self._read.add(table.fingerprint())
        while True:
            more = self._more.get(asked.table.fingerprint(), 1)
            wanted = max(cores, -(-bytes_of(splits) // _SIZE)) * more
            parts = 1 if asked.table.unit_id is None else 1 << (wanted - 1).bit_length()
            each = replace(work, parts=parts, groups=_groups(asked, max(parts, len(splits)), wanted))
            try:
                return run(context, each, splits)
            except NotEnoughMemory:
                pass
            if wanted >= _MOST:
                raise _too_much(asked.table)
            self._more[asked.table.fingerprint()] = 2 * more


def _groups(asked: PassQuery, tasks: int, wanted: int) -> int:
    """In how many parts totals are added up on the cluster; 0 where the driver does it, told by public keys alone."""
    grouping = asked.grouping
    values = grouping.private or any(item.kind in ("distinct", "quantile") for item in asked.quantities)
    few = asked.table.cells(grouping.by) * tasks <= _FEW
    return 0 if few and not values and not grouping.complete else max(1, wanted)


def _added_up(stage: Stage, found: TaskTotals) -> Any:
    return stage.add_up([stage.lend(found.rows)], found.within, found.names)


def _too_much(table: Table) -> EngineError:
    return EngineError(
        f"table {table.name!r}: there is not enough memory in a task, in however many parts",
        detail="what is asked has very many cells or different values, or some unit has very many rows",
        hint="give executors more memory beside Java (`spark.executor.memoryOverhead`), or fewer cores each",
        code="DPR-E006",
    )
