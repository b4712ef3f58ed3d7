"""The files of a bundle as far as its plan alone decides them: all but ``pages/`` and what the curator adds."""

from __future__ import annotations

from dprelease.plan.document import FormatName, ReleasePlan
from dprelease.publish.accounting.certificate import CERTIFICATE_FILE
from dprelease.publish.bundle.measurements import RECIPE, measurement_paths
from dprelease.publish.formats.xlsx import WORKBOOK

__all__ = ["planned_files"]

_ALWAYS = ("accounting.json", "facts.json", "manifest.json", "nist-800-226.md", "plan.json", "registry.yaml", RECIPE)
_OF_A_TABLE: dict[FormatName, str] = {"csv": ".csv", "parquet": ".parquet", "json": ".json", "sdmx": ".sdmx.csv"}
_OF_ALL: dict[FormatName, tuple[str, ...]] = {
    "csv": ("datapackage.json",),
    "xlsx": (WORKBOOK,),
    "html": ("accounting.html", "index.html"),
    "pdf": (CERTIFICATE_FILE,),
}


def planned_files(plan: ReleasePlan) -> tuple[str, ...]:
    """The paths of the files that a release of the plan has, in order.

    Left out are the signature, which the project decides, ``presentation.json``, which only a later look has, and
    ``pages/``, whose number goes by the size of the tables.
    """
    formats = plan.publish.formats
    endings = [ending for name, ending in _OF_A_TABLE.items() if name in formats]
    names = [*(query.name for query in plan.queries), *(derived.name for derived in plan.derive)]
    found = [*_ALWAYS, *measurement_paths(plan).values()]
    found += [path for name, paths in _OF_ALL.items() if name in formats for path in paths]
    found += [f"tables/{name}{ending}" for name in names for ending in endings]
    return tuple(sorted(found))
