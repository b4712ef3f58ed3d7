"""What was read for a release, by keyed hash: recorded once, and again only where somebody accepts other data.

The same question about the same data is asked once: which publications have asked it before, and from which data they
were answered, is found here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from dprelease.errors import LedgerError
from dprelease.failpoints import hit
from dprelease.ledger.model.balance import Actor
from dprelease.ledger.model.entry import Sourced
from dprelease.ledger.model.lifecycle import already_answered, require_whole_steps
from dprelease.ledger.model.reservation import Reservation, SourcesRead
from dprelease.ledger.model.store import Transaction
from dprelease.ledger.tables import view
from dprelease.ledger.tables.write import Write
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.same_question import question

__all__ = [
    "files_read",
    "record_look",
    "record_source",
    "repeated",
    "require_other_data",
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
    rows: Mapping[str, str] = MappingProxyType({}),
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
        rows: By table of a series, a keyed hash of the rows of the release's own period.

    Raises:
        LedgerError: Another process read other data for it (DPR-L150), another key was used before (DPR-L151), one
            of the files was read for another account (DPR-L153), a step has some of its pieces (DPR-L155), or it is
            the same question about the same data as before (DPR-L114).
    """
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
        require_whole_steps(plan, view.measured_steps(write.rows, live.release, live.period, live.plan_fingerprint))
    if not accepted:
        _require_key(write.rows, key)
    _require_own(write.rows, tables, _accounts(plan, tables), key, "the release stays charged, `--give-up` ends it")
    facts = {"tables": dict(tables), "key": key, "accepted": accepted, "at": at, "by": by, "rows": dict(rows)}
    _append(write, plan, live.plan_fingerprint, live.sequence, **facts)


def _accounts(plan: ReleasePlan, tables: Tables) -> dict[str, str]:
    """By table, the account that pays for it."""
    return {name: plan.catalog.tables[name].account for name in tables}


def _append(write: Write, plan: ReleasePlan, fingerprint: str, reservation: int, **facts: Any) -> None:
    """Record what was read for a reservation of a plan, or looked at (reservation 0)."""
    names = {"release": plan.release.name, "period": plan.release.period, "plan": fingerprint}
    facts |= {**names, "reservation": reservation, "accounts": _accounts(plan, facts["tables"])}
    entry = write.append(partial(Sourced, **facts))
    if reservation:
        write.rows.execute("INSERT INTO sources VALUES (?, ?)", (entry.sequence, reservation))
    hit("source.appended")


def require_readable(
    rows: Transaction | None, tables: Tables | None, accounts: Mapping[str, str], key: str, *, accepted: bool
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


def _require_key(rows: Transaction, key: str) -> None:
    last = _last_key(rows)
    if last not in ("", key):
        raise LedgerError(
            "the key of source fingerprints is not the one that this ledger was used with before",
            detail=f"recorded: key {last}; found: key {key}; without the first, nobody can tell one table from another",
            hint="put the key's file back from a backup; if it is lost, `--accept-changed-data REASON`",
            code="DPR-L151",
        )


def _require_own(rows: Transaction | None, tables: Tables, accounts: Mapping[str, str], key: str, charged: str) -> None:
    if table := _paid_by_another(rows, tables, accounts, key):
        raise LedgerError(
            f"table {table} holds a file that another account has paid for",
            detail="the same rows under two accounts would lose twice what either of them shows",
            hint=f"give the table the account of its file; {charged}",
            code="DPR-L153",
        )


def require_same_data(live: Reservation, read: Read, recorded: SourcesRead | None) -> None:
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
    """Record that these files, as they are, are about to be looked at for a plan; nothing where that is recorded.

    Args:
        write: The transaction.
        plan: That is compared, or whose tables are counted.
        tables: By table, one keyed hash for each file.
        key: Names the key of the hashes.
        at: When, in UTC.
        by: Who looks, and with which command: each is recorded once.

    Raises:
        LedgerError: An account has paid for one of the files (DPR-L170).
    """
    every = files_read(write.rows)
    require_unpaid(every, tables, key)
    same = (0, key, plan.fingerprint(), by.command)
    mine = [body for body in every if (body.reservation, body.key, body.plan, body.by.command) == same]
    known = {file for body in mine for files in body.tables.values() for file in files}
    if known.issuperset(file for mine in tables.values() for file in mine):
        return
    _append(write, plan, plan.fingerprint(), 0, tables=dict(tables), key=key, at=at, by=by)


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


def files_read(rows: Transaction) -> tuple[Sourced, ...]:
    """Every record of files that were read, in ledger order."""
    return tuple(_records(rows, "entries WHERE kind = 'source' ORDER BY sequence"))


def _records(rows: Transaction, table: str, values: Sequence[int] = ()) -> Iterator[Sourced]:
    """The records whose sequence numbers are in a table."""
    for (sequence,) in rows.execute(f"SELECT sequence FROM {table}", values):  # noqa: S608 - texts of this file
        body = view.at(rows, sequence).facts()
        if isinstance(body, Sourced):
            yield body


def _last_key(rows: Transaction) -> str:
    last = rows.execute("SELECT max(sequence) FROM sources")
    body = view.at(rows, last[0][0]).facts() if last and last[0][0] is not None else None
    return body.key if isinstance(body, Sourced) else ""


def _paid_by_another(rows: Transaction | None, tables: Tables, accounts: Mapping[str, str], key: str) -> str:
    """The table that holds a file which another account has paid for, then or now; empty: none does."""
    payers: dict[str, str] = {}
    for table, files in tables.items():
        for file in files:
            if payers.setdefault(file, accounts[table]) != accounts[table]:
                return table
    if rows is None:
        return ""
    for body in _records(rows, "sources"):
        if body.key == key:
            for table, files in body.tables.items():
                for file in files:
                    if payers.get(file, body.accounts[table]) != body.accounts[table]:
                        return next(name for name, mine in tables.items() if file in mine)
    return ""


def repeated(rows: Transaction, existing: Reservation, plan: ReleasePlan) -> bool:
    """Whether a plan asks again what was asked for its release and period, without the number that it then has.

    Args:
        rows: The transaction.
        existing: The last reservation of its release and period.
        plan: That shall replace it.
    """
    same = _same(rows, view.history(rows, existing.release, existing.period), plan)
    return plan.release.restatement != sum(not each.revision for each in same)


def require_other_data(rows: Transaction, live: Reservation, plan: ReleasePlan, tables: Tables, key: str) -> None:
    """Refuse the data that the same question was answered from before; hashes under another key say nothing.

    Raises:
        LedgerError: An earlier publication of the same question was read from them (DPR-L114).
    """
    if not plan.release.restatement:
        return
    past = [each for each in view.history(rows, live.release, live.period) if each.sequence < live.sequence]
    for each in _same(rows, past, plan):
        for body in _records(rows, "sources WHERE reservation = ? ORDER BY sequence", (each.sequence,)):
            if (body.tables, body.key) == (dict(tables), key):
                raise already_answered(f"{live.release} {live.period}")


def _same(rows: Transaction, past: Sequence[Reservation], plan: ReleasePlan) -> list[Reservation]:
    """Those of the past that asked what this plan asks; of a lost one nobody knows what it asked."""
    wanted = question(plan)
    known = [each for each in past if each.state != "lost"]
    texts = [view.plan_text(rows, each.sequence, each.plan_fingerprint) for each in known]
    return [e for e, text in zip(known, texts, strict=True) if question(ReleasePlan.from_canonical(text)) == wanted]
