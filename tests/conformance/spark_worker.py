"""A process with a Spark session that logs everything: asks what ``test_spark.py`` looks at, and says what came of it.

Its folder gets the event log, Java's log at its most talkative, and a copy of every file of Spark's own folder as it was
while a job ran. With the word ``planted`` it does what the engine never does: it has no encryption, a job is named by the
secret, and a task says in its error what a row holds. All of that has to be found.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.cells import CellSlice
from dprelease.catalog.table import Catalog, Column, DeltaSource, Source, Table, TableBounds, TimeFilter
from dprelease.engines import ENGINES
from dprelease.engines.spark import engine as room
from dprelease.engines.spark import session, settings, splits
from dprelease.errors import EngineError, Unsupported
from tests.conformance.people import opened
from tests.object_store import ACCESS, Bucket, object_store

SECRET = bytes(range(7, 39))
ROWS = 60_000


def main(folder: Path, how: str) -> None:
    """All of it."""
    planted = how == "planted"
    data, copies = folder / "data", folder / "copies"
    for each in (data, copies, folder / "events", folder / "temporary"):
        each.mkdir()
    for file in range(2):
        ids = [f"MARKER-7391-{at % 9000}" for at in range(ROWS // 2)]
        columns = {"id": ids, "sex": [at % 3 for at in range(len(ids))], "n": list(range(len(ids)))}
        pq.write_table(pa.table(columns), data / f"rows-{file}.parquet", row_group_size=7000)
    _log_everything(folder, {"spark.io.encryption.enabled": "false"} if planted else {})
    done = threading.Event()
    watching = threading.Thread(target=_copy, args=(folder / "temporary", copies, done))
    watching.start()
    try:
        {"planted": _plant, "sources": _read}.get(how, _ask)(data, folder)
    finally:
        done.set()
        watching.join()


def _ask(data: Path, folder: Path) -> None:
    units = {"unit_id": "id", "bounds": TableBounds(max_rows=4)}
    print(_equal(data, units, Grouping(table="t", by=("sex",), max_groups=2, max_rows_per_group=1)))
    print(_equal(data, {}, Grouping(table="t", by=("sex",))))
    print(_equal(data, units, Grouping(table="t", by=("id",), private=True, max_groups=1), private=True))
    print(_pieces(data, units))
    context = session.spark_context({})
    try:
        _REFUSE(dict(context.getConf().getAll()))
    except Unsupported:
        print("refused")  # with the event log on, as it is here alone
    try:
        context.parallelize([splits.Split(0, 0, "gone", (), (), (0, 1), 0, ())], 1).map(_fails).collect()
    except Exception:
        print("failed")
    session._ended(context, Path(session._FOLDERS[-1]))
    print("stopped")


def _plant(data: Path, folder: Path) -> None:
    units = {"unit_id": "id", "bounds": TableBounds(max_rows=4)}
    print(_equal(data, units, Grouping(table="t", by=("sex",), max_groups=2, max_rows_per_group=1)))
    print(_pieces(data, units))
    context = session.spark_context({})
    context.parallelize([1], 1).setName(SECRET.hex()).count()
    session.on_disks(context.parallelize([ACCESS], 1).setName(ACCESS)).count()
    time.sleep(2)  # for the copy
    try:
        context.parallelize([1], 1).map(_tells).collect()
    except Exception:
        print("failed")
    session._ended(context, Path(session._FOLDERS[-1]))
    print("stopped")


def _read(data: Path, folder: Path) -> None:
    """Rows of a store, then of a Delta table, and the hashes of the rows of two months."""
    from deltalake import write_deltalake

    units = {"unit_id": "id", "bounds": TableBounds(max_rows=4)}
    grouping = Grouping(table="t", by=("sex",), max_groups=2, max_rows_per_group=1)
    with object_store() as store:
        store.buckets["office"] = Bucket()
        for path in data.glob("*.parquet"):
            store.buckets["office"].put(path.name, path.read_bytes())
        place = Source(file="s3://office/*.parquet", format="parquet")
        print(_equal(data, {**units, "source": place}, grouping, environment=store.environment))
    write_deltalake(data / "lake", pq.read_table(data / "rows-0.parquet"))
    write_deltalake(data / "lake", pq.read_table(data / "rows-1.parquet"), mode="append")
    print(_equal(data, {**units, "source": DeltaSource(file="lake", version=0)}, grouping))
    months = [(date(2024, at, 1), date(2024, at + 1, 1)) for at in (1, 2)]
    days = pa.array([f"2024-0{1 + at % 3}-05" for at in range(ROWS)])
    pq.write_table(
        pa.concat_tables([pq.read_table(path) for path in sorted(data.glob("rows-*.parquet"))]).append_column(
            "day", days
        ),
        data / "days.parquet",
    )
    period = TimeFilter(column="day", type="date", start=months[0][0], end=months[0][1])
    table = _table((0, 1), {"source": Source(file="days.parquet", format="parquet"), "time": period})
    found = []
    for kind in ("duckdb", "spark"):
        engine = ENGINES[kind](data, {})
        found.append(engine.digest_rows(table, ["id", "n"], months, SECRET))
        engine.close()
    print("equal" if found[0] == found[1] and len(set(found[0])) == 2 else "different")
    session._ended(session.spark_context({}), Path(session._FOLDERS[-1]))
    print("stopped")


def _tells(number: int) -> Any:
    raise ValueError("MARKER-7391-5")


def _fails(split: Any) -> Any:
    raise EngineError("withheld", code="DPR-E001")


def _table(keys: tuple[int, ...] | None, more: dict[str, Any]) -> Table:
    columns = (
        Column(name="id", type="text"),
        Column(name="sex", type="integer", keys=keys),
        Column(name="n", type="integer"),
    )
    more = {"source": Source(file="rows-*.parquet", format="parquet"), **more}
    return Table(name="t", account="a", columns=columns, **more)


def _pieces(data: Path, more: dict[str, Any]) -> str:
    """Numbers of complete rows of all nodes, then piece by piece, from what the cluster keeps of one reading."""
    room._FEW = 0
    table, grouping = _table((0, 1, 2), more), Grouping(table="t", by=("sex",), complete=("sex",))
    answers = []
    for kind in ("duckdb", "spark"):
        engine, catalog = ENGINES[kind](data, {}), Catalog(tables={"t": table})
        for nodes in (None, (0,), (1, 2), (2,)):
            within = nodes and CellSlice(column="sex", nodes=nodes)
            boxes = engine.aggregate(catalog, grouping, [Quantity(kind="rows")], {}, SECRET, within=within)
            answers.append([opened(each) for each in boxes])
        engine.close()
    return "equal" if answers[:4] == answers[4:] and all(answers) else "different"


def _equal(
    data: Path,
    more: dict[str, Any],
    grouping: Grouping,
    *,
    private: bool = False,
    environment: dict[str, str] | None = None,
) -> str:
    table = _table(None if private else (0, 1), more)
    asked = [Quantity(kind="rows"), Quantity(kind="sum", column="n", low=5, high=20_000)]
    asked.append(Quantity(kind="distinct", column="n"))
    answers = []
    for kind in ("duckdb", "spark"):
        engine, catalog = ENGINES[kind](data, environment or {}), Catalog(tables={"t": table})
        if private:
            answers.append(opened(engine.units_by_key(catalog, grouping, {}, SECRET)))
        else:
            answers.append([opened(each) for each in engine.aggregate(catalog, grouping, asked, {}, SECRET)])
        engine.close()
    return "equal" if answers[0] == answers[1] and answers[0] else "different"


_REFUSE = settings.refuse_unsafe


def _log_everything(folder: Path, planted: dict[str, str]) -> None:
    """What a careless site could switch on; the session is then refused, but for the looking away here."""
    log = (folder / "java.log").as_posix()
    session._SILENT = (
        "rootLogger.level = all\nrootLogger.appenderRef.file.ref = f\nappender.file.type = File\nappender.file.name = f\n"
        f"appender.file.fileName = {log}\nappender.file.layout.type = PatternLayout\n"
        "appender.file.layout.pattern = %d %p %c: %m%n%ex\n"
    )
    session._LEVEL = "ALL"
    more = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.log.level": "ALL",
        **{f"spark.{what}.compress": "false" for what in ("eventLog", "shuffle", "shuffle.spill", "rdd", "broadcast")},
        **planted,
    }
    asked_for = settings.asked_for
    session.asked_for = lambda master: {**asked_for(master), **more}  # type: ignore[attr-defined]
    session.refuse_unsafe = lambda found: None  # type: ignore[attr-defined]


def _copy(place: Path, copies: Path, done: threading.Event) -> None:
    """Every file of Spark's own folder, as it is for a moment."""
    number = 0
    while not done.wait(0.5):
        for path in place.rglob("*"):
            try:
                if path.is_file() and path.stat().st_size:
                    shutil.copyfile(path, copies / f"{number}-{path.name}")
                    number += 1
            except OSError:  # it is gone
                continue


if __name__ == "__main__":
    main(Path(sys.argv[1]), (sys.argv[2:] or [""])[0])
