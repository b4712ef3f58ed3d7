"""Hostile rows with markers in every kind of source: the same words and files as without them, and no marker anywhere.

Of a CSV and of Parquet ``test_hostile.py`` has many more kinds of rows; here is what each other reader could trip over.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import mariadb
from tests import postgres as servers
from tests.e2e import any_source
from tests.e2e.any_source import SOURCES, made_rows, placed
from tests.e2e.seen import NUMBER, WORD, Seen, canaries, marks, seen
from tests.postgres import RUNNER

postgres_server, postgres = servers.postgres_server, servers.postgres
mysql_office, office_store = mariadb.mysql_office, any_source.office_store

PLAIN = (
    f"'; DROP TABLE visits; -- {WORD}", f"{WORD} %s %(x)s {{}} $1", f"=cmd|' /C calc'!{WORD}", f" {WORD} ", "NULL", "nan", "1e309",
    "back\\slash\\134", 'say "hi"', "0x1F",
)  # fmt: skip
ODD = ("two\nlines", "\r", "\t", "\U0001f600", "a\u0308", "\ufdd0", "\ufeffBOM", "\u202eright")
NUL = "u\x00" + WORD
LONGEST = {"dta": 2000, "xpt": 200, "por": 200, "sav": 2000, "zsav": 2000, "sas7bdat": 2000, "xlsx": 30_000}
SERVERS = {"postgres": ["postgres"], "mysql": ["mysql_office"]}
ARROW = ("parquet", "folder", "delta", "s3", "duckdb")
FREE = ("csv", "european", "csv.gz", "csv.zst", "sqlite")  # in which any value may stand in any column


def names(kind: str) -> list[str | None]:
    """Ids that mean trouble."""
    odd = () if kind == "por" else ODD  # which has letters of its own
    nul = (NUL,) if kind in (*ARROW, *FREE) else ()
    return [*PLAIN, *odd, *nul, (WORD + "x" * 60_000)[: LONGEST.get(kind, 60_000)], None]


def numbers(kind: str) -> list[float | None]:
    """Amounts that mean trouble."""
    largest = 1e70 if kind == "xpt" else 1e300
    unreal = [float("nan"), float("inf"), float("-inf")] if kind in (*ARROW, "postgres") else []
    return [float(NUMBER), -float(NUMBER), largest, -largest, -0.0, 1e-70, None, *unreal]


def typed_rows(kind: str) -> list[list[Any]]:
    """Hostile rows for columns that have types."""
    days = [dt.date(1900, 3, 1), dt.date(9999, 12, 31), None] if kind == "xlsx" else [dt.date(1600, 1, 1), dt.date(9999, 12, 31), None]  # fmt: skip
    moments = [None if day is None else dt.datetime(day.year, day.month, day.day, 23, 59, 59) for day in days]
    places, sexes = ["Bern", f"{WORD}"[:6], "", None], [32767, -32768, 0, None]
    amounts = numbers(kind)
    return [
        [name, places[at % 4], sexes[at % 4], days[at % 3], moments[(at + 1) % 3], amounts[at % len(amounts)], None]
        for at, name in enumerate(names(kind))
    ]


def free_rows(kind: str) -> list[list[Any]]:
    """Hostile rows for columns in which anything may stand."""
    odd: list[Any] = [*names(kind), "-1e309", "9" * 5000, "2023-02-29", "0000-00-00", "10000-01-01", "now", str(NUMBER), "1_0", "true"]  # fmt: skip
    if kind == "sqlite":
        odd += [b"\xff\xfe" + WORD.encode(), b"\xed\xa0\x80", 2**63 - 1, -(2**63), float("inf"), float(NUMBER), 0, b""]
    return [[odd[(at + 5 * place) % len(odd)] for place in range(7)] for at in range(len(odd))]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What is seen of a release of plain rows; of which source it is, nobody sees."""
    return seen(any_source.written(tmp_path_factory.mktemp("clean") / "it", "csv", made_rows()))


@contextmanager
def listening(kind: str, request: pytest.FixtureRequest) -> Iterator[list[bytes]]:
    """Whatever a server writes down meanwhile: its logs with everything on, and the statements that it keeps."""
    found: list[bytes] = []
    if kind == "postgres":
        office = request.getfixturevalue("postgres")
        log, kept = office.server.folder / "log", office.server.keeps_statements
        for setting in ("log_statement = 'all'", "log_min_duration_statement = 0", "log_temp_files = 0"):
            office.execute(f"ALTER ROLE {RUNNER} SET {setting}")
        if kept:
            office.execute("CREATE EXTENSION pg_stat_statements")
            office.execute("SELECT pg_stat_statements_reset()")
        before = log.stat().st_size
        try:
            yield found
        finally:
            office.execute(f"ALTER ROLE {RUNNER} RESET ALL")
        found.append(log.read_bytes()[before:])
        assert b"COPY" in found[0]
        assert b"temporary file" not in found[0]
        if kept:
            found.append(repr(office.execute("SELECT query FROM pg_stat_statements")).encode())
            assert b"pg_export_snapshot" in found[1]
    elif kind == "mysql" and (folder := request.getfixturevalue("mysql_office").folder) is not None:
        logs = [folder / name for name in ("general", "slow", "errors.err")]
        sizes = [log.stat().st_size for log in logs]
        yield found
        found += [log.read_bytes()[size:] for log, size in zip(logs, sizes, strict=True)]
        assert b"CONSISTENT SNAPSHOT" in found[0]
    else:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_hostile_rows_are_not_seen_and_no_marker_is_anywhere(
    kind: str, clean: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Not in a bundle, ledger or temporary file, not in a word of the command, and in no log of a server."""
    for server in SERVERS.get(kind, ()):  # which is started before the folder for temporary files is another one
        request.getfixturevalue(server)
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert tempfile.gettempdir() == str(temporary)
    rows = made_rows() + (free_rows(kind) if kind in FREE else typed_rows(kind))
    folder = placed(tmp_path / "it", kind, rows, request, monkeypatch, text="text")
    with listening(kind, request) as said:
        found = seen(folder)
    assert (found.code, found.out, found.err) == (clean.code, clean.out, clean.err)
    assert found.shape == clean.shape
    assert canaries(tmp_path, ("visits.", "visits-", "office.", "part-")) == []
    assert not [mark for mark in marks() for each in (found.out.encode(), found.err.encode(), *said) if mark in each]


def test_a_marker_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "spill").write_bytes(b"x" + NUMBER.to_bytes(8, "little"))
    assert canaries(tmp_path) == ["spill"]
    assert [kind for kind in SOURCES if not any(WORD in str(row) for row in (free_rows if kind in FREE else typed_rows)(kind))] == []  # fmt: skip
