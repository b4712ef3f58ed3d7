"""A release answers from one state of its data: what is recorded, what is compared, when, and what is then refused."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, PrivateJoin, Range, Source, Table, TableBounds
from dprelease.engines import ENGINES, Engine
from dprelease.engines.files import fingerprint
from dprelease.errors import EngineError, LedgerError, Unavailable
from dprelease.ledger import Ledger
from dprelease.release.data.sources import Pinned, RunSources, SourceKey, tables_read

IDENTITY = ("people", "2024", "plan")
KEY, OTHER = SourceKey(bytes(range(64))), SourceKey(bytes(range(1, 65)))
LIMITS = Range(low=Fraction(0), high=Fraction(100))
ID = Column(name="id", type="text")
PAY = Column(name="pay", type="integer", range=LIMITS)
BOUNDS = TableBounds(max_rows=1)
PEOPLE = Table(
    name="people",
    account="a",
    source=Source(file="people.csv", format="csv"),
    columns=(ID,),
    unit_id="id",
    bounds=BOUNDS,
    private_joins=(PrivateJoin(table="jobs", on="id", max_matches=1, add=("pay",)),),
)
JOBS = Table(
    name="jobs",
    account="a",
    source=Source(file="jobs-*.csv", format="csv"),
    columns=(ID, PAY),
    unit_id="id",
    bounds=BOUNDS,
)
TABLES = {"people": PEOPLE, "jobs": JOBS}


@dataclass(frozen=True)
class Entry:
    tables: Mapping[str, tuple[str, ...]]
    key: str
    accepted: str


class FakeLedger:
    """Keeps the entries; ``first`` is recorded by somebody else just before ours."""

    def __init__(self, first: Entry | None = None) -> None:
        self.entries: list[Entry] = []
        self.first = first

    def sourced(self, release: str, period: str, plan: str) -> Entry | None:
        assert (release, period, plan) == IDENTITY
        return self.entries[-1] if self.entries else None

    def require_readable(
        self, tables: Mapping[str, tuple[str, ...]] | None, accounts: Mapping[str, str], key_id: str, *, accepted: bool
    ) -> None:
        """Nothing is refused."""

    def source(
        self,
        release: str,
        period: str,
        plan: str,
        tables: Mapping[str, tuple[str, ...]],
        key_id: str,
        accepted: str = "",
        rows: Mapping[str, str] | None = None,
    ) -> None:
        assert (release, period, plan) == IDENTITY
        assert not rows  # nothing here is of a series
        self.entries.append(self.first or Entry(dict(tables), key_id, accepted))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("id\nx\ny\n")
    (tmp_path / "jobs-1.csv").write_text("id,pay\nx,5\n")
    (tmp_path / "jobs-2.csv").write_text("id,pay\ny,7\n")
    return tmp_path


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    made = ENGINES["duckdb"](folder, {})
    yield made
    made.close()


def pin(ledger: FakeLedger, engine: Engine, key: SourceKey = KEY, accept: str = "") -> Pinned:
    return RunSources().pin(cast(Ledger, ledger), IDENTITY, TABLES, engine, key, accept)


def anew(folder: Path) -> Engine:
    """Another process: an engine that has seen nothing."""
    return ENGINES["duckdb"](folder, {})


def rows(engine: Engine) -> None:
    engine.aggregate(Catalog(tables=TABLES), Grouping(table="jobs", by=()), (Quantity(kind="rows"),), {}, bytes(32))


# The pin.


def test_the_first_read_is_recorded_and_a_resume_on_the_same_data_records_nothing(engine: Engine, folder: Path) -> None:
    ledger = FakeLedger()
    first = pin(ledger, engine)
    assert (len(ledger.entries), ledger.entries[0].key, ledger.entries[0].accepted) == (1, KEY.id, "")
    assert {name: len(found) for name, found in ledger.entries[0].tables.items()} == {"people": 1, "jobs": 2}
    (folder / "jobs-2.csv").rename(folder / "jobs-0.csv")
    assert pin(ledger, anew(folder), accept="not needed").files == first.files
    assert len(ledger.entries) == 1
    first.check(["people"])


@pytest.mark.parametrize("change", ["row", "more", "fewer"])
def test_a_resume_on_changed_data_is_refused_by_table_and_by_nothing_else(folder: Path, change: str) -> None:
    ledger = FakeLedger()
    pin(ledger, anew(folder))
    path = folder / "jobs-2.csv"
    if change == "fewer":
        path.unlink()
    else:
        (path if change == "row" else folder / "jobs-3.csv").write_text("id,pay\ny,8\n")
    with pytest.raises(LedgerError, match=r"table 'jobs': files or rows are not those that people/2024") as caught:
        pin(ledger, anew(folder))
    assert caught.value.code == "DPR-L150"
    shown = str(caught.value)
    assert "--accept-changed-data" in shown
    assert "--give-up" in shown
    assert not any(digest[:8] in shown for digest in ledger.entries[0].tables["jobs"])
    assert "jobs-" not in shown
    assert len(ledger.entries) == 1
    pin(ledger, anew(folder), accept="the office sent a correction")
    assert [entry.accepted for entry in ledger.entries] == ["", "the office sent a correction"]
    pin(ledger, anew(folder)).check(TABLES)
    assert len(ledger.entries) == 2


def test_all_changed_tables_are_named(folder: Path) -> None:
    ledger = FakeLedger()
    pin(ledger, anew(folder))
    for name in ("people.csv", "jobs-1.csv"):
        (folder / name).write_text("id,pay\nz,8\n")
    with pytest.raises(LedgerError, match=r"tables 'jobs', 'people': files or rows"):
        pin(ledger, anew(folder))


def test_another_key_is_told_apart_from_other_data(folder: Path) -> None:
    ledger = FakeLedger()
    pin(ledger, anew(folder))
    sources = RunSources()
    with pytest.raises(LedgerError, match=r"not the one that people/2024 was first read with") as caught:
        sources.pin(cast(Ledger, ledger), IDENTITY, TABLES, anew(folder), OTHER)
    assert caught.value.code == "DPR-L151"
    assert KEY.id in str(caught.value)
    assert OTHER.id in str(caught.value)
    assert not sources.begun
    found = pin(ledger, anew(folder), OTHER, accept="the key burned")
    assert (ledger.entries[-1].key, ledger.entries[-1].accepted) == (OTHER.id, "the key burned")
    assert found.files == ledger.entries[-1].tables


@pytest.mark.parametrize("key", [KEY, OTHER])
def test_whoever_records_first_counts(engine: Engine, key: SourceKey) -> None:
    ledger = FakeLedger(first=Entry({"people": ("00",), "jobs": ("11", "22")}, key.id, ""))
    with pytest.raises(LedgerError) as caught:
        pin(ledger, engine)
    assert caught.value.code == ("DPR-L150" if key == KEY else "DPR-L151")


def test_the_ledger_s_refusal_travels_on(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = FakeLedger()

    def refusing(*_: Any, **__: Any) -> None:
        raise LedgerError("one source, two accounts")

    monkeypatch.setattr(ledger, "source", refusing)
    with pytest.raises(LedgerError, match="two accounts"):
        pin(ledger, engine)


# What may be given back.


def test_a_file_that_is_missing_at_the_pin_is_told_before_any_byte_is_read(
    engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last table's: the first one's files must not have been read by then."""
    read: list[Path] = []
    real = fingerprint.hashed

    def recording(path: Path, *rest: Any) -> Any:
        read.append(path)
        return real(path, *rest)

    monkeypatch.setattr(fingerprint, "hashed", recording)
    for name in ("jobs-1.csv", "jobs-2.csv"):
        (folder / name).unlink()
    sources, ledger = RunSources(), FakeLedger()
    with pytest.raises(Unavailable):
        sources.pin(cast(Ledger, ledger), IDENTITY, TABLES, engine, KEY)
    assert (sources.begun, read, ledger.entries) == (False, [], [])


def test_once_a_byte_may_have_been_read_it_says_so(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = RunSources()

    def cancelled(*_: Any) -> Any:
        assert sources.begun
        raise KeyboardInterrupt

    monkeypatch.setattr(fingerprint, "_digest", cancelled)
    with pytest.raises(KeyboardInterrupt):
        sources.pin(cast(Ledger, FakeLedger()), IDENTITY, TABLES, engine, KEY)


# Around every read.


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "TICK", -(10**9))


@pytest.mark.usefixtures("_settled")
def test_nothing_is_hashed_again_around_a_read_of_quiet_files(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned, counted = pin(FakeLedger(), engine), []
    monkeypatch.setattr(fingerprint, "_digest", lambda *_: counted.append(1))
    for _ in range(3):
        with pinned.reading(["people", "jobs"]):
            rows(engine)
    assert not counted


def test_files_that_changed_before_a_read_are_refused_and_not_read(engine: Engine, folder: Path) -> None:
    pinned, entered = pin(FakeLedger(), engine), []
    (folder / "jobs-1.csv").write_text("id,pay\nx,6\n")
    with pytest.raises(LedgerError, match="table 'jobs'"), pinned.reading(["people", "jobs"]):
        entered.append(1)
    assert not entered
    with pinned.reading(["people"]):
        entered.append(1)
    assert entered


@pytest.mark.parametrize("act", ["changed", "put back", "gone", "more"])
def test_files_that_changed_during_a_read_are_refused_before_anything_is_drawn(
    engine: Engine, folder: Path, act: str
) -> None:
    pinned, path, drawn = pin(FakeLedger(), engine), folder / "jobs-1.csv", []
    before = path.read_bytes()

    def task() -> None:
        with pinned.reading(["people", "jobs"]):
            time.sleep(0.02)
            path.write_text("id,pay\nx,6\n")
            rows(engine)
            time.sleep(0.02)
            if act == "put back":
                path.write_bytes(before)
            elif act == "gone":
                path.unlink()
            elif act == "more":
                (folder / "jobs-9.csv").write_text("id,pay\nz,1\n")
        drawn.append("from the first read")

    with pytest.raises((LedgerError, EngineError)) as caught:
        task()
    assert not drawn
    assert "6" not in caught.value.summary
    if act == "put back":
        with pytest.raises(EngineError), pinned.reading(["jobs"]):
            drawn.append("from the rows in memory")
        assert not drawn


def test_an_error_of_the_read_is_not_covered_by_a_second_one(engine: Engine, folder: Path) -> None:
    pinned = pin(FakeLedger(), engine)

    def task() -> None:
        with pinned.reading(["jobs"]):
            (folder / "jobs-1.csv").unlink()
            raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        task()


def test_a_pass_reads_the_tables_that_it_joins() -> None:
    catalog = Catalog(tables=TABLES)
    assert tables_read(catalog, "people") == ("people", "jobs")
    assert tables_read(catalog, "jobs") == ("jobs",)


def test_neither_key_nor_hash_shows_in_a_text(engine: Engine) -> None:
    pinned = pin(FakeLedger(), engine)
    shown = f"{pinned!r} {KEY!r} {engine!r} {RunSources()!r}"
    assert KEY.secret.hex() not in shown
    assert repr(KEY.secret)[2:-1] not in shown
    assert not any(digest[:8] in shown for found in pinned.files.values() for digest in found)
