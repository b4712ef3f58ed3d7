"""What the author writes of a column: one that is read, or one that is computed from others of its row."""

from __future__ import annotations

from collections.abc import Mapping
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

from dprelease.catalog.table import ColumnType
from dprelease.spec.fields.value import FINGERPRINTED, SpecValue
from dprelease.spec.text.scalars import ColumnKey, Exact, Filled, Limit, Outside, Pair, Positive, Text

__all__ = ["ColumnSpec", "KeySpan", "ReferenceKeys"]


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
    labels: dict[str, Text] = Field({}, description="Key to the words that a reader sees.")
    range: Pair | None = Field(None, description="Public limits of a number: [low, high]. Sums and means need it.")
    step: Positive | None = Field(
        None, description="The grid to which values are rounded; left out: 1, and for a measured decimal far finer."
    )
    outside: Outside = Field("clamp", description="What becomes of a number outside its range.")
    null: ColumnKey | None = Field(None, description="The key that a null belongs to; left out: to no cell.")
    measured_in: Text = Field("", description="The unit of measurement, such as USD.")

    @model_serializer(mode="wrap")
    def _step_as_before(self, written: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """A step that is left out is not written; in a fingerprint it is the 1 that it was when it had a default.

        So a spec without one keeps its fingerprint, and finds the releases that were planned from it. A decimal whose
        step of 1 is written is another question by now, and has another fingerprint.
        """
        fields: dict[str, Any] = written(self)
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
