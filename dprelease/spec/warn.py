"""What a spec may say, and what its author should know about it before the budget is spent."""

from __future__ import annotations

from collections.abc import Iterator

from dprelease.errors import Problem
from dprelease.measures import Measure
from dprelease.measures.quantile import Max, Min, Quantiles
from dprelease.spec.document import ReleaseSpec
from dprelease.spec.findings import Findings
from dprelease.spec.nodes import Path, Places
from dprelease.spec.prune import Hidden

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
    return findings.problems


def _extremes(at: Path, measure: Measure) -> Iterator[Path]:
    if isinstance(measure, Min | Max):
        yield (*at, "min" if isinstance(measure, Min) else "max")
    elif isinstance(measure, Quantiles):
        yield from ((*at, "at", number) for number, rank in enumerate(measure.at) if rank in (0, 1))
