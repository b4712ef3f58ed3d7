"""Plain rows of a ledger, for tests of a store below the rules of `book`."""

from __future__ import annotations

from dprelease.canonical import dumps, fingerprint, sha256
from dprelease.ledger.model.store import Transaction

__all__ = ["append", "end", "keep", "measure", "reserve"]


def append(rows: Transaction, kind: str, **body: object) -> int:
    """The next entry; its sequence number."""
    last = rows.execute("SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1")
    sequence, previous = (last[0][0] + 1, last[0][1]) if last else (1, "")
    text = dumps(body)
    mark = fingerprint([sequence, previous, kind, text])
    rows.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (sequence, previous, mark, kind, text))
    return sequence


def reserve(rows: Transaction, release: str, period: str, plan: str = "p", restates: int | None = None) -> int:
    """A reservation; the number of its entry."""
    at = append(rows, "reserve", release=release, period=period)
    values = (at, release, period, plan, restates, fingerprint([release, period]))
    rows.execute("INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?)", values)
    return at


def keep(rows: Transaction, payload: bytes) -> str:
    """Bytes under their digest."""
    rows.execute("INSERT INTO contents VALUES (?, ?) ON CONFLICT DO NOTHING", (sha256(payload), payload))
    return sha256(payload)


def measure(rows: Transaction, release: str, period: str, step: str, payload: bytes = b"x", plan: str = "p") -> int:
    """A measurement; the number of its entry."""
    digest, at = keep(rows, payload), append(rows, "measure", step=step)
    values = (release, period, plan, step, at, digest, fingerprint([release, period, plan, step]))
    rows.execute("INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    return at


def end(rows: Transaction, reservation: int, kind: str) -> int:
    """The end of a reservation; the number of its entry."""
    at = append(rows, "void" if kind == "void" else "close", reservation=reservation)
    rows.execute("INSERT INTO endings VALUES (?, ?, ?)", (reservation, at, kind))
    rows.forget_secret(reservation)
    return at
