"""Places where a ledger cannot be: a full disk, a folder that is read-only, somebody else's file, another time."""

from __future__ import annotations

import os
import pwd
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import DpReleaseError, LedgerError
from dprelease.ledger.stores.sqlite_schema import VERSION
from dprelease.ledger.tables import view
from tests.ledgers import SQLiteLedger, answer, charges, fill, key, plan, standing_of

ROOT = Path(__file__).parents[2]


def spent(ledger: SQLiteLedger) -> Fraction:
    with ledger._reading() as rows:
        found = view.whole_state(rows).accounts if rows else {}
    return found["people"].balance.spent.loss if found else Fraction(0)


def child(program: str, *arguments: object) -> list[str]:
    """What a process of its own prints; it must end well."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


# --- A full disk ---

_FULL = """
import resource, sys
from pathlib import Path
from dprelease.errors import DpReleaseError
from tests.ledgers import SQLiteLedger
from tests.ledgers import answer, charges, key, plan
path, head, room = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
ledger = SQLiteLedger(path, [head])
if room >= 0:  # no file may grow above this
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
for n in range(100):
    made = plan(period=f"full {n}", cost="1/1000")
    try:
        kept = ledger.reserve(made, charges(made))
        names = (kept.release, kept.period, kept.plan_fingerprint)
        ledger.sourced(*names)
        ledger.source(*names, {"people": (f"hash {n}",)}, "key")
        print("handed", n, ledger.commit(key(kept), answer("one", n)).digest)
        ledger.close(*names, "manifest")
    except DpReleaseError as error:
        print(str(error).splitlines()[0])
        break
"""


ROOMS = [0, 20_000, 60_000, 200_000, 400_000]
ROOMS_BETWEEN = [1_000, 150_000, 260_000]


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("room", [*ROOMS, *(pytest.param(room, marks=pytest.mark.nightly) for room in ROOMS_BETWEEN)])
def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path, room: int) -> None:
    path, head = tmp_path / "state" / "ledger.db", tmp_path / "anchors" / "head"
    before = SQLiteLedger(path, [head])
    fill(before)
    before.disconnect()
    *handed, last = child(_FULL, path, head, room)
    assert "DPR-L140" in last or "DPR-L144" in last, last
    assert "full or failing" in last or "No space" in last or "too large" in last or "File too large" in last, last
    ledger = SQLiteLedger(path, [head])  # there is room again
    assert ledger.check() == ()
    for line in handed:
        _, number, digest = line.split()
        kept = ledger.find("survey", f"full {number}")
        assert kept is not None
        found = ledger.stored(key(kept))
        assert found is not None
        assert found.digest == digest
    charged = len(ledger.reservations()) - 1
    assert spent(ledger) == Fraction(2, 10) + Fraction(charged, 1000)
    assert charged >= len(handed)
    fill(ledger, plan(period="2031", cost="1/10"))
    assert ledger.check() == ()


@pytest.mark.slow
def test_a_full_disk_makes_no_half_a_ledger(tmp_path: Path) -> None:
    path, head = tmp_path / "state" / "ledger.db", tmp_path / "anchors" / "head"
    (line,) = child(_FULL, path, head, 10_000)
    assert "DPR-L140" in line
    assert [each.name for each in path.parent.iterdir()] == []
    fill(SQLiteLedger(path, [head]))
    assert SQLiteLedger(path, [head]).check() == ()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A real disk of a megabyte and a half."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1536k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("no file system of a fixed size can be mounted here: that takes root, and its leave")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["both", "ledger", "anchor"])
def test_a_disk_that_fills_up_is_a_clear_error_and_loses_nothing(small: Path, tmp_path: Path, where: str) -> None:
    path = (tmp_path if where == "anchor" else small) / "state" / "ledger.db"
    head = (tmp_path if where == "ledger" else small) / "anchors" / "head"
    before = SQLiteLedger(path, [head])
    fill(before)
    before.disconnect()
    free = shutil.disk_usage(small).free
    ballast = small / "ballast"
    ballast.write_bytes(b"x" * (free - (2_000 if where == "anchor" else 40_000)))
    *handed, last = child(_FULL, path, head, -1)
    assert "DPR-L140" in last or "DPR-L144" in last, last
    ballast.unlink()
    ledger = SQLiteLedger(path, [head])
    assert ledger.check() == ()
    for line in handed:
        _, number, digest = line.split()
        kept = ledger.find("survey", f"full {number}")
        assert kept is not None
        found = ledger.stored(key(kept))
        assert found is not None
        assert found.digest == digest
    fill(ledger, plan(period="2031", cost="1/10"))
    assert ledger.check() == ()
    ledger.disconnect()


# --- Rights ---


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user can enter: pytest's own cannot be."""
    folder = Path("/var/tmp") / f"dprelease-{os.getpid()}"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def somebody() -> int:
    """A user without rights; the tests may run as root, for whom nothing is read-only."""
    if os.geteuid() != 0:
        pytest.skip("becoming another user takes root")
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        pytest.skip("there is no user `nobody`")


def said(ledger: SQLiteLedger) -> list[str]:
    """What comes of a look, of a reservation and of a check."""
    made = plan(period="2030")
    lines = []
    for use in (lambda: standing_of(ledger, ["people"]), lambda: ledger.reserve(made, charges(made))):
        try:
            use()
            lines.append("done")
        except DpReleaseError as error:
            lines.append(str(error).splitlines()[0])
    return [*lines, " ".join(ledger.check())]


def as_user(user: int, path: Path, head: Path) -> list[str]:
    """The same by another user, in a forked child: that user may not be able to read this installation."""
    reader, writer = os.pipe()
    forked = os.fork()
    if forked == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.write(writer, "\n".join(said(SQLiteLedger(path, [head]))).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = file.read().split("\n")
    assert os.waitpid(forked, 0)[1] == 0
    return found


def given(folder: Path, user: int) -> None:
    for each in (folder, *folder.rglob("*")):
        os.chown(each, user, user)


def test_a_ledger_of_somebody_else_is_refused(shared: Path) -> None:
    user = somebody()
    path, head = shared / "state" / "ledger.db", shared / "anchors" / "head"
    fill(SQLiteLedger(path, [head]))
    given(shared, user)
    os.chown(path, 0, 0)
    path.chmod(0o666)
    content = path.read_bytes()
    for line in as_user(user, path, head):
        assert "belongs to user 0" in line
    assert path.read_bytes() == content


def test_root_does_not_write_into_somebody_elses_ledger_either(shared: Path) -> None:
    """It would leave files behind that their owner cannot write."""
    user = somebody()
    path, head = shared / "state" / "ledger.db", shared / "anchors" / "head"
    fill(SQLiteLedger(path, [head]))
    given(shared, user)
    ledger, made = SQLiteLedger(path, [head]), plan(period="2030")
    for use in (lambda: standing_of(ledger, ["people"]), lambda: ledger.reserve(made, charges(made))):
        with pytest.raises(LedgerError, match=f"belongs to user {user}"):
            use()


@pytest.mark.parametrize("what", ["folder", "file", "anchor", "anchors"])
def test_what_is_read_only_is_a_clear_error_and_nothing_changes(shared: Path, what: str) -> None:
    user = somebody()
    path, head = shared / "state" / "ledger.db", shared / "anchors" / "head"
    made = SQLiteLedger(path, [head])
    fill(made)
    made.disconnect()
    given(shared, user)
    if what == "anchors":
        head.unlink()
        fill(SQLiteLedger(shared / "other" / "ledger.db"))
        path = shared / "new" / "ledger.db"
        path.parent.mkdir()
        given(path.parent, user)
    locked = {"folder": path.parent, "file": path, "anchor": head, "anchors": head.parent}[what]
    locked.chmod(0o500 if locked.is_dir() else 0o400)
    before = {each: each.read_bytes() for each in (path, head) if each.exists()}
    standing, reserving, check = as_user(user, path, head)
    assert standing == "done" or "DPR-L140" in standing
    assert "DPR-L140" in reserving or "DPR-L144" in reserving, reserving
    assert check == "" or standing != "done"
    if what == "anchors":  # the tables may be there, and nothing in them
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM entries").fetchone() == (0,)
    else:
        assert {each: each.read_bytes() for each in (path, head) if each.exists()} == before
    locked.chmod(stat.S_IRWXU)


def test_a_folder_that_does_not_let_a_ledger_be_made_says_so(shared: Path) -> None:
    user = somebody()
    shared.chmod(0o555)
    path = shared / "state" / "ledger.db"
    standing, reserving, check = as_user(user, path, shared / "head")
    assert (standing, check) == ("done", "")
    assert "DPR-L14" in reserving
    assert list(shared.iterdir()) == []


def test_an_anchor_that_cannot_be_read_is_a_clear_error(shared: Path) -> None:
    user = somebody()
    path, head = shared / "state" / "ledger.db", shared / "anchors" / "head"
    fill(SQLiteLedger(path, [head]))
    given(shared, user)
    os.chown(head, 0, 0)
    for line in as_user(user, path, head):
        assert "cannot be used: Permission denied" in line


# --- Another time ---


def test_a_schema_from_the_future_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path, head = tmp_path / "ledger.db", tmp_path / "head"
    ledger = SQLiteLedger(path, [head])
    kept = fill(ledger)
    ledger.disconnect()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content, told = path.read_bytes(), head.read_bytes()
    made = plan(period="2030")
    for use in (
        lambda: standing_of(ledger, ["people"]),
        lambda: ledger.reserve(made, charges(made)),
        lambda: ledger.commit(key(kept), answer()),
        lambda: ledger.recover("please"),
    ):
        with pytest.raises(LedgerError, match="DPR-L141"):
            use()
    ledger.disconnect()
    assert (path.read_bytes(), head.read_bytes()) == (content, told)


def test_a_clock_that_jumps_back_a_year_changes_nothing_but_the_times_on_record(tmp_path: Path) -> None:
    times = {"now": datetime(2026, 3, 7, tzinfo=UTC)}

    def clock() -> datetime:
        return times["now"]

    ledger = SQLiteLedger(tmp_path / "ledger.db", [tmp_path / "head"], clock)
    first = fill(ledger)
    heads = ledger.heads(["people"])
    times["now"] = datetime(2025, 3, 7, tzinfo=UTC)
    assert ledger.check() == ()
    made = plan(period="2030")
    second = ledger.reserve(made, charges(made), heads)
    assert second.sequence > first.sequence
    assert [each.reserved_at[:4] for each in ledger.reservations()] == ["2026", "2025"]
    assert ledger.find("survey", "2024") is not None
    stored = ledger.stored(key(first, "a"))
    assert stored is not None
    assert ledger.commit(key(first, "a"), answer("a", 99)).digest == stored.digest
    again = ledger.reserve(made, charges(made))
    assert again == second
    ledger.commit(key(second), answer())
    ledger.close("survey", "2030", second.plan_fingerprint, "manifest")
    assert SQLiteLedger(tmp_path / "ledger.db", [tmp_path / "head"]).check() == ()
    assert spent(ledger) == Fraction(3, 10)
