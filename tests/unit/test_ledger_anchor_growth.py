"""An anchor that only grew is read from where it was read before; every other change is seen as by a new reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprelease.errors import Corrupt
from dprelease.ledger.anchors.anchors import Anchor
from dprelease.ledger.model.anchor_lines import AnchorLine


def line(sequence: int, ledger: str = "one", long: int = 0) -> AnchorLine:
    return AnchorLine(ledger=ledger, sequence=sequence, hash=f"hash of {sequence}", release="r" * long)


def data(*lines: AnchorLine) -> bytes:
    return b"".join(each.to_bytes() for each in lines)


@pytest.fixture
def known(tmp_path: Path) -> Anchor:
    """It has read the lines 1, 3 and 2."""
    made = Anchor(tmp_path / "head")
    made.path.write_bytes(data(line(1), line(3), line(2)))
    assert made.last() == line(3)
    return made


def add(anchor: Anchor, more: bytes) -> None:
    with anchor.path.open("ab") as file:
        file.write(more)


def test_what_was_read_before_still_counts_and_is_not_read_again(
    known: Anchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []
    whole = AnchorLine.from_bytes

    def counted(text: bytes) -> AnchorLine | None:
        read.append(text)
        return whole(text)

    monkeypatch.setattr(AnchorLine, "from_bytes", counted)
    add(known, data(line(2)))
    assert known.last() == line(3)
    add(known, data(line(4)))
    assert known.last() == line(4)
    assert len(read) == 4  # each time the last line that was known, and the new one


def test_one_new_reader_and_one_old_one_see_the_same_however_long_it_grows(known: Anchor) -> None:
    for sequence in range(4, 60):
        add(known, data(line(sequence, long=5000)))
        assert known.last() == Anchor(known.path).last() == line(sequence, long=5000)


@pytest.mark.parametrize("torn", [1, 20, -1])
def test_a_torn_line_that_is_cut_off_was_never_there(known: Anchor, torn: int) -> None:
    add(known, data(line(9))[:torn])  # without its end alone it is whole, and is cut off all the same
    assert known.last() == (line(9) if torn == -1 else line(3))
    Anchor(known.path).write(line(4))
    assert known.last() == Anchor(known.path).last() == line(4)


@pytest.mark.parametrize("more", [b"no line\n" + data(line(4)), data(line(4, ledger="two"))])
def test_damage_and_another_ledger_in_what_is_new_are_refused(known: Anchor, more: bytes) -> None:
    add(known, more)
    for _ in range(2):
        with pytest.raises(Corrupt):
            known.last()


@pytest.mark.parametrize("sequences", [(1,), (1, 2), (2, 1, 1, 1, 1)])
def test_a_file_that_was_written_anew_in_place_is_read_from_its_beginning(
    known: Anchor, sequences: tuple[int, ...]
) -> None:
    number = known.path.stat().st_ino
    known.path.write_bytes(data(*map(line, sequences)))
    assert known.path.stat().st_ino == number
    assert known.last() == line(max(sequences))


def test_a_file_that_was_shortened_is_read_from_its_beginning(known: Anchor) -> None:
    fresh = known.path.with_name("fresh")
    fresh.write_bytes(data(line(3)))
    fresh.replace(known.path)
    assert known.last() == line(3)
    Anchor(known.path).write(line(4))
    assert known.last() == line(4)
