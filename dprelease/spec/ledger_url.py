"""``ledger:`` of a project: the place of a ledger, as its stores take one; secrets only as ``${env:NAME}``.

Which stores there are is handed in (``ledger.LEDGERS``): they stand on a floor above this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dprelease.errors import LedgerError
from dprelease.spec.text.scalars import kind_of, refuse

__all__ = ["Scheme", "encoded", "ledger_resolved", "ledger_text", "misplaced"]

_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_PASSWORD = re.compile(r"[?&](?:ssl)?password=([^&]*)", re.IGNORECASE)
_HOLD = "\0"  # stands for a variable


@dataclass(frozen=True)
class Scheme:
    """How the place of a ledger in one kind of store is written.

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


def ledger_text(value: Any) -> str:
    """What an author writes of a ledger is text.

    Raises:
        PydanticCustomError: If it is something else.
    """
    if not isinstance(value, str):
        raise refuse("DPR-S220", f"is {kind_of(value)}, no ledger", "write the place of one, in quotes where in doubt")
    return value


def misplaced(written: str, schemes: Iterable[Scheme]) -> tuple[str, str, str] | None:
    """What is wrong with the place of a ledger: code, words and hint; a variable may be all of it, or stand in it.

    It is no place of any store, or has a password in it: the file is no place for secrets. None: it is good.
    """
    bare, known = _VARIABLE.sub(_HOLD, written), tuple(schemes)
    if not bare.startswith(_HOLD) and not any(scheme.takes(bare) for scheme in known):
        # What looks like a server may have a password in it, which no message repeats.
        what = "names no place that a ledger can be in" if "@" in written else f"is {kind_of(written)}, no ledger"
        return "DPR-S220", what, "write " + ", or ".join(f"`ledger: {scheme.example}`" for scheme in known)
    _, colon, password = _user_part(bare, known).partition(":")
    passwords = [password] if colon else []
    if any(each.strip(_HOLD) for each in [*passwords, *_PASSWORD.findall(bare)]):
        hint = "write ${env:NAME} in its place, such as postgresql://user:${env:DPRELEASE_PASSWORD}@host/database"
        return "DPR-S226", "holds a password", hint
    return None


def ledger_resolved(written: str, environment: Mapping[str, str], schemes: Iterable[Scheme]) -> str:
    """The place of a ledger with its variables; it may hold a password, and is never shown (``written`` may be).

    What stands for a user or a password in the text of a server is percent-encoded: the variable holds it as it is.
    Every text of one server becomes the same one (``Scheme.same``), for a ledger knows its place by its text.

    Args:
        written: A place in which :func:`misplaced` finds nothing wrong.
        environment: What variables may name.
        schemes: The schemes of the stores that there are.

    Raises:
        LedgerError: If a variable is not set, or does not give the place of a ledger; quotes no value of any.
    """
    known = tuple(schemes)
    before = len(written.partition("//")[0]) + 2 + len(_user_part(written, known)) if "//" in written else 0

    def value(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise LedgerError(
                f"the environment variable {found[1]} is not set; `ledger: {written}` needs it",
                hint=f"export {found[1]}=... and run the same command again",
                code="DPR-L145",
            )
        given = environment[found[1]]
        return encoded(given) if found.end() <= before and _server(written, known) else given

    place = _VARIABLE.sub(value, written)
    taking = next((scheme for scheme in known if scheme.takes(place)), None)
    if taking is None or "\0" in place:
        beginnings = " and ".join(scheme.prefixes[0] for scheme in known)
        raise LedgerError(
            f"`ledger: {written}` gives no place of a ledger: it begins with none of {beginnings}",
            hint="correct the environment variable, or write the place in dprelease.yaml",
            code="DPR-L145",
        )
    return place if taking.same is None else taking.same(place)


def _server(text: str, schemes: Iterable[Scheme]) -> bool:
    return any(scheme.same is not None and text.lower().startswith(scheme.prefixes) for scheme in schemes)


def _user_part(text: str, schemes: Iterable[Scheme]) -> str:
    """What stands before the last ``@`` of the text of a server, which ends user and password; else nothing."""
    if not _server(text, schemes) and not text.startswith(_HOLD):
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
