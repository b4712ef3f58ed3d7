"""CSV in every declared form: the same rows mean the same, and no line changes how another one is read."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.dialect import ENCODINGS, MULTIBYTE, Dialect, day_pattern
from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.engines.files.csv_lines import column_blocks, line_fields
from dprelease.engines.files.encodings import in_utf8
from dprelease.engines.files.notation import in_plain_notation
from dprelease.engines.files.rows import typed_with_steps
from dprelease.engines.files.source import checked_headers, stored_blocks
from dprelease.errors import TableMismatch

COLUMNS = (
    Column(name="who", type="text"),
    Column(name="pay", type="decimal", step=Fraction(1, 100), range=Range(low=Fraction(-10_000), high=Fraction(10**7))),
    Column(name="age", type="integer"),
    Column(name="born", type="date"),
    Column(name="seen", type="timestamp"),
    Column(name="works", type="boolean"),
)
PLAIN = ["Zoë;1|x", "1234.5", "1200", "2024-03-07", "2024-03-07 05:06:30", "true"]
GERMAN = Dialect(
    delimiter=";", decimal=",", thousands=".", encoding="windows-1252", date_format="%d.%m.%Y",
    true_values=("Ja", "j"), false_values=("nein",),
)  # fmt: skip
SWISS = Dialect(delimiter="\t", quote="'", thousands="\u2019", date_format="%d/%m/%Y", skip=2)
BARE = Dialect(delimiter="|", quote=None, decimal=",", thousands=" ", date_format="%Y%m%d", header=False,
               names=tuple(column.name for column in COLUMNS), encoding="iso-8859-15")  # fmt: skip
QUOTED = Dialect(decimal=",", date_format="%m/%d/%Y")
WRITTEN = {
    "plain": (Dialect(), PLAIN),
    "german": (GERMAN, ["Zoë;1|x", "1.234,50", "1.200", "7.3.2024", "07.03.2024 05:06:30", " JA "]),
    "swiss": (SWISS, ["Zoë;1|x", "1\u2019234.5", "1\u2019200", "7/3/2024", "7/3/2024T05:06:30", "1"]),
    "bare": (BARE, ["Zoë;1/x", "+1 234,5", "1 200", "20240307", "20240307 05:06:30", "t"]),
    "quoted": (QUOTED, ["Zoë;1|x", "1234,5", "1200,0", "3/7/2024", "03/07/2024 05:06:30", "true"]),
}


def table(dialect: Dialect, nulls: Sequence[str] = ("",)) -> Table:
    source = Source(file="rows*.csv", format="csv", dialect=dialect, null_values=tuple(nulls))
    return Table(name="rows", account="a", source=source, columns=COLUMNS)


def quoted(text: str, mark: str | None) -> str:
    return text if mark is None else f"{mark}{text.replace(mark, mark * 2)}{mark}"


def write(path: Path, dialect: Dialect, rows: Sequence[Sequence[str]]) -> Path:
    lines = ["a title; with, marks"] * dialect.skip
    lines += [dialect.delimiter.join(column.name for column in COLUMNS)] if dialect.header else []
    lines += [dialect.delimiter.join(quoted(text, dialect.quote) for text in row) for row in rows]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(dialect.encoding))
    return path


def read(path: Path, dialect: Dialect, nulls: Sequence[str] = ("",)) -> list[list[Any]]:
    """What every column means, row by row, and the steps of the decimals."""
    one = table(dialect, nulls)
    (names,) = checked_headers(one, [path])
    columns: list[list[Any]] = [[] for _ in range(len(COLUMNS) + 1)]
    for block in stored_blocks(one, path, names, COLUMNS):
        arrays = [
            array
            for column, raw in zip(COLUMNS, block, strict=True)
            for array in typed_with_steps(column, raw, nulls, column.grids, dialect=one.source.notation)
        ]
        for column, array in zip(columns, arrays, strict=True):
            column.extend(array.to_pylist())
    return [list(row) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("form", WRITTEN)
def test_the_same_row_means_the_same_in_every_form(form: str, tmp_path: Path) -> None:
    dialect, row = WRITTEN[form]
    path = write(tmp_path / "rows.csv", dialect, [row, row])
    meant = [row[0], 1234.5, 123450, 1200, "2024-03-07", "2024-03-07T05:06:30", True]
    assert read(path, dialect) == [meant, meant]


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("10,56", 10.56), ("1.234.567,8", 1234567.8), ("1234567,8", 1234567.8), ("-,5", -0.5), ("5,", 5.0), ("1,5e3", 1500.0),
        ("10.56", None), ("1.23", None), ("12.34,5", None), ("1.2345,0", None), ("1,234.5", None), ("1,2,3", None), (".5", None),
        ("1..234", None), ("", None), ("nan", None), ("n/a", None), ("\u0661", None), ("1\u00a0234", None), ("1.234\n", 1234.0),
    ],
)  # fmt: skip
def test_a_number_in_another_notation_is_no_number(text: str, means: float | None) -> None:
    """A point between decimals of a file with decimal commas is never taken for a mark between thousands, nor skipped."""
    column, raw = Column(name="pay", type="decimal"), pa.array([text.encode()], pa.binary())
    assert typed_with_steps(column, raw, ("",), (), dialect=GERMAN)[0].to_pylist() == [means]
    assert in_plain_notation("text", pa.array([text]), GERMAN, ("",)).to_pylist() == [text]


def test_listed_nulls_are_compared_as_the_file_writes_them(tmp_path: Path) -> None:
    rows = [[each, each, "1", "7.3.2024", "", "ja"] for each in ("1.234,5", " 9.999,0 ", "1234,5")]
    path = write(tmp_path / "rows.csv", GERMAN, rows)
    seen = read(path, GERMAN, ["", "9.999,0", "1234.5", "ja"])
    assert [(row[0], row[1], row[-1]) for row in seen] == [
        ("1.234,5", 1234.5, None), (" 9.999,0 ", None, None), ("1234,5", 1234.5, None),
    ]  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    line=st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b"\r")),
    at=st.integers(0, 3),
    form=st.sampled_from(sorted(WRITTEN)),
    encoding=st.sampled_from(ENCODINGS),
)
def test_no_line_changes_how_another_one_is_read(
    line: bytes, at: int, form: str, encoding: str, tmp_path: Path
) -> None:
    """Whatever bytes a line holds: the other rows mean what they meant."""
    dialect, row = WRITTEN[form]
    dialect = dialect.model_copy(update={"encoding": encoding})
    rows = [["Zoe", *row[1:2], str(age), *row[3:]] for age in (1, 2, 3)]
    if encoding in ("koi8-r", "koi8-u", "gbk", "cp855", "iso-8859-5", *MULTIBYTE):
        rows = [[text.encode("ascii", "ignore").decode() for text in each] for each in rows]
    path = write(tmp_path / "rows.csv", dialect.model_copy(update={"encoding": "utf-8"}), [])
    path.write_bytes(path.read_bytes() + b"".join(
        dialect.delimiter.join(quoted(text, dialect.quote) for text in each).encode("ascii", "ignore") + b"\n" for each in rows
    ))  # fmt: skip
    before = read(path, dialect)
    lines = path.read_bytes().split(b"\n")
    start = dialect.lines_before
    lines.insert(start + at, line)
    path.write_bytes(b"\n".join(lines))
    after = read(path, dialect)
    for each in before:
        assert each in after
        after.remove(each)
    assert len(after) <= 1


def test_every_encoding_has_the_marks_of_ascii_and_makes_no_two_bytes_one() -> None:
    ascii_bytes = bytes(range(128))
    for encoding in ENCODINGS:
        assert in_utf8(ascii_bytes + b"\n", encoding) == ascii_bytes + b"\n"
        if encoding == "utf-8":
            continue
        assert bytes(range(32, 127)).decode(encoding).encode() == bytes(range(32, 127)), encoding
        if encoding not in MULTIBYTE:
            assert len({in_utf8(bytes([byte]), encoding) for byte in range(256)}) == 256, encoding


def test_texts_of_two_bytes_stay_apart_in_encodings_of_several_bytes() -> None:
    for encoding in MULTIBYTE:
        pairs = [bytes([one, two]) for one in range(128, 256) for two in range(32, 256)]
        means: dict[bytes, list[bytes]] = {}
        for pair in pairs:
            means.setdefault(in_utf8(pair, encoding), []).append(pair)
        same = [each for each in means.values() if len(each) > 1]
        # two codes of one character are one text; bytes that mean nothing are never one with others
        assert all("\uf700" not in in_utf8(each[0], encoding).decode() for each in same), encoding
        assert sum(map(len, same)) <= 8, (encoding, same)


def test_blocks_and_lines_are_cut_alike(tmp_path: Path) -> None:
    for form, (dialect, row) in WRITTEN.items():
        path = write(tmp_path / f"{form}.csv", dialect, [row] * 50)
        whole = [[array.to_pylist() for array in block] for block in column_blocks(path, 6, [0, 2], dialect=dialect)]
        small = list(column_blocks(path, 6, [0, 2], 7, dialect))
        assert [[each for block in small for each in block[at].to_pylist()] for at in range(2)] == whole[0]
        assert whole[0][0] == [row[0].encode()] * 50


def test_a_line_without_quotes_has_its_delimiters_alone() -> None:
    assert line_fields(b"'a;b';c", GERMAN) == [b"'a", b"b'", b"c"]
    assert line_fields(b"'a\t''b'\tc", SWISS) == [b"a\t'b", b"c"]
    assert line_fields(b'"a|b"|c', BARE) == [b'"a', b'b"', b"c"]


@pytest.mark.parametrize("text", ["%d.%m", "%d.%m.%y", "%d.%m.%Y %H", "%d%d%m%Y", "day", "%", "%d.%m.%Y%"])
def test_a_date_format_has_a_day_a_month_and_a_year(text: str) -> None:
    with pytest.raises(ValueError, match=r"%|day"):
        day_pattern(text)


HEADER = "who,pay,age,born,seen,works"


@pytest.mark.parametrize(
    ("data", "dialect", "says", "hint"),
    [
        (HEADER.replace(",", ";").encode(), Dialect(), "is the delimiter `;`?", 'delimiter: ";"'),
        (HEADER.replace(",", "\t").encode(), Dialect(), "is the delimiter a tab?", "delimiter: tab"),
        (HEADER.encode(), GERMAN, "is the delimiter `,`?", 'delimiter: ","'),
        (HEADER.upper().encode(), Dialect(), "'WHO' for 'who'", "case"),
        (HEADER.replace(",", " , ").encode(), Dialect(), "' pay '", "skip: 1"),
        (HEADER.encode("utf-16"), Dialect(), "UTF-16", "UTF-8"),
        (HEADER.encode("utf-16-le"), Dialect(), "UTF-16", "UTF-8"),
        (b"PK\x03\x04rest", Dialect(), "Excel", "a name that ends in .xlsx"),
        (b"\x1f\x8b\x08rest", Dialect(), "gzip", ".csv.gz"),
        (b"A title\n\n" + HEADER.encode(), Dialect(), "line 3 has all of them", "skip: 2"),
        (HEADER.encode(), BARE.model_copy(update={"names": ("who", "pay")}), "lists the columns", "add the missing ones"),
    ],
)  # fmt: skip
def test_the_shape_of_the_first_line_says_which_form_it_is(
    data: bytes, dialect: Dialect, says: str, hint: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(data + b"\nAlice,1,2\n")
    with pytest.raises(TableMismatch) as caught:
        checked_headers(table(dialect), [path])
    assert says in str(caught.value)
    assert caught.value.hint is not None
    assert hint in caught.value.hint
    assert "Alice" not in str(caught.value)


def test_names_beyond_ascii_say_which_encoding_a_file_has(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("größe;x\n".encode("windows-1252"))
    source = Source(file="rows.csv", format="csv", dialect=Dialect(delimiter=";"))
    one = Table(name="rows", account="a", source=source, columns=(Column(name="größe", type="integer"),))
    with pytest.raises(TableMismatch, match="read as windows-1252") as caught:
        checked_headers(one, [path])
    assert caught.value.hint == "write `encoding: windows-1252` under `source`"


def test_a_source_in_plain_form_is_written_as_it_was() -> None:
    """So plans, ledgers and bundles from before dialects keep their fingerprints."""
    plain = Source(file="a.csv", format="csv")
    assert plain.canonical() == '{"file":"a.csv","format":"csv","null_values":[""]}'
    assert "dialect" in Source(file="a.csv", format="csv", dialect=GERMAN).canonical()
