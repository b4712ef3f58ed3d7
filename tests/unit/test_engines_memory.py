"""Tables that do not fit in memory: read in parts that add up to the same numbers, and never written anywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, Range, Source, Table, TableBounds
from dprelease.engines.base import scrubbed
from dprelease.engines.declared import Loading
from dprelease.engines.duck import array_totals, loaded, parts
from dprelease.engines.duck import engine as room
from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.engines.duck.loading import Layout
from dprelease.engines.duck.parts import UnitPart, check_parts
from dprelease.engines.duck.pipeline import answers
from dprelease.engines.memory import memory_for_rows
from dprelease.errors import BrokenPromiseError, EngineError, NotEnoughMemory, Retryable
from dprelease.noise.exact import Exact, open_exact
from tests.tiers import few

MARKER = "canary-123-45-6789"
COUNT, UNITS = Quantity(kind="rows"), Quantity(kind="units")
PAID = Quantity(kind="sum", column="pay", low=0, high=100)
KEY = bytes(range(32))
ROWS = 200_000


def people(**more: Any) -> Table:
    columns = (
        Column(name="who", type="text"),
        Column(name="sex", type="integer", keys=(1, 2)),
        Column(name="pay", type="integer", range=Range(low=Fraction(0), high=Fraction(100))),
        Column(name="name", type="text"),
    )
    return Table(name="people", account="a", source=Source(file="t.csv", format="csv"), columns=columns, **more)


def lines(rows: int, units: int) -> str:
    text = (f"u{at * 7919 % units},{at % 2 + 1},{at % 131},{MARKER}-{at:030}" for at in range(rows))
    return "\n".join(["who,sex,pay,name", *text, ""])


def ask(engine: DuckDBEngine, of: Table, **bounds: Any) -> list[list[int]]:
    grouping = Grouping(table=of.name, by=("sex",), **bounds)
    asked = (COUNT, PAID) if of.unit_id is None else (COUNT, PAID, UNITS)
    boxes = engine.aggregate(Catalog(tables={of.name: of}), grouping, asked, {}, KEY)
    return [open_exact(box).tolist() for box in boxes if isinstance(box, Exact)]


def small(monkeypatch: pytest.MonkeyPatch, memory: str = "40MB") -> None:
    """Engines that are opened now have so much memory, and one thread."""
    connect = duckdb.connect

    def made(name: str, config: dict[str, Any], **more: Any) -> Any:
        return connect(name, config={**config, "memory_limit": memory, "threads": 1}, **more)

    monkeypatch.setattr(duckdb, "connect", made)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(lines(ROWS, 20_000), encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "bounds"),
    [
        (people(), {}),
        (people(unit_id="who"), {"max_groups": 1, "max_rows_per_group": 2}),
        (people(unit_id="who", bounds=TableBounds(max_rows=3)), {"where": "pay < 90"}),
    ],
)
def test_more_rows_than_memory_are_the_same_numbers_and_no_file(
    of: Table, bounds: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    engine = DuckDBEngine(folder, {})
    expected, whole = ask(engine, of, **bounds), dict(engine._parts)
    engine.close()
    small(monkeypatch, "10MB" if of.unit_id is None else "40MB")
    monkeypatch.setattr(loaded, "_RUN", 1 << 16)
    engine = DuckDBEngine(folder, {})
    before = engine.fingerprint(of, KEY)
    found = ask(engine, of, **bounds)
    assert found == expected
    assert engine.fingerprint(of, KEY) == before
    assert (whole, list(engine._parts)) == ({}, [of.fingerprint()])
    assert engine._parts[of.fingerprint()] > 1
    assert engine._backend.con.execute("SHOW TABLES").fetchall() == []
    assert ask(engine, of, **bounds) == expected  # and again, in as many parts at once
    assert os.listdir(folder) == ["t.csv"]
    engine.close()


@pytest.mark.slow
def test_one_unit_that_does_not_fit_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of a unit are in one part; after that the engine goes on with what fits."""
    (tmp_path / "t.csv").write_text(lines(ROWS, 1), encoding="utf-8")
    small(monkeypatch, "20MB")
    monkeypatch.setattr(parts, "_MOST", 4)
    engine = DuckDBEngine(tmp_path, {})
    with pytest.raises(EngineError, match=r"DPR-E006.*even with the table read in parts") as caught:
        ask(engine, people(unit_id="who"), max_rows_per_group=2)
    assert "DPRELEASE_MEMORY" in str(caught.value)
    assert not isinstance(caught.value, Retryable)
    assert MARKER not in str(caught.value)
    (tmp_path / "t.csv").write_text(lines(10, 5), encoding="utf-8")
    few_rows = people(unit_id="who", bounds=TableBounds(max_rows=1))
    assert ask(engine, few_rows)[2] == [2, 3] or sum(ask(engine, few_rows)[0]) == 5
    engine.close()


CHILD = """
import json, resource, sys, duckdb
from pathlib import Path
from tests.unit import test_engines_memory as room
from dprelease.engines.duck import engine
folder, mode = Path(sys.argv[1]), sys.argv[2]
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # not one byte may be written to any file
connect = duckdb.connect
duckdb.connect = lambda name, config, **more: connect(name, config={**config, "memory_limit": "40MB", "threads": 1}, **more)
taken = engine.AddedUp.take
def take(*given):
    taken(*given)
    print("part", flush=True)
    if mode == "wait":
        sys.stdin.readline()
engine.AddedUp.take = take
print(json.dumps(room.ask(engine.DuckDBEngine(folder, {}), room.people(unit_id="who"), max_rows_per_group=2)), flush=True)
"""


def child(folder: Path, mode: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [sys.executable, "-B", "-c", CHILD, str(folder), mode],
        cwd=folder / "cwd",
        env={**environment, "HOME": str(folder / "home")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def opened_files(process: int) -> set[str]:
    """The regular files that a process has open, whether they have a name or not, and those in its memory."""
    open_now = {os.readlink(each) for each in Path(f"/proc/{process}/fd").iterdir()}
    regular = {name for name in open_now if name.startswith("/") and not name.startswith(("/dev/", "/proc/"))}
    mapped = {
        line.split(maxsplit=5)[5] for line in Path(f"/proc/{process}/maps").read_text().splitlines() if "/" in line
    }
    return regular | {name for name in mapped if "(deleted)" in name}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at open files where Linux shows them")
def test_a_kill_between_parts_leaves_nothing_and_a_full_disk_is_no_matter(folder: Path) -> None:
    """The child may write no byte to a file: it is killed with a part in memory, and the next one answers."""
    for name in ("tmp", "cwd", "home"):
        (folder / name).mkdir()
    first = child(folder, "wait")
    assert first.stdout is not None
    assert first.stdout.readline() == "part\n"
    assert opened_files(first.pid) <= {str(folder / "t.csv")}
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["t.csv"]
    said, _ = child(folder, "go").communicate(timeout=120)
    *counted, answer = said.splitlines()
    assert len(counted) > 1
    engine = DuckDBEngine(folder, {})
    assert json.loads(answer) == ask(engine, people(unit_id="who"), max_rows_per_group=2)
    engine.close()
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["t.csv"]


def parted(rows: pa.Table, table: Table, number: int, many: int, *, by_text: bool = False) -> list[Any]:
    """The rows of one part, as they were numbered."""
    layout = Layout(table, Loading.everything(table), {})
    named = rows.rename_columns([*layout.schema.names[: rows.num_columns - 1], "nth"])
    condition = UnitPart(number, many).condition(layout, by_text=by_text)
    relation = duckdb.connect().from_arrow(named)
    found = (relation if condition is None else relation.filter(condition)).select("nth").fetchall()
    return [each for (each,) in found]


@pytest.mark.parametrize("many", [1, 2, 4, 64])
def test_every_row_is_in_one_part_and_with_it_all_rows_of_its_unit(many: int) -> None:
    count = few(20_000, 4_000)
    table = people(unit_id="who", null_id="unit")
    whose = [None if at % 11 == 0 else f"u{at % 700}" for at in range(count)]
    rows = pa.table(
        {
            "who": pa.array(whose),
            "sex": [at % 2 for at in range(count)],
            "pay": [at % 5 for at in range(count)],
            "name": [str(at) for at in range(count)],
            "alone": [at if unit is None else 0 for at, unit in enumerate(whose)],
            "nth": list(range(count)),
        }
    )
    found = [parted(rows, table, number, many) for number in range(many)]
    assert sorted(at for part in found for at in part) == list(range(count))
    places = Counter(unit for part in found for unit in {whose[at] for at in part} - {None})
    assert set(places.values()) == {1}
    assert len(places) == len(set(whose) - {None})
    alike = [sorted(parted(rows.set_column(4, "alone", [[0] * count]), table, at, many)) for at in range(many)]
    assert alike == [sorted(part) for part in found]  # the number of a row without an id decides nothing
    if many == 64:  # no part is much larger than another
        assert max(map(len, found)) < 4 * count / many


def test_ids_of_two_types_meet_in_one_part() -> None:
    """A whole number and its text: the private join of these compares texts."""
    ids = list(range(-500, 500))
    of_text, of_number = people(unit_id="who"), people(unit_id="pay")
    texts = pa.table({"who": list(map(str, ids)), "sex": ids, "pay": ids, "name": list(map(str, ids)), "nth": ids})
    for number in range(8):
        found = [sorted(parted(texts, table, number, 8, by_text=True)) for table in (of_text, of_number)]
        assert found[0] == found[1] != []


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[tuple[DuckDBEngine, Table]]:
    (tmp_path / "t.csv").write_text(lines(500, 60), encoding="utf-8")
    engine = DuckDBEngine(tmp_path, {})
    yield engine, people(unit_id="who")
    engine.close()


def failing(times: int, action: Callable[..., Any]) -> Callable[..., Any]:
    """An action that is refused memory so many times."""
    left = [times]

    def act(*given: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise MemoryError
        return action(*given)

    return act


@pytest.mark.parametrize("at", ["take_in", "bounded_rows"])
def test_what_is_kept_makes_room_before_a_table_is_parted(
    at: str, tiny: tuple[DuckDBEngine, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, plain = tiny
    of = plain.model_copy(update={"bounds": TableBounds(max_rows=4)})
    ask(engine, plain)
    monkeypatch.setattr(loaded, at, failing(1, getattr(loaded, at)))
    found = ask(engine, of)
    assert engine._parts == {}
    monkeypatch.setattr(loaded, at, failing(2, getattr(loaded, at)))
    engine._forget()
    assert ask(engine, of) == found
    assert engine._parts == {of.fingerprint(): 4}
    assert engine._backend.con.execute("SHOW TABLES").fetchall() == []


@pytest.mark.parametrize(("cells", "failures"), [(0, 1), (2**18, 2)], ids=["a statement", "arrays, then a statement"])
def test_rows_that_pass_are_parted_where_there_is_no_memory_for_what_they_come_to(
    tiny: tuple[DuckDBEngine, Table], monkeypatch: pytest.MonkeyPatch, cells: int, failures: int
) -> None:
    monkeypatch.setattr(array_totals, "_CELLS", cells)
    engine, units = tiny
    plain = units.model_copy(update={"unit_id": None})
    question = (Grouping(table="people", by=("sex",)), (COUNT, PAID))
    found = ask(engine, plain)
    engine._forget()
    engine.expect(Catalog(tables={"people": plain}), [question])
    assert ask(engine, plain) == found
    assert engine._parts == {}
    engine._arrays.clear()
    monkeypatch.setattr(Layout, "typed", failing(failures, Layout.typed))
    assert ask(engine, plain) == found
    assert engine._parts == {plain.fingerprint(): 2}
    assert engine._backend.con.execute("SHOW TABLES").fetchall() == []


def test_the_last_step_is_not_tried_in_more_parts(
    tiny: tuple[DuckDBEngine, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, of = tiny
    monkeypatch.setattr(room, "_PARTS", 2)
    with monkeypatch.context() as patch:
        patch.setattr(room, "answers", failing(1, answers))
        with pytest.raises(EngineError, match="DPR-E006"):
            ask(engine, of)
    assert sum(ask(engine, of)[0]) == 500


def test_parts_that_are_not_all_rows_are_a_broken_promise(
    tiny: tuple[DuckDBEngine, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, of = tiny
    monkeypatch.setattr(room, "_PARTS", 4)
    planted = UnitPart.condition
    monkeypatch.setattr(
        UnitPart, "condition", lambda self, *given, **named: f"{planted(self, *given, **named)} OR c2 = 3"
    )
    with pytest.raises(BrokenPromiseError, match="DPR-B201"):
        ask(engine, of)
    monkeypatch.setattr(
        UnitPart, "condition", lambda self, *given, **named: f"({planted(self, *given, **named)}) AND c2 <> 3"
    )
    with pytest.raises(BrokenPromiseError, match="DPR-B201"):
        ask(engine, of)


def test_a_source_that_grew_between_two_readings_is_left_to_its_fingerprint() -> None:
    check_parts([{"people": (10, 4)}, {"people": (11, 7)}])
    with pytest.raises(BrokenPromiseError):
        check_parts([{"people": (10, 4)}, {"people": (10, 7)}])


def test_a_write_between_two_parts_is_told(tiny: tuple[DuckDBEngine, Table], monkeypatch: pytest.MonkeyPatch) -> None:
    """The fingerprint that is taken after an answer covers every reading of it."""
    engine, of = tiny
    source = engine._folder / "t.csv"
    monkeypatch.setattr(room, "_PARTS", 2)
    engine.fingerprint(of, KEY)
    plain, seen = parts.AddedUp.take, list[int]()

    def take(*given: Any) -> None:
        plain(*given)
        if not seen:
            source.write_text(source.read_text(encoding="utf-8").replace("u1,", "u2,"), encoding="utf-8")
        seen.append(1)

    monkeypatch.setattr(parts.AddedUp, "take", take)
    ask(engine, of)
    assert len(seen) == 2
    with pytest.raises(EngineError, match="DPR-E105"):
        engine.fingerprint(of, KEY)


def test_a_refused_memory_is_told_without_a_word_of_the_driver() -> None:
    def act() -> None:
        raise MemoryError(MARKER)

    with pytest.raises(NotEnoughMemory, match="DPR-E004") as caught:
        scrubbed("loading", act)
    assert MARKER not in str(caught.value)
    assert caught.value.__context__ is None
    assert "DPRELEASE_MEMORY" in str(caught.value)


@pytest.mark.parametrize(
    ("written", "size"),
    [("2GB", 2 * 10**9), ("1.5 GiB", 3 * 2**29), ("4096mib", 2**32), ("0.01TB", 10**10), ("", None)],
)
def test_the_limit_is_that_of_the_whole_process(written: str, size: int | None) -> None:
    found = memory_for_rows({"DPRELEASE_MEMORY": written})
    assert found == (None if size is None else size - 768 * 2**20)


@pytest.mark.parametrize("written", ["2", "lots", "-1GB", "1e3GB", "512MB", "GB", "2 G B", "٢GB", "0GB"])
def test_a_limit_that_is_none_is_refused(written: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="DPR-E005") as caught:
        DuckDBEngine(tmp_path, {"DPRELEASE_MEMORY": written})
    assert "export DPRELEASE_MEMORY=2GB" in str(caught.value)


def test_the_limit_reaches_the_engine(tmp_path: Path) -> None:
    engine = DuckDBEngine(tmp_path, {"DPRELEASE_MEMORY": "1792MiB"})
    (limit,) = engine._backend.con.execute("SELECT current_setting('memory_limit')").fetchone()
    assert limit == "1.0 GiB"
    engine.close()
