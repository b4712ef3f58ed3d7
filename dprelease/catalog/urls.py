"""Places that are URLs: of a ledger, of a database of rows; secrets only as ``${env:NAME}``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

__all__ = ["HOLD", "VARIABLE", "Scheme", "encoded", "in_place", "user_part"]

VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
HOLD = "\0"  # stands for a variable


@dataclass(frozen=True)
class Scheme:
    """How the place of a ledger or a database of one kind is written.

    Attributes:
        prefixes: What its URL begins with, the usual one first; schemes of servers in either case (RFC 3986, section
            3.1).
        example: A whole one, for hints.
        same: Of a server, whose URL may hold a user and a password: gives one text for all URLs of one place. None: the
            rest is the path of a file, as it is.
    """

    prefixes: tuple[str, ...]
    example: str
    same: Callable[[str], str] | None = None

    def takes(self, url: str) -> bool:
        """Whether this is such a place: it begins as one, and there is something behind."""
        whole = url if self.same is None else url.lower()
        return any(whole.startswith(prefix) and len(url) > len(prefix) for prefix in self.prefixes)


def in_place(written: str, environment: Mapping[str, str], schemes: Iterable[Scheme]) -> str:
    """A place with its variables filled in; it may hold a password, and is never shown (``written`` may be).

    What stands for a user or a password in the text of a server is percent-encoded: the variable holds it as it is.

    Raises:
        KeyError: With the name of a variable that is not set.
    """
    known = tuple(schemes)
    before = len(written.partition("//")[0]) + 2 + len(user_part(written, known)) if "//" in written else 0

    def value(found: re.Match[str]) -> str:
        given = environment[found[1]]
        return encoded(given) if found.end() <= before and _server(written, known) else given

    return VARIABLE.sub(value, written)


def _server(text: str, schemes: Iterable[Scheme]) -> bool:
    return any(scheme.same is not None and text.lower().startswith(scheme.prefixes) for scheme in schemes)


def user_part(text: str, schemes: Iterable[Scheme]) -> str:
    """What stands before the last ``@`` of the text of a server, which ends user and password; else nothing."""
    if not _server(text, schemes) and not text.startswith(HOLD):
        return ""
    _, slashes, rest = text.partition("//")
    authority = (rest if slashes else text).split("?")[0]
    return authority.rpartition("@")[0]


def encoded(text: str) -> str:
    """Percent-encoded, but for what RFC 3986 never wants to be (section 2.3): letters, digits, and four signs."""
    raw = text.encode(errors="surrogateescape")  # a variable need not be text
    return "".join(
        chr(byte) if byte < 128 and (chr(byte).isalnum() or chr(byte) in "-._~") else f"%{byte:02X}" for byte in raw
    )
