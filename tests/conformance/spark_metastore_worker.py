"""A process with Spark and a Hive metastore in a folder (Derby): says of each table what came of reading it by its name.

Spark itself makes the tables and writes most of their files, and counts them by its own SQL. A table is ``equal`` where
our counts by its name are those that one machine finds in the files, with the same hashes, and those of Spark's SQL.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, DeltaSource, MetastoreSource, Source, Table
from dprelease.engines import ENGINES
from dprelease.engines.spark import session
from dprelease.errors import DpReleaseError
from tests.conformance.people import opened

SECRET = bytes(range(7, 39))
SITE = """<configuration><property><name>javax.jdo.option.ConnectionURL</name>
<value>jdbc:derby:;databaseName={folder}/metastore;create=true</value></property></configuration>"""
ROWS = "SELECT concat('u', id % 40) AS id, CAST(id % 2 AS INT) AS sex, CAST(id AS INT) AS n"
TOWN = "CASE WHEN id % 3 = 0 THEN 'x' WHEN id % 3 = 1 THEN 'y/z' END AS town FROM range(300)"
COLUMNS = (
    Column(name="id", type="text"),
    Column(name="sex", type="integer", keys=(0, 1)),
    Column(name="n", type="integer"),
)
IN_PATHS = Column(name="town", type="text", keys=("x", "y/z", "none"), null="none", partition=True)


def main(folder: Path) -> None:
    """All of it."""
    (folder / "conf").mkdir()
    (folder / "conf/hive-site.xml").write_text(SITE.format(folder=folder))
    (folder / "conf/spark-defaults.conf").write_text(
        f"spark.sql.catalogImplementation hive\nspark.sql.warehouse.dir {folder}/warehouse\nspark.driver.memory 768m\n"
        "spark.sql.shuffle.partitions 2\nspark.ui.enabled false\n"
    )
    os.environ["SPARK_CONF_DIR"] = str(folder / "conf")
    os.chdir(folder)  # Derby writes its log here
    context = session.spark_context({session.MASTER: "local[2]"})
    from pyspark.sql import SparkSession

    spark = SparkSession(context)
    made = _make(spark, folder)
    for name, partitioned in made.items():
        print(name, _read(spark, folder, name, partitioned=partitioned))
    print("view", _refused(folder, "view"))
    for name in ("csv", "orc", "text", "outside", "dropped", "globbed", "nothing"):
        print(name, _refused(folder, name))
    print("lake", _lake(spark, folder))
    spark.conf.set("spark.sql.defaultCatalog", "other")
    print("elsewhere", _refused(folder, "plain"))
    session._ended(context, Path(session._FOLDERS[-1]))
    print("stopped")


def _make(spark: Any, folder: Path) -> dict[str, bool]:
    """The tables; those that are read, and whether they have partitions."""
    spark.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
    for statement in (
        "CREATE DATABASE office",
        f"CREATE TABLE office.plain USING parquet AS {ROWS} FROM range(300)",
        f"CREATE TABLE office.parted USING parquet PARTITIONED BY (town) AS {ROWS}, {TOWN}",
        f"CREATE TABLE office.buckets USING parquet CLUSTERED BY (n) INTO 3 BUCKETS AS {ROWS} FROM range(300)",
        "CREATE TABLE office.hive (id STRING, sex INT, n INT) PARTITIONED BY (town STRING) STORED AS PARQUET",
        f"INSERT INTO office.hive {ROWS}, {TOWN}",
        f"CREATE TABLE office.outer (id STRING, sex INT, n INT) USING parquet LOCATION '{folder}/a b'",
        f"CREATE TABLE office.csv USING csv AS {ROWS} FROM range(30)",
        f"CREATE TABLE office.orc USING orc AS {ROWS} FROM range(30)",
        "CREATE TABLE office.text (id STRING, sex INT, n INT) STORED AS TEXTFILE",
        "CREATE VIEW office.view AS SELECT * FROM office.plain",
        f"CREATE TABLE office.outside USING parquet PARTITIONED BY (town) AS {ROWS}, {TOWN}",
        f"ALTER TABLE office.outside ADD PARTITION (town='w') LOCATION '{folder}/elsewhere'",
        f"CREATE TABLE office.dropped USING parquet PARTITIONED BY (town) LOCATION '{folder}/dropped' AS {ROWS}, {TOWN}",
        "ALTER TABLE office.dropped DROP PARTITION (town='x')",
        "CREATE TABLE office.globbed (id STRING, sex INT, n INT) USING parquet OPTIONS (pathGlobFilter '*-0.parquet') "
        f"LOCATION '{folder}/a b'",
    ):
        spark.sql(statement)
    for file in range(2):
        at = range(100 * file, 100 * file + 100)
        rows = {"id": [f"u{each % 40}" for each in at], "sex": [each % 2 for each in at], "n": list(at)}
        numbers = pa.schema([("id", pa.string()), ("sex", pa.int32()), ("n", pa.int32())])
        pq.write_table(pa.table(rows, schema=numbers), folder / f"a b/rows-{file}.parquet")
    return {"plain": False, "buckets": False, "outer": False, "parted": True, "hive": True}


def _read(spark: Any, folder: Path, name: str, *, partitioned: bool) -> str:
    columns = (*COLUMNS, IN_PATHS) if partitioned else COLUMNS
    one = Table(name="t", account="a", source=MetastoreSource(file=f"office.{name}"), columns=columns)
    told = spark.sql(f"DESCRIBE TABLE EXTENDED office.{name}").collect()
    place = unquote(urlsplit(next(row[1] for row in told if row[0] == "Location")).path)
    pattern = f"{place}/*/[p0]*" if partitioned else f"{place}/*[a-z0-9]"
    files = Source(file=pattern, format="parquet")
    by = ("sex", "town") if partitioned else ("sex",)
    found, expected = (_asked(kind, folder, each, by) for kind, each in (("spark", one), ("duckdb", _of(one, files))))
    keys = [(sex, town) for sex in (0, 1) for town in ("x", "y/z", None)] if partitioned else [(0,), (1,)]
    sql = spark.sql(f"SELECT {', '.join(by)}, count(*), sum(n) FROM office.{name} GROUP BY {', '.join(by)}").collect()
    own = {tuple(row[: len(by)]): tuple(row[len(by) :]) for row in sql}
    counts = [list(each) for each in zip(*(own.get(key, (0, 0)) for key in keys), strict=True)]
    return "equal" if found == expected and found[1:] == counts else f"different {found} {expected} {counts}"


def _of(one: Table, source: Source) -> Table:
    return one.model_copy(update={"source": source})


def _asked(kind: str, folder: Path, one: Table, by: tuple[str, ...]) -> list[Any]:
    quantities = [Quantity(kind="rows"), Quantity(kind="sum", column="n", low=0, high=1000)]
    with closing(ENGINES[kind](folder, {})) as engine:
        engine.describe(one)
        before = engine.fingerprint(one, SECRET)
        boxes = engine.aggregate(Catalog(tables={"t": one}), Grouping(table="t", by=by), quantities, {}, SECRET)
        assert engine.fingerprint(one, SECRET) == before
        return [before, *(opened(each) for each in boxes)]


def _refused(folder: Path, name: str, version: int | None = None) -> str:
    partitioned = name in ("outside", "dropped")
    source = MetastoreSource(file=f"office.{name}", version=version)
    one = Table(name="t", account="a", source=source, columns=(*COLUMNS, IN_PATHS) if partitioned else COLUMNS)
    with closing(ENGINES["spark"](folder, {})) as engine:
        try:
            engine.describe(one)
        except DpReleaseError as error:
            return error.code
    return "read"


def _lake(spark: Any, folder: Path) -> str:
    """A Delta table, whose record is made of another one's: what makes them of SQL is no package of ours."""
    from deltalake import write_deltalake

    rows = pq.read_table(folder / "a b/rows-0.parquet")
    write_deltalake(folder / "lake", rows)
    write_deltalake(folder / "lake", rows, mode="append")
    java, catalog = spark._jvm, spark._jsparkSession.sessionState().catalog()
    name = java.org.apache.spark.sql.catalyst.TableIdentifier("outer", java.scala.Some("office"))
    told = catalog.getTableMetadata(name)
    values = [told.productElement(at) for at in range(told.productArity())]
    place = java.scala.Some(java.java.net.URI(f"file:{folder}/lake"))
    old = told.storage()
    storage = old.copy(place, old.inputFormat(), old.outputFormat(), old.serde(), False, old.properties())
    values[0] = java.org.apache.spark.sql.catalyst.TableIdentifier("lake", java.scala.Some("office"))
    values[2], values[4] = storage, java.scala.Some("delta")
    catalog.externalCatalog().createTable(told.copy(*values), False)
    one = Table(name="t", account="a", source=MetastoreSource(file="office.lake", version=1), columns=COLUMNS)
    found = _asked("spark", folder, one, ("sex",))
    expected = _asked("duckdb", folder, _of(one, DeltaSource(file="lake", version=1)), ("sex",))
    return f"{'equal' if found == expected else 'different'} {_refused(folder, 'lake')}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
