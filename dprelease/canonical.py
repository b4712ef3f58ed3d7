"""Identity of values: equal values have equal bytes, and a fingerprint of them.

Canonical JSON here is UTF-8, sorted keys, no spaces, and **no floating-point numbers**: privacy parameters
and scales are exact rationals, written as ``"3/2"``; anything rounded is a decimal string.

>>> dumps({"b": Fraction(3, 2), "a": [1, "x"]})
'{"a":[1,"x"],"b":"3/2"}'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

__all__ = ["GrownValue", "Value", "dumps", "fingerprint", "indented", "one_of", "sha256"]

T = TypeVar("T")


_ATOMS = (str, int, bool, type(None))


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is dict:  # first and without a call for each item: what a plan of a thousand queries consists of
        return {
            key if type(key) is str else str(key): item if type(item) in _ATOMS else _plain(item)
            for key, item in value.items()
        }
    if kind is list:
        return [item if type(item) in _ATOMS else _plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(mode="json"))
    if isinstance(value, dict):
        return _plain(dict(value))
    if isinstance(value, list | tuple):
        return _plain(list(value))
    raise TypeError(f"{type(value).__name__} has no canonical form")


def dumps(value: Any) -> str:
    """Canonical JSON text of a value.

    Raises:
        TypeError: For a float or any other type without one exact text.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def indented(value: Any, *, plain: bool = False) -> str:
    """JSON for people: what ``json.dumps(value, indent=1)`` writes, several times as fast.

    The encoder of the standard library that is written in C knows no indent.

    >>> indented({"a": [1, "ä"], "b": {}}) == json.dumps({"a": [1, "ä"], "b": {}}, indent=1, ensure_ascii=False)
    True

    Args:
        value: Of dictionaries with texts as keys, lists, tuples, texts, numbers, booleans and None.
        plain: Whether every sign beyond ASCII is written as its number.

    Raises:
        ValueError: For a number that JSON cannot hold.
        TypeError: For a value or a key of another type.
    """
    return _with_lines(value, "\n", encode_basestring_ascii if plain else encode_basestring)


def _with_lines(value: Any, line: str, quoted: Callable[[str], str]) -> str:
    below = line + " "
    if isinstance(value, dict) and value:
        items = [
            f"{quoted(key)}: {quoted(item) if type(item) is str else _with_lines(item, below, quoted)}"
            if type(item) is not int
            else f"{quoted(key)}: {item}"
            for key, item in value.items()
        ]
        return f"{{{below}{f',{below}'.join(items)}{line}}}"
    if isinstance(value, list | tuple) and value:
        items = [quoted(item) if type(item) is str else _with_lines(item, below, quoted) for item in value]
        return f"[{below}{f',{below}'.join(items)}{line}]"
    if isinstance(value, str):
        return quoted(value)
    if type(value) is int:  # what the encoder writes of it, without a call of the encoder
        return int.__repr__(value)
    if value is True or value is False:
        return "true" if value else "false"
    return "null" if value is None else json.dumps(value, allow_nan=False)


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def fingerprint(value: Any) -> str:
    """Hexadecimal SHA-256 of the canonical JSON of a value."""
    return sha256(dumps(value).encode())


@dataclass(frozen=True)
class one_of:  # noqa: N801 - stands in annotations, as `Field` does, in the place of a `Literal`
    """A field's type is one of the names of a closed table: as ``Literal``, but read from the table itself.

    Attributes:
        names: Gives the names, in the order in which an error and the JSON Schema list them.
    """

    names: Callable[[], Iterable[str]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Refuse what is no name of the table, with the error of a ``Literal``."""
        return core_schema.no_info_plain_validator_function(self._known)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The JSON Schema of a ``Literal`` with these names."""
        return {"enum": [*self.names()], "type": "string"}

    def _known(self, value: Any) -> str:
        known = [*self.names()]
        if isinstance(value, str) and value in known:
            return value
        expected = " or ".join(filter(None, (", ".join(map(repr, known[:-1])), repr(known[-1]))))
        raise PydanticKnownError("literal_error", {"expected": expected})


_NAMES: dict[type[BaseModel], set[str]] = {}  # of the fields of a type; no copy of a value changes it
_set = object.__setattr__


class Value(BaseModel):
    """A frozen value whose identity is its content; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
    # No fields: a copy, which may differ, starts without them.
    __slots__ = ("_known_fingerprint", "_known_hash", "_known_results")

    def __hash__(self) -> int:
        """The hash of all fields; worked out once, for hashing nested rationals is what planning did most."""
        try:
            known: int = object.__getattribute__(self, "_known_hash")
        except AttributeError:
            known = hash((type(self), *self.__dict__.values()))
            object.__setattr__(self, "_known_hash", known)
        return known

    def __eq__(self, other: object) -> bool:
        """Equal types and fields; that these are equal is told at once, and pydantic has the word on all else."""
        if self is other or (type(self) is type(other) and self.__dict__ == other.__dict__):
            return True
        return super().__eq__(other)

    def canonical(self) -> str:
        """Canonical JSON text."""
        return dumps(self)

    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of the canonical JSON; worked out once, for a table may have 100,000 keys."""
        try:
            known: str = object.__getattribute__(self, "_known_fingerprint")
        except AttributeError:
            known = sha256(self.canonical().encode())
            object.__setattr__(self, "_known_fingerprint", known)
        return known

    def once(self, work: Callable[[Self], T]) -> T:
        """What a pure function makes of this value, worked out when it is first asked for.

        Args:
            work: Defined in a module, and of nothing but the value: not of the language that is spoken, for one.
        """
        try:
            known: dict[Callable[..., Any], Any] = object.__getattribute__(self, "_known_results")
        except AttributeError:
            known = {}
            object.__setattr__(self, "_known_results", known)
        if work not in known:
            known[work] = work(self)
        found: T = known[work]
        return found

    @classmethod
    def of_checked(cls, fields: dict[str, Any]) -> Self:
        """A value of fields that were checked: what ``model_construct`` does in three times as long.

        Args:
            fields: All of its fields in their order, on which its hash depends; each of its type.
        """
        if cls not in _NAMES:
            _NAMES[cls] = set(cls.model_fields)
        value = cls.__new__(cls)
        _set(value, "__dict__", fields)
        _set(value, "__pydantic_fields_set__", _NAMES[cls])
        _set(value, "__pydantic_extra__", None)
        _set(value, "__pydantic_private__", None)
        return value

    @classmethod
    def from_canonical(cls, text: str | bytes) -> Self:
        """Read back what :meth:`canonical` wrote."""
        return cls.model_validate_json(text)

    @classmethod
    def reread(cls, text: str | bytes) -> Self:
        """The same of a large text that one process reads more than once, such as a plan's: the last is remembered.

        A line end behind it, as a file has it, makes no other text.
        """
        try:
            plain = (text if isinstance(text, str) else text.decode()).removesuffix("\n")
        except UnicodeDecodeError:
            return cls.from_canonical(text)
        known: Self = _last_read(cls, plain)
        return known


@lru_cache(maxsize=1)
def _last_read(kind: type[Value], text: str) -> Any:
    return kind.from_canonical(text)


class GrownValue(Value):
    """A value that got fields after some were stored; one that says nothing in them is written as it was before.

    So plans, entries of ledgers and bundles keep the text and the fingerprint that they had. A subclass with a
    serializer of its own must leave the fields out itself: only the last one is called.

    Attributes:
        LATER: The names of these fields; one that has its default is not written.
    """

    LATER: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_later_fields(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = written(self)
        unsaid = {key for name, keys, default in _later(type(self)) if getattr(self, name) == default for key in keys}
        return {name: each for name, each in fields.items() if name not in unsaid}


@lru_cache(maxsize=1 << 8)
def _later(kind: type[GrownValue]) -> tuple[tuple[str, tuple[str, ...], Any], ...]:
    """Of each later field its name, the names by which it is written, and its default."""
    fields = kind.model_fields
    return tuple((name, (name, fields[name].alias or name), fields[name].default) for name in kind.LATER)
