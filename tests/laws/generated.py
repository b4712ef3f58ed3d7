"""Specs made at random, valid by construction: what the planner must be able to take."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import yaml

__all__ = ["generated_spec"]

_COLUMNS = {
    "region": {"type": "text", "keys": ["01", "02", "06"]},
    "sex": {"type": "integer", "keys": [1, 2]},
    "age": {"type": "integer", "range": [0, 99]},
    "income": {"type": "decimal", "range": [-10000, 500000], "step": 1},
    "hours": {"type": "decimal", "range": [0, 60], "step": 0.5},
}
_BY: list[list[str]] = [[], ["region"], ["sex"], ["region", "sex"]]
_CLIPS = {"age": [0, 90], "income": [0, 200000], "hours": [0, 40]}


def generated_spec(seed: int, most: int = 200) -> str:
    """The text of a spec with 1 to ``most`` queries: shares, pins and targets mixed; the same for the same seed."""
    draw = random.Random(seed)
    epsilon = draw.choice([0.1, 0.5, 1, 2, 5, 10])
    size = max(1, int(most ** (draw.random() ** 4)))  # mostly small, for time
    queries = {f"q{at}": _query(draw, epsilon, size) for at in range(size)}
    accounting = draw.choices(["auto", "basic", "advanced", "zcdp", "rdp", "pld"], [6, 1, 1, 1, 1, 1])[0]
    noise = draw.choice(["auto", "laplace", "gaussian"])
    spec: dict[str, Any] = {
        "dprelease": 1,
        "release": {"name": f"generated-{seed}"},
        "privacy": {
            "unit": {"entity": "person"},
            "neighboring": draw.choice(["add_remove", "replace_one"]),
            "budget": {"epsilon": epsilon, "delta": draw.choice(["1e-5", "1e-6", "1e-9", "1e-12"])},
            "accounting": accounting,
            "noise": noise,
        },
        "tables": {"people": {"account": "people", "source": {"file": "people.csv"}, "columns": _COLUMNS}},
        "queries": queries,
    }
    plain = json.loads(json.dumps(spec))  # the same list in two places would be written as an alias
    return re.sub(r"'(1e-\d+)'", r"\1", yaml.safe_dump(plain, sort_keys=False))


def _query(draw: random.Random, epsilon: float, size: int) -> dict[str, Any]:
    measures = {f"m{at}": _measure(draw) for at in range(draw.choice([1, 1, 1, 2, 3, 4]))}
    query: dict[str, Any] = {"table": "people", "by": draw.choice(_BY), "measures": measures}
    kind = draw.choices(["share", "plain", "pin", "target", "both"], [4, 4, 1, 1, 1])[0]
    if kind in ("share", "both"):
        query["share"] = draw.choice([1, 2, 3, "1/3", 0.25, 7])
    if kind == "pin":
        query["budget"] = {"epsilon": round(epsilon / (10 * size), 9)}
    if kind in ("target", "both"):
        counts = [label for label, measure in measures.items() if "count" in measure]
        if counts:
            query["target"] = {counts[0]: {"margin": round(draw.choice([300, 1000]) * size / epsilon, 3)}}
    return query


def _measure(draw: random.Random) -> dict[str, Any]:
    kind = draw.choice(["rows", "count", "count", "sum", "mean", "variance"])
    if kind == "rows":
        return {"count": "rows"}
    column = draw.choice(["age", "income", "hours"])
    if kind == "count":
        return {"count": column}
    return {kind: column, "clip": _CLIPS[column]}
