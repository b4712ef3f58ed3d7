"""Reading the SQL of a derived table: a closed part of the language, checked without data and written anew.

What an author writes is parsed, every node is looked up in a closed list, and a new text is built of fixed pieces in
which all names are our own: nothing that an author wrote reaches the database as it stands. Everything that passes is
total: a root or a logarithm of what has none, or a division by 0, is null.

One ``select`` over published tables by the names of their queries: columns are keys and measures, tables are joined
on equal keys, rows are chosen by ``where`` and put together by ``group by``.

>>> tables = {"income": Columns(keys={"state": "text"}, numbers=("average", "middle_q50"))}
>>> found = check_derive("select state, average - middle_q50 as gap from income", tables)
>>> [(each.name, each.key is not None) for each in found.outputs]
[('state', True), ('gap', False)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from dprelease.publish.derive.terms import Columns, Scope, SqlTerm, sql_error, term

__all__ = ["Derivation", "OutputColumn", "check_derive"]

LONGEST = 20_000  # characters of one query
_LEVELS = 80  # of the whole tree
_NESTED = 25  # levels that are no chain of operators
_WORDS = {
    "with_": "with", "order": "order by", "limit": "limit", "having": "having", "distinct": "distinct",
    "windows": "window", "laterals": "lateral", "qualify": "qualify", "sample": "sample", "offset": "offset",
}  # fmt: skip


@dataclass(frozen=True)
class OutputColumn:
    """One column of a derived table.

    Attributes:
        name: As published.
        key: For a key the published table and its column; None for a number.
        uses: The numbers that it, or the choice of rows, is made of: (table, measure).
    """

    name: str
    key: tuple[str, str] | None
    uses: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Derivation:
    """A query that was read.

    ``plain`` and ``replicated`` read tables ``q0``, ``q1``, ... with a column ``row`` (0, 1, ...), the keys as ``k0``,
    ``k1``, ... and the numbers as ``v0``, ``v1``, ...; the second one also ``replicate``, and gives an answer for
    each of them: the number of the replicate is then the first column, ``replicate``. What tells the rows apart is in
    ``i0``, ``i1``, ..., and the outputs are in ``o0``, ``o1``, ....

    Attributes:
        tables: The published tables that are read: the first is ``q0``.
        outputs: The columns of the answer.
        told_by: What tells rows apart: (table, key column) where rows are put together, (table, None) for a row.
        plain: SQL for the published values.
        replicated: SQL for many replicates at once.
    """

    tables: tuple[str, ...]
    outputs: tuple[OutputColumn, ...]
    told_by: tuple[tuple[str, str | None], ...]
    plain: str
    replicated: str


@dataclass
class _Query:
    """What is known while the query is read: one entry per table of ``from``, under its alias."""

    known: Mapping[str, Columns]
    tables: list[str] = field(default_factory=list)
    aliases: dict[str, tuple[str, int]] = field(default_factory=dict)  # alias -> (table, place in `tables`)
    merged: set[str] = field(default_factory=set)  # columns of `using`, which need no alias
    joins: list[tuple[str, str]] = field(default_factory=list)  # (kind, condition)
    maybe: set[str] = field(default_factory=set)  # aliases of left joins, whose columns may be null

    def scope(self) -> Scope:
        return Scope({alias: (table, self.known[table]) for alias, (table, _) in self.aliases.items()}, self.merged)


def check_derive(sql: str, tables: Mapping[str, Columns]) -> Derivation:
    """Read the SQL of a derived table; pure, and without data.

    Args:
        sql: What the author wrote.
        tables: Every published table that can be named.

    Raises:
        PlanError: If it is no SQL (DPR-P150), has something that is not on the list (DPR-P151), names what is not
            there (DPR-P152), or puts together what does not fit (DPR-P153).
    """
    select = _parsed(sql)
    only(select, {"expressions", "from_", "joins", "where", "group"})
    query = _Query(tables)
    if select.args.get("from_") is None:
        raise sql_error("names no table", "write `select ... from NAME`, NAME a query of this spec", "DPR-P151")
    _table(select.args["from_"].this, query)
    for join in select.args.get("joins") or ():
        _join(join, query)
    scope = query.scope()
    where = _where(select, scope)
    groups = _groups(select, scope)
    terms = [_output(each, scope) for each in select.expressions]
    _check_names([name for name, _ in terms])
    summed = groups is not None or any(found.is_summed for _, found in terms)
    chosen = where.uses if where else frozenset()
    for name, found in terms:
        _check_grouping(name, found, summed, {each.sql for each in groups or ()})
    if all(found.column is not None and found.kind != "number" for _, found in terms):
        raise sql_error("publishes no number", "add one: `select state, a / b as rate from NAME`", "DPR-P153")
    outputs = tuple(OutputColumn(name, _key(found, query), found.uses | chosen) for name, found in terms)
    told = [_told(each, query) for each in groups or ()]
    told = told if summed else [(table, None) for table, _ in query.aliases.values()]
    ids = [each.sql for each in groups or ()] if summed else [f"a{at}.row" for at in range(len(query.aliases))]
    shown = [f"{sql} as i{at}" for at, sql in enumerate(ids)]
    shown += [f"{found.sql} as o{at}" for at, (_, found) in enumerate(terms)]
    again = ["a0.replicate as replicate", *shown]
    return Derivation(
        tables=tuple(query.tables),
        outputs=outputs,
        told_by=tuple(told),
        plain=_sql(query, shown, where, ids if summed and groups else [], replicated=False),
        replicated=_sql(query, again, where, ["a0.replicate", *ids] if summed else [], replicated=True),
    )


def _sql(query: _Query, shown: Sequence[str], where: SqlTerm | None, groups: Sequence[str], replicated: bool) -> str:
    places = [place for _, place in query.aliases.values()]
    text = " ".join(("select", ", ".join(shown), "from", f"q{places[0]} as a0"))
    for at, (kind, condition) in enumerate(query.joins, start=1):
        same = f" and a{at}.replicate = a0.replicate" if replicated else ""
        text += f" {kind} join q{places[at]} as a{at} on {condition}{same}"
    text += f" where {where.sql}" if where is not None else ""
    return text + (f" group by {', '.join(groups)}" if groups else "")


def _parsed(sql: str) -> Any:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    hint = "write one query such as `select state, a - b as gap from NAME`"
    if len(sql) > LONGEST:
        raise sql_error(f"has {len(sql)} signs, more than {LONGEST}", hint, "DPR-P150")
    try:
        found = sqlglot.parse(sql, dialect="duckdb")
    except (SqlglotError, RecursionError):
        raise sql_error("cannot be read as SQL", hint, "DPR-P150") from None
    statements = [each for each in found if each is not None]
    if len(statements) != 1 or type(statements[0]) is not exp.Select:
        raise sql_error("is not one `select`", hint, "DPR-P151")
    _check_depth(statements[0])
    return statements[0]


def _check_depth(select: Any) -> None:
    """Refuse what is nested so deeply that reading it could fail later, with less room on the stack.

    The parser needs a dozen calls for each level, but few for a chain such as ``a + b + c``, a level to its left each.
    """
    from sqlglot import exp

    found = [(select, 0, 0)]
    while found:
        node, level, nested = found.pop()
        if level > _LEVELS or nested > _NESTED:
            hint = f"nest at most {_NESTED} levels, and chain at most {_LEVELS} operators"
            raise sql_error("is nested too deeply", hint, "DPR-P151")
        for name, value in node.args.items():
            chained = isinstance(node, exp.Binary) and name == "this"
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, exp.Expression):
                    found.append((child, level + 1, nested + (not chained)))


def only(node: Any, allowed: set[str]) -> None:
    """Refuse a node that has more to it than the closed list says.

    Raises:
        PlanError: DPR-P151.
    """
    more = [name for name, value in node.args.items() if value and name not in allowed]
    if more:
        what = _WORDS.get(more[0], more[0].strip("_"))
        hint = "take one select with from, join, where and group by; rows come in the order of their keys"
        raise sql_error(f"has `{what}`, which a derived table cannot have", hint, "DPR-P151")


def _table(node: Any, query: _Query) -> str:
    """Add a table of ``from`` or ``join``; returns its alias."""
    from sqlglot import exp

    if type(node) is not exp.Table or type(node.this) is not exp.Identifier:
        hint = "name a query of this spec; files, functions and queries within queries cannot be read"
        raise sql_error("reads something that is no published table", hint, "DPR-P151")
    only(node, {"this", "alias"})
    name = node.name
    if name not in query.known:
        near = get_close_matches(name, query.known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the tables are: {', '.join(sorted(query.known)) or 'none'}"
        raise sql_error(f"reads {name!r}, which is no published table", hint, "DPR-P152")
    alias = node.alias or name
    if alias in query.aliases:
        hint = "give one of them another: `from a as b`"
        raise sql_error(f"uses the name {alias!r} for two tables", hint, "DPR-P152")
    if name not in query.tables:
        query.tables.append(name)
    query.aliases[alias] = (name, query.tables.index(name))
    return alias


def _join(node: Any, query: _Query) -> None:
    from sqlglot import exp

    only(node, {"this", "on", "using", "side", "kind"})
    side, kind = str(node.args.get("side") or "").lower(), str(node.args.get("kind") or "").lower()
    if (side, kind) not in {("", ""), ("", "inner"), ("left", ""), ("left", "outer")}:
        raise sql_error("has a join that is neither inner nor left", "write `join` or `left join`", "DPR-P151")
    before = query.scope()
    alias = _table(node.this, query)
    query.maybe |= {alias} if side else set()
    alone = Scope({alias: (query.aliases[alias][0], query.known[query.aliases[alias][0]])}, set(), len(query.joins) + 1)
    pairs = []
    for name in node.args.get("using") or ():
        column = exp.column(name.copy())
        pairs.append((term(column, before), term(column, alone)))
        query.merged.add(name.name)
    if node.args.get("on") is not None:
        both = query.scope()
        pairs += [(term(left, both), term(right, both)) for left, right in _equalities(node.args["on"])]
    if not pairs:
        raise sql_error("has a join without a condition", "write `join b on a.state = b.state`", "DPR-P151")
    for left, right in pairs:
        if left.column is None or right.column is None or "number" in (left.kind, right.kind):
            raise sql_error("joins on something else than keys", "write `on a.state = b.state`, both keys", "DPR-P153")
        if left.kind != right.kind:
            raise sql_error("joins keys of two types", "join on columns of the same type", "DPR-P153")
    query.joins.append(("left" if side else "inner", " and ".join(f"{a.sql} = {b.sql}" for a, b in pairs)))


def _equalities(node: Any) -> list[tuple[Any, Any]]:
    from sqlglot import exp

    if type(node) is exp.Paren:
        return _equalities(node.this)
    if type(node) is exp.And:
        return _equalities(node.this) + _equalities(node.expression)
    if type(node) is not exp.EQ:
        raise sql_error("joins on something else than equal keys", "write `on a.state = b.state and ...`", "DPR-P151")
    return [(node.this, node.expression)]


def _where(select: Any, scope: Scope) -> SqlTerm | None:
    if select.args.get("where") is None:
        return None
    found = term(select.args["where"].this, scope)
    if found.kind != "boolean" or found.is_summed:
        raise sql_error("has a `where` that is no condition on rows", "write `where n > 100`", "DPR-P153")
    return found


def _groups(select: Any, scope: Scope) -> list[SqlTerm] | None:
    if select.args.get("group") is None:
        return None
    only(select.args["group"], {"expressions"})
    found = [term(each, scope) for each in select.args["group"].expressions]
    if any(each.column is None or each.kind == "number" for each in found):
        raise sql_error("groups by something else than keys", "write `group by state`, a key column", "DPR-P153")
    return found


def _output(node: Any, scope: Scope) -> tuple[str, SqlTerm]:
    from sqlglot import exp

    named = type(node) is exp.Alias
    found = term(node.this if named else node, scope)
    if found.column is None and not named:
        raise sql_error("has a column without a name", "write `... as name`", "DPR-P153")
    if found.column is None and found.kind != "number":
        hint = "publish keys as they are, and numbers: `case when a > b then 1 else 0 end as larger`"
        raise sql_error(f"has a column {node.alias!r} that is no number and no key", hint, "DPR-P153")
    return (node.alias if named else node.name), found


def _check_names(names: Sequence[str]) -> None:
    lowered = [name.lower() for name in names]
    twice = next((name for name in names if lowered.count(name.lower()) > 1), None)
    if twice is not None:
        raise sql_error(f"has two columns named {twice!r}", "give one of them another name: `... as name`", "DPR-P153")


def _check_grouping(name: str, found: SqlTerm, summed: bool, groups: set[str]) -> None:
    if not summed:
        return
    if found.column is not None and found.kind != "number" and found.sql in groups:
        return
    if found.loose - groups:
        hint = "take sum, avg, min, max or count of it, or add the key to `group by`"
        raise sql_error(f"has a column {name!r} that many rows of a group can differ in", hint, "DPR-P153")


def _key(found: SqlTerm, query: _Query) -> tuple[str, str] | None:
    if found.column is None or found.kind == "number":
        return None
    alias, column = found.column
    if alias in query.maybe:
        hint = "take the key of the table that is joined to"
        raise sql_error(f"has the key {column!r} of a left join, which may be missing", hint, "DPR-P153")
    return (query.aliases[alias][0], column)


def _told(found: SqlTerm, query: _Query) -> tuple[str, str | None]:
    key = _key(found, query)
    assert key is not None  # noqa: S101 - groups are keys
    return key
