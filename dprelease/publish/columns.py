"""The columns of published tables: their names, which all files share, and whether a query can have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date

from dprelease.catalog.table import Column, Key
from dprelease.errors import PublishError
from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.estimate.sampling import is_sampled
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.base import keys_of_query, number_names, safe_path

__all__ = [
    "PERIOD_COLUMN",
    "P_VALUE",
    "REHEARSAL_COLUMN",
    "SAMPLING_ERROR",
    "TOTAL_MARGIN",
    "UNADJUSTED",
    "UNADJUSTED_ERROR",
    "check_header",
    "check_queries",
    "column_names",
    "endings",
    "endings_of",
    "moves",
    "table_header",
]


PERIOD_COLUMN, REHEARSAL_COLUMN = "period", "rehearsal"
UNADJUSTED = "_unadjusted"  # ends the name of the column with the estimate of a number that was moved
UNADJUSTED_ERROR = "_unadjusted_se"  # that of the column with its standard error, where nothing else has one
P_VALUE = "_p"  # of a change or a difference
SAMPLING_ERROR, TOTAL_MARGIN = "_sampling_se", "_total_margin"  # those of a number of a weighted sample
_KEY_TYPES = ("text", "integer", "boolean", "date")


def moves(plan: ReleasePlan, query: PlannedQuery) -> bool:
    """Whether the numbers of a query are moved after they were estimated, by what its workload asks for."""
    return query.workload is not None and bool({"nonnegative", "integer"} & set(plan.workload(query.workload).post))


def column_names(plan: ReleasePlan, query: PlannedQuery, *, rehearsal: bool = False) -> tuple[str, ...]:
    """The columns of a query's files: its keys, then those of each measure; of a ranking the ranks and the keys."""
    keys = [column.name for column in keys_of_query(plan, query)]
    measures = [(name, endings_of(plan, query, name)) for name in number_names(plan, query)]
    return _header(keys, measures, rehearsal, period=plan.publish.period_column)


def endings_of(plan: ReleasePlan, query: PlannedQuery, name: str) -> tuple[str, ...]:
    """The endings of the columns of a measure that is planned, as :func:`endings` says them once it is estimated."""
    if name in query.compare:
        asked = query.compare[name]
        taken = [plan.taken(feed.step).parts[feed.part] for feed in query.inputs[asked.measure]]
        linear = bool(taken) and query.measures[asked.measure].coefficients(taken) is not None
        return _endings(moved=False, held=True, sampled=False, p_value=asked.says_p and (linear or not asked.proved))
    return _endings(
        moved=plan.publish.layout > 1 and moves(plan, query),
        held=plan.publish.figures is not None,
        sampled=is_sampled(query.measures[name], plan.catalog.tables[query.table]),
    )


def endings(measure: PublishedMeasure) -> tuple[str, ...]:
    """The endings of the columns of a measure, in published order, which all files share.

    A number of a weighted sample has its sampling error and the margin of noise and sampling behind its status, and one
    that was moved after it was estimated the estimate. In plans with rules for figures (and the measure is ``held``) no
    margin and no standard error is said to be of a number that was moved: that of the estimate stands beside the
    estimate, and of the sample the sampling error alone.
    """
    moved, sampled = measure.unadjusted is not None, measure.sampling_error is not None
    return _endings(moved=moved, held=measure.held, sampled=sampled, p_value=measure.p_value is not None)


def _endings(*, moved: bool, held: bool, sampled: bool, p_value: bool = False) -> tuple[str, ...]:
    if moved and held:
        return (
            "",
            "_lower",
            "_upper",
            "_status",
            *((SAMPLING_ERROR,) if sampled else ()),
            UNADJUSTED,
            UNADJUSTED_ERROR,
        )
    more = ((SAMPLING_ERROR, TOTAL_MARGIN) if sampled else ()) + ((UNADJUSTED,) if moved else ())
    more += (P_VALUE,) if p_value else ()
    return ("", "_se", "_margin", "_lower", "_upper", "_status", *more)


def table_header(table: PublishedTable, *, rehearsal: bool = False) -> tuple[str, ...]:
    """The columns of the files of a table, which is as ``measured.filed`` gives it."""
    measures = [(each.name, endings(each)) for each in table.measures]
    return _header([each.name for each in table.key_columns], measures, rehearsal, period=bool(table.period))


def _header(
    keys: Sequence[str], measures: Sequence[tuple[str, tuple[str, ...]]], rehearsal: bool, *, period: bool
) -> tuple[str, ...]:
    found = [
        *((PERIOD_COLUMN,) if period else ()),
        *keys,
        *(name + ending for name, named in measures for ending in named),
    ]
    return (*found, REHEARSAL_COLUMN) if rehearsal else tuple(found)


def check_queries(plan: ReleasePlan) -> None:
    """Refuse, before any budget is spent, queries whose tables could not be written.

    Raises:
        PublishError: If a query's name cannot be a file name (DPR-W201) or differs from another one only in
            its capitals (DPR-W103), if two columns of a table have one name (DPR-W104), if a key column has a
            type that cannot be a key (DPR-W105), or if a key cannot be stored in that type (DPR-W106).
    """
    seen: dict[str, str] = {}
    sound: set[tuple[str, str]] = set()  # columns: one with 100,000 keys can be that of many queries
    for query in plan.queries:
        safe_path(f"{query.name}.csv")
        other = seen.setdefault(query.name.lower(), query.name)
        if other != query.name:
            raise PublishError(
                f"queries {other!r} and {query.name!r} would be one file where capitals do not count",
                hint="rename one of them",
                code="DPR-W103",
            )
        _check_columns(plan, query, sound)


def _check_columns(plan: ReleasePlan, query: PlannedQuery, sound: set[tuple[str, str]]) -> None:
    names = column_names(plan, query, rehearsal=True)
    check_header(names, f"query {query.name!r}", "measure", hint="rename the measure or the key column")
    for column in keys_of_query(plan, query):
        if column.type not in _KEY_TYPES:
            raise PublishError(
                f"query {query.name!r}: key column {column.name!r} is of type {column.type}",
                hint=f"a key is one of: {', '.join(_KEY_TYPES)}",
                code="DPR-W105",
            )
        if (query.table, column.name) in sound:
            continue
        bad = next((key for key in column.keys or () if not _storable(key, column)), None)
        if bad is not None:
            raise PublishError(
                f"query {query.name!r}: key {bad!r} of column {column.name!r} is no {column.type} that a file can hold",
                hint="a text key is valid Unicode, an integer has 64 bits, a date is written like 2024-03-07",
                code="DPR-W106",
            )
        if column.name in query.by:  # and no rank, which is no column of the table
            sound.add((query.table, column.name))


def check_header(names: Sequence[str], table: str, number: str, *, hint: str) -> None:
    """Refuse a table with two columns of one name.

    Args:
        names: The names of its columns, with the one that marks a rehearsal.
        table: What it is called.
        number: What its numbers are called.
        hint: What to rename.

    Raises:
        PublishError: DPR-W104.
    """
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise PublishError(
            f"{table} would publish two columns named {twice!r}",
            detail=f"a {number} m makes m, m_se, m_margin, m_lower, m_upper, m_status, m_sampling_se and "
            "m_total_margin beside a sampling error, m_p of a change, and m_unadjusted and m_unadjusted_se where it "
            "is moved; `rehearsal` marks a rehearsal, and `period` is a column where `publish.period_column` asks for "
            "one",
            hint=hint,
            code="DPR-W104",
        )


def _storable(key: Key, column: Column) -> bool:
    if column.type == "integer":
        return isinstance(key, int) and not isinstance(key, bool) and -(2**63) <= key < 2**63
    if column.type == "boolean":
        return isinstance(key, bool)
    if not isinstance(key, str):
        return False
    try:
        key.encode()
        return column.type == "text" or bool(date.fromisoformat(key))
    except ValueError:
        return False
