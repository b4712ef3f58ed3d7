"""Expressions in the SQL of derived tables: the closed list, with what each becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Literal

from dprelease.catalog.table import ColumnType
from dprelease.errors import PlanError

__all__ = ["Columns", "Kind", "Scope", "SqlTerm", "sql_error", "term"]

Kind = Literal["number", "text", "integer", "boolean", "null"]
_BENIGN = {"big_int", "typed", "safe", "ignore_nulls"}  # how the parser read it, not what the author asked
_NONE: frozenset[str] = frozenset()
_TWO = {"this", "expression"}


@dataclass(frozen=True)
class Columns:
    """What the SQL of a derived table can name of a published table.

    Attributes:
        keys: Its key columns and their types, in published order.
        numbers: Its measures.
    """

    keys: Mapping[str, ColumnType]
    numbers: tuple[str, ...]


@dataclass(frozen=True)
class SqlTerm:
    """A part of a query that was read.

    Attributes:
        sql: What it becomes.
        kind: The kind of its value; a date is text, as its key is.
        column: For a bare column: its table's alias and its name.
        uses: The measures in it: (table, measure).
        loose: The columns in it, as they are written in ``sql``, that stand outside sum, avg, min, max and count.
        is_summed: Whether one of those is in it.
    """

    sql: str
    kind: Kind
    column: tuple[str, str] | None = None
    uses: frozenset[tuple[str, str]] = frozenset()
    loose: frozenset[str] = _NONE
    is_summed: bool = False


@dataclass(frozen=True)
class Scope:
    """The tables that a column can be of: alias to (table, its columns); ``first`` is the number of the first one."""

    tables: Mapping[str, tuple[str, Columns]]
    merged: set[str]
    first: int = 0


def sql_error(summary: str, hint: str, code: str) -> PlanError:
    """The error of a derived table; ``summary`` completes "the SQL ..."."""
    return PlanError(f"the SQL of a derived table {summary}", hint=hint, code=code)


def term(node: Any, scope: Scope) -> SqlTerm:
    """Read an expression.

    Raises:
        PlanError: DPR-P151 for what is not on the list, DPR-P152 for a column that is not there, DPR-P153 for
            values that do not fit.
    """
    found = _READ.get(type(node).__name__)
    if found is None:
        name = str(getattr(node, "name", "") or type(node).__name__) if _is_unknown(node) else type(node).__name__
        hint = "use + - * /, comparisons, and/or/not, case, abs, sqrt, ln, exp, round, floor, ceil, least, greatest, "
        hint += "nullif, coalesce; sum, avg, min, max, count"
        raise sql_error(f"has `{name.lower()}`, which is not on the list", hint, "DPR-P151")
    allowed, read = found
    more = [name for name, value in node.args.items() if value and name not in allowed | _BENIGN]
    if more:
        raise sql_error(f"has `{more[0]}` in `{type(node).__name__.lower()}`", "leave it out", "DPR-P151")
    return read(node, lambda inner: term(inner, scope), scope)


def _is_unknown(node: Any) -> bool:
    return type(node).__name__ == "Anonymous"


Reader = Callable[[Any], SqlTerm]  # reads what stands inside
Read = Callable[[Any, Reader, Scope], SqlTerm]


def _joined(sql: str, kind: Kind, *parts: SqlTerm) -> SqlTerm:
    return SqlTerm(
        sql,
        kind,
        None,
        frozenset().union(*(part.uses for part in parts)),
        frozenset().union(*(part.loose for part in parts)),
        any(part.is_summed for part in parts),
    )


def _number(found: SqlTerm) -> str:
    """The text of a number; an integer key counts as one, and null is no number known."""
    if found.kind not in ("number", "integer", "null"):
        raise sql_error(f"calculates with {found.kind}", "calculate with measures and integer keys", "DPR-P153")
    return f"cast({found.sql} as double)" if found.kind != "number" else found.sql


def _truth(found: SqlTerm) -> str:
    if found.kind not in ("boolean", "null"):
        raise sql_error(f"takes {found.kind} for true or false", "compare: `n > 100`", "DPR-P153")
    return f"cast({found.sql} as boolean)" if found.kind == "null" else found.sql


def _alike(parts: list[SqlTerm]) -> tuple[list[str], Kind]:
    """Texts of values of one kind: numbers where one of them is a number."""
    kinds = {part.kind for part in parts} - {"null"}
    if kinds <= {"number", "integer"} and kinds != {"integer"}:
        return [_number(part) for part in parts], "number"
    if len(kinds) > 1:
        raise sql_error(f"mixes {' and '.join(sorted(kinds))}", "take values of one type", "DPR-P153")
    return [part.sql for part in parts], next(iter(kinds))


def _column(node: Any, _: Any, scope: Scope) -> SqlTerm:
    name, table = node.name, node.table
    if table and table not in scope.tables:
        raise sql_error(f"names a table {table!r} that `from` does not", "take the alias that `from` gives", "DPR-P152")
    places = [
        (scope.first + at, alias, *found)
        for at, (alias, found) in enumerate(scope.tables.items())
        if (not table or alias == table) and (name in found[1].keys or name in found[1].numbers)
    ]
    if not places:
        names = sorted({each for _, found in scope.tables.values() for each in (*found.keys, *found.numbers)})
        near = get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"keys and measures are: {', '.join(names)}"
        raise sql_error(f"names {name!r}, which is no key and no measure", hint, "DPR-P152")
    if len(places) > 1 and name not in scope.merged:
        raise sql_error(f"names {name!r}, which two tables have", f"write `{places[0][1]}.{name}`", "DPR-P152")
    at, alias, published, columns = places[0]
    if name in columns.keys:
        kind = columns.keys[name]
        known: Kind = kind if kind in ("integer", "boolean") else "text"
        text = f"a{at}.k{list(columns.keys).index(name)}"
        return SqlTerm(text, known, (alias, name), loose=frozenset({text}))
    text = f"a{at}.v{columns.numbers.index(name)}"
    return SqlTerm(text, "number", (alias, name), frozenset({(published, name)}), frozenset({text}))


def _literal(node: Any, _: Any, __: Scope) -> SqlTerm:
    text = str(node.this)
    if node.args.get("is_string"):
        if not text.isprintable():
            raise sql_error("has a text with control signs", "write plain text", "DPR-P151")
        return SqlTerm("'" + text.replace("'", "''") + "'", "text")
    try:
        value = Fraction(text)
        short = len(text) <= 40 and abs(value) < 10**18
    except (ValueError, ZeroDivisionError):
        short = False
    if not short:
        raise sql_error(f"has the number {text[:40]}", "write a number of at most 18 digits", "DPR-P151")
    return SqlTerm(f"cast({text} as double)", "number")


def _paren(node: Any, read: Reader, _: Scope) -> SqlTerm:
    inner = read(node.this)
    return _joined(f"({inner.sql})", inner.kind, inner)


def _parts(node: Any, read: Reader) -> list[SqlTerm]:
    """What an operator or a function is about: its one or two arguments, or the first and all others of a list."""
    second = node.args.get("expression")
    return [read(each) for each in (node.this, *([] if second is None else [second]), *node.expressions)]


def _form(form: str, text: Callable[[SqlTerm], str] = _number, kind: Kind = "number") -> Read:
    """An operator whose parts are all numbers (or conditions), as the text that it becomes."""

    def read_it(node: Any, read: Reader, _: Scope) -> SqlTerm:
        parts = _parts(node, read)
        texts = list(map(text, parts))
        return _joined(form.format(*texts, all=", ".join(texts)), kind, *parts)

    return read_it


def _comparison(sign: str) -> Read:
    def read_it(node: Any, read: Reader, _: Scope) -> SqlTerm:
        parts = _parts(node, read)
        (left, right), _kind = _alike(parts)
        return _joined(f"({left} {sign} {right})", "boolean", *parts)

    return read_it


def _is_null(node: Any, read: Reader, _: Scope) -> SqlTerm:
    inner, what = _parts(node, read)
    if what.kind != "null":
        raise sql_error("has `is` with something else than null", "write `a is null`, or `a = b`", "DPR-P151")
    return _joined(f"({inner.sql} is null)", "boolean", inner)


def _between(node: Any, read: Reader, _: Scope) -> SqlTerm:
    parts = [read(node.this), read(node.args["low"]), read(node.args["high"])]
    (value, low, high), _kind = _alike(parts)
    return _joined(f"({value} between {low} and {high})", "boolean", *parts)


def _in(node: Any, read: Reader, _: Scope) -> SqlTerm:
    parts = _parts(node, read)
    (value, *listed), _kind = _alike(parts)
    return _joined(f"({value} in ({', '.join(listed)}))", "boolean", *parts)


def _case(node: Any, read: Reader, _: Scope) -> SqlTerm:
    tests = [read(each.this) for each in node.args["ifs"]]
    values = [read(each.args["true"]) for each in node.args["ifs"]]
    values += [read(node.args["default"])] if node.args.get("default") is not None else []
    texts, kind = _alike(values)
    text = "".join(f" when {_truth(test)} then {value}" for test, value in zip(tests, texts, strict=False))
    text += f" else {texts[-1]}" if len(texts) > len(tests) else ""
    return _joined(f"(case{text} end)", kind, *tests, *values)


def _round(node: Any, read: Reader, _: Scope) -> SqlTerm:
    inner, decimals = read(node.this), node.args.get("decimals")
    places = "0" if decimals is None else str(decimals.this)
    if not places.isdigit() or int(places) > 12:
        raise sql_error("rounds to something else than 0 to 12 decimals", "write `round(a, 2)`", "DPR-P151")
    return _joined(f"round({_number(inner)}, {int(places)})", "number", inner)


def _total(name: str) -> Read:
    def read_it(node: Any, read: Reader, _: Scope) -> SqlTerm:
        if name == "count" and type(node.this).__name__ == "Star":
            return SqlTerm("cast(count(*) as double)", "number", is_summed=True)
        inner = read(node.this)
        if inner.is_summed:
            raise sql_error(f"has {name} of a sum", "take a total of rows, not of totals", "DPR-P153")
        text = inner.sql if name == "count" else _number(inner)
        return SqlTerm(f"cast({name}({text}) as double)", "number", None, inner.uses, _NONE, True)

    return read_it


_READ: dict[str, tuple[set[str], Read]] = {
    "Column": ({"this", "table"}, _column),
    "Literal": ({"this", "is_string"}, _literal),
    "Boolean": ({"this"}, lambda node, *_: SqlTerm("true" if node.this else "false", "boolean")),
    "Null": (set(), lambda *_: SqlTerm("null", "null")),
    "Paren": ({"this"}, _paren),
    "Neg": ({"this"}, _form("(- {0})")),
    "Add": (_TWO, _form("({0} + {1})")),
    "Sub": (_TWO, _form("({0} - {1})")),
    "Mul": (_TWO, _form("({0} * {1})")),
    "Div": (_TWO, _form("({0} / nullif({1}, 0))")),
    "Nullif": (_TWO, _form("nullif({0}, {1})")),
    "EQ": (_TWO, _comparison("=")),
    "NEQ": (_TWO, _comparison("<>")),
    "GT": (_TWO, _comparison(">")),
    "GTE": (_TWO, _comparison(">=")),
    "LT": (_TWO, _comparison("<")),
    "LTE": (_TWO, _comparison("<=")),
    "And": (_TWO, _form("({0} and {1})", _truth, "boolean")),
    "Or": (_TWO, _form("({0} or {1})", _truth, "boolean")),
    "Not": ({"this"}, _form("(not {0})", _truth, "boolean")),
    "Is": (_TWO, _is_null),
    "Between": ({"this", "low", "high"}, _between),
    "In": ({"this", "expressions"}, _in),
    "Case": ({"ifs", "default"}, _case),
    "Coalesce": ({"this", "expressions"}, _form("coalesce({all})")),
    "Least": ({"this", "expressions"}, _form("least({all})")),
    "Greatest": ({"this", "expressions"}, _form("greatest({all})")),
    "Round": ({"this", "decimals"}, _round),
    "Abs": ({"this"}, _form("abs({0})")),
    "Floor": ({"this"}, _form("floor({0})")),
    "Ceil": ({"this"}, _form("ceil({0})")),
    "Exp": ({"this"}, _form("exp({0})")),
    "Sqrt": ({"this"}, _form("pow({0}, 0.5)")),
    "Ln": ({"this"}, _form("ln(nullif(greatest({0}, 0), 0))")),
    "Sum": ({"this"}, _total("sum")),
    "Avg": ({"this"}, _total("avg")),
    "Min": ({"this"}, _total("min")),
    "Max": ({"this"}, _total("max")),
    "Count": ({"this"}, _total("count")),
}
