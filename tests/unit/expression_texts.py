"""Random expressions of every kind that is allowed, as texts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from dprelease.catalog.table import ColumnType

TYPES: dict[str, ColumnType] = {
    "n": "integer",
    "m": "integer",
    "x": "decimal",
    "y": "decimal",
    "s": "text",
    "odd \"name'": "text",
    "day": "date",
    "seen": "timestamp",
    "p": "boolean",
    "case": "boolean",
}
CONSTANTS: dict[ColumnType, tuple[str, ...]] = {
    "integer": ("0", "1", "-1", "7", "9007199254740993", "9223372036854775807", "-9223372036854775808"),
    "decimal": ("0.0", "0.5", "-2.5", "1e308", "-1e-300", "9007199254740992.0", "0.1"),
    "text": ("''", "'a'", "'it''s'", "' 12 '", "'\\ % _ \"'", "'Äß'", "'2024-02-29'"),
    "boolean": ("true", "FALSE"),
    "date": ("DATE '2024-02-29'", "date '0001-01-01'", "DATE '9999-12-31'"),
    "timestamp": (),
}
_CASTS: dict[str, tuple[ColumnType, ...]] = {
    "integer": ("decimal", "text", "boolean"),
    "decimal": ("integer", "text", "boolean"),
    "text": ("integer", "decimal", "boolean", "date"),
    "boolean": ("text", "integer", "decimal"),
    "date": ("text", "timestamp"),
}


def column(draw: Random, kind: ColumnType) -> str:
    name = draw.choice([name for name, its in TYPES.items() if its == kind])
    return name if name.isalpha() and name != "case" else '"' + name.replace('"', '""') + '"'


def leaf(draw: Random, kind: ColumnType) -> str:
    if CONSTANTS[kind] and draw.random() < 0.3:
        return draw.choice(CONSTANTS[kind])
    return column(draw, kind)


def expression(draw: Random, kind: ColumnType, depth: int) -> str:
    """An expression of a type, nested at most so deeply; every operand is in parentheses or an argument."""
    if depth <= 0 or draw.random() < 0.1:
        return leaf(draw, kind)
    below = depth - 1

    def of(*kinds: ColumnType) -> str:
        return f"({expression(draw, draw.choice(kinds), below)})"

    general: list[Callable[[], str]] = [
        lambda: f"CASE WHEN {of('boolean')} THEN {of(kind)} WHEN {of('boolean')} THEN NULL ELSE {of(kind)} END",
        lambda: f"case when {of('boolean')} then {of(kind)} end",
        lambda: f"Coalesce({of(kind)}, {of(kind)}, NULL)",
    ]
    if kind != "timestamp":
        general.append(lambda: f"NULLIF({of(kind)}, {of(kind)})")
        general.append(lambda: f"{draw.choice(['CAST', 'try_cast'])}({of(*_CASTS[kind])} AS {kind})")
    if kind not in ("timestamp", "boolean"):
        general.append(lambda: f"{draw.choice(['LEAST', 'GREATEST'])}({of(kind)}, {of(kind)})")
    return draw.choice(general + _special(draw, kind, of))()


def _special(draw: Random, kind: ColumnType, of: Callable[..., str]) -> list[Callable[[], str]]:
    number: tuple[ColumnType, ...] = ("integer", "decimal")
    ordered: ColumnType = draw.choice(("integer", "decimal", "text", "date"))
    listed = ", ".join(draw.choices(CONSTANTS[ordered], k=3))
    if kind == "integer":
        return [
            lambda: f"{draw.choice(['ROUND', 'FLOOR', 'CEIL'])}({of(*number)})",
            lambda: f"ABS({of('integer')})",
            lambda: f"LENGTH({of('text')})",
            lambda: f"{draw.choice(['YEAR', 'MONTH', 'DAY'])}({of('date', 'timestamp')})",
        ]
    if kind == "decimal":
        return [
            *(lambda: f"{of(*number)} {draw.choice('+-*/')} {of(*number)}" for _ in range(4)),
            lambda: f"{of(*number)} {draw.choice('+-')} {of(*number)} {draw.choice('*/')} {of(*number)}",
            lambda: f"-{of(*number)}",
            lambda: f"ABS({of('decimal')})",
        ]
    if kind == "text":
        return [
            lambda: f"{draw.choice(['LOWER', 'UPPER', 'TRIM'])}({of('text')})",
            lambda: f"LEFT({of('text')}, {draw.randrange(4)})",
            lambda: f"SUBSTRING({of('text')}, {draw.randrange(1, 4)}{draw.choice(['', ', 0', ', 2'])})",
        ]
    if kind == "boolean":
        return [
            lambda: f"{of(ordered)} {draw.choice(['=', '<>', '<', '<=', '>', '>='])} {of(ordered)}",
            lambda: f"{of(*number)} {draw.choice(['=', '<>', '<', '<=', '>', '>='])} {of(*number)}",
            lambda: f"{of('boolean')} {draw.choice(['=', '<>'])} {of('boolean')}",
            lambda: f"{of('boolean')} and {of('boolean')} OR {of('boolean')}",
            lambda: f"NOT {of('boolean')} AND NOT {of('boolean')}",
            lambda: f"{of(ordered, 'timestamp', 'boolean')} IS {draw.choice(['', 'NOT '])}NULL",
            lambda: f"{of(ordered)} {draw.choice(['', 'NOT '])}IN ({listed})",
            lambda: f"{of(ordered)} {draw.choice(['', 'not '])}BETWEEN {of(ordered)} AND {of(ordered)}",
            lambda: f"STARTS_WITH({of('text')}, {of('text')})",
        ]
    return []
