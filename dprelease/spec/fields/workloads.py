"""What the author writes of a workload: a set of tables of counts, planned, measured and reconciled as one.

Every (level, set of columns) is one published table. Without ``levels`` there is one level, the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.config import JsonDict

from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.advice import EXAMPLES
from dprelease.spec.text.numbers import Constant
from dprelease.spec.text.scalars import NUMBER, Filled, Positive, Whole, exact_number, refuse

if TYPE_CHECKING:  # it reads this
    pass

__all__ = [
    "TOTAL",
    "TOTAL_KEY",
    "Hierarchies",
    "InvariantSpec",
    "Levels",
    "MarginalsSpec",
    "Minimize",
    "PostProcess",
    "PublishedSet",
    "SharesSpec",
    "WorkloadShares",
    "set_of",
]

TOTAL = "total"  # the name of the table without columns
TOTAL_KEY = "_total"  # what stands for all keys of a column in the rows of totals
Hierarchies = Mapping[str, tuple[str, ...]]
PostProcess = Literal["consistent", "nonnegative", "integer"]
Minimize = Literal["tables", "cells", "worst"]
_NOT_OF: JsonDict = {"not": {"anyOf": [{"required": ["of"]}, {"required": ["ways"]}]}}
_FORMS: JsonDict = {"oneOf": [{"required": ["of", "ways"]}, {"required": ["sets"], **_NOT_OF}]}
_PARTS: dict[str, Any] = {"anyOf": [NUMBER, {"type": "array", "items": {"anyOf": [NUMBER, {"const": None}]}}]}


def _at_least(least: int, hint: str) -> AfterValidator:
    """A list of so many items; told only where every item is right by itself."""

    def check(value: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(value) < least:
            items = "item" if len(value) == 1 else "items"
            raise refuse("DPR-S210", f"has {len(value)} {items}, not at least {least}", hint)
        return value

    return AfterValidator(check)


Levels = Annotated[
    tuple[Filled, ...],
    _at_least(2, EXAMPLES["hierarchies.*"]),
    Field(json_schema_extra={"minItems": 2}),
]
Ways = Annotated[tuple[Whole, ...], _at_least(1, EXAMPLES["queries.*.marginals.ways"])]
Sets = Annotated[tuple[tuple[Filled, ...], ...], _at_least(1, EXAMPLES["queries.*.marginals.sets"])]


class MarginalsSpec(SpecValue):
    """Which tables: all of so many of some columns, or sets of columns one by one."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra=_FORMS)
    of: tuple[Filled, ...] | None = Field(None, description="Columns with keys, of which tables are made.")
    ways: Ways | None = Field(
        None,
        json_schema_extra={"minItems": 1},
        description="How many of the columns a table has: [0, 1, 2] is all up to two; 0 the total.",
    )
    sets: Sets | None = Field(
        None, json_schema_extra={"minItems": 1}, description="Instead: the columns of each table; [] is the total."
    )
    minimize: Minimize = Field(
        "tables", description="Which errors: of every table the same, of all cells together, or that of the worst cell."
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.sets is None) == (self.of is None and self.ways is None):
            found = "neither `of` nor `sets`" if self.sets is None else "`sets` beside `of` and `ways`"
        elif self.sets is None and (self.of is None or self.ways is None):
            found = "`of` without `ways`" if self.ways is None else "`ways` without `of`"
        else:
            return self
        hint = "write one: `{of: [sex, race], ways: [0, 1, 2]}` or `{sets: [[sex, race], [sex], []]}`"
        raise refuse("DPR-S227", f"has {found}", hint)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The columns that the tables are made of, in order of first mention."""
        if self.of is not None:
            return self.of
        return tuple(dict.fromkeys(column for columns in self.sets or () for column in columns))

    @property
    def number(self) -> int:
        """How many tables a level has; counted without making them."""
        return len(self.sets or ()) + sum(comb(len(self.of or ()), way) for way in self.ways or () if way >= 0)

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """The columns of every table of a level: fewer columns first, then as written; columns by first mention.

        >>> MarginalsSpec(sets=(("sex", "race"), ("race",), ())).tables
        ((), ('race',), ('sex', 'race'))
        >>> MarginalsSpec(of=("sex", "race"), ways=(2, 1)).tables
        (('sex',), ('race',), ('sex', 'race'))
        """
        if self.of is not None:
            return tuple(found for ways in sorted(self.ways or ()) for found in combinations(self.of, ways))
        return tuple(sorted((set_of(columns, self.attributes) for columns in self.sets or ()), key=len))


def set_of(columns: tuple[str, ...], attributes: tuple[str, ...]) -> tuple[str, ...]:
    """Columns in the order of the attributes that they are.

    >>> set_of(("race", "sex"), ("sex", "race"))
    ('sex', 'race')
    """
    return tuple(sorted(columns, key=attributes.index))


def _part(value: Any) -> Fraction | None:
    if value is None or (isinstance(value, Constant) and value.value is None):
        return None
    number = exact_number(value)
    if number <= 0:
        hint = "write a fraction such as 1/4, or `null` for a table that is not measured at that level"
        raise refuse("DPR-S205", "is zero" if number == 0 else "is negative", hint)
    return number


def _parts(value: Any) -> Any:
    """One share for every level, or a list with one for each; the checks hold it against the levels."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


Parts = Annotated[
    tuple[Annotated[Fraction | None, BeforeValidator(_part)], ...],
    BeforeValidator(_parts),
    WithJsonSchema(_PARTS),
]


class SharesSpec(SpecValue):
    """How the budget of a workload is divided among its tables, which are then measured one by one."""

    levels: dict[str, Positive] = Field({}, description="Level to its part; together exactly 1. Left out: equal parts.")
    tables: dict[str, Parts] = Field(
        {},
        description="Table, such as `race*sex` or `total`, to its part at every level, or at each, top first: "
        "`[1/4, null]`; null: not measured there; together exactly 1 at each level. Left out: equal parts.",
    )


class InvariantSpec(SpecValue):
    """A number that is published as it is, and protects nobody."""

    query: Filled = Field(description="A name under `queries`.")
    measure: Filled = Field(description="A count of rows of that query.")
    why: Filled = Field(description="Which law or agreement asks for it; the report says so.")


class PublishedSet(NamedTuple):
    """One table of a workload.

    Attributes:
        level: The column of its level, which is its first key column; None without a hierarchy.
        columns: The other key columns.
        name: The name of the table and of its files.
    """

    level: str | None
    columns: tuple[str, ...]
    name: str

    @property
    def keys(self) -> tuple[str, ...]:
        """Its key columns, in published order."""
        return self.columns if self.level is None else (self.level, *self.columns)


class WorkloadShares(NamedTuple):
    """Shares as exact parts of 1, none left out.

    Attributes:
        levels: The levels of each level, top first; of one level 1.
        tables: The tables of each set of columns (as in ``PublishedSet.columns``) at each level, top first; 0: not
        measured.
    """

    levels: tuple[Fraction, ...]
    tables: Mapping[tuple[str, ...], tuple[Fraction, ...]]
