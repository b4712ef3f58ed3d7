"""Files of SPSS, Stata and SAS for tests: written from plain rows, and read by other code than the project's.

``pyreadstat`` writes all but ``.sas7bdat``; for that its own C library is asked, whose functions its writer module has.
What pandas reads itself (Stata and SAS) is read by pandas, the rest by ``pyreadstat`` with its own dates.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyreadstat
from pyreadstat import _readstat_writer

KINDS = ("sav", "zsav", "por", "dta", "xpt", "sas7bdat")
_TEXT, _DOUBLE = 0, 5  # readstat_type_e of its readstat.h
_EPOCH = dt.datetime(1960, 1, 1)


def write_statistical(path: Path, columns: Mapping[str, Sequence[Any]], **more: Any) -> None:
    """Columns of texts, numbers, truth values, days and moments, None where a value is missing.

    Args:
        path: Its ending is the format.
        columns: By name.
        more: Further arguments of ``pyreadstat``'s function.
    """
    kind = path.suffix[1:]
    plain = {name: [_plain(value) for value in values] for name, values in columns.items()}
    if kind == "sas7bdat":
        _write_sas7bdat(path, plain)
        return
    frame = pd.DataFrame({name: pd.Series(values, dtype=_dtype(values)) for name, values in plain.items()})
    if kind in ("sav", "zsav"):
        pyreadstat.write_sav(frame, path, **{"compress": kind == "zsav", **more})
    elif kind == "xpt":
        pyreadstat.write_xport(frame, path, **{"file_format_version": 5, **more})
    else:
        {"por": pyreadstat.write_por, "dta": pyreadstat.write_dta}[kind](frame, path, **more)


def packed_as(data: bytes, kind: str) -> bytes:
    """The bytes of a CSV as a file of its format has them."""
    if kind == "csv.gz":
        return gzip.compress(data)
    return bytes(pa.Codec("zstd").compress(data, asbytes=True)) if kind == "csv.zst" else data


def unpacked(data: bytes, kind: str) -> bytes:
    """The bytes of the CSV in a file."""
    if kind == "csv.gz":
        return gzip.decompress(data)
    return bytes(pa.input_stream(pa.BufferReader(data), compression="zstd").read()) if kind == "csv.zst" else data


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, bool | int) else value


def _dtype(values: Sequence[Any]) -> str:
    known = [value for value in values if value is not None]
    return "float64" if all(isinstance(value, float) for value in known) else "object"


def _write_sas7bdat(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    library = ctypes.CDLL(_readstat_writer.__file__)
    write = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    for name in ("readstat_writer_init", "readstat_add_variable"):
        getattr(library, name).restype = ctypes.c_void_p
    with path.open("wb") as file:
        sink = write(lambda data, length, _: file.write(ctypes.string_at(data, length)))
        writer = ctypes.c_void_p(library.readstat_writer_init())
        library.readstat_set_data_writer(writer, sink)
        variables = []
        for name, values in columns.items():
            known = [value for value in values if value is not None]
            text = bool(known) and all(isinstance(value, str | bytes) for value in known)
            width = max((len(_encoded(value)) for value in known), default=1) if text else 8
            variable = ctypes.c_void_p(
                library.readstat_add_variable(
                    writer, name.encode(), _TEXT if text else _DOUBLE, ctypes.c_size_t(max(width, 1))
                )
            )
            if known and isinstance(known[0], dt.date):
                shape = b"DATETIME" if isinstance(known[0], dt.datetime) else b"DATE"
                library.readstat_variable_set_format(variable, shape)
            variables.append((variable, text, values))
        rows = len(next(iter(columns.values()), ()))
        _done(library.readstat_begin_writing_sas7bdat(writer, None, ctypes.c_long(rows)))
        for at in range(rows):
            _done(library.readstat_begin_row(writer))
            for variable, text, values in variables:
                value = values[at]
                if value is None:
                    _done(library.readstat_insert_missing_value(writer, variable))
                elif text:
                    _done(library.readstat_insert_string_value(writer, variable, _encoded(value)))
                else:
                    _done(library.readstat_insert_double_value(writer, variable, ctypes.c_double(_sas_number(value))))
            _done(library.readstat_end_row(writer))
        _done(library.readstat_end_writing(writer))
        library.readstat_writer_free(writer)


def _encoded(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _sas_number(value: Any) -> float:
    if isinstance(value, dt.datetime):
        return (value - _EPOCH).total_seconds()
    return float((value - _EPOCH.date()).days) if isinstance(value, dt.date) else value


def _done(code: int) -> None:
    assert code == 0, code


def read_statistical(path: Path) -> Iterator[dict[str, Any]]:
    """Rows as plain values: texts without the blanks that fill their place, doubles, days, moments, None."""
    kind, shapes = path.suffix[1:], _shapes(path)
    if kind == "dta":
        frame = pd.read_stata(path, convert_categoricals=False)
    elif kind in ("xpt", "sas7bdat"):
        frame = pd.read_sas(path, format="xport" if kind == "xpt" else "sas7bdat", encoding=None)
    else:
        frame = (pyreadstat.read_por if kind == "por" else pyreadstat.read_sav)(path)[0]
    for row in frame.to_dict("records"):
        read = {str(name): _read(value, kind, shapes[str(name)]) for name, value in row.items()}
        if kind != "xpt" or any(value != b"" for value in read.values()):  # blanks alone are no row (decision 71)
            yield read


def _shapes(path: Path) -> dict[str, str]:
    read = {"dta": pyreadstat.read_dta, "xpt": pyreadstat.read_xport, "sas7bdat": pyreadstat.read_sas7bdat}
    of_spss = pyreadstat.read_por if path.suffix == ".por" else pyreadstat.read_sav
    found = read.get(path.suffix[1:], of_spss)(path, metadataonly=True)[1]
    return {name: shape or "" for name, shape in found.original_variable_types.items()}


def _read(value: Any, kind: str, shape: str) -> Any:
    if pd.isna(value):
        return None
    if isinstance(value, bytes):
        return value.rstrip(b" ")
    if isinstance(value, float) and kind == "xpt":
        value = 0.0 if abs(value) < 1e-70 else value  # pandas adds the least number of IBM's to zero
        if shape.startswith("DATE"):
            return _EPOCH + dt.timedelta(seconds=value) if "TIME" in shape else (_EPOCH + dt.timedelta(value)).date()
    if isinstance(value, dt.datetime):
        value = value.to_pydatetime() if isinstance(value, pd.Timestamp) else value
        return value.date() if shape.startswith(("DATE9", "%td")) or shape in ("DATE", "DATE11") else value
    return value
