"""Further tables, made of published ones by SQL: after the noise, so they cost nothing.

Their numbers have margins by simulation. In each of 1,000 replicates every measurement gets one more draw of noise of
its own law, the published numbers are estimated again and the SQL is run on them. The standard error is the root mean
square of (replicate - value) about its mean, and the margin the k-th smallest of the 1,000 |replicate - value| with
k = ceil(confidence * 1001). Where the SQL is linear in the measurements, |value - truth| has the same law as each of
those, all of them independent, so that it is at most the k-th smallest with probability k / 1001 >= confidence. Where
it is not linear, that holds as nearly as it is linear over the width of the noise.

Where numbers that SQL reads were moved after they were estimated, what stands for "the published numbers" above are the
estimates before: margin and interval are about what SQL makes of those, which stands beside the number itself.

A number is blank where it cannot be worked out, and its margin where it is made of a number without a law (a quantile)
or where too many replicates have no such row or number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dprelease.canonical import sha256
from dprelease.catalog.table import Column
from dprelease.errors import PublishError
from dprelease.estimate import PublishedMeasure, PublishedTable, interval, statuses
from dprelease.estimate.figures import ShowRules
from dprelease.measures import Possible
from dprelease.noise import Measurement
from dprelease.plan.document import Derived, PlannedQuery, ReleasePlan
from dprelease.publish.base import keys_of_query, safe_path
from dprelease.publish.columns import check_header, moves, table_header
from dprelease.publish.comparing.earlier import EarlierRelease
from dprelease.publish.derive.earlier import EarlierTables, Read, before_moving, check_earlier, read_all, read_one
from dprelease.publish.derive.replicate import check_size
from dprelease.publish.derive.run import Database, DerivedRows, Replicates, answer_of, batches_of, replicated
from dprelease.publish.measured import Inputs

__all__ = ["check_derived_tables", "derived_tables", "made_again", "outline", "seed_of"]

Floats = npt.NDArray[np.float64]


def check_derived_tables(plan: ReleasePlan) -> None:
    """Refuse derived tables that could not be made or written; it needs no data and spends nothing.

    Raises:
        PlanError: For SQL that is not allowed (DPR-P15.).
        PublishError: If a name cannot be a file (DPR-W201) or is that of another table (DPR-W103), or two columns
            have one name (DPR-W104).
    """
    taken = {query.name.lower() for query in plan.queries}
    for read in read_all(plan):
        derived = read.derived
        safe_path(f"{derived.name}.csv")
        if derived.name.lower() in taken:
            raise PublishError(f"two tables are named {derived.name!r}", hint="rename the derived one", code="DPR-W103")
        taken.add(derived.name.lower())
        check_earlier(plan, read)
        check_size(plan, read.queries)
        names = table_header(outline(plan, derived), rehearsal=True)
        hint = "rename the number or the key: `... as name`"
        check_header(names, f"derived table {derived.name!r}", "number", hint=hint)


def seed_of(measurements: Mapping[str, Measurement]) -> int:
    """A seed that the measurements fix: the same release has the same replicates."""
    return int(sha256("\n".join(sorted(each.digest for each in measurements.values())).encode()), 16)


def derived_tables(
    plan: ReleasePlan,
    tables: Sequence[PublishedTable],
    inputs: Inputs,
    seed: int,
    earlier: Mapping[str, EarlierRelease] = MappingProxyType({}),
) -> tuple[PublishedTable, ...]:
    """Every derived table of a plan.

    Args:
        plan: The plan.
        tables: Its queries as published, in plan order; those of a series with their sums.
        inputs: What they were made of.
        seed: The seed of the replicates.
        earlier: By period, what is taken of earlier releases; tables of one that is not there are blank.
    """
    if not plan.derive:
        return ()
    reads, past = read_all(plan), EarlierTables.of(plan, earlier)
    used = {name for each in reads for name in each.queries}
    with Database() as database:
        answers = [answer_of(each.found, past.beside(each.derived, tables), database) for each in reads]
        held = plan.publish.layout > 1
        estimates, before_past = (before_moving(tables), past.before_moving()) if held else (tables, past)
        before = [
            answer_of(each.found, before_past.beside(each.derived, estimates), database)
            if _of_moved(plan, each)
            else answer
            for each, answer in zip(reads, answers, strict=True)
        ]
        spreads = [
            Replicates(each.found, answer, plan.publish.confidence) for each, answer in zip(reads, before, strict=True)
        ]
        sizes = batches_of(max([past.largest(), *(table.cells for table in tables if table.name in used)]))
        again = replicated(plan, estimates, inputs, used, np.random.default_rng(seed), sizes)
        streams = [np.random.default_rng([seed, at]) for at, _ in enumerate(before_past.sides, start=1)]
        for count, own, once in zip(sizes, again, before_past.replicated(streams, sizes), strict=True):
            for each, spread in zip(reads, spreads, strict=True):
                spread.add(once.beside(each.derived, own), count, database)
    made = zip(reads, answers, before, spreads, strict=True)
    return tuple(_table(plan, each, past, answer, first, spread) for each, answer, first, spread in made)


def _of_moved(plan: ReleasePlan, read: Read) -> bool:
    """Whether SQL reads a table whose numbers are moved after they are estimated; files of the first layout hide it."""
    return plan.publish.layout > 1 and any(moves(plan, query) for query in plan.queries if query.name in read.queries)


def made_again(
    plan: ReleasePlan, tables: Sequence[PublishedTable], earlier: Mapping[str, EarlierRelease]
) -> list[DerivedRows]:
    """The keys and values of every derived table by the published values alone, in plan order."""
    past = EarlierTables.of(plan, earlier)
    with Database() as database:
        return [answer_of(each.found, past.beside(each.derived, tables), database) for each in read_all(plan)]


def _lawless(named: Mapping[str, tuple[ReleasePlan, PlannedQuery]], used: frozenset[tuple[str, str]]) -> bool:
    """Whether a number that SQL reads is made of a choice or of respondents' coins, which have no law to draw again."""
    for table, name in used:
        plan, query = named[table]
        label = name if name not in query.compare else query.compare[name].measure
        measure = query.measures.get(label)
        if label not in query.inputs or (measure is not None and measure.of_answers is not None):
            return True
        if any(plan.taken(feed.step).parts[feed.part].kind == "quantile" for feed in query.inputs[label]):
            return True
    return False


def _key_columns(read: Read, named: Mapping[str, tuple[ReleasePlan, PlannedQuery]]) -> tuple[Column, ...]:
    """Its key columns: those of the published tables, under the names that the SQL gives them."""
    made = []
    for output in read.found.outputs:
        if output.key is not None:
            table, name = output.key
            column = next(each for each in keys_of_query(*named[table]) if each.name == name)
            made.append(column.model_copy(update={"name": output.name}))
    return tuple(made)


def outline(plan: ReleasePlan, derived: Derived) -> PublishedTable:
    """The table without rows: its columns, which the plan alone decides."""
    read = read_one(plan, derived)
    nothing = np.zeros((0, sum(output.key is None for output in read.found.outputs)))
    return _filled(plan, read, EarlierTables.of(plan, {}), DerivedRows([], [], nothing), nothing, nothing, nothing)


def _table(
    plan: ReleasePlan, read: Read, past: EarlierTables, answer: DerivedRows, before: DerivedRows, spread: Replicates
) -> PublishedTable:
    """The rows of the published numbers, each with what the same row of the estimates has; blank where they have none.

    Moving numbers can make SQL choose other rows: of those nothing is known.
    """
    parts: tuple[Floats, ...] = (before.values, *spread.result())
    if before is not answer:
        places = {row: at for at, row in enumerate(before.told)}
        at = np.array([places.get(row, len(places)) for row in answer.told], dtype=np.int64)
        parts = tuple(np.vstack([each, np.full((1, each.shape[1]), np.nan)])[at] for each in parts)
    estimates, errors, margins = parts
    return _filled(plan, read, past, answer, estimates, errors, margins)


def _filled(
    plan: ReleasePlan,
    read: Read,
    past: EarlierTables,
    answer: DerivedRows,
    before: Floats,
    errors: Floats,
    margins: Floats,
) -> PublishedTable:
    derived, named = read.derived, past.queries_named(read.derived)
    columns = _key_columns(read, named)
    numbers, moved = [output for output in read.found.outputs if output.key is None], _of_moved(plan, read)
    return PublishedTable(
        name=derived.name,
        title=derived.title or derived.name,
        key_columns=columns,
        keys=tuple(tuple(row[at] for row in answer.keys) for at in range(len(columns))),
        measures=tuple(
            _number(
                plan,
                output.name,
                answer.values[:, at],
                before[:, at] if moved else None,
                np.full((2, len(errors)), np.nan) if _lawless(named, output.uses) else (errors[:, at], margins[:, at]),
            )
            for at, output in enumerate(numbers)
        ),
        confidence=plan.publish.confidence,
        cells=len(answer.keys),
        derived=derived.sql,
        period=plan.release.period if plan.publish.period_column else "",
    )


def _number(
    plan: ReleasePlan, name: str, value: Floats, before: Floats | None, errors: Sequence[Floats] | Floats
) -> PublishedMeasure:
    """One number of every row; ``before``: what it is of estimates, where those that it is made of were moved."""
    (error, margin), publish = errors, plan.publish
    held = publish.figures is not None
    # SQL can subtract what was counted, and its number is not clipped: nothing is known of what it can be.
    anything: Possible = (None, None)
    lower, upper = interval(value if before is None else before, margin, anything)
    if held and before is not None:
        lower, upper = np.minimum(lower, value), np.maximum(upper, value)
    blank = np.isnan(value)
    rules = ShowRules(publish.unreliable_above, publish.unreliable_show, False, publish.figures)
    caution, weak, hidden = rules.judged(value, margin, lower, upper, anything, blank, counts=False)
    value, error, margin, lower, upper = (
        np.where(hidden, np.nan, each) + 0.0 for each in (value, error, margin, lower, upper)
    )
    return PublishedMeasure(
        name=name,
        measure=None,
        value=value,
        standard_error=error,
        margin=margin,
        lower=lower,
        upper=upper,
        status=statuses(blank, weak, caution),
        places=None,
        integer=False,
        unadjusted=None if before is None else np.where(hidden, np.nan, before) + 0.0,
        held=held,
    )
