"""The numbers of a bundle's tables, held against its measurements cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import numpy as np
import numpy.typing as npt

from dprelease.estimate import PublishedMeasure, PublishedTable, coded
from dprelease.publish.bundle.checks.opened import OpenedBundle, say_which
from dprelease.publish.bundle.read_tables import READERS, FileColumns, Kind, same_texts, table_parts
from dprelease.publish.columns import table_header
from dprelease.publish.comparing.columns import compared_tables
from dprelease.publish.comparing.earlier import draws_of
from dprelease.publish.csv_text import word_texts, written
from dprelease.publish.formats.cube import PARTS, UNROUNDED, parts_of
from dprelease.publish.layouts import filed
from dprelease.publish.measured import inputs_of, queries_as_tables
from dprelease.publish.packed import Data, kept
from dprelease.publish.rounded import rounded_tables

__all__ = ["values_agree"]

Floats = npt.NDArray[np.float64]
_CLOSE = 1e-9  # relative


def values_agree(bundle: OpenedBundle, same: Set[str]) -> str:
    """Which tables have a number that is not the one that the measurements give; empty: none.

    Numbers are read from CSV and Parquet and compared as numbers, so that this holds whatever library wrote them.
    Derived tables are not looked at: their margins are simulated, and their values follow from the others'.

    Args:
        bundle: The bundle.
        same: Files that were made again with the same bytes, and need no look.
    """
    plan, (measured, why) = bundle.shown, bundle.measured
    if plan is None or measured is None:
        return why
    wrong: list[str] = []
    endings = [ending for ending in READERS if ending in plan.publish.formats]
    names = [query.name for query in plan.queries]
    unlike = {name for name in names if any(f"tables/{name}.{ending}" not in same for ending in endings)}
    inputs = inputs_of(plan, measured, draws_of(bundle.earlier))
    tables = compared_tables(plan, queries_as_tables(plan, inputs, unlike), inputs, bundle.earlier)
    for table in filed(plan, rounded_tables(plan, tables)):
        files = {f"tables/{table.name}.{ending}": ending for ending in endings}
        fields = table_header(table, rehearsal=bundle.manifest.rehearsal)
        kinds: dict[str, Kind] = {}
        for measure in table.measures:
            kinds |= dict.fromkeys((measure.name + ending for ending in parts_of(measure)), "number")
            kinds[f"{measure.name}_status"] = "text"
        for name in (each for each in files if each not in same):
            data = kept(bundle.sound).get(name)
            if data is None or not _values_hold(table, files[name], data, fields, kinds or {fields[0]: "text"}):
                wrong.append(name)
    return say_which(wrong, "numbers are not those that measurements/ give")


def _values_hold(
    table: PublishedTable, ending: str, data: Data, fields: Sequence[str], kinds: Mapping[str, Kind]
) -> bool:
    """Whether a file has the numbers and statuses of a table; it is read some rows after the others."""
    first = 0
    try:
        for part in table_parts(ending, data, fields, kinds):
            if not all(_same_cells(measure, part, first) for measure in table.measures):
                return False
            first += part.rows
    except (ValueError, KeyError):  # it cannot be read, or was changed meanwhile
        return False
    return first == table.cells


def _same_cells(measure: PublishedMeasure, found: FileColumns, first: int) -> bool:
    """Whether the rows of a file from ``first`` on are a measure's, the numbers to the decimals that files have."""
    status, places, last = coded(measure.status), measure.places, first + found.rows
    words = word_texts(status)(first, min(last, len(status)))
    if not same_texts(found.texts[f"{measure.name}_status"], words):
        return False
    return all(
        _close(
            written(getattr(measure, PARTS[ending])[first:last], None if ending in UNROUNDED else places),
            found.values[measure.name + ending],
        )
        for ending in parts_of(measure)
    )


def _close(expected: Floats, found: Floats) -> bool:
    """Whether numbers agree to a part in 10^9, and nothing is published in the same cells."""
    with np.errstate(invalid="ignore"):  # infinity less itself
        close = np.abs(expected - found) <= _CLOSE * np.maximum(np.abs(expected), np.abs(found))
    return bool((close | (expected == found) | (np.isnan(expected) & np.isnan(found))).all())
