"""SQL Server, by a driver that plays one, and by a site's own server, which this project has none of.

A site that wants to read from its server names one where databases and users may be made, and runs all of this:

    DPRELEASE_SITE_SQLSERVER=sqlserver://sa:...@127.0.0.1/master python -m pytest -q \\
        tests/conformance/test_database_sqlserver.py

Where it passes the site sets ``DPRELEASE_TRIED_DATABASES=sqlserver``; until then such a source is refused.
"""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytds = pytest.importorskip("pytds", reason="python-tds is not installed: dprelease[sqlserver]")

from dprelease.catalog.table import Column, DatabaseSource, Table, TimeFilter  # noqa: E402 - only where the driver is
from dprelease.engines.databases import sqlserver, sqlserver_session  # noqa: E402 - only where the driver is
from dprelease.engines.databases.reader import DatabaseReader  # noqa: E402 - only where the driver is
from dprelease.engines.files.rows import typed  # noqa: E402 - only where the driver is
from dprelease.engines.files.values import LIMIT, READ  # noqa: E402 - only where the driver is
from dprelease.errors import DpReleaseError, EngineError, Unavailable, Unsupported  # noqa: E402 - only where it is
from tests.conformance.database_values import EDGES  # noqa: E402 - only where the driver is
from tests.conformance.reference_values import text_of  # noqa: E402 - only where the driver is

KEY = bytes(range(64))
TRIED = {"DPRELEASE_TRIED_DATABASES": "sqlserver"}
COLUMNS = (Column(name="sex", type="integer", keys=(1, 2)), Column(name="pay", type="decimal"))
PLAYED = "sqlserver://reader:opensesame@127.0.0.1/office"


def table(url: str, name: str = "visits", columns: tuple[Column, ...] = COLUMNS, **more: Any) -> Table:
    time = more.pop("time", None)
    source = DatabaseSource(database=url, table=name, null_values=(), **more)
    return Table(name="visits", account="a", source=source, columns=columns, time=time)


# A driver that plays a server: what it is asked, and how what it hands over is read.


class Played:
    """Answers of a server by the beginning of a question, and the questions."""

    def __init__(self, changed: Mapping[str, Any]) -> None:
        self.asked: list[str] = []
        self.rows: list[tuple[Any, ...]] = [("1", "2.5000"), ("2", None)]
        columns = [("sex", "int", 0, False), ("pay", "decimal", 4, False), ("seen", "datetime2", 7, False)]
        self.answers: dict[str, Any] = {
            "SELECT CAST(SERVERPROPERTY": [("15.0.2000.5", "srv", "office", 1, 0, 1, 0)],
            "SELECT o.object_id": [(7, "U ", False, False)],
            "SELECT o.name": [("visits",)],
            "SELECT COUNT(*) FROM sys.security": [(0,)],
            "SELECT c.name": columns,
            **changed,
        }

    def connect(self, **parts: Any) -> Played:
        return self

    def cursor(self) -> Played:
        return self

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        text = statement.strip()
        self.asked.append(text)
        found: Any = next((answer for begin, answer in self.answers.items() if text.startswith(begin)), [])
        if isinstance(found, Exception):
            raise found
        self.left = list(self.rows if "FROM [dbo]" in text and "TOP 0" not in text else found)
        self.description = [("x",)] if text.upper().startswith("SELECT") else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.left

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        some, self.left = self.left[:size], self.left[size:]
        return some

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Any:
    def played(changed: Mapping[str, Any] = {}) -> Played:
        made = Played(changed)
        monkeypatch.setattr(pytds, "connect", made.connect)
        return made

    return played


def refusal(folder: Path, asked: Table) -> DpReleaseError:
    with pytest.raises(DpReleaseError) as caught:
        DatabaseReader(folder, TRIED).describe(asked)
    assert caught.value.__cause__ is None
    assert "opensesame" not in str(caught.value)
    return caught.value


def test_what_was_tried_on_no_server_is_refused_until_a_site_has_tried_it(tmp_path: Path, play: Any) -> None:
    played = play()
    for environment in ({}, {"DPRELEASE_TRIED_DATABASES": "mysql"}):
        with pytest.raises(Unsupported, match="DPR-E131"):
            DatabaseReader(tmp_path, environment).describe(table(PLAYED))
    assert played.asked == []


def test_everything_is_read_in_one_snapshot_and_under_expressions_of_ours(tmp_path: Path, play: Any) -> None:
    played = play()
    reader = DatabaseReader(tmp_path, TRIED)
    seen = TimeFilter(column="seen", type="date", start=dt.date(2024, 3, 1), end=dt.date(2024, 4, 1))
    asked = table(PLAYED, time=seen)
    (block,) = reader.blocks(asked, COLUMNS)
    assert typed(COLUMNS[0], block[0]).to_pylist() == [1, 2]
    assert [None if each is None else float(each) for each in typed(COLUMNS[1], block[1]).to_pylist()] == [2.5, None]
    begun = next(at for at, text in enumerate(played.asked) if "ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION" in text)
    assert all("[dbo].[visits]" not in text for text in played.asked[:begun])
    assert played.asked[-1] == (
        "SELECT CONVERT(varchar(20), [sex]), CONVERT(varchar(64), [pay]) FROM [dbo].[visits] "
        "WHERE CAST([seen] AS date) >= '20240301' AND CAST([seen] AS date) < '20240401'"
    )
    hostile = Column(name="a]; DROP TABLE x --", type="text")
    assert sqlserver._quoted(hostile.name) == "[a]]; DROP TABLE x --]"


GREETED = "SELECT CAST(SERVERPROPERTY"
WAYS: Mapping[str, tuple[dict[str, Any], str]] = {
    "no states": ({GREETED: [("15.0", "s", "d", 0, 0, 1, 0)]}, "DPR-E130"),
    "sysadmin": ({GREETED: [("15.0", "s", "d", 1, 1, 1, 0)]}, "DPR-E334"),
    "unseen policies": ({GREETED: [("15.0", "s", "d", 1, 0, 0, 0)]}, "DPR-E335"),
    "old": ({GREETED: [("11.0", "s", "d", 1, 0, 1, 0)]}, "DPR-E339"),
    "policy": ({"SELECT COUNT(*) FROM sys.security": [(1,)]}, "DPR-E331"),
    "view": ({"SELECT o.object_id": [(7, "V ", False, False)]}, "DPR-E127"),
    "external": ({"SELECT o.object_id": [(7, "U ", True, False)]}, "DPR-E127"),
    "in memory": ({"SELECT o.object_id": [(7, "U ", False, True)]}, "DPR-E127"),
    "gone": ({"SELECT o.object_id": []}, "DPR-E330"),
    "masked": ({"SELECT c.name": [("sex", "int", 0, True), ("pay", "decimal", 2, False)]}, "DPR-E335"),
    "encrypted": ({"SELECT c.name": [("sex", "encrypted", 0, False), ("pay", "decimal", 2, False)]}, "DPR-E221"),
    "time of day": ({"SELECT c.name": [("sex", "time", 0, False), ("pay", "decimal", 2, False)]}, "DPR-E221"),
    "no column": ({"SELECT c.name": [("sex", "int", 0, False)]}, "DPR-E301"),
    "lost": ({"SELECT TOP 0": pytds.ClosedConnectionError()}, "DPR-E120"),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_thing_in_the_way_has_its_own_code(way: str, tmp_path: Path, play: Any) -> None:
    changed, code = WAYS[way]
    play(changed)
    assert refusal(tmp_path, table(PLAYED)).code == code


def test_errors_are_told_by_their_numbers_and_nothing_of_theirs_is_shown() -> None:
    codes = {18456: "DPR-E125", 4060: "DPR-E125", 1205: "DPR-E120", 3961: "DPR-E120", 229: "DPR-E335", 9002: "DPR-E122", 8134: "DPR-E121"}  # fmt: skip
    for number, code in codes.items():
        error = pytds.OperationalError("the value 'Zebulon' is too large")
        error.number = number
        said = sqlserver_session.sqlserver_refused("reading it", error)
        assert said.code == code
        assert "Zebulon" not in str(said)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("sqlserver://db.example.org/office?ssl_ca=there-is-none.pem", "DPR-E124"),
        ("sqlserver://db.example.org/", "DPR-E123"),
        ("sqlserver://db.example.org/office?encrypt=no", "DPR-E123"),
        ("sqlserver:///office", "DPR-E123"),
    ],
)
def test_a_network_takes_verified_tls(url: str, code: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=code):
        sqlserver_session.sqlserver_parts(url, tmp_path)
    (tmp_path / "root.pem").touch()
    known = sqlserver_session.sqlserver_parts("sqlserver://db.example.org/office?ssl_ca=root.pem", tmp_path)
    assert known["validate_host"] is True
    assert "cafile" not in sqlserver_session.sqlserver_parts("sqlserver://127.0.0.1/office", tmp_path)


def test_half_of_a_pair_of_surrogates_is_a_value_of_its_own() -> None:
    texts = ["\ud800", "\ud801", "a", "\U0001f600"]
    stored = [each.encode("utf-16-le", "surrogatepass") for each in texts]
    array = sqlserver.SQLServerSnapshot._array(stored, "nvarchar", False)
    units = typed(Column(name="x", type="text"), array, unit=True).to_pylist()
    assert len({*units}) == 4
    assert units[2:] == texts[2:]


# A server of a site.

STORED: Mapping[str, Mapping[str, Any]] = {
    "tinyint": {"0": 0, "255": 255},
    "bigint": EDGES["int8"],
    "bit": {"0": 0, "1": 1},
    "decimal(12,4)": EDGES["numeric(12,4)"],
    "decimal(38,0)": {"9" * 38: Decimal("9" * 38), "100": Decimal(100)},
    "float": {text: value for text, value in EDGES["float8"].items() if value is not None and (abs(value) > 3e-308 or not value)},
    "real": {"0.1": 0.10000000149011612, "16777217": 16777216.0},
    "nvarchar(max)": {text: value for text, value in EDGES["text"].items() if len(text) < 60_000},
    "varchar(20)": {"a ": "a ", "1e3": "1e3"},
    "nchar(6)": EDGES["char(6)"],
    "date": {day: value for day, value in EDGES["date"].items() if value is not None},
    "datetime2(7)": {text: value for text, value in EDGES["timestamp"].items() if value is not None},
    "datetimeoffset": {"2024-02-29 10:00:00 +02:00": dt.datetime(2024, 2, 29, 8)},
    "uniqueidentifier": EDGES["uuid"],
}  # fmt: skip


class Site:
    """A database of a site's server that tests fill."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.parts = {"dsn": parts.hostname, "port": parts.port or 1433, "user": parts.username, "password": parts.password}  # fmt: skip
        self.reader = (
            f"sqlserver://dprelease_reader:Opensesame-5521@{parts.hostname}:{parts.port or 1433}/dprelease_tests"
        )
        self.database = "master"
        self.execute(
            "IF DB_ID('dprelease_tests') IS NOT NULL DROP DATABASE dprelease_tests",
            "CREATE DATABASE dprelease_tests",
            "ALTER DATABASE dprelease_tests SET ALLOW_SNAPSHOT_ISOLATION ON",
            "IF SUSER_ID('dprelease_reader') IS NULL CREATE LOGIN dprelease_reader WITH PASSWORD = 'Opensesame-5521'",
        )
        self.database = "dprelease_tests"
        self.execute(
            "CREATE USER dprelease_reader",
            "GRANT VIEW DEFINITION TO dprelease_reader",
            "CREATE TABLE visits (sex int, pay decimal(20, 6), note nvarchar(max))",
            "INSERT INTO visits SELECT TOP 10000 1 + ABS(CHECKSUM(NEWID())) % 2, 2.5, 'marker-8129' "
            "FROM sys.all_columns AS a CROSS JOIN sys.all_columns AS b",
            "GRANT SELECT ON visits TO dprelease_reader",
        )

    def execute(self, *statements: str, rows: list[tuple[Any, ...]] | None = None) -> None:
        with pytds.connect(**self.parts, database=self.database, autocommit=True) as connection:
            cursor = connection.cursor()
            for at, each in enumerate(statements):
                for values in rows if rows is not None and at == len(statements) - 1 else [()]:
                    cursor.execute(each, values)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    url = os.environ.get("DPRELEASE_SITE_SQLSERVER")
    if url is None:
        pytest.skip("DPRELEASE_SITE_SQLSERVER names no server")
    made = Site(url)
    yield made
    made.database = "master"
    made.execute(
        "ALTER DATABASE dprelease_tests SET SINGLE_USER WITH ROLLBACK IMMEDIATE", "DROP DATABASE dprelease_tests"
    )


@pytest.mark.parametrize("stored", STORED)
def test_a_stored_value_is_read_as_its_text_says(site: Site, stored: str, tmp_path: Path) -> None:
    name = f"edges % of {stored}"
    edges: list[tuple[str | None, Any]] = [*STORED[stored].items(), (None, None)]
    site.execute(f"CREATE TABLE [{name}] (n int, [x]]%] {stored})", f"GRANT SELECT ON [{name}] TO dprelease_reader")
    inserted = f"INSERT INTO [{name.replace('%', '%%')}] VALUES (%s, CAST(%s AS {stored}))"
    site.execute(inserted, rows=[(at, text) for at, (text, _) in enumerate(edges)])
    columns = (Column(name="n", type="integer"), Column(name="x]%", type="text"))
    reader = DatabaseReader(tmp_path, TRIED)
    blocks = [*reader.blocks(table(site.reader, name, columns), columns)]
    reader.close()
    order = [int(n) for block in blocks for n in block[0].to_pylist()]
    assert sorted(order) == [*range(len(edges))]
    for kind in READ:
        found = [each for block in blocks for each in typed(Column(name="x", type=kind), block[1]).to_pylist()]
        expected = [_meaning(edges[n][1], kind) for n in order]
        assert list(map(repr, found)) == list(map(repr, expected)), kind


def _meaning(stored: Any, kind: Any) -> Any:
    text = text_of(stored, Column(name="x", type=kind))
    value = None if text is None else READ[kind](text)
    return None if kind == "integer" and value is not None and not -LIMIT <= value < LIMIT else value  # type: ignore[operator]


def test_a_writer_meanwhile_is_in_no_row(site: Site, tmp_path: Path) -> None:
    reader, asked = DatabaseReader(tmp_path, TRIED), table(site.reader)
    first = reader.fingerprint(asked, KEY, loaded=False)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            site.execute("UPDATE visits SET pay = pay + 1 WHERE sex = 1")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        rows = [each for block in reader.blocks(asked, COLUMNS) for each in block[1].to_pylist()]
    finally:
        stop.set()
        writer.join()
    assert rows == ["2.5"] * 10_000
    assert reader.known(asked, KEY) == first
    with pytest.raises(EngineError, match="DPR-E105"):
        reader.blocks(asked, COLUMNS)


def test_a_policy_a_mask_and_a_wrong_password_are_told_by_the_server_itself(site: Site, tmp_path: Path) -> None:
    site.execute(
        "CREATE TABLE secured (sex int, pay decimal(9, 2))",
        "CREATE FUNCTION dbo.own(@sex int) RETURNS TABLE WITH SCHEMABINDING AS RETURN SELECT 1 AS ok WHERE @sex = 1",
        "CREATE SECURITY POLICY own_rows ADD FILTER PREDICATE dbo.own(sex) ON dbo.secured WITH (STATE = ON)",
        "CREATE TABLE masked (sex int MASKED WITH (FUNCTION = 'default()'), pay decimal(9, 2))",
        "GRANT SELECT ON secured TO dprelease_reader",
        "GRANT SELECT ON masked TO dprelease_reader",
    )
    assert refusal(tmp_path, table(site.reader, "secured")).code == "DPR-E331"
    assert refusal(tmp_path, table(site.reader, "masked")).code == "DPR-E335"
    assert refusal(tmp_path, table(site.reader.replace("Opensesame", "wrong"))).code == "DPR-E125"
    assert (
        refusal(tmp_path, table(site.reader.replace("127.0.0.1", "127.0.0.2").replace(":1433", ":9"))).code
        == "DPR-E120"
    )
    assert issubclass(Unavailable, EngineError)
