"""A server has one place, however its URL is spelled: what libpq takes for the same is the same text here."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dprelease.errors import LedgerError
from dprelease.ledger import schemes
from dprelease.spec.ledger_url import ledger_resolved, misplaced
from dprelease.spec.project import load_project
from tests.tiers import few

PLAIN = "postgresql://user@db.example.com:5432/ledger?connect_timeout=5&sslmode=verify-full"
SAME = [
    "postgres://user@db.example.com:5432/ledger?connect_timeout=5&sslmode=verify-full",
    "PostgreSQL://user@db.example.com:5432/ledger?connect_timeout=5&sslmode=verify-full",
    "postgresql://user@DB.Example.COM:5432/ledger?connect_timeout=5&sslmode=verify-full",
    "postgresql://user@db.example.com:05432/ledger?connect_timeout=5&sslmode=verify-full",
    "postgresql://user@db.example.com:5432/ledger?sslmode=verify-full&connect_timeout=5",
    "postgresql://us%65r@%64b%2Eexample.com:5432/led%67er?connect_timeout=%35&sslmode=verify%2dfull",
]


def place(url: str, **variables: str) -> str:
    return ledger_resolved(url, variables, schemes())


@pytest.mark.parametrize("url", SAME)
def test_one_server_is_one_text(url: str) -> None:
    assert place(url) == PLAIN
    assert place("${env:URL}", URL=url) == PLAIN
    settings_file = load_project(f'ledger: "{url}"\n', "dprelease.yaml", schemes())
    assert settings_file.ledger == url  # as the author wrote it


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("postgresql://localhost/l", "postgresql://localhost/l"),
        ("postgresql://LOCALHOST/l", "postgresql://localhost/l"),
        ("postgresql://127.0.0.1/l", "postgresql://127.0.0.1/l"),
        ("postgresql://db:/l", "postgresql://db/l"),
        ("postgresql://db/Ledger", "postgresql://db/Ledger"),
        ("postgresql://[0:0:0:0:0:0:0:1]:5432/l", "postgresql://[::1]:5432/l"),
        ("postgresql://[2001:DB8::00AB]/l", "postgresql://[2001:db8::ab]/l"),
        ("postgresql:///l?host=/Run/pg", "postgresql:///l?host=%2FRun%2Fpg"),
        ("postgresql://%2FRun%2fpg/l", "postgresql://%2FRun%2Fpg/l"),
        ("postgresql:///l?port=05432&host=DB", "postgresql:///l?host=db&port=5432"),
        ("postgresql:///l?hostaddr=0:0::1", "postgresql:///l?hostaddr=%3A%3A1"),
        ("postgresql://U:p%40:q@db/l", "postgresql://U:p%40%3Aq@db/l"),
        ("postgresql://db/l?sslmode=disable&ssl=true", "postgresql://db/l?sslmode=disable&ssl=true"),
        ("postgresql://db/l?b=1&a=2&b=3", "postgresql://db/l?a=2&b=1&b=3"),
        ("postgresql://db", "postgresql://db"),
    ],
)
def test_what_differs_stays_different(url: str, same: str) -> None:
    assert place(url) == same


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a,B/l",
        "postgresql://A%zz/l",
        "postgresql://A@B@c/l",
        "postgresql://A#b/l",
        "postgresql://A:port/l",
        "sqlite:///State/../Ledger.DB",
    ],
)
def test_what_is_no_url_of_one_server_is_left_as_it_is(url: str) -> None:
    assert place(url) == url


def test_a_variable_that_is_no_text_is_no_traceback() -> None:
    assert place("postgresql://u:${env:P}@DB/l", P="\udcff") == "postgresql://u:%FF@db/l"
    assert place("postgresql://${env:H}/l", H="A\udcff") == "postgresql://a%FF/l"


@pytest.mark.parametrize("url", ["POSTGRES://", "postgresql:/db", "postgresq://db/l"])
def test_other_schemes_are_refused(url: str) -> None:
    found = misplaced(url, schemes())
    assert found is not None
    assert found[0] == "DPR-S220"
    with pytest.raises(LedgerError, match="DPR-L145"):
        place("${env:URL}", URL=url)


def test_a_password_is_found_in_a_url_in_capitals() -> None:
    for url in ("POSTGRESQL://u:hunter2@db/l", "Postgres://db/l?PASSWORD=hunter2"):
        found = misplaced(url, schemes())
        assert found is not None
        assert found[0] == "DPR-S226"
        assert "hunter2" not in " ".join(found)


NAMES = st.text(st.sampled_from("aB9-._~%/:+ é"), max_size=6)
CODED = NAMES.map(
    lambda text: "".join(f"%{byte:02x}" if byte in b"%/:+ \xc3\xa9" else chr(byte) for byte in text.encode())
)
HOSTS = st.one_of(CODED, st.sampled_from(["[::1]", "[0::1]", "Db", "%2frun", ""]))
PARAMETERS = st.lists(
    st.tuples(st.sampled_from(["sslmode", "host", "port", "user", "options", "dbname"]), CODED), max_size=4
)


@settings(max_examples=few(300))
@given(
    user=st.none() | CODED,
    host=HOSTS,
    port=st.sampled_from(["", ":", ":5432", ":007"]),
    database=st.none() | CODED,
    parameters=PARAMETERS,
)
@example(user="a", host="Db", port=":1", database="l", parameters=[("sslmode", "require"), ("host", "%2FRun")])
def test_libpq_reads_both_texts_alike(
    user: str | None, host: str, port: str, database: str | None, parameters: list[tuple[str, str]]
) -> None:
    """All that a server is reached by is the same, but for case and zeros; and the text is its own text."""
    conninfo = pytest.importorskip("psycopg.conninfo", reason="psycopg is not installed")
    psycopg = pytest.importorskip("psycopg")
    query = "&".join(f"{name}={value}" for name, value in parameters)
    url = "postgresql://" + ("" if user is None else f"{user}@") + host + port
    url += ("" if database is None else f"/{database}") + (f"?{query}" if query else "")
    if url in ("postgresql://", "postgresql://:"):
        return
    same = place(url)
    assert place(same) == same
    try:
        told = conninfo.conninfo_to_dict(url)
    except (psycopg.Error, UnicodeDecodeError):
        return

    def told_alike(facts: dict[str, str]) -> dict[str, str]:
        facts = dict(facts)
        if "host" in facts and not facts["host"].startswith("/"):
            facts["host"] = {"0::1": "::1"}.get(facts["host"].lower(), facts["host"].lower())
        if facts.get("port", "").isdecimal():
            facts["port"] = str(int(facts["port"]))
        return facts

    assert told_alike(conninfo.conninfo_to_dict(same)) == told_alike(told), (url, same)


def test_two_spellings_are_one_place_for_the_ledger() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    from dprelease.ledger.stores.postgres_connect import Address

    assert {Address(place(url)).place for url in [PLAIN, *SAME]} == {Address(PLAIN).place}
    assert Address(place("postgresql://[0:0::1]:5432/l")).place == Address("postgresql://[::1]:5432/l").place


def test_a_file_is_no_server(tmp_path: Path) -> None:
    assert place("sqlite:///${env:WHERE}/L.db", WHERE=str(tmp_path)) == f"sqlite:///{tmp_path}/L.db"
