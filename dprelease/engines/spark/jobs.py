"""One job: the tasks of a question in their order, and what they come to, which is all that the driver is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from dprelease.engines.spark.splits import Split
from dprelease.engines.spark.tasks import Work, gathered, part_added_up, scattered, unpacked, whole_rows
from dprelease.errors import BrokenPromiseError, DpReleaseError, EngineError, NotEnoughMemory

__all__ = ["TaskTotals", "arrived", "job_of", "quietly", "run_job"]

Result = TypeVar("Result")
_CODE = re.compile(r"DPR-[A-Z][0-9]{3}")


@dataclass(frozen=True, repr=False)
class TaskTotals:
    """Totals that tasks came to: an Arrow table of groups that may come several times, to be added up."""

    rows: Any
    within: tuple[str, ...]
    names: tuple[str, ...]


def job_of(context: Any, work: Work, splits: Sequence[Split]) -> Any:
    """The tasks that come to totals, none of which is begun by this; arguments as of :func:`run_job`."""
    sent = context.parallelize(list(splits), max(1, len(splits)))  # a period without a folder has no file
    if work.asked.table.unit_id is None:
        sent = sent.mapPartitions(partial(whole_rows, work))
    else:
        sent = sent.mapPartitions(partial(scattered, work)).partitionBy(work.parts, int)
        sent = sent.mapPartitionsWithIndex(partial(gathered, work))
    if work.groups:
        sent = sent.partitionBy(work.groups, int).mapPartitions(partial(part_added_up, work))
    return sent


def run_job(context: Any, work: Work, splits: Sequence[Split]) -> dict[str, TaskTotals]:
    """What all rows come to, by name.

    Args:
        context: The session.
        work: What tasks are told.
        splits: What they read.

    Raises:
        EngineError: If a task failed; names the class of its error and nothing else.
        NotEnoughMemory: If one had not enough memory.
        BrokenPromiseError: If bounded rows broke a bound.
    """
    doing = f"table {work.asked.table.name!r}, a job of Spark"
    return arrived(quietly(doing, job_of(context, work, splits).collect))


def arrived(sent: Sequence[tuple[int, Any]]) -> dict[str, TaskTotals]:
    """What arrived at the driver, by name."""
    tables: dict[str, list[Any]] = {}
    shapes: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for _, (name, within, names, data) in sent:
        tables.setdefault(name, []).append(unpacked(data))
        shapes[name] = (within, names)
    return {name: TaskTotals(pa.concat_tables(each), *shapes[name]) for name, each in tables.items()}


def quietly(doing: str, action: Callable[[], Result]) -> Result:
    """Run an action of Spark's; of what it says of a failure the code of an error of ours is taken, and no word.

    Raises:
        DpReleaseError: As a task raised it, by its code.
    """
    try:
        return action()
    except DpReleaseError:
        raise
    except Exception as error:
        codes, kind = _CODE.findall(str(error)), type(error).__name__
    raise _failed(doing, codes[-1] if codes else "", kind)


def _failed(doing: str, code: str, kind: str) -> DpReleaseError:
    if code == "DPR-E004":
        return NotEnoughMemory(f"{doing}: there is not enough memory for a task", code=code)
    if code.startswith("DPR-B"):
        return BrokenPromiseError(
            f"{doing}: a promise was broken in a task; nothing was drawn",
            hint="report this as a bug of dprelease; the budget of this step stays reserved",
            code=code,
        )
    says, hint = _SAYS.get(code, (f"failed ({code or kind}); its own words are withheld, they may quote rows", ""))
    hint = hint or "check the cluster, its disks and its memory, then run the same command again: it goes on there"
    return EngineError(f"{doing}: {says}", hint=hint, code=code if code in _SAYS else "DPR-E001")


_SAYS = {
    "DPR-E105": (
        "its files were written to while they were read, or are not those that the driver sees",
        "let no one write to them, in a folder that all machines see; then run the same command again",
    ),
    "DPR-E155": (
        "an executor runs other versions than this process",
        "install the same dprelease, duckdb, numpy, pyarrow and Python on all machines (`pip freeze` here)",
    ),
}
