"""Everything that stands charged, release by release, for people who ask: one pass over the entries that matter.

Quick, for a ledger may have a hundred thousand entries: bodies of reservations are read as plain JSON, draws once for
each digest. Every entry's hash is checked, and what the releases add up to is held against the balance of the account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from pydantic_core import from_json

from dprelease.errors import Corrupt
from dprelease.ledger.model.balance import terms_of
from dprelease.ledger.model.entry import RESTORE, Entry, Incident, Opened, Recovered
from dprelease.ledger.model.history import Stand, State, digest_of
from dprelease.ledger.model.store import Rows
from dprelease.ledger.tables import view
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import Composed
from dprelease.privacy.filters import Spent, spent_before

__all__ = ["Part", "Taken", "Tally", "tally"]

_GRAIN = Fraction(1, 10**40)  # sums of thousands of odd fractions are rounded up, far behind the point


class Part(NamedTuple):
    """What one release costs one account.

    Attributes:
        digest: The digest of its draws, as corrected by incidents.
        spent: What they add to the account.
        windows: That they touch.
        asked: The digest of the draws that were reserved; empty: none, for an earlier publication paid.
    """

    digest: str
    spent: Spent
    windows: tuple[str, ...]
    asked: str


class Taken(NamedTuple):
    """One reservation that stands.

    Attributes:
        sequence: Its entry.
        release: Name.
        period: Period.
        plan: Fingerprint of the plan.
        at: When, in UTC.
        ended: ``close``, ``give_up``, or nothing: it is open.
        parts: By account, as corrected by incidents.
        claimed: What the plan says that one publication costs; that of the first release with the same draws.
        revision: Which planned revision it is; it has a part only where an incident made it cost more than was paid.
        copies: How many publications its charge is for: 1, and one for each revision that was planned.
    """

    sequence: int
    release: str
    period: str
    plan: str
    at: str
    ended: str
    parts: Mapping[str, Part]
    claimed: Loss | None
    revision: int = 0
    copies: int = 1


@dataclass(frozen=True)
class Tally:
    """What a ledger says.

    Attributes:
        state: What stands, from the balances.
        taken: Every reservation that stands, in order.
        opened: Every opening of an account, by entry.
        recovered: Every recovery, by entry.
        incidents: Every incident, by entry.
        draws: By digest, all that stand charged.
    """

    state: State = field(default_factory=State)
    taken: tuple[Taken, ...] = ()
    opened: Mapping[int, Opened] = field(default_factory=dict)
    recovered: Mapping[int, Recovered] = field(default_factory=dict)
    incidents: Mapping[int, Incident] = field(default_factory=dict)
    draws: Mapping[str, Composed] = field(default_factory=dict)


def tally(rows: Rows) -> Tally:
    """Read it all.

    Raises:
        Corrupt: An entry was altered, or the releases do not add up to the balances.
    """
    return _Walk(rows).run()


class _Walk:
    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._state = view.state(rows)
        self._ended = dict(rows.execute("SELECT reservation, kind FROM endings"))
        self._parts: dict[tuple[str, ...], Part] = {}
        self._draws: dict[str, Composed] = {}
        self._claimed: dict[tuple[str, ...], tuple[Loss | None, int]] = {}
        self._taken: dict[int, Taken] = {}

    def run(self) -> Tally:
        opened: dict[int, Opened] = {}
        recovered: dict[int, Recovered] = {}
        incidents: dict[int, Incident] = {}
        query = """
            SELECT sequence, previous, hash, kind, body FROM entries
            WHERE kind IN ('open', 'reserve', 'recover', 'incident') ORDER BY sequence"""
        for at, previous, digest, kind, text in self._rows.execute(query):
            entry = Entry(at, previous, digest, kind, text)
            if kind == "reserve" and entry.is_whole:
                if self._ended.get(at) != "void":
                    self._reserve(at, text)
                continue
            body = entry.facts()
            if isinstance(body, Opened):
                opened[at] = body
            elif isinstance(body, Recovered):
                recovered[at] = body
            elif isinstance(body, Incident):
                incidents[at] = body
                self._correct(body)
        tally = Tally(self._state, tuple(self._taken.values()), opened, recovered, incidents, self._draws)
        _require_sums(tally)
        return tally

    def _reserve(self, at: int, text: str) -> None:
        body = from_json(text)
        parts = {charge["facts"]["name"]: self._part(charge) for charge in body["charges"]}
        key = tuple(part.digest for part in parts.values()) or (body["plan_fingerprint"],)
        claimed, copies = self._claim(body, key)
        self._taken[at] = Taken(
            sequence=at,
            release=body["release"],
            period=body["period"],
            plan=body["plan_fingerprint"],
            at=body["at"],
            ended=self._ended.get(at, ""),
            parts=parts,
            claimed=claimed,
            revision=body.get("revision", 0),
            copies=copies,
        )

    def _part(self, charge: Mapping[str, Any]) -> Part:
        windows = tuple(facts["window"] for facts in charge.get("windows", ()))
        if not charge.get("digest"):  # an entry of an older schema
            events = Composed.model_validate(charge["events"])
            self._draws[digest_of(events)] = events
            terms = terms_of(self._state.accounts[charge["facts"]["name"]].account)
            return Part(digest_of(events), spent_before(terms, events), windows, digest_of(events))
        digest, spent = charge["digest"], charge.get("spent") or {}
        view.events(self._rows, self._draws, digest)
        key = (digest, spent.get("loss", "0"), spent.get("reveals", "0"), *windows)
        if key not in self._parts:
            self._parts[key] = Part(digest, Spent.model_validate(spent), windows, digest)
        return self._parts[key]

    def _claim(self, body: Mapping[str, Any], digests: tuple[str, ...]) -> tuple[Loss | None, int]:
        if digests not in self._claimed:
            text = body.get("plan") or view.content(self._rows, body["plan_fingerprint"]).decode()
            plan = from_json(text)
            loss = plan.get("loss", {}).get(plan.get("certified"))
            release = plan.get("release", {})
            copies = 1 if release.get("revision") else 1 + release.get("revisions", 0)
            self._claimed[digests] = Loss.model_validate(loss) if loss else None, copies
        return self._claimed[digests]

    def _correct(self, body: Incident) -> None:
        for each in body.corrected:
            taken = self._taken.get(each.reservation)
            payer = self._taken.get(each.paid_by or each.reservation)
            if taken is None or payer is None or each.account not in payer.parts:
                raise Corrupt(f"an incident corrects entry {each.reservation}, which does not stand", hint=RESTORE)
            view.events(self._rows, self._draws, each.digest)
            paid = payer.parts[each.account]
            part = taken.parts.get(each.account, Part("", Spent(), paid.windows, ""))
            changed = part._replace(digest=each.digest, spent=part.spent.plus(each.spent))
            self._taken[each.reservation] = taken._replace(parts={**taken.parts, each.account: changed})


def _require_sums(tally: Tally) -> None:
    """Hold what the releases add up to against the balances."""
    for name, stand in tally.state.accounts.items():
        total = Counter(taken.parts[name].spent for taken in tally.taken if name in taken.parts)
        for body in tally.recovered.values():
            if name in body.added:
                total[body.added[name]] += 1
        loss = sum((n * spent.loss for spent, n in total.items()), Fraction(0))
        reveals = sum((n * spent.reveals for spent, n in total.items()), Fraction(0))
        if not (_near(stand.balance.spent.loss, loss) and _near(stand.balance.spent.reveals, reveals)):
            raise _apart(stand)
        if stand.balance.releases != sum(name in taken.parts and not taken.revision for taken in tally.taken):
            raise _apart(stand)


def _near(told: Fraction, found: Fraction) -> bool:
    return abs(told - found) <= _GRAIN


def _apart(stand: Stand) -> Corrupt:
    name = stand.account.name
    return Corrupt(
        f"the ledger is damaged: the balance of account {name} is not the sum of its releases",
        detail="`dprelease ledger check` names what does not fit",
        hint=RESTORE,
    )
