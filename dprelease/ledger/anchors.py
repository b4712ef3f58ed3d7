"""The second memory: after every write the ledger's head goes, synced, into files elsewhere, its anchors.

A ledger that lacks an entry which an anchor knows was rolled back: restored from a backup, cut off by a torn log, or
deleted. Nothing else can tell, for what is left of it is sound. An anchor is a file of lines that is only appended to
(and shortened, now and then, to what matters), so one write and one sync keep it.

A line is canonical JSON and the first 16 digits of its SHA-256. The last line may be torn by a crash: whoever was
writing it had not handed anything on. Any other line that is not whole is damage.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from dprelease.canonical import Value, sha256
from dprelease.errors import Corrupt, LedgerError
from dprelease.ledger.balance import Balance
from dprelease.ledger.history import State
from dprelease.ledger.place import make_folder
from dprelease.plan.document import Account, Head
from dprelease.points import reach

__all__ = ["Anchor", "Journal", "Known", "Line"]

_TAIL = 1 << 16
_LONG = 1 << 20
_CHECK = 16


class Line(Value):
    """What one write leaves in an anchor.

    Attributes:
        ledger: The id of the ledger.
        sequence: Of its last entry; 0: it is about to be made.
        hash: Of that entry.
        balances: Of the accounts that the write changed.
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
    def from_bytes(cls, line: bytes) -> Line | None:
        """Read a line; None if it is not whole."""
        check, _, text = line.partition(b" ")
        if sha256(text)[:_CHECK].encode() != check:
            return None
        try:
            return cls.from_canonical(text)
        except (ValidationError, json.JSONDecodeError):
            return None


class Known(Value):
    """All that an anchor knows: the head, every account with its last balance, every release with how it ended."""

    ledger: str
    head: Head
    balances: dict[str, Balance]
    terms: dict[str, Account]
    releases: dict[str, Line]

    def to_lines(self) -> tuple[Line, ...]:
        """The shortest lines that say as much."""
        last = Line(
            ledger=self.ledger,
            sequence=self.head.sequence,
            hash=self.head.hash,
            balances=tuple(self.balances[name] for name in sorted(self.balances)),
            terms=tuple(self.terms[name] for name in sorted(self.terms)),
        )
        return (*self.releases.values(), last)


class Anchor:
    """One file. Safe for several processes of one host; every method opens it anew.

    Args:
        path: Absolute.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._last: Line | None = None

    def last(self) -> Line | None:
        """The line with the highest entry; None if there is no file, or nothing whole in it.

        Raises:
            Corrupt: A line that is not the last one is damaged, or lines are of two ledgers.
            LedgerError: The file cannot be read.
        """
        try:
            found = self.path.stat()
            key = (found.st_ino, found.st_size, found.st_mtime_ns)
            if key != self._seen:
                with self.path.open("rb") as file:
                    start = max(0, found.st_size - _TAIL)
                    file.seek(start)
                    lines = self._lines(file.read(), whole=start == 0)
                self._last = max(lines, key=lambda line: line.sequence, default=None)
                self._seen = key
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error
        return self._last

    def all(self) -> Known | None:
        """Everything that is whole in it; None if there is no file, or nothing.

        Raises:
            LedgerError: The file cannot be read.
        """
        try:
            found = [Line.from_bytes(part) for part in self.path.read_bytes().split(b"\n")]
            lines = [line for line in found if line is not None]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error
        return _known(lines) if lines else None

    def write(self, line: Line) -> None:
        """Append, and sync; one line for one write of the ledger, so that only the last one can be torn.

        Raises:
            LedgerError: It cannot be written; nothing may be handed on then.
        """
        reach("anchor.begun")
        try:
            with self._locked() as file:
                self._cut_torn(file)
                os.write(file, line.to_bytes())
                reach("anchor.written")
                os.fsync(file)
        except OSError as error:
            raise self._unusable(error) from error
        reach("anchor.synced")

    def begin(self, line: Line) -> Line:
        """Write a line unless there is one; the line that is there then. Errors as of :meth:`write`."""
        try:
            with self._locked() as file:
                if (known := self.last()) is not None:
                    return known
                self._cut_torn(file)
                os.write(file, line.to_bytes())
                os.fsync(file)
        except OSError as error:
            raise self._unusable(error) from error
        return line

    def shorten(self) -> None:
        """Where it has become long, keep what matters: the last head, balances, and releases. Best effort."""
        try:
            if self.path.stat().st_size < _LONG:
                return
            with self._locked():
                self._lines(self.path.read_bytes(), whole=True)
                known = self.all()
                if known is not None:
                    self._replace(known.to_lines())
        except (OSError, Corrupt):
            return  # whoever reads it next will say what is wrong

    def renew(self, lines: Sequence[Line]) -> None:
        """Begin anew with these lines; what was there is set aside under another name, and never removed.

        Raises:
            LedgerError: It cannot be written.
        """
        try:
            number = 1
            while (aside := self.path.with_name(f"{self.path.name}.{number}")).exists():
                number += 1
            make_folder(self.path.parent)
            if self.path.exists():
                os.link(self.path, aside)
            self._replace(lines)
        except OSError as error:
            raise self._unusable(error) from error

    def _replace(self, lines: Sequence[Line]) -> None:
        data = b"".join(line.to_bytes() for line in lines)
        fresh = self.path.with_name(f"{self.path.name}.new")
        with open(fresh, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self.path)
        _sync_folder(self.path.parent)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        # The file may be shortened, and so replaced, while this waits for its lock: then the new one is taken.
        made = not self.path.exists()
        if made:
            make_folder(self.path.parent)
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                there = os.fstat(file)
                try:
                    same = os.path.samestat(there, self.path.stat())
                except FileNotFoundError:
                    same = False
                if same:
                    yield file
                    if made:
                        _sync_folder(self.path.parent)
                    return
            finally:
                os.close(file)

    @staticmethod
    def _cut_torn(file: int) -> None:
        size = os.fstat(file).st_size
        start = max(0, size - _TAIL)
        parts = os.pread(file, _TAIL, start).split(b"\n")
        torn = len(parts[-1])
        for part in reversed(parts[1 if start else 0 : -1]):
            if Line.from_bytes(part) is not None:
                break
            torn += len(part) + 1
        if torn:
            os.ftruncate(file, size - torn)

    def _lines(self, data: bytes, *, whole: bool) -> list[Line]:
        parts = data.split(b"\n")[0 if whole else 1 :]  # the reading may have begun within a line
        found = [Line.from_bytes(part) for part in parts]
        while found and found[-1] is None:
            found.pop()
        lines = [line for line in found if line is not None]
        if len(lines) != len(found) or len({line.ledger for line in lines}) > 1:
            raise Corrupt(
                f"the anchor {self.path} is damaged",
                detail="a line of it is not as it was written, or it was written by two ledgers",
                hint="put back the file from its backup; where there is none, `dprelease ledger recover --why ...`",
                code="DPR-L311",
            )
        return lines

    def _unusable(self, error: OSError) -> LedgerError:
        return LedgerError(
            f"the anchor {self.path} cannot be used: {error.strerror}",
            detail="nothing is read or handed on before the ledger's head is written there",
            hint="mount or repair its disk, or change `anchors:` in dprelease.yaml",
            code="DPR-L144",
        )


def _known(lines: Sequence[Line]) -> Known:
    balances: dict[str, Balance] = {}
    releases: dict[str, Line] = {}
    terms: dict[str, Account] = {}
    for line in sorted(lines, key=lambda line: line.sequence):
        terms |= {account.name: account for account in line.terms}
        for balance in line.balances:
            balances[balance.account] = balance
        if line.release:
            key = f"{line.release}/{line.period}/{line.plan}"
            releases[key] = line.model_copy(update={"balances": (), "terms": ()})
    top = max(lines, key=lambda line: line.sequence)
    return Known(
        ledger=top.ledger,
        head=top.head,
        balances=balances,
        terms=terms,
        releases=releases,
    )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Journal:
    """All anchors of one ledger."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.anchors = tuple(Anchor(path) for path in paths)
        self._highest = 0

    @property
    def paths(self) -> tuple[str, ...]:
        """Where they are."""
        return tuple(str(anchor.path) for anchor in self.anchors)

    def write(self, line: Line) -> None:
        """Append to all of them; each is synced before the next one."""
        for anchor in self.anchors:
            anchor.write(line)
        self._highest = max(self._highest, line.sequence)

    def begin(self, ledger: str, head: Head) -> str:
        """Write a first line where an anchor has none, so that a missing file can be told from one not yet made.

        Returns:
            The id that they now hold: of several processes that begin at once, one is the first.
        """
        for anchor in self.anchors:
            ledger = anchor.begin(Line(ledger=ledger, sequence=head.sequence, hash=head.hash)).ledger
        return ledger

    def known(self) -> Known | None:
        """What the anchor that knows most knows; damaged lines are passed over."""
        found = [known for anchor in self.anchors if (known := anchor.all()) is not None]
        return max(found, key=lambda known: known.head.sequence, default=None)

    def renew(self, line: Line, known: Known | None, state: State) -> None:
        """Begin all anchors anew behind a recovery: with its last line, all balances, and all releases ever known."""
        full = Known(
            ledger=line.ledger,
            head=line.head,
            balances={name: stand.balance for name, stand in state.accounts.items()},
            terms={name: stand.account for name, stand in state.accounts.items()},
            releases={
                key: each.model_copy(update={"ledger": line.ledger, "sequence": 0, "hash": ""})
                for key, each in (known.releases if known else {}).items()
            },
        )
        for anchor in self.anchors:
            anchor.renew(full.to_lines())
        self._highest = line.sequence

    def covers(self, sequence: int) -> bool:
        """Whether every anchor is known to have this entry or a later one."""
        return not self.anchors or self._highest >= sequence

    def shorten(self) -> None:
        """Shorten those that have become long."""
        for anchor in self.anchors:
            anchor.shorten()
