"""The noisy measurements of a release for research: the draws, their variances, and the recipe from them to tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dprelease.api.frames import Shown, figures, integers, key_values
from dprelease.api.releases import json_of, open_release
from dprelease.errors import CheckFailed
from dprelease.publish.bundle.measurements import measurement_columns
from dprelease.publish.bundle.step_files import RECIPE

__all__ = ["Measurements", "read_measurements"]


@dataclass(frozen=True, eq=False, repr=False)
class Measurements(Shown, Mapping[str, pd.DataFrame]):
    """By step what was drawn: the key columns, then whole numbers in steps of the grid of their part.

    Attributes:
        recipe: The content of ``measurements/recipe.json``: how each published number is made of the draws.
    """

    recipe: Mapping[str, Any]
    _frames: Mapping[str, pd.DataFrame]

    def __getitem__(self, step: str) -> pd.DataFrame:
        return self._frames[step].copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def steps(self) -> pd.DataFrame:
        """One row for each column of numbers: its grid, and the variance of its noise in squared grid steps.

        The variance is rounded up; missing where noise chose and nothing was added, and 0 of an exact total.
        """
        rows = [row for step in self.recipe["steps"] for row in _parts(step)]
        exact = {"mechanism": "none", "scale": "0", "part": "value", "grid": None}
        rows += [{**each, **exact, "what": each["measure"]} for each in self.recipe.get("invariants", ())]
        columns = {"step": "text", "part": "text", "what": "text", "holds": "text", "mechanism": "text"}
        return figures(rows, {**columns, "cells": "count", **dict.fromkeys(("grid", "scale", "variance"), "number")})

    def _told(self) -> tuple[str, Sequence[str], Mapping[str, pd.DataFrame]]:
        return f"measurements of {len(self)} steps", self.recipe["post_processing"], {"steps": self.steps}


def _parts(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row of the table of steps for each part of one; a selection has one part and no number."""
    columns = step["columns"][len(step["columns"]) - len(step["parts"]) :] if step["holds"] != "keys" else [""]
    return [{**step, **part, "part": name} for name, part in zip(columns, step["parts"], strict=False)]


def read_measurements(folder: str | os.PathLike[str], *, key: str = "") -> Measurements:
    """The noisy measurements of a published release; they are private already, so that any use of them is free.

    Args:
        folder: As in ``dprelease.open``, or a release.
        key: Likewise.

    Raises:
        PublishError, CheckFailed: As ``dprelease.open``; or if the measurements are not those of the plan.
    """
    release = open_release(folder, key=key)
    bundle, plan = release._bundle, release._plan
    measured, why = bundle.measured
    if measured is None:
        raise CheckFailed(why, hint="`dprelease verify` says what is wrong with the bundle", code="DPR-C110")
    frames = {}
    for step, columns, rows, numbers in measurement_columns(plan, measured):
        keys = {
            column.name: key_values(column, list(held.keys), held.codes)
            for column, held in zip(columns, rows.columns, strict=True)
        }
        frames[step] = pd.DataFrame({**keys, **{name: integers(values) for name, values in numbers.items()}})
    return Measurements(json_of(bundle, RECIPE), frames)
