"""The rules of numbers that are made of noisy counts along a grid: Gaussian noise, and cells that are public."""

from __future__ import annotations

from dprelease.spec.checks.workloads import check_gaussian
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.nodes import Path

__all__ = ["check_counted"]


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
