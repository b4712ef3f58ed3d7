"""The rules of measures: columns that have what is asked of them, limits that can be kept, names that do not clash."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from dprelease.catalog.chosen_clip import LARGEST_TOP, ChosenClip
from dprelease.measures import MEASURES, Measure
from dprelease.spec.checks.budget import check_gaussian
from dprelease.spec.checks.columns import FINEST, NUMBERS, check_grid, step_is_sound
from dprelease.spec.checks.units import may_repeat
from dprelease.spec.expressions import check_where, types_of
from dprelease.spec.fields.document import ColumnSpec, QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.steps import Grid, MeasuredLimits, grid_of
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import COLUMN_NAME, NAME_RULE, did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_chosen_clips", "check_counted", "check_measures", "check_published_names"]

_REHEARSAL = "rehearsal"  # the column that marks a table of a rehearsal
# What a ratio can be of: what has a margin of its own in every cell.
_PARTS = [kind for kind, each in MEASURES.items() if each.foreseen == "always"]

# What stands in the same query, to what can be done instead; all else may stand there.
_BESIDE: Mapping[str, str] = {
    "keys": "list the keys, or write a clip of two numbers: the rows above the clip are counted in public cells",
    "totals": "write the totals as a query of its own, or a clip of two numbers, such as one that a release has chosen",
    "target": "leave the target out, or write a clip of two numbers: the margin grows with the clip that noise chooses",
}


def check_measures(
    query: QuerySpec, table: TableSpec | None, limits: Mapping[str, MeasuredLimits], at: Path, findings: Findings
) -> None:
    """Every measure of one query, and that their names do not clash.

    Args:
        query: As written.
        table: Its table; None where there is none of that name.
        limits: What is made of the table's columns, in all queries.
        at: The path of the query.
        findings: Where problems go.
    """
    types = types_of(table.columns) if table is not None else {}
    for label, measure in query.measures.items():
        here = (*at, "measures", label)
        if not COLUMN_NAME.fullmatch(label):
            findings.add("DPR-S502", here, "is no name", NAME_RULE, key=True)
        if measure.others:
            _check_others(query, label, measure, here, findings)
        elif table is not None:
            _check_measure(query, table, limits, measure, here, findings)
        for flaw in measure.flaws(types):
            findings.add(flaw.code, (*here, *flaw.at), flaw.says, flaw.hint)
    check_published_names(query, query.by, at, findings)


def _check_measure(
    query: QuerySpec,
    table: TableSpec,
    limits: Mapping[str, MeasuredLimits],
    measure: Measure,
    at: Path,
    findings: Findings,
) -> None:
    columns = ("tables", query.table, "columns")
    if measure.where is not None:
        check_where(measure.where, types_of(table.columns), (*at, "where"), findings, columns)
    if measure.lacks_clip_per and may_repeat(query, table):
        of_table = ("tables", query.table)
        hint = "write `clip_per: row`, or `clip_per: unit_cell` to clip the sum of a unit's rows in a cell"
        says = "does not say what is clipped, and one unit may have several rows in a cell"
        findings.add("DPR-S556", at, says, hint, (*of_table, "unit_id"), (*of_table, "bounds"), (*at[:2], "bounds"))
    name = measure.column
    if name is None:
        return
    about, column = (*columns, name), table.columns.get(name)
    if column is None:
        near = did_you_mean(name, [*table.columns, *measure.words])
        says = f"is no column of table {query.table!r}: {shown(name)!r}"
        findings.add("DPR-S504", (*at, measure.kind), says, near, about)
    elif measure.grid_kind is not None:
        _check_ranged(measure, name, column, grid_of(table, name, limits), at, findings, about)


def _check_ranged(
    measure: Measure, name: str, column: ColumnSpec, grid: Grid | None, at: Path, findings: Findings, about: Path
) -> None:
    """A number with a range, and a clip on its grid."""
    kind = measure.kind
    if column.type not in NUMBERS:
        says = f"needs a number, and {shown(name)!r} is {column.type}"
        findings.add("DPR-S507", (*at, kind), says, "count it, or take an integer or decimal column", about)
    elif column.range is None:
        says = f"needs a range, and {shown(name)!r} has none"
        hint = f"declare `range: [low, high]` of {shown(name)}: public limits, never read from the data"
        findings.add("DPR-S508", (*at, kind), says, hint, about)
    step = None if grid is None else grid.ranks if measure.grid_kind == "quantile" else grid.step
    if step is None or not step_is_sound(column, step):
        return
    if measure.limits is not None:
        check_grid(measure.limits, step, (*at, "clip"), ("DPR-S512", "DPR-S513"), findings, about)
    limits = measure.limits or column.range
    if limits is None or limits[0] >= limits[1]:
        return
    low, high = (limit / step for limit in limits)
    if max(low.denominator, high.denominator) > 1 or max(abs(low), abs(high)) > FINEST:
        return  # told already
    where, widest = (*at, "clip") if measure.limits is not None else (*at, kind), measure.widest
    if widest is not None and high - low > widest.steps:
        needed = _power_from((limits[1] - limits[0]) / widest.steps)
        hint = f"give {shown(name)} a coarser step, such as `step: {needed}`, or narrow the `clip`"
        findings.add(widest.code, where, widest.says.format(repr(shown(name))), hint, about)


def _power_from(needed: Fraction) -> str:
    """The smallest power of ten that is at least this.

    >>> _power_from(Fraction(1)), _power_from(Fraction(3, 2)), _power_from(Fraction(1, 10_000))
    ('1', '10', '0.0001')
    """
    power = next(power for power in range(-400, 400) if Fraction(10) ** power >= needed)
    return f"{Decimal(1).scaleb(power):f}"


def _check_others(query: QuerySpec, label: str, measure: Measure, at: Path, findings: Findings) -> None:
    """It is made of other measures of the query, each with an error of its own that is known."""
    for number, name in enumerate(measure.others):
        here, about = (*at, measure.kind, number), (*at[:-1], name)
        if name == label:
            hint = f"name a count or a sum; {did_you_mean('', _fit(query))}"
            findings.add("DPR-S582", here, f"is the {measure.kind} itself", hint)
        elif name not in query.measures:
            says, hint = f"is no measure of this query: {shown(name)!r}", did_you_mean(name, _fit(query))
            findings.add("DPR-S582", here, says, hint, about)
        elif query.measures[name].of_answers is not None:
            says = f"is an estimate from randomized answers, of which no law of quotients is known: {shown(name)!r}"
            findings.add("DPR-S259", here, says, "write `show: share` in it, which is its part of all answers", about)
        elif query.measures[name].kind not in _PARTS:
            says = f"is a {query.measures[name].kind}: {shown(name)!r}"
            hint = f"take a {', a '.join(_PARTS[:-1])} or a {_PARTS[-1]} of this query"
            findings.add("DPR-S582", here, says, hint, about)
        elif name in measure.others[:number]:
            says = f"is the same measure as the first: {shown(name)!r}"
            findings.add("DPR-S582", here, says, "name two different measures of this query")


def _fit(query: QuerySpec) -> list[str]:
    """The measures of a query that another one can be made of."""
    return [name for name, measure in query.measures.items() if measure.kind in _PARTS]


def check_published_names(query: QuerySpec, keys: tuple[str, ...], at: Path, findings: Findings) -> None:
    """A number m is published as m, m_se, m_margin, m_lower, m_upper and m_status; capitals do not tell names apart."""
    taken = {column.lower(): f"key column {column}" for column in keys} | {_REHEARSAL: "mark of rehearsals"}
    for label, measure in query.measures.items():
        roots = measure.published(label)
        ends = ("", "_se", "_margin", "_lower", "_upper", "_status")
        names = list(dict.fromkeys(f"{root}{end}" for root in roots for end in ends))
        clash = next((name for name in names if name.lower() in taken), None)
        if clash is not None:
            says = f"publishes a column {shown(clash)!r}, which is the name of the {shown(taken[clash.lower()])}"
            findings.add(
                "DPR-S523",
                (*at, "measures", label),
                says,
                "rename the measure",
                (*at, "by"),
                (*at, "marginals"),
                key=True,
            )
        taken |= {name.lower(): f"column {name}" for name in names}


def check_counted(spec: ReleaseSpec, query: QuerySpec, at: Path, findings: Findings) -> None:
    """Whether the measures of one query that ask for counts along a grid can have them.

    Args:
        spec: Has the noise and the budget.
        query: As written.
        at: The path of the query.
        findings: Where problems go.
    """
    for label, measure in query.measures.items():
        if not measure.gaussian:
            continue
        here = (*at, "measures", label, "from")
        check_gaussian(spec, here, "DPR-S589", "`from: ranks`, a draw for each rank", findings)
        if query.keys == "private":
            says, hint = "draws counts in every cell, and the keys of this query are private", "write `from: ranks`"
            findings.add("DPR-S589", here, says, hint, (*at, "keys"))


def check_chosen_clips(
    query: QuerySpec, table: TableSpec, limits: Mapping[str, MeasuredLimits], at: Path, findings: Findings
) -> None:
    """The measures of one query whose clips noise chooses.

    Args:
        query: As written.
        table: Its table.
        limits: What is made of the table's columns, in all queries.
        at: The path of the query.
        findings: Where problems go.
    """
    chosen = {
        label: clip
        for label, each in query.measures.items()
        if isinstance(clip := getattr(each, "clip", None), ChosenClip)
    }
    if not chosen:
        return
    first = next(iter(chosen))
    for field, hint in _BESIDE.items():
        if getattr(query, field):
            findings.add(
                "DPR-S458", (*at, field), "stands beside a clip that noise chooses", hint, (*at, "measures", first)
            )
    clips = {(query.measures[label].column, query.measures[label].where): clip for label, clip in chosen.items()}
    for label, clip in chosen.items():
        here, measure = (*at, "measures", label), query.measures[label]
        if clip != clips[measure.column, measure.where]:
            hint = "write the same clip twice: it is drawn once; or write two queries"
            findings.add("DPR-S459", (*here, "clip"), "differs from another clip of the same column", hint)
        if table.weight is not None and measure.weighted is None:
            hint = "write `weighted: false`, or a clip of two numbers"
            findings.add("DPR-S455", (*here, "clip"), "is of weighted rows, and noise chooses clips of rows", hint)
        grid = grid_of(table, measure.column, limits) if measure.column in table.columns else None
        if grid is not None and clip.within[1] / grid.step > LARGEST_TOP:
            says = f"has more than 2^40 steps of {shown(measure.column or '')!r}"
            findings.add("DPR-S460", (*here, "clip"), says, "give the column a coarser `step`")
    for label, measure in query.measures.items():
        named = next((name for name in measure.others if name in chosen), None)
        if named is not None:
            says = f"is made of {shown(named)!r}, whose clip noise chooses"
            hint = "divide the published numbers, or write a clip of two numbers"
            findings.add("DPR-S461", (*at, "measures", label), says, hint, (*at, "measures", named))
