"""Is this the ledger that it should be? Its place, its head, and everything that its anchors know."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dprelease.errors import Corrupt, LedgerError
from dprelease.ledger.anchors.anchors import Anchor, Journal
from dprelease.ledger.anchors.hosts import Hosts
from dprelease.ledger.model.anchor_lines import AnchorLine, everything, since
from dprelease.ledger.model.balance import Actor
from dprelease.ledger.model.entry import RESTORE, Anchored, Placed
from dprelease.ledger.model.history import State
from dprelease.ledger.model.store import Store, Transaction
from dprelease.ledger.tables import view
from dprelease.ledger.tables.write import Write
from dprelease.plan.document import Head

__all__ = ["Guard", "Looked", "sound"]

# What the anchors said before a snapshot was taken: by path, the highest line; None: no such file.
Looked = Mapping[str, AnchorLine | None]


class Guard:
    """Lets a ledger be used only where nothing that was ever handed on is missing from it.

    Args:
        store: The ledger's store.
        journal: Its anchors, as the project lists them.
        hosts: Whose an anchor is.
    """

    def __init__(self, store: Store, journal: Journal, hosts: Hosts) -> None:
        self._store = store
        self.journal = journal
        self.hosts = hosts
        self.admitted = False  # this object has used the ledger, so it is there, or is known to have disappeared
        # Recorded last, and not in the project's list any more; and left out by an earlier entry: None: not yet asked.
        self._beside: tuple[tuple[Anchor, ...], tuple[Anchor, ...]] | None = None
        self._leaving: tuple[Anchor, ...] = ()  # what the entry that is being written leaves out

    def look(self) -> Looked:
        """What the anchors know, those that are listed and those that the ledger has recorded.

        Asked before a snapshot is taken, for others write on meanwhile. One that was left out of the list may be
        gone, unreadable or another ledger's by now; while it is there, a file that lacks what it knows is found.
        """
        unlisted, left_out = self._learned()
        asked = {str(anchor.path): anchor.last() for anchor in (*self.journal.anchors, *unlisted)}
        known = {str(anchor.path): line for anchor in left_out if (line := _line_if_usable(anchor)) is not None}
        return {**known, **asked}

    @property
    def unlisted(self) -> tuple[Anchor, ...]:
        """The anchors that the project no longer lists, and that may know what a restored file lacks."""
        unlisted, left_out = self._learned()
        return (*unlisted, *(anchor for anchor in left_out if _line_if_usable(anchor) is not None))

    def _learned(self) -> tuple[tuple[Anchor, ...], tuple[Anchor, ...]]:
        if self._beside is None:
            try:
                with self._store.reading() as rows:
                    place = view.place(rows, sound(rows)) if rows is not None else None
                    ever = _ever_named(rows) if rows is not None and place is not None else ()
            except Corrupt:
                return (), ()  # whoever reads it next, on a new connection, says so
            last = place.anchors if place else ()
            left = self._not_listed(name for name in ever if name not in last)
            self._beside = self._not_listed(last), tuple(each for each in left if self._is_ours(each, place))
        return self._beside

    @staticmethod
    def _is_ours(anchor: Anchor, place: Placed | None) -> bool:
        line = _line_if_usable(anchor)
        return line is not None and place is not None and line.ledger == place.ledger

    def _not_listed(self, names: Iterable[str]) -> tuple[Anchor, ...]:
        paths = [path for name in names if (path := self.hosts.path(name))]
        return tuple(Anchor(Path(path)) for path in paths if path not in self.journal.paths)

    def admit(self, rows: Transaction | None, looked: Looked) -> None:
        """Refuse a ledger that is gone, damaged at its head, elsewhere than it says, or behind its anchors.

        Raises:
            Corrupt: Says which.
            LedgerError: It is a copy, or a host must be asked first.
        """
        if rows is None:
            self._require_never(looked, Head())
            return
        head = sound(rows)
        place = view.place(rows, head)
        self._admit(rows, head, place, looked)
        self._follow(rows, head, place, looked)

    def admit_writer(self, rows: Transaction, looked: Looked) -> State:
        """The same, and what stands: read once, for everybody else waits meanwhile."""
        state = view.state(rows, sound(rows))
        place = state.place[1] if state.place else None
        self._admit(rows, state.head, place, looked)
        self._follow(rows, state.head, place, looked)
        return state

    def _admit(self, rows: Transaction, head: Head, place: Placed | None, looked: Looked) -> None:
        self.admitted = True
        if place is None:
            self._require_never(looked, head)
            return
        if place.place != self._store.place:
            raise _copied(place.place, self._store.place)
        # Of a list that was changed since this process learned it: those are asked now.
        late = {str(each.path): each.last() for each in self._not_listed(place.anchors) if str(each.path) not in looked}
        for path, line in {**looked, **late}.items():
            if path not in self.journal.paths and self.hosts.name(path) not in place.anchors:
                self._require_left_out(rows, head, place, path, line)
                continue
            if (line is None or line.ledger != place.ledger) and self._is_of(path, place):
                continue  # it was made between the look and the snapshot, which is not behind anything seen there
            self._require_known(rows, head, place, path, line)
        self.hosts.require_shared(place.anchors)
        self.hosts.require_asked(place, self._store.server)

    def _follow(self, rows: Transaction, head: Head, place: Placed | None, looked: Looked) -> None:
        """Let the anchors of this host know what other hosts wrote, before anything is read or handed on here.

        What only another host has seen could be lost with the server, and nobody here would know.
        """
        if place is None or not self.hosts.several:
            return
        lines = {path: looked.get(path) for path in self.journal.paths}
        behind = {
            path: line.sequence if line else 0
            for path, line in lines.items()
            if line is None or (line.ledger == place.ledger and line.sequence < head.sequence)
        }
        if behind:
            missed = since(rows, view.state(rows, head), min(behind.values()))
            for anchor in self.journal.anchors:
                if str(anchor.path) in behind:
                    anchor.write(*missed)

    def _is_of(self, path: str, place: Placed) -> bool:
        """Whether an anchor, looked at once more, belongs to this ledger; it may know more than the snapshot by now."""
        now = Anchor(Path(path)).last()
        return self.hosts.name(path) in place.anchors and now is not None and now.ledger == place.ledger

    def _require_never(self, looked: Looked, head: Head) -> None:
        for path, line in looked.items():
            if line is not None and line.sequence > head.sequence:
                raise Corrupt(
                    f"the ledger {self._store.place} is gone: its anchor {path} knows entry {line.sequence}",
                    detail="without it nobody knows what was spent, nor which answers were given",
                    hint=RESTORE,
                    code="DPR-L305",
                )

    def _require_known(self, rows: Transaction, head: Head, place: Placed, path: str, line: AnchorLine | None) -> None:
        if line is None:
            if self.hosts.name(path) in place.anchors:
                raise Corrupt(
                    f"the anchor {path} is missing, and this ledger was anchored there",
                    detail="whether the ledger was rolled back can no longer be told",
                    hint="put it back; if it is lost for good, `dprelease ledger recover --why ...` begins a new one",
                    code="DPR-L312",
                )
            return
        if line.ledger != place.ledger:
            if line.sequence == 0 and self.hosts.name(path) not in place.anchors:
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
        """The same as findings, for the full check and for recovery; every anchor that was ever named is asked."""
        try:
            looked = self.look()
            with self._store.reading() as rows:
                self.admit(rows, looked)
                if rows is not None:
                    self._require_ever(rows, looked)
                    place = view.place(rows, view.head(rows))
                    if place is not None and place.unasked:  # by this host alone, or it would not have been admitted
                        return [
                            f"the server was restored or failed over, and host {self.hosts.here} was not asked since"
                        ]
        except LedgerError as error:
            return [error.summary]
        return []

    def _require_ever(self, rows: Transaction, looked: Looked) -> None:
        """Ask the anchors that were named since the last recovery and are still there: none may know another course.

        One that was left out of the list knows less, and may be deleted. A recovery begins all anchors anew.
        """
        head = view.head(rows)
        place = view.place(rows, head)
        for path in filter(None, map(self.hosts.path, _ever_named(rows))):
            if place is not None and path not in looked:
                self._require_left_out(rows, head, place, path, Anchor(Path(path)).last())

    def _require_left_out(
        self, rows: Transaction, head: Head, place: Placed, path: str, line: AnchorLine | None
    ) -> None:
        """Ask an anchor that was left out of the list, if it is still there, still this ledger's, and not begun anew.

        A recovery by another process may have left it behind since this one learned of it.
        """
        if line is not None and line.ledger == place.ledger:
            try:
                self._require_known(rows, head, place, path, line)
            except Corrupt:
                if self.hosts.name(path) in _ever_named(rows):
                    raise

    def settle(self, write: Write, at: str, by: Actor) -> None:
        """Say where the ledger is, where that was never said, and which anchors it has, where that changed.

        The anchors of a new ledger hold its id, and a new anchor holds everything, before there is anything to lose.
        """
        place = write.state.place[1] if write.state.place else None
        names, server = self.named(place), self._store.server or (place.server if place else "")
        if place is not None and set(place.anchors) == set(names) and place.server == server and not place.unasked:
            return
        if place is None:
            ledger, why = self.journal.begin(os.urandom(16).hex()), "a new ledger"
        else:
            ledger, why = place.ledger, "the server's data have a name"
            if set(place.anchors) != set(names):
                why = "the list of anchors changed"
                self._require_ever(write.rows, {})
            elif place.unasked:
                why = "the anchors of every host were asked"
            elif place.server:
                why = "the server was restored or failed over, and nothing is missing"
            fresh = [path for path in self.journal.paths if self.hosts.name(path) not in place.anchors]
            self.journal.join(fresh, everything(write.rows, write.state))
        facts = {"ledger": ledger, "place": self._store.place, "anchors": names, "at": at, "by": by}
        write.account(partial(Anchored, **facts, why=why, server=server), {}, tells_place=True)
        self._leaving = self._not_listed(place.anchors if place else ())

    def named(self, place: Placed | None) -> tuple[str, ...]:
        """Its anchors as entries name them: those of this host, and those that other hosts of the same server have."""
        return self.hosts.named(place.anchors if place else (), self.journal.paths)

    def whole(self, write: Write, before: int, looked: Looked) -> AnchorLine | None:
        """What the anchors get of a write; with all balances where one of them lacks an entry from before it.

        Whoever wrote that one may have died between the commit and the anchor, so that an anchor which has a head
        always knows what stood behind it.
        """
        lags = any(line is None or line.sequence < before for line in looked.values())
        return write.line.model_copy(update=_standing(write.state)) if write.line and lags else write.line

    def lacking(
        self, rows: Transaction, entry: Head, release: tuple[str, str, str] | None = None
    ) -> tuple[AnchorLine, ...]:
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
        last = AnchorLine(ledger=ledger, sequence=state.head.sequence, hash=state.head.hash, **_standing(state))
        if release is None:
            return (last,)
        name, period, plan = release
        facts = {"release": name, "period": period, "plan": plan}
        return AnchorLine(ledger=ledger, sequence=entry.sequence, hash=entry.hash, **facts), last

    def anchor(self, *lines: AnchorLine) -> None:
        """Write what a transaction added to every anchor."""
        if self.journal.anchors and lines:
            self.journal.write(*lines)

    def farewell(self, line: AnchorLine) -> None:
        """Write the entry that changed the list to the anchors that it leaves out: they know it, and no later one."""
        for anchor in self._leaving:
            if anchor.last() is not None:
                anchor.write(line)
        self._leaving, self._beside = (), None


def _line_if_usable(anchor: Anchor) -> AnchorLine | None:
    """The highest line of an anchor that was left out of the list; nothing depends on one that cannot be read."""
    try:
        return anchor.last()
    except LedgerError:
        return None


def _ever_named(rows: Transaction) -> tuple[str, ...]:
    """Every anchor that was named since the last recovery, which begins all of them anew."""
    named: dict[str, None] = {}
    query = "SELECT sequence, kind FROM entries WHERE kind IN ('anchor', 'recover') ORDER BY sequence"
    for sequence, kind in rows.execute(query):
        body = view.at(rows, sequence).facts()
        if isinstance(body, Placed):
            named = dict.fromkeys((*(named if kind == "anchor" else ()), *body.anchors))
    return tuple(named)


def sound(rows: Transaction) -> Head:
    """The head, after a look at it and at the indexes; Corrupt where one of them is damaged."""
    head = view.require_head(rows)
    require_indexed(rows)
    return head


# What was looked at belongs to no reservation, and has no row. Quotes within texts are escaped in canonical JSON.
_LOOK = '%"reservation":0,%'
_LOOKS = "SELECT count(*) FROM entries WHERE kind = 'source' AND body LIKE ?"


def require_indexed(rows: Transaction) -> None:
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
        looks = [(0,)] if kind != "source" else rows.execute(_LOOKS, (_LOOK,))
        if entries[0][0] - looks[0][0] > indexed[0][0]:
            what = f"rows of its table `{table}` are missing"
            raise Corrupt(f"the ledger is damaged: {what}", hint=RESTORE, code="DPR-L302")


def _standing(state: State) -> dict[str, Any]:
    stands = [state.accounts[name] for name in sorted(state.accounts)]
    return {"balances": tuple(each.balance for each in stands), "terms": tuple(each.account for each in stands)}


def _copied(original: str, copy: str) -> LedgerError:
    return LedgerError(
        f"the ledger {copy} is a copy: it was made for {original}",
        detail="two copies of a ledger would let the same budget be spent twice",
        hint="use the one in its own place; if it was moved and the old one is gone, `dprelease ledger recover --why "
        "moved`",
        code="DPR-L306",
    )
