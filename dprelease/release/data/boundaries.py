"""The public boundary files that a spec names, read for its plan; by the rules of references, never confidential."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dprelease.canonical import sha256
from dprelease.catalog.boundaries import LARGEST, BoundariesError, Geography, read_boundaries
from dprelease.catalog.reference import RefusedFile
from dprelease.catalog.table import Catalog
from dprelease.errors import Problem, SpecError
from dprelease.release.data.public_files import Confidential, Identity, read_reference_file
from dprelease.spec.fields.columns import label_text
from dprelease.spec.fields.document import GeographySpec
from dprelease.spec.load import Loaded
from dprelease.spec.text.names import did_you_mean, shown

__all__ = ["geography_of"]


def geography_of(
    loaded: Loaded, catalog: Catalog, folder: Path, confidential: Mapping[Identity, Confidential]
) -> tuple[Geography, ...]:
    """The areas of every column that has boundaries, in the order of their names.

    Args:
        loaded: The spec.
        catalog: Its columns with their keys.
        folder: The project's folder.
        confidential: The files that none of them may be.

    Raises:
        SpecError: With a problem for each file that gives no map, where it stands in the spec.
    """
    found, problems = [], []
    for column, asked in sorted(loaded.spec.geography.items()):
        keys = dict.fromkeys(
            label_text(key)
            for table in catalog.tables.values()
            for each in table.columns
            if each.name == column
            for key in each.keys or ()
        )
        try:
            found.append(_read(column, asked, tuple(keys), catalog, folder, confidential))
        except BoundariesError as error:
            field = () if error.code == "DPR-S733" else ("boundaries",)
            at = ("geography", column, *field)
            says = f"`{'.'.join(at)}` {error.says}"
            problems.append(Problem(error.code, says, error.hint, loaded.where(*at)))
    if problems:
        raise SpecError(problems)
    return tuple(found)


def _read(
    column: str,
    asked: GeographySpec,
    keys: tuple[str, ...],
    catalog: Catalog,
    folder: Path,
    confidential: Mapping[Identity, Confidential],
) -> Geography:
    if not keys:
        names = [each.name for table in catalog.tables.values() for each in table.columns if each.keys is not None]
        hint = did_you_mean(column, names, "name a column whose keys are declared")
        raise BoundariesError("DPR-S733", f"is about {shown(column)!r}, which is no column with keys", hint)
    data = read_reference_file(folder / asked.boundaries, confidential)
    if isinstance(data, RefusedFile):
        raise BoundariesError(data.code, data.says, data.hint)
    if data is None:
        hint = f"looked for {shown(asked.boundaries)!r} in the folder of dprelease.yaml; put the file there"
        raise BoundariesError("DPR-S729", "is not there or cannot be read", hint)
    if len(data) > LARGEST:
        hint = "simplify it first: mapshaper in.geojson -simplify 5% -o out.geojson"
        raise BoundariesError("DPR-S734", f"has more than {LARGEST >> 20} MiB, too much for boundaries", hint)
    drawn = read_boundaries(data, asked.key, keys, asked.without, asked.insets)
    return Geography(column=column, file=asked.boundaries, sha256=sha256(data), **drawn)
