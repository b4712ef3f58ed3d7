"""What pydantic found, in the words of the file: one problem per cause, at its line and column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from dprelease.errors import Problem
from dprelease.measures import MEASURES
from dprelease.spec.text.advice import EXAMPLES, MISPLACED, WORDS_ELSEWHERE
from dprelease.spec.text.names import did_you_mean, listed, nearest, shown
from dprelease.spec.text.nodes import Path, Places
from dprelease.spec.text.numbers import Constant, Numeral
from dprelease.spec.text.scalars import kind_of

__all__ = ["dotted", "path_of", "pattern", "problems_of"]

Models = Mapping[str, type[BaseModel]]
_NAMED = {"references", "tables", "tables.*.columns", "references.*.columns", "queries", "queries.*.measures"}
_ALSO_NAMED = {
    "queries.*.expect",
    "queries.*.target",
    "queries.*.clipped",
    "queries.*.round",
    "queries.*.shares.levels",
    "queries.*.shares.tables",
    "hierarchies",
    "tables.*.columns.*.labels",
    "tables.*.columns.*.to",
    "derive",
    "queries.*.names",
    "queries.*.title",
    "derive.*.title",
    "release.title",
    "release.abstract",
    "privacy.unit_title",
    "accounts",
    "accounts.*.nests",
    "approvals.approvers",
    "approvals.required",
    "schedule.skip",
    "source_queries",
}
_SHAPES = {
    "model": ("a mapping", "write `name: value` lines below it"),
    "dict": ("a mapping", "write `name: value` lines below it"),
    "tuple": ("a list", "write [a, b]"),
    "list": ("a list", "write [a, b]"),
    "string": ("text", "write text, in quotes where it looks like a number"),
}


def pattern(path: Path) -> str:
    """A path with ``*`` for names that the author chose, and without positions in lists.

    >>> pattern(("tables", "people", "columns", "sex", "keys", 0))
    'tables.*.columns.*.keys'
    """
    found = ""
    for step in path:
        if isinstance(step, int):
            continue
        name = "*" if found in _NAMED or found in _ALSO_NAMED else step
        found = f"{found}.{name}" if found else name
    return found


def dotted(path: Path) -> str:
    """A path as a reader writes it: ``queries.income.by[0]``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f"{'.' if text else ''}{shown(step)}"
    return text


def path_of(loc: tuple[int | str, ...]) -> Path:
    """Pydantic's location without the tags of unions, which are no part of the file."""
    if len(loc) > 5 and pattern(loc[:5]) == "tables.*.columns.*.keys":
        return (*loc[:5], *loc[6:])
    if len(loc) > 5 and pattern(loc[:4]) == "queries.*.measures.*" and loc[4] in MEASURES:
        return _without_form((*loc[:4], *loc[5:]))
    return loc


def _without_form(loc: tuple[int | str, ...]) -> Path:
    """Without the form of a clip (``measures.clipped.Clip``)."""
    form = loc[5:6] in (("written",), ("chosen",)) and loc[4] == "clip"
    return (*loc[:5], *loc[6:]) if form else loc


def problems_of(error: ValidationError, places: Places, models: Models) -> list[tuple[Path, Problem]]:
    """Every cause once, with its path: a misspelt field explains that the right one is missing.

    Args:
        error: The error of the whole file.
        places: Where its parts are.
        models: Pattern to the model of the mapping there.
    """
    found = [(path_of(each["loc"]), each) for each in error.errors(include_url=False)]
    meant: set[Path] = set()
    for path, each in found:
        if each["type"] == "extra_forbidden":
            near = nearest(str(path[-1]), _fields(pattern(path[:-1]), models))
            meant.add((*path[:-1], near or ""))
    return [
        (path, _problem(path, each, places, models))
        for path, each in found
        if each["type"] != "missing" or path not in meant
    ]


def _problem(path: Path, error: Any, places: Places, models: Models) -> Problem:
    kind, ctx, value = error["type"], error.get("ctx", {}), error["input"]
    what, name = pattern(path), f"`{dotted(path)}`"
    if kind == "extra_forbidden":
        return _unknown(path, places, models)
    if kind == "missing":
        return _missing(path, places)
    if kind.startswith("DPR-"):
        return Problem(kind, f"{name} {ctx['summary']}", ctx["hint"], places.value(*path))
    where = places.value(*path)
    if isinstance(value, Constant) and value.value is None:
        return Problem("DPR-S215", f"{name} is empty", "write a value, or leave the line out", where)
    if kind in ("literal_error", "enum"):
        return _choice(path, str(ctx.get("expected", "")), value, places)
    if kind in ("too_long", "too_short"):
        hint = EXAMPLES.get(what, "write [low, high]" if what.endswith("clip") else "write at least one")
        return Problem("DPR-S210", f"{name} has {_count(ctx)}", hint, where)
    if kind.startswith("union_tag"):
        hint = "write a list, `{reference: NAME}` or `{from: 1, to: 9}`"
        if value == "private":
            hint = "leave it out here, and write `keys: private` in the query, beside `by`"
        return Problem("DPR-S212", f"{name} is {kind_of(value)}, which says no keys", hint, where)
    if kind == "value_error":  # a rule of a kind of measure, in its own words
        says, _, advice = str(ctx["error"]).partition(": ")
        return Problem("DPR-S583", f"{name} is refused: {says}", advice or "leave it out", where)
    shape, hint = _SHAPES.get(kind.split("_")[0], ("what belongs here", "see the reference of the spec"))
    if shape == "a mapping" or isinstance(value, Constant):
        hint = EXAMPLES.get(what, hint)
    elif shape == "a list" and isinstance(value, str | Numeral):
        hint = f"put it in brackets: [{shown(value if isinstance(value, str) else value.text)}]"
    return Problem("DPR-S203", f"{name} is {kind_of(value)}, not {shape}", hint, where)


def _count(ctx: Mapping[str, Any]) -> str:
    wanted = ctx.get("max_length", ctx.get("min_length"))
    return f"{ctx.get('actual_length')} items, not {'at least ' if 'min_length' in ctx else ''}{wanted}"


def _unknown(path: Path, places: Places, models: Models) -> Problem:
    field, where = str(path[-1]), places.key(*path)
    inside = dotted(path[:-1]) or "the file"
    home = pattern(path[:-1])
    fields = _fields(home, models)
    moved = {key.rpartition(".")[2]: hint for key, hint in MISPLACED.items() if key.rpartition(".")[0] == home}
    hint = moved.get(nearest(field, [*fields, *moved]) or "") or did_you_mean(field, fields, _elsewhere(field, models))
    return Problem("DPR-S200", f"unknown field `{shown(field)}` in {inside}", hint, where)


def _elsewhere(field: str, models: Models) -> str:
    """Where the file has a field of this name, if that is one or two places; else nothing."""
    homes = [what for what in models if field in _fields(what, models)]
    if not 1 <= len(homes) <= 2:
        return ""
    return f"it is a field of {' and of '.join(_home(each) for each in homes)}: write it there"


def _home(what: str) -> str:
    return f"`{what.replace('*', 'NAME')}`" if what else "the file itself"


def _fields(what: str, models: Models) -> list[str]:
    if what == "queries.*.measures.*":
        return list(dict.fromkeys(name for kind in MEASURES.values() for name in kind.model_fields))
    if what not in models:
        return []
    return [info.alias or name for name, info in models[what].model_fields.items()]


def _missing(path: Path, places: Places) -> Problem:
    what, where = pattern(path), places.key(*path[:-1])
    inside = dotted(path[:-1]) or "the file"
    if isinstance(path[-1], int):
        return Problem("DPR-S210", f"`{inside}` has too few items", EXAMPLES.get(what, "write [low, high]"), where)
    hint = EXAMPLES.get(what, f"write `{shown(path[-1])}: ...`")
    return Problem("DPR-S201", f"missing field `{shown(path[-1])}` in {inside}", hint, where)


def _choice(path: Path, expected: str, value: Any, places: Places) -> Problem:
    what, where = pattern(path), places.value(*path)
    text = value if isinstance(value, str) else getattr(value, "text", str(value))
    choices = re.findall(r"'([^']*)'", expected) or [expected]
    summary = f"`{dotted(path)}` is {kind_of(value)}, not one of: {listed(choices)}"
    meant = WORDS_ELSEWHERE.get(what, {}).get(text.lower())
    hint = f"write {meant}" if meant else did_you_mean(text, choices, f"write {choices[0]}")
    return Problem("DPR-S202", summary, hint, where)
