"""Fast path of the full check for the entries that change no account, which are nearly all that a ledger has.

Each is read as plain JSON and written down again by hand. Where both texts are the same, the text is canonical and has
the fields of its kind, each of its type, and no others. A text that differs, if only by a character that JSON escapes,
falls back to the parser of every other entry.
"""

from __future__ import annotations

from typing import NamedTuple

from pydantic_core import from_json

__all__ = ["PlainClosed", "PlainMeasured", "PlainSourced", "closed", "measured", "sourced"]


class PlainMeasured(NamedTuple):
    """What is checked of a ``measure`` entry; see `Measured`."""

    release: str
    period: str
    plan: str
    step: str
    cells: int
    digest: str
    books: int


class PlainSourced(NamedTuple):
    """What is checked of a ``source`` entry; see `Sourced`."""

    release: str
    period: str
    plan: str
    reservation: int
    accepted: str
    books: int


class PlainClosed(NamedTuple):
    """What is checked of a ``close`` entry; see `Closed`."""

    release: str
    period: str
    plan: str
    reservation: int
    gave_up: str
    books: int


def measured(text: str) -> PlainMeasured | None:
    """A ``measure`` entry; None where its text is not the plain one."""
    try:
        at, books, cells, digest, period, plan, release, name = from_json(text).values()
        again = (
            f'{{"at":"{at}","books":{books:d},"cells":{cells:d},"digest":"{digest}","period":"{period}",'
            f'"plan":"{plan}","release":"{release}","step":"{name}"}}'
        )
    except (ValueError, TypeError, AttributeError):
        return None
    return PlainMeasured(release, period, plan, name, cells, digest, books) if again == text else None


def closed(text: str) -> PlainClosed | None:
    """A ``close`` entry; None where its text is not the plain one."""
    try:
        at, books, gave_up, manifest, period, plan, release, reservation = from_json(text).values()
        again = (
            f'{{"at":"{at}","books":{books:d},"gave_up":"{gave_up}","manifest":"{manifest}","period":"{period}",'
            f'"plan":"{plan}","release":"{release}","reservation":{reservation:d}}}'
        )
    except (ValueError, TypeError, AttributeError):
        return None
    return PlainClosed(release, period, plan, reservation, gave_up, books) if again == text else None


def sourced(text: str) -> PlainSourced | None:
    """A ``source`` entry; None where its text is not the plain one."""
    try:
        fields = from_json(text)
        accepted, accounts, at, books, by, key, period, plan, release, reservation, tables = fields.values()
        command, host, process, user, version = by.values()
        owners = ",".join([f'"{name}":"{account}"' for name, account in sorted(accounts.items())])
        hashes = ",".join(['"' + name + '":["' + '","'.join(files) + '"]' for name, files in sorted(tables.items())])
        again = (
            f'{{"accepted":"{accepted}","accounts":{{{owners}}},"at":"{at}","books":{books:d},'
            f'"by":{{"command":"{command}","host":"{host}","process":{process:d},"user":"{user}",'
            f'"version":"{version}"}},"key":"{key}","period":"{period}","plan":"{plan}","release":"{release}",'
            f'"reservation":{reservation:d},"tables":{{{hashes}}}}}'
        )
    except (ValueError, TypeError, AttributeError):
        return None
    return PlainSourced(release, period, plan, reservation, accepted, books) if again == text else None
