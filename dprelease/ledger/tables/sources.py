"""What was read for a release, by keyed hash: recorded once, and again only where somebody accepts other data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from dprelease.errors import LedgerError
from dprelease.failpoints import hit
from dprelease.ledger.model.balance import Actor
from dprelease.ledger.model.entry import Sourced
from dprelease.ledger.model.lifecycle import require_whole_steps
from dprelease.ledger.model.reservation import Reservation, Sources
from dprelease.ledger.model.store import Rows
from dprelease.ledger.tables import view
from dprelease.ledger.tables.restating import require_other_data
from dprelease.ledger.tables.write import Write
from dprelease.plan.document import ReleasePlan

__all__ = [
    "files_read",
    "record_look",
    "record_source",
    "require_readable",
    "require_same_data",
    "require_unpaid",
]

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
            of the files was read for another account (DPR-L153), a step has some of its pieces (DPR-L155), or it is
            the same question about the same data as before (DPR-L114).
    """
    accounts = {name: plan.catalog.tables[name].account for name in tables}
    name = f"{live.release}/{live.period}"
    before = view.sources(write.rows, live.sequence)
    if before is not None and (before.tables, before.key) == (dict(tables), key):
        return
    require_other_data(write.rows, live, plan, tables, key)
    if before is not None and not accepted:
        raise LedgerError(
            f"{name} was read from other data meanwhile, by another process",
            hint="let that one finish it; or `--accept-changed-data REASON`, which the report will show",
            code="DPR-L150",
        )
    if before is not None:
        require_whole_steps(plan, view.measured(write.rows, live.release, live.period, live.plan_fingerprint))
    if not accepted:
        _require_key(write.rows, key)
    _require_own(write.rows, tables, accounts, key, "the release stays charged, `--give-up` ends it")
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
    hit("source.appended")


def require_readable(
    rows: Rows | None, tables: Tables | None, accounts: Mapping[str, str], key: str, *, accepted: bool
) -> None:
    """What :func:`record_source` would refuse, for a release that is not charged yet.

    Args:
        rows: The transaction; None: there is none yet.
        tables: As there; None: only the key is looked at, before an hour of hashing.
        accounts: By table, which one pays.
        key: As there.
        accepted: Whether another key is accepted.

    Raises:
        LedgerError: DPR-L151 or DPR-L153.
    """
    if rows is not None and not accepted:
        _require_key(rows, key)
    if tables is not None:
        _require_own(rows, tables, accounts, key, "nothing was charged")


def _require_key(rows: Rows, key: str) -> None:
    last = _last_key(rows)
    if last not in ("", key):
        raise LedgerError(
            "the key of source fingerprints is not the one that this ledger was used with before",
            detail=f"recorded: key {last}; found: key {key}; without the first, nobody can tell one table from another",
            hint="put the key's file back from a backup; if it is lost, `--accept-changed-data REASON`",
            code="DPR-L151",
        )


def _require_own(rows: Rows | None, tables: Tables, accounts: Mapping[str, str], key: str, charged: str) -> None:
    if table := _paid_by_another(rows, tables, accounts, key):
        raise LedgerError(
            f"table {table} holds a file that another account has paid for",
            detail="the same rows under two accounts would lose twice what either of them shows",
            hint=f"give the table the account of its file; {charged}",
            code="DPR-L153",
        )


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


def record_look(
    write: Write,
    plan: ReleasePlan,
    tables: Tables,
    key: str,
    at: str,
    by: Actor,
) -> None:
    """Record that a plan is about to be compared with these files, as they are; nothing where that is recorded.

    Args:
        write: The transaction.
        plan: That is compared.
        tables: By table, one keyed hash for each file.
        key: Names the key of the hashes.
        at: When, in UTC.
        by: Who looks.

    Raises:
        LedgerError: An account has paid for one of the files (DPR-L170).
    """
    every = files_read(write.rows)
    require_unpaid(every, tables, key)
    mine = [body for body in every if (body.reservation, body.key, body.plan) == (0, key, plan.fingerprint())]
    known = {file for body in mine for files in body.tables.values() for file in files}
    if known.issuperset(file for mine in tables.values() for file in mine):
        return
    body = partial(
        Sourced,
        release=plan.release.name,
        period=plan.release.period,
        plan=plan.fingerprint(),
        reservation=0,
        tables=dict(tables),
        accounts={name: plan.catalog.tables[name].account for name in tables},
        key=key,
        at=at,
        by=by,
    )
    write.append(body)
    hit("source.appended")


def require_unpaid(read: Iterable[Sourced], tables: Tables, key: str) -> None:
    """Refuse a look at a file that an account has paid for.

    Args:
        read: Every record of the ledger.
        tables: By table, one keyed hash for each file that is to be looked at.
        key: Names the key of the hashes.

    Raises:
        LedgerError: One of them was read for a release (DPR-L170).
    """
    paid = {
        file: body.accounts[table]
        for body in read
        if body.reservation and body.key == key
        for table, files in body.tables.items()
        for file in files
    }
    for name, listed in tables.items():
        if known := sorted({paid[file] for file in listed if file in paid}):
            raise LedgerError(
                f"table {name!r} holds a file that account {known[0]!r} has paid for: it cannot be compared with",
                detail="what a look at it costs could not be said, and the ledger would show too little",
                hint="tune on public or made-up data that stand in for it; `--synthetic` makes up rows and reads none",
                code="DPR-L170",
            )


def files_read(rows: Rows) -> tuple[Sourced, ...]:
    """Every record of files that were read, in ledger order."""
    sequences = rows.execute("SELECT sequence FROM entries WHERE kind = 'source' ORDER BY sequence")
    return tuple(body for (sequence,) in sequences if isinstance(body := view.at(rows, sequence).facts(), Sourced))


def _last_key(rows: Rows) -> str:
    last = rows.execute("SELECT max(sequence) FROM sources")
    body = view.at(rows, last[0][0]).facts() if last and last[0][0] is not None else None
    return body.key if isinstance(body, Sourced) else ""


def _paid_by_another(rows: Rows | None, tables: Tables, accounts: Mapping[str, str], key: str) -> str:
    """The table that holds a file which another account has paid for, then or now; empty: none does."""
    payers: dict[str, str] = {}
    for table, files in tables.items():
        for file in files:
            if payers.setdefault(file, accounts[table]) != accounts[table]:
                return table
    if rows is None:
        return ""
    for row in rows.execute("SELECT sequence FROM sources"):
        body = view.at(rows, row[0]).facts()
        if isinstance(body, Sourced) and body.key == key:
            for table, files in body.tables.items():
                for file in files:
                    if payers.get(file, body.accounts[table]) != body.accounts[table]:
                        return next(name for name, mine in tables.items() if file in mine)
    return ""
