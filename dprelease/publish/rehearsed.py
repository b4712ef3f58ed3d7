"""Publishing before anything is charged: the files of a plan, made of zeros in memory and thrown away.

Whatever fails between the charge and the bundle has cost budget for nothing: a fault in the words of a measure, in a
format or in the accounting is found here, where it costs nothing. No data are read and no noise is drawn. What differs
afterwards are numbers, keys that noise selects, and what the ledger says.

Of queries that are alike one is rehearsed: not a table whose columns, their number, and measures all stand in others
that are. Files have the first ``MOST_ROWS`` rows of a table, for all of its numbers are zero. If that fails, all of the
plan is rehearsed and has the word. Of a plan of more than ``MOST_NUMBERS`` published numbers every table is cut before
it is made, and not rehearsed are: the numbers of ``measurements/`` (the recipe is), the reconciliation of workloads and
the sums of ranges, the numbers of derived tables, and whether files of the whole size can be made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Key
from dprelease.errors import MissingExtra, PublishError
from dprelease.estimate import PublishedTable, Rows, coded
from dprelease.estimate.counts import table_of_counts
from dprelease.estimate.keys import crossed
from dprelease.noise import Measurement
from dprelease.plan.document import PlannedQuery, ReleasePlan, Step
from dprelease.plan.document.ranges import rows_of
from dprelease.privacy.budget import Loss
from dprelease.publish.base import (
    AccountFacts,
    AccountPoint,
    Content,
    Facts,
    key_as_text,
)
from dprelease.publish.bundle.measurements import recipe_file
from dprelease.publish.bundle.package import MAKING, bundle_files, files_beside
from dprelease.publish.bundle.step_files import RECIPE
from dprelease.publish.columns import moves
from dprelease.publish.comparing.earlier import EarlierRelease
from dprelease.publish.derive.tables import outline
from dprelease.publish.measured import TOP_K, Inputs, as_table, noisy_part

__all__ = ["MOST_DRAWS", "MOST_NUMBERS", "MOST_ROWS", "rehearse"]

MOST_NUMBERS = 200_000
MOST_DRAWS = 200  # of a plan of which the accounting is rehearsed as it will be, whatever tables are left out
MOST_ROWS = 500  # of a table that is written; a page of it has as many
_NEVER = "1970-01-01T00:00:00+00:00"
_TWO: dict[str, tuple[Key, ...]] = {"integer": (0, 1), "boolean": (False, True), "date": ("1970-01-01", "1970-01-02")}
_TEXTS = ("a", "=b")


def rehearse(plan: ReleasePlan, signer: str = "", earlier: Mapping[str, EarlierRelease] = MappingProxyType({})) -> None:
    """Make every file that a plan publishes, of zeros; where noise selects keys, once without any and once with some.

    Args:
        plan: That is to be reserved.
        signer: The public key that the bundle will be signed with; empty: it will not be.
        earlier: What is taken of the earlier releases that it compares with, by period.

    Raises:
        PublishError: Something cannot be made (DPR-W111); it says what.
        MissingExtra: A format needs what this machine has not.
    """
    try:
        if sum(_numbers(plan, query) for query in plan.queries) > MOST_NUMBERS:
            for some in _choices(plan):
                _render_cut(plan, _facts(plan, signer), some)
        elif not _passes(_unlike(plan), signer, earlier):
            _render(plan, signer, earlier)
    except MissingExtra:
        raise
    except Exception as error:
        made = [note.removeprefix(MAKING) for note in getattr(error, "__notes__", ()) if note.startswith(MAKING)]
        raise PublishError(
            f"this release could not be published: {made[0] if made else 'its bundle'} cannot be made",
            detail=f"a rehearsal with zeros in the place of answers ended with {type(error).__name__}: {error}",
            hint="nothing was charged and no data were read; leave that format or measure out, or report this error "
            "with the spec",
            code="DPR-W111",
        ) from error


def _choices(plan: ReleasePlan) -> tuple[bool, ...]:
    """Whether noise selected keys, in every way in which it can."""
    return (False, True) if any(step.selecting for step in plan.steps) else (False,)


def _render(
    plan: ReleasePlan, signer: str, earlier: Mapping[str, EarlierRelease], most_rows: int | None = None
) -> None:
    """All files of a plan, of zeros; ``most_rows``: of a table that has more its first ones are written."""
    facts = _facts(plan, signer)
    for some in _choices(plan):
        bundle_files(plan, _zeros(plan, some), facts, earlier=earlier, most_rows=most_rows)


def _passes(plan: ReleasePlan, signer: str, earlier: Mapping[str, EarlierRelease]) -> bool:
    """Whether a part of a plan can be published.

    What fails may be the fault of leaving the rest out, so that nothing is said of it here: a plan is refused for what
    is wrong with all of it.
    """
    try:
        _render(plan, signer, earlier, MOST_ROWS)
    except Exception:
        return False
    return True


def _unlike(plan: ReleasePlan) -> ReleasePlan:
    """The plan with the queries that have something that those before them have not.

    A query that is more than a table of measures by public keys is kept, for others may be made of it, and so is each
    one where SQL makes tables of tables. All draws are kept where they are few: what a release costs is then worked out
    once, for the rehearsal and the bundle alike, and takes longer than the tables that are left out.
    """
    if plan.derive:
        return plan
    seen: set[object] = set()
    kept: list[PlannedQuery] = []
    for query in plan.queries:
        new = _features(plan, query)
        if not new or not new <= seen:
            kept.append(query)
            seen |= new
    names = {query.name for query in kept}
    needed = {feed for query in kept for feed in _feeds(query)}
    left_out = {feed for query in plan.queries if query.name not in names for feed in _feeds(query)}
    idle = left_out - needed if len(plan.steps) > MOST_DRAWS else set()
    return plan.model_copy(
        update={
            "queries": tuple(kept),
            "steps": tuple(step for step in plan.steps if step.id not in idle),
            "invariants": tuple(each for each in plan.invariants if each.id not in idle),
            "outputs": tuple(each for each in plan.outputs if each.query in names),
        }
    )


def _features(plan: ReleasePlan, query: PlannedQuery) -> set[object]:
    """What makes a table look as it does: columns, how many, each measure with its draws, and signs beyond ASCII.

    Empty: it is a table of another kind, and none is like it.
    """
    left = {"by", "goal", "inputs", "measures", "name", "table", "title", "where"}
    usual = {name: field.default for name, field in PlannedQuery.model_fields.items() if name not in left}
    if any(getattr(query, name) != value for name, value in usual.items()):
        return set()
    found: set[object] = {(query.table, column) for column in query.by}
    goal = query.goal.model_copy(update={"share": None})
    found |= {(len(query.by), len(query.measures)), (query.where is None, repr(goal))}
    found |= {sign for sign in f"{query.title}{query.where}" if not sign.isascii()}
    for label, measure in query.measures.items():
        steps = [plan.taken(feed.step) for feed in query.inputs[label]]
        drawn = tuple(step.mechanism if isinstance(step, Step) else "" for step in steps)
        found.add((query.table, repr(measure), drawn))
    return found


def _feeds(query: PlannedQuery) -> set[str]:
    """The ids of what a table is made of."""
    return {feed.step for feeds in query.inputs.values() for feed in feeds}


def _numbers(plan: ReleasePlan, query: PlannedQuery) -> int:
    """Rows times measures of a table; of keys that noise decides there are two here."""
    if query.private or query.ranking is not None:
        return 2 * max(1, len(query.measures))
    return rows_of(plan.keys(query), query.ranges) * max(1, len(query.measures))


def _zeros(plan: ReleasePlan, some: bool) -> dict[str, Measurement]:
    """A measurement of every step: zeros; selections have two keys, or none; rankings the first keys."""
    selections = {step.id: batch.selection for batch in plan.batches(whole=True) for step in batch.steps}
    selected = {step.id: _selected(plan, step) if some else () for step in plan.steps if step.selecting is not None}
    found = {name: Measurement(name, np.ones(len(keys), dtype=np.int64), keys=keys) for name, keys in selected.items()}
    for step in plan.measured:
        if step.id in found:
            continue
        if isinstance(step, Step) and step.mechanism == TOP_K:
            values = np.arange(step.numbers or 0)
        else:
            cells = len(selected[selections[step.id] or ""]) if step.cells is None else step.cells
            cells = cells // len(step.parts[0].classes) if step.parts[0].is_counted else cells
            values = np.concatenate([_zero(part, cells) for part in step.parts])
        found[step.id] = Measurement(step.id, values)
    return found


def _zero(quantity: Quantity, cells: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Zeros; of a quantile, which is a place on its grid, the nearest of these to it; of classes one for each."""
    if quantity.is_counted:
        return np.zeros(cells * len(quantity.classes), dtype=np.int64)
    if quantity.is_clip:
        return np.array([quantity.high], dtype=np.int64)  # the largest clip is one that can be chosen
    value = min(max(0, quantity.low), quantity.high) if quantity.kind == "quantile" else 0
    return np.full(cells, value, dtype=np.int64)


def _selected(plan: ReleasePlan, step: Step) -> tuple[tuple[Key, ...], ...]:
    """Up to two keys that a selection could choose: declared ones where there are, else made up."""
    table = plan.catalog.tables[step.aggregate.table]
    columns = [table.column(name) for name in step.aggregate.by]
    keys = [(column.keys or _TWO.get(column.type, _TEXTS)) for column in columns]
    return tuple(dict.fromkeys(tuple(each[min(at, len(each) - 1)] for each in keys) for at in range(2)))


def _facts(plan: ReleasePlan, signer: str) -> Facts:
    """What the ledger could say of the first release of all of its accounts."""
    loss, nothing = plan.loss[plan.certified], Loss(epsilon=0, delta=0)
    accounts: list[AccountFacts] = []
    windows: list[AccountFacts] = []
    for account in plan.accounts:
        stretches = account.stretches(plan.release.period) if account.window else ()
        caps = [(account.lifetime, ""), *((account.window.cap, each) for each in stretches[:1] if account.window)]
        for cap, window in caps:
            found = AccountFacts(
                name=account.name,
                unit=account.unit,
                composition=account.composition,
                cap=cap,
                before=nothing,
                after=loss,
                window=window,
            )
            (windows if window else accounts).append(found)
    release = {"release": plan.release.name, "period": plan.release.period}
    return Facts(
        plan_fingerprint=plan.fingerprint(),
        reserved_at=_NEVER,
        ledger_sequence=1,
        ledger_hash="0" * 64,
        accounts=tuple(accounts),
        windows=tuple(windows),
        environment={},
        history=tuple(AccountPoint(account=each.name, sequence=1, after=loss, **release) for each in plan.accounts),
        signer=signer,
    )


def _render_cut(plan: ReleasePlan, facts: Facts, some: bool) -> None:
    """Everything that is made of tables, plan and facts, with the first rows of every table."""
    tables = [_first_rows(plan, query, some) for query in plan.queries]
    derived = [outline(plan, each) for each in plan.derive]
    files_beside(Content(plan, (*tables, *derived), facts), {RECIPE: recipe_file(plan)})


def _first_rows(plan: ReleasePlan, query: PlannedQuery, some: bool) -> PublishedTable:
    """A table of zeros, with as many rows as its part of ``MOST_NUMBERS`` allows; ``some``: noise selected keys."""
    columns, publish = plan.keys(query), plan.publish
    if query.totals is not None:  # of the cells alone, with keys as those of totals are written
        cells = _first_rows(plan, query.model_copy(update={"totals": None}), some)
        keys = zip(columns, cells.key_columns, cells.keys, strict=True)
        made = (each if column is old else coded(each).mapped(key_as_text) for column, old, each in keys)
        return replace(cells, key_columns=columns, keys=tuple(made))
    rows = _crossed(columns, MOST_NUMBERS // len(plan.queries) // max(1, len(query.measures)))
    rows = rows[:0] if query.private and not some else rows
    if query.workload is None and query.ranges is None:
        steps = [plan.taken(feed.step) for feeds in query.inputs.values() for feed in feeds]
        noisy = {
            step.id: tuple(noisy_part(step, at, _zero(each, len(rows))) for at, each in enumerate(step.parts))
            for step in steps
        }
        ranked = {query.ranking.step: tuple(range(query.ranking.k))} if query.ranking is not None else {}
        return as_table(plan, query, Inputs(noisy=noisy, keys={}, ranked=ranked), rows)
    ((label, measure),) = query.measures.items()
    zeros = np.zeros(len(rows))
    return table_of_counts(
        query.name,
        query.title,
        columns,
        rows,
        label,
        measure,
        zeros,
        zeros.copy() if moves(plan, query) else zeros,
        np.ones(len(rows)),
        reach=2.0,
        confidence=publish.confidence,
        unreliable_above=publish.unreliable_above,
        unreliable_show=publish.unreliable_show,
        nearest=publish.intervals == "nearest",
        whole=query.workload is not None and "integer" in plan.workload(query.workload).post,
        figures=publish.figures,
    )


def _crossed(columns: Sequence[Column], most: int) -> Rows:
    """Combinations of the first keys of each column, at most so many but one; of keys that noise decides two."""
    each = max(1, int(most ** (1 / max(1, len(columns)))))
    return crossed([(column.keys or _TWO.get(column.type, _TEXTS))[:each] for column in columns])
