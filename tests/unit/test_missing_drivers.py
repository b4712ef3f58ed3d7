"""What is said where the package that speaks with a database server is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dprelease.catalog.table import Column, DatabaseSource, Table
from dprelease.engines.databases.reader import DatabaseReader
from dprelease.errors import MissingExtra


@pytest.mark.parametrize(
    ("driver", "module", "url", "code", "extra"),
    [
        ("psycopg", "postgres", "postgresql://reader@127.0.0.1/office", "DPR-X111", "dprelease[postgres]"),
        (
            "adbc_driver_postgresql",
            "postgres",
            "postgresql://reader@127.0.0.1/office",
            "DPR-X111",
            "dprelease[postgres]",
        ),
        ("pymysql", "mysql", "mysql://reader@127.0.0.1/office", "DPR-X112", "dprelease[mysql]"),
        ("pytds", "sqlserver", "sqlserver://reader@127.0.0.1/office", "DPR-X113", "dprelease[sqlserver]"),
    ],
)
def test_a_missing_driver_is_told_with_what_installs_it(
    driver: str, module: str, url: str, code: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The modules of a server are imported anew, as in a process that never had its driver."""
    for name in (module, f"{module}_session", f"{module}_types"):
        monkeypatch.delitem(sys.modules, f"dprelease.engines.databases.{name}", raising=False)
    monkeypatch.setitem(sys.modules, driver, None)
    source = DatabaseSource(database=url, table="people", null_values=())
    table = Table(name="people", account="a", source=source, columns=(Column(name="x", type="text"),))
    with pytest.raises(MissingExtra) as caught:
        DatabaseReader(tmp_path, {"DPRELEASE_TRIED_DATABASES": module}).present(table)
    assert (caught.value.code, caught.value.exit_code) == (code, 9)
    assert extra in caught.value.hint
