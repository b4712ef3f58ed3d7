"""MySQL and MariaDB: each value as its text says, one state, what is refused, and what no log of the server holds.

A site runs this against its own server: see ``tests/mariadb.py``.
"""

from __future__ import annotations

import datetime as dt
import gc
import hashlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pymysql", reason="pymysql is not installed: dprelease[mysql]")

from dprelease.catalog.table import Column, DatabaseSource, Table, TimeFilter
from dprelease.engines.databases.reader import DatabaseReader
from dprelease.engines.files.rows import typed
from dprelease.engines.files.values import LIMIT, READ, id_text
from dprelease.errors import DpReleaseError, EngineError, Unavailable
from tests import mariadb
from tests.conformance.database_values import EDGES
from tests.conformance.reference_values import text_of
from tests.mariadb import Office

mysql_office = mariadb.mysql_office

KEY = bytes(range(32))
TYPES = ("text", "integer", "decimal", "boolean", "date", "timestamp")
COLUMNS = (Column(name="sex", type="integer", keys=(1, 2)), Column(name="pay", type="decimal"))
MARK = "marker-8127"
TEXTS = {text: value for text, value in EDGES["text"].items() if len(text) < 60_000}
STORED: Mapping[str, Mapping[str, Any]] = {
    "TINYINT": {"-128": -128, "127": 127, "1": 1},
    "INT UNSIGNED": {"4294967295": 2**32 - 1, "0": 0},
    "INT(5) ZEROFILL": {"7": "00007"},
    "BIGINT": EDGES["int8"],
    "BIGINT UNSIGNED": {"18446744073709551615": 2**64 - 1, "9223372036854775808": 2**63},
    "DECIMAL(12,4)": EDGES["numeric(12,4)"],
    "DECIMAL(65,0)": {"9" * 65: Decimal("9" * 65), "-7": Decimal(-7), "100": Decimal(100)},
    "DECIMAL(40,30)": {"0.000000000000000000000000000001": Decimal("1e-30"), "2.5": Decimal("2.5"), "0": Decimal(0)},
    "FLOAT": {"0.1": 0.10000000149011612, "16777217": 16777216.0, "1e38": 9.999999680285692e37},
    "DOUBLE": {text: value for text, value in EDGES["float8"].items() if value is not None and abs(value) < 1.7e308},
    "VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci": {
        text: value for text, value in TEXTS.items() if len(text) <= 100
    },
    "VARCHAR(20) CHARACTER SET latin1": {"\xe4": "\xe4", "\u20ac": "\u20ac", "a ": "a "},
    "TEXT": TEXTS,
    "CHAR(6)": EDGES["char(6)"],
    "ENUM('sad', '7', '')": {"sad": "sad", "7": "7"},
    "SET('a', 'b')": {"a,b": "a,b", "": ""},
    "YEAR": {"2024": 2024},
    "DATE": {**{day: value for day, value in EDGES["date"].items() if value is not None and value.year > 999}, "0000-00-00": None, "2024-00-10": None},
    "DATETIME(6)": {
        **{text: value for text, value in EDGES["timestamp"].items() if value is not None and value.year > 999},
        "0000-00-00 00:00:00": None,
    },
    "DATETIME": {"2024-02-29 10:00:00": dt.datetime(2024, 2, 29, 10)},
    "TIMESTAMP(6) NULL": {"2024-03-31 02:30:00.000001": dt.datetime(2024, 3, 31, 2, 30, 0, 1)},
}  # fmt: skip


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[DatabaseReader]:
    made = DatabaseReader(tmp_path, {})
    yield made
    made.close()


def table(office: Office, name: str, columns: tuple[Column, ...] = COLUMNS, url: str = "", **more: Any) -> Table:
    fields = {each: more.pop(each) for each in ("time", "unit_id") if each in more}
    source = DatabaseSource(database=url or office.url, table=name, null_values=(), **more)
    return Table(name="visits", account="a", source=source, columns=columns, **fields)


def meaning(stored: Any, kind: Any) -> Any:
    text = text_of(stored, Column(name="x", type=kind))
    value = None if text is None else READ[kind](text)
    return None if kind == "integer" and value is not None and not -LIMIT <= value < LIMIT else value  # type: ignore[operator]


@pytest.mark.parametrize("stored", STORED)
def test_a_stored_value_is_read_as_its_text_says(mysql_office: Office, stored: str, reader: DatabaseReader) -> None:
    name = hashlib.sha256(stored.encode()).hexdigest()[:10] + " % ` edges"
    quoted = name.replace("`", "``")
    edges: list[tuple[str | None, Any]] = [*STORED[stored].items(), (None, None)]
    mysql_office.execute(f"CREATE TABLE `{quoted}` (`n %s` int, `x``%` {stored})")
    inserted = f"INSERT INTO `{quoted.replace('%', '%%')}` VALUES (%s, %s)"
    mysql_office.execute(inserted, rows=[(at, text) for at, (text, _) in enumerate(edges)])
    mysql_office.grant(quoted)
    columns = (Column(name="n %s", type="integer"), Column(name="x`%", type="text"))
    blocks = [*reader.blocks(table(mysql_office, name, columns), columns)]
    order = [int(n) for block in blocks for n in block[0].to_pylist()]
    assert sorted(order) == [*range(len(edges))]
    for kind in TYPES:
        found = [each for block in blocks for each in typed(Column(name="x", type=kind), block[1]).to_pylist()]
        expected = [meaning(edges[n][1], kind) for n in order]
        odd = [(edges[n][0], mine, theirs) for n, mine, theirs in zip(order, found, expected, strict=True) if repr(mine) != repr(theirs)]  # fmt: skip
        assert odd == [], kind


@pytest.fixture(scope="module")
def office(mysql_office: Office) -> Office:
    mysql_office.execute(
        "CREATE TABLE visits (id bigint, sex int, pay decimal(20,6), seen datetime, note text)",
        _filled(),
    )
    mysql_office.grant("visits")
    return mysql_office


def _filled() -> str:
    digits = f"({' UNION ALL '.join(f'SELECT {n} AS d' for n in range(10))})"
    tens = ", ".join(f"{digits} AS d{place}" for place in range(4))
    number = " + ".join(f"d{place}.d * {10**place}" for place in range(4))
    return (
        f"INSERT INTO visits SELECT n, n % 2 + 1, n / 7, '2024-02-01 12:00:00' + INTERVAL n * 10 MINUTE, '{MARK}' "
        f"FROM (SELECT {number} AS n FROM {tens}) AS numbers"
    )


def refused(reader: DatabaseReader, asked: Table) -> DpReleaseError:
    with pytest.raises(DpReleaseError) as caught:
        reader.describe(asked)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or isinstance(caught.value.__context__, DpReleaseError)
    assert not reader._held
    return caught.value


def test_each_thing_in_the_way_has_its_own_code(office: Office, reader: DatabaseReader) -> None:
    office.execute(
        "CREATE TABLE old (sex int, pay decimal(9,2)) ENGINE = MyISAM",
        "CREATE VIEW few AS SELECT * FROM visits LIMIT 5",
        "CREATE TABLE closed (sex int, pay decimal(9,2))",
        "CREATE TABLE odd (sex int, pay time)",
        "CREATE TABLE unseen (sex int, pay decimal(9,2))",
    )
    for name in ("old", "few", "odd"):
        office.grant(name)
    office.grant("closed", "(sex)")
    codes = {"old": "DPR-E127", "few": "DPR-E127", "odd": "DPR-E221", "unseen": "DPR-E330", "closed": "DPR-E301"}
    assert {name: refused(reader, table(office, name)).code for name in codes} == codes  # a closed column is not shown
    assert refused(reader, table(office, "few", view=True)).code == "DPR-E126"
    near = refused(reader, table(office, "vissits"))
    assert (near.code, near.hint) == ("DPR-E330", "did you mean 'visits'?")
    assert refused(reader, table(office, "visits", in_schema="nowhere")).code == "DPR-E330"
    other = refused(reader, table(office, "visits", (Column(name="pai", type="decimal"),)))
    assert (other.code, other.hint) == ("DPR-E301", "did you mean 'pay' for 'pai'?")
    assert refused(reader, table(office, "x`; DROP TABLE visits; -- ")).code == "DPR-E330"
    for url in (office.url_of("dprelease_reader", "wrong-5521"), office.url_of("stranger"), office.url_of("dprelease_reader", "opensesame-5521", "elsewhere")):  # fmt: skip
        said = refused(reader, table(office, "visits", url=url))
        assert said.code == "DPR-E125"
        assert "5521" not in str(said)
        assert "stranger" not in str(said)
    everything = office.administrator
    root = office.url_of(str(everything["user"]), str(everything.get("password", "")))
    assert refused(reader, table(office, "visits", url=root)).code == "DPR-E334"


def test_a_proxy_is_refused(office: Office, reader: DatabaseReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymysql.connections.Connection.thread_id", lambda self: -1)
    assert refused(reader, table(office, "visits")).code == "DPR-E336"


@pytest.mark.parametrize(
    ("url", "verified"),
    [
        ("mysql://db.example.org/x", True),
        ("mysql://u:p@10.0.0.1:3307/x", True),
        ("mariadb:///x?option_file=my.cnf", True),
        ("mysql://127.0.0.1/x", False),
        ("mysql://localhost/x", False),
        ("mysql:///x?unix_socket=/run/s", False),
        ("mysql://db.example.org/", None),
        ("mysql://db.example.org/x?ssl_verify_cert=false", None),
        ("mysql://db.example.org/x?ssl_disabled=1", None),
        ("mysql://db.example.org:port/x", None),
    ],
)
def test_a_network_takes_verified_tls(url: str, verified: bool | None) -> None:
    import ssl

    from dprelease.engines.databases.mysql_session import mysql_parts

    if verified is None:
        with pytest.raises(EngineError, match="DPR-E123"):
            mysql_parts(url)
        return
    context = mysql_parts(url).get("ssl")
    assert (context is not None) is verified
    assert context is None or (context.check_hostname and context.verify_mode is ssl.CERT_REQUIRED)


def pays(reader: DatabaseReader, asked: Table) -> list[str]:
    return sorted(each for block in reader.blocks(asked, COLUMNS) for each in block[1].to_pylist() if each is not None)


def test_rows_are_of_the_state_that_was_hashed_whoever_writes(
    office: Office, reader: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = table(office, "visits")
    monkeypatch.setattr("dprelease.engines.databases.server._ROWS", 100)
    first = reader.fingerprint(asked, KEY, loaded=False)
    blocks = reader.blocks(asked, COLUMNS)
    rows = len(next(blocks)[0])
    office.execute("UPDATE visits SET pay = pay + 1 WHERE sex = 1", "INSERT INTO visits VALUES (-1, 1, 5, NULL, '')")
    try:
        rows += sum(len(block[0]) for block in blocks)
        assert rows == 10_000
        assert reader.known(asked, KEY) == first
        assert not reader._held
        with pytest.raises(EngineError, match="DPR-E105"):
            reader.blocks(asked, COLUMNS)
    finally:
        office.execute("UPDATE visits SET pay = pay - 1 WHERE sex = 1", "DELETE FROM visits WHERE id = -1")
    assert reader.fingerprint(asked, KEY, loaded=False) == first


def test_only_rows_of_the_period_are_sent_and_count(office: Office, tmp_path: Path) -> None:
    seen = TimeFilter(column="seen", type="timestamp", start=dt.date(2024, 3, 1), end=dt.date(2024, 4, 1))
    asked = table(office, "visits", time=seen)
    found = []
    for statement in ("DO 1", "UPDATE visits SET pay = 1, note = 'x' WHERE seen < '2024-03-01'", "UPDATE visits SET pay = pay + 1 WHERE seen = '2024-03-01'"):  # fmt: skip
        office.execute(statement)
        made = DatabaseReader(tmp_path, {})
        found.append(made.fingerprint(asked, KEY, loaded=False))
        rows = sum(len(block[0]) for block in made.blocks(asked, COLUMNS))
        assert rows == 31 * 24 * 6
        made.close()
    assert found[0] == found[1]
    assert len({*found[1]} & {*found[2]}) == 1
    office.execute("DELETE FROM visits", _filled())


def test_a_lost_connection_is_told_and_another_state_is_hashed_again(office: Office, reader: DatabaseReader) -> None:
    asked = table(office, "visits")
    first = reader.fingerprint(asked, KEY, loaded=False)
    (number,) = (row[0] for row in office.execute("SHOW PROCESSLIST") if row[1] == "dprelease_reader")
    office.execute(f"KILL {number}")
    with pytest.raises(Unavailable, match="DPR-E120") as caught:
        pays(reader, asked)
    assert caught.value.__context__ is None
    assert reader.known(asked, KEY) is None
    assert reader.fingerprint(asked, KEY, loaded=False) == first
    assert len(pays(reader, asked)) == 10_000


def test_a_connection_that_is_lost_among_the_rows_is_told(
    office: Office, reader: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came before is no answer; the server notices where it can no longer send."""
    office.execute(f"CREATE TABLE wide (sex int, pay decimal(9,2), note text DEFAULT '{'x' * 3000}')")
    office.execute("INSERT INTO wide (sex, pay) SELECT sex, 1 FROM visits LIMIT 10000")
    office.grant("wide")
    columns = (*COLUMNS, Column(name="note", type="text"))
    monkeypatch.setattr("dprelease.engines.databases.server._ROWS", 100)
    blocks = reader.blocks(table(office, "wide", columns), columns)
    rows = len(next(blocks)[0])
    (number,) = (row[0] for row in office.execute("SHOW PROCESSLIST") if row[1] == "dprelease_reader")
    office.execute(f"KILL {number}")
    with pytest.raises(Unavailable, match="DPR-E120") as caught:
        rows += sum(len(block[0]) for block in blocks)
    assert rows < 10_000
    assert caught.value.__context__ is None
    assert not reader._held


@pytest.mark.parametrize(
    ("number", "code"),
    [(1045, "DPR-E125"), (1142, "DPR-E335"), (1021, "DPR-E122"), (126, "DPR-E122"), (1317, "DPR-E120"), (2013, "DPR-E120"), (2026, "DPR-E124"), (1412, "DPR-E120"), (1064, "DPR-E121")],
)  # fmt: skip
def test_an_error_of_the_driver_is_told_by_its_number_alone(number: int, code: str) -> None:
    import pymysql

    from dprelease.engines.databases.mysql_session import mysql_refused

    found = mysql_refused("reading it", pymysql.err.OperationalError(number, f"the disk is full: {MARK}"))
    assert found.code == code
    assert MARK not in str(found)


def test_rows_that_nobody_asks_for_are_let_go_of(office: Office, tmp_path: Path) -> None:
    """No block, or one: the driver prints no traceback when it is collected (which fails this test)."""
    for some in (0, 1):
        made = DatabaseReader(tmp_path, {})
        blocks = made.blocks(table(office, "visits"), COLUMNS)
        assert len([*islice(blocks, some)]) == some
        made.close()
        del blocks
        gc.collect()


def test_an_altered_table_is_told(office: Office, reader: DatabaseReader) -> None:
    office.execute("CREATE TABLE moved (sex int, pay decimal(9,2))", "INSERT INTO moved VALUES (1, 1)")
    office.grant("moved")
    reader.fingerprint(table(office, "visits"), KEY, loaded=False)  # a state is held
    office.execute("ALTER TABLE moved FORCE, ALGORITHM = COPY")  # its rows are in another place from now on
    with pytest.raises(Unavailable, match="DPR-E120"):
        reader.fingerprint(table(office, "moved"), KEY, loaded=False)


def test_ids_that_are_no_text_elsewhere_stay_apart(office: Office, reader: DatabaseReader) -> None:
    """Letters that a collation takes for equal are two units; a column of bytes is refused."""
    office.execute(
        "CREATE TABLE ids (x varchar(9) COLLATE utf8mb4_general_ci, y varbinary(4))",
        "INSERT INTO ids VALUES ('a', 'x'), ('A', 'x'), ('\xe4', 'x'), ('a ', 'x')",
    )
    office.grant("ids")
    x, y = (Column(name=name, type="text") for name in "xy")
    (block,) = reader.blocks(table(office, "ids", (x,)), (x,))
    units = typed(x, block[0], unit=True).to_pylist()
    assert sorted(units) == sorted(id_text(each.encode()) for each in ("a", "A", "\xe4", "a "))
    assert refused(reader, table(office, "ids", (x, y))).code == "DPR-E221"


def test_the_server_is_told_no_key_and_no_value(office: Office, reader: DatabaseReader) -> None:
    if office.folder is None:
        pytest.skip("the logs of a site's server are its own")
    files = [office.folder / name for name in ("general", "slow", "errors.err")]
    before = [len(file.read_bytes()) for file in files]
    columns = (*COLUMNS, Column(name="note", type="text"))
    asked = table(office, "visits", columns)
    found = reader.fingerprint(asked, KEY, loaded=False)
    notes = [each for block in reader.blocks(asked, columns) for each in block[2].to_pylist()]
    assert notes.count(MARK.encode()) == 10_000
    said = b"".join(file.read_bytes()[at:] for file, at in zip(files, before, strict=True))
    assert b"CONSISTENT SNAPSHOT" in said
    assert b"`note`" in said
    secrets = (MARK.encode(), KEY, KEY.hex().encode(), *map(str.encode, found), b"5521")
    assert not [secret for secret in secrets if secret in said]
    digests = office.execute(
        "SELECT COALESCE(DIGEST_TEXT, '') FROM performance_schema.events_statements_summary_by_digest"
    )
    assert not [row for row in digests if MARK in str(row)]
    assert not [path for path in office.folder.glob("*MY*") if path.is_file()]  # no temporary table went to the disk
