"""The walls around the rows: locked connection, scrubbed errors, no files, and what is refused before reading."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Catalog, Column, Join, Range, Source, Table
from dprelease.engines.base import scrubbed
from dprelease.engines.duck import loading as room
from dprelease.engines.duck.backend import locked_connection
from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.errors import EngineError, Retryable, TableMismatch, Unavailable, Unsupported
from dprelease.noise.exact import open_exact

CANARY = "canary-123-45-6789"
COUNT = Quantity(kind="rows")
LIMITS = Range(low=Fraction(0), high=Fraction(100))
SEX = Column(name="sex", type="integer", keys=(1, 2))
PAY = Column(name="pay", type="integer", range=LIMITS)


def table(*columns: Column, file: str = "t.csv", shape: Any = "csv", joins: tuple[Join, ...] = ()) -> Table:
    source = Source(file=file, format=shape)
    return Table(name="people", account="a", source=source, columns=columns or (SEX, PAY), joins=joins)


def ask(engine: DuckDBEngine, of: Table, by: tuple[str, ...], asked: Any, references: Any) -> tuple[Any, ...]:
    catalog = Catalog(tables={of.name: of})
    return engine.aggregate(catalog, Grouping(table=of.name, by=by), asked, references, b"")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("sex,pay\n1,5\n2,200\n2,7\n")
    return tmp_path


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "COPY (SELECT 1) TO 'leak.csv'",
        "EXPORT DATABASE 'leak'",
        "ATTACH 'leak.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET temp_directory = '/tmp'",
        "SET lock_configuration = false",
        "SELECT * FROM rows_in_python",
    ],
)
def test_the_connection_reaches_nothing_outside(statement: str, tmp_path: Path, monkeypatch: Any) -> None:
    import duckdb

    monkeypatch.chdir(tmp_path)
    rows_in_python = pa.table({"a": [1]})
    backend = locked_connection()
    with pytest.raises(duckdb.Error):
        backend.con.execute(statement).fetchall()
    backend.disconnect()
    assert rows_in_python.num_rows == 1
    assert os.listdir(tmp_path) == []


def test_it_shows_no_progress_of_its_own() -> None:
    """A process without a file, such as a notebook or ``python -c``, it takes for one that somebody looks at."""
    asked = "execute(\"SELECT current_setting('enable_progress_bar')\").fetchone()[0]"
    words = f"import duckdb; from dprelease.engines.locked import locked_duckdb as ours; print(duckdb.connect().{asked}, ours().{asked})"
    said = subprocess.run([sys.executable, "-c", words], capture_output=True, check=True, text=True).stdout
    assert said.split() == ["True", "False"]


def test_no_file_appears_while_it_works(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    engine = DuckDBEngine(folder, {})
    engine.describe(table())
    ask(engine, table(), ("sex",), (COUNT,), {})
    engine.close()
    assert os.listdir(folder) == ["t.csv"]


def everything(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + str(error.args) + str(vars(error))


def test_a_drivers_words_are_withheld(folder: Path, monkeypatch: Any, caplog: Any) -> None:
    """Neither text, nor cause, nor context of a driver's error travels on."""
    (folder / "t.csv").write_text(f"sex,pay\n1,{CANARY}\n")
    caplog.set_level(logging.DEBUG)

    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError(f"could not convert {CANARY}")

    monkeypatch.setattr(room, "typed_with_steps", fail)
    engine = DuckDBEngine(folder, {})
    with pytest.raises(EngineError) as caught:
        ask(engine, table(), (), (COUNT,), {})
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert "ValueError" in str(caught.value)
    assert CANARY not in everything(caught.value) + caplog.text
    engine.close()


def test_a_failed_load_leaves_no_half_table(folder: Path, monkeypatch: Any) -> None:
    engine = DuckDBEngine(folder, {})
    with monkeypatch.context() as patch:
        patch.setattr(room, "typed_with_steps", lambda *_: 1 / 0)
        with pytest.raises(EngineError):
            ask(engine, table(), (), (COUNT,), {})
    assert engine._backend.con.execute("SHOW TABLES").fetchall() == []
    assert open_exact(ask(engine, table(), (), (COUNT,), {})[0]).tolist() == [3]
    assert len(engine._backend.con.execute("SHOW TABLES").fetchall()) == 1
    engine.close()


@pytest.mark.parametrize("kind", ["integer", "decimal", "boolean", "date", "timestamp", "text"])
@pytest.mark.parametrize("shape", ["csv", "parquet"])
def test_a_canary_never_shows(kind: Any, shape: str, folder: Path, caplog: Any, capfd: Any) -> None:
    """An odd value is read, joined and grouped under every type without an error or a word."""
    caplog.set_level(logging.DEBUG)
    if shape == "csv":
        (folder / "c.csv").write_text(f'c\n{CANARY}\n"{CANARY}\n{CANARY},{CANARY}\n')
    else:
        pq.write_table(pa.table({"c": [CANARY, None, CANARY]}), folder / "c.parquet")
    ranged = {"integer": LIMITS, "decimal": LIMITS}.get(kind)
    engine = DuckDBEngine(folder, {})
    columns = (Column(name="c", type=kind, range=ranged),)
    asked = [COUNT, Quantity(kind="nonnull", column="c")]
    if ranged:
        asked.append(Quantity(kind="sum", column="c", low=0, high=100))
    boxes = ask(engine, table(*columns, file=f"c.{shape}", shape=shape), (), asked, {})
    nonnull = 0 if kind != "text" else {"csv": 1, "parquet": 2}[shape]
    assert [open_exact(box).tolist() for box in boxes] == [[3], [nonnull], [0]][: len(asked)]
    engine.close()
    shown = capfd.readouterr()
    assert CANARY not in caplog.text + shown.out + shown.err + repr(boxes) + repr(engine)


def test_files_by_pattern_and_variable(folder: Path) -> None:
    (folder / "u.csv").write_text("sex,pay\n1,5\n")
    (folder / "deep").mkdir()
    (folder / "deep" / "t.csv").write_text("sex,pay\n1,5\n")
    (folder / "odd[1].csv").write_text("sex,pay\n1,5\n")
    engine = DuckDBEngine(folder, {"WHERE": str(folder), "PART": "t"})
    for file, count in {
        "t.csv": 3, "*.csv": 5, "**/t.csv": 4, "${env:WHERE}/${env:PART}.csv": 3, "[tu].csv": 4, "odd[1].csv": 1,
    }.items():  # fmt: skip
        assert open_exact(ask(engine, table(file=file), (), (COUNT,), {})[0]).tolist() == [count]
    engine.close()


def test_a_missing_variable_is_named_without_any_value(folder: Path) -> None:
    engine = DuckDBEngine(folder, {"SECRET": "hunter2"})
    with pytest.raises(Unavailable, match=r"DPR-E101.*DATA"):
        engine.describe(table(file="${env:SECRET}/${env:DATA}.csv"))
    with pytest.raises(Unavailable, match="DPR-E102") as caught:
        engine.describe(table(file="${env:SECRET}/*.csv"))
    assert "hunter2" not in everything(caught.value)
    with pytest.raises(Unavailable, match="DPR-E102"):
        ask(engine, table(file="nothing-*.csv"), (), (COUNT,), {})
    engine.close()


def test_a_file_that_cannot_be_read_may_be_tried_again(folder: Path, monkeypatch: Any) -> None:
    engine = DuckDBEngine(folder, {})

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "no", str(folder))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(Unavailable, match=r"DPR-E103.*PermissionError") as caught:
        engine.describe(table())
    assert isinstance(caught.value, Retryable)
    assert str(folder) not in str(caught.value)
    engine.close()


def test_a_broken_parquet_file_is_an_engine_error(folder: Path) -> None:
    (folder / "p.parquet").write_bytes(b"PAR1" + CANARY.encode() + b"PAR1")
    engine = DuckDBEngine(folder, {})
    with pytest.raises(EngineError, match="DPR-E303") as caught:
        engine.describe(table(file="p.parquet", shape="parquet"))
    assert CANARY not in everything(caught.value)
    assert not isinstance(caught.value, Retryable)
    engine.close()


def test_describe_names_declared_and_found_columns(folder: Path) -> None:
    (folder / "v.csv").write_text("sex,wage\n1,2\n")
    engine = DuckDBEngine(folder, {})
    engine.describe(table())
    for check in (engine.describe, lambda item: ask(engine, item, (), (COUNT,), {})):
        with pytest.raises(TableMismatch, match="DPR-E301") as caught:
            check(table(file="*.csv"))
        for part in ("file 2 of 2", "no column 'pay'", "declared: sex, pay", "found: sex, wage"):
            assert part in str(caught.value)
    sink = io.BytesIO()
    pq.write_table(pa.table({"sex": [1], "wage": [2]}), sink)
    (folder / "p.parquet").write_bytes(sink.getvalue())
    with pytest.raises(TableMismatch, match="found: sex, wage"):
        engine.describe(table(file="p.parquet", shape="parquet"))
    engine.close()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (f"{CANARY},7\n{CANARY},8\n", "DPR-E301"),
        (f"sex,{CANARY!r}\n", "DPR-E301"),
        (f"sex,pay\r1,{CANARY}\r", "DPR-E303"),
        ("", "DPR-E303"),
        (f'sex,"pay\n{CANARY}"\n', "DPR-E303"),
        (f"sex,pay,pay\n1,2,{CANARY}\n", "DPR-E302"),
        ("sex,pay," + "x" * (1 << 20) + CANARY, "DPR-E303"),
    ],
)
def test_a_first_line_that_is_no_header_is_not_shown(content: str, code: str, folder: Path) -> None:
    (folder / "t.csv").write_bytes(content.encode())
    engine = DuckDBEngine(folder, {})
    with pytest.raises(TableMismatch, match=code) as caught:
        engine.describe(table())
    assert CANARY not in everything(caught.value)
    engine.close()


NAME = Column(name="name", type="text", keys=("a", "b"))
REGION = Column(name="region", type="text", keys=("n",), reference="places")
PLACES = ReferenceTable(columns={"name": ("a", "b"), "region": ("n", "s")})
JOIN = Join(reference="places", on="name", add=("region",))
HUGE = Column(name="huge", type="integer", keys=tuple(range(40_000)))
SUM = Quantity(kind="sum", column="pay", low=0, high=100)


@pytest.mark.parametrize(
    ("code", "made", "by", "asked", "references"),
    [
        ("E201", table(), ("nope",), COUNT, {}),
        ("E201", table(), (), Quantity(kind="nonnull", column="nope"), {}),
        ("E202", table(), ("sex", "sex"), COUNT, {}),
        ("E203", table(HUGE, HUGE.model_copy(update={"name": "b"})), ("huge", "b"), COUNT, {}),
        ("E204", table(), ("pay",), COUNT, {}),
        ("E204", table(Column(name="sex", type="integer", keys=(1, "2"))), ("sex",), COUNT, {}),
        ("E204", table(Column(name="sex", type="integer", keys=(1,), null=True)), ("sex",), COUNT, {}),
        ("E204", table(Column(name="sex", type="decimal", keys=(1,))), ("sex",), COUNT, {}),
        ("E205", table(), (), Quantity(kind="sum"), {}),
        ("E205", table(NAME), (), Quantity(kind="sum", column="name"), {}),
        ("E206", table(), (), SUM.model_copy(update={"high": 2**62 + 1}), {}),
        ("E206", table(), (), SUM.model_copy(update={"centre": -(2**62), "high": 2**62}), {}),
        ("E206", table(), (), SUM.model_copy(update={"step": Fraction(1, 2**63)}), {}),
        ("E206", table(Column(name="x", type="decimal", range=Range(low=Fraction(0), high=Fraction(10**400)))), (), COUNT, {}),
        ("E207", table(NAME, REGION, joins=(JOIN,)), (), COUNT, {}),
        ("E207", table(NAME, REGION, joins=(JOIN,)), (), COUNT, {"places": ReferenceTable(columns={"name": ("a",)})}),
        ("E207", table(REGION, joins=(JOIN,)), (), COUNT, {"places": PLACES}),
        ("E207", table(NAME, REGION.model_copy(update={"reference": None}), joins=(JOIN,)), (), COUNT, {"places": PLACES}),
        ("E207", table(NAME, REGION, joins=(JOIN, JOIN.model_copy(update={"on": "region"}))), (), COUNT, {"places": PLACES}),
        (
            "E207", table(NAME, REGION, joins=(JOIN,)), (), COUNT,
            {"places": ReferenceTable(columns={"name": ("a", "a"), "region": ("n", "s")})},
        ),
        (
            "E207", table(NAME.model_copy(update={"type": "integer", "keys": None}), REGION, joins=(JOIN,)), (), COUNT,
            {"places": ReferenceTable(columns={"name": ("1", "01"), "region": ("n", "s")})},
        ),
        ("E208", table(NAME, REGION), (), COUNT, {}),
    ],
)  # fmt: skip
def test_what_cannot_be_computed_as_defined_is_refused_before_reading(
    code: str, made: Table, by: tuple[str, ...], asked: Quantity, references: dict[str, ReferenceTable], tmp_path: Path
) -> None:
    engine = DuckDBEngine(tmp_path, {})  # an empty folder: reading would raise Unavailable
    with pytest.raises(Unsupported, match=f"DPR-{code}"):
        ask(engine, made, by, (asked,), references)
    engine.close()


def test_joins_may_follow_one_another(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name\na\na\nb\nzz\n")
    zone = Column(name="zone", type="integer", keys=(8, 9), reference="zones", null=9)
    zones = ReferenceTable(columns={"region": ("n", "x"), "zone": (8, 9)})
    made = table(NAME, REGION, zone, joins=(JOIN, Join(reference="zones", on="region", add=("zone",))))
    engine = DuckDBEngine(tmp_path, {})
    boxes = ask(engine, made, ("zone", "name"), (COUNT,), {"places": PLACES, "zones": zones})
    assert open_exact(boxes[0]).tolist() == [2, 0, 0, 1]
    engine.close()


def test_a_repeated_key_counts_once_and_at_its_first_place(folder: Path) -> None:
    engine = DuckDBEngine(folder, {})
    made = table(SEX.model_copy(update={"keys": (2, 1, 2, 10**30)}))
    assert open_exact(ask(engine, made, ("sex",), (COUNT,), {})[0]).tolist() == [2, 1, 0, 0]
    engine.close()


def test_names_of_a_spec_are_only_names(tmp_path: Path) -> None:
    names = ("c0", "C0", 'x"; DROP TABLE t1; --', "cell", "ä b")
    (tmp_path / "t.csv").write_text('c0,C0,"x""; DROP TABLE t1; --",cell,ä b\n1,2,3,4,5\n')
    columns = [Column(name=name, type="integer", keys=(at + 1,), null=at + 1) for at, name in enumerate(names)]
    engine = DuckDBEngine(tmp_path, {})
    asked = [COUNT, *(Quantity(kind="sum", column=name, low=0, high=9) for name in names)]
    boxes = ask(engine, table(*columns), names, asked, {})
    assert [open_exact(box).tolist() for box in boxes] == [[1], [1], [2], [3], [4], [5]]
    engine.close()


def test_threads_share_one_engine(folder: Path) -> None:
    engine, found = DuckDBEngine(folder, {}), []

    def work() -> None:
        for by in (("sex",), ()):
            found.append(open_exact(ask(engine, table(), by, (SUM,), {})[0]).tolist())

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[5, 107]] * 6 + [[112]] * 6
    engine.close()


def test_a_closed_engine_says_so(folder: Path) -> None:
    engine = DuckDBEngine(folder, {})
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="DPR-E002"):
        ask(engine, table(), (), (COUNT,), {})


def test_nothing_asked_is_nothing_read(tmp_path: Path) -> None:
    engine = DuckDBEngine(tmp_path, {})
    assert ask(engine, table(), ("sex",), (), {}) == ()
    engine.close()


def test_only_failures_of_the_system_may_be_tried_again() -> None:
    """Arrow raises a bare OSError for a file that is broken, and will be broken tomorrow."""

    def fail() -> None:
        raise OSError("not a file of that kind")

    with pytest.raises(EngineError, match="DPR-E001") as caught:
        scrubbed("testing", fail)
    assert not isinstance(caught.value, Retryable)


def test_our_own_errors_pass_through() -> None:
    def fail() -> None:
        raise Unsupported("a", code="DPR-E299")

    with pytest.raises(Unsupported, match="DPR-E299"):
        scrubbed("testing", fail)


def test_statements_of_many_totals_are_made_over_one_view_which_goes_with_its_table(folder: Path) -> None:
    """Equal rows are one view; with a reference, which is lent for one answer, the view goes with that answer."""
    people, engine = table(), DuckDBEngine(folder, {})
    asked = [Quantity(kind="rows", where=f"pay > {at}") for at in range(20)]

    def views() -> int:
        found = engine._backend.con.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall()
        return int(found[0][0])

    few = [open_exact(*ask(engine, people, (), [each], {})).tolist() for each in asked]
    assert views() == 0
    for _ in range(2):
        assert [open_exact(each).tolist() for each in ask(engine, people, (), asked, {})] == few
        assert views() == 1
    lands = Join(reference="lands", on="sex", add=("land",))
    joined = table(SEX, PAY, Column(name="land", type="text", keys=("a", "b"), reference="lands"), joins=(lands,))
    references = {"lands": ReferenceTable(columns={"sex": (1, 2), "land": ("a", "b")})}
    assert open_exact(ask(engine, joined, ("land",), asked, references)[0]).tolist() == [1, 2]
    assert views() == 1
    engine._forget()
    assert views() == 0
    engine.close()
