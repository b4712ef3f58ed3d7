"""The rules of series: units of one period, counts and sums of public cells, Gaussian noise, rows with a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from dprelease.catalog.series.aims import Aim
from dprelease.catalog.series.band import MOST_PERIODS, Band, SumOf, sum_name
from dprelease.catalog.series.best_band import best_band
from dprelease.measures import Measure
from dprelease.spec.checks.budget import check_gaussian
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.fields.series import SeriesSpec
from dprelease.spec.period import EXAMPLES, Per, is_a, periods, span
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import shown
from dprelease.spec.text.nodes import Path

__all__ = ["PERIODS_OF_A_YEAR", "SERIES_KINDS", "band_of", "check_series", "kind_of_period", "skipped_by"]

SERIES_KINDS = ("count", "sum", "mean", "ratio")
"""Of which measures a series is made: they follow from counts and clipped sums of cells, which add up over periods."""

PERIODS_OF_A_YEAR: Mapping[str, int] = {"month": 12, "quarter": 4}
"""Kinds of periods of which a year has a whole number, so that sums since January can be told."""

# What stands beside `series`, to what can be done instead; all else of a query may stand there.
_BESIDE: Mapping[str, str] = {
    "keys": "declare the keys: which of them appear would be noise, and differ between periods",
    "min_units": "leave it out: every cell is published",
    "except_": "leave it out, or write the cells as keys of one column",
    "top_k": "write one query for the list, and one for the series",
    "suppress": "leave it out, or write `publish: {unreliable: {relative_error_above: 0.5}}`",
    "levels": "leave it out; a level can be one of `by`",
    "shares": "leave it out; `share` is the query's part of the budget",
    "totals": "write a query by the columns of the total, with a `series` of its own",
    "compare": "leave it out: noise is shared by the periods, so that a comparison needs all of their draws",
    "bounds": "bound the rows of a unit in the table, with `truncate: first` or `last`",
    "round": "leave it out: rounded periods would not add up to their sums",
}


def kind_of_period(period: str) -> Per | None:
    """Which kind of the calendar a period is of; None: of none."""
    return next((kind for kind in get_args(Per) if is_a(kind, period)), None)


def skipped_by(spec: ReleaseSpec, series: SeriesSpec) -> frozenset[str]:
    """The periods that a series skips: its own, and those that the schedule leaves out."""
    return frozenset((*series.skip, *(() if spec.schedule is None else spec.schedule.skip)))


def band_of(series: SeriesSpec, year: int) -> Band:
    """The band that a series is drawn with, by what is written of it.

    Args:
        series: As written.
        year: How many periods a year has.
    """
    aim = Aim.of(series.minimize, series.sums, year, series.horizon)
    return best_band(aim, series.periods_read(year))


def check_series(spec: ReleaseSpec, name: str, query: QuerySpec, table: TableSpec | None, findings: Findings) -> None:
    """One query with `series`: what stands beside it, its measures, periods, unit, noise and rows.

    Args:
        spec: Has the period, the unit and the noise.
        name: The name of the query.
        query: With a series.
        table: Its table; None where there is none of that name.
        findings: Where problems go.
    """
    series, at = query.series, ("queries", name)
    assert series is not None  # noqa: S101 - asked for by the caller
    here = (*at, "series")
    for field, hint in _BESIDE.items():
        if getattr(query, field):
            findings.add("DPR-S762", (*at, field.rstrip("_")), "stands beside `series`", hint, here)
    _check_whole_release(spec, name, here, findings)
    if query.top_k is not None:
        return  # the rest is meant for one of the two
    _check_combined(spec, query, at, findings)
    _check_measures(query, at, findings)
    check_gaussian(spec, here, "DPR-S764", "a query without `series`", findings)
    kind = _check_periods(spec, series, here, findings)
    if kind is not None:
        _check_unit(spec, series, kind, here, findings)
    if table is not None:
        _check_rows(query.table, table, here, findings)
    _check_names(query, series, at, findings)


def _check_combined(spec: ReleaseSpec, query: QuerySpec, at: Path, findings: Findings) -> None:
    """What does not go with draws of a workload."""
    here: Path = (*at, "series")
    if query.marginals is None:
        return
    if set(spec.postprocess or ("consistent",)) != {"consistent"}:
        says = (
            "does more than make tables consistent, and what is made whole or non-negative does not add up over periods"
        )
        findings.add("DPR-S762", ("postprocess",), says, "write `postprocess: [consistent]`", here)
    if spec.invariants:
        says = "stand beside `series` and `marginals`, whose tables would follow from them in some periods only"
        findings.add("DPR-S762", ("invariants",), says, "leave one of the two out", here)


def _check_names(query: QuerySpec, series: SeriesSpec, at: Path, findings: Findings) -> None:
    """Sums are told apart from all other columns; capitals do not tell names apart."""
    taken = {name.lower() for name in (*query.by, *(query.marginals.attributes if query.marginals else ()))}
    for label in query.measures:
        taken |= {f"{label}{end}".lower() for end in ("", "_se", "_margin", "_lower", "_upper", "_status")}
    for label in query.measures:
        for which in series.sums:
            name = sum_name(label, which)
            if name.lower() in taken:
                says = f"publishes a column {shown(name)!r}, which the table has already"
                findings.add("DPR-S768", (*at, "series"), says, "rename the other one", (*at, "measures"))


def _check_whole_release(spec: ReleaseSpec, name: str, here: Path, findings: Findings) -> None:
    """What of the whole release does not go with a series."""
    if any(each.query == name for each in spec.invariants):
        hint = "leave one of the two out: exact numbers have no noise to share"
        findings.add("DPR-S762", here, "is of numbers that are published exactly", hint, ("invariants",))
    if spec.schedule is not None and spec.schedule.catch_up != "one_by_one":
        says = f"needs every period in its order, and the schedule says `catch_up: {spec.schedule.catch_up}`"
        hint = "write `catch_up: one_by_one`; a period whose rows are lost goes under `skip`"
        findings.add("DPR-S772", here, says, hint, ("schedule", "catch_up"))
    if spec.schedule is not None and spec.schedule.revisions:
        hint = "write the product of revised periods as a query without `series`, in a spec of its own"
        says = "stands beside planned revisions, which draw a period again that sums have already used"
        findings.add("DPR-S762", here, says, hint, ("schedule", "revisions"))


def _check_measures(query: QuerySpec, at: Path, findings: Findings) -> None:
    for label, measure in query.measures.items():
        here = (*at, "measures", label)
        if measure.kind not in SERIES_KINDS:
            says = f"is a {measure.kind}, of which no series is made: it is no number that sums of periods have"
            findings.add(
                "DPR-S763",
                here,
                says,
                "write counts, and sums and means with a `clip`, or ratios of them; the rest in another query",
                key=True,
            )
        elif measure.kind == "ratio" and (of := _no_sums(query, measure)):
            says = f"is a ratio of {shown(of)!r}, and in a series both are counts or sums"
            findings.add("DPR-S763", (*here, "ratio"), says, "write the two counts or sums that it is made of")
        elif getattr(measure, "chosen_clip", None) is not None:
            says = "has a clip that noise chooses, and that of a series is the same in all periods"
            findings.add("DPR-S763", (*here, "clip"), says, "write a clip of two numbers, such as one that was chosen")


def _no_sums(query: QuerySpec, ratio: Measure) -> str:
    """The first of a ratio's measures that is neither a count nor a sum; empty: both are, or are not there at all."""
    kinds = {label: each.kind for label, each in query.measures.items()}
    return next((each for each in ratio.others if kinds.get(each, "count") not in ("count", "sum")), "")


def _check_periods(spec: ReleaseSpec, series: SeriesSpec, here: Path, findings: Findings) -> Per | None:
    """The kind of the periods, where everything about them is right."""
    period = spec.release.period
    kind = kind_of_period(period)
    if kind is None:
        hint = f"write `period: {EXAMPLES['month']}` under `release`, or another period of the calendar"
        says = f"is about periods of the calendar, and the release's is {shown(period)!r}"
        findings.add("DPR-S765", here, says, hint, ("release", "period"))
        return None
    first, own = span(series.from_), span(period)
    if kind_of_period(series.from_) != kind or first is None or own is None:
        says = f"is {shown(series.from_)!r}, and the release is about a {kind}: {shown(period)!r}"
        findings.add(
            "DPR-S765", (*here, "from"), says, f"write a {kind}, such as {EXAMPLES[kind]}", ("release", "period")
        )
        return None
    if first > own:
        says = f"is {shown(series.from_)!r}, after the period of the release: {shown(period)!r}"
        findings.add("DPR-S765", (*here, "from"), says, "write the first period of the series", ("release", "period"))
        return None
    if not _check_skipped(spec, series, kind, here, findings):
        return None
    if series.horizon is not None and len(periods(series.from_, kind, own[0])) > series.horizon:
        says = f"is {series.horizon}, and {shown(period)} is a later period than that"
        hint = "begin a new series with this period: its band and its noise were made for so many"
        findings.add("DPR-S773", (*here, "horizon"), says, hint, (*here, "from"))
        return None
    if "ytd" in series.sums and kind not in PERIODS_OF_A_YEAR:
        says = f"has `ytd`, and a year is no whole number of {kind}s"
        findings.add("DPR-S765", (*here, "sums"), says, "write numbers of periods", ("release", "period"))
        return None
    if series.look_back is not None and series.look_back > MOST_PERIODS:
        hint = f"write {MOST_PERIODS} or less; 12 are enough for every sum of months"
        findings.add("DPR-S760", (*here, "look_back"), f"is more than {MOST_PERIODS} periods", hint)
        return None
    return kind


def _check_skipped(spec: ReleaseSpec, series: SeriesSpec, kind: Per, here: Path, findings: Findings) -> bool:
    """Periods that are skipped are periods of the series, behind the first one; others than the release's own."""
    for number, each in enumerate(series.skip):
        if kind_of_period(each) != kind or (span(each) or ()) < (span(series.from_) or ()):
            says = f"is {shown(each)!r}, no {kind} since {shown(series.from_)}"
            findings.add("DPR-S770", (*here, "skip", number), says, f"write {kind}s of the series, or leave it out")
            return False
    for each, says in ((spec.release.period, "the release's own period"), (series.from_, "the first period")):
        if each in skipped_by(spec, series):
            hint = "release another period" if each != series.from_ else "begin the series with the period after it"
            at: Path = (*here, "skip") if each in series.skip else ("schedule", "skip")
            findings.add("DPR-S771", at, f"has {shown(each)!r}, {says}", hint, (*here, "from"))
            return False
    return True


def _check_unit(spec: ReleaseSpec, series: SeriesSpec, kind: Per, here: Path, findings: Findings) -> None:
    """A unit has rows in one period; where it may have rows in all of them the message says what that would cost."""
    unit = spec.privacy.unit
    if unit.per == kind or (unit.per is None and unit.entity == "row"):
        return
    year = PERIODS_OF_A_YEAR.get(kind, max(2, *(each for each in _numbers(series.sums))))
    cost = float(band_of(series, PERIODS_OF_A_YEAR.get(kind, year)).over(year))
    says = (
        f"is for units of one {kind}, and one {unit} may have rows in many: whoever has rows in {year} in a row would "
        f"lose {cost:.1f} times what one {kind} costs, and with independent noise {year} times"
    )
    hint = f"write `unit: {{entity: {unit.entity}, per: {kind}}}` where that is who is protected; or leave `series` out"
    findings.add("DPR-S766", here, says, hint, ("privacy", "unit"))


def _numbers(sums: tuple[SumOf, ...]) -> tuple[int, ...]:
    return tuple(each for each in sums if isinstance(each, int)) or (2,)


def _check_rows(name: str, table: TableSpec, here: Path, findings: Findings) -> None:
    """Rows of every period can be found again, and are the same whenever they are read."""
    at: Path = ("tables", name)
    if table.time is None:
        hint = "write `time: {column: COLUMN, type: date}`: a recorded date, which never changes"
        says = "needs a `time` of the table's rows, by which those of earlier periods are read again"
        findings.add("DPR-S767", here, says, hint, at)
    if any(join.table is not None for join in table.join):
        hint = "join the columns before, in the data"
        findings.add("DPR-S767", here, "is of a table with confidential joins, of which none is made yet", hint, at)
    if table.unit_id is not None and table.bounds is not None and table.bounds.truncate == "sample":
        hint = "write `truncate: first` or `last` with `order_by`, so that the same rows stay whenever they are read"
        says = "is of a table of which another sample of a unit's rows would stay at every reading"
        findings.add("DPR-S767", here, says, hint, (*at, "bounds"))
