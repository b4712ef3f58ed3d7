"""What the author writes of a column, read or computed from others of its row; and the keys that a spec spells out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, Any, ClassVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationInfo,
    model_serializer,
)
from pydantic.config import JsonDict
from pydantic_core import PydanticKnownError

from dprelease.catalog.table import Binned, ColumnType, Key
from dprelease.spec.fields.collected import CollectSpec
from dprelease.spec.fields.published.told import Labels, Told
from dprelease.spec.fields.value import FINGERPRINTED, SpecValue
from dprelease.spec.text.numbers import Numeral
from dprelease.spec.text.scalars import ColumnKey, Exact, Filled, Flag, Limit, Outside, Pair, Positive, day

__all__ = [
    "MOST_KEYS",
    "ColumnSpec",
    "KeySpan",
    "ReferenceKeys",
    "label_key",
    "label_text",
    "named_key",
    "span_size",
    "spelled_out",
    "type_of",
]


class ReferenceKeys(SpecValue):
    """The distinct values of a reference's column, in the order of the file."""

    reference: Filled = Field(description="A name under `references`.")
    column: Filled | None = Field(None, description="Of the reference; left out: the column of the same name.")


class KeySpan(SpecValue):
    """Every whole number, or every day, from the first to the last."""

    from_: Limit = Field(alias="from", description="The first key.")
    to: Limit = Field(description="The last key.")


def _form_of_keys(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return "<list>"
    if isinstance(value, Mapping):
        return "<span>" if {"from", "to"} & set(value) else "<reference>"
    if isinstance(value, KeySpan):
        return "<span>"
    return "<reference>" if isinstance(value, ReferenceKeys) else None


Keys = Annotated[
    Annotated[tuple[ColumnKey, ...], Tag("<list>")]
    | Annotated[ReferenceKeys, Tag("<reference>")]
    | Annotated[KeySpan, Tag("<span>")],
    Discriminator(_form_of_keys),
]


def _one_of_three(schema: JsonDict) -> None:
    """Only a column of bins or of a map may leave its type out."""
    required = [name for name in schema.get("required", []) if name != "type"]  # type: ignore[union-attr]  # a list of names
    schema.pop("required", None)
    if required:
        schema["required"] = required
    schema["anyOf"] = [{"required": [name]} for name in ("type", "bin", "map")]


def _type(value: Any, info: ValidationInfo) -> Any:
    """Bands and mapped values are text where nothing else is said; a part that is wrong in itself is told as that."""
    if value is not None:
        return value
    if any(info.data.get(way, "wrong in itself") is not None for way in ("bin", "map")):
        return "text"
    raise PydanticKnownError("missing")


class ColumnSpec(SpecValue):
    """One column, as everybody may know it: nothing here is ever looked up in the data."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra=_one_of_three)

    bin: Filled | None = Field(None, description="A number declared above: this column is its band, by `edges`.")
    map: Filled | None = Field(None, description="A column declared above, whose values get the keys in `to`.")
    type: Annotated[ColumnType, BeforeValidator(_type)] = Field(
        None, validate_default=True, description="How its values are read; left out of bands and maps: text."
    )
    edges: tuple[Exact, ...] | None = Field(None, description="Rising; [0, 18, 65] gives the keys [0,18) and [18,65).")
    to: dict[str, ColumnKey] | None = Field(None, description="Value of the mapped column to the key that it gets.")
    otherwise: ColumnKey | None = Field(None, description="The key of values that `to` does not list; else null.")
    sql: Filled | None = Field(None, description="An expression over columns declared above, row by row.")
    keys: Keys | None = Field(None, description="Its public values: a list, a reference's column, or {from, to}.")
    labels: Labels = Field({}, description="Key to the words that a reader sees; or a column of a reference.")
    title: Told = Field("", description="What a reader sees in the place of its name.")
    description: Told = Field("", description="What it is.")
    range: Pair | None = Field(None, description="Public limits of a number: [low, high]. Sums and means need it.")
    step: Positive | None = Field(
        None, description="The grid to which values are rounded; left out: 1, and for a measured decimal far finer."
    )
    outside: Outside = Field("clamp", description="What becomes of a number outside its range.")
    null: ColumnKey | None = Field(None, description="The key that a null belongs to; left out: to no cell.")
    measured_in: Told = Field("", description="The unit of measurement, such as USD.")
    partition: Flag = Field(False, description="Its value stands in the paths of the files, in folders `column=value`.")
    collect: CollectSpec | None = Field(None, description="How its values were randomized before they were collected.")

    @model_serializer(mode="wrap")
    def _step_as_before(self, written: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """A step that is left out is not written; in a fingerprint it is the 1 that it was when it had a default.

        So a spec without one keeps its fingerprint, and finds the releases that were planned from it. A decimal whose
        step of 1 is written is another question by now, and has another fingerprint.
        """
        fields: dict[str, Any] = written(self)
        for name in ("partition", "title", "description", "collect"):  # which came later
            if not fields[name]:
                del fields[name]
        if info.context is FINGERPRINTED:
            if self.step is None or (self.step == 1 and self.type == "decimal"):
                fields["step"] = "1" if self.step is None else "1/1"
        elif self.step is None:
            del fields["step"]
        return fields

    @property
    def is_derived(self) -> bool:
        """Whether it is computed from other columns, not read."""
        return self.bin is not None or self.map is not None or self.sql is not None

    @property
    def has_keys(self) -> bool:
        """Whether its public values are declared: as keys, as bands or as the targets of a map."""
        return self.keys is not None or self.bin is not None or self.map is not None


MOST_KEYS = 1_000_000


def label_text(key: Key) -> str:
    """A key as the name of a label: ``true`` and ``false`` in small letters."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def label_key(name: str, kind: ColumnType) -> str:
    """The key that the name of a label means, as text: ``01`` is 1 in an integer column.

    >>> label_key("01", "integer"), label_key("01", "text"), label_key("True", "boolean")
    ('1', '01', 'true')
    """
    whole = Numeral(name).whole
    if kind == "integer" and whole is not None:
        return str(whole)
    return name.lower() if kind == "boolean" else name


def named_key(name: str, kind: ColumnType) -> Key | None:
    """The value that a name in a mapping means, by the type of its column; None where it means none.

    >>> named_key("01", "integer"), named_key("01", "text"), named_key("True", "boolean"), named_key("x", "date")
    (1, '01', True, None)
    """
    if kind == "integer":
        whole = Numeral(name).whole
        return whole if whole is not None and abs(whole) < 2**63 else None
    if kind == "boolean":
        return {"true": True, "false": False}.get(name.lower())
    return name if kind == "text" or (kind == "date" and day(name) is not None) else None


def type_of(span: KeySpan) -> ColumnType | None:
    """The type of column that a span fits; None where its ends are of two types."""
    ends = {type(span.from_), type(span.to)}
    return {frozenset({int}): "integer", frozenset({str}): "date"}.get(frozenset(ends))  # type: ignore[return-value]  # two members of ColumnType


def span_size(span: KeySpan) -> int:
    """How many keys a span of one type has; not positive where it is upside down."""
    if isinstance(span.from_, int) and isinstance(span.to, int):
        return span.to - span.from_ + 1
    return (date.fromisoformat(str(span.to)) - date.fromisoformat(str(span.from_))).days + 1


def spelled_out(column: ColumnSpec) -> tuple[Key, ...] | None:
    """The keys of a column in order, where the spec itself says them; None where a reference does, or nothing.

    A span must be of one type, not upside down, and within the limit; bands must be sound. The keys of a map are its
    targets in the order in which they first appear, and then the key of all other values.
    """
    if column.bin is not None:
        return Binned(of=column.bin, edges=column.edges or ()).labels
    if column.map is not None:
        last = () if column.otherwise is None else (column.otherwise,)
        return tuple(dict.fromkeys((*(column.to or {}).values(), *last)))
    if isinstance(column.keys, tuple):
        return column.keys
    if not isinstance(column.keys, KeySpan):
        return None
    first = column.keys.from_
    if isinstance(first, int):
        return tuple(range(first, first + span_size(column.keys)))
    start = date.fromisoformat(first)
    return tuple((start + timedelta(days=number)).isoformat() for number in range(span_size(column.keys)))
