"""Keyed hashes of sources: what counts, what does not, and that they belong to the rows that an engine has loaded."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, Source, Table
from dprelease.engines import ENGINES, Engine
from dprelease.engines.files import csv_lines as csvfile
from dprelease.engines.files import fingerprint
from dprelease.engines.files.fingerprint import Look, Watch, hashed, no_rows
from dprelease.engines.files.places.folders import files
from dprelease.engines.files.reader import FileReader
from dprelease.errors import BrokenPromiseError, EngineError, Retryable, Unavailable
from tests.embedded import EMBEDDED
from tests.tiers import few

KEY, OTHER = bytes(range(64)), bytes(range(1, 65))
SEX = Column(name="sex", type="integer", keys=(1, 2))
ROWS = b"sex\n1\n2\n2\n"
CSV, PARQUET = Source(file="*.csv", format="csv"), Source(file="*.parquet", format="parquet")


def table(file: str = "*.csv", account: str = "people", shape: Any = "csv") -> Table:
    return Table(name="people", account=account, source=Source(file=file, format=shape), columns=(SEX,))


def of(folder: Path, source: Source = CSV, key: bytes = KEY, account: str = "people") -> tuple[str, ...]:
    """The fingerprint of every file of a source, sorted."""
    paths = files(source, folder, {})
    return tuple(sorted(hashed(path, source, key, account, None).digest for path in paths))


def total(engine: Engine, of_table: Table) -> Any:
    grouping = Grouping(table=of_table.name, by=())
    return engine.aggregate(Catalog(tables={of_table.name: of_table}), grouping, (Quantity(kind="rows"),), {}, b"")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_bytes(ROWS)
    return tmp_path


@pytest.fixture(params=EMBEDDED)
def engine(request: pytest.FixtureRequest, folder: Path) -> Iterator[Engine]:
    made = ENGINES[request.param](folder, {})
    yield made
    made.close()


@pytest.fixture
def fast_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as settled at once; such tests leave more than a tick between two writes."""
    monkeypatch.setattr(fingerprint, "TICK", -(10**9))


def hashes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how often the bytes of a file are read."""
    counted: list[int] = []
    real = fingerprint._digest

    def counting(*given: Any) -> str:
        counted.append(1)
        return real(*given)

    monkeypatch.setattr(fingerprint, "_digest", counting)
    return counted


# What counts.


def test_names_places_and_order_of_files_do_not_count_and_equal_files_count_twice(tmp_path: Path) -> None:
    for where, names in {"x": ("a", "b", "c"), "y": ("9", "7", "8")}.items():
        (tmp_path / where).mkdir()
        for name, data in zip(names, (ROWS, ROWS, b"sex\n1\n"), strict=True):
            (tmp_path / where / f"{name}.csv").write_bytes(data)
    found = of(tmp_path / "x")
    assert found == of(tmp_path / "y")
    assert (len(found), len(set(found)), sorted(found)) == (3, 2, list(found))
    (tmp_path / "y" / "7.csv").unlink()
    assert len(of(tmp_path / "y")) == 2


@given(at=st.integers(0, len(ROWS) * 8 - 1))
def test_every_bit_counts(at: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "a.csv").write_bytes(ROWS)
        before = of(Path(name))
        changed = bytearray(ROWS)
        changed[at // 8] ^= 1 << at % 8
        (Path(name) / "a.csv").write_bytes(changed)
        assert of(Path(name)) != before


def test_a_key_of_another_length_is_a_bug(folder: Path) -> None:
    for wrong in (b"", KEY[:31], KEY[:33], KEY[:63], KEY + b"x"):
        with pytest.raises(BrokenPromiseError):
            of(folder, key=wrong)


# Files without rows.


@given(st.lists(st.sampled_from([b"a", b",", b"\n", b"\r", b'"', b"\r\n", b" ", b"\xef\xbb\xbf"]), max_size=9))
def test_a_csv_file_has_no_rows_exactly_when_its_reader_finds_none(parts: list[bytes]) -> None:
    data = b"".join(parts)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "t.csv"
        path.write_bytes(data)
        read = sum(len(block[0]) for block in csvfile.column_blocks(path, 1, [0]))
    assert no_rows(CSV, data) == (read == 0)


def parquet(rows: int, **columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"sex": pa.array([1] * rows, pa.int64()), **columns}), file)
    return file.getvalue()


def test_parquet_has_no_rows_when_none_can_be_read() -> None:
    assert no_rows(PARQUET, parquet(0))
    assert not no_rows(PARQUET, parquet(1))
    assert not no_rows(PARQUET, parquet(3)[:-9])
    assert not no_rows(PARQUET, b"")


@pytest.mark.parametrize("data", [b"", b"sex", b"sex\n", b"sex\r\n\r\n\n", b"sex\n\r"])
def test_files_without_rows_are_equal_under_one_account_and_under_no_two(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    (one,) = of(tmp_path)
    assert of(tmp_path) == (one,)
    assert of(tmp_path, account="church") != (one,)
    assert (len(one), int(one, 16) > 0) == (64, True), "nothing shows that the file is empty"
    (tmp_path / "a.csv").write_bytes(data + b"\n1\n1\n")
    assert of(tmp_path) != (one,)
    assert of(tmp_path) == of(tmp_path, account="church"), "a file with rows is the same under every account"


@pytest.mark.parametrize("data", [b"s" * (1 << 21) + b"\n1\n", b"sex\n" + b"\n" * (1 << 21) + b"1\n"])
def test_a_long_file_counts_as_one_with_rows(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    assert of(tmp_path) == of(tmp_path, account="church")


def test_parquet_without_rows_is_equal_under_no_two_accounts(tmp_path: Path) -> None:
    for rows, same in ((0, False), (1, True)):
        (tmp_path / "a.parquet").write_bytes(parquet(rows))
        assert (of(tmp_path, PARQUET) == of(tmp_path, PARQUET, account="church")) == same


def test_account_and_content_do_not_run_into_each_other(tmp_path: Path) -> None:
    found = set()
    for account, data in (("a", b"bc"), ("ab", b"c"), ("abc", b"")):
        (tmp_path / "a.csv").write_bytes(data)
        found |= set(of(tmp_path, account=account))
    assert len(found) == 3


# Failures.


def test_a_missing_file_is_told_before_anything_is_read(engine: Engine, folder: Path) -> None:
    engine.present(table())
    (folder / "a.csv").unlink()
    for act in (lambda: engine.present(table()), lambda: engine.fingerprint(table(), KEY)):
        with pytest.raises(Unavailable, match=r"no file matches") as caught:
            act()
        assert isinstance(caught.value, Retryable)


def test_a_file_that_may_not_be_read_is_told_without_its_name(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(Unavailable) as caught:
        engine.present(table())
    assert "a.csv" not in str(caught.value)


def test_a_driver_s_words_are_withheld(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> str:
        raise OSError(5, "canary 123-45-6789")

    monkeypatch.setattr(fingerprint, "_digest", failing)
    with pytest.raises(Unavailable) as caught:
        engine.fingerprint(table(), KEY)
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_file_that_is_written_to_while_it_is_hashed_has_no_fingerprint(
    engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fingerprint._digest

    def meanwhile(*given: Any) -> str:
        found = real(*given)
        with (folder / "a.csv").open("ab") as file:
            file.write(b"1\n")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(fingerprint, "_digest", meanwhile)
        with pytest.raises(Unavailable) as caught:
            engine.fingerprint(table(), KEY)
    assert caught.value.code == "DPR-E104"
    assert engine.fingerprint(table(), KEY) == of(folder)


# The second look.


@pytest.mark.usefixtures("fast_clock")
def test_a_file_that_looks_as_before_is_not_read_again(
    engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "b.csv").write_bytes(ROWS + b"1\n")
    counted = hashes(monkeypatch)
    found = engine.fingerprint(table(), KEY)
    assert (engine.fingerprint(table(), KEY), len(counted)) == (found, 2)
    time.sleep(0.02)
    (folder / "b.csv").write_bytes(b"sex\n1\n")
    assert engine.fingerprint(table(), KEY) != found
    assert len(counted) == 3, "only the file that was written to is read again"
    assert engine.fingerprint(table(), OTHER) != engine.fingerprint(table(), KEY)


def test_a_file_that_was_just_written_is_read_again_until_a_write_must_show(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = hashes(monkeypatch)
    found = engine.fingerprint(table(), KEY)
    assert (engine.fingerprint(table(), KEY), len(counted)) == (found, 2)
    later = time.time_ns() + 3 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: later)
    assert [engine.fingerprint(table(), KEY) for _ in range(3)] == [found] * 3
    assert len(counted) == 3


@pytest.mark.usefixtures("fast_clock")
@pytest.mark.parametrize("keep", [False, True])
def test_setting_the_time_back_hides_no_write(engine: Engine, folder: Path, keep: bool) -> None:
    before, path = engine.fingerprint(table(), KEY), folder / "a.csv"
    times = path.stat()
    time.sleep(0.02)
    if keep:
        with path.open("r+b") as file:
            file.write(ROWS.replace(b"1", b"2"))
    else:
        (folder / "new").write_bytes(ROWS.replace(b"1", b"2"))
        (folder / "new").rename(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_mtime_ns == times.st_mtime_ns
    assert path.stat().st_size == times.st_size
    assert engine.fingerprint(table(), KEY) != before


@pytest.mark.usefixtures("fast_clock")
def test_before_a_table_is_loaded_files_may_move_as_long_as_their_bytes_stay(engine: Engine, folder: Path) -> None:
    before = engine.fingerprint(table(), KEY)
    shutil.copy(folder / "a.csv", folder / "z.csv")
    (folder / "a.csv").unlink()
    assert engine.fingerprint(table(), KEY) == before
    total(engine, table())
    assert engine.fingerprint(table(), KEY) == before


@pytest.mark.usefixtures("fast_clock")
@pytest.mark.parametrize("back", [False, True])
def test_after_it_is_loaded_they_may_not(engine: Engine, folder: Path, back: bool) -> None:
    engine.fingerprint(table(), KEY)
    total(engine, table())
    time.sleep(0.02)
    (folder / "a.csv").write_bytes(b"sex\n1\n")
    if back:
        (folder / "a.csv").write_bytes(ROWS)
    for _ in range(2):
        with pytest.raises(EngineError) as caught:
            engine.fingerprint(table(), KEY)
        assert caught.value.code == "DPR-E105"
        assert not isinstance(caught.value, Retryable), "this engine has the wrong rows for as long as it lives"


def test_a_table_that_was_loaded_unseen_is_refused(engine: Engine) -> None:
    total(engine, table())
    with pytest.raises(EngineError):
        engine.fingerprint(table(), KEY)


def test_a_closed_engine_says_so(folder: Path) -> None:
    for make in ENGINES.values():
        engine = make(folder, {})
        engine.fingerprint(table(), KEY)
        engine.close()
        with pytest.raises(EngineError):
            engine.fingerprint(table(), KEY)


ACTS = st.lists(st.sampled_from(["write a", "write b", "compare", "load"]), min_size=3, max_size=12)


@settings(max_examples=few(100), deadline=None)
@given(acts=ACTS)
def test_what_is_given_out_after_loading_is_the_fingerprint_of_the_rows_in_memory(acts: list[str]) -> None:
    """Every order of writing, comparing and loading, on a file system whose times show every write.

    Fails if the remembered look follows the files after loading: write a, compare, write b, load, write a, compare.
    """
    writes, loaded, alone = [0], None, {}
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        path = Path(name) / "a.csv"
        patch.setattr(fingerprint, "TICK", -1)
        patch.setattr(fingerprint, "_look", lambda file: Look(0, 0, 0, writes[0], 0))
        for content in (b"b", b"a"):
            path.write_bytes(b"sex\n" + content)
            alone[content] = of(Path(name))
        watch = Watch(FileReader(Path(name), {}).files)
        assert watch.fingerprint(table(), KEY, loaded=False) == alone[b"a"]
        for act in [*acts, "compare"]:
            if act == "load":
                loaded = loaded or path.read_bytes()[-1:]
            elif act == "compare":
                found = given_out(watch, loaded is not None)
                assert found in (None, alone[loaded or path.read_bytes()[-1:]])
            else:
                path.write_bytes(b"sex\n" + act[-1:].encode())
                writes[0] += 1


def given_out(watch: Watch, loaded: bool) -> tuple[str, ...] | None:
    try:
        return watch.known(table(), KEY) or watch.fingerprint(table(), KEY, loaded=loaded)
    except EngineError:
        return None
