"""Whether a plan could be published here: asked whenever one is made, so that little is imported for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from dprelease.errors import MissingExtra, PublishError
from dprelease.formats import FORMATS, Format
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document.ranges import rows_of
from dprelease.publish.columns import check_queries
from dprelease.publish.derive.tables import check_derived_tables

__all__ = ["check_publishable", "missing_extras", "named_function"]


def missing_extras(formats: Iterable[str]) -> dict[str, str]:
    """The formats among these that cannot be made on this machine, each with what is missing in one sentence."""
    found = {}
    for name in formats:
        try:
            _require(FORMATS[name])
        except MissingExtra as missing:
            found[name] = missing.summary
    return found


def check_publishable(plan: ReleasePlan) -> None:
    """Refuse, before any budget is spent, a plan whose tables could not be made or written.

    Raises:
        PublishError: As of ``check_queries`` and ``check_derived_tables``; if no format would hold a large table
            (DPR-W109).
        PlanError: If the SQL of a derived table is not allowed (DPR-P15.).
        MissingExtra: If a format needs a package that is not installed.
    """
    check_queries(plan)
    check_derived_tables(plan)
    _check_held(plan)
    for name in plan.publish.formats:
        _require(FORMATS[name])


def named_function(name: str) -> Callable[..., Any]:
    """A function of this package that a line of ``FORMATS`` names as ``module:function``."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"dprelease.publish.{module}"), function)
    return found


def _require(form: Format) -> None:
    """Ask for what a format needs of this machine beside the packages that every installation has.

    Raises:
        MissingExtra: It is not there.
    """
    if form.requires:
        named_function(form.requires)()


def _check_held(plan: ReleasePlan) -> None:
    """Refuse a table that no format of the release holds: those for people and for cubes leave large ones out."""
    if any(FORMATS[name].any_size for name in plan.publish.formats):
        return
    from dprelease.publish.formats.jsonstat import MOST_ROWS

    for query in plan.queries:
        rows = rows_of(plan.keys(query), query.ranges)
        if not query.private and query.ranking is None and rows > MOST_ROWS:
            raise PublishError(
                f"query {query.name!r} has {rows:,} rows, and no format of this release holds a table of that size",
                detail=f"those for people and for readers of cubes hold tables of at most {MOST_ROWS:,} rows",
                hint="add csv or parquet to `formats` under `publish`",
                code="DPR-W109",
            )
