"""What is allowed, and hardly ever meant: a part that was forgotten, or two that do not go together. Warnings alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction

from dprelease.measures import Measure
from dprelease.measures.text import exact_text
from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import shown
from dprelease.spec.text.nodes import Path

__all__ = ["warn_of_clip", "warn_of_forgotten", "warn_of_labels"]

# At it a release that shows each of a hundred thousand people with probability delta, and else nothing, is expected
# to show one, and keeps within any (epsilon, delta) (Dwork and Roth 2014, section 2.3).
_LARGE_DELTA = Fraction(1, 100_000)


def warn_of_forgotten(spec: ReleaseSpec, findings: Findings) -> None:
    """A period and a delta that nobody wrote, and a delta that promises next to nothing."""
    if "period" not in spec.release.model_fields_set and spec.schedule is None:
        hint = "write `period: 2024`, or 2024-Q1, 2024-03, 2024-03-07; or `period: once`, if there is only one"
        findings.add("DPR-W123", ("release",), "has no `period`: it is released once, and never for another one", hint)
    budget = spec.privacy.budget
    if budget.delta == 0 and not findings.places.has("privacy", "budget", "delta"):
        says = "has no `delta`: only noise that needs none is planned; `plan` says what accounts are charged for it"
        hint = "write `delta: 1e-9`, far less than one over the number of people; or `delta: 0`, if that is meant"
        findings.add("DPR-W124", ("privacy", "budget"), says, hint)
    elif budget.delta > _LARGE_DELTA:
        says = f"is {exact_text(budget.delta)}: to show each person's rows with this probability would keep the promise"
        hint = "write one far below one over the number of people, such as `delta: 1e-9`"
        findings.add("DPR-W127", ("privacy", "budget", "delta"), says, hint)


def warn_of_labels(spec: ReleaseSpec, findings: Findings) -> None:
    """Two keys of a column that a reader could not tell apart."""
    for table, described in spec.tables.items():
        for name, column in described.columns.items():
            keys = defaultdict(list)
            written = column.labels if isinstance(column.labels, Mapping) else {}
            for key, told in written.items():
                for label in {told} if isinstance(told, str) else set(told.values()):
                    keys[label].append(key)
            for label, same in keys.items():
                if len(same) > 1:
                    at = ("tables", table, "columns", name, "labels")
                    says = f"gives the keys {' and '.join(same)} one label: {shown(label)!r}"
                    hint = "give each its own; or make one key of them: `{map: COLUMN, to: {...}}`"
                    findings.add("DPR-W125", at, says, hint)


def warn_of_clip(spec: ReleaseSpec, table: str, measure: Measure, at: Path, findings: Findings) -> None:
    """A clip of single values that reaches beyond the range of their column: noise for what cannot be there."""
    column = spec.tables[table].columns.get(measure.column or "")
    if column is None or column.range is None or measure.limits is None:
        return
    per_unit = getattr(measure, "clip_per", None) == "unit_cell"
    low, high = column.range
    if per_unit or (low <= measure.limits[0] and measure.limits[1] <= high):
        return
    says = f"reaches beyond the range of {measure.column}: noise for values that no row can have"
    findings.add("DPR-W126", (*at, "clip"), says, "write a clip within it, or leave it out: it is then the range")
