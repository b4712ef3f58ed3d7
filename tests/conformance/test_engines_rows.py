"""One hostile row in a file leaves every other row as it was, in every engine."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import pytest

from tests.conformance.people import GOOD, HEAD, people

HOSTILE = {
    "unclosed quote": b'1,"x,5\n',
    "a lone quote": b'"\n',
    "quote bomb": b'"' * 100_001 + b"\n",
    "quote bomb of pairs": b'1,"' + b'""' * 50_000 + b'",5\n',
    "text after a quote": b'1,"x"y,5\n',
    "too few fields": b"1,x\n",
    "too many fields": b"1,x,5,6\n",
    "invalid UTF-8": b"1,\xff\xfe\xc3,5\n",
    "a cut UTF-8 sequence": b"1,\xe2\x82\n",
    "NUL": b"1,\x00,\x00\n",
    "carriage returns": b"1,x\r1,y,5\r2,x,7\n",
    "one field of a megabyte": b"1," + b"z" * 2**20 + b",5\n",
    "a line too long to be a row": b"1,x," + b"5" * (2**24) + b"\n",
    "a number too long": b"1,q," + b"9" * 5000 + b"\n",
    "an exponent too long": b"1,q,1e" + b"9" * 5000 + b"\n",
    "not a number": b"NaN,q,inf\n",
    "escape by backslash": b'1,"x\\",5\n',
    "empty lines": b"\n\n\r\n",
}


@pytest.mark.thin(every=3)
@pytest.mark.parametrize("name", HOSTILE)
def test_one_hostile_row_leaves_every_other_row_alone(kind: str, name: str, tmp_path: Path) -> None:
    """No hostile row here falls in a cell, so the cells are those of the file without it, wherever it stands."""
    clean = people(kind, tmp_path / "clean", HEAD + b"".join(GOOD))
    for at in (0, 30, 60):
        rows = [*GOOD[:at], HOSTILE[name], *GOOD[at:]]
        assert people(kind, tmp_path / f"hostile{at}", HEAD + b"".join(rows)) == clean


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "empty lines"])
def test_a_hostile_row_is_one_row(kind: str, name: str, tmp_path: Path) -> None:
    """Without keys it counts once, like every row."""
    found = people(kind, tmp_path / "all", HEAD + b"".join([*GOOD, HOSTILE[name]]), by=())
    assert found[0] == [len(GOOD) + 1]


def test_an_empty_line_is_no_row(kind: str, tmp_path: Path) -> None:
    found = people(kind, tmp_path / "all", HEAD + b"\n\r\n".join(GOOD) + b"\n\n", by=())
    assert found[0] == [len(GOOD)]


def test_order_and_files_do_not_matter(kind: str, tmp_path: Path) -> None:
    rows = [*GOOD, *(row for name, row in HOSTILE.items() if len(row) < 200_000)]
    first = people(kind, tmp_path / "first", HEAD + b"".join(rows))
    mixed = random.Random(7).sample(rows, len(rows))
    assert people(kind, tmp_path / "mixed", HEAD + b"".join(mixed)) == first
    assert people(kind, tmp_path / "split", HEAD + b"".join(mixed[:9]), HEAD, HEAD + b"".join(mixed[9:])) == first
    assert people(kind, tmp_path / "crlf", (HEAD + b"".join(rows)).replace(b"\n", b"\r\n")) == first
    assert people(kind, tmp_path / "bom", b"\xef\xbb\xbf" + HEAD + b"".join(rows)) == first


@pytest.mark.slow
def test_columns_may_stand_in_another_order_with_others_between(kind: str, tmp_path: Path) -> None:
    moved = [b",".join((b"junk", *reversed(row.strip().split(b",")))) + b"\n" for row in GOOD]
    clean = people(kind, tmp_path / "clean", HEAD + b"".join(GOOD))
    assert people(kind, tmp_path / "moved", b"other,pay,town,sex\n" + b"".join(moved)) == clean


def test_an_empty_table_has_every_cell(kind: str, tmp_path: Path) -> None:
    assert people(kind, tmp_path / "empty", HEAD) == [[0] * 4] * 3
    assert people(kind, tmp_path / "bare", HEAD.strip(), by=()) == [[0]] * 3


def test_quoted_rows_in_number(kind: str, tmp_path: Path) -> None:
    """100,000 rows, half of them with quotes, commas inside quotes and doubled quotes, over several blocks."""
    rows = [
        (str(at % 2 + 1), ("x", "y", "a, b", 'say "x"')[at % 4], str(at % 1500))
        for at in range(100_000)
    ]  # fmt: skip
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(rows)
    found = people(kind, tmp_path / "quoted", HEAD + text.getvalue().encode())
    expected = [
        [sum(1 if number < 2 else min(int(c), 1000) for a, b, c in rows if (int(a), b) == cell) for cell in CELLS]
        for number in range(3)
    ]
    assert found == expected


CELLS = [(1, "x"), (1, "y"), (2, "x"), (2, "y")]
