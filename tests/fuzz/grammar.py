"""Values by the grammar of the JSON Schema: what an editor would let somebody write, sensible or not."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["ODD", "properties_like", "written"]

ROOT = Path(__file__).parents[2]
# Scalars as they stand in a file: each is the end of some range, or what YAML reads as something else.
ODD = (
    *("0", "1", "-1", "2", "3", "10", "1000000", "1e-9", "1e400", "1e-400", "0.1", "1/3", "-0.0", ".inf", ".nan"),
    *("9223372036854775807", "9223372036854775808", "06", "0x10", "1_000", "2024-02-30", "2024-Q1", "2024"),
    *(
        "true",
        "no",
        "null",
        "~",
        '""',
        "''",
        '"a b"',
        '"é"',
        '"\\u202e"',
        "'it''s'",
        "select",
        "rows",
        "units",
        "_total",
    ),
    *("auto", "private", "all", "count", "x" * 200, "age >= 18", "'1 = 0'", "total", "person", "laplace", "gaussian"),
)
_MOST_DEPTH = 5


@cache
def _schema() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((ROOT / "specs/schema.json").read_text("utf-8"))
    return found


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = _schema()["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def properties_like(keys: frozenset[str]) -> Mapping[str, Any]:
    """The properties of the object of the schema that has most of these keys; none where none has any."""
    objects = [_schema(), *_schema()["$defs"].values()]
    best = max(objects, key=lambda each: len(keys & set(each.get("properties", ()))))
    found: Mapping[str, Any] = best.get("properties", {})
    return found if keys & set(found) else {}


def written(schema: Mapping[str, Any], draw: random.Random, words: tuple[str, ...], depth: int = 0) -> str:
    """A value of a schema as flow YAML.

    Args:
        schema: Of the value.
        draw: What is drawn from.
        words: Scalars of the document that the value goes into: names that lead somewhere.
        depth: How deep it stands; beyond ``_MOST_DEPTH`` only what is required is written.
    """
    schema = _resolved(schema)
    for choice in ("anyOf", "oneOf"):
        if choice in schema and "properties" not in schema:
            return written(draw.choice(schema[choice]), draw, words, depth)
    if "const" in schema or "enum" in schema:
        return json.dumps(schema["const"] if "const" in schema else draw.choice(schema["enum"]))
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = draw.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        return _object(schema, draw, words, depth)
    if kind == "array":
        least = schema.get("minItems", 0)
        count = draw.randint(least, max(least, 0 if depth > _MOST_DEPTH else 3))
        items = [written(schema.get("items", {}), draw, words, depth + 1) for _ in range(count)]
        return f"[{', '.join(items)}]"
    if kind == "boolean":
        return draw.choice(["true", "false"])
    if kind in ("integer", "number"):
        return draw.choice(["1", "2", "3", "5", "10", "100", "0.5" if kind == "number" else "7", draw.choice(ODD[:15])])
    return draw.choice([*words, *ODD]) if draw.random() < 0.9 or not words else draw.choice(ODD)


def _object(schema: Mapping[str, Any], draw: random.Random, words: tuple[str, ...], depth: int) -> str:
    known, needed = schema.get("properties", {}), schema.get("required", [])
    optional = [name for name in known if name not in needed]
    more = draw.sample(optional, min(len(optional), 0 if depth > _MOST_DEPTH else draw.randint(0, 3)))
    other = schema.get("additionalProperties", {})  # of names that are needed and have no schema of their own
    parts = [f"{name}: {written(known.get(name, other), draw, words, depth + 1)}" for name in (*needed, *more)]
    if not known and isinstance(schema.get("additionalProperties"), Mapping) and depth <= _MOST_DEPTH:
        names = [draw.choice(words or ("a",)) for _ in range(draw.randint(1, 2))]
        parts = [
            f"{json.dumps(name)}: {written(schema['additionalProperties'], draw, words, depth + 1)}" for name in names
        ]
    return f"{{{', '.join(parts)}}}"
