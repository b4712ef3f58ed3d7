"""The second memory: after every write the ledger's head goes, synced, into files elsewhere, its anchors.

A ledger that lacks an entry which an anchor knows was rolled back: restored from a backup, cut off by a torn log, or
deleted. Nothing else can tell, for what is left of it is sound. An anchor is a file of lines that is only appended to
(and shortened, now and then, to what matters), so one write and one sync keep it.

A line is canonical JSON and the first 16 digits of its SHA-256. The last line may be torn by a crash: whoever was
writing it had not handed anything on. Any other line that is not whole is damage.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dprelease.errors import Corrupt, LedgerError
from dprelease.failpoints import hit
from dprelease.ledger.model.anchor_lines import AnchorKnowledge, AnchorLine, known_from, merged
from dprelease.ledger.model.process import make_folder
from dprelease.plan.document import Head
from dprelease.regular import sync_folder

__all__ = ["Anchor", "Journal"]

_TAIL = 1 << 16
_LATEST = 16  # lines: of processes that write at once, the highest one is among so many
_LONG = 1 << 20


class _Read(NamedTuple):
    """How far a file was read: its last line, where that begins, and the highest whole one up to there."""

    file: int
    begin: int
    last: bytes
    highest: AnchorLine


class Anchor:
    """One file. Safe for several processes of one host; every method opens it anew.

    Args:
        path: Absolute.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._last: AnchorLine | None = None
        self._read: _Read | None = None

    def last(self) -> AnchorLine | None:
        """The line with the highest entry; None if there is no file, or nothing whole in it.

        Raises:
            Corrupt: A line that is not the last one is damaged, or lines are of two ledgers.
            LedgerError: The file cannot be read.
        """
        try:
            # Opened first: a file that is shortened meanwhile is another one behind the same name.
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                facts = os.fstat(file)
                key = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
                if key != self._seen:
                    self._last = self._highest(file, facts.st_ino, facts.st_size)
                    self._seen = key
            finally:
                os.close(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error
        return self._last

    def _highest(self, file: int, number: int, size: int) -> AnchorLine | None:
        # Of a file that only grew since it was read, what is new; it begins at a line that is known.
        known = self._read if self._read is not None and self._read.file == number else None
        data = os.pread(file, max(0, size - known.begin), known.begin) if known else b""
        if known is None or not data.startswith(known.last):
            known, data = None, _end_of(file, size)
        lines = self._lines(data)
        seen = (known.highest, *lines) if known else lines
        highest = max(seen, key=lambda line: line.sequence, default=None)
        if highest is not None:
            # Also of a torn line: where that is cut off or another one takes its place, its bytes are found changed.
            last = data[data.rfind(b"\n", 0, -1) + 1 :]
            self._read = _Read(number, size - len(last), last, highest)
        return highest

    def all(self) -> AnchorKnowledge | None:
        """Everything that is whole in it; None if there is no file, or nothing.

        Raises:
            LedgerError: The file cannot be read.
        """
        try:
            parsed = [AnchorLine.from_bytes(part) for part in self.path.read_bytes().split(b"\n")]
            lines = [line for line in parsed if line is not None]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error
        return known_from(lines) if lines else None

    def write(self, *lines: AnchorLine) -> None:
        """Append, and sync; one line for one write of the ledger, so that only the last one can be torn.

        Raises:
            LedgerError: It cannot be written; nothing may be handed on then.
        """
        hit("anchor.begun")
        with self._locked() as file:
            self._cut_torn(file)
            for line in lines:
                _put(file, line.to_bytes())
            hit("anchor.written")
            os.fsync(file)
        hit("anchor.synced")

    def begin(self, line: AnchorLine) -> AnchorLine:
        """Write a line unless there is one; the line that is there then. Errors as of :meth:`write`."""
        with self._locked() as file:
            if (known := self.last()) is not None:
                return known
            self._cut_torn(file)
            _put(file, line.to_bytes())
            os.fsync(file)
        return line

    def shorten(self) -> None:
        """Where it has become long, keep what matters: the last head, balances, and releases. Best effort."""
        try:
            if self.path.stat().st_size < _LONG:
                return
            with self._locked():
                self._lines(self.path.read_bytes())
                known = self.all()
                if known is not None:
                    self._replace(known.to_lines())
        except (OSError, LedgerError):
            return  # whoever reads it next will say what is wrong

    def renew(self, lines: Sequence[AnchorLine]) -> None:
        """Begin anew with these lines; what was there is set aside under another name, and never removed.

        Raises:
            LedgerError: It cannot be written.
        """
        with self._locked() as file:
            if os.fstat(file).st_size:
                number = 1
                while (aside := self.path.with_name(f"{self.path.name}.{number}")).exists():
                    number += 1
                os.link(self.path, aside)
            self._replace(lines)

    def _replace(self, lines: Sequence[AnchorLine]) -> None:
        data = b"".join(line.to_bytes() for line in lines)
        fresh = self.path.with_name(f"{self.path.name}.new")
        fresh.unlink(missing_ok=True)  # of a process that was killed: its mode may be another one
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self.path)
        sync_folder(self.path.parent)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The open file with its lock; what the system says of it, here and in the block, is an error of ours."""
        try:
            made = not self.path.exists()
            if made:
                make_folder(self.path.parent)
            file = self._lock()
            try:
                yield file
                if made:
                    sync_folder(self.path.parent)
            finally:
                os.close(file)
        except OSError as error:
            raise self._unusable(error) from error

    def _lock(self) -> int:
        # The file may be shortened, and so replaced, while this waits for its lock: then the new one is taken.
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(file), self.path.stat()):
                    return file
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(file)
                raise
            os.close(file)

    @staticmethod
    def _cut_torn(file: int) -> None:
        size = os.fstat(file).st_size
        *_, last, rest = (b"", *_end_of(file, size).split(b"\n"))
        torn = len(rest) if rest or not last or AnchorLine.from_bytes(last) is not None else len(last) + 1
        if torn:
            os.ftruncate(file, size - torn)

    def _lines(self, data: bytes) -> list[AnchorLine]:
        """Every line but a torn last one; it may lack its end, or have one behind bytes that never reached the disk."""
        parts = data.split(b"\n")
        if not parts[-1]:
            parts.pop()
        parsed = [AnchorLine.from_bytes(part) for part in parts]
        if parsed and parsed[-1] is None:
            parsed.pop()
        lines = [line for line in parsed if line is not None]
        if len(lines) != len(parsed) or len({line.ledger for line in lines}) > 1:
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


def _put(file: int, data: bytes) -> None:
    if os.write(file, data) != len(data):  # a full disk takes what fits, and says nothing
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _end_of(file: int, size: int) -> bytes:
    """The end of a file of this size, from the beginning of a line on: the latest lines, however long each is."""
    length = _TAIL
    while length < size:
        data = os.pread(file, length, size - length)
        if data.count(b"\n") > _LATEST:
            return data.partition(b"\n")[2]
        length *= 2
    return os.pread(file, size, 0)


class Journal:
    """All anchors of one ledger."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.anchors = tuple(Anchor(path) for path in paths)
        self._highest = 0
        self._told: dict[tuple[str, str, str], int] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """Where they are."""
        return tuple(str(anchor.path) for anchor in self.anchors)

    def write(self, *lines: AnchorLine) -> None:
        """Append to all of them; each is synced before the next one."""
        for anchor in self.anchors:
            anchor.write(*lines)
        for line in lines:
            self._highest = max(self._highest, line.sequence)
            self._told[line.release, line.period, line.plan] = -1 if line.ended else line.sequence

    def begin(self, ledger: str) -> str:
        """Write a first line where an anchor has none, so that a missing file can be told from one not yet made.

        Args:
            ledger: The id for a ledger that is about to be made.

        Returns:
            The id that all of them now hold; that of a beginning that came to nothing, where there was one.
        """
        lines = [anchor.last() for anchor in self.anchors]
        ledger = next((line.ledger for line in lines if line is not None), ledger)
        first = AnchorLine(ledger=ledger, sequence=0, hash="")
        for anchor, line in zip(self.anchors, lines, strict=True):
            if line is None:
                anchor.begin(first)
            elif line.ledger != ledger:
                anchor.renew([first])
        return ledger

    def join(self, paths: Sequence[str], known: AnchorKnowledge) -> None:
        """Write everything to anchors that are new in the list; what another ledger began there is set aside."""
        for anchor in self.anchors:
            if str(anchor.path) in paths:
                last = anchor.last()
                if last is not None and last.ledger == known.ledger:
                    anchor.write(*known.to_lines())
                else:
                    anchor.renew(known.to_lines())

    def known(self, beside: Sequence[Anchor] = ()) -> tuple[AnchorKnowledge, ...]:
        """What the anchors, and those beside them, know, one for each course of events; damaged lines are passed over.

        Anchors of one ledger know one course, some of them less of it; those of two ledgers, or of two copies that
        went on by themselves, know two.
        """
        courses: list[AnchorKnowledge] = []
        states = [known for anchor in (*self.anchors, *beside) if (known := anchor.all()) is not None]
        for known in sorted(states, key=lambda known: -known.head.sequence):
            same = [each for each in courses if each.ledger == known.ledger and known.head in (*each.heads, Head())]
            if same:
                courses[courses.index(same[0])] = merged(same[0], known)
            else:
                courses.append(known)
        return tuple(courses)

    def renew(self, known: AnchorKnowledge) -> None:
        """Begin all anchors anew behind a recovery."""
        for anchor in self.anchors:
            anchor.renew(known.to_lines())
        self._highest = known.head.sequence

    def covers(self, sequence: int, release: tuple[str, str, str] | None = None) -> bool:
        """Whether every anchor is known to have this entry or a later one, and what it says of a release."""
        return not self.anchors or (self._told.get(release, 0) if release else self._highest) >= sequence

    def shorten(self) -> None:
        """Shorten those that have become long."""
        for anchor in self.anchors:
            anchor.shorten()
