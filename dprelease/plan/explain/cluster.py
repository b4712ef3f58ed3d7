"""What a release that Spark measures takes of its driver, of a task and of the shuffle, by public numbers alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.cells import MOST_CELLS, CellSlice, cells_asked
from dprelease.errors import PlanError
from dprelease.plan.document import ReleasePlan

__all__ = ["cluster_texts", "engine_questions", "largest_answer", "readings", "require_in_pieces"]

Asked = tuple[Grouping, tuple[Quantity, ...], CellSlice | None]
# Bytes of a cell on the driver: its total in 128 bits and the places of its keys (up to 32), as they arrive, unpacked
# and added up, and the number that is handed on.
_OF_A_CELL = 3 * (16 + 32) + 8
_OF_A_NUMBER = 8
_OF_A_BOOLEAN = 1
_PART = 128  # MiB of files whose rows one task bounds: ``engines.spark.engine``


def engine_questions(plan: ReleasePlan) -> list[Asked]:
    """What an engine is asked, once each: of a grouping in pieces the largest of them."""
    found: dict[tuple[Grouping, tuple[Quantity, ...]], CellSlice | None] = {}
    for batch in plan.batches():
        within = None if batch.piece is None else batch.piece.within
        for asked in batch.questions.items():
            known = found.setdefault(asked, within)
            if within is not None and known is not None and len(within.nodes) > len(known.nodes):
                found[asked] = within
    return [(*asked, within) for asked, within in found.items()]


def largest_answer(plan: ReleasePlan) -> tuple[int, str]:
    """The cells of the largest answer of a table that Spark reads, and the table; no cells where there is none."""
    answers = ((cells * max(1, numbers), grouping.table) for grouping, numbers, cells in _spark_answers(plan))
    return max(answers, default=(0, ""))


def _spark_answers(plan: ReleasePlan) -> Iterator[tuple[Grouping, int, int]]:
    """Each answer that Spark gives by public keys: the grouping, how many numbers a cell has, and the cells."""
    tables = plan.catalog.tables
    if not _on_spark(plan):  # nor are the questions of such a plan worked out
        return
    for grouping, quantities, within in engine_questions(plan):
        if tables[grouping.table].engine is not None and not grouping.private:
            yield grouping, len(quantities), cells_asked(tables[grouping.table], grouping.by, within)


def _on_spark(plan: ReleasePlan) -> list[str]:
    """The names of the tables that Spark reads, in order."""
    return sorted(name for name, table in plan.catalog.tables.items() if table.engine is not None)


def require_in_pieces(plan: ReleasePlan) -> None:
    """Refuse a plan one answer of which is more than a driver of Spark should hold.

    Raises:
        PlanError: Names the table and the number (DPR-P347).
    """
    for grouping, _, cells in _spark_answers(plan):
        if cells > MOST_CELLS:
            columns = ", ".join(grouping.by)
            raise PlanError(
                f"table {grouping.table!r}: one answer by ({columns}) has {cells:,} cells, more than {MOST_CELLS:,}",
                detail="Spark hands all cells of an answer to one driver",
                hint="take a column out of `by`; ask for it by `levels` below a level of 2 to 1,000 keys, whose draws "
                "are made in pieces; or leave `engine: spark` out",
                code="DPR-P347",
            )


def cluster_texts(plan: ReleasePlan) -> tuple[str, ...]:
    """What the driver, a task and the shuffle hold; nothing of a plan that one machine measures."""
    named = _on_spark(plan)
    if not named:
        return ()
    cells, table = largest_answer(plan)
    size = -(-cells * _OF_A_CELL // 10**6)
    return (
        f"spark: the driver holds {cells:,} numbers of one answer at the most (table {table}), about {size} MB beside "
        "Java and the libraries",
        *(_of_rows(plan, name) for name in named),
    )


def readings(plan: ReleasePlan, name: str) -> set[object]:
    """What a table is read for, once each.

    Numbers of complete rows come from combinations that are kept, and totals of a cube from that; everything else is a
    pass of its own. Each draw of a series reads the rows of earlier periods, and all of them are hashed once.
    """
    found: set[object] = set()
    for batch in plan.batches(whole=True):
        for grouping, quantities in batch.questions.items():
            counted = all(each == Quantity(kind="rows", weight=each.weight) for each in quantities)
            bounded = grouping.max_groups is not None or grouping.max_rows_per_group is not None
            if grouping.table != name:
                continue
            if grouping.complete and counted and not bounded:
                columns = frozenset((*grouping.complete, *grouping.by))
                found.add((grouping.where, columns, grouping.zeros, quantities[0].weight if quantities else None))
            else:
                found.add(batch.cube or (grouping, quantities))
    for step in plan.steps:
        if step.series is not None and step.aggregate.table == name:
            found |= {"hashes", *((step.id, earlier) for earlier in range(1, len(step.series.read)))}
    return found


def _of_rows(plan: ReleasePlan, name: str) -> str:
    """What of the rows of a table is sent and held, which the plan does not know the number of."""
    table = plan.catalog.tables[name]
    passes = len(readings(plan, name))
    once = f"{passes} pass{'es' if passes != 1 else ''}"
    if table.unit_id is None:
        return (
            f"spark: {name} is read in {once}; a task holds some rows at a time, and the shuffle totals of cells "
            "alone, not rows"
        )
    read = [each for each in table.columns if each.reference is None and each.derivation is None]
    fixed = _bytes([each.type for each in read if each.type in ("integer", "decimal", "boolean")])
    texts = sum(each.type not in ("integer", "decimal", "boolean") for each in read)
    said = f"{fixed} bytes and {texts} text{'s' if texts != 1 else ''}"
    return (
        f"spark: {name} is read in {once}; each shuffles {said} of a row at the most, and a task holds "
        f"those of about {_PART} MiB of files, or of one unit where that has more"
    )


def _bytes(types: Sequence[str]) -> int:
    return sum(_OF_A_BOOLEAN if each == "boolean" else _OF_A_NUMBER for each in types)
