"""One release of the same rows from files of every format: the same totals, and the same tables where the noise is.

A file that cannot be read is told before anything is charged, with what to do and without a word of what is in it.
"""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import io
import json
import random
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter

from dprelease.cli import main
from dprelease.engines.files.statistical import process
from tests.project import POLICY, SETTINGS, command
from tests.statistical_files import KINDS, packed_as, write_statistical
from tests.workbook_files import write_columns

WORD, NUMBER = "CANARYqz7", 918_273_645
SPEC = """dprelease: 1
release: {name: visits, period: 2024, title: Visits}
privacy:
  unit: {entity: person}
  budget: {epsilon: 2, delta: 1e-9}
  accounting: zcdp
  noise: gaussian
references:
  places: {file: places.csv, columns: {PLACE: text, REGION: text}}
tables:
  visits:
    account: people
    source: SOURCE
    unit_id: PERSON
    bounds: {max_rows: 3, truncate: first, order_by: [SEEN]}
    join: [{reference: places, on: PLACE, add: [REGION]}]
    columns:
      PERSON: {type: text}
      PLACE: {type: text, keys: {reference: places}}
      REGION: {type: text, keys: {reference: places}}
      SEX: {type: integer, keys: [1, 2], null: 2}
      BORN: {type: date}
      SEEN: {type: timestamp}
      AMOUNT: {type: decimal, range: [0, 1000], step: 0.25}
      EMPLOYED: {type: boolean, keys: [true, false]}
queries:
  counts:
    table: visits
    by: [REGION, SEX]
    where: "BORN >= CAST('1950-06-01' AS DATE) OR BORN IS NULL"
    bounds: {max_groups: 2, max_rows_per_group: 2}
    measures: {visits: {count: rows}, people: {count: units}, known: {count: AMOUNT}}
  amounts:
    table: visits
    by: [EMPLOYED]
    bounds: {max_groups: 2, max_rows_per_group: 2}
    measures:
      total: {sum: AMOUNT, clip_per: row}
      middle: {quantiles: AMOUNT, at: [0.5]}
publish: {formats: [csv, parquet, html]}
"""
PLACES = "PLACE,REGION\nBern,west\nGenf,west\nChur,east\n"
NAMES = ("PERSON", "PLACE", "SEX", "BORN", "SEEN", "AMOUNT", "EMPLOYED")
SOURCES = {
    "csv": '{file: "visits.csv"}',
    "european": '{file: "visits-eu.csv", delimiter: ";", decimal: ",", date_format: "%d.%m.%Y", encoding: latin-1}',
    **{kind: f'{{file: "visits.{kind}"}}' for kind in ("csv.gz", "csv.zst", "parquet", "xlsx", *KINDS)},
}


def made_rows() -> list[list[Any]]:
    draw = random.Random(7)
    rows: list[list[Any]] = []
    for at in range(900):
        seen = dt.datetime(2024, draw.randrange(1, 12), draw.randrange(1, 28), draw.randrange(24), 5, at % 60, 125_000)
        born = dt.date(1940, 1, 1) + dt.timedelta(draw.randrange(20_000))
        sex, amount = draw.choice([1, 2, 2, None]), draw.choice([draw.randrange(5000) / 8, None, 2000.0, -0.125])
        row = [
            f"p{at % 400}",
            draw.choice(["Bern", "Genf", "Chur", "Rom"]),
            sex,
            born,
            seen,
            amount,
            draw.random() < 0.5,
        ]
        rows.append([None if at > 2 and draw.random() < 0.02 else value for value in row])
    return rows


def written(folder: Path, kind: str, rows: list[list[Any]]) -> Path:
    """A project whose source is of a format."""
    folder.mkdir(parents=True)
    files = {"dprelease.yaml": SETTINGS, "policy.yaml": POLICY, "places.csv": PLACES}
    for name, text in (files | {"spec.yaml": SPEC.replace("SOURCE", SOURCES[kind])}).items():
        (folder / name).write_text(text, encoding="utf-8")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(NAMES)}
    if kind in KINDS:
        write_statistical(folder / f"visits.{kind}", columns)
    elif kind == "xlsx":
        write_columns(folder / "visits.xlsx", columns)
    elif kind == "parquet":
        pq.write_table(pa.table(columns), folder / "visits.parquet")
    else:
        european = kind == "european"
        content = io.StringIO()
        lines = csv.writer(content, delimiter=";" if european else ",", lineterminator="\n")
        lines.writerows([NAMES, *([_text(value, european) for value in row] for row in rows)])
        place = folder / ("visits-eu.csv" if european else f"visits.{kind}")
        place.write_bytes(packed_as(content.getvalue().encode("latin-1"), kind))
    return folder


def _text(value: Any, european: bool) -> str:
    if isinstance(value, dt.datetime):
        return value.strftime("%d.%m.%Y %H:%M:%S.%f" if european else "%Y-%m-%dT%H:%M:%S.%f")
    if isinstance(value, dt.date):
        return value.strftime("%d.%m.%Y") if european else value.isoformat()
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace(".", ",") if european and isinstance(value, float) else text


def run(folder: Path, patch: pytest.MonkeyPatch, *more: str) -> tuple[int, str]:
    """The command in this process, and what it said."""
    said = io.StringIO()
    with patch.context() as inside, redirect_stdout(said), redirect_stderr(said):
        inside.chdir(folder)
        inside.setattr("dprelease.release.run.heard", lambda plan, ask: None)  # another library's opinion of the price
        inside.setattr(sys, "argv", ["dprelease", *(more or ("run", "spec.yaml", "--direct"))])
        with pytest.raises(SystemExit) as stop:
            main()
    return int(stop.value.code or 0), said.getvalue()


def with_test_key(patch: pytest.MonkeyPatch) -> None:
    """Entropy that is the same in every run, and one step after the other."""
    stream = hashlib.shake_256(b"a fixed test key").digest(1 << 22)
    at = [0]

    def taken(size: int) -> bytes:
        begin = at[0]
        at[0] += size
        return stream[begin : begin + size]

    patch.setattr("os.urandom", taken)
    patch.setattr("dprelease.release.direct._WORKERS", 1)


def published(folder: Path) -> dict[str, bytes]:
    """Every table of the bundle."""
    found = {path.name: path.read_bytes() for path in sorted((folder / "releases").rglob("tables/*.csv"))}
    assert {"counts.csv", "amounts.csv"} <= set(found)
    return found


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = written(tmp_path_factory.mktemp("known") / "csv", "csv", made_rows())
    with pytest.MonkeyPatch.context() as patch:
        with_test_key(patch)
        code, said = run(folder, patch)
    assert code == 0, said
    return published(folder)


@pytest.mark.thin(first=3)
@pytest.mark.parametrize("kind", ["sav", "csv.gz", "xpt", *sorted(SOURCES.keys() - {"csv", "sav", "csv.gz", "xpt"})])
def test_the_same_rows_make_the_same_tables(
    kind: str, known: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "it", kind, made_rows())
    with_test_key(monkeypatch)
    code, said = run(folder, monkeypatch)
    assert code == 0, said
    assert published(folder) == known


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
        code, said = run(folder, monkeypatch, *words)
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
        code, said = run(folder, monkeypatch, *words)
        assert code == 9
        assert 'pip install "dprelease[statfiles]"' in said
    assert charged(folder) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "xlsx"])
def test_a_canary_is_in_no_file_but_its_own(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word and a number in every row: in no log, no temporary file, no bundle, and no word of the command."""
    rows = [[f"{WORD}{at}", *row[1:5], float(NUMBER), row[6]] for at, row in enumerate(made_rows())]
    folder = written(tmp_path / "it", kind, rows)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    code, said = run(folder, monkeypatch)
    assert code == 0, said
    marks = [WORD.encode(), str(NUMBER).encode(), *(NUMBER.to_bytes(8, order) for order in ("little", "big"))]
    marks.append(pa.array([float(NUMBER)]).buffers()[1].to_pybytes()[:8])
    assert not any(mark.decode() in said for mark in marks[:2])
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.startswith("visits.")]
    assert len(files) > 10
    assert [path.name for path in files if any(mark in path.read_bytes() for mark in marks)] == []


def test_a_wrong_name_is_told_with_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "it", "dta", made_rows()[:20])
    (folder / "visits.dta").rename(folder / "visits.sav")
    (folder / "spec.yaml").write_text(SPEC.replace("SOURCE", SOURCES["sav"]), encoding="utf-8")
    code, said = run(folder, monkeypatch, "validate", "spec.yaml")
    assert code == 5
    assert "it begins like a Stata file" in said
    assert "give it a name that ends in .dta" in said


def test_names_in_other_letters_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "it", "sav", made_rows()[:20])
    write_statistical(folder / "visits.sav", {name.lower(): [1.0] for name in NAMES})
    code, said = run(folder, monkeypatch, "validate", "spec.yaml")
    assert code == 5
    assert "'person' for 'PERSON'" in said
    assert "letters' case counts" in said


@pytest.mark.parametrize("name", ["visits.xls", "visits.ods"])
def test_other_workbooks_are_told_with_what_to_save_them_as(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "it", "csv", made_rows()[:20])
    (folder / "spec.yaml").write_text(SPEC.replace("SOURCE", f"{{file: {name}}}"), encoding="utf-8")
    code, said = run(folder, monkeypatch, "validate", "spec.yaml")
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
    code, said = run(folder, monkeypatch)
    assert code == 0, said
    assert published(folder) == known
