"""What every mapping of a file is, once it is read."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict

from dprelease.canonical import Value, dumps, fingerprint

__all__ = ["FINGERPRINTED", "SpecValue"]

FINGERPRINTED = object()  # the context in which a value is written for its fingerprint, and for no reader


class SpecValue(Value):
    """A frozen value that an author writes; its canonical form has the names of the file."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=True)

    def canonical(self) -> str:
        """Canonical JSON text, by the names of the file."""
        return dumps(self.model_dump(mode="json", by_alias=True))

    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of the canonical content; layout and comments are no part of it."""
        return fingerprint(self.model_dump(mode="json", by_alias=True, context=FINGERPRINTED))
