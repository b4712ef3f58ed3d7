"""What a spec may say, and what its author should know about it before the budget is spent."""

from __future__ import annotations

from dprelease.errors import Problem
from dprelease.measures import Measure
from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.steps import COARSE
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.nodes import Path, Places
from dprelease.spec.text.prune import Hidden

__all__ = ["warnings_of"]


def warnings_of(spec: ReleaseSpec, places: Places) -> list[Problem]:
    """Every warning of a spec that was loaded without a problem; none of them stops anything.

    Args:
        spec: As written.
        places: Where its parts are.
    """
    findings = Findings(places, Hidden())
    for name, query in spec.queries.items():
        for label, measure in query.measures.items():
            here = ("queries", name, "measures", label)
            for flaw in measure.warnings():
                findings.add(flaw.code, (*here, *flaw.at), flaw.says, flaw.hint)
            _check_step(spec, query.table, measure, here, findings)
    return findings.problems


def _check_step(spec: ReleaseSpec, table: str, measure: Measure, at: Path, findings: Findings) -> None:
    """A written step that moves values by more than a reader would take for nothing."""
    name = measure.column
    if measure.grid_kind is None or name is None:
        return
    column = spec.tables[table].columns[name]
    limits = measure.limits or column.range
    if limits is None or column.step is None or (column.type == "integer" and column.step == 1):
        return
    share = column.step / (limits[1] - limits[0])
    if share > COARSE:
        says = f"rounds {name} to a `step` that is {float(share) * 100:.3g} % of its clip, before anything else"
        hint = "write a finer `step` at the column, or leave it out: it is then as fine as costs nothing"
        findings.add("DPR-W121", at, says, hint)
