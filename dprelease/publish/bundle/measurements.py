"""The noisy measurements as files, before anything was made of them, and back: ``measurements/`` of a bundle.

One CSV file for each step, and ``recipe.json``: what each step did, how large its noise is, and how every published
number follows. Whoever has these files and ``plan.json`` can make all tables again, and others with the same guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.canonical import dumps
from dprelease.catalog.table import Column, Key
from dprelease.errors import CheckFailed, PublishError
from dprelease.estimate import Coded, Rows, as_rows, full_product
from dprelease.noise import Measurement
from dprelease.plan.document import Measured, ReleasePlan, Step
from dprelease.publish.base import safe_path
from dprelease.publish.bundle.read_tables import Kind, csv_columns
from dprelease.publish.bundle.recipe import holds, recipe
from dprelease.publish.csv_text import escapes, key_texts, key_width, line_blocks, unescaped, whole_texts
from dprelease.publish.measured import held_key
from dprelease.publish.packed import Files, pack

__all__ = [
    "RECIPE",
    "as_published",
    "measurement_columns",
    "measurement_files",
    "measurement_paths",
    "measurements_in",
    "recipe_file",
]

FOLDER = "measurements"
RECIPE = f"{FOLDER}/recipe.json"
Keys = tuple[tuple[Key, ...], ...]
Integers = npt.NDArray[np.int64]


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


def measurement_files(plan: ReleasePlan, measurements: Mapping[str, Measurement]) -> Files:
    """``measurements/<step>.csv`` for every step, and ``measurements/recipe.json``.

    A file has the key columns of its step, with text in quotes and escaped as in ``tables/``, then one column of whole
    numbers for each part of the step, in steps of that part's grid. The file of a selection has keys alone; that of a
    ranking has the keys in the order of their rank, with their positions among the declared ones, from 0.

    Args:
        plan: That was measured.
        measurements: By step, as :func:`as_published` gives them; of the sizes that the plan says.
    """
    layouts = _layouts(plan)
    found = {layout.file: pack(_blocks(plan, layout, measurements)) for layout in layouts.values()}
    return Files({**found, RECIPE: recipe_file(plan)})


def measurements_in(plan: ReleasePlan, files: Mapping[str, bytes]) -> dict[str, Measurement]:
    """The measurements of a bundle, by step: the exact inverse of :func:`measurement_files`.

    Args:
        plan: The plan of the bundle.
        files: By path; only those of steps are looked at.

    Raises:
        CheckFailed: If a file is missing, cannot be read or is not written as this writes it; names it (DPR-C110).
    """
    layouts = _layouts(plan)
    found: dict[str, Measurement] = {}
    for step in sorted(plan.measured, key=lambda step: not _selects(step)):  # selections first: others have their keys
        layout = layouts[step.id]
        try:
            data = files[layout.file]
        except KeyError:
            raise _wrong(layout.file, "there is no such file") from None
        try:
            found[step.id] = _read(plan, layout, data)
        except (ValueError, OverflowError) as error:
            kind = "ValueError" if isinstance(error, ValueError) else type(error).__name__
            raise _wrong(layout.file, f"it cannot be read ({kind})") from None
        try:
            same = _same(data, _blocks(plan, layout, found))
        except ValueError:  # another number of rows
            same = False
        if not same:
            raise _wrong(layout.file, "its columns, keys or rows are not those of its step")
    return {step.id: found[step.id] for step in plan.measured}


def measurement_columns(
    plan: ReleasePlan, measurements: Mapping[str, Measurement]
) -> Iterator[tuple[str, tuple[Column, ...], Rows, dict[str, Integers]]]:
    """What the file of each step holds, as columns.

    Args:
        plan: That was measured.
        measurements: By step, as :func:`measurements_in` gives them.

    Yields:
        The step's id; its key columns; the keys of its rows; and its columns of numbers by name, each of shape
        ``(rows,)`` and in steps of its part's grid.
    """
    for name, layout in _layouts(plan).items():
        values, parts = measurements[name].values, len(layout.parts)
        rows = _rows(plan, layout, measurements) if layout.columns else Rows((), len(values) // parts)
        several = values.reshape(parts, -1) if parts else ()
        yield name, layout.columns, rows, dict(zip(layout.parts, several, strict=True))


def _selects(step: Measured) -> bool:
    return isinstance(step, Step) and step.selecting is not None


def _same(data: bytes, blocks: Iterable[bytes]) -> bool:
    """Whether a file is these blocks, one after the other."""
    whole, at = memoryview(data), 0
    for block in blocks:
        if whole[at : at + len(block)] != block:
            return False
        at += len(block)
    return at == len(whole)


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

    step: Measured
    file: str
    columns: tuple[Column, ...]
    parts: tuple[str, ...]
    selection: str | None
    shape: str

    @property
    def header(self) -> tuple[str, ...]:
        return (*(column.name for column in self.columns), *self.parts)


def _layouts(plan: ReleasePlan) -> dict[str, _Layout]:
    selections, files, found = plan.selections, measurement_paths(plan), {}
    for step in plan.measured:
        table = plan.catalog.tables[step.aggregate.table]
        together = isinstance(step, Step) and bool(step.tables)  # one table after the other: the rows have no keys
        columns, shape = () if together else tuple(map(table.column, step.aggregate.by)), holds(step)
        names = {column.name for column in columns}
        parts = () if shape == "keys" else _parts(step, "position" if shape == "ranking" else "value", names)
        found[step.id] = _Layout(step, files[step.id], columns, parts, selections.get(step.id), shape)
    return found


def _parts(step: Measured, name: str, taken: set[str]) -> tuple[str, ...]:
    """Names of the columns of numbers, none of them that of a key."""
    while True:
        names = [f"{name}_{at}" for at in range(1, len(step.parts) + 1)] if len(step.parts) > 1 else [name]
        if not taken & set(names):
            return tuple(names)
        name += "_"


def measurement_paths(plan: ReleasePlan) -> dict[str, str]:
    """A path for every step: its id, or ``step-<number>`` where that is no file name, or one that is taken."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for step in plan.measured:
        name = f"{step.id}.csv"
        if _is_name(name) and name.lower() not in taken:
            taken.add(name.lower())
            found[step.id] = f"{FOLDER}/{name}"
    for number, step in enumerate(plan.measured, start=1):
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


def recipe_file(plan: ReleasePlan) -> bytes:
    """``measurements/recipe.json``, which the plan alone decides."""
    layouts = _layouts(plan)
    files = {name: layout.file for name, layout in layouts.items()}
    content = recipe(plan, files, {name: layout.header for name, layout in layouts.items()})
    return (dumps(content) + "\n").encode()


def _blocks(plan: ReleasePlan, layout: _Layout, measurements: Mapping[str, Measurement]) -> Iterator[bytes]:
    """The file of one step, some thousand lines at a time.

    Raises:
        ValueError: If there are not as many numbers as rows.
    """
    values = measurements[layout.step.id].values
    rows = _rows(plan, layout, measurements)
    if not layout.columns:
        rows = Rows((), len(values) // len(layout.parts))
    if layout.parts and len(values) != len(layout.parts) * len(rows):
        raise ValueError("not one number in each row")
    several = values.reshape(len(layout.parts), -1) if layout.parts else ()
    texts = [
        key_texts(column, keys, escape=escapes(plan.publish, column))
        for column, keys in zip(layout.columns, rows.columns, strict=True)
    ]
    return line_blocks(layout.header, [*texts, *map(whole_texts, several)], len(rows), key_width(rows.columns))


def _rows(plan: ReleasePlan, layout: _Layout, measurements: Mapping[str, Measurement]) -> Rows:
    """The keys of the rows of a step's file."""
    found, columns = measurements[layout.step.id], len(layout.columns)
    if layout.shape == "keys":
        return as_rows(found.keys or (), columns)
    if layout.selection is not None:
        return as_rows(measurements[layout.selection].keys or (), columns)
    if layout.shape == "ranking":
        declared = layout.columns[0].keys or ()
        known = found.values[(found.values >= 0) & (found.values < len(declared))]
        return Rows([Coded(declared, known)], len(known))
    excluding = layout.step.aggregate.excluding
    return full_product(layout.columns).without(plan.catalog.exclusions[excluding] if excluding is not None else ())


def _read(plan: ReleasePlan, layout: _Layout, data: bytes) -> Measurement:
    """The measurement of a file, as far as it can be told from the file alone.

    Raises:
        ValueError, OverflowError: If it is no such file.
    """
    names = [column.name for column in layout.columns] if layout.shape == "keys" else layout.parts
    kinds: dict[str, Kind] = dict.fromkeys(names, "text" if layout.shape == "keys" else "whole")
    found = csv_columns(data, layout.header, kinds)
    if layout.shape == "keys":
        texts = [found[name].to_pylist() for name in names]
        read = [
            [_key(column, text, escape=escapes(plan.publish, column)) for text in each]
            for column, each in zip(layout.columns, texts, strict=True)
        ]
        return _selection(layout.step.id, tuple(zip(*read, strict=True)))
    return Measurement(layout.step.id, np.concatenate([found[name].to_numpy() for name in names]))


def _key(column: Column, text: str, *, escape: bool) -> Key:
    if column.type == "integer":
        return int(text)
    if column.type == "boolean":
        return text == "true"
    return unescaped(text) if escape else text
