"""The second memory: lines that are only appended, torn at most at the end, and in step with what is handed on."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import Corrupt
from dprelease.ledger.anchors import anchors
from dprelease.ledger.anchors.anchors import Anchor, Journal
from dprelease.ledger.model.anchor_lines import AnchorLine, known_from
from dprelease.ledger.model.balance import Balance
from dprelease.plan.document import Head
from dprelease.privacy.filters import Spent
from tests.ledgers import account


def line(sequence: int, ledger: str = "id", **facts: Any) -> AnchorLine:
    return AnchorLine(ledger=ledger, sequence=sequence, hash=f"hash {sequence}", **facts)


def balance(loss: int, name: str = "people", **facts: Any) -> Balance:
    return Balance(account=name, opened=1, spent=Spent(loss=Fraction(loss)), **facts)


@pytest.fixture
def anchor(tmp_path: Path) -> Anchor:
    return Anchor(tmp_path / "anchors" / "head")


def test_a_line_is_read_back_and_any_altered_byte_of_it_is_seen() -> None:
    made = line(7, balances=(balance(3),), terms=(account(),), release="survey", period="2024", plan="p")
    data = made.to_bytes()
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert AnchorLine.from_bytes(data[:-1]) == made
    for at in range(len(data) - 1):
        assert AnchorLine.from_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 : -1]) is None
        assert AnchorLine.from_bytes(data[:at]) is None


def test_a_file_that_is_not_there_or_empty_knows_nothing(anchor: Anchor) -> None:
    assert (anchor.last(), anchor.all()) == (None, None)
    anchor.path.parent.mkdir()
    anchor.path.touch()
    assert (anchor.last(), anchor.all()) == (None, None)


def test_the_highest_line_counts_in_whatever_order_processes_write(anchor: Anchor) -> None:
    for sequence in (1, 3, 2):
        anchor.write(line(sequence))
    assert anchor.last() == Anchor(anchor.path).last() == line(3)
    known = anchor.all()
    assert known is not None
    assert known.head == Head(sequence=3, hash="hash 3")
    assert [head.sequence for head in known.heads] == [3, 2, 1]


def test_a_line_is_on_the_disk_before_its_writer_goes_on(anchor: Anchor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last thing that is done to the file is to sync it, with the whole line in it: of each line, the first too."""
    synced: list[bytes] = []
    sync = os.fsync

    def watched(file: Any) -> None:
        sync(file)
        synced.append(anchor.path.read_bytes() if anchor.path.exists() else b"")

    monkeypatch.setattr(os, "fsync", watched)
    for sequence in (1, 2):
        anchor.write(line(sequence))
        assert synced
        assert synced[-1].endswith(line(sequence).to_bytes())


@pytest.mark.parametrize("long", [1, 5_000])
def test_a_torn_last_line_is_cut_off_by_whoever_writes_next(anchor: Anchor, long: int) -> None:
    """A crash leaves any part of the line that was being written; nobody was told what it says."""
    lasting = line(1, balances=tuple(balance(1, f"account {n}") for n in range(long // 10)))
    torn = line(2, balances=tuple(balance(2, f"account {n}") for n in range(long))).to_bytes()
    ends = range(len(torn)) if long == 1 else (1, 1000, 70_000, len(torn) // 2, len(torn) - 1)
    for end in ends:
        anchor.path.unlink(missing_ok=True)
        anchor.write(lasting)
        with anchor.path.open("ab") as file:
            file.write(torn[:end])
        fresh = Anchor(anchor.path)
        last = fresh.last()
        assert last is not None
        assert last.sequence == (2 if end == len(torn) - 1 else 1)  # all of it but the end of line is all of it
        fresh.write(line(3))
        assert anchor.path.read_bytes() == lasting.to_bytes() + line(3).to_bytes()
        assert fresh.last() == line(3)


def test_a_last_line_whose_beginning_never_reached_the_disk_is_torn_too(anchor: Anchor) -> None:
    anchor.write(line(1))
    data = line(2).to_bytes()
    with anchor.path.open("ab") as file:
        file.write(b"\0" * (len(data) - 5) + data[-5:])
    assert Anchor(anchor.path).last() == line(1)
    anchor.write(line(3))
    assert anchor.path.read_bytes() == line(1).to_bytes() + line(3).to_bytes()


@pytest.mark.parametrize("spoilt", [0, 1, 2])
def test_damage_before_the_last_line_is_damage(anchor: Anchor, spoilt: int) -> None:
    """One write leaves one torn line; more than that is no crash."""
    for sequence in range(1, 5):
        anchor.write(line(sequence))
    lines = anchor.path.read_bytes().splitlines(keepends=True)
    lines[spoilt] = lines[spoilt].replace(b"hash", b"hush")
    anchor.path.write_bytes(b"".join(lines))
    with pytest.raises(Corrupt, match="DPR-L311"):
        Anchor(anchor.path).last()
    known = Anchor(anchor.path).all()  # for a recovery, what is whole is better than nothing
    assert known is not None
    assert known.head.sequence == 4


def test_two_damaged_lines_at_the_end_are_damage(anchor: Anchor) -> None:
    for sequence in range(1, 5):
        anchor.write(line(sequence))
    data = anchor.path.read_bytes()
    cut = len(line(3).to_bytes()) + len(line(4).to_bytes())
    anchor.path.write_bytes(data[:-cut] + b"\0" * (cut - 1) + b"\n")
    assert Anchor(anchor.path).last() == line(2)  # one line of nothing: what a crash leaves
    anchor.path.write_bytes(data[:-cut] + b"\0" * 9 + b"\n" + b"\0" * 9 + b"\n")
    with pytest.raises(Corrupt, match="DPR-L311"):
        Anchor(anchor.path).last()


def test_lines_of_two_ledgers_are_damage(anchor: Anchor) -> None:
    anchor.write(line(1))
    anchor.write(line(2, "another"))
    with pytest.raises(Corrupt, match="by two ledgers"):
        anchor.last()


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("accounts", [10, 600, 5_000])
def test_lines_of_any_length_are_found_at_the_end(anchor: Anchor, accounts: int) -> None:
    """A line with many accounts, or windows, is longer than what one look takes in."""
    for sequence in (1, 2):
        anchor.write(line(sequence, balances=tuple(balance(sequence, f"account {n}") for n in range(accounts))))
    last = Anchor(anchor.path).last()
    assert last is not None
    assert (last.sequence, len(last.balances)) == (2, accounts)
    anchor.write(line(3))
    assert Anchor(anchor.path).last() == line(3)


def test_one_of_several_that_begin_is_the_first(anchor: Anchor) -> None:
    def begin(n: int) -> str:
        return Anchor(anchor.path).begin(line(0, f"id {n}")).ledger

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(begin, range(40)))
    assert len(found) == 1
    assert len(anchor.path.read_bytes().splitlines()) == 1


def test_shortening_keeps_what_matters(anchor: Anchor, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(1, 40):
        anchor.write(line(4 * n, balances=(balance(n),), terms=(account(),), release="survey", period=str(n), plan="p"))
        anchor.write(*(line(4 * n + more) for more in (1, 2)))
        if n % 3 == 0:
            names = {"release": "survey", "period": str(n), "plan": "p", "ended": "void"}
            anchor.write(line(4 * n + 3, balances=(balance(n - 1),), **names))
    before, size = anchor.all(), anchor.path.stat().st_size
    anchor.shorten()
    assert anchor.path.stat().st_size == size  # it is not long yet
    monkeypatch.setattr(anchors, "_LONG", 1)
    anchor.shorten()
    after = anchor.all()
    assert before is not None
    assert after is not None
    assert anchor.path.stat().st_size < size
    assert after.model_copy(update={"heads": ()}) == before.model_copy(update={"heads": ()})
    assert set(after.heads) < set(before.heads)
    assert after.head in after.heads
    assert anchor.last() == Anchor(anchor.path).last()
    assert not list(anchor.path.parent.glob("*.new"))


def test_nothing_is_lost_while_some_append_and_others_shorten(anchor: Anchor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchors, "_LONG", 3_000)

    def work(n: int) -> None:
        mine = Anchor(anchor.path)
        for k in range(25):
            sequence = 25 * n + k + 1
            mine.write(line(sequence, release="survey", period=str(sequence), plan="p"))
            assert mine.last() is not None, "a file that is being replaced must not look empty"
            if k % 5 == n % 5:
                mine.shorten()

    anchor.write(line(0))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    known = anchor.all()
    assert known is not None
    assert {each.sequence for each in known.releases.values()} == set(range(1, 201))
    assert known.head.sequence == 200


def test_a_damaged_file_is_not_shortened(anchor: Anchor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchors, "_LONG", 1)
    for sequence in range(1, 4):
        anchor.write(line(sequence))
    anchor.path.write_bytes(anchor.path.read_bytes().replace(b"hash 2", b"hush 2"))
    data = anchor.path.read_bytes()
    anchor.shorten()
    assert anchor.path.read_bytes() == data


def test_what_is_begun_anew_is_set_aside_and_never_removed(anchor: Anchor) -> None:
    for sequence in (1, 2, 3):
        anchor.write(line(sequence))
        anchor.renew([line(sequence + 10)])
    assert anchor.last() == line(13)
    kept = [anchor.path.with_name(f"head.{n}").read_bytes() for n in (1, 2, 3)]
    assert kept[0] == line(1).to_bytes()
    assert kept[2] == line(12).to_bytes() + line(3).to_bytes()


_FULL = """
import resource, sys
from pathlib import Path
from dprelease.errors import LedgerError
from dprelease.ledger.anchors.anchors import Anchor
from dprelease.ledger.model.anchor_lines import AnchorLine
anchor = Anchor(Path(sys.argv[1]))
size = anchor.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, size + 40))
try:
    anchor.write(AnchorLine(ledger="id", sequence=2, hash="h"))
except LedgerError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_disk_that_takes_half_a_line_is_a_full_disk(anchor: Anchor) -> None:
    """`write` then says how much it took, and raises nothing: an anchor that believed it would not be one."""
    anchor.write(line(1))
    run = subprocess.run([sys.executable, "-c", _FULL, str(anchor.path)], capture_output=True, text=True, check=True)
    assert "DPR-L144" in run.stdout
    assert Anchor(anchor.path).last() == line(1)
    anchor.write(line(3))
    assert Anchor(anchor.path).last() == line(3)


def test_anchors_of_one_course_are_put_together_and_those_of_two_are_not(tmp_path: Path) -> None:
    journal = Journal([tmp_path / name for name in "abc"])
    one, two, three = journal.anchors
    one.write(line(1, balances=(balance(1),)))
    two.write(line(1), line(2, balances=(balance(2, "visits"),), release="survey", period="2024", plan="p"))
    three.write(line(1), AnchorLine(ledger="id", sequence=2, hash="of a copy that went on by itself"))
    found = journal.known()
    assert [known.head.hash for known in found] == ["hash 2", "of a copy that went on by itself"]
    assert set(found[0].balances) == {"people", "visits"}
    assert list(found[0].releases) == ["survey/2024/p"]
    assert Journal([]).known() == ()
    known = known_from([line(1, balances=(balance(4),)), line(2, balances=(balance(3),))])
    assert known.balances["people"].spent.loss == 3  # given back since
