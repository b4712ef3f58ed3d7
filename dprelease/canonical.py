"""Identity of values: equal values have equal bytes, and a fingerprint of them.

Canonical JSON here is UTF-8, sorted keys, no spaces, and **no floating-point numbers**: privacy parameters
and scales are exact rationals, written as ``"3/2"``; anything rounded is a decimal string.

>>> dumps({"b": Fraction(3, 2), "a": [1, "x"]})
'{"a":[1,"x"],"b":"3/2"}'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, GetPydanticSchema
from pydantic_core import core_schema

__all__ = ["Value", "dumps", "fingerprint", "one_of", "sha256"]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(mode="json"))
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no canonical form")


def dumps(value: Any) -> str:
    """Canonical JSON text of a value.

    Raises:
        TypeError: For a float or any other type without one exact text.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def fingerprint(value: Any) -> str:
    """Hexadecimal SHA-256 of the canonical JSON of a value."""
    return sha256(dumps(value).encode())


class Value(BaseModel):
    """A frozen value whose identity is its content; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
    __slots__ = ("_known_fingerprint", "_known_hash")  # no fields: a copy, which may differ, starts without them

    def __hash__(self) -> int:
        """Of all fields; worked out once, for hashing nested rationals is what planning did most."""
        try:
            known: int = object.__getattribute__(self, "_known_hash")
        except AttributeError:
            known = hash((type(self), *self.__dict__.values()))
            object.__setattr__(self, "_known_hash", known)
        return known

    def canonical(self) -> str:
        """Canonical JSON text."""
        return dumps(self)

    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of the canonical JSON; worked out once, for a table may have 100,000 keys."""
        try:
            known: str = object.__getattribute__(self, "_known_fingerprint")
        except AttributeError:
            known = fingerprint(self)
            object.__setattr__(self, "_known_fingerprint", known)
        return known

    @classmethod
    def from_canonical(cls, text: str | bytes) -> Self:
        """Read back what :meth:`canonical` wrote."""
        return cls.model_validate_json(text)


def one_of(names: Iterable[str]) -> GetPydanticSchema:
    """What makes a field of text take these names and no other, as ``Literal`` does where they are written out.

    Args:
        names: The keys of a table, which are read once; ``Annotated[str, one_of(TABLE)]`` is the type of the field.
    """
    return GetPydanticSchema(lambda _source, _handler: core_schema.literal_schema(list(names)))
