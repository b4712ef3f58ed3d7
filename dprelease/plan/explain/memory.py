"""How much memory a release takes: of its own, by the cells of its plan; what its rows take is not known to a plan."""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.errors import PlanError
from dprelease.formats import FORMATS
from dprelease.plan.document import Batch, PlannedQuery, ReleasePlan
from dprelease.plan.document.ranges import rows_of

__all__ = ["Memory", "memory_lacking", "memory_of", "require_memory", "require_small_draws"]

_MOST_DRAWN = 20_000_000  # numbers of a draw of a workload, or of a piece of it: 160 MB of a ledger
_LARGE = 500  # MB
_MB = 10**6
_BASE = 450  # MB: Python with the libraries, an engine, a plan and a ledger
# Bytes, as they were measured with ``bench/census.py``; they are rounded up.
_OF_A_NUMBER = 64  # while it is drawn: exact, noisy, as it is committed, and as it is read back
_AT_ONCE = 2  # draws: one reads while another one's noise is made
_THREADS = 4  # pieces: as many as there are threads, for one may wait for the ledger while others are drawn
_OF_A_KEY = 750  # in the plan, in the catalog and as it is written
_OF_A_MEASUREMENT = 8  # while tables are made of it
_OF_A_CELL = 70  # while it is published: its estimate, and six numbers
_WAITS = 1_000_000  # numbers of a table, whose file is too large then to stay in memory (``publish.packed``)
_ADJUSTED = 24  # more, while numbers are made non-negative or whole


@dataclass(frozen=True)
class Memory:
    """In MB.

    Attributes:
        draw: To make the largest batches of draws, or pieces of them; the rows of the data come on top.
        publish: To make all tables and the files that they become.
    """

    draw: int
    publish: int

    @property
    def is_large(self) -> bool:
        """Whether it is worth a word: of smaller ones it is the libraries that take it."""
        return max(self.draw, self.publish) >= _LARGE


def memory_of(plan: ReleasePlan) -> Memory:
    """What the largest draws and the publication take, by public numbers alone; an estimate, no bound.

    Draws of one batch are there together, for they are committed together; of one in pieces it is the piece that
    counts, once for each thread. Tables whose keys a noisy selection decides are not known to the plan, and are left
    out.
    """
    batches = plan.batches()
    numbers = sorted(_drawn(batch) for batch in batches if batch.piece is None)
    parts = sorted(_drawn(batch) for batch in batches if batch.piece is not None)
    drawn = sum(sorted([*numbers[-_AT_ONCE:], *parts[-_THREADS:]])[-_THREADS:])
    tables = [_numbers(plan, query) for query in plan.queries]
    joint = max((_joint(plan, each.tables) for each in plan.workloads if set(each.post) - {"consistent"}), default=0)
    languages = 1 if plan.catalog.names is None else len(plan.catalog.names.languages)
    forms = [FORMATS[name] for name in plan.publish.formats]
    here = sum(min(each, _WAITS) for each in tables)
    files = sum(
        form.cost * (languages if form.in_languages else 1) * (here if form.waits else sum(tables)) for form in forms
    )
    base = _BASE + _megabytes(_OF_A_KEY * _keys(plan))
    kept = sum(step.numbers or 0 for step in plan.measured)
    made = _OF_A_MEASUREMENT * kept + _OF_A_CELL * sum(tables) + files + _ADJUSTED * joint
    return Memory(draw=base + _megabytes(_OF_A_NUMBER * drawn), publish=base + _megabytes(made))


def memory_lacking(plan: ReleasePlan, left: int | None) -> str:
    """What of a release takes more memory than there is, in words; empty: nothing, or nothing is known.

    Args:
        plan: Whose draws and tables are told by public numbers alone; rows are not, and come on top.
        left: Bytes that this process may take (``freed_memory.memory_left``), on which no plan depends; None: nobody
            knows.
    """
    needed = memory_of(plan)
    most = max(needed.draw, needed.publish)
    if left is None or not needed.is_large or most * _MB <= left:
        return ""
    what = "publish it" if needed.publish >= needed.draw else "draw its largest answers"
    return f"it takes about {most / 1000:.1f} GB to {what}, and this process may take {left / _MB / 1000:.1f} GB"


def require_memory(plan: ReleasePlan, left: int | None) -> None:
    """Refuse a release, before it is charged, whose draws or tables take more memory than there is.

    One that is charged and then ends for want of memory has lost nothing: its draws are kept, and a machine with more
    goes on with it. But whoever has none could never publish it.

    Raises:
        PlanError: Says how much it takes and how much there is (DPR-P342).
    """
    if says := memory_lacking(plan, left):
        raise PlanError(
            f"{plan.release.name}/{plan.release.period}: {says}",
            detail="nothing was charged, and no row was read",
            hint="run it on a machine, or in a container, with more memory; or publish fewer tables, keys or levels, "
            "or fewer formats (`publish: {formats: [csv]}`); `dprelease plan` says what is taken",
            code="DPR-P342",
        )


def require_small_draws(plan: ReleasePlan) -> None:
    """Refuse a workload of which one draw, or one piece of a draw, is more than one entry of a ledger should hold.

    Raises:
        PlanError: Names the table that is drawn and the number (DPR-P343).
    """
    for workload in plan.workloads:
        for step in (plan.taken(take.step) for take in workload.takes):
            numbers = max((piece.numbers(step) for piece in plan.pieces.get(step.id, ())), default=step.numbers or 0)
            if numbers > _MOST_DRAWN:
                columns = ", ".join(step.aggregate.by)
                raise PlanError(
                    f"workload {workload.name!r}: one draw by ({columns}) has {numbers:,} numbers, more than "
                    f"{_MOST_DRAWN:,}",
                    detail="each draw, or each piece of one, is kept by the ledger as one entry",
                    hint="ask for it by `levels`, below a level of 2 to 1,000 keys of about equal size, whose draws "
                    "are made in pieces; or take a column out, or fewer keys",
                    code="DPR-P343",
                )


def _drawn(batch: Batch) -> int:
    """The numbers of a batch, of a list those that it is chosen from."""
    if batch.piece is not None:
        return sum(batch.numbers(step) or 0 for step in batch.steps)
    return sum((step.cells or 0) * len(step.parts) for step in batch.steps)


def _keys(plan: ReleasePlan) -> int:
    """The declared keys of all columns."""
    return sum(len(column.keys or ()) for table in plan.catalog.tables.values() for column in table.columns)


def _megabytes(size: int) -> int:
    return -(-size // 10**6)


def _numbers(plan: ReleasePlan, query: PlannedQuery) -> int:
    """Cells times measures of a published table."""
    if query.private or query.ranking is not None:
        return 0
    return rows_of(plan.keys(query), query.ranges) * max(1, len(query.measures))


def _joint(plan: ReleasePlan, tables: tuple[str, ...]) -> int:
    """The cells of the tables of a workload."""
    return sum(_numbers(plan, query) for query in plan.queries if query.name in tables)
