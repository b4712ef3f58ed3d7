"""``manifest.json``: every other file of a bundle with its size and hash, and what they were made from."""

from __future__ import annotations

from typing import ClassVar, Literal

from dprelease.canonical import GrownValue, Value

__all__ = ["MANIFEST_FILE", "FileFacts", "LedgerFacts", "Manifest"]

MANIFEST_FILE = "manifest.json"


class FileFacts(Value):
    """What the manifest says of a file."""

    sha256: str
    bytes: int


class LedgerFacts(GrownValue):
    """The ledger entry that charged the release; ``id`` is which ledger, and is not written where it is not known."""

    LATER: ClassVar[tuple[str, ...]] = ("id",)
    sequence: int
    hash: str
    reserved_at: str
    id: str = ""


class Manifest(Value):
    """Every other file of a bundle, and what they were made from; ``manifest.json`` is its canonical JSON."""

    format: Literal[1] = 1
    release: str
    period: str
    files: dict[str, FileFacts]
    plan_fingerprint: str
    spec_fingerprint: str
    ledger: LedgerFacts
    rehearsal: bool
    signature: Literal["unsigned", "manifest.sig"] = "unsigned"
    signer: str = ""
    rendered_with: dict[str, str] = {}

    def to_bytes(self) -> bytes:
        """The bytes of the file."""
        return (self.canonical() + "\n").encode()
