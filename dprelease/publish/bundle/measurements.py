"""The noisy measurements as files, before anything was made of them, and back: ``measurements/`` of a bundle.

One CSV file for each step, and ``recipe.json``: what each step did, how large its noise is, and how every published
number follows. Whoever has these files and ``plan.json`` can make all tables again, and others with the same guarantee.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.canonical import dumps
from dprelease.catalog.table import Column, Key
from dprelease.errors import CheckFailed, PublishError
from dprelease.estimate import full_product
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan, Step
from dprelease.publish.base import key_text, safe_path
from dprelease.publish.bundle.recipe import holds, recipe
from dprelease.publish.measured import held_key

__all__ = ["RECIPE", "as_published", "measurement_files", "read_measurements"]

FOLDER = "measurements"
RECIPE = f"{FOLDER}/recipe.json"
Keys = tuple[tuple[Key, ...], ...]


def as_published(measurements: Mapping[str, Measurement]) -> dict[str, Measurement]:
    """What can be written and read back: keys that a file can hold, and nothing in values that tell nothing.

    A bundle is made of these, and not of what the ledger holds, so that it can be made again from its own files.
    """
    return {
        name: each if each.keys is None else _selection(each.step, each.keys) for name, each in measurements.items()
    }


def _selection(step: str, keys: Keys) -> Measurement:
    held = tuple(tuple(map(held_key, key)) for key in keys)
    return Measurement(step, np.ones(len(held), dtype=np.int64), keys=held)


def measurement_files(plan: ReleasePlan, measurements: Mapping[str, Measurement]) -> dict[str, bytes]:
    """``measurements/<step>.csv`` for every step, and ``measurements/recipe.json``.

    A file has the key columns of its step, with text in quotes as in ``tables/``, then one column of whole numbers for
    each part of the step, in steps of that part's grid. The file of a selection has keys alone; that of a ranking has
    the keys in the order of their rank, with their positions among the declared ones, from 0.

    Args:
        plan: That was measured.
        measurements: By step, as :func:`as_published` gives them; of the sizes that the plan says.
    """
    layouts = _layouts(plan)
    shared: dict[tuple[str, tuple[str, ...], str | None], list[str]] = {}
    found = {}
    for step in plan.steps:
        layout = layouts[step.id]
        found[layout.file] = _text(plan, layout, measurements, shared).encode()
    found[RECIPE] = _recipe(plan, layouts)
    return found


def read_measurements(plan: ReleasePlan, files: Mapping[str, bytes]) -> dict[str, Measurement]:
    """The measurements of a bundle, by step: the exact inverse of :func:`measurement_files`.

    Args:
        plan: Of the bundle.
        files: By path; only those of steps are looked at.

    Raises:
        CheckFailed: If a file is missing, cannot be read or is not written as this writes it; names it (DPR-C110).
    """
    layouts = _layouts(plan)
    found: dict[str, Measurement] = {}
    for step in sorted(plan.steps, key=lambda step: step.selecting is None):  # selections first: others have their keys
        layout = layouts[step.id]
        try:
            found[step.id] = _read(layout, files[layout.file].decode())
        except KeyError:
            raise _wrong(layout.file, "there is no such file") from None
        except (ValueError, OverflowError, csv.Error) as error:
            raise _wrong(layout.file, f"it cannot be read ({type(error).__name__})") from None
    shared: dict[tuple[str, tuple[str, ...], str | None], list[str]] = {}
    for step in plan.steps:
        layout = layouts[step.id]
        try:
            same = _text(plan, layout, found, shared).encode() == files[layout.file]
        except ValueError:  # another number of rows
            same = False
        if not same:
            raise _wrong(layout.file, "its columns, keys or rows are not those of its step")
    return {step.id: found[step.id] for step in plan.steps}


def _wrong(file: str, why: str) -> CheckFailed:
    return CheckFailed(f"{file}: {why}", hint="ask the curator for the original bundle", code="DPR-C110")


@dataclass(frozen=True)
class _Layout:
    """How the file of a step is written.

    Attributes:
        step: The step.
        file: Its path.
        columns: Its key columns.
        parts: Names of its columns of numbers.
        selection: The step that selected its keys, where one did.
        shape: As ``recipe.holds``.
    """

    step: Step
    file: str
    columns: tuple[Column, ...]
    parts: tuple[str, ...]
    selection: str | None
    shape: str

    @property
    def header(self) -> tuple[str, ...]:
        return (*(column.name for column in self.columns), *self.parts)


def _layouts(plan: ReleasePlan) -> dict[str, _Layout]:
    selections = {step.id: batch.selection for batch in plan.batches() for step in batch.steps}
    files, found = _files(plan), {}
    for step in plan.steps:
        table = plan.catalog.tables[step.aggregate.table]
        columns, shape = tuple(map(table.column, step.aggregate.by)), holds(step)
        names = {column.name for column in columns}
        parts = () if shape == "keys" else _parts(step, "position" if shape == "ranking" else "value", names)
        found[step.id] = _Layout(step, files[step.id], columns, parts, selections[step.id], shape)
    return found


def _parts(step: Step, name: str, taken: set[str]) -> tuple[str, ...]:
    """Names of the columns of numbers, none of them that of a key."""
    while True:
        names = [f"{name}_{at}" for at in range(1, len(step.parts) + 1)] if step.joined else [name]
        if not taken & set(names):
            return tuple(names)
        name += "_"


def _files(plan: ReleasePlan) -> dict[str, str]:
    """A path for every step: its id, or ``step-<number>`` where that is no file name, or one that is taken."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for step in plan.steps:
        name = f"{step.id}.csv"
        if _is_name(name) and name.lower() not in taken:
            taken.add(name.lower())
            found[step.id] = f"{FOLDER}/{name}"
    for number, step in enumerate(plan.steps, start=1):
        if step.id not in found:
            name = f"step-{number}"
            while f"{name}.csv" in taken:
                name += "_"
            taken.add(f"{name}.csv")
            found[step.id] = f"{FOLDER}/{name}.csv"
    return found


def _is_name(name: str) -> bool:
    try:
        return safe_path(name) == name and "/" not in name
    except PublishError:
        return False


def _recipe(plan: ReleasePlan, layouts: Mapping[str, _Layout]) -> bytes:
    files = {name: layout.file for name, layout in layouts.items()}
    content = recipe(plan, files, {name: layout.header for name, layout in layouts.items()})
    return (dumps(content) + "\n").encode()


def _text(
    plan: ReleasePlan,
    layout: _Layout,
    measurements: Mapping[str, Measurement],
    shared: dict[tuple[str, tuple[str, ...], str | None], list[str]],
) -> str:
    """The file of one step; ``shared`` keeps the public keys of a grouping, which many steps have.

    Raises:
        ValueError: If there are not as many numbers as rows.
    """
    grouping, found = layout.step.aggregate, measurements[layout.step.id]
    if layout.shape == "keys":
        keys = _lines(layout.columns, found.keys or ())
    elif layout.selection is not None:
        keys = _lines(layout.columns, measurements[layout.selection].keys or ())
    elif layout.shape == "ranking":
        (column,) = layout.columns
        declared = column.keys or ()
        keys = _lines(layout.columns, tuple((declared[at],) for at in found.values.tolist() if 0 <= at < len(declared)))
    else:
        place = (grouping.table, grouping.by, grouping.excluding)
        if place not in shared:
            shared[place] = _lines(layout.columns, _public(plan, layout))
        keys = shared[place]
    several = found.values.reshape(len(layout.parts), -1).tolist() if layout.parts else []
    numbers = [list(map(str, part)) for part in several]
    both = [keys, *numbers] if layout.columns else numbers
    lines = [",".join(map(_plain, layout.header)), *map(",".join, zip(*both, strict=True))]
    return "".join(f"{line}\r\n" for line in lines)


def _public(plan: ReleasePlan, layout: _Layout) -> Keys:
    """The keys of every cell of a step whose keys are public."""
    excluding = layout.step.aggregate.excluding
    left_out = set(plan.catalog.exclusions[excluding]) if excluding is not None else set()
    return tuple(row for at, row in enumerate(full_product(layout.columns)) if at not in left_out)


def _lines(columns: Sequence[Column], keys: Keys) -> list[str]:
    text = [column.type == "text" for column in columns]
    return [
        ",".join(_quoted(key_text(key)) if quote else key_text(key) for key, quote in zip(row, text, strict=True))
        for row in keys
    ]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _plain(name: str) -> str:
    return _quoted(name) if any(sign in name for sign in ',"\r\n') else name


def _read(layout: _Layout, text: str) -> Measurement:
    """The measurement of a file, as far as it can be told from the file alone.

    Raises:
        ValueError, OverflowError, csv.Error: If it is no such file.
    """
    header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    if tuple(header) != layout.header or any(len(row) != len(header) for row in rows):
        raise ValueError("other columns")
    if layout.shape == "keys":
        keys = tuple(tuple(map(_key, layout.columns, row)) for row in rows)
        return _selection(layout.step.id, keys)
    first = len(layout.columns)
    parts = [[int(row[at]) for row in rows] for at in range(first, len(header))]
    return Measurement(layout.step.id, np.array(parts, dtype=np.int64).reshape(-1))


def _key(column: Column, text: str) -> Key:
    if column.type == "integer":
        return int(text)
    return text == "true" if column.type == "boolean" else text
