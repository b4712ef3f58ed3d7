"""Which file of ``measurements/`` holds each step, and with which columns; the plan alone decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dprelease.catalog.table import Column
from dprelease.errors import PublishError
from dprelease.plan.document import Measured, ReleasePlan, Step
from dprelease.publish.base import safe_path
from dprelease.publish.bundle.recipe import holds

__all__ = ["RECIPE", "StepLayout", "measurement_paths", "steps_by_file", "steps_layouts"]

_FOLDER = "measurements"
RECIPE = f"{_FOLDER}/recipe.json"
_SMALL = 200  # rows of a step that shares a file
_MOST_SHARED = 100_000  # rows of such a file


@dataclass(frozen=True)
class StepLayout:
    """How the file of a step is written.

    Attributes:
        step: The step.
        file: Its path.
        columns: Its key columns.
        parts: Names of its columns of numbers.
        selection: The step that selected its keys, where one did.
        shape: As ``recipe.holds``.
        shared: The column with the step's id, where other steps are in the same file; empty: there are none.
    """

    step: Measured
    file: str
    columns: tuple[Column, ...]
    parts: tuple[str, ...]
    selection: str | None
    shape: str
    shared: str = ""

    @property
    def header(self) -> tuple[str, ...]:
        """The names of its file's columns."""
        own = (*(column.name for column in self.columns), *self.parts)
        return (self.shared, *own) if self.shared else own


def steps_layouts(plan: ReleasePlan) -> dict[str, StepLayout]:
    """How each step is written, by its id, in the order of the plan."""
    selections, files, found = plan.selections, _own_paths(plan), {}
    for step in plan.measured:
        table = plan.catalog.tables[step.aggregate.table]
        columns = (
            ()
            if _of_tables(step) or step.parts[0].is_clip
            else (*map(table.column, step.aggregate.by), *_classes(step))
        )
        shape = holds(step)
        names = {column.name for column in columns}
        parts = () if shape == "keys" else _parts(step, "position" if shape == "ranking" else "value", names)
        found[step.id] = StepLayout(step, files[step.id], columns, parts, selections.get(step.id), shape)
    return _together(found) if plan.publish.layout > 2 else found


def _together(layouts: dict[str, StepLayout]) -> dict[str, StepLayout]:
    """The same, with small steps that have the same columns in files that they share."""
    groups: dict[tuple[Any, ...], list[list[str]]] = {}
    room: dict[tuple[Any, ...], int] = {}
    for name, each in layouts.items():
        rows = each.step.cells
        if rows is None or rows > _SMALL or each.shape not in ("numbers", "choices") or _of_tables(each.step):
            continue
        form = (tuple((column.name, column.type) for column in each.columns), each.parts)
        if room.get(form, 0) < rows:
            groups.setdefault(form, []).append([])
            room[form] = _MOST_SHARED
        groups[form][-1].append(name)
        room[form] -= rows
    shared = [group for runs in groups.values() for group in runs if len(group) > 1]
    taken = {each.file.lower() for each in layouts.values()}
    found = dict(layouts)
    for number, group in enumerate(shared, start=1):
        file, column = f"{_FOLDER}/shared-{number}", "step"
        while f"{file}.csv" in taken:
            file += "_"
        while column in layouts[group[0]].header:
            column += "_"
        found |= {name: replace(layouts[name], file=f"{file}.csv", shared=column) for name in group}
    return found


def _classes(step: Measured) -> tuple[Column, ...]:
    """Of counts of classes of grid values: a further key column with where each class begins, in grid steps."""
    (quantity, *_) = step.parts
    if not quantity.is_counted:
        return ()
    name = f"{quantity.column}_from"
    while name in step.aggregate.by:
        name += "_"
    return (Column(name=name, type="integer", keys=quantity.classes),)


def _of_tables(step: Measured) -> bool:
    """Whether a draw holds one table after the other, so that its rows have no keys."""
    return isinstance(step, Step) and bool(step.tables)


def steps_by_file(plan: ReleasePlan) -> dict[str, list[StepLayout]]:
    """What each file holds, in its order."""
    found: dict[str, list[StepLayout]] = {}
    for layout in steps_layouts(plan).values():
        found.setdefault(layout.file, []).append(layout)
    return found


def _parts(step: Measured, name: str, taken: set[str]) -> tuple[str, ...]:
    """Names of the columns of numbers, none of them that of a key."""
    while True:
        names = [f"{name}_{at}" for at in range(1, len(step.parts) + 1)] if len(step.parts) > 1 else [name]
        if not taken & set(names):
            return tuple(names)
        name += "_"


def measurement_paths(plan: ReleasePlan) -> dict[str, str]:
    """The path of the file that holds each step."""
    return {name: layout.file for name, layout in steps_layouts(plan).items()}


def _own_paths(plan: ReleasePlan) -> dict[str, str]:
    """A path for every step: its id, or ``step-<number>`` where that is no file name, or one that is taken."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for step in plan.measured:
        name = f"{step.id}.csv"
        if _is_name(name) and name.lower() not in taken:
            taken.add(name.lower())
            found[step.id] = f"{_FOLDER}/{name}"
    for number, step in enumerate(plan.measured, start=1):
        if step.id not in found:
            name = f"step-{number}"
            while f"{name}.csv" in taken:
                name += "_"
            taken.add(f"{name}.csv")
            found[step.id] = f"{_FOLDER}/{name}.csv"
    return found


def _is_name(name: str) -> bool:
    try:
        return safe_path(name) == name and "/" not in name
    except PublishError:
        return False
