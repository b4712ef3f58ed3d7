"""Stored numbers to days and moments, by the format that a file shows them in, from the epoch of its program.

Each is a function of the number alone. SPSS counts seconds from 1582-10-14, SAS days or seconds from 1960-01-01, Stata
days or milliseconds from there. A number that no day or moment has room for is null, and so is what is not finite.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any, Literal

import numpy as np
import pyarrow as pa

__all__ = ["Shown", "as_moments", "shown_as"]

Shown = Literal["day", "moment", "moment with leap seconds"]

_SPSS_DAYS = ("DATE", "ADATE", "EDATE", "JDATE", "SDATE", "QYR", "MOYR", "WKYR")
_SPSS_MOMENTS = ("DATETIME", "YMDHMS")
_MARKS = ("", "B", "C", "D", "N", "P", "S")
_SAS_DAYS = {
    *("DATE", "DAY", "DOWNAME", "JULDAY", "JULIAN", "MINGUO", "MONNAME", "MONTH", "MONYY", "NENGO", "QTR", "QTRR"),
    *("WEEKDATE", "WEEKDATX", "WEEKDAY", "WEEKV", "WORDDATE", "WORDDATX", "YEAR", "YYMON"),
    *("B8601DA", "E8601DA", "IS8601DA"),
    *(f"{order}{mark}" for order in ("DDMMYY", "MMDDYY", "YYMMDD") for mark in _MARKS),
    *(f"{order}{mark}" for order in ("MMYY", "YYMM", "YYQ", "YYQR") for mark in ("", "C", "D", "N", "P", "S")),
}
_SAS_MOMENTS = {
    *("DATETIME", "DATEAMPM", "MDYAMPM", "DTDATE", "DTMONYY", "DTWKDATX", "DTYEAR", "DTYYQC"),
    *(f"{standard}8601{part}" for standard in ("B", "E") for part in ("DN", "DT", "DX", "DZ", "LX")),
    *("IS8601DN", "IS8601DT", "IS8601DZ"),
}
_STATA = re.compile(r"%-?(t?d|t[cC])")
_DAY = 86400
_EPOCH = {"sav": (date(1582, 10, 14) - date(1970, 1, 1)).days, "dta": (date(1960, 1, 1) - date(1970, 1, 1)).days}
_LATEST = 4e11  # seconds from any of the epochs; the year 9999 is before that
# Days with a leap second at their end, until 2024 (IERS Bulletin C); Stata's %tC counts them, its %tc does not.
_JUNE = (1972, 1981, 1982, 1983, 1985, 1992, 1993, 1994, 1997, 2012, 2015)
_DECEMBER = (*range(1972, 1980), 1987, 1989, 1990, 1995, 1998, 2005, 2008, 2016)
_LEAPS = sorted([date(year, 7, 1) for year in _JUNE] + [date(year + 1, 1, 1) for year in _DECEMBER])
_AFTER = np.array([(day - date(1960, 1, 1)).days * _DAY + at for at, day in enumerate(_LEAPS, start=1)], np.float64)


def shown_as(kind: str, shape: str) -> Shown | None:
    """What the numbers of a column are, by how the file shows them; None: plain numbers, as a duration is in seconds.

    >>> shown_as("sav", "DATETIME20"), shown_as("xpt", "YYMMDD10."), shown_as("dta", "%tc"), shown_as("sav", "TIME8")
    ('moment', 'day', 'moment', None)
    """
    if kind == "dta":
        match = _STATA.match(shape)
        return None if match is None else _STATA_KINDS.get(match[1], "day")
    name = re.sub(r"(?<=[A-Z])\d*(\.\d*)?$", "", shape.upper())
    if kind in ("xpt", "sas7bdat"):
        return "day" if name in _SAS_DAYS else "moment" if name in _SAS_MOMENTS else None
    return "day" if name in _SPSS_DAYS else "moment" if name in _SPSS_MOMENTS else None


_STATA_KINDS: dict[str, Shown] = {"tc": "moment", "tC": "moment with leap seconds"}


def as_moments(kind: str, shown: Shown, stored: Any) -> Any:
    """An Arrow array of numbers as one of days, or of moments.

    Moments are read to the millisecond: of those that SPSS stores the next double is two microseconds away, and what
    programs compute is off by as much.

    >>> as_moments("sav", "day", pa.array([13928544000.0, None, 1e300])).to_pylist()
    [datetime.date(2024, 2, 29), None, None]
    >>> as_moments("dta", "moment", pa.array([500])).to_pylist()
    [datetime.datetime(1960, 1, 1, 0, 0, 0, 500000)]
    """
    if pa.types.is_dictionary(stored.type):
        words = as_moments(kind, shown, stored.dictionary)
        return pa.DictionaryArray.from_arrays(stored.indices, words)
    numbers = stored.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    spss, stata = kind in ("sav", "zsav", "por"), kind == "dta"
    epoch = _EPOCH["sav" if spss else "dta"]
    in_days = shown == "day" and not spss
    per_second = 1 / _DAY if in_days else 1000.0 if stata else 1.0
    with np.errstate(invalid="ignore"):
        real = np.abs(numbers) < _LATEST * per_second
    numbers = np.where(real, numbers, 0.0)
    if shown == "day":
        days = np.floor(numbers if in_days else numbers / _DAY).astype(np.int64) + epoch
        return pa.array(days.astype(np.int32), pa.int32(), mask=~real).cast(pa.date32())
    if shown == "moment with leap seconds":
        numbers = numbers - 1000.0 * np.searchsorted(_AFTER, numbers / 1000.0, side="right")
    ticks = np.rint(numbers if stata else numbers * 1000).astype(np.int64) + epoch * _DAY * 1000
    return pa.array(ticks, pa.int64(), mask=~real).cast(pa.timestamp("ms"))
