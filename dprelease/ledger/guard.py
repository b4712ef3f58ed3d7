"""Is this the ledger that it should be? Its place, its head, and everything that its anchors know."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import partial
from typing import Any

from dprelease.errors import Corrupt, LedgerError
from dprelease.ledger import view
from dprelease.ledger.anchors import Journal
from dprelease.ledger.balance import Actor
from dprelease.ledger.entry import RESTORE, Anchored, Recovered
from dprelease.ledger.history import State
from dprelease.ledger.known import Line, everything
from dprelease.ledger.store import Rows, Store
from dprelease.ledger.write import Write
from dprelease.plan.document import Head

__all__ = ["Guard", "Looked", "require_indexed"]

# What the anchors said before a snapshot was taken: by path, the highest line; None: no such file.
Looked = Mapping[str, Line | None]


class Guard:
    """Lets a ledger be used only where nothing that was ever handed on is missing from it."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store = store
        self.journal = journal
        self.admitted = False  # this object has used the ledger, so it is there, or is known to have disappeared

    def look(self) -> Looked:
        """What the anchors know; asked before a snapshot is taken, for others write on meanwhile."""
        return {str(anchor.path): anchor.last() for anchor in self.journal.anchors}

    def admit(self, rows: Rows | None, looked: Looked) -> None:
        """Refuse a ledger that is gone, damaged at its head, elsewhere than it says, or behind its anchors.

        Raises:
            Corrupt: Says which.
            LedgerError: It is a copy.
        """
        if rows is None:
            self._require_never(looked, Head())
            return
        head = _sound(rows)
        self._admit(rows, head, view.place(rows, head), looked)

    def admit_writer(self, rows: Rows, looked: Looked) -> State:
        """The same, and what stands: read once, for everybody else waits meanwhile."""
        state = view.state(rows, _sound(rows))
        self._admit(rows, state.head, state.place[1] if state.place else None, looked)
        return state

    def _admit(self, rows: Rows, head: Head, told: Anchored | Recovered | None, looked: Looked) -> None:
        self.admitted = True
        if told is None:
            self._require_never(looked, head)
            return
        if told.place != self._store.place:
            raise _copied(told.place, self._store.place)
        for path, line in looked.items():
            if (line is None or line.ledger != told.ledger) and self._is_of(path, told):
                continue  # it was made between the look and the snapshot, which is not behind anything seen there
            self._require_known(rows, head, told, path, line)

    def _is_of(self, path: str, told: Anchored | Recovered) -> bool:
        """Whether an anchor, looked at once more, belongs to this ledger; it may know more than the snapshot by now."""
        now = next(anchor.last() for anchor in self.journal.anchors if str(anchor.path) == path)
        return self._name(path) in told.anchors and now is not None and now.ledger == told.ledger

    def _require_never(self, looked: Looked, head: Head) -> None:
        for path, line in looked.items():
            if line is not None and line.sequence > head.sequence:
                raise Corrupt(
                    f"the ledger {self._store.place} is gone: its anchor {path} knows entry {line.sequence}",
                    detail="without it nobody knows what was spent, nor which answers were given",
                    hint=RESTORE,
                    code="DPR-L305",
                )

    def _require_known(self, rows: Rows, head: Head, told: Anchored | Recovered, path: str, line: Line | None) -> None:
        if line is None:
            if self._name(path) in told.anchors:
                raise Corrupt(
                    f"the anchor {path} is missing, and this ledger was anchored there",
                    detail="whether the ledger was rolled back can no longer be told",
                    hint="put it back; if it is lost for good, `dprelease ledger recover --why ...` begins a new one",
                    code="DPR-L312",
                )
            return
        if line.ledger != told.ledger:
            if line.sequence == 0 and self._name(path) not in told.anchors:
                return
            raise Corrupt(
                f"the anchor {path} belongs to another ledger than {self._store.place}",
                detail="the ledger was deleted and begun anew, or `ledger:` or `anchors:` names the wrong file",
                hint=f"name the right one in dprelease.yaml; or {RESTORE}",
                code="DPR-L313",
            )
        if line.sequence > head.sequence or (line.sequence and view.hash_at(rows, line.sequence) != line.hash):
            lacks = "lacks" if line.sequence > head.sequence else "has another"
            raise Corrupt(
                f"the ledger {self._store.place} was rolled back: it {lacks} entry {line.sequence}, "
                f"which its anchor {path} knows",
                detail=f"it ends at entry {head.sequence}; what was spent behind that would be spent again",
                hint=RESTORE,
                code="DPR-L310",
            )

    def wrong(self) -> list[str]:
        """The same as findings, for the full check and for recovery."""
        try:
            looked = self.look()
            with self._store.reading() as rows:
                self.admit(rows, looked)
        except LedgerError as error:
            return [error.summary]
        return []

    def settle(self, write: Write, at: str, by: Actor) -> None:
        """Say where the ledger is, where that was never said, and which anchors it has, where that changed.

        The anchors of a new ledger hold its id, and a new anchor holds everything, before there is anything to lose.
        """
        told = write.state.place
        names = self.named(told[1] if told else None)
        if told is not None and set(told[1].anchors) == set(names):
            return
        if told is None:
            ledger, why = self.journal.begin(os.urandom(16).hex()), "a new ledger"
        else:
            ledger, why = told[1].ledger, "the list of anchors changed"
            fresh = [path for path in self.journal.paths if self._name(path) not in told[1].anchors]
            self.journal.join(fresh, everything(write.rows, write.state))
        facts = {"ledger": ledger, "place": self._store.place, "anchors": names, "at": at, "by": by}
        write.account(partial(Anchored, **facts, why=why), {}, tells_place=True)

    def named(self, told: Anchored | Recovered | None) -> tuple[str, ...]:
        """Its anchors as entries name them: those of this host, and those that other hosts of the same server have."""
        mine = tuple(map(self._name, self.journal.paths))
        if told is None or self._store.folder is not None:
            return mine
        return (*(name for name in told.anchors if not name.startswith(_host())), *mine)

    def _name(self, path: str) -> str:
        # Every host of a server has anchors of its own, in its own files, which no other one can look for.
        return path if self._store.folder is not None else f"{_host()}{path}"

    def whole(self, write: Write, before: int, looked: Looked) -> Line | None:
        """What the anchors get of a write; with all balances where one of them lacks an entry from before it.

        Whoever wrote that one may have died between the commit and the anchor, so that an anchor which has a head
        always knows what stood behind it.
        """
        lags = any(line is None or line.sequence < before for line in looked.values())
        return write.line.model_copy(update=_standing(write.state)) if write.line and lags else write.line

    def lacking(self, rows: Rows, entry: Head, release: tuple[str, str, str] | None = None) -> tuple[Line, ...]:
        """What the anchors must get before what an entry says is handed on; nothing where they are known to have it.

        Args:
            rows: The transaction.
            entry: The head of the ledger that ends with it.
            release: Name, period and plan, where the entry reserved it.
        """
        if self.journal.covers(entry.sequence, release):
            return ()
        state = view.state(rows)
        ledger = state.place[1].ledger if state.place else ""
        last = Line(ledger=ledger, sequence=state.head.sequence, hash=state.head.hash, **_standing(state))
        if release is None:
            return (last,)
        name, period, plan = release
        told = {"release": name, "period": period, "plan": plan}
        return Line(ledger=ledger, sequence=entry.sequence, hash=entry.hash, **told), last

    def anchor(self, *lines: Line) -> None:
        """Write what a transaction added to every anchor."""
        if self.journal.anchors and lines:
            self.journal.write(*lines)


def _sound(rows: Rows) -> Head:
    head = view.require_head(rows)
    require_indexed(rows)
    return head


def require_indexed(rows: Rows) -> None:
    """Refuse an index that lacks rows: what it hides would be reserved, or drawn, a second time.

    Counted once on a new connection, for it takes as long as the ledger is long.

    Raises:
        Corrupt: Names the table.
    """
    if not rows.fresh:
        return
    for kind, table in (("reserve", "reservations"), ("source", "sources"), ("measure", "measurements")):
        indexed = rows.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 - one of the three names above
        entries = rows.execute("SELECT count(*) FROM entries WHERE kind = ?", (kind,))
        if entries[0][0] > indexed[0][0]:
            what = f"rows of its table `{table}` are missing"
            raise Corrupt(f"the ledger is damaged: {what}", hint=RESTORE, code="DPR-L302")


def _host() -> str:
    return f"{socket.gethostname()}:"


def _standing(state: State) -> dict[str, Any]:
    stands = [state.accounts[name] for name in sorted(state.accounts)]
    return {"balances": tuple(each.balance for each in stands), "terms": tuple(each.account for each in stands)}


def _copied(told: str, found: str) -> LedgerError:
    return LedgerError(
        f"the ledger {found} is a copy: it was made for {told}",
        detail="two copies of a ledger would let the same budget be spent twice",
        hint="use the one in its own place; if it was moved and the old one is gone, `dprelease ledger recover --why "
        "moved`",
        code="DPR-L306",
    )
