"""When two plans ask the same, and which of several publications of the same question a plan is of.

One question about one state of the data is answered once. A replacement by the same question, because the data were
wrong, is another publication: it has a number, so that its plan has another fingerprint, and its draws are its own.
"""

from __future__ import annotations

from fractions import Fraction

from dprelease.canonical import Value, fingerprint
from dprelease.plan.document import ReleaseInfo, ReleasePlan

__all__ = ["asked", "question", "restated"]


def asked(plan: ReleasePlan) -> ReleasePlan:
    """The plan as the spec asks for it: of the first publication, and of the first time that it was asked."""
    return restated(plan.at_revision(0), 0)


def restated(plan: ReleasePlan, number: int) -> ReleasePlan:
    """The plan of a publication that replaces earlier ones of the same question; all else is the same.

    Args:
        plan: As the spec asks for it.
        number: How many publications of the same question there were before; 0: this is the first one.
    """
    release = {**plan.release.model_dump(), "restatement": number}
    return plan.model_copy(update={"release": ReleaseInfo(**release)})


def question(plan: ReleasePlan) -> str:
    """A fingerprint of what is measured: which numbers, of which rows, with which noise, for how many publications.

    Not of words, looks, names and order of queries, of what is made of the measurements, of where the files are, of
    what accounts may spend, nor of the budget, as far as none of them moves a draw.
    """
    used = {each.aggregate.table for each in plan.measured}
    used |= {join.table for name in used for join in plan.catalog.tables[name].private_joins}
    tables = {
        name: table.model_copy(
            update={
                "source": table.source.without_place(),
                "columns": tuple(
                    column.model_copy(update={"labels": {}, "partition": False}) for column in table.columns
                ),
            }
        )
        for name, table in plan.catalog.tables.items()
        if name in used
    }
    references = {name: each.model_copy(update={"file": ""}) for name, each in plan.catalog.references.items()}
    unnamed: dict[str, object] = {"id": "", "answers": ()}
    steps = [_text(step.model_copy(update={**unnamed, "share": Fraction(1)})) for step in plan.steps]
    exact = [
        _text(each.model_copy(update={"id": "", "query": "", "measure": "", "why": ""})) for each in plan.invariants
    ]
    catalog = plan.catalog.model_copy(update={"tables": tables, "references": references, "names": None})
    return fingerprint(
        {
            "catalog": _text(catalog),
            "exact": sorted(exact),
            "neighboring": str(plan.neighboring),
            "release": [plan.release.name, plan.release.period, plan.release.revisions],
            "steps": sorted(steps),
            "unit": _text(plan.unit),
        }
    )


def _text(value: Value) -> str:
    return value.canonical()
