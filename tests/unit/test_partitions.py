"""Folders ``column=value``: what a path says of rows, which files are no data, and what is said of paths."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.dialect import Dialect
from dprelease.catalog.table import Catalog, Column, Range, Source, Table, TimeFilter
from dprelease.engines import ENGINES, Engine
from dprelease.engines.files.in_turn import parts_in_turn
from dprelease.engines.files.places.found import data_files
from dprelease.engines.files.reader import FileReader
from dprelease.errors import EngineError, TableMismatch, Unavailable
from dprelease.noise.exact import Exact, open_exact
from tests.embedded import EMBEDDED

KEY = bytes(range(64))
TOWN = Column(name="town", type="text", keys=("x", "y", "a/b"), partition=True)
DAY = Column(name="day", type="date", partition=True)
PAY = Column(name="pay", type="integer")


def table(*columns: Column, file: str = "data/town=*/*.csv", **more: Any) -> Table:
    return Table(name="people", account="a", source=Source(file=file, format="csv"), columns=columns, **more)


PEOPLE = table(TOWN, PAY)


def put(folder: Path, name: str, *pays: int) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("pay\n" + "".join(f"{pay}\n" for pay in pays), encoding="utf-8")
    return path


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Engine]:
    engine = ENGINES[kind](folder, {})
    try:
        yield engine
    finally:
        engine.close()


def counted(kind: str, folder: Path, one: Table, *by: str) -> list[int]:
    """Rows in every cell."""
    with opened(kind, folder) as engine:
        (box,) = engine.aggregate(
            Catalog(tables={"people": one}), Grouping(table="people", by=by), (Quantity(kind="rows"),), {}, KEY
        )
        assert isinstance(box, Exact)
        return [int(number) for number in open_exact(box)]


def hashes(kind: str, folder: Path, one: Table = PEOPLE) -> tuple[str, ...]:
    with opened(kind, folder) as engine:
        return engine.fingerprint(one, KEY)


@pytest.fixture(params=EMBEDDED)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_value_of_a_folder_is_that_of_all_rows_below_it(kind: str, tmp_path: Path) -> None:
    for name, rows in (("town=x", 1), ("town=y", 2), ("town=a%2Fb", 4), ("town=other", 8)):
        put(tmp_path, f"data/{name}/0.csv", *range(rows))
    put(tmp_path, "data/town=__HIVE_DEFAULT_PARTITION__/0.csv", *range(16))
    assert counted(kind, tmp_path, PEOPLE, "town") == [1, 2, 4]
    assert counted(kind, tmp_path, table(TOWN.model_copy(update={"null": "y"}), PAY), "town") == [1, 18, 4]


def test_a_value_with_two_folders_has_the_rows_of_both(kind: str, tmp_path: Path) -> None:
    """Whether there are two is told by rows, so that no error may depend on it."""
    month = Column(name="month", type="integer", keys=(1, 2), partition=True)
    put(tmp_path, "data/month=1/0.csv", 1)
    put(tmp_path, "data/month=01/0.csv", 1)
    put(tmp_path, "data/month=%31/0.csv", 1, 2)
    assert counted(kind, tmp_path, table(month, PAY, file="data/*/*.csv"), "month") == [4, 0]


def test_what_writers_leave_beside_data_is_no_data(kind: str, tmp_path: Path) -> None:
    put(tmp_path, "data/town=x/0.csv", 1)
    for name in (
        "_temporary/0/town=x/1.csv",
        "town=x/_SUCCESS",
        "town=x/.0.csv.crc",
        "town=x/_old.csv",
        ".hidden/town=x/0.csv",
    ):
        put(tmp_path, f"data/{name}", 5, 6)
    assert counted(kind, tmp_path, table(TOWN, PAY, file="data/**/*.csv"), "town") == [1, 0, 0]
    (tmp_path / "data/town=x/0.csv").unlink()
    with pytest.raises(Unavailable, match="DPR-E102"):
        data_files(table(TOWN, PAY, file="data/**/*.csv"), tmp_path, {})


@pytest.mark.parametrize("folder", ["town=x/town=y", "Town=x", "deep", "town"])
def test_a_path_says_each_column_once(folder: str, tmp_path: Path) -> None:
    put(tmp_path, f"data/{folder}/secret-name.csv", 1)
    with pytest.raises(TableMismatch, match="DPR-E312") as told:
        data_files(table(TOWN, PAY, file="data/**/*.csv"), tmp_path, {})
    assert "secret-name" not in str(told.value)


def test_a_column_in_the_path_and_in_the_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = put(tmp_path, "data/town=x/0.csv")
    path.write_text("town,pay\ny,1\n", encoding="utf-8")
    with opened(kind, tmp_path) as engine, pytest.raises(TableMismatch, match="DPR-E315"):
        engine.describe(PEOPLE)
    assert counted(kind, tmp_path, table(TOWN.model_copy(update={"partition": False}), PAY), "town") == [0, 1, 0]


def test_a_table_of_paths_alone_counts_rows(kind: str, tmp_path: Path) -> None:
    put(tmp_path, "data/town=x/0.csv", 1, 2, 3)
    assert counted(kind, tmp_path, table(TOWN), "town") == [3, 0, 0]
    assert counted(kind, tmp_path, table(TOWN)) == [3]


def test_a_link_out_of_the_folder_is_refused_and_one_inside_counts_no_row_twice(tmp_path: Path) -> None:
    put(tmp_path, "elsewhere/0.csv", 1)
    put(tmp_path, "data/town=y/0.csv", 2)
    (tmp_path / "data/town=x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TableMismatch, match="DPR-E313"):
        data_files(PEOPLE, tmp_path, {})
    (tmp_path / "data/town=x").unlink()
    (tmp_path / "data/town=x").symlink_to("town=y")
    with pytest.raises(TableMismatch, match="DPR-E310"):
        data_files(PEOPLE, tmp_path, {})


@pytest.mark.parametrize("file", ["lake/**/*.csv", "lake/town=*/*.csv", "lake/town=x/*.csv"])
def test_the_bare_files_of_a_delta_table_are_refused(file: str, tmp_path: Path) -> None:
    put(tmp_path, "lake/town=x/0.csv", 1)
    (tmp_path / "lake/_delta_log").mkdir()
    for one in (table(PAY, file=file), table(TOWN, PAY, file=file)):
        with pytest.raises(TableMismatch, match="DPR-E314"):
            data_files(one, tmp_path, {})


def of_day(start: str, end: str) -> dict[str, Any]:
    return {"time": TimeFilter(column="day", type="date", start=date.fromisoformat(start), end=date.fromisoformat(end))}


def test_files_of_another_period_are_not_even_opened(kind: str, tmp_path: Path) -> None:
    """By the value in their own path, under its declared type; a path without a day is of no period."""
    one = table(DAY, PAY, file="data/day=*/*.csv", **of_day("2024-02-01", "2024-03-01"))
    for day in ("2024-01-31", "2024-03-01", "soon", "__HIVE_DEFAULT_PARTITION__", "2024-02-30"):
        put(tmp_path, f"data/day={day}/0.csv").write_bytes(b"\xff\x00 no table at all")
    put(tmp_path, "data/day=2024-02-01/0.csv", 1, 2)
    put(tmp_path, "data/day=2024-02-29/0.csv", 1)
    assert counted(kind, tmp_path, one) == [3]
    before = hashes(kind, tmp_path, one)
    put(tmp_path, "data/day=2024-03-02/0.csv", 9)
    assert hashes(kind, tmp_path, one) == before  # a table that grows is still what it was in this period
    put(tmp_path, "data/day=2024-02-02/0.csv", 9)
    assert hashes(kind, tmp_path, one) != before


def test_a_period_without_a_folder_has_no_rows(kind: str, tmp_path: Path) -> None:
    """That a day has no folder is told by the rows of the day: it is no error."""
    put(tmp_path, "data/day=2024-01-31/0.csv", 1)
    one = table(DAY, PAY, file="data/day=*/*.csv", **of_day("2024-02-01", "2024-03-01"))
    assert counted(kind, tmp_path, one) == [0]
    assert len(hashes(kind, tmp_path, one)) == 1
    assert hashes(kind, tmp_path, one) != hashes(kind, tmp_path, one.model_copy(update={"account": "b"}))


def test_a_look_sees_the_rows_of_other_periods(tmp_path: Path) -> None:
    from dprelease.engines.look.row_counts import count_rows

    one = table(DAY, PAY, file="data/day=*/*.csv", **of_day("2024-02-01", "2024-03-01"))
    for day, rows in (("2024-01-31", 1), ("2024-02-01", 2), ("later", 4)):
        put(tmp_path, f"data/day={day}/0.csv", *range(rows))
    counts = count_rows(Catalog(tables={"people": one}), one, {}, {}, FileReader(tmp_path, {}).blocks)
    assert (counts.files, counts.rows, counts.out_of_period, counts.timeless) == (3, 7, 1, 4)


def test_values_of_paths_are_plain_whatever_the_files_declare(kind: str, tmp_path: Path) -> None:
    """Writers of folders know no dialect; texts that mean null are null there too."""
    height = Column(name="height", type="decimal", range=Range(low=Fraction(0), high=Fraction(9)), partition=True)
    pay = Column(name="pay", type="decimal", range=Range(low=Fraction(0), high=Fraction(9)))
    source = Source(
        file="data/*/*.csv", format="csv", dialect=Dialect(decimal=",", delimiter=";"), null_values=("", "n.a.")
    )
    one = table(height, pay).model_copy(update={"source": source})
    for name in ("1.5", "2,5", "n.a."):
        put(tmp_path, f"data/height={name}/0.csv").write_text("pay\n0,5\n1.5\n", encoding="utf-8")
    with opened(kind, tmp_path) as engine:
        boxes = engine.aggregate(
            Catalog(tables={"people": one}),
            Grouping(table="people", by=()),
            [Quantity(kind="nonnull", column=name) for name in ("height", "pay")],
            {},
            KEY,
        )
    assert [open_exact(box).tolist() for box in boxes if isinstance(box, Exact)] == [[2], [3]]


def test_equal_files_under_two_values_are_two(kind: str, tmp_path: Path) -> None:
    put(tmp_path, "data/town=x/0.csv", 1)
    put(tmp_path, "data/town=y/0.csv", 1)
    assert len(hashes(kind, tmp_path)) == 2  # of the bytes, and of what the paths say
    put(tmp_path, "data/town=y/1.csv", 1)
    with opened(kind, tmp_path) as engine, pytest.raises(TableMismatch, match="DPR-E311"):
        engine.fingerprint(PEOPLE, KEY)


def test_a_file_keeps_its_own_hash_whatever_its_path_says(kind: str, tmp_path: Path) -> None:
    """So a file that another account has paid for is found, under whatever declaration."""
    put(tmp_path, "data/town=x/0.csv", 1)
    bare = hashes(kind, tmp_path, table(PAY))
    assert set(bare) < set(hashes(kind, tmp_path))


def test_a_file_that_moves_to_another_value_is_other_data(kind: str, tmp_path: Path) -> None:
    put(tmp_path, "data/town=x/0.csv", 1)
    put(tmp_path, "data/town=y/0.csv", 2)
    first = hashes(kind, tmp_path)
    os.rename(tmp_path / "data/town=x/0.csv", tmp_path / "data/town=x/renamed.csv")
    assert hashes(kind, tmp_path) == first
    with opened(kind, tmp_path) as engine:
        engine.fingerprint(PEOPLE, KEY)
        engine.aggregate(
            Catalog(tables={"people": PEOPLE}), Grouping(table="people", by=()), (Quantity(kind="rows"),), {}, KEY
        )
        assert engine.fingerprint(PEOPLE, KEY) == first
        os.rename(tmp_path / "data/town=x", tmp_path / "data/town=z")
        with pytest.raises(EngineError, match="DPR-E105"):
            engine.fingerprint(PEOPLE, KEY)
    assert hashes(kind, tmp_path) != first


def test_no_error_shows_a_value_of_a_path(kind: str, tmp_path: Path) -> None:
    marker = "MARKER-OF-A-PERSON"
    path = put(tmp_path, f"data/town={marker}/{marker}.csv", 1)
    told = []
    with opened(kind, tmp_path) as engine:
        for one in (table(DAY, PAY, file="data/*/*.csv"), table(TOWN, Column(name="other", type="text"))):
            with pytest.raises(TableMismatch) as wrong:
                engine.describe(one)
            told.append(str(wrong.value))
        shutil.copy(path, path.with_name("copy.csv"))
        with pytest.raises(TableMismatch) as wrong:
            engine.fingerprint(PEOPLE, KEY)
        told.append(str(wrong.value))
    assert len(told) == 3
    assert marker not in "".join(told)


def test_items_of_many_iterators_come_in_order_and_few_are_made_ahead() -> None:
    made: list[int] = []

    def part(at: int) -> Iterator[int]:
        for number in range(10):
            made.append(at)
            yield at * 10 + number

    both = parts_in_turn((part(at) for at in range(50)), threads=3)
    assert next(both) == 0
    assert len(set(made)) <= 5
    assert list(both) == list(range(1, 500))


def test_what_fails_in_one_file_is_told_and_nothing_is_left_running() -> None:
    def part(at: int) -> Iterator[int]:
        yield at
        if at == 2:
            raise ValueError("here")

    found: list[int] = []
    with pytest.raises(ValueError, match="here"):
        found.extend(parts_in_turn(part(at) for at in range(9)))
    assert found == [0, 1]
