"""An earlier period's release as a later one takes it: its plan and its measurements, from its published bundle.

What is taken lies in the later bundle too, under ``earlier/``, so that this can be made again and checked by whoever
has it alone. That it is what the earlier bundle holds is checked with both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from dprelease.canonical import GrownValue
from dprelease.catalog.table import Table
from dprelease.errors import PlanError
from dprelease.measures.comparing.comparison import PREVIOUS, ComparedNumber
from dprelease.noise import Measurement
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.plan.explain.series_terms import differing_terms
from dprelease.publish.base import ComparedWith
from dprelease.publish.measured import Inputs, inputs_of
from dprelease.spec.period import preceding, span

__all__ = [
    "FOLDER",
    "EarlierRelease",
    "compared_with",
    "draws_of",
    "earlier_files",
    "earlier_in",
    "needed_periods",
    "needed_tables",
    "period_of",
    "publication_told",
    "require_alike",
    "taken_from",
]

FOLDER = "earlier"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class EarlierRelease(GrownValue):
    """What a release takes of an earlier one.

    Attributes:
        release: The name of both.
        period: Of the earlier one.
        manifest: The SHA-256 of the manifest that it was published with, as the ledger has it.
        sequence: The ledger entry that charged it.
        plan: Its plan.
        measurements: By step, what it measured: whole numbers in steps of their grids.
    """

    LATER: ClassVar[tuple[str, ...]] = ()
    format: Literal[1] = 1
    release: str
    period: str
    manifest: str
    sequence: int
    plan: ReleasePlan
    measurements: dict[str, tuple[int, ...]]

    @property
    def inputs(self) -> Inputs:
        """What its steps measured, as far as it is taken.

        Raises:
            ValueError: A measurement is of no step of its plan, or of another size.
        """
        found = {}
        steps = {step.id: step for step in self.plan.measured}
        for name, values in self.measurements.items():
            step = steps.get(name)
            if step is None or step.cells is None or len(values) != step.cells * len(step.parts):
                raise ValueError("a measurement that its plan does not have")
            found[name] = Measurement(name, np.array(values, dtype=np.int64))
        return inputs_of(self.plan, found, steps=found)


def period_of(plan: ReleasePlan, asked: ComparedNumber) -> str | None:
    """The period that a comparison looks back to, by name; None: to none."""
    return preceding(plan.release.period) if asked.period == PREVIOUS else asked.period


def needed_periods(plan: ReleasePlan) -> tuple[str, ...]:
    """The periods that a plan looks back to, but for its own: to compare with, or as periods of its series."""
    found = {period_of(plan, each) for query in plan.queries for each in query.compare.values()}
    found |= {period for query in plan.queries if query.series is not None for period in query.series.periods}
    found |= set(needed_tables(plan))
    return tuple(sorted({each for each in found if each is not None and each != plan.release.period}))


def needed_tables(plan: ReleasePlan) -> dict[str, dict[str, set[str]]]:
    """By period and query the earlier tables that SQL reads, with the measures that its text names, and maybe more."""
    known = {query.name: set(query.measures) for query in plan.queries}
    found: dict[str, dict[str, set[str]]] = {}
    for derived in plan.derive:
        for each in derived.earlier.values():
            period = each.period_in(plan.release.period)
            if period is not None and period != plan.release.period:
                named = known.get(each.query, set()) & set(_NAME.findall(derived.sql))
                found.setdefault(period, {}).setdefault(each.query, set()).update(named)
    return found


def draws_of(earlier: Mapping[str, EarlierRelease]) -> dict[str, Mapping[str, tuple[int, ...]]]:
    """By period and step what was measured in earlier releases, as a series takes it."""
    return {period: each.measurements for period, each in earlier.items()}


def taken_steps(plan: ReleasePlan, names: set[str]) -> tuple[str, ...]:
    """The steps of a plan that feed these queries."""
    feeds = [step for query in plan.queries if query.name in names for step in plan.fed_by(query)]
    feeds += [
        feed.step for query in plan.queries if query.name in names and query.totals for feed in query.totals.feeds
    ]
    return tuple(sorted(set(feeds)))


def taken_from(
    plan: ReleasePlan,
    earlier: ReleasePlan,
    measurements: Mapping[str, Measurement],
    period: str,
    manifest: str,
    entry: int,
) -> EarlierRelease:
    """What a release takes of an earlier one.

    Args:
        plan: Of the later one.
        earlier: Of the earlier one.
        measurements: Of the earlier one, by step.
        period: Its period.
        manifest: The SHA-256 of the manifest that it was published with.
        entry: The ledger entry that charged it.

    Raises:
        PlanError: A number is defined otherwise there (DPR-P331), or not there at all.
    """
    names = {
        query.name for query in plan.queries if any(period_of(plan, each) == period for each in query.compare.values())
    }
    names |= {query.name for query in plan.queries if query.series is not None and period in query.series.periods}
    names |= set(needed_tables(plan).get(period, ()))
    require_alike(plan, earlier, period)
    steps = taken_steps(earlier, names)
    return EarlierRelease(
        release=plan.release.name,
        period=period,
        manifest=manifest,
        sequence=entry,
        plan=earlier,
        measurements={name: tuple(measurements[name].values.tolist()) for name in steps},
    )


def compared_with(earlier: EarlierRelease) -> ComparedWith:
    """What the facts of the later release say of an earlier one."""
    head = earlier.plan.release
    return ComparedWith(
        period=earlier.period,
        plan_fingerprint=earlier.plan.fingerprint(),
        manifest=earlier.manifest,
        sequence=earlier.sequence,
        revision=head.revision,
        restatement=head.restatement,
    )


def publication_told(period: str | None, earlier: Mapping[str, EarlierRelease]) -> dict[str, Any]:
    """An earlier period and, where that is not its first publication, which one is taken: what a recipe says of it."""
    head = earlier[period].plan.release if period is not None and period in earlier else None
    numbers = {} if head is None else {"revision": head.revision, "restatement": head.restatement}
    return {"period": period, **{name: number for name, number in numbers.items() if number}}


def require_alike(plan: ReleasePlan, earlier: ReleasePlan, period: str) -> None:
    """Refuse to compare numbers that are defined otherwise: by what both plans say, and never by what was measured.

    Raises:
        PlanError: DPR-P331, saying what differs.
    """
    by_sql = needed_tables(plan).get(period, {})
    for query in plan.queries:
        if query.series is not None and period in query.series.periods:
            _require_same_series(plan, query, earlier, period)
            continue
        asked = {each.measure for each in query.compare.values() if period_of(plan, each) == period}
        asked |= by_sql.get(query.name, set())
        if not asked and query.name not in by_sql:
            continue
        other = next((each for each in earlier.queries if each.name == query.name), None)
        differs = "it has no such query" if other is None else _differs(plan, query, earlier, other, asked)
        if differs:
            raise PlanError(
                f"query {query.name!r} cannot be compared with {period}: {differs}",
                detail="numbers are compared where keys, rows, clips and the unit are the same; noise may differ",
                hint="leave `compare`, or `earlier` of `derive`, out until two periods are published alike; or name "
                "another period",
                code="DPR-P331",
            )


def _require_same_series(plan: ReleasePlan, query: PlannedQuery, earlier: ReleasePlan, period: str) -> None:
    differs = differing_terms(plan, query, earlier)
    if differs:
        raise PlanError(
            f"query {query.name!r} is of another series than {period}: {differs} differs",
            detail="periods that share their noise have the same band, noise, rows and cells",
            hint="begin a new series with this period",
            code="DPR-P331",
        )


def _differs(plan: ReleasePlan, query: PlannedQuery, earlier: ReleasePlan, other: PlannedQuery, asked: set[str]) -> str:
    """What of the definition of some measures of a query differs; empty: nothing."""
    ours, theirs = plan.catalog.tables[query.table], earlier.catalog.tables[other.table]
    if (str(plan.unit), ours.unit_id is None) != (str(earlier.unit), theirs.unit_id is None):
        return f"its unit is {earlier.unit}" + (", with an id" if theirs.unit_id else ", one row each")
    if other.series is not None:
        return "its periods share their noise with others"
    totals = [None if each.totals is None else each.totals.sets for each in (query, other)]
    if totals[0] != totals[1]:
        return "its totals are others"
    keys = [[each.keys for each in one.keys(of)] for one, of in ((plan, query), (earlier, other))]
    along = [None if each.ranges is None else (each.ranges.of, each.ranges.which) for each in (query, other)]
    if query.by != other.by or keys[0] != keys[1] or along[0] != along[1]:
        return "its keys are others"
    both = ((plan, query), (earlier, other))
    exclusions = [
        (each.catalog.exclusions.get(of.excluding or ""), each.catalog.zeros.get(of.workload or ""))
        for each, of in both
    ]
    if _moves(*both[0]) != _moves(*both[1]):
        return "its numbers are made whole or non-negative otherwise"
    ends = (plan.release.period, earlier.release.period)
    where = [_neutral(each.where or "", end) for each, end in zip((query, other), ends, strict=True)]
    bounds = [(each.max_groups, each.max_rows_per_group) for each in (query, other)]
    rows = list(zip(where, bounds, strict=True))
    if rows[0] != rows[1] or exclusions[0] != exclusions[1] or _bounds(ours) != _bounds(theirs):
        return "it counts other rows (`where`, `except` or bounds)"
    for label in sorted(asked):
        if label not in other.measures:
            return f"it has no measure {label!r}"
        one, two = query.measures[label], other.measures[label]
        told = [
            _neutral_wheres(
                [json.loads(each.canonical()), [json.loads(part.canonical()) for part in each.quantities(of)]], end
            )
            for each, of, end in zip((one, two), (ours, theirs), ends, strict=True)
        ]
        if any(part.chosen is not None for part in two.quantities(theirs)):
            return f"noise chooses the clip of measure {label!r} anew in every period"
        if told[0] != told[1]:
            return f"measure {label!r} is defined otherwise (its column, condition, clip or step)"
    named = _named(query, asked)
    for name in sorted(named & set(ours.named)):
        texts = [_column(each, name) if name in each.named else "" for each in (ours, theirs)]
        if texts[0] != texts[1]:
            return f"column {name!r} is declared otherwise"
    return ""


def _moves(plan: ReleasePlan, query: PlannedQuery) -> tuple[str, ...]:
    """What is done with the tables of its workload after they are estimated."""
    return tuple(plan.workload(query.workload).post) if query.workload else ()


def _bounds(table: Table) -> Any:
    return (table.bounds.model_dump() if table.bounds is not None else None, table.weight)


def _named(query: PlannedQuery, asked: set[str]) -> set[str]:
    """The columns that the numbers are made of, and those by which rows count."""
    found = set(query.by)
    for label in asked:
        for part in query.measures[label].made_of:
            found |= {part.column or ""} | set(_NAME.findall(part.where or ""))
    return found | set(_NAME.findall(query.where or ""))


def _neutral(text: str, period: str) -> str:
    """A text without the period that it is about, whose rows a condition may pick out by its days or its name."""
    whole = span(period)
    words = (period,) if whole is None else (*(each.isoformat() for each in whole), period)
    for at, word in enumerate(words):
        text = re.sub(rf"(?<![0-9A-Za-z]){re.escape(word)}(?![0-9A-Za-z])", f"<{at}>", text)
    return text


def _neutral_wheres(value: Any, period: str) -> Any:
    """Plain JSON with the conditions in it without the period."""
    if isinstance(value, list):
        return [_neutral_wheres(each, period) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _neutral(each, period) if name == "where" and isinstance(each, str) else _neutral_wheres(each, period)
        for name, each in value.items()
    }


def _column(table: Table, name: str) -> str:
    return table.named[name].model_copy(update={"labels": {}, "partition": False}).canonical()


def earlier_files(earlier: Mapping[str, EarlierRelease]) -> dict[str, bytes]:
    """The file of each, by path, in the later bundle."""
    return {
        f"{FOLDER}/{at}.json": f"{each.canonical()}\n".encode()
        for at, (_, each) in enumerate(sorted(earlier.items()), 1)
    }


def earlier_in(files: Mapping[str, bytes], names: list[str]) -> dict[str, EarlierRelease]:
    """What a bundle has taken of earlier ones, by period: the inverse of :func:`earlier_files`.

    Args:
        files: By path.
        names: The paths in its manifest.

    Raises:
        ValueError: A file is missing or is not written as this writes it.
    """
    found = {}
    for name in sorted(each for each in names if each.startswith(f"{FOLDER}/")):
        if name not in files:
            raise ValueError(f"{name} is missing or changed")
        each = EarlierRelease.from_canonical(files[name])
        if f"{each.canonical()}\n".encode() != files[name]:
            raise ValueError(f"{name} is not in its canonical form")
        found[each.period] = each
    return found
