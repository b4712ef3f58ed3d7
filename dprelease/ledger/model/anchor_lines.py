"""What an anchor knows of a ledger: its lines, and all that they say together."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import ValidationError

from dprelease.canonical import Value, sha256
from dprelease.ledger.model.balance import Balance
from dprelease.ledger.model.history import State, higher
from dprelease.ledger.model.store import Transaction
from dprelease.plan.document import Account, Head

__all__ = ["AnchorKnowledge", "AnchorLine", "everything", "known_from", "merged", "since"]

_CHECK = 16


class AnchorLine(Value):
    """What one write leaves in an anchor.

    Attributes:
        ledger: The id of the ledger.
        sequence: The number of its last entry; 0: it is about to be made.
        hash: The hash of that entry.
        balances: The balances of the accounts that the write changed.
        terms: Accounts that it opened, or whose caps it changed.
        release: With ``period`` and ``plan``: what it reserved.
        ended: With them: how that release ended.
    """

    ledger: str
    sequence: int
    hash: str
    balances: tuple[Balance, ...] = ()
    terms: tuple[Account, ...] = ()
    release: str = ""
    period: str = ""
    plan: str = ""
    ended: str = ""

    @property
    def head(self) -> Head:
        """The head that it knows."""
        return Head(sequence=self.sequence, hash=self.hash)

    def to_bytes(self) -> bytes:
        """The bytes of the line."""
        text = self.canonical()
        return f"{sha256(text.encode())[:_CHECK]} {text}\n".encode()

    @classmethod
    def from_bytes(cls, line: bytes) -> AnchorLine | None:
        """Read a line; None if it is not whole."""
        check, _, text = line.partition(b" ")
        if sha256(text)[:_CHECK].encode() != check:
            return None
        try:
            return cls.from_canonical(text)
        except (ValidationError, json.JSONDecodeError):
            return None


class AnchorKnowledge(Value):
    """All that an anchor knows: the head, every account with its last balance, every release with how it ended.

    ``heads`` are those of all of its lines, the highest first: entries that the ledger had when they were written.
    """

    ledger: str
    head: Head
    balances: dict[str, Balance]
    terms: dict[str, Account]
    releases: dict[str, AnchorLine]
    heads: tuple[Head, ...] = ()

    def to_lines(self) -> tuple[AnchorLine, ...]:
        """The shortest lines that say as much."""
        last = AnchorLine(
            ledger=self.ledger,
            sequence=self.head.sequence,
            hash=self.head.hash,
            balances=tuple(self.balances[name] for name in sorted(self.balances)),
            terms=tuple(self.terms[name] for name in sorted(self.terms)),
        )
        return (*self.releases.values(), last)


def known_from(lines: Sequence[AnchorLine]) -> AnchorKnowledge:
    """What these lines say together."""
    balances: dict[str, Balance] = {}
    releases: dict[str, AnchorLine] = {}
    terms: dict[str, Account] = {}
    for line in sorted(lines, key=lambda line: line.sequence):
        terms |= {account.name: account for account in line.terms}
        for balance in line.balances:
            balances[balance.account] = balance
        if line.release:
            key = f"{line.release}/{line.period}/{line.plan}"
            releases[key] = line.model_copy(update={"balances": (), "terms": ()})
    top = max(lines, key=lambda line: line.sequence)
    return AnchorKnowledge(
        ledger=top.ledger,
        head=top.head,
        balances=balances,
        terms=terms,
        releases=releases,
        heads=tuple(line.head for line in sorted(lines, key=lambda line: -line.sequence) if line.hash),
    )


def merged(more: AnchorKnowledge, less: AnchorKnowledge) -> AnchorKnowledge:
    """Two anchors of one course of events, the second of which may lack its end, or its beginning."""
    balances = dict(more.balances)
    for name, other in less.balances.items():
        balances[name] = higher(balances[name], other) if name in balances else other
    releases = dict(more.releases)
    for key, line in less.releases.items():
        if key not in releases or releases[key].sequence < line.sequence:
            releases[key] = line
    update = {
        "balances": balances,
        "terms": {**less.terms, **more.terms},
        "releases": releases,
        "heads": tuple(sorted({*more.heads, *less.heads}, key=lambda head: -head.sequence)),
    }
    return more.model_copy(update=update)


def everything(rows: Transaction, state: State) -> AnchorKnowledge:
    """All that an anchor must know about a ledger as it stands."""
    ledger = state.place[1].ledger if state.place else ""
    query = """
        SELECT r.sequence, s.hash, r.release, r.period, r.plan FROM reservations AS r
        JOIN entries AS s ON s.sequence = r.sequence LEFT JOIN endings AS e ON e.reservation = r.sequence
        WHERE e.kind IS NULL OR e.kind <> 'void' ORDER BY r.sequence"""
    releases = {
        f"{release}/{period}/{plan}": AnchorLine(
            ledger=ledger, sequence=sequence, hash=digest, release=release, period=period, plan=plan
        )
        for sequence, digest, release, period, plan in rows.execute(query)
    }
    return AnchorKnowledge(
        ledger=ledger,
        head=state.head,
        balances={name: stand.balance for name, stand in state.accounts.items()},
        terms={name: stand.account for name, stand in state.accounts.items()},
        releases=releases,
    )


def since(rows: Transaction, state: State, sequence: int) -> tuple[AnchorLine, ...]:
    """What an anchor must get that knows all up to an entry: releases begun or given back since, and what stands.

    Args:
        rows: The transaction.
        state: As it stands.
        sequence: The number of the entry; 0: the anchor is new.
    """
    known = everything(rows, state)
    begun = {key: line for key, line in known.releases.items() if line.sequence > sequence}
    query = """
        SELECT e.sequence, s.hash, r.release, r.period, r.plan FROM endings AS e
        JOIN reservations AS r ON r.sequence = e.reservation JOIN entries AS s ON s.sequence = e.sequence
        WHERE e.kind = 'void' AND e.sequence > ? ORDER BY e.sequence"""
    ended = tuple(
        AnchorLine(ledger=known.ledger, sequence=at, hash=digest, release=name, period=period, plan=plan, ended="void")
        for at, digest, name, period, plan in rows.execute(query, (sequence,))
    )
    return (*ended, *known.model_copy(update={"releases": begun}).to_lines())
