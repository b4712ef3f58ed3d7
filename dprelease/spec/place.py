"""``ledger:`` of a project: a file or a PostgreSQL server; secrets only as ``${env:NAME}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dprelease.errors import LedgerError
from dprelease.spec.fields import kind_of, refuse

__all__ = ["ledger_as_written", "ledger_resolved"]

_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_SQLITE, _SERVERS = "sqlite:///", ("postgresql://", "postgres://")
_PASSWORD = re.compile(r"[?&](?:ssl)?password=([^&]*)", re.IGNORECASE)
_HOLD = "\0"  # stands for a variable
_HINT = "write `ledger: sqlite:///state/ledger.db`, or `ledger: postgresql://user@host/database`"


def ledger_as_written(value: Any) -> str:
    """The place of a ledger as an author may write it; a variable may be all of it, or stand in it.

    Raises:
        PydanticCustomError: If it is no such place, or has a password in it: the file is no place for secrets.
    """
    if not isinstance(value, str):
        raise refuse("DPR-S220", f"is {kind_of(value)}, no ledger", _HINT)
    bare = _VARIABLE.sub(_HOLD, value)
    if not bare.startswith(_HOLD) and not _is_place(bare):
        # What looks like a server may have a password in it, which no message repeats.
        what = "names no place that a ledger can be in" if "@" in value else f"is {kind_of(value)}, no ledger"
        raise refuse("DPR-S220", what, _HINT)
    _, colon, password = _user_part(bare).partition(":")
    written = [password] if colon else []
    if any(each.strip(_HOLD) for each in [*written, *_PASSWORD.findall(bare)]):
        hint = "write ${env:NAME} in its place, such as postgresql://user:${env:DPRELEASE_PASSWORD}@host/database"
        raise refuse("DPR-S226", "holds a password", hint)
    return value


def ledger_resolved(written: str, environment: Mapping[str, str]) -> str:
    """The place of a ledger with its variables; it may hold a password, and is never shown (``written`` may be).

    What stands for a user or a password in the text of a server is percent-encoded: the variable holds it as it is.

    Args:
        written: As :func:`ledger_as_written` took it.
        environment: What variables may name.

    Raises:
        LedgerError: If a variable is not set, or does not give the place of a ledger; quotes no value of any.
    """
    before = len(written.partition("//")[0]) + 2 + len(_user_part(written)) if "//" in written else 0

    def value(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise LedgerError(
                f"the environment variable {found[1]} is not set; `ledger: {written}` needs it",
                hint=f"export {found[1]}=... and run the same command again",
                code="DPR-L145",
            )
        given = environment[found[1]]
        return _encoded(given) if found.end() <= before and written.startswith(_SERVERS) else given

    place = _VARIABLE.sub(value, written)
    if not _is_place(place) or "\0" in place:
        raise LedgerError(
            f"`ledger: {written}` gives no place of a ledger: it begins with none of sqlite:/// and postgresql://",
            hint="correct the environment variable, or write the place in dprelease.yaml",
            code="DPR-L145",
        )
    return place


def _is_place(text: str) -> bool:
    return any(text.startswith(scheme) and len(text) > len(scheme) for scheme in (_SQLITE, *_SERVERS))


def _user_part(text: str) -> str:
    """Of the text of a server what stands before its last ``@``, which ends user and password; else nothing."""
    if not text.startswith((*_SERVERS, _HOLD)):
        return ""
    _, slashes, rest = text.partition("//")
    authority = (rest if slashes else text).split("?")[0]
    return authority.rpartition("@")[0]


def _encoded(text: str) -> str:
    """Percent-encoded for the part of a URL before its host (RFC 3986, section 2.1); letters and digits as they are."""
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in text.encode())
