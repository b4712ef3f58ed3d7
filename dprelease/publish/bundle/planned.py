"""The files of a bundle as far as its plan alone decides them: all but ``pages/`` and what the curator adds."""

from __future__ import annotations

from dprelease.formats import FORMATS
from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import table_names
from dprelease.publish.bundle.measurements import RECIPE, measurement_paths

__all__ = ["planned_files"]

_ALWAYS = ("accounting.json", "facts.json", "manifest.json", "nist-800-226.md", "plan.json", "registry.yaml", RECIPE)


def planned_files(plan: ReleasePlan) -> tuple[str, ...]:
    """The paths of the files that a release of the plan has, in order.

    Left out are the signature, which the project decides, ``presentation.json``, which only a later look has, and
    ``pages/``, whose number goes by the size of the tables.
    """
    found = [*_ALWAYS, *measurement_paths(plan).values()]
    found += [path for name in plan.publish.formats for path in FORMATS[name].paths(table_names(plan))]
    return tuple(sorted(found))
