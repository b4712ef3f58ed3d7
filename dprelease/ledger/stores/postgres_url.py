"""The URL of a ledger on PostgreSQL: what libpq takes for the same place is one text. No driver is needed for it."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

from dprelease.catalog.urls import Scheme, encoded

__all__ = ["SCHEME"]

_SERVER = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^/?#@]*)@)?(?P<host>\[[^]]*\]|[^/?#@:\[\]]*)(?::(?P<port>[0-9]*))?"
    r"(?:/(?P<database>[^?#]*))?(?:\?(?P<query>[^#]*))?",
    re.IGNORECASE,
)
_CODE = re.compile(rb"%([0-9A-Fa-f]{2})")
_NO_CODE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def _same(url: str) -> str:
    """One text for all URLs of a server that libpq, and RFC 3986 in section 6.2.2, take for the same.

    Scheme and host are in lower case, an address has its shortest form (RFC 5952), a port has no zeros in front, only
    what must be is percent-encoded, and parameters are in the order of their names. A port that is left out stays out,
    for it need not be 5432 where ``PGPORT`` is set: a connection says which one it has. Names are not looked up, so
    that ``localhost`` and ``127.0.0.1`` are two places. What is no such URL, or names several servers, comes back as it
    is, to be refused by whoever connects.
    """
    parts_of_url = _SERVER.fullmatch(url)
    if parts_of_url is None or _NO_CODE.search(url) or "," in parts_of_url["host"]:
        return url
    user, host, port, database, query = parts_of_url.groups()
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
    return encoded(name)


def _address(text: str) -> str:
    try:
        return IPv6Address(text).compressed
    except AddressValueError:
        return text


def _number(text: str) -> str:
    return text.lstrip("0") or "0" if text.isdecimal() else _recoded(text)


def _recoded(text: str) -> str:
    return encoded(_decoded(text).decode(errors="surrogateescape"))


def _decoded(text: str) -> bytes:
    """The bytes that a text stands for whose ``%`` are all followed by two digits."""
    return _CODE.sub(lambda found: bytes([int(found[1], 16)]), text.encode(errors="surrogateescape"))


SCHEME = Scheme(("postgresql://", "postgres://"), "postgresql://user@host/database", _same)
