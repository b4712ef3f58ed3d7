"""Writing the page in which a browser checks bundles: apart from every bundle, for the keys of one office."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dprelease.canonical import sha256
from dprelease.errors import Problem, SpecError, Where
from dprelease.publish.bundle.checks.checking_page import checking_page
from dprelease.publish.manifest import MANIFEST_FILE
from dprelease.signature import PublicKey

__all__ = ["write_checking_page"]

_LONGEST = 200  # signs of whose a key is


def write_checking_page(page: Path, keys: Sequence[tuple[str, PublicKey]]) -> str:
    """Write the page; one that is there is replaced.

    Args:
        page: Where it goes.
        keys: As they were given, a file or a text, each with the key. What stands behind the key in a file is whose it
            is.

    Returns:
        The SHA-256 of the page, to be printed elsewhere.

    Raises:
        SpecError: If no key is given (DPR-K124), the place lies inside a bundle (DPR-K123), or it cannot be written
            (DPR-K125).
    """
    if not keys:
        says = "a page that checks signatures needs the keys that it stands for"
        raise _refused(
            "DPR-K124", page, says, "give the public key of the office, and its older ones: --key office.pub"
        )
    if any((folder / MANIFEST_FILE).exists() for folder in page.absolute().parents):
        says = "would lie inside a bundle, where whoever forges the bundle can forge the page"
        raise _refused("DPR-K123", page, says, "write it elsewhere, and host it at an address of your own")
    data = checking_page([(_whose(given, key), key) for given, key in keys])
    try:
        page.write_bytes(data)
    except OSError as error:
        says = f"cannot be written: {error.strerror or type(error).__name__}"
        raise _refused("DPR-K125", page, says, "name a file in a folder that exists") from error
    return sha256(data)


def _refused(code: str, page: Path, says: str, hint: str) -> SpecError:
    return SpecError([Problem(code, says, hint, Where(str(page)))])


def _whose(given: str, key: PublicKey) -> str:
    """The words behind a key in its file; else its fingerprint."""
    words = "" if given.startswith("ed25519:") else Path(given).read_text(encoding="utf-8", errors="replace")
    name = words.partition(key.text)[2].strip().partition("\n")[0].strip()
    return name[:_LONGEST] or f"the holder of key {key.fingerprint}"
