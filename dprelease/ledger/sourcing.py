"""What was read for a release, by keyed hash: recorded once, and again only where somebody accepts other data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dprelease.errors import LedgerError
from dprelease.ledger import view
from dprelease.ledger.balance import Actor
from dprelease.ledger.base import Reservation, Sources
from dprelease.ledger.entry import Sourced
from dprelease.ledger.rules import require_whole_steps
from dprelease.ledger.store import Rows
from dprelease.ledger.write import Write
from dprelease.plan.document import ReleasePlan
from dprelease.points import reach

__all__ = ["record_source", "require_same_data"]

Tables = Mapping[str, tuple[str, ...]]
Read = tuple[Tables, str] | None


def record_source(
    write: Write,
    live: Reservation,
    plan: ReleasePlan,
    tables: Tables,
    key: str,
    accepted: str,
    at: str,
    by: Actor,
) -> None:
    """Record what is read for an open release; nothing where that is recorded already.

    Args:
        write: The transaction.
        live: The reservation.
        plan: Its plan.
        tables: By table, one keyed hash for each file.
        key: Names the key of the hashes.
        accepted: Why other data than before, or another key, are accepted; empty: they are not.
        at: When, in UTC.
        by: Who reads.

    Raises:
        LedgerError: Another process read other data for it (DPR-L150), another key was used before (DPR-L151), one
            of the files was read for another account (DPR-L153), or a step has some of its pieces (DPR-L155).
    """
    accounts = {name: plan.catalog.tables[name].account for name in tables}
    name = f"{live.release}/{live.period}"
    before = view.sources(write.rows, live.sequence)
    if before is not None and (before.tables, before.key) == (dict(tables), key):
        return
    if before is not None and not accepted:
        raise LedgerError(
            f"{name} was read from other data meanwhile, by another process",
            hint="let that one finish it; or `--accept-changed-data REASON`, which the report will show",
            code="DPR-L150",
        )
    if before is not None:
        require_whole_steps(plan, view.measured(write.rows, live.release, live.period, live.plan_fingerprint))
    last = _last_key(write.rows)
    if last not in ("", key) and not accepted:
        raise LedgerError(
            "the key of source fingerprints is not the one that this ledger was used with before",
            detail=f"recorded: key {last}; found: key {key}; without the first, nobody can tell one table from another",
            hint="put the key's file back from a backup; if it is lost, `--accept-changed-data REASON`",
            code="DPR-L151",
        )
    if table := _paid_by_another(write.rows, tables, accounts, key):
        raise LedgerError(
            f"table {table} holds a file that another account has paid for",
            detail="the same rows under two accounts would lose twice what either of them shows",
            hint="give the table the account of its file; the release stays charged, `--give-up` ends it",
            code="DPR-L153",
        )
    body = partial(
        Sourced,
        release=live.release,
        period=live.period,
        plan=live.plan_fingerprint,
        reservation=live.sequence,
        tables=dict(tables),
        accounts=dict(accounts),
        key=key,
        accepted=accepted,
        at=at,
        by=by,
    )
    entry = write.append(body)
    write.rows.execute("INSERT INTO sources VALUES (?, ?)", (entry.sequence, live.sequence))
    reach("source.appended")


def require_same_data(live: Reservation, read: Read, recorded: Sources | None) -> None:
    """A piece of a step is committed from the data that its process compared its own with, and that still stand.

    Two processes that work on one release in spite of its lock could else commit pieces of one step from two states
    of the data (see ``rules.require_whole_steps``).

    Args:
        live: The reservation.
        read: What the process was last told of the sources, or has told of them.
        recorded: What stands in the ledger.

    Raises:
        LedgerError: They differ (DPR-L150).
    """
    if read != (None if recorded is None else (recorded.tables, recorded.key)):
        raise LedgerError(
            f"{live.release}/{live.period} was read from other data meanwhile, by another process",
            detail="the pieces of one step come from one state of the data; nothing was stored",
            hint="let that process finish it, then run the same command again",
            code="DPR-L150",
        )


def _last_key(rows: Rows) -> str:
    found = rows.execute("SELECT max(sequence) FROM sources")
    body = view.at(rows, found[0][0]).facts() if found and found[0][0] is not None else None
    return body.key if isinstance(body, Sourced) else ""


def _paid_by_another(rows: Rows, tables: Tables, accounts: Mapping[str, str], key: str) -> str:
    """The table that holds a file which another account has paid for, then or now; empty: none does."""
    payers: dict[str, str] = {}
    for table, files in tables.items():
        for file in files:
            if payers.setdefault(file, accounts[table]) != accounts[table]:
                return table
    for row in rows.execute("SELECT sequence FROM sources"):
        body = view.at(rows, row[0]).facts()
        if isinstance(body, Sourced) and body.key == key:
            for table, files in body.tables.items():
                for file in files:
                    if payers.get(file, body.accounts[table]) != body.accounts[table]:
                        return next(name for name, mine in tables.items() if file in mine)
    return ""
