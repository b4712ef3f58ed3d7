"""What a task of Spark reads is the very file that the driver saw, before its first row and after its last one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprelease.catalog.table import Column, Source, Table
from dprelease.engines.files.places.found import data_files
from dprelease.engines.spark.splits import splits_of, stored_rows
from dprelease.errors import EngineError

TABLE = Table(
    name="people",
    account="people",
    source=Source(file="people.csv", format="csv"),
    columns=(Column(name="n", type="text"),),
)


@pytest.mark.parametrize("early", [True, False])
def test_a_file_that_is_written_to_while_a_task_reads_it_is_refused(tmp_path: Path, early: bool) -> None:
    """A task that is done again would read other rows: two data sets in one answer."""
    file = tmp_path / "people.csv"
    file.write_text("n\n1\n2\n", encoding="utf-8")
    (split,) = splits_of(TABLE, 0, data_files(TABLE, tmp_path, {}), 1)
    assert len(list(stored_rows(split, TABLE, TABLE.columns))) == 1
    rows = stored_rows(split, TABLE, TABLE.columns)
    if not early:
        next(rows)
    file.write_text("n\n1\n2\n3\n", encoding="utf-8")
    with pytest.raises(EngineError, match="were written to while they were read") as refused:
        list(rows)
    assert refused.value.code == "DPR-E105"
