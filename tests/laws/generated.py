"""Specs made at random, valid by construction: what the planner must be able to take."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import yaml

from dprelease.measures import PARTS
from tests.accountants import ANY_NOISE
from tests.measures import asked

__all__ = ["generated_spec", "generated_units_spec"]

_COLUMNS = {
    "region": {"type": "text", "keys": ["01", "02", "06"]},
    "sex": {"type": "integer", "keys": [1, 2]},
    "age": {"type": "integer", "range": [0, 99]},
    "income": {"type": "decimal", "range": [-10000, 500000], "step": 1},
    "hours": {"type": "decimal", "range": [0, 60], "step": 0.5},
}
_BY: list[list[str]] = [[], ["region"], ["sex"], ["region", "sex"]]
_CLIPS = {"age": [0, 90], "income": [0, 200000], "hours": [0, 40]}


def generated_spec(seed: int, most: int = 200, *, ratios: bool = False) -> str:
    """The text of a spec with 1 to ``most`` queries: shares, pins and targets mixed; the same for the same seed.

    Args:
        seed: Of everything that is drawn.
        most: The largest number of queries.
        ratios: Whether some queries have ratios of their measures and say how many rows they expect, besides.
    """
    draw = random.Random(seed)
    epsilon = draw.choice([0.1, 0.5, 1, 2, 5, 10])
    size = max(1, int(most ** (draw.random() ** 4)))  # mostly small, for time
    queries = {f"q{at}": _query(draw, epsilon, size) for at in range(size)}
    if ratios:
        more = random.Random(f"ratios {seed}")
        queries = {name: query | _over_counts(more, query["measures"]) for name, query in queries.items()}
    accounting = draw.choices(["auto", *ANY_NOISE], [6, *(1 for _ in ANY_NOISE)])[0]
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


_VISITS = {
    "country": {"type": "text", "keys": ["DE", "FR", "US"]},
    "page": {"type": "integer", "keys": {"from": 1, "to": 40}},
    "term": {"type": "text"},
    "seconds": {"type": "integer", "range": [0, 3600]},
    "paid": {"type": "decimal", "range": [-50, 500], "step": 0.5},
    "long": {"sql": "seconds > 600", "type": "boolean", "keys": [True, False]},
    "band": {"bin": "seconds", "edges": [0, 60, 600, 3601]},
}
_VISIT_CLIPS = {"seconds": [0, 900], "paid": [-10, 60]}


def generated_units_spec(seed: int, most: int = 12) -> str:
    """The text of a spec whose units have many rows: bounds, filters, quantiles, lists and private keys mixed."""
    draw = random.Random(f"units {seed}")
    epsilon = draw.choice([0.5, 1, 2, 5, 10])
    bounds = {"max_rows": draw.choice([1, 3, 10, 100, 5000])} if draw.random() < 0.7 else None
    table: dict[str, Any] = {"account": "people", "unit_id": "user", "source": {"file": "v.csv"}, "columns": _VISITS}
    if bounds:
        table["bounds"] = bounds
    size = draw.randint(1, most)
    queries = {f"q{at}": _visit_query(draw, bounds is not None) for at in range(size)}
    if draw.random() < 0.2:
        queries["q0"]["budget"] = {"epsilon": round(epsilon / 20, 9)}
    spec: dict[str, Any] = {
        "dprelease": 1,
        "release": {"name": f"units-{seed}"},
        "privacy": {
            "unit": {"entity": "person"},
            "neighboring": draw.choice(["add_remove", "replace_one"]),
            "budget": {"epsilon": epsilon, "delta": draw.choice(["1e-5", "1e-6", "1e-9", "1e-12"])},
            "accounting": draw.choices(["auto", *ANY_NOISE], [6, *(1 for _ in ANY_NOISE)])[0],
            "noise": draw.choice(["auto", "laplace", "gaussian"]),
        },
        "tables": {"visits": table},
        "queries": queries,
    }
    plain = json.loads(json.dumps(spec))
    return re.sub(r"'(1e-\d+)'", r"\1", yaml.safe_dump(plain, sort_keys=False))


def _visit_query(draw: random.Random, bounded: bool) -> dict[str, Any]:
    kind = draw.choices(["public", "private", "list"], [6, 2, 1])[0]
    limits = {"max_groups": draw.choice([1, 2, 5, 30]), "max_rows_per_group": draw.choice([1, 2, 7, 50])}
    query: dict[str, Any] = {"table": "visits"}
    if not bounded or draw.random() < 0.7:
        query["bounds"] = limits
    if draw.random() < 0.3:
        query["where"] = "seconds >= 10 and country <> 'US'"
    if kind == "list":
        return query | {"top_k": "page", "k": draw.randint(1, 10), "of": draw.choice(["units", "rows"])}
    if kind == "private":
        query |= {"by": ["term"], "keys": "private", "min_units": draw.choice([1, 20])}
    else:
        query["by"] = draw.choice([[], ["country"], ["page"], ["country", "long"], ["band"]])
    query["measures"] = {f"m{at}": _visit_measure(draw) for at in range(draw.choice([1, 1, 2, 3, 4]))}
    counts = [label for label, measure in query["measures"].items() if "count" in measure]
    if len(counts) > 1:
        query["measures"]["rate"] = {"ratio": counts[:2]}
    return query


def _visit_measure(draw: random.Random) -> dict[str, Any]:
    kind = draw.choice(["rows", "units", *PARTS, "quantiles"])
    where = {"where": "paid > 0"} if draw.random() < 0.2 else {}
    if kind in ("rows", "units"):
        return {"count": kind, **where}
    column = draw.choice(["page", "term"] if kind == "count_distinct" else ["seconds", "paid"])
    at = {"at": sorted(draw.sample([0.05, 0.25, 0.5, 0.75, 0.9], draw.randint(1, 3)))} if kind == "quantiles" else {}
    clip = {"clip": _VISIT_CLIPS.get(column), "clip_per": draw.choice(["row", "unit_cell"])}
    return asked(kind, column, **at, **clip, **where)


def _over_counts(draw: random.Random, measures: dict[str, Any]) -> dict[str, Any]:
    """The measures with up to three ratios of a count or a sum over a count, and a guess of rows; or as they are."""
    counts = [label for label, measure in measures.items() if "count" in measure]
    tops = [label for label, measure in measures.items() if "count" in measure or "sum" in measure]
    pairs = [[top, count] for count in counts for top in tops if top != count]
    if not pairs or draw.random() < 0.2:
        return {}
    chosen = draw.sample(pairs, draw.randint(1, min(3, len(pairs))))
    expect = {"expect": {counts[0]: draw.choice([200, 5000])}} if draw.random() < 0.6 else {}
    return {"measures": measures | {f"r{at}": {"ratio": pair} for at, pair in enumerate(chosen)}} | expect


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
    kind = draw.choice(["rows", "count", *PARTS])
    if kind == "rows":
        return {"count": "rows"}
    column = draw.choice(["age", "income", "hours"])
    return asked(kind, column, clip=_CLIPS[column])
