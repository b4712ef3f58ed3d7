"""One release of the same rows from files and databases of every kind: the same totals, and the same bundle.

A file that cannot be read is told before anything is charged, with what to do and without a word of what is in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import xlsxwriter
from pypdf import PdfReader

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.engines import ENGINES
from dprelease.engines.files.statistical import process
from dprelease.noise.exact import Exact, open_exact, open_histogram
from dprelease.release.planning import open_target, plan_release
from dprelease.release.project import reference_tables
from tests import mariadb
from tests import postgres as servers
from tests import warm_parser as parsers
from tests.e2e import any_source
from tests.e2e.any_source import NAMES, PLACES, SOURCES, SPEC, made_rows, placed, written
from tests.e2e.seen import NUMBER, WORD, run, with_test_key
from tests.project import command
from tests.statistical_files import KINDS, write_statistical

warm_parser = parsers.warm_parser
postgres_server, postgres = servers.postgres_server, servers.postgres
mysql_office, office_store = mariadb.mysql_office, any_source.office_store


def totals(folder: Path) -> str:
    """SHA-256 of the exact totals of every question of the plan, as the engine answers it from this source."""
    plan = plan_release(open_target(folder / "spec.yaml"))
    engine, references = ENGINES["duckdb"](folder, os.environ), reference_tables(plan.catalog, folder)
    asked: dict[Grouping, list[Quantity]] = {}  # steps that look at the same rows are answered together, as in a run
    for step in plan.steps:
        fields = {name: getattr(step.aggregate, name) for name in Grouping.model_fields}
        asked.setdefault(Grouping(**fields), []).append(step.aggregate.quantity)
    found = hashlib.sha256()
    try:
        for grouping, quantities in asked.items():
            for box in engine.aggregate(plan.catalog, grouping, tuple(quantities), references, bytes(32)):
                if isinstance(box, Exact):
                    found.update(open_exact(box).tobytes())
                else:
                    found.update(repr([np.asarray(each).tolist() for each in open_histogram(box)]).encode())
    finally:
        engine.close()
    return found.hexdigest()


def bundle(folder: Path) -> dict[str, bytes]:
    """Every file of the release, without what tells its source: that, hashes, sizes of files with it, and times.

    Parquet files are their tables; what they hold beside them are hashes.
    """
    found, root = {}, folder / "releases" / "visits" / "2024"
    for path in sorted(each for each in root.rglob("*") if each.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            data = repr(pq.read_table(path).to_pydict()).encode()
        elif path.suffix == ".pdf":
            data = "\n".join(page.extract_text() for page in PdfReader(path).pages).encode()
        elif path.name == "plan.json":
            plan = json.loads(data)
            source = next(each for each in _each(plan) if "source" in each).pop("source")
            assert "format" in source
            data = json.dumps(plan).encode()
        data = re.sub(rb"[0-9a-f]{12,}", b"HASH", data)
        data = re.sub(rb"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d", b"TIME", data)
        # A certificate is packed, and its hashes pack better or worse: now and then it has another tenth of a kB.
        data = re.sub("(JSON|PDF), [0-9.]+\u00a0kB".encode(), b"SIZE", data)
        found[path.relative_to(root).as_posix()] = re.sub(rb'"(plan\.json|certificate\.pdf)":\{"bytes":\d+', b"", data)
    return found


def _each(value: Any) -> Iterator[dict[str, Any]]:
    """Every object within a JSON value."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _each(inner)
    if isinstance(value, dict):
        yield value


def published(folder: Path) -> dict[str, bytes]:
    """Every table of the bundle."""
    found = {path.name: path.read_bytes() for path in sorted((folder / "releases").rglob("tables/*.csv"))}
    assert {"counts.csv", "amounts.csv"} <= set(found)
    return found


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the plainest CSV, released."""
    folder = written(tmp_path_factory.mktemp("known") / "csv", "csv", made_rows())
    with pytest.MonkeyPatch.context() as patch:
        with_test_key(patch)
        code, said = run(folder)
    assert code == 0, said
    return folder


@pytest.fixture(scope="module")
def known(first: Path) -> dict[str, bytes]:
    return published(first)


@pytest.fixture(scope="module")
def first_bundle(first: Path) -> dict[str, bytes]:
    return bundle(first)


@pytest.fixture(scope="module")
def first_totals(first: Path) -> str:
    return totals(first)


FIRST = ["sav", "postgres", "european"]


@pytest.mark.thin(first=len(FIRST))
@pytest.mark.parametrize("kind", [*FIRST, *sorted(SOURCES.keys() - {"csv", *FIRST})])
def test_the_same_rows_make_the_same_bundle(
    kind: str,
    known: dict[str, bytes],
    first_bundle: dict[str, bytes],
    first_totals: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """But for what names the source; and the exact totals, before any noise, are the same numbers."""
    folder = placed(tmp_path / "it", kind, made_rows(), request, monkeypatch)
    with_test_key(monkeypatch)
    code, said = run(folder)
    assert code == 0, said
    assert published(folder) == known
    found, expected = bundle(folder), first_bundle
    assert len(expected) > 15
    assert [name for name in {*found, *expected} if found.get(name) != expected.get(name)] == []
    # The noise is that of a test key, so that equal measurements are equal totals; of these all is added up once more,
    # with the histograms of which a release keeps what it chose alone.
    if kind in FIRST:
        assert totals(folder) == first_totals


def charged(folder: Path) -> int:
    return int(json.loads(command(folder, "ledger", "status", "--json"))["accounts"][0]["releases"])


def spoiled(data: bytes, how: str) -> bytes:
    """A file as it may come off a bad disk, or from somebody who wrote it by hand."""
    if how == "cut":
        return data[: len(data) * 2 // 3]
    if how == "garbage":
        return random.Random(3).randbytes(len(data))
    if how == "zeros":
        return bytes(len(data))
    return b"" if how == "empty" else data[: len(data) // 2] + random.Random(4).randbytes(len(data) // 2)


@pytest.mark.usefixtures("warm_parser")
@pytest.mark.thin(first=2)
@pytest.mark.parametrize("how", ["cut", "garbage", "zeros", "empty"])
@pytest.mark.parametrize("kind", ["sav", "csv.zst", "csv.gz", "xlsx", *sorted(set(KINDS) - {"sav"})])
def test_a_broken_file_is_told_before_anything_is_charged(
    kind: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[WORD if at == 0 else NUMBER if at == 5 else value for at, value in enumerate(row)] for row in made_rows()]
    folder = written(tmp_path / "it", kind, rows)
    path = folder / f"visits.{kind}"
    path.write_bytes(spoiled(path.read_bytes(), how))
    for words in (("validate", "spec.yaml"), ("run", "spec.yaml", "--direct")):
        code, said = run(folder, *words)
        assert code == 5, said
        assert "DPR-E303" in said
        assert any(
            each in said for each in ("is damaged, cut short, or no", "damaged or cut short", "not compressed by")
        )
        assert WORD not in said
        assert str(NUMBER) not in said
    assert charged(folder) == 0


def test_a_missing_extra_is_told_before_anything_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "it", "dta", made_rows())
    monkeypatch.setattr(process, "find_spec", lambda name: None)
    for words in (("validate", "spec.yaml"), ("run", "spec.yaml", "--direct")):
        code, said = run(folder, *words)
        assert code == 9
        assert 'pip install "dprelease[statfiles]"' in said
    assert charged(folder) == 0


@pytest.mark.parametrize(
    ("kind", "how", "code"),
    [
        ("mysql", "wrong password", "DPR-E125"),
        ("mysql", "nobody listens", "DPR-E120"),
        ("postgres", "nobody listens", "DPR-E120"),
        ("sqlite", "no file", "DPR-E102"),
        ("duckdb", "no file", "DPR-E102"),
        ("duckdb", "no database", "DPR-E121"),
    ],
)
def test_a_database_that_is_not_read_costs_nothing(
    kind: str, how: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    folder = placed(tmp_path / "it", kind, made_rows()[:20], request, monkeypatch)
    if how == "wrong password":
        monkeypatch.setenv("OFFICE_DB", os.environ["OFFICE_DB"].replace("opensesame-5521", "wrong-5521"))
    elif how == "nobody listens":
        scheme = "mysql" if kind == "mysql" else "postgresql"
        monkeypatch.setenv("OFFICE_DB", f"{scheme}://reader:wrong-5521@127.0.0.1:9/office")
    for path in folder.glob("office.*"):
        path.write_bytes(b"no database") if how == "no database" else path.unlink()
    ended, said = run(folder)
    assert ended == 5, said
    assert code in said
    assert "5521" not in said
    assert charged(folder) == 0


ODD = ("two\nlines", 'say "hi"', "back\\slash\\134", "'; drop table visits; --", "%s %% {} \\N", "\U0001f600", "a\u0308", " b ", "b",
       "\ufdd0", "x" * 60_000, "NULL", "0x1F", "\t", "\u202eright", "A", "a", "1e5", "100000")  # fmt: skip


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "duckdb", "mysql", "delta", "folder", "s3"])
def test_hostile_texts_are_the_same_units_everywhere(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Which rows of a unit are kept, and in how many cells it is, depends on every letter of its id."""
    rows = [[ODD[at % len(ODD)], *row[1:]] for at, row in enumerate(made_rows())]
    expected = totals(written(tmp_path / "parquet", "parquet", rows))
    folder = placed(tmp_path / "it", kind, rows, request, monkeypatch, text="text")
    assert totals(folder) == expected


def test_a_wrong_name_is_told_with_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "it", "dta", made_rows()[:20])
    (folder / "visits.dta").rename(folder / "visits.sav")
    (folder / "spec.yaml").write_text(SPEC.replace("SOURCE", SOURCES["sav"]), encoding="utf-8")
    code, said = run(folder, "validate", "spec.yaml")
    assert code == 5
    assert "it begins like a Stata file" in said
    assert "give it a name that ends in .dta" in said


def test_names_in_other_letters_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "it", "sav", made_rows()[:20])
    write_statistical(folder / "visits.sav", {name.lower(): [1.0] for name in NAMES})
    code, said = run(folder, "validate", "spec.yaml")
    assert code == 5
    assert "'person' for 'PERSON'" in said
    assert "letters' case counts" in said


@pytest.mark.parametrize("name", ["visits.xls", "visits.ods"])
def test_other_workbooks_are_told_with_what_to_save_them_as(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "it", "csv", made_rows()[:20])
    (folder / "spec.yaml").write_text(SPEC.replace("SOURCE", f"{{file: {name}}}"), encoding="utf-8")
    code, said = run(folder, "validate", "spec.yaml")
    assert code == 2
    assert "DPR-S216" in said
    assert "save it as an Excel workbook (.xlsx) or the sheet as CSV in UTF-8" in said


def test_a_reference_in_a_workbook_is_that_in_a_csv(
    known: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "it", "csv", made_rows())
    (folder / "places.csv").unlink()
    with xlsxwriter.Workbook(folder / "places.xlsx") as book:
        sheet = book.add_worksheet()
        for at, line in enumerate(PLACES.splitlines()):
            sheet.write_row(at, 0, line.split(","))
    spec = SPEC.replace("SOURCE", SOURCES["csv"]).replace("places.csv", "places.xlsx")
    (folder / "spec.yaml").write_text(spec, encoding="utf-8")
    with_test_key(monkeypatch)
    code, said = run(folder)
    assert code == 0, said
    assert published(folder) == known
