"""How a release is shown, apart from what was measured: it may change afterwards, and costs nothing.

Titles, labels, formats, the confidence of the margins, how unreliable numbers are shown, what the office states, and
tables derived from published ones are arithmetic on what was measured (post-processing: Dwork and Roth 2014,
Proposition 2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dprelease.canonical import GrownValue
from dprelease.catalog.boundaries import Geography
from dprelease.catalog.names import Names
from dprelease.catalog.table import Column
from dprelease.errors import PlanError
from dprelease.plan.document import Derived, Output, Publish, ReleaseInfo, ReleasePlan
from dprelease.spec.fields.published.office import Office

__all__ = ["Presentation", "presentation", "presented"]


class Presentation(GrownValue):
    """What a release looks like.

    Attributes:
        release: Title, curator, contact and use; name and period are those of the plan.
        publish: Formats, confidence, and how unreliable numbers are shown.
        titles: The titles of each query; those of workloads are not in older ones.
        labels: The labels of the keys of each column of each table.
        derive: The tables that SQL makes of the published ones.
        outputs: The accuracy that the plan promises, at the confidence of ``publish``.
        office: What the office states of the release; advice and signatures often come after it was measured.
        names: What people are shown in the place of names, and in which languages.
        geography: What maps are drawn of.
    """

    LATER: ClassVar[tuple[str, ...]] = ("office", "names", "geography")

    release: ReleaseInfo
    publish: Publish
    titles: dict[str, str]
    labels: dict[str, dict[str, dict[str, str]]]
    derive: tuple[Derived, ...]
    outputs: tuple[Output, ...]
    office: Office | None = None
    names: Names | None = None
    geography: tuple[Geography, ...] = ()

    @classmethod
    def of(cls, plan: ReleasePlan) -> Presentation:
        """The one that a plan has."""
        return cls(
            release=plan.release,
            publish=plan.publish,
            titles={query.name: query.title for query in plan.queries}
            | {workload.name: workload.title for workload in plan.workloads},
            labels={
                name: {column.name: dict(column.labels) for column in table.columns}
                for name, table in plan.catalog.tables.items()
            },
            derive=plan.derive,
            outputs=plan.outputs,
            office=plan.office,
            names=plan.catalog.names,
            geography=plan.geography,
        )


def presented(plan: ReleasePlan, shown: Presentation) -> ReleasePlan:
    """The plan as it is shown; what is measured, and at what cost, stays as it is."""

    def labelled(table: str, column: Column) -> Column:
        return column.model_copy(update={"labels": shown.labels.get(table, {}).get(column.name, {})})

    tables = {
        name: table.model_copy(update={"columns": tuple(labelled(name, column) for column in table.columns)})
        for name, table in plan.catalog.tables.items()
    }
    release = plan.release
    identity = {name: getattr(release, name) for name in ("name", "period", "revision", "restatement")}
    queries = [query.model_copy(update={"title": shown.titles.get(query.name, query.title)}) for query in plan.queries]
    workloads = [each.model_copy(update={"title": shown.titles.get(each.name, each.title)}) for each in plan.workloads]
    changes = {
        "release": shown.release.model_copy(update=identity),
        "publish": shown.publish,
        "queries": tuple(queries),
        "workloads": tuple(workloads),
        "catalog": plan.catalog.model_copy(update={"tables": tables, "names": shown.names}),
        "derive": shown.derive,
        "outputs": shown.outputs,
        "office": shown.office,
        "geography": shown.geography,
    }
    return plan.model_copy(update=changes)


def presentation(plan: ReleasePlan, wanted: ReleasePlan) -> Presentation:
    """What a newer spec wants shown of a release that was measured.

    Args:
        plan: That was measured.
        wanted: What the newer spec would measure.

    Raises:
        PlanError: If the newer spec asks for more than another look (DPR-P170); names what.
    """
    if wanted.release.revisions == plan.release.revisions:
        wanted = wanted.at_revision(plan.release.revision)
    found = Presentation.of(wanted)
    moved = list(_moved(presented(plan, found), wanted))
    if moved:
        raise PlanError(
            f"{plan.release.name}/{plan.release.period} was measured by another spec: {', '.join(moved)} differ",
            detail="titles, labels, formats, confidence, `unreliable`, `office` and `derive` may change after the "
            "measurement",
            hint="change nothing else, or release anew: `dprelease run SPEC --restate REASON`",
            code="DPR-P170",
        )
    return found


def _moved(shown: ReleasePlan, wanted: ReleasePlan) -> Iterator[str]:
    """The parts of two plans that differ, but for what is said of other plans beside them."""
    free = {"spec_fingerprint", "considered", "naive", "format"}
    for name in sorted(type(shown).model_fields.keys() - free):
        if getattr(shown, name) != getattr(wanted, name):
            yield name
