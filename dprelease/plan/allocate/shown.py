"""From a spec to what a plan says of how its release is shown: names, formats, rules for figures."""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.formats import CERTIFICATE, FormatName
from dprelease.plan.allocate.figures import planned_figures, unreliable_above
from dprelease.plan.document import (
    CatalogueEntry,
    Derived,
    EarlierTable,
    KeyFigure,
    Output,
    PlannedQuery,
    Publish,
    ReleaseInfo,
)
from dprelease.plan.resolve.next_release import next_release
from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.fields.published.catalogued import ENTRY
from dprelease.spec.fields.published.told import first_said

__all__ = ["derived_as", "publish_as", "release_info"]

_MANY = 40  # queries, but for those of a workload: what more of them publish shares files


def release_info(spec: ReleaseSpec) -> ReleaseInfo:
    """What is released, and what catalogues are told of it."""
    head = spec.release
    return ReleaseInfo(
        name=head.name,
        period=head.period,
        title=first_said(head.title, head.languages),
        curator=head.curator,
        contact=head.contact,
        intended_use=head.intended_use,
        next=next_release(spec),
        revisions=spec.revisions,
        entry=_entry(spec),
    )


def derived_as(spec: ReleaseSpec, name: str) -> Derived:
    """A table that SQL makes of the published ones."""
    written = spec.derive[name]
    title = first_said(written.title, spec.release.languages)
    earlier = {alias: EarlierTable(query=each.query, period=each.period) for alias, each in written.earlier.items()}
    return Derived(name=name, title=title, sql=written.sql, earlier=earlier)


def publish_as(spec: ReleaseSpec, queries: Sequence[PlannedQuery], told: Sequence[Output]) -> Publish:
    """How the tables are written, judged and shown."""
    unreliable = spec.publish.unreliable
    many = sum(query.workload is None for query in queries) > _MANY
    return Publish(
        formats=_formats(spec),
        confidence=spec.publish.confidence,
        unreliable_above=unreliable_above(spec),
        unreliable_show=unreliable.show if unreliable else "flag",
        intervals="nearest",
        quotients="with_spreads",
        layout=3 if many else 2,
        csv_formulas=spec.publish.csv_formulas,
        figures=planned_figures(spec, queries, told),
        period_column=spec.publish.period_column,
        across=dict(spec.publish.across),
        interactive=spec.publish.interactive,
        key_figures=tuple(
            KeyFigure(table=each.table, measure=each.measure, keys=dict(each.keys)) for each in spec.publish.key_figures
        ),
        research=1,
    )


def _formats(spec: ReleaseSpec) -> tuple[FormatName, ...]:
    """The formats that are asked for, and the certificate where nobody switches it off."""
    named = tuple(spec.publish.formats)
    return (*named, CERTIFICATE) if spec.publish.certificate and CERTIFICATE not in named else named


def _entry(spec: ReleaseSpec) -> CatalogueEntry | None:
    """What catalogues are told of the release; None where the author says nothing to them."""
    release = spec.release
    told = {name: getattr(release, name) or "" for name in ENTRY if name not in ("keywords", "themes", "temporal")}
    days = {} if release.temporal is None else {"start": release.temporal.first, "end": release.temporal.last}
    entry = CatalogueEntry(**told, **days, keywords=release.keywords, themes=release.themes)
    return None if entry == CatalogueEntry() else entry
