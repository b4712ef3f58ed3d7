"""Entries that change no account, as the full check reads them: nearly all that a ledger has.

Each is read as plain JSON and written down again by hand. Where both texts are the same, the text is canonical and has
the fields of its kind, each of its type, and no others. Whatever differs, if only by a character that JSON escapes, is
not told here, and goes the long way of every other entry.
"""

from __future__ import annotations

from typing import NamedTuple

from pydantic_core import from_json

__all__ = ["End", "Look", "Step", "end", "look", "step"]


class Step(NamedTuple):
    """What is checked of a ``measure`` entry; see `Measured`."""

    release: str
    period: str
    plan: str
    step: str
    cells: int
    digest: str
    books: int


class Look(NamedTuple):
    """What is checked of a ``source`` entry; see `Sourced`."""

    release: str
    period: str
    plan: str
    reservation: int
    accepted: str
    books: int


class End(NamedTuple):
    """What is checked of a ``close`` entry; see `Closed`."""

    release: str
    period: str
    plan: str
    reservation: int
    gave_up: str
    books: int


def step(text: str) -> Step | None:
    """A ``measure`` entry; None where its text is not the plain one."""
    try:
        at, books, cells, digest, period, plan, release, name = from_json(text).values()
        again = (
            f'{{"at":"{at}","books":{books:d},"cells":{cells:d},"digest":"{digest}","period":"{period}",'
            f'"plan":"{plan}","release":"{release}","step":"{name}"}}'
        )
    except (ValueError, TypeError, AttributeError):
        return None
    return Step(release, period, plan, name, cells, digest, books) if again == text else None


def end(text: str) -> End | None:
    """A ``close`` entry; None where its text is not the plain one."""
    try:
        at, books, gave_up, manifest, period, plan, release, reservation = from_json(text).values()
        again = (
            f'{{"at":"{at}","books":{books:d},"gave_up":"{gave_up}","manifest":"{manifest}","period":"{period}",'
            f'"plan":"{plan}","release":"{release}","reservation":{reservation:d}}}'
        )
    except (ValueError, TypeError, AttributeError):
        return None
    return End(release, period, plan, reservation, gave_up, books) if again == text else None


def look(text: str) -> Look | None:
    """A ``source`` entry; None where its text is not the plain one."""
    try:
        told = from_json(text)
        accepted, accounts, at, books, by, key, period, plan, release, reservation, tables = told.values()
        command, host, process, user, version = by.values()
        owners = ",".join([f'"{name}":"{account}"' for name, account in sorted(accounts.items())])
        hashes = ",".join(['"' + name + '":["' + '","'.join(found) + '"]' for name, found in sorted(tables.items())])
        again = (
            f'{{"accepted":"{accepted}","accounts":{{{owners}}},"at":"{at}","books":{books:d},'
            f'"by":{{"command":"{command}","host":"{host}","process":{process:d},"user":"{user}",'
            f'"version":"{version}"}},"key":"{key}","period":"{period}","plan":"{plan}","release":"{release}",'
            f'"reservation":{reservation:d},"tables":{{{hashes}}}}}'
        )
    except (ValueError, TypeError, AttributeError):
        return None
    return Look(release, period, plan, reservation, accepted, books) if again == text else None
