"""Queries at random over the table of ``tests/laws/running.py``: every measure, every way to bound and to key cells."""

from __future__ import annotations

import random
from typing import Any

from dprelease.measures import MEASURES
from tests.measures import asked, of_a_column

__all__ = ["derived_sql", "query_of"]

Names = dict[str, str]
# An estimate wants a column of randomized answers, which no other measure may read.
_OF_TRUTHS = tuple(kind for kind in of_a_column() if kind != "randomized")
_CLIPS = {"seconds": [0, 900], "spent": [-10, 60], "minutes": [0, 30], "part": [10, 20], "weight": [-5, 10]}


def query_of(draw: random.Random, names: Names, table: dict[str, Any]) -> dict[str, Any]:
    """One query of the table.

    Args:
        draw: What is drawn from.
        names: The real name of every column.
        table: As in the spec.
    """
    kind = draw.choices(["public", "private", "list"], [6, 3, 1])[0]
    query: dict[str, Any] = {"table": "visits"}
    units = "unit_id" in table
    if units and ("bounds" not in table or draw.random() < 0.6):
        query["bounds"] = {"max_groups": draw.choice([1, 2, 5]), "max_rows_per_group": draw.choice([1, 2, 7])}
        if "bounds" in table and draw.random() < 0.5:
            del query["bounds"][draw.choice(sorted(query["bounds"]))]
    if draw.random() < 0.4:
        query["where"] = _filter(draw, names)
    keyed = [name for name in names if "keys" in table["columns"].get(names[name], {})]
    keyed += [name for name in ("band", "sector") if name not in keyed]
    if kind == "list":
        column = names[draw.choice([name for name in keyed if names[name].lower() != "rank"])]
        return query | {"top_k": column, "k": draw.randint(1, 2)} | ({"of": "rows"} if draw.random() < 0.5 else {})
    if kind == "private":
        free = ["term", "code", "since", "early"] + [name for name in keyed if draw.random() < 0.3]
        query |= {"by": [names[name] for name in draw.sample(free, draw.randint(1, 2))], "keys": "private"}
        query |= {"min_units": draw.choice([1, 3])} if draw.random() < 0.7 else {}
    else:
        query["by"] = [names[name] for name in draw.sample(keyed, draw.randint(0, 2))]
        if draw.random() < 0.15:
            query |= {"by": [names["country"], names["flag"]], "except": {"reference": "apart"}}
    query["measures"] = _measures(draw, names, table, query)
    if draw.random() < 0.3 and (numbers := _published(query["measures"])):
        query["suppress"] = {"measure": numbers[0], "below": draw.choice([0, 3, 2.5])}
    return query


def _filter(draw: random.Random, names: Names) -> str:
    at = {name: f'"{real}"' for name, real in names.items()}
    texts = [
        f"{at['seconds']} >= 10 and {at['country']} <> 'US'",
        f"{at['day']} between date '2024-02-28' and '2024-02-29' or {at['flag']}",
        f"{at['topic']} is not null and {at['weight']} in (-3, 7)",
        f"coalesce({at['term']}, 'x''') <> 'b' and year({at['seen']}) = 2024",
        f"cast({at['code']} as text) <> '1' and {at['long']}",
        f"{at['band']} is null or {at['spent']} / {at['seconds']} < 2 and {at['part']} > 1",
        f"{at['sector']} is not null and not ({at['paid_for']} = true)",
        "1 = 0",
    ]
    return draw.choice(texts)


def _measures(draw: random.Random, names: Names, table: dict[str, Any], query: dict[str, Any]) -> dict[str, Any]:
    labels = [f"m{at}" for at in range(draw.choice([1, 2, 2, 3, 4]))]
    found = {label: _measure(draw, names, table) for label in labels}
    always = {kind for kind, each in MEASURES.items() if each.foreseen == "always"}
    parts = [name for name in labels if always & set(found[name])]
    if len(parts) > 1:
        found["rate"] = {"ratio": draw.sample(parts, 2)}
    taken = {name.lower() for name in query["by"]}
    return (
        {f"z_{name}" if name in taken else name: each for name, each in found.items()}
        if not taken
        & {
            f"{name}{end}"
            for name in _published(found)
            for end in ("", "_se", "_margin", "_lower", "_upper", "_status")
        }
        else {"only_one": {"count": "rows"}}
    )


def _measure(draw: random.Random, names: Names, table: dict[str, Any]) -> dict[str, Any]:
    kind = draw.choice(["rows", "units", *_OF_TRUTHS])
    where = {"where": _filter(draw, names)} if draw.random() < 0.2 else {}
    if kind in ("rows", "units"):
        return {"count": kind, **where}
    if MEASURES[kind].is_count:
        column = draw.choice([name for name in names if names[name] in table["columns"]])
        return asked(kind, names[column], **where)
    column = draw.choice(sorted(_CLIPS))
    clip = {"clip": _CLIPS[column]} if draw.random() < 0.7 else {}
    if kind == "quantiles":
        at = sorted(draw.sample([0, 0.05, 0.125, "1/3", 0.5, 0.75, 0.9, 1], draw.randint(1, 3)), key=_number)
        return {"quantiles": names[column], "at": at, **clip, **where}
    return asked(kind, names[column], **clip, clip_per=draw.choice(["row", "unit_cell"]), **where)


def _number(written: Any) -> float:
    return 1 / 3 if written == "1/3" else float(written)


def _published(measures: dict[str, Any]) -> list[str]:
    """The published names of the measures, quantiles left out."""
    return [name for name, measure in measures.items() if "quantiles" not in measure]


def derived_sql(draw: random.Random, name: str, query: dict[str, Any]) -> str | None:
    """A derived table of one query; None where it has no plain number."""
    numbers = [f'"{label}"' for label in _published(query.get("measures", {}))]
    if not numbers:
        return None
    keys = [f'"{key}"' for key in query["by"]]
    first, last = numbers[0], numbers[-1]
    number = draw.choice([f"{first} / {last}", f"round({first} * 2 - {last}, 2)", f"coalesce({first}, 0)"])
    if keys and draw.random() < 0.4:
        return f"select {keys[0]}, sum({first}) as total from {name} group by {keys[0]}"
    return f"select {', '.join([*keys, f'{number} as outcome'])} from {name} where {first} > 1 or {last} is null"
