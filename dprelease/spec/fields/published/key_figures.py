"""What the author writes of the numbers that a front page begins with."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.scalars import AsWritten, Filled

__all__ = ["KeyFigureSpec", "KeyFigures"]


class KeyFigureSpec(SpecValue):
    """One published number, by its place."""

    table: Filled = Field(description="A published table: a query, or a table of its `marginals`.")
    measure: Filled = Field(description="A number of that table, by its name.")
    keys: dict[str, AsWritten] = Field({}, description="For each key column of the table a key: the row.")


KeyFigures = Annotated[tuple[KeyFigureSpec, ...], Field(max_length=6)]
