"""Fast path of the full check for the entries that change no account, which are nearly all that a ledger has.

Each is read as plain JSON and written down again by hand. Where both texts are the same, the text is canonical and has
the fields of its kind, each of its type, and no others. A text that differs, if only by a character that JSON escapes,
falls back to the parser of every other entry.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic_core import from_json

__all__ = ["PlainEntry", "plain_entry"]


class PlainEntry(NamedTuple):
    """What is checked of a ``measure``, ``source`` or ``close`` entry; see `Measured`, `Sourced` and `Closed`."""

    kind: str
    release: str
    period: str
    plan: str
    books: int
    reservation: int = 0
    step: str = ""
    cells: int = 0
    digest: str = ""
    accepted: str = ""
    gave_up: str = ""


def plain_entry(kind: str, text: str) -> PlainEntry | None:
    """An entry of one of the three kinds; None where it is another one, or its text is not the plain one."""
    read = {"measure": _measured, "source": _sourced, "close": _closed}.get(kind)
    try:
        entry, again = read(from_json(text)) if read else (None, "")
    except (ValueError, TypeError, AttributeError):
        return None
    return entry if again == text else None


def _measured(fields: Any) -> tuple[PlainEntry, str]:
    at, books, cells, digest, period, plan, release, name = fields.values()
    return PlainEntry("measure", release, period, plan, books, 0, name, cells, digest), (
        f'{{"at":"{at}","books":{books:d},"cells":{cells:d},"digest":"{digest}","period":"{period}",'
        f'"plan":"{plan}","release":"{release}","step":"{name}"}}'
    )


def _closed(fields: Any) -> tuple[PlainEntry, str]:
    at, books, gave_up, manifest, period, plan, release, reservation = fields.values()
    return PlainEntry("close", release, period, plan, books, reservation, gave_up=gave_up), (
        f'{{"at":"{at}","books":{books:d},"gave_up":"{gave_up}","manifest":"{manifest}","period":"{period}",'
        f'"plan":"{plan}","release":"{release}","reservation":{reservation:d}}}'
    )


def _sourced(fields: Any) -> tuple[PlainEntry, str]:
    accepted, accounts, at, books, by, key, period, plan, release, reservation, tables = fields.values()
    command, host, process, user, version = by.values()
    owners = ",".join([f'"{name}":"{account}"' for name, account in sorted(accounts.items())])
    hashes = ",".join(['"' + name + '":["' + '","'.join(files) + '"]' for name, files in sorted(tables.items())])
    return PlainEntry("source", release, period, plan, books, reservation, accepted=accepted), (
        f'{{"accepted":"{accepted}","accounts":{{{owners}}},"at":"{at}","books":{books:d},'
        f'"by":{{"command":"{command}","host":"{host}","process":{process:d},"user":"{user}",'
        f'"version":"{version}"}},"key":"{key}","period":"{period}","plan":"{plan}","release":"{release}",'
        f'"reservation":{reservation:d},"tables":{{{hashes}}}}}'
    )
