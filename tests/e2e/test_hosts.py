"""Two hosts with homes of their own use one ledger on a PostgreSQL server, which is restored, or fails over, again and again.

Whatever the server has lost, nobody draws a second answer, and nobody hands one out.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")

from dprelease.ledger.stores.postgres import create_postgres_ledger
from tests.postgres import RUNNER, SUPERUSER, Database, Server, postgres, start_server
from tests.project import command, forked

__all__ = ["postgres"]  # fixtures

pytestmark = pytest.mark.slow

SETTINGS = """ledger: LEDGER
host: HOST
releases: RELEASES
policy: policy.yaml
"""
POLICY = """accounts:
  people: {unit: person, neighboring: add_remove, composition: basic, lifetime: {epsilon: 100, delta: 0}}
"""
SPEC = """dprelease: 1
release: {name: survey, period: 1900, title: A survey, curator: Example Office}
privacy: {unit: {entity: person}, neighboring: add_remove, budget: {epsilon: 1/10, delta: 0}, accounting: basic}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns: {sex: {type: integer, keys: [1, 2]}}
queries:
  population: {table: people, by: [sex], measures: {persons: {count: rows}}}
publish: {formats: [csv]}
"""


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[Server]:
    """A server of its own: it is stopped, and its data are put back."""
    try:
        server = start_server()
    except RuntimeError as error:
        pytest.skip(str(error))
    yield server
    server.remove()


@dataclass
class Host:
    """One of the hosts: its home, and what it has handed out."""

    folder: Path
    releases: Path

    def run(self, period: int) -> tuple[int, str]:
        """The exit code of a release, and what was said."""
        ended = forked(self.folder, "run", "spec.yaml", "--direct", "--period", str(period))
        return ended.code, ended.out + ended.err

    def says(self, *words: str, code: int = 0) -> str:
        return command(self.folder, *words, code=code)

    def answer(self, period: int) -> bytes | None:
        path = self.releases / "survey" / str(period) / "tables" / "population.csv"
        return path.read_bytes() if path.exists() else None


def hosts(folder: Path, ledger: str, kind: str) -> tuple[Host, Host]:
    """Two homes; they share nothing but the ledger and its source key, and what ``kind`` names."""
    made = []
    for name in ("first", "second"):
        home = folder / name
        home.mkdir()
        releases = folder / "releases" if kind == "shared releases" else home / "releases"
        text = SETTINGS.replace("LEDGER", ledger).replace("HOST", name).replace("RELEASES", str(releases))
        if kind == "shared anchor":
            text += f"shared_anchors: [{folder}/shared/head.json]\n"
        (home / "dprelease.yaml").write_text(text)
        (home / "policy.yaml").write_text(POLICY)
        (home / "spec.yaml").write_text(SPEC)
        (home / "people.csv").write_text("sex\n" + "1\n2\n" * 500)
        made.append(Host(home, releases))
    assert made[0].run(1900)[0] == 0
    shutil.copytree(made[0].folder / "state-key", made[1].folder / "state-key")
    assert made[1].run(1901)[0] == 0
    return made[0], made[1]


def restored(database: Database) -> Callable[[], None]:
    """Take a dump; what is returned puts it back."""
    server = database.server
    where = ("-h", str(server.folder), "-U", SUPERUSER)
    server.run("pg_dump", *where, "-Fc", "-f", "dump", database.name)

    def put_back() -> None:
        server.execute(f"DROP DATABASE {database.name} WITH (FORCE)")
        server.execute(f"CREATE DATABASE {database.name} OWNER ledger_owner")
        server.run("pg_restore", *where, "-d", database.name, "dump")
        (server.folder / "dump").unlink()

    return put_back


def failed_over(database: Database) -> Callable[[], None]:
    """A standby that has everything up to now; what is returned promotes it, and nothing newer is left."""
    server = database.server
    data, standby = server.folder / "data", server.folder / "standby"
    server.stop("fast")
    shutil.copytree(data, standby, copy_function=shutil.copy2)
    _own(standby, data)
    server.start()

    def promote() -> None:
        server.stop()
        shutil.rmtree(data)
        standby.rename(data)
        (data / "standby.signal").touch(0o600)
        _own(data, server.folder)
        server.start()
        server.run("pg_ctl", "-D", "data", "-w", "promote")

    return promote


def _own(folder: Path, like: Path) -> None:
    facts = like.stat()
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files, "."):
            os.chown(Path(top) / name, facts.st_uid, facts.st_gid)


LOSSES = {"a dump was restored": restored, "a standby took over": failed_over}
KINDS = ("nothing shared", "shared anchor", "shared releases")


def spent(host: Host) -> Fraction:
    found: Any = json.loads(host.says("ledger", "status", "--json"))
    return Fraction(found["accounts"][0]["spent"])


def drawn(database: Database, period: int) -> int:
    """How many answers the ledger has of a period."""
    sql = f"SELECT count(*) FROM dprelease.measurements WHERE period = '{period}'"
    return int(database.execute(sql)[0][0])


def lose(database: Database, pair: tuple[Host, Host], period: int, loss: str) -> bytes:
    """One of them publishes, and the server loses it; nothing can be done before the hosts were asked. The answer."""
    writer, other = pair
    put_back = LOSSES[loss](database)
    code, said = writer.run(period)
    assert code == 0, said
    first = writer.answer(period)
    assert first is not None
    put_back()
    for host in (other, writer, other):
        code, said = host.run(period)
        assert code == 4, said
        assert "DPR-L3" in said
        assert host.says("ledger", "check", code=7)
    assert drawn(database, period) == 0
    assert {writer.answer(period), other.answer(period)} <= {first, None}
    return first


def mend(database: Database, pair: tuple[Host, Host], period: int, first: bytes) -> None:
    """Each host is asked, in either order; then the lost release is known to both, and drawn by neither."""
    for host in pair:
        host.says("ledger", "recover", "--why", "the server has lost its end", "--yes")
    for host in (*pair, *pair):
        assert "sound" in host.says("ledger", "check")
        code, said = host.run(period)
        assert (code, "DPR-L113" in said) == (4, True), said
    assert drawn(database, period) == 0
    assert {host.answer(period) for host in pair} <= {first, None}


def rounds(database: Database, folder: Path, kind: str, losses: list[str]) -> int:
    """Lose and mend so often; the number of second answers, which is asserted to be none at every step."""
    create_postgres_ledger(database.owner, RUNNER)
    pair = hosts(folder, database.runner, kind)
    for number, loss in enumerate(losses):
        period = 2000 + number
        writer = pair if number % 4 < 2 else pair[::-1]
        first = lose(database, (writer[0], writer[1]), period, loss)
        before = spent_after = Fraction(0)
        asked = writer if number % 2 else writer[::-1]
        mend(database, (asked[0], asked[1]), period, first)
        before, spent_after = spent_after, spent(pair[0])
        assert spent_after >= Fraction(3 + number, 10), "every answer that was handed out is charged"
        assert before <= spent_after
    return len(losses)


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        ("nothing shared", "a dump was restored"),
        ("shared anchor", "a standby took over"),
        ("shared releases", "a dump was restored"),
    ],
)
def test_a_server_that_lost_its_end_gives_no_second_answer(
    postgres: Database, tmp_path: Path, kind: str, loss: str
) -> None:
    assert rounds(postgres, tmp_path, kind, [loss]) == 1


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_restores_and_failovers_give_no_second_answer(postgres: Database, tmp_path: Path, kind: str) -> None:
    """Seven, seven and six of them."""
    every = [loss for _ in range(10) for loss in LOSSES]
    assert rounds(postgres, tmp_path, kind, every[KINDS.index(kind) :: 3]) >= 6
