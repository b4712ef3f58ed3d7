"""What a spec may say, and what its author should know about it before the budget is spent."""

from __future__ import annotations

from collections.abc import Iterator

from dprelease.errors import Problem
from dprelease.measures import Measure, kind_of
from dprelease.measures.base import Ranged
from dprelease.measures.quantile import Max, Min, Quantiles
from dprelease.spec.document import ReleaseSpec
from dprelease.spec.findings import Findings
from dprelease.spec.nodes import Path, Places
from dprelease.spec.prune import Hidden
from dprelease.spec.steps import COARSE

__all__ = ["warnings_of"]


def warnings_of(spec: ReleaseSpec, places: Places) -> list[Problem]:
    """Every warning of a spec that was loaded without a problem; none of them stops anything.

    The least and the largest value of a cell hang on one unit, which is what noise hides: no number below the least
    value has a row below it, so that all of them are equally likely, from the end of the clip to that value.

    Args:
        spec: As written.
        places: Where its parts are.
    """
    findings = Findings(places, Hidden())
    for name, query in spec.queries.items():
        for label, measure in query.measures.items():
            for at in _extremes(("queries", name, "measures", label), measure):
                says = "is an extreme: it falls anywhere between the end of the clip and the extreme value"
                hint = "ask for quantiles such as 0.01 and 0.99, and give a clip that is not much wider than the values"
                findings.add("DPR-S701", at, says, hint)
            _check_step(spec, query.table, measure, ("queries", name, "measures", label), findings)
    return findings.problems


def _check_step(spec: ReleaseSpec, table: str, measure: Measure, at: Path, findings: Findings) -> None:
    """A written step that moves values by more than a reader would take for nothing."""
    if not isinstance(measure, Ranged):
        return
    name = str(getattr(measure, kind_of(measure)))
    column = spec.tables[table].columns[name]
    limits = measure.clip if measure.clip is not None else column.range
    if limits is None or column.step is None or (column.type == "integer" and column.step == 1):
        return
    share = column.step / (limits[1] - limits[0])
    if share > COARSE:
        says = f"rounds {name} to a `step` that is {float(share) * 100:.3g} % of its clip, before anything else"
        hint = "write a finer `step` at the column, or leave it out: it is then as fine as costs nothing"
        findings.add("DPR-W121", at, says, hint)


def _extremes(at: Path, measure: Measure) -> Iterator[Path]:
    if isinstance(measure, Min | Max):
        yield (*at, "min" if isinstance(measure, Min) else "max")
    elif isinstance(measure, Quantiles):
        yield from ((*at, "at", number) for number, rank in enumerate(measure.at) if rank in (0, 1))
