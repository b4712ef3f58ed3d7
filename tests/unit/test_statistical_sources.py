"""Files of SPSS, Stata and SAS: encodings, dates, broken files, and the process that parses them."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from dprelease.catalog.dialect import AS_STORED, Dialect
from dprelease.catalog.table import Column, Source, Table
from dprelease.engines.files.fingerprint import no_rows
from dprelease.engines.files.formats import FILE_FORMATS
from dprelease.engines.files.rows import typed
from dprelease.engines.files.statistical import process
from dprelease.engines.files.statistical.moments import Shown, as_moments, shown_as
from dprelease.engines.files.statistical.process import Unreadable, dictionary_of, parsed_blocks
from dprelease.errors import EngineError, MissingExtra
from tests import warm_parser as parsers
from tests.statistical_files import KINDS, write_statistical

warm_parser = parsers.warm_parser

SHOWN: tuple[Shown, ...] = ("day", "moment", "moment with leap seconds")
STORED = Dialect(encoding=AS_STORED)


def table_of(path: Path, dialect: Dialect = STORED) -> Table:
    kind = path.suffix[1:]
    return Table(name="t", account="a", source=Source(file=path.name, format=kind, dialect=dialect), columns=())


def column(path: Path, name: str, dialect: Dialect = STORED) -> Any:
    """One column, as an engine gets it."""
    table, form = table_of(path, dialect), FILE_FORMATS[path.suffix[1:]]
    names = form.names(table.files, path)
    assert names is not None, form.advice(table.files, path, ())
    blocks = form.blocks(table, path, names, [name], ())
    return pa.concat_arrays([block[0] for block in blocks])


def why_not(path: Path) -> str:
    """What is said of a file that is not read."""
    table, form = table_of(path), FILE_FORMATS[path.suffix[1:]]
    assert form.names(table.files, path) is None
    advice = form.advice(table.files, path, ["ID"])
    assert advice is not None
    return " -> ".join(advice)


def rewritten(path: Path, old: bytes, new: bytes) -> None:
    """Other bytes in place of some that are there once."""
    data = path.read_bytes()
    assert len(old) == len(new)
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))


# ---- texts ----


@pytest.mark.parametrize("kind", ["sav", "dta", "xpt", "sas7bdat"])
def test_bytes_that_mean_nothing_change_their_own_value_alone(kind: str, tmp_path: Path) -> None:
    """And no two ids become one; the whole file would be refused if it were read as UTF-8."""
    path = tmp_path / f"t.{kind}"
    write_statistical(path, {"ID": ["first", "René", "XXYYZZ", "XXYYZW", "last"], "N": [1.0] * 5})
    rewritten(path, b"XXYYZZ", b"Ren\xe9ZZ")
    rewritten(path, b"XXYYZW", b"Ren\xe8ZZ")
    array = column(path, "ID")
    text = Column(name="ID", type="text")
    assert typed(text, array).to_pylist() == ["first", "René", "Ren\ufffdZZ", "Ren\ufffdZZ", "last"]
    assert len(set(typed(text, array, unit=True).to_pylist())) == 5


def test_texts_are_in_the_encoding_that_the_file_says_or_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "t.dta"
    write_statistical(path, {"größe": ["Zürich"]}, version=15)
    assert column(path, "größe").to_pylist() == ["Zürich".encode()]
    frame = pd.DataFrame({"ort": ["Zürich", "Genève"]})
    frame.to_stata(path, write_index=False, version=114)
    assert b"Z\xfcrich" in path.read_bytes()
    assert column(path, "ort").to_pylist() == ["Zürich".encode(), "Genève".encode()]
    assert column(path, "ort", Dialect(encoding="iso-8859-5")).to_pylist()[0] == "Zќrich".encode()


def test_a_file_of_spss_that_says_another_encoding_is_read_in_it(tmp_path: Path) -> None:
    """Record 7, subtype 20 names it; the writer knows UTF-8 alone, so the name is written over."""
    path = tmp_path / "t.sav"
    write_statistical(path, {"ORT": ["Zu_rich", "Bern"]})
    data = path.read_bytes()
    at = data.index(b"\x07\0\0\0\x14\0\0\0\x01\0\0\0")
    assert data[at + 16 : at + 21] == b"UTF-8"
    for name, ort, number in ((b"CP437", b"Z\x81_rich", 437), (b"EBCDI", b"Zu_rich", 77_777)):
        changed = data[: at + 16] + name + data[at + 21 :]
        code = changed.replace((65001).to_bytes(4, "little"), number.to_bytes(4, "little"))
        path.write_bytes(code.replace(b"Zu_rich", ort))
        if name == b"CP437":
            assert column(path, "ORT").to_pylist() == ["Zü_rich".encode(), b"Bern"]
    assert "encoding" in why_not(path)
    assert column(path, "ORT", Dialect(encoding="utf-8")).to_pylist() == [b"Zu_rich", b"Bern"]


@pytest.mark.parametrize("kind", KINDS)
def test_blanks_before_a_text_stay_and_those_after_it_only_in_stata(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{kind}"
    write_statistical(path, {"ID": [" a ", "abc", ""], "N": [1.0, 2.0, 3.0]})
    assert column(path, "ID").to_pylist() == [b" a " if kind == "dta" else b" a", b"abc", b""]


# ---- days and moments ----


def test_sas_formats_of_days_and_moments_are_those_that_pandas_knows() -> None:
    known = import_module("pandas.io.sas.sas_constants")
    assert [name for name in known.sas_date_formats if shown_as("sas7bdat", name) != "day"] == []
    assert [name for name in known.sas_datetime_formats if shown_as("sas7bdat", name) != "moment"] == [
        "TOD"  # shows the time of day of a moment, or of a number of seconds: which of the two it does not say
    ]
    assert [shown_as("xpt", name) for name in ("BEST12.", "TIME8.", "F8.2", "$CHAR20.", "", "DOLLAR8.2")] == [None] * 6


@pytest.mark.parametrize("shape", ["F8.2", "TIME8", "DTIME12", "WKDAY3", "MONTH3", "DOLLAR8", "A8", "", "DATES"])
def test_other_formats_of_spss_are_plain_numbers(shape: str) -> None:
    assert shown_as("sav", shape) is None


@pytest.mark.parametrize(("shape", "kind"), [("%td", "day"), ("%tdCCYY-NN-DD", "day"), ("%d", "day"), ("%-tdD_m_Y", "day"), ("%tcHH:MM", "moment"), ("%tm", None), ("%tq", None), ("%9.0g", None), ("%-9s", None)])  # fmt: skip
def test_formats_of_stata(shape: str, kind: str | None) -> None:
    assert shown_as("dta", shape) == kind


def test_leap_seconds_are_taken_out() -> None:
    """By Stata's own example (help datetime): the second before, the leap second, and the second after 2005."""
    of_tc = (dt.datetime(2006, 1, 1) - dt.datetime(1960, 1, 1)).total_seconds()
    before = 22 * 1000.0  # leap seconds until then, from the tables of the IERS
    numbers = pa.array([(of_tc - 1) * 1000 + before, of_tc * 1000 + before, (of_tc + 1) * 1000 + before, 0.0])
    found = as_moments("dta", "moment with leap seconds", numbers).to_pylist()
    assert [str(each) for each in found] == [
        "2005-12-31 23:59:59", "2006-01-01 00:00:00", "2006-01-01 00:00:00", "1960-01-01 00:00:00",
    ]  # fmt: skip
    now = dt.datetime(2024, 2, 29)
    ticks = ((now - dt.datetime(1960, 1, 1)).total_seconds() + 27) * 1000
    assert as_moments("dta", "moment with leap seconds", pa.array([ticks])).to_pylist() == [now]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), 1e300, -1e300, 5e11, None])
def test_no_number_is_too_large_for_a_day(kind: str, number: float | None) -> None:
    for shown in SHOWN:
        found = as_moments(kind, shown, pa.array([number, 0.0], pa.float64())).to_pylist()
        assert found[0] is None or abs(found[0].year) < 10_000
        assert str(found[1]).startswith("1582-10-14" if kind in ("sav", "zsav", "por") else "1960-01-01")


# ---- files that are not whole ----


@pytest.mark.usefixtures("warm_parser")
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_cut_anywhere_is_told_or_has_all_of_its_rows(kind: str, tmp_path: Path) -> None:
    """Of an XPT file a cut at a record's end that is a row's end too cannot be seen: version 5 counts no rows."""
    path = tmp_path / f"t.{kind}"
    write_statistical(path, {"ID": [f"p{at}" for at in range(400)], "N": [at / 4 for at in range(400)]})
    data, told = path.read_bytes(), 0
    for length in [*range(0, len(data), len(data) // 23), len(data) - 1]:
        path.write_bytes(data[:length])
        try:
            assert dictionary_of(kind, path).rows == 400
        except Unreadable as error:
            told += "damaged" in error.says
    assert told >= 23


def test_a_file_that_counts_wrong_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.sav"
    write_statistical(path, {"N": [1.5, 2.5, 3.5]})
    data = path.read_bytes()
    assert data[80:84] == (3).to_bytes(4, "little")  # the number of cases in the header of a system file
    for cases, says in ((4, "damaged"), (2**31 - 1, "does not say how many rows"), (-1, "does not say how many rows")):
        path.write_bytes(data[:80] + cases.to_bytes(4, "little", signed=True) + data[84:])
        assert says in why_not(path), cases


def test_an_xpt_file_with_two_data_sets_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.xpt"
    write_statistical(path, {"N": [1.5, 2.5]})
    data = path.read_bytes()
    path.write_bytes(data + data[data.index(b"HEADER RECORD*******MEMBER") :])
    assert "more than one data set" in why_not(path)


def test_an_xpt_file_of_version_8_has_as_many_rows_as_it_counts(tmp_path: Path) -> None:
    path = tmp_path / "t.xpt"
    write_statistical(path, {"N": [float(at) for at in range(1, 101)]}, file_format_version=8)
    assert dictionary_of("xpt", path).rows == 100
    path.write_bytes(path.read_bytes()[:-80])
    assert "damaged" in why_not(path)


@pytest.mark.parametrize("last", [[], ["x"]])
def test_a_row_of_blanks_is_no_row_of_an_xpt_file_wherever_it_stands(last: list[str], tmp_path: Path) -> None:
    """At the end nobody can tell it from what fills the record: another row after it must not make a row of it."""
    path = tmp_path / "t.xpt"
    write_statistical(path, {"A": ["a", "", "", *last], "B": ["", "", "", *last]})
    assert column(path, "A").to_pylist() == [b"a", *(text.encode() for text in last)]
    assert dictionary_of("xpt", path).rows == 1 + len(last)
    write_statistical(path, {"A": ["a", "", ""], "N": [None, None, 0.0]})
    assert len(column(path, "A")) == 3


def test_a_number_whose_bytes_are_blanks_is_no_row_either(tmp_path: Path) -> None:
    path = tmp_path / "t.xpt"
    write_statistical(path, {"N": [1.5, 2.5, 3.5]})
    data = path.read_bytes()
    at = data.index(bytes.fromhex("4128000000000000"))  # 2.5 as IBM writes it
    path.write_bytes(data[:at] + b" " * 8 + data[at + 8 :])
    assert column(path, "N").to_pylist() == [1.5, 3.5]


# ---- the process ----


def test_a_parser_that_wants_too_much_memory_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.sav"
    write_statistical(path, {"ID": ["x" * 30_000, "y"] * 20})
    assert dictionary_of("sav", path).rows == 40
    monkeypatch.setattr(process, "MEMORY", 100 << 20)
    os.utime(path, (1, 1))
    assert why_not(path)


@pytest.mark.slow
def test_a_parser_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.por"
    write_statistical(path, {name: [at / 7 for at in range(100_000)] for name in "ABCDE"})
    monkeypatch.setattr(process, "SECONDS", 0)
    assert "seconds for one block" in why_not(path)


_STREAM = "import pyarrow as pa\nwith pa.ipc.new_stream(sys.stdout.buffer, pa.schema([('0', {})])) as s:"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("import os; os.write(1, b'x' * 100000)", "damaged"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ends the parser"),
        ("import sys; sys.stderr.write('CANARY'); sys.exit(90)", "ends the parser"),
        (f"{_STREAM.format('pa.string()')} s.write_batch(pa.record_batch([pa.array(['a'])], names=['0']))", "damaged"),
        (f"{_STREAM.format('pa.binary()')} s.write_batch(pa.record_batch([pa.Array.from_buffers(pa.binary(), 2, [None, "
         "pa.py_buffer(bytes([0] * 4 + [5] + [0] * 3 + [1] + [0] * 3)), pa.py_buffer(b'abcde')])], names=['0']))", "damaged"),
        (f"{_STREAM.format('pa.binary()')} s.write_batch(pa.record_batch([pa.array([b'a'])], names=['0']))", ""),
    ],
)  # fmt: skip
def test_nothing_that_the_process_says_is_believed(
    script: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "t.sav", tmp_path / "parser.py"
    write_statistical(path, {"ID": ["a"]})
    other.write_text(f"import json, sys\nsys.path[:] = json.loads(sys.argv[1])\n{script}\n", encoding="utf-8")
    monkeypatch.setattr(process, "_PARSER", other)
    if not says:
        assert [block[0].to_pylist() for block in parsed_blocks("sav", path, [0], [])] == [[b"a"]]
        return
    with pytest.raises(Unreadable, match=says):
        list(parsed_blocks("sav", path, [0], []))
    monkeypatch.setattr("dprelease.engines.files.statistical.files.dictionary_of", lambda kind, path: _DICTIONARY)
    with pytest.raises(EngineError) as caught:
        list(FILE_FORMATS["sav"].blocks(table_of(path), path, ["ID"], ["ID"], ()))
    assert caught.value.code == "DPR-E107"
    assert "CANARY" not in str(caught.value)


def test_the_process_loads_no_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be most of its time: pyarrow loads it to make the first array."""
    path, other = tmp_path / "t.sav", tmp_path / "parser.py"
    write_statistical(path, {"ID": ["a"], "N": [1.0]})
    started = f"runpy.run_path({str(process._PARSER)!r}, run_name='parser')['main']()"
    ended = "os._exit(90 if sys.modules.keys() & {'pandas'} else code)"
    other.write_text(f"import os, runpy, sys\ncode = {started}\n{ended}\n", encoding="utf-8")
    monkeypatch.setattr(process, "_PARSER", other)
    assert [len(block) for block in parsed_blocks("sav", path, [0, 1], [])] == [2]


_DICTIONARY = process.Dictionary((b"ID",), ("A8",), "UTF-8", 1)


def test_the_process_is_told_no_path_and_no_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[str], dict[str, str]]] = []
    popen = subprocess.Popen

    def heard(words: list[str], **more: Any) -> Any:
        asked.append((words, more["env"]))
        return popen(words, **more)

    monkeypatch.setattr(subprocess, "Popen", heard)
    monkeypatch.setenv("OFFICE_PASSWORD", "CANARY")
    path = tmp_path / "CANARY.sav"
    write_statistical(path, {"ID": ["CANARYa"], "N": [1.0]})
    assert column(path, "ID").to_pylist() == [b"CANARYa"]
    assert len(asked) == 2
    assert not any("CANARY" in word for words, env in asked for word in (*words, *env, *env.values()))
    assert all(words[0] == sys.executable for words, _ in asked)


def test_the_process_ends_with_whoever_no_longer_reads(tmp_path: Path) -> None:
    path = tmp_path / "t.sav"
    write_statistical(path, {"N": [float(at) for at in range(300_000)]})
    blocks = parsed_blocks("sav", path, [0], [])
    assert len(next(blocks)[0]) > 0
    before = _children()
    assert before
    blocks.close()  # type: ignore[attr-defined]
    assert _children() < before


def _children() -> set[str]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return set(file.read().split())


def test_a_missing_package_is_told_with_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.zsav"
    write_statistical(path, {"ID": ["a"]})
    monkeypatch.setattr(process, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as caught:
        FILE_FORMATS["zsav"].names(table_of(path).files, path)
    assert (caught.value.code, caught.value.exit_code) == ("DPR-X106", 9)
    assert "dprelease[statfiles]" in caught.value.hint


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_without_rows_is_known(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{kind}"
    for values, known in (([], True), ([1.0], False)):
        write_statistical(path, {"N": values})
        assert no_rows(table_of(path).files, path.read_bytes()) is known
    assert no_rows(table_of(path).files, b"CANARY") is False


def test_declared_names_of_one_column_twice_are_told(tmp_path: Path) -> None:
    path = tmp_path / "t.dta"
    pyreadstat.write_dta(pd.DataFrame({"NAMEA": [1.0], "NAMEB": [2.0]}), path, version=13)
    path.write_bytes(path.read_bytes().replace(b"NAMEB", b"NAMEA"))
    assert "two columns of one name" in why_not(path)
