"""The noisy measurements as files, before anything was made of them, and back: ``measurements/`` of a bundle.

One CSV file for each step, and ``recipe.json``: what each step did, how large its noise is, and how every published
number follows. Whoever has these files and ``plan.json`` can make all tables again, and others with the same guarantee.

From the third layout on (``publish.layout`` of the plan), small steps with the same columns share a file: its first
column says of which step a row is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dprelease.canonical import dumps
from dprelease.catalog.table import Column, Key
from dprelease.errors import CheckFailed
from dprelease.estimate import Coded, Rows, as_rows, full_product
from dprelease.noise import Measurement
from dprelease.plan.document import Measured, ReleasePlan, Step
from dprelease.publish.bundle.read_tables import LARGEST_UNDECLARED, Kind, csv_columns
from dprelease.publish.bundle.recipe import recipe
from dprelease.publish.bundle.recipe_of_comparisons import recipe_of_comparisons, recipe_of_derived
from dprelease.publish.bundle.recipe_of_series import recipe_of_series
from dprelease.publish.bundle.research import research_files
from dprelease.publish.bundle.step_files import RECIPE, StepLayout, steps_by_file, steps_layouts
from dprelease.publish.comparing.earlier import EarlierRelease
from dprelease.publish.csv_text import (
    csv_quoted,
    escapes,
    key_texts,
    key_width,
    line_blocks,
    unescaped,
    whole_texts,
    word_texts,
)
from dprelease.publish.manifest import Manifest
from dprelease.publish.measured import held_key
from dprelease.publish.packed import Data, Files, HashedFile, Packed, digest_of, kept, only_hashed, pack
from dprelease.publish.stacked import end_to_end

__all__ = [
    "as_published",
    "measurement_columns",
    "measurement_files",
    "measurements_in",
    "recipe_file",
    "seen_measurements",
]

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


def measurement_files(
    plan: ReleasePlan,
    measurements: Mapping[str, Measurement],
    earlier: Mapping[str, EarlierRelease] = MappingProxyType({}),
) -> Files:
    """``measurements/<step>.csv`` for every step that shares no file, those of the others, and what the plan decides.

    A file has the key columns of its step (before them, where it is shared, a column with the step's id), with text in
    quotes and escaped as in ``tables/``, then one column of whole numbers for each part of the step, in steps of that
    part's grid. The file of a selection has keys alone; that of a ranking has the keys in the order of their rank, with
    their positions among the declared ones, from 0.

    Args:
        plan: That was measured.
        measurements: By step, as :func:`as_published` gives them; of the sizes that the plan says.
        earlier: By period, what is taken of earlier releases; the recipe says which publications these are.
    """
    found = {file: pack(_blocks(plan, inside, measurements)) for file, inside in steps_by_file(plan).items()}
    return Files({**found, RECIPE: recipe_file(plan, earlier), **research_files(plan)})


def measurements_in(plan: ReleasePlan, files: Mapping[str, bytes]) -> dict[str, Measurement]:
    """The measurements of a bundle, by step: the exact inverse of :func:`measurement_files`.

    Args:
        plan: The plan of the bundle.
        files: By path; only those of steps are looked at.

    Raises:
        CheckFailed: If a file is missing, cannot be read or is not written as this writes it; names it (DPR-C110).
    """
    found: dict[str, Measurement] = {}
    # Selections first: others have their keys.
    for file, inside in sorted(steps_by_file(plan).items(), key=lambda each: not _selects(each[1][0].step)):
        try:
            data = kept(files)[file]
        except KeyError:
            raise _wrong(file, "there is no such file") from None
        try:
            found |= _read_shared(inside, data) if inside[0].shared else _read(plan, inside[0], data)
        except KeyError:  # it is another one than it was when its hash was taken
            raise _wrong(file, "it was changed meanwhile") from None
        except (ValueError, OverflowError) as error:
            kind = "ValueError" if isinstance(error, ValueError) else type(error).__name__
            raise _wrong(file, f"it cannot be read ({kind})") from None
        try:
            same = _same(data, _blocks(plan, inside, found))
        except ValueError:  # another number of rows
            same = False
        if not same:
            raise _wrong(file, "its columns, keys or rows are not those of its step")
    return {step.id: found[step.id] for step in plan.measured}


def seen_measurements(
    plan: ReleasePlan, manifest: Manifest, earlier: Mapping[str, EarlierRelease] = MappingProxyType({})
) -> Files:
    """The files of the measurements of a bundle that :func:`measurements_in` has read, known by their hashes.

    It made every one of them again and compared it, so that nobody needs to do so once more. What the plan decides
    is made here.

    Args:
        plan: The plan of the bundle.
        manifest: Its manifest, whose hashes are those of the files that were read.
        earlier: By period, what it took of earlier releases.
    """
    told = {path: manifest.files[path] for path in steps_by_file(plan)}
    found: dict[str, Data] = {path: HashedFile(each.bytes, each.sha256, ()) for path, each in told.items()}
    return Files({**found, RECIPE: recipe_file(plan, earlier), **research_files(plan)})


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
    for name, layout in steps_layouts(plan).items():
        values, parts = measurements[name].values, len(layout.parts)
        rows = _rows(plan, layout, measurements) if layout.columns else Rows((), len(values) // parts)
        several = values.reshape(parts, -1) if parts else ()
        yield name, layout.columns, rows, dict(zip(layout.parts, several, strict=True))


def _selects(step: Measured) -> bool:
    return isinstance(step, Step) and step.selecting is not None


def _same(data: Data, blocks: Iterable[bytes]) -> bool:
    """Whether a file is these blocks, one after the other; of a large one the hash tells."""
    if isinstance(data, Packed):
        with only_hashed():
            made = pack(blocks)
        return len(made) == len(data) and digest_of(made) == data.sha256
    at = 0
    for block in blocks:
        if not data.startswith(block, at):
            return False
        at += len(block)
    return at == len(data)


def _wrong(file: str, why: str) -> CheckFailed:
    return CheckFailed(f"{file}: {why}", hint="ask the curator for the original bundle", code="DPR-C110")


def recipe_file(plan: ReleasePlan, earlier: Mapping[str, EarlierRelease] = MappingProxyType({})) -> bytes:
    """``measurements/recipe.json``, which the plan decides, and which publications of earlier periods it takes."""
    layouts = steps_layouts(plan)
    files = {name: layout.file for name, layout in layouts.items()}
    columns = {name: layout.header for name, layout in layouts.items()}
    content = recipe(plan, files, columns, {name: layout.shared for name, layout in layouts.items()})
    content |= {"derived": recipe_of_derived(plan, earlier)}
    content |= {"compared": compared} if (compared := recipe_of_comparisons(plan, earlier)) else {}
    content |= {"series": series} if (series := recipe_of_series(plan, earlier)) else {}
    return (dumps(content) + "\n").encode()


def _blocks(
    plan: ReleasePlan, inside: Sequence[StepLayout], measurements: Mapping[str, Measurement]
) -> Iterator[bytes]:
    """A file, some thousand lines at a time.

    Raises:
        ValueError: If there are not as many numbers as rows.
    """
    several = [_numbers(plan, layout, measurements) for layout in inside]
    if len(several) == 1:
        (rows, numbers), first = several[0], inside[0]
    else:
        first, keys = inside[0], zip(*(rows.columns for rows, _ in several), strict=True)
        rows = Rows([end_to_end(each) for each in keys], sum(len(rows) for rows, _ in several))
        numbers = list(map(np.concatenate, zip(*(each for _, each in several), strict=True)))
    texts = [
        key_texts(column, keys, escape=escapes(plan.publish, column))
        for column, keys in zip(first.columns, rows.columns, strict=True)
    ]
    words = list[Coded[str]]()
    if first.shared:
        names = [csv_quoted(layout.step.id) for layout in inside]
        words.append(Coded(names, np.repeat(np.arange(len(inside)), [len(each) for each, _ in several])))
    columns = [*map(word_texts, words), *texts, *map(whole_texts, numbers)]
    return line_blocks(first.header, columns, len(rows), key_width([*words, *rows.columns]))


def _numbers(
    plan: ReleasePlan, layout: StepLayout, measurements: Mapping[str, Measurement]
) -> tuple[Rows, Sequence[Integers]]:
    """The rows of a step, and its columns of numbers.

    Raises:
        ValueError: If there are not as many numbers as rows.
    """
    values = measurements[layout.step.id].values
    rows = _rows(plan, layout, measurements)
    if not layout.columns:
        rows = Rows((), len(values) // len(layout.parts))
    if layout.parts and len(values) != len(layout.parts) * len(rows):
        raise ValueError("not one number in each row")
    return rows, list(values.reshape(len(layout.parts), -1)) if layout.parts else []


def _rows(plan: ReleasePlan, layout: StepLayout, measurements: Mapping[str, Measurement]) -> Rows:
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
    excluding, (quantity, *_) = layout.step.aggregate.excluding, layout.step.parts
    left_out = plan.catalog.exclusions[excluding] if excluding is not None else ()
    if quantity.is_counted:  # all classes of a cell
        each = len(quantity.classes)
        left_out = tuple(cell * each + at for cell in left_out for at in range(each))
    return full_product(layout.columns).without(left_out)


def _read_shared(inside: Sequence[StepLayout], data: Data) -> dict[str, Measurement]:
    """The measurements of a file that several steps share, by step.

    Raises:
        ValueError: If it is no such file.
    """
    parts = inside[0].parts
    rows = sum(layout.step.cells or 0 for layout in inside)
    read = csv_columns(data, inside[0].header, dict.fromkeys(parts, "whole"), rows)
    numbers, first, found = [read[name].to_numpy() for name in parts], 0, {}
    if len(numbers[0]) != rows:
        raise ValueError("other rows than its steps have")
    for layout in inside:
        last = first + (layout.step.cells or 0)
        found[layout.step.id] = Measurement(layout.step.id, np.concatenate([each[first:last] for each in numbers]))
        first = last
    return found


def _read(plan: ReleasePlan, layout: StepLayout, data: Data) -> dict[str, Measurement]:
    """The measurement of a file by its step, as far as it can be told from the file alone.

    Raises:
        ValueError, OverflowError: If it is no such file.
    """
    if layout.step.numbers is None and len(data) > LARGEST_UNDECLARED:
        raise ValueError("more rows than could be held")
    names = [column.name for column in layout.columns] if layout.shape == "keys" else layout.parts
    kinds: dict[str, Kind] = dict.fromkeys(names, "text" if layout.shape == "keys" else "whole")
    found = csv_columns(data, layout.header, kinds, layout.step.numbers)
    if layout.shape == "keys":
        texts = [found[name].to_pylist() for name in names]
        read = [
            [_key(column, text, escape=escapes(plan.publish, column)) for text in each]
            for column, each in zip(layout.columns, texts, strict=True)
        ]
        return {layout.step.id: _selection(layout.step.id, tuple(zip(*read, strict=True)))}
    values = np.concatenate([found[name].to_numpy() for name in names])
    return {layout.step.id: Measurement(layout.step.id, values)}


def _key(column: Column, text: str, *, escape: bool) -> Key:
    if column.type == "integer":
        return int(text)
    if column.type == "boolean":
        return text == "true"
    return unescaped(text) if escape else text
