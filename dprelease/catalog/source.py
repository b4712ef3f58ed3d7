"""Where the rows of a confidential table are: in files, which a metastore may name, or in a database."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from dprelease.canonical import GrownValue, one_of
from dprelease.catalog.dialect import STATISTICAL, Dialect
from dprelease.catalog.urls import Scheme

__all__ = [
    "DATABASE_SCHEMES",
    "EXPORT",
    "SOURCE_FORMATS",
    "STORES",
    "AnySource",
    "DatabaseSource",
    "DeltaSource",
    "MetastoreSource",
    "Source",
    "store_meant",
    "store_problem",
]

SOURCE_FORMATS = {name: f".{name}" for name in ("csv", "csv.gz", "csv.zst", "parquet", *STATISTICAL, "xlsx")}
"""What files may be, and their ending; an engine says which formats it reads (``Engine.formats``)."""
STORES = {
    "s3": "s3://BUCKET/FOLDER/*.parquet",
    "gs": "gs://BUCKET/FOLDER/*.parquet",
    "abfss": "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER/*.parquet",
}
"""The object stores that files may be in, and how an address in each is written."""
_CLOUDS = r"core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)"
_ADDRESS = re.compile(
    rf"(?:(?:s3|gs)://[A-Za-z0-9._-]+|abfss://[a-z0-9-]+@[a-z0-9]+\.(?:dfs|blob)\.{_CLOUDS})/[^/].*", re.DOTALL
)
_MEANT = {
    **dict.fromkeys(("s3a", "s3n"), "s3"),
    "gcs": "gs",
    **dict.fromkeys(("abfs", "az", "azure", "adl", "wasb", "wasbs"), "abfss"),
}
"""What else addresses of these stores begin with, in other programs."""


def store_meant(scheme: str) -> str:
    """What addresses of a store begin with here, which begin otherwise in other programs.

    >>> store_meant("s3a"), store_meant("hdfs")
    ('s3', 'hdfs')
    """
    return _MEANT.get(scheme.lower(), scheme.lower())


def store_problem(address: str) -> tuple[str, str] | None:
    """What is wrong with the address of an object store, and what to write; it quotes nothing of it.

    >>> store_problem("s3://office/people/*.csv") is None, store_problem("s3://KEY:SECRET@office/people.csv")[0]
    (True, 'holds a name or a password before an @')
    """
    scheme, _, rest = address.partition("://")
    hint = f"write an address such as {', '.join(STORES.values())}"
    if scheme not in STORES:
        meant = store_meant(scheme)
        hint = f"write {STORES[meant]}" if meant in STORES else hint
        return "begins with what is no object store that can be read", hint
    named = rest.partition("/")[0].rpartition("@")[0]
    if named and (scheme != "abfss" or ":" in named or "@" in named):
        never = "take it out, and out of every file that it stands in: credentials come from the environment alone"
        return "holds a name or a password before an @", never
    return None if _ADDRESS.fullmatch(address) else ("is no whole address of an object store", hint)


DATABASE_SCHEMES = {
    "postgresql": Scheme(("postgresql://", "postgres://"), "postgresql://db.example.org/office", str),
    "sqlite": Scheme(("sqlite:///",), "sqlite:///data/office.db"),
    "duckdb": Scheme(("duckdb:///",), "duckdb:///data/office.duckdb"),
    "mysql": Scheme(("mysql://", "mariadb://"), "mysql://db.example.org/office", str),
    "sqlserver": Scheme(("sqlserver://", "mssql://"), "sqlserver://db.example.org/office", str),
}
"""The kinds of databases, and how the place of one is written; each has a reader (``engines.databases``)."""

EXPORT = (
    "rows are read from PostgreSQL, MySQL, SQLite and DuckDB; of others export them to a Parquet or CSV file in "
    "one read-only transaction, and write `file: ...`"
)


class Source(GrownValue):
    """Files, as written (``${env:NAME}`` stays unresolved, so that no secret enters a plan).

    Attributes:
        file: A path or a pattern.
        format: A name of ``SOURCE_FORMATS``.
        null_values: Texts that mean null, as the file writes them.
        dialect: How a CSV writes its rows; of a statistical file the encoding of its texts.
    """

    LATER: ClassVar[tuple[str, ...]] = ("dialect",)
    file: str
    format: Annotated[str, one_of(lambda: SOURCE_FORMATS)]
    null_values: tuple[str, ...] = ("",)
    dialect: Dialect = Dialect()

    @property
    def file_format(self) -> str:
        """How its files are written: a name of ``SOURCE_FORMATS``."""
        return self.format

    @property
    def has_log(self) -> bool:
        """Whether a log says which files there are, and which columns: an older file of these may lack one."""
        return False

    @property
    def has_lines(self) -> bool:
        """Whether its files are CSVs, compressed or not."""
        return self.format.startswith("csv")

    @property
    def notation(self) -> Dialect | None:
        """How values are written as text; None: as plain ones."""
        return self.dialect if self.dialect.has_notation else None

    @property
    def place(self) -> str:
        """Where it is, as it was written."""
        return self.file

    def without_place(self) -> Self:
        """The same, wherever it is: two of these are equal where rows mean the same."""
        return self.model_copy(update={"file": ""})


class DeltaSource(Source):
    """One version of a Delta table, which is a snapshot: Parquet files that its log names.

    Attributes:
        file: Its folder, or its address in an object store.
        version: The number of the version.
    """

    format: Literal["delta"] = "delta"
    version: int = Field(ge=0)

    @property
    def has_log(self) -> bool:
        """Its own one."""
        return True

    @property
    def file_format(self) -> str:
        """How its files are written."""
        return "parquet"

    def without_place(self) -> Self:
        """The same, wherever it is and of whatever version."""
        return self.model_copy(update={"file": "", "version": 0})


class MetastoreSource(Source):
    """A table of the metastore of a Spark session, which says in which folder its Parquet files are.

    A plan has its name. The folder is asked for when the rows are read, and stands in no record of a release.

    Attributes:
        file: Its name there, ``database.table``.
        version: The number of a version of a Delta table; None: it is no Delta table.
    """

    format: Literal["metastore"] = "metastore"
    version: int | None = Field(None, ge=0)

    @property
    def has_log(self) -> bool:
        """Whether it is a Delta table, as its version says."""
        return self.version is not None

    @property
    def file_format(self) -> str:
        """How its files are written."""
        return "parquet"

    def without_place(self) -> Self:
        """The same, wherever it is and of whatever version."""
        return self.model_copy(update={"file": "", "version": None})


class DatabaseSource(GrownValue):
    """A table, a view or a fixed query of a database, as written (``${env:NAME}`` stays unresolved).

    Attributes:
        database: The URL of the database.
        table: The name of a table or view there; None: the rows are those of a query.
        in_schema: The schema that it is in; None: the usual one of its kind of database.
        view: Whether it is a view, whose author promises that the rows of one unit depend on that unit alone.
        query: The file of a query; None: the rows are those of a table.
        query_sha256: The content of that file, which the owner of the data has approved; None where there is none.
        null_values: Texts that mean null, beside the nulls of the database.
    """

    format: Literal["database"] = "database"
    database: str
    table: str | None = None
    in_schema: str | None = None
    view: bool = False
    query: str | None = None
    query_sha256: str | None = None
    null_values: tuple[str, ...] = ("",)

    @property
    def has_lines(self) -> bool:
        """Whether its rows are lines of a text."""
        return False

    @property
    def notation(self) -> None:
        """A database has typed values, and texts are plain ones."""
        return

    @property
    def place(self) -> str:
        """Where it is, as it was written."""
        within = self.query or ".".join(filter(None, (self.in_schema, self.table)))
        return f"{self.database}, {within}"

    def without_place(self) -> Self:
        """The same, wherever it is: two of these are equal where rows mean the same."""
        return self.model_copy(update={"database": "", "table": None, "in_schema": None, "view": False, "query": None})


AnySource = Source | DeltaSource | MetastoreSource | DatabaseSource
