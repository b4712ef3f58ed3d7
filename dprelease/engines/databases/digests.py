"""The fingerprint of rows in a database: keyed hashes of what they hold, and of which table they are in.

A fingerprint is BLAKE2b (RFC 7693, keyed: a pseudo-random function) of the number of rows and of two sums over a hash
of every row: a sum of hashes has no order, and counts equal rows each. The hashes are public functions, so that whoever
may write to the table could make two sets of rows with equal sums on purpose: it finds accidents, and promises no more.
Without the key nobody can try guesses of the rows against it.

Beside it stands a keyed hash of which table it is, and of the period: so that one table is not paid for by two accounts
of which each reads other columns, or before and after a row was added.
"""

from __future__ import annotations

import hashlib

from dprelease.canonical import dumps
from dprelease.catalog.table import Table
from dprelease.engines.databases.base import RowSums

__all__ = ["digests_of"]

_ROWS, _TABLE = b"dprelease-rows-1", b"dprelease-tabl-1"  # 16 bytes: personalisation strings of BLAKE2b


def digests_of(table: Table, found: RowSums, identity: tuple[str, ...], key: bytes) -> tuple[str, ...]:
    """The fingerprint: two keyed hashes of 64 hexadecimal digits, sorted.

    Tables without a row are equal everywhere: their hash has the account in it, as of files without a row.
    """
    period = None if table.time is None else [table.time.column, str(table.time.start), str(table.time.end)]
    rows = {
        "method": found.method,
        "period": period,
        "rows": found.rows,
        "sums": list(found.sums),
        "types": sorted(found.types.items()),
        **({} if found.rows else {"account": table.account}),
    }
    place = {"identity": list(identity), "period": period}
    return tuple(sorted((_keyed(rows, key, _ROWS), _keyed(place, key, _TABLE))))


def _keyed(value: object, key: bytes, person: bytes) -> str:
    return hashlib.blake2b(dumps(value).encode(), key=key, digest_size=32, person=person).hexdigest()
