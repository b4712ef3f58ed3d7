"""What a file of SPSS, Stata or SAS stores, under every declared type, is what the reference reads: a value at a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from dprelease.catalog.table import Column, ColumnType, Source, Table
from dprelease.engines.files.formats import FILE_FORMATS
from dprelease.engines.files.rows import typed
from tests import warm_parser as parsers
from tests.conformance.people import integers
from tests.conformance.reference_values import id_of, text_of, value_of, within
from tests.conformance.test_engines import ODD
from tests.statistical_files import KINDS, write_statistical

warm_parser = parsers.warm_parser
pytestmark = pytest.mark.usefixtures("warm_parser")

TYPES: tuple[ColumnType, ...] = get_args(ColumnType)
WHOLE = [0.0, 1.0, 2.0, -7.0, 15400.0, 20240229.0, 2.0**53, -(2.0**53), 2.0**62, 2.0**63, -(2.0**63), 2.0**70]
BROKEN = [0.5, 2.5, -2.5, 0.25, 1.005, 0.1, 1e22, 123456.789, 1e-7, 2.0**-20]
WIDE = [-0.0, 5e-324, 1e-300, 1e300, -1.7e307]
DAYS = [dt.date(2024, 2, 29), dt.date(1582, 10, 15), dt.date(1959, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]
MOMENTS = [
    dt.datetime(2024, 2, 29, 10, 0, 0, 500_000), dt.datetime(1960, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59),
    dt.datetime(2024, 3, 31, 2, 30, 0, 123_000), dt.datetime(1600, 2, 29, 0, 0, 1), dt.datetime(2099, 12, 31, 23, 59, 59, 999_000),
]  # fmt: skip


def stored(kind: str, path: Path, columns: Mapping[str, Sequence[Any]], **more: Any) -> dict[str, Any]:
    """Columns written and read again: Arrow arrays, as an engine gets them."""
    write_statistical(path, columns, **more)
    return read(kind, path)


def read(kind: str, path: Path, **of_source: Any) -> dict[str, Any]:
    table = Table(name="t", account="a", source=Source(file=path.name, format=kind, **of_source), columns=())
    form = FILE_FORMATS[kind]
    names = form.names(table.files, path)
    assert names is not None, form.advice(table.files, path, ())
    blocks = list(form.blocks(table, path, names, names, ()))
    return {name: pa.concat_arrays([block[at] for block in blocks]) for at, name in enumerate(names)}


def texts(kind: str) -> list[str]:
    """Texts that a file of a kind can hold: none ends in blanks but in Stata's, no zero byte, no more than its places."""
    most = 200 if kind in ("por", "xpt", "sas7bdat") else 2045
    found = [text.replace("\x00", "")[:most] for text in ODD]
    found = found if kind == "dta" else [text.rstrip(" ") for text in found]
    return (
        [text.encode("ascii", "replace").decode() for text in found if text.isprintable()] if kind == "por" else found
    )


def numbers(kind: str) -> list[float]:
    return [*WHOLE, *BROKEN, *(WIDE if kind in ("sav", "zsav", "dta", "sas7bdat") else [])]


def assert_read(array: Any, values: Sequence[Any], nulls: tuple[str, ...]) -> None:
    """Under every declared type, with and without a range, and as an id."""
    for kind in TYPES:
        limited = {"range": integers(-5, 100)} if kind in ("integer", "decimal") else {}
        for more in ({}, limited, {**limited, "outside": "null"}):
            column = Column(name="c", type=kind, **more)
            expected = [within(column, value_of(column, text_of(value, column), nulls)) for value in values]
            assert typed(column, array, nulls).to_pylist() == expected, (kind, more)
        column = Column(name="c", type=kind)
        as_id = id_of if kind == "text" else text_of
        ids = [value_of(column, as_id(value, column), nulls) for value in values]
        assert typed(column, array, nulls, unit=True).to_pylist() == ids, kind


@pytest.mark.parametrize("nulls", [(), ("", "N", "7", "-7", "2024-02-29")])
@pytest.mark.parametrize("kind", KINDS)
def test_every_stored_and_declared_pair(kind: str, nulls: tuple[str, ...], tmp_path: Path) -> None:
    written: dict[str, list[Any]] = {
        "TEXTS": texts(kind), "NUMBERS": numbers(kind), "DAYS": list(DAYS), "MOMENTS": list(MOMENTS),
        "TRUTH": [True, False], "NONE": [],
    }  # fmt: skip
    longest = max(map(len, written.values()))
    missing = {name: "" if name == "TEXTS" else None for name in written}
    rows = {name: values + [missing[name]] * (longest + 1 - len(values)) for name, values in written.items()}
    found = stored(kind, tmp_path / f"t.{kind}", rows)
    for name, values in rows.items():
        known = [float(value) if isinstance(value, bool) else value for value in values]
        assert_read(found[name], known, nulls)


def test_every_width_of_number_in_stata(tmp_path: Path) -> None:
    """Written by pandas: bytes, integers, longs, floats, doubles, and a long text; the largest stand for missing."""
    frame = pd.DataFrame(
        {
            "tiny": np.array([-127, 0, 100], np.int8), "small": np.array([-32767, 1, 32740], np.int16),
            "whole": np.array([-(2**31) + 1, 7, 2**31 - 28], np.int32), "single": np.array([0.5, 0.1, 1e30], np.float32),
            "real": [2.5, -0.0, 1e300], "words": ["a" * 3000, "b ", ""],
        }
    )  # fmt: skip
    path = tmp_path / "t.dta"
    frame.to_stata(path, write_index=False, version=118, convert_strl=["words"])
    found = read("dta", path)
    for name in frame:
        assert_read(found[str(name)], [value.item() if hasattr(value, "item") else value for value in frame[name]], ())


@pytest.mark.parametrize("kind", ["dta", "sas7bdat", "sav"])
def test_what_is_declared_missing_is_null(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{kind}"
    if kind == "sav":
        frame = pd.DataFrame({"n": [1.0, 98, 99, -5, None, 2], "t": ["a", "NA", "NA ", "naa", "", "b"]})
        pyreadstat.write_sav(frame, path, missing_ranges={"n": [99, {"lo": -9, "hi": -1}], "t": ["NA"]})
        found = read(kind, path)
        assert found["n"].to_pylist() == [1.0, 98.0, None, None, None, 2.0]
        assert found["t"].to_pylist() == [b"a", None, None, b"naa", b"", b"b"]
        return
    if kind == "dta":
        pyreadstat.write_dta(pd.DataFrame({"n": [1.0, "a", None, "z"]}), path, missing_user_values={"n": ["a", "z"]})
    else:
        write_statistical(path, {"n": [1.0, None, None, None]})
    assert read(kind, path)["n"].to_pylist() == [1.0, None, None, None]


@pytest.mark.parametrize("kind", ["sav", "dta"])
def test_codes_are_read_and_not_labels(kind: str, tmp_path: Path) -> None:
    labels = {"sex": {1.0: "man", 2.0: "woman"}}
    found = stored(kind, tmp_path / f"t.{kind}", {"sex": [1, 2, 3]}, variable_value_labels=labels)
    assert found["sex"].to_pylist() == [1.0, 2.0, 3.0]
    assert typed(Column(name="sex", type="text"), found["sex"]).to_pylist() == ["1", "2", "3"]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_come_in_the_order_in_which_they_are_asked_for(kind: str, tmp_path: Path) -> None:
    """Some of them, and those with few different values as dictionaries or not: the same values."""
    path, table = tmp_path / f"t.{kind}", Table(name="t", account="a", source=Source(file="t", format=kind), columns=())
    columns: dict[str, list[Any]] = {
        "A": ["x", "y", "x"],
        "B": [1, 2, None],
        "C": [DAYS[0], None, DAYS[3]],
        "D": ["1", "", "3"],
    }
    write_statistical(path, columns)
    form, names = FILE_FORMATS[kind], list(columns)
    for wanted, few in ((["C", "A"], []), (["B", "C", "D"], ["B", "D"]), (names[::-1], names[::-1])):
        (block,) = form.blocks(table, path, names, wanted, few)
        assert [pa.types.is_dictionary(array.type) for array in block] == [name in few for name in wanted]
        found = [
            [value.decode() if isinstance(value, bytes) else value for value in array.to_pylist()] for array in block
        ]
        assert found == [columns[name] for name in wanted]
