"""Edge values of every stored type of PostgreSQL, with what each of them is: a text, a number, a day, a moment or none."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

__all__ = ["EDGES"]

_LIMIT = 2**1024 - 2**970  # from here on the nearest double is none


def _numerics() -> dict[str, Any]:
    whole = [0, 1, -1, 100, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30, _LIMIT - 1, _LIMIT]
    numbers = [Decimal(each) for each in whole]
    numbers += [Decimal(each) for each in ("0.1", "1.50", "-0.00", "2.5", "-2.5", "15400.0", "0.49999999999999994")]
    numbers += [
        Decimal("1e-400"),
        Decimal("1e400"),
        Decimal("-1e400"),
        Decimal("5e-324"),
        Decimal("2.4703282292062328e-324"),
    ]
    numbers += [
        Decimal("2.4703282292062327e-324"),
        Decimal("1e-16000"),
        Decimal("9" * 400),
        Decimal("1e-5"),
        Decimal("1e5"),
    ]
    return {**{format(each, "f"): each for each in numbers}, "NaN": None, "Infinity": None, "-Infinity": None}


def _doubles() -> dict[str, Any]:
    numbers = [
        0.0,
        -0.0,
        1.0,
        2.5,
        -2.5,
        0.1,
        5e-324,
        -5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        2.0**63,
    ]
    numbers += [-(2.0**63), 9223372036854774784.0, 1e15, 1e16, 1e22, 2e23, 12.0, 1e-7, 123456789.123, -1e300, 15400.0]
    return {**{repr(each): each for each in numbers}, "NaN": None, "Infinity": None, "-Infinity": None}


_TEXTS = (
    *("", " ", "a", "A", "ä", "a\u0308", "b ", " b", 'say "hi"', "back\\slash\\134", "two\nlines", "tab\there", "\r"),
    *("7", "-7", " 7 ", "7.0", "1e3", "0x1F", "1_000", "1,5", "٣", "NaN", "inf", "-inf", "Infinity", "9" * 400),
    *("9223372036854775807", "9223372036854775808", "1e400", "1e-400", "-0", "true", "T", "FALSE", "f", "yes", "null"),
    *(
        "2024-02-29",
        "2023-02-29",
        "0000-01-01",
        "29.02.2024",
        "2024-02-29T10:00:00",
        "2024-02-29 10:00+02:00",
        "infinity",
    ),
    *("\U0001f600", "\ufdd0", "'; drop table edges; --", "%s %% {}", "x" * 100_000),
)

_UNTIL = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)
_MOMENTS: dict[str, Any] = {
    "2024-02-29 10:00:00": dt.datetime(2024, 2, 29, 10),
    "2024-02-29 10:00:00.5": dt.datetime(2024, 2, 29, 10, 0, 0, 500_000),
    "2024-03-31 02:30:00.000001": dt.datetime(2024, 3, 31, 2, 30, 0, 1),
    "1969-12-31 23:59:59.999999": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "0001-01-01 00:00:00": dt.datetime(1, 1, 1),
    "9999-12-31 23:59:59.999999": _UNTIL,
    "10000-01-01 00:00:00": None,
    "294276-12-31 23:59:59": None,
    "0044-03-15 00:00:00 BC": None,
    "4713-01-01 00:00:00 BC": None,
    "infinity": None,
    "-infinity": None,
}
_DAYS: dict[str, Any] = {
    "2024-02-29": dt.date(2024, 2, 29),
    "0001-01-01": dt.date(1, 1, 1),
    "9999-12-31": dt.date(9999, 12, 31),
    "1582-10-10": dt.date(1582, 10, 10),
    "10000-01-01": None,
    "5874897-12-31": None,
    "0001-12-31 BC": None,
    "4713-01-01 BC": None,
    "infinity": None,
    "-infinity": None,
}
_PADDED = {"": "", "a": "a", "a  ": "a", " a": " a", "7 ": "7", "abcdef": "abcdef", "\n": "\n"}
_ID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"

EDGES: Mapping[str, Mapping[str, Any]] = {
    "int2": {"-32768": -32768, "32767": 32767, "0": 0},
    "int4": {"-2147483648": -(2**31), "2147483647": 2**31 - 1, "1": 1},
    "int8": {"-9223372036854775808": -(2**63), "9223372036854775807": 2**63 - 1, "7": 7},
    "numeric": _numerics(),
    "numeric(12,4)": {"1.5": Decimal("1.5"), "12345678.0001": Decimal("12345678.0001"), "2.0000": Decimal(2)},
    "float8": _doubles(),
    "float4": {"0.1": 0.10000000149011612, "1e38": 9.999999680285692e37, "NaN": None, "-0": -0.0, "16777217": 16777216.0},
    "bool": {"true": True, "false": False},
    "text": {each: each for each in _TEXTS},
    "varchar(10)": {"a ": "a ", "1e3": "1e3", "t": "t"},
    'text COLLATE "blind"': {"a": "a", "A": "A", "ä": "ä", "a\u0308": "a\u0308"},
    "char(6)": _PADDED,
    "date": _DAYS,
    "timestamp": _MOMENTS,
    "timestamptz": {f"{text.removesuffix(' BC')}+00{' BC' * text.endswith(' BC')}" if "inf" not in text else text: each for text, each in _MOMENTS.items()},
    "uuid": {_ID: _ID},
    "json": {'{"b":1, "a" : 2}': '{"b":1, "a" : 2}'},
    "jsonb": {'{"b":1, "a" : 2}': '{"a": 2, "b": 1}', "7": "7"},
    "mood": {"sad": "sad", "7": "7"},
    "amount": {"1.50": Decimal("1.5"), "7": Decimal(7)},
}  # fmt: skip
assert math.isfinite(float(_LIMIT - 1))
