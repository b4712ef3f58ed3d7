"""What every mapping of a file is, once it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from dprelease.canonical import Value, dumps, fingerprint

__all__ = ["FINGERPRINTED", "SpecValue"]

FINGERPRINTED = object()  # the context in which a value is written for its fingerprint, and for no reader


class SpecValue(Value):
    """A frozen value that an author writes; its canonical form has the names of the file.

    Attributes:
        LATER: Fields that there were not from the beginning, to the value that says nothing. With it a field is left
            out of the canonical form: specs without it keep the text and the fingerprint that they had before.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=True)
    LATER: ClassVar[Mapping[str, Any]] = {}

    @model_serializer(mode="wrap")
    def _without_unsaid(self, written: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        unsaid = {name for name, nothing in self.LATER.items() if getattr(self, name) == nothing}
        return {name: each for name, each in written(self).items() if name not in unsaid}

    def canonical(self) -> str:
        """Canonical JSON text, by the names of the file."""
        return dumps(self.model_dump(mode="json", by_alias=True))

    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of the canonical content; layout and comments are no part of it."""
        return fingerprint(self.model_dump(mode="json", by_alias=True, context=FINGERPRINTED))
