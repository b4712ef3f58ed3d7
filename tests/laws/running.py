"""Whole examples at random: a valid spec that uses every form, its public files, and small dirty tables to run it on.

Everything that an engine or a publisher could trip over is in them on purpose: column names that are words of SQL or
names that an engine uses itself, keys that need quoting, keys of every type, values that mean nothing.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tests.laws.running_queries import derived_sql, query_of

__all__ = ["Example", "example", "write"]

Rows = dict[str, list[str | None]]

REFERENCES: dict[str, tuple[dict[str, str], bytes]] = {
    "pages": (
        {"page": "integer", "topic": "text", "paid_for": "boolean"},
        b"page,topic,paid_for\n1,news,true\n2,sport,false\n3,news,false\n4,\"a, \"\"b\"\"\",true\n5,,true\n",
    ),
    "topics": ({"topic": "text", "weight": "integer", "since": "date"}, b"since,topic,weight\n2024-02-29,news,-3\n2020-01-01,sport,7\n"),
    "plans": ({"plan": "text", "price": "integer"}, b"plan,price\nfree,0\npaid,9\n"),
}  # fmt: skip
# Words of SQL, names that the engine gives to columns of its own, and names that differ by capitals alone.
_ODD = (
    *("select", "Order", "group", "FROM", "where", "date_", "TRUE_", "Null1", "end", "case", "as", "table", "user"),
    *("unit", "alone", "cell", "held", "whole", "nth", "place", "key", "value", "count", "index", "nan", "rowid"),
    *("c0", "C0", "k0", "d0", "q0", "s0", "r0", "m0_of", "t1", "x", "X", "_", "__", "A1", "number", "out", "name"),
)
_MEANING: dict[str, Callable[[random.Random], str]] = {
    "country": lambda draw: draw.choice(["DE", "FR", "O'X \"q\", z", "=1+1", "de", " DE", "US", "Ünï", "\u202e"]),
    "page": lambda draw: draw.choice(["1", "2", "3", "4", "5", "6", "01", "2.0", "7e0", "x", "99999999999999999999"]),
    "day": lambda draw: draw.choice(["2024-02-28", "2024-02-29", "2024-03-01", "2024-02-30", "1/2/24", " 2024-02-29"]),
    "flag": lambda draw: draw.choice(["true", "FALSE", "t", "0", "1", "yes", "2"]),
    "term": lambda draw: draw.choice([*"abcdefg", "A", "a b", "é", "e\u0301", "'", '"', ",", "NULL", "9" * 30, "\U0001f600"]),
    "code": lambda draw: draw.choice(["1", "2", "-3", "4", "9223372036854775807", "-9223372036854775808", "1e18", "x"]),
    "seen": lambda draw: draw.choice(["2024-03-01T10:00:00", "2024-02-29 23:59:59Z", "2023-01-01", "soon", "2024-02-30T00:00"]),
    "seconds": lambda draw: draw.choice([str(draw.randint(-5, 4000)), "0", "3600", "1e9", "-1e400", "nan", "12.5", ""]),
    "spent": lambda draw: draw.choice([f"{draw.uniform(-60, 550):.2f}", "-0.0", "inf", "NaN", "1e-320", "0.25", "1,5"]),
    "tenure": lambda draw: draw.choice([str(draw.randint(-1, 60)), "x", "1e3"]),
    "plan": lambda draw: draw.choice(["free", "paid", "Paid", "other"]),
}  # fmt: skip


@dataclass(frozen=True)
class Example:
    """A spec, the bytes of its public files by name, and the rows of its tables by file name."""

    seed: int
    text: str
    references: dict[str, bytes]
    data: dict[str, Rows]


@dataclass
class _Names:
    """The real name of every column; what is read, and what the two tables lend each other."""

    draw: random.Random
    real: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.real[name]

    def quoted(self, name: str) -> str:
        return f'"{self.real[name]}"'


def example(seed: int, most: int = 4) -> Example:
    """A valid spec with 1 to ``most`` queries and tables of at most some sixty rows; the same for the same seed."""
    draw = random.Random(f"running {seed}")
    plain = ["user", *_MEANING, "band", "sector", "long", "minutes", "part", "early", "grade"]
    odd = draw.sample(_ODD, len(plain)) if draw.random() < 0.7 else plain
    names = _Names(draw, {**dict(zip(plain, odd, strict=True)), "topic": "topic", "weight": "weight", "since": "since"})
    names.real |= {"page": "page", "plan": "plan", "price": "price", "paid_for": "paid_for"}  # as their references say
    units = draw.random() < 0.8
    lent = units and draw.random() < 0.5
    id_type = draw.choice(["text", "integer", None]) if units else None
    visits = _visits(names, units, lent, id_type)
    tables = {"visits": visits} | ({"people": _people(names, id_type)} if lent else {})
    queries = {f"q{at}": query_of(draw, names.real, visits) for at in range(draw.randint(1, most))}
    spec = _spec(seed, draw, tables, queries)
    used = {"pages", "topics", "plans"} | ({"apart"} if any("except" in each for each in queries.values()) else set())
    spec["references"] = {name: {"file": f"{name}.csv", "columns": _columns_of(name, names)} for name in sorted(used)}
    files = {name: data for name, (_, data) in REFERENCES.items()} | {"apart": _apart(names)}
    data = {each["source"]["file"]: _rows(draw, names, each) for each in tables.values()}
    return Example(seed, _yaml(spec), {name: files[name] for name in used}, data)


def _columns_of(name: str, names: _Names) -> dict[str, str]:
    return REFERENCES[name][0] if name in REFERENCES else {names["country"]: "text", names["flag"]: "boolean"}


def _apart(names: _Names) -> bytes:
    return f"{names['flag']},{names['country']}\ntrue,DE\nfalse,FR\ntrue,DE\n".encode()


def _yaml(spec: dict[str, Any]) -> str:
    plain = json.loads(json.dumps(spec))  # the same list in two places would be written as an alias
    return re.sub(r"'(1e-\d+)'", r"\1", yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def _spec(seed: int, draw: random.Random, tables: dict[str, Any], queries: dict[str, Any]) -> dict[str, Any]:
    epsilon = draw.choice([0.5, 1, 2, 5, 10])
    spec: dict[str, Any] = {
        "dprelease": 1,
        "release": {"name": f"running-{seed}"},
        "privacy": {
            "unit": {"entity": "person"},
            "neighboring": draw.choice(["add_remove", "replace_one"]),
            "budget": {"epsilon": epsilon, "delta": draw.choice(["1e-5", "1e-6", "1e-9"])},
            "accounting": draw.choices(["auto", "basic", "zcdp", "rdp"], [5, 1, 1, 1])[0],
            "noise": draw.choice(["auto", "laplace", "gaussian"]),
        },
        "tables": tables,
        "queries": queries,
    }
    if draw.random() < 0.2:
        queries["q0"]["budget"] = {"epsilon": round(epsilon / 20, 9)}
    derive = {f"d{at}": sql for at, name in enumerate(queries) if (sql := derived_sql(draw, name, queries[name]))}
    if derive and draw.random() < 0.5:
        spec["derive"] = {name: {"sql": sql} for name, sql in derive.items()}
    if draw.random() < 0.4:
        spec["publish"] = {"formats": draw.choice([["csv"], ["parquet"], ["csv", "parquet", "html"]])}
    return spec


def _maybe(draw: random.Random, **fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if draw.random() < 0.5}


def _visits(names: _Names, units: bool, lent: bool, id_type: str | None) -> dict[str, Any]:
    draw, q = names.draw, names.quoted
    columns: dict[str, Any] = {
        "country": {"type": "text", "keys": ["DE", "FR", "O'X \"q\", z", "=1+1", "Ünï"]}
        | _maybe(draw, null="FR", labels={"DE": "Germany <b>", "=1+1": "'"}),
        "page": {"type": "integer", "keys": draw.choice([{"from": 1, "to": 6}, [4, 2, 3, -1], {"reference": "pages"}])},
        "day": {"type": "date", "keys": draw.choice([{"from": "2024-02-27", "to": "2024-03-01"}, ["2024-03-01", "2024-02-29"]])},
        "flag": {"type": "boolean", "keys": [True, False]} | _maybe(draw, null=False, labels={"true": "Yes"}),
        "term": {"type": "text"},
        "code": {"type": "integer"},
        "seen": {"type": "timestamp"},
        "seconds": {"type": "integer", "range": [0, 3600], "outside": draw.choice(["clamp", "null"])} | _maybe(draw, step=10),
        "spent": {"type": "decimal", "range": [-50, 500], "step": draw.choice([0.5, "1/4", 0.01, 10])},
        "topic": {"type": "text"} | _maybe(draw, keys={"reference": "topics"}),
        "paid_for": {"type": "boolean", "keys": [False, True]},
        "weight": {"type": "integer", "range": [-10, 10]},
        "since": {"type": "date"},
    }  # fmt: skip
    table: dict[str, Any] = {"account": "people", "source": _source(draw, "visits")}
    table["join"] = [{"reference": "pages", "on": "page", "add": ["topic", "paid_for"]}]
    table["join"].append({"reference": "topics", "on": "topic", "add": ["weight", "since"]})
    if lent:
        columns |= {"tenure": {"type": "integer", "range": [0, 40]}, "plan": {"type": "text", "keys": ["paid", "free"]}}
        columns |= {"price": {"type": "integer", "range": [0, 9]}, "grade": {"type": "text", "keys": ["new", "old"]}}
        added = [names[name] for name in ("tenure", "plan", "price", "grade")]
        join = {"table": "people", "on": names["user"], "max_matches": draw.choice([1, 1, 2]), "add": added}
        table["join"].insert(draw.randint(0, 2), join)
    if units:
        table |= {"unit_id": names["user"], **_maybe(draw, null_id="unit"), **_bounds(names)}
        if id_type is not None:
            columns["user"] = {"type": id_type}
    columns |= _derived(draw, q, names)
    table["columns"] = {names[name]: column for name, column in columns.items()}
    return table


def _derived(draw: random.Random, q: Callable[[str], str], names: _Names) -> dict[str, Any]:
    """Columns of every way, of each other too; whole numbers under decimals and the other way round."""
    late = f"{q('seconds')} > 600 or {q('spent')} < 0 and not {q('flag')}"
    return {
        "band": {"bin": names[draw.choice(["seconds", "spent", "weight"])], "edges": draw.choice([[-1, 0, 60, 3601], [0.5, "10/3", 77]])},
        "sector": draw.choice(
            [
                {"map": names["country"], "to": {"DE": "here", "O'X \"q\", z": "odd \"'"}, "otherwise": "there"},
                {"map": names["page"], "type": "integer", "to": {"1": -7, "02": 9, "3": -7}},
                {"map": names["day"], "type": "boolean", "to": {"2024-02-29": True}, "otherwise": False},
                {"map": names["flag"], "type": "date", "to": {"true": "2024-01-01", "False": "1999-12-31"}},
            ]
        ),
        "long": {"sql": late, "type": "boolean", "keys": [True, False], **_maybe(draw, null=True)},
        "minutes": {"sql": draw.choice([f"{q('seconds')} / 60", f"round({q('spent')})"]), "type": "integer", "range": [0, 60]},
        "part": {"sql": draw.choice([f"{q('minutes')}", f"{q('spent')} * {q('spent')} / {q('seconds')}", f"length({q('term')})"]), "type": "decimal", "range": [0, 100], "step": 0.1},
        "early": {"sql": f"case when {q('long')} then left({q('term')}, 1) else 'x''' end", "type": "text"} | _maybe(draw, keys=["x'", "a", "b"]),
    }  # fmt: skip


def _bounds(names: _Names) -> dict[str, Any]:
    draw = names.draw
    if draw.random() < 0.35:
        return {}
    bounds: dict[str, Any] = {"max_rows": draw.choice([1, 2, 3, 10, 100])}
    if (truncate := draw.choice(["sample", "first", "last", None])) is not None:
        bounds["truncate"] = truncate
    if truncate in ("first", "last"):
        bounds["order_by"] = [
            names[name] for name in draw.sample(["seen", "seconds", "day", "flag", "term"], draw.randint(1, 2))
        ]
    return {"bounds": bounds}


def _people(names: _Names, id_type: str | None) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "tenure": {"type": "integer", "range": [0, 40]},
        "plan": {"type": "text"},
        "price": {"type": "integer"},
        "grade": {"type": "text", "sql": f"case when {names.quoted('tenure')} > 3 then 'old' else 'new' end"},
    }
    if id_type is not None:
        columns["user"] = {"type": id_type}
    return {
        "account": "people",
        "source": _source(names.draw, "people"),
        "unit_id": names["user"],
        **_maybe(names.draw, bounds={"max_rows": names.draw.choice([1, 2])}),
        "join": [{"reference": "plans", "on": "plan", "add": ["price"]}],
        "columns": {names[name]: column for name, column in columns.items()},
    }


def _source(draw: random.Random, name: str) -> dict[str, Any]:
    return {"file": f"{name}.{draw.choice(['csv', 'parquet'])}"} | _maybe(draw, null_values=["", "NULL", "x", "0"])


def _rows(draw: random.Random, names: _Names, table: dict[str, Any]) -> Rows:
    """Rows of the source columns, and one that nobody declared; a few units have many rows, some have no id."""
    number = draw.choice([0, 1, 7, 40, 60])
    joined = {name for join in table["join"] for name in join["add"]}
    rows: Rows = {"undeclared": ["1"] * number}
    for name, make in _MEANING.items():
        if names[name] in table["columns"] and names[name] not in joined:
            rows[names[name]] = [make(draw) if draw.random() > 0.06 else None for _ in range(number)]
    if "unit_id" in table:
        ids = ["1", "01", "2", "3", "3", "3", "4", "", "x", None, *(str(at) for at in range(9))]
        rows[names["user"]] = [draw.choice(ids) for _ in range(number)]
    return rows


def write(made: Example, folder: Path) -> None:
    """Write the files of an example; in Parquet numbers are numbers where all of them can be."""
    for name, content in made.references.items():
        (folder / f"{name}.csv").write_bytes(content)
    for name, rows in made.data.items():
        if name.endswith(".parquet"):
            pq.write_table(pa.table({column: _stored(values) for column, values in rows.items()}), folder / name)
            continue
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))
        (folder / name).write_text(text.getvalue(), encoding="utf-8", newline="")


def _stored(values: list[str | None]) -> Any:
    texts = pa.array(values, pa.string())
    if not all(value is None or re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value) for value in values):
        return texts if len(values) % 2 else texts.dictionary_encode()
    return pa.array([None if value is None else float(value) for value in values], pa.float64())
