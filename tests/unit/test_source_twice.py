"""A file that is in a table twice would count its rows twice: refused, by link before anything is charged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.table import Column, Source, Table
from dprelease.engines import ENGINES, Engine
from dprelease.engines.files.places.folders import files
from dprelease.errors import TableMismatch
from dprelease.ledger import open_ledger
from dprelease.release.project import Project
from dprelease.release.run import Request, open_run
from tests.embedded import EMBEDDED
from tests.project import command, small_project

KEY = bytes(range(64))
ROWS = b"sex\n1\n2\n"


def table(shape: str = "csv", pattern: str = "people-*") -> Table:
    source = Source(file=f"{pattern}.{shape}", format=shape)
    return Table(name="people", account="a", source=source, columns=(Column(name="sex", type="integer"),))


@pytest.fixture(params=EMBEDDED)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    found = ENGINES[request.param](tmp_path, {})
    yield found
    found.close()


def linked_twice(old: Path, new: Path) -> None:
    (new.parent / "other").symlink_to(old)
    new.symlink_to("other")


LINKS: dict[str, Callable[[Path, Path], object]] = {
    "symbolic link": lambda old, new: new.symlink_to(old),
    "relative link": lambda old, new: new.symlink_to(old.name),
    "hard link": os.link,
    "a link to a link": linked_twice,
}


@pytest.mark.parametrize("way", LINKS)
def test_a_link_to_a_file_of_the_table_is_refused_wherever_files_are_looked_for(
    engine: Engine, way: str, tmp_path: Path
) -> None:
    (tmp_path / "people-1.csv").write_bytes(ROWS)
    (tmp_path / "people-3.csv").write_bytes(ROWS + b"1\n")
    engine.describe(table())
    LINKS[way](tmp_path / "people-1.csv", tmp_path / "people-2.csv")
    for look in (engine.describe, engine.present, lambda one: engine.fingerprint(one, KEY)):
        with pytest.raises(TableMismatch, match="DPR-E310") as caught:
            look(table())
        assert "files 1 and 2 of 3" in caught.value.summary
        assert "people-1" not in str(caught.value)


def test_a_linked_folder_is_the_same_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "people-1.csv").write_bytes(ROWS)
    assert len(files(table(pattern="*/people-*").files, tmp_path, {})) == 1
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(TableMismatch, match="DPR-E310"):
        files(table(pattern="*/people-*").files, tmp_path, {})


def test_a_pattern_that_finds_one_place_twice_names_it_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "people-1.csv").write_bytes(ROWS)
    assert len(files(table(pattern="**/**/people-*").files, tmp_path, {})) == 1


@pytest.mark.parametrize("shape", ["csv", "parquet"])
def test_a_copy_is_refused_when_the_files_are_hashed(engine: Engine, shape: str, tmp_path: Path) -> None:
    first = tmp_path / f"people-1.{shape}"
    if shape == "csv":
        first.write_bytes(ROWS)
    else:
        pq.write_table(pa.table({"sex": [1, 2]}), first)
    (found,) = engine.fingerprint(table(shape), KEY)
    shutil.copy(first, tmp_path / f"people-2.{shape}")
    with pytest.raises(TableMismatch, match="DPR-E311") as caught:
        engine.fingerprint(table(shape), KEY)
    assert "files 1 and 2 of 2" in caught.value.summary
    assert found not in str(caught.value)
    (tmp_path / f"people-2.{shape}").unlink()
    assert engine.fingerprint(table(shape), KEY) == (found,)


def test_a_copy_that_comes_while_rows_are_in_memory_is_refused(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "people-1.csv").write_bytes(ROWS)
    engine.fingerprint(table(), KEY)
    shutil.copy(tmp_path / "people-1.csv", tmp_path / "people-2.csv")
    for _ in range(2):
        with pytest.raises(TableMismatch, match="DPR-E311"):
            engine.fingerprint(table(), KEY)


@pytest.mark.parametrize("shape", ["csv", "parquet"])
def test_files_without_a_row_may_be_equal(engine: Engine, shape: str, tmp_path: Path) -> None:
    """Two months in which nothing happened are two files of one header, and count nothing twice."""
    for at in range(3):
        path = tmp_path / f"people-{at}.{shape}"
        if shape == "csv":
            path.write_bytes(b"sex\n")
        else:
            pq.write_table(pa.table({"sex": pa.array([], pa.int64())}), path)
    assert len(engine.fingerprint(table(shape), KEY)) == 3


def test_one_file_may_be_in_two_tables(engine: Engine, tmp_path: Path) -> None:
    """Each of them is charged by itself."""
    (tmp_path / "people-1.csv").write_bytes(ROWS)
    other = table().model_copy(update={"name": "others"})
    assert engine.fingerprint(table(), KEY) == engine.fingerprint(other, KEY)


def test_a_link_charges_nothing(tmp_path: Path) -> None:
    spec = small_project(tmp_path, rows=40)
    (tmp_path / "people-2.csv").symlink_to("people-1.csv")
    with pytest.raises(TableMismatch, match="DPR-E310"):
        open_run(Request(target=str(spec)), "test")
    assert open_ledger(Project.find(spec).settings.ledger, tmp_path).reservations() == ()


def test_a_copy_is_refused_before_the_charge_and_the_release_goes_on_without_it(tmp_path: Path) -> None:
    """Files are hashed before the reservation, to ask whose they are; that two of them are equal is found there."""
    small_project(tmp_path, rows=40)
    shutil.copy(tmp_path / "people-1.csv", tmp_path / "people-2.csv")
    said = command(tmp_path, "run", "spec.yaml", "--direct", code=5)
    assert "DPR-E311" in said
    assert "123457" not in said
    log = command(tmp_path, "ledger", "log")
    assert not any(word in log for word in ("reserve", "measure", "void", "source"))
    (tmp_path / "people-2.csv").unlink()
    command(tmp_path, "run", "spec.yaml", "--direct")
    command(tmp_path, "verify", "releases/survey/2024")
