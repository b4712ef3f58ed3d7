"""``ledger:`` of a project: a file or a PostgreSQL server; secrets only as ``${env:NAME}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv6Address
from typing import Any

from dprelease.errors import LedgerError
from dprelease.spec.fields import kind_of, refuse

__all__ = ["ledger_as_written", "ledger_resolved"]

_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_SQLITE, _SERVERS = "sqlite:///", ("postgresql://", "postgres://")
_PASSWORD = re.compile(r"[?&](?:ssl)?password=([^&]*)", re.IGNORECASE)
_SERVER = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^/?#@]*)@)?(?P<host>\[[^]]*\]|[^/?#@:\[\]]*)(?::(?P<port>[0-9]*))?"
    r"(?:/(?P<database>[^?#]*))?(?:\?(?P<query>[^#]*))?",
    re.IGNORECASE,
)
_CODE = re.compile(rb"%([0-9A-Fa-f]{2})")
_NO_CODE = re.compile(r"%(?![0-9A-Fa-f]{2})")
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
    Every text of one server becomes the same one (:func:`_same`), for a ledger knows its place by its text.

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
        return _encoded(given) if found.end() <= before and _is_server(written) else given

    place = _VARIABLE.sub(value, written)
    if not _is_place(place) or "\0" in place:
        raise LedgerError(
            f"`ledger: {written}` gives no place of a ledger: it begins with none of sqlite:/// and postgresql://",
            hint="correct the environment variable, or write the place in dprelease.yaml",
            code="DPR-L145",
        )
    return _same(place) if _is_server(place) else place


def _is_place(text: str) -> bool:
    whole = text if text.startswith(_SQLITE) else text.lower()
    return any(whole.startswith(scheme) and len(text) > len(scheme) for scheme in (_SQLITE, *_SERVERS))


def _is_server(text: str) -> bool:
    """Schemes are written in either case (RFC 3986, section 3.1)."""
    return text.lower().startswith(_SERVERS)


def _same(url: str) -> str:
    """One text for all URLs of a server that libpq, and RFC 3986 in section 6.2.2, take for the same.

    Scheme and host are in lower case, an address has its shortest form (RFC 5952), a port has no zeros in front, only
    what must be is percent-encoded, and parameters are in the order of their names. A port that is left out stays out,
    for it need not be 5432 where ``PGPORT`` is set: a connection says which one it has. Names are not looked up, so
    that ``localhost`` and ``127.0.0.1`` are two places. What is no such URL, or names several servers, comes back as it
    is, to be refused by whoever connects.
    """
    found = _SERVER.fullmatch(url)
    if found is None or _NO_CODE.search(url) or "," in found["host"]:
        return url
    user, host, port, database, query = found.groups()
    text = "postgresql://" + ("" if user is None else ":".join(map(_recoded, user.split(":", 1))) + "@")
    text += f"[{_address(host[1:-1])}]" if host.startswith("[") else _host(host)
    text += f":{_number(port)}" if port else ""
    text += "" if database is None else f"/{_recoded(database)}"
    if not query:
        return text
    parts = [part.partition("=") for part in query.split("&")]
    # Of two parameters of one name the last one counts, and `ssl` is another name of `sslmode`.
    parts.sort(key=lambda part: "sslmode" if part[0] == "ssl" else part[0])
    return f"{text}?" + "&".join(f"{name}{equals}{_value(name, value)}" for name, equals, value in parts)


def _value(name: str, value: str) -> str:
    if name == "host":
        return _host(value)
    return _number(value) if name == "port" else _recoded(_address(value) if name == "hostaddr" else value)


def _host(text: str) -> str:
    """A name in lower case; a folder, which has a socket in it, as it is."""
    plain = _decoded(text).decode(errors="surrogateescape")
    name = plain if plain.startswith("/") else _address(plain).lower()
    return _encoded(name)


def _address(text: str) -> str:
    try:
        return IPv6Address(text).compressed
    except AddressValueError:
        return text


def _number(text: str) -> str:
    return text.lstrip("0") or "0" if text.isdecimal() else _recoded(text)


def _recoded(text: str) -> str:
    return _encoded(_decoded(text).decode(errors="surrogateescape"))


def _decoded(text: str) -> bytes:
    """The bytes that a text stands for whose ``%`` are all followed by two digits."""
    return _CODE.sub(lambda found: bytes([int(found[1], 16)]), text.encode(errors="surrogateescape"))


def _user_part(text: str) -> str:
    """Of the text of a server what stands before its last ``@``, which ends user and password; else nothing."""
    if not _is_server(text) and not text.startswith(_HOLD):
        return ""
    _, slashes, rest = text.partition("//")
    authority = (rest if slashes else text).split("?")[0]
    return authority.rpartition("@")[0]


def _encoded(text: str) -> str:
    """Percent-encoded, but for what RFC 3986 never wants to be (section 2.3): letters, digits, and four signs."""
    raw = text.encode(errors="surrogateescape")  # a variable need not be text
    return "".join(
        chr(byte) if byte < 128 and (chr(byte).isalnum() or chr(byte) in "-._~") else f"%{byte:02X}" for byte in raw
    )
