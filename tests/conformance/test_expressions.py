"""The engine computes what ``evaluate`` says, for every kind of step on every row, and nothing makes it fail."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice, product
from random import Random
from typing import Any, get_args

import ibis
import pyarrow as pa
import pytest

from dprelease.catalog.expressions.expression import Expression, ExpressionError, Node, Scalar, parse
from dprelease.catalog.expressions.tree import NodeKind
from dprelease.catalog.table import ColumnType
from dprelease.engines.duck.backend import locked_connection
from dprelease.engines.duck.columns.expressions import to_ibis
from dprelease.engines.files.rows import ARROW
from tests.reference_expressions import evaluate
from tests.unit.expression_texts import TYPES
from tests.unit.expression_texts import expression as drawn

Row = dict[str, Scalar | None]

VALUES: dict[ColumnType, list[Scalar | None]] = {
    "integer": [
        *(None, 0, 1, -1, 2, 7, 10, -10, 2024, 2**31, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 10**18),
        *(2**62, 2**63 - 1, 2**63 - 513, 2**63 - 1024, -(2**63), -(2**63) + 1),
    ],
    "decimal": [
        *(None, 0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 0.30000000000000004, 0.49999999999999994, 7.0),
        *(1e308, -1.7976931348623157e308, 5e-324, -5e-324, 2.2250738585072014e-308, 1e15, 1e16, 1e22, 1e-5, 1e-4),
        *(2.0**53, 2.0**53 + 2, 4503599627370497.5, -4503599627370496.5, 123456789.125),
        *(2.0**63, -(2.0**63), 2.0**63 - 1024, -(2.0**63) - 2048, 9.5e18),
    ],
    "text": [
        *(None, "", " ", "a", "A", "ab", "b", "abc'\"\\", "%", "_", "a\nb", "\n", "[1]", "{{x}}", "'; DROP TABLE t; --"),
        *("x\0y", "\0", "a\0", "\x7f", "\x80", "\ufeff", "\u202eab", "\ud7ff\ue000\U0010ffff", "\U0001f926\u200d\u2642"),
        *("ß", "ẞ", "İıſK\u212a", "ΑΒΓΣς", "ÄÖÜäöüéÉ", "ДЯдя", "\u01c5\u01c4\u01c6", "e\u0301", "\u00e9", "\u00a0a\u00a0"),
        *("\u3000b", " \t\n\v\f\r7\r\n", "7\x1c", "\u20287", "12", " +12 ", "+-1", "- 1", "-0", "0" * 40 + "12", "1e3"),
        *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1_000", "１２"),
        *("1.0", ".5", "5.", ".", "+.5e+1", "1e", "1e400", "-1e400", "1e-400", "-0.0", "nan", "inf", "-Infinity", "0x10"),
        *("9" * 5000, "1" * 400, "0." + "0" * 400 + "1", "2.4703282292062328e-324", "1.7976931348623159e308"),
        *("0.1000000000000000055511151231257827021181583404541015625", "1" * 310 + "e-300", "1e99999999999999999999"),
        *("true", "TRUE", " t ", "F", "0", "1", "fal\u017fe", "yes", "t\n", "truefalse", "t|f", "on"),
        *("2024-02-29", "2023-02-29", " 2024-01-31 ", "2024-01-01\n", "0000-01-01", "0001-01-01", "9999-12-31"),
        *("10000-01-01", "2024-1-1", "2024-01-01x", "2024-01-01 00:00", "-2024-01-01", "2024-00-10", "2024-04-31"),
        *("1900-02-29", "2000-02-29", "infinity", "epoch", "today", "２０２４-01-01", "2024-01-01 (BC)"),
    ],
    "boolean": [None, True, False],
    "date": [None, "2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "garbage", "", "２０２４-01-01", "2024-01-0\n"],
    "timestamp": [
        *(None, "2024-02-29T10:00:00", "2024-03-01 10:00:00.123456789+02:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59"),
        *("2023-02-30T00:00", "", "xxxx-01-01T", "\n2024-01-01T00:00", "2024-01-01", "2024-01-01\n\n", "2024-13-01T00:00"),
    ],
}  # fmt: skip
N, X, S = "n", "x", "s"

# One text of each step alone, so that a difference is seen where it begins.
NUMBERS = [
    *(f"{a} {sign} {b}" for sign in ("+", "-", "*", "/") for a, b in product("nx", "my")),
    *(f"{a} {sign} {b}" for sign in ("=", "<>", "<", "<=", ">", ">=") for a, b in product("nx", "my")),
    *("-n", "-x", "ABS(n)", "ABS(x)", "ROUND(x)", "FLOOR(x)", "CEIL(x)", "ROUND(n)", "ROUND(x * y)", "FLOOR(n / m)"),
    *("x * y / x", "x / (y / x)", "x / (x * y)", "x - y - (y - x)", "1 / (x * y)", "(x + y) * (x - y) / (x * x + 1) > n"),
    *("x * 0", "x * -1", "0 * -1", "x + y * 0", "-(x - y)", "ABS(x * y)", "ABS(x - y) / 2", "x / 0", "0 / x", "n / n"),
    *("CAST(x AS INTEGER)", "CAST(x AS TEXT)", "CAST(x AS BOOLEAN)", "CAST(x / y AS TEXT)", "CAST(-x AS TEXT)"),
    *("CAST(n AS DECIMAL)", "CAST(n AS TEXT)", "CAST(n AS BOOLEAN)", "CAST(x * y AS INTEGER)"),
    *("n = 9223372036854775807", "n < -9223372036854775807", "n > 9007199254740992", "n = 9007199254740993"),
    *("n > 9223372036854775807.0", "n = 9007199254740992.0", "n <= 9007199254740993.0", "n + 0 = 9007199254740992"),
    *("n + 1 = 9007199254740992", "n - 1 = -9007199254740992", "n * 2 = 20", "x / 2 = 0.25", "2 / x > 1", "10 - n > x"),
    *("CAST(n AS DECIMAL) = 9223372036854775807.0", "CAST(n AS TEXT) = '7'", "x = 0.1", "x > 0.3", "x = 1e308", "x < -5e-324"),
    *("n IN (1, 2, 9007199254740993, -9223372036854775808)", "n IN (1, 2.5, 9007199254740992.0)", "n NOT IN (1, 2)"),
    *("x IN (0, 1, 0.1, 9007199254740993)", "x NOT IN (0.5)", "n IN (7)", "n BETWEEN -5 AND 5", "n BETWEEN m AND 10"),
    *("n NOT BETWEEN m AND x", "x BETWEEN y AND n", "x BETWEEN 0 AND y", "n IS NULL", "x IS NOT NULL", "x / y IS NULL"),
    *("COALESCE(n, m, 0)", "COALESCE(n, x, 0.5)", "COALESCE(x / y, -1)", "COALESCE(n, NULL)", "COALESCE(x)"),
    *("NULLIF(n, m)", "NULLIF(n, 1)", "NULLIF(x, y)", "NULLIF(n, x)", "NULLIF(x * y, 0)", "LEAST(n, m)", "LEAST(n)"),
    *("GREATEST(n, m, 5)", "LEAST(x, n)", "GREATEST(x, y, 0.5)", "LEAST(GREATEST(x, 0), 100)", "CASE WHEN n > m THEN n END"),
    *("CASE WHEN x > y THEN n WHEN n IS NULL THEN x ELSE 0 END", "CASE WHEN n = 1 THEN NULL ELSE x / y END"),
    *("-(-9223372036854775808)", "FLOOR(n / 10) * 10", "1e-7", "TRUE", "-9223372036854775808", "CAST(NULL AS INTEGER)"),
]  # fmt: skip
TEXTS = [
    *(f"s {sign} {other}" for sign in ("=", "<>", "<", "<=", ">", ">=") for other in ("'a'", "u")),
    *("LOWER(s)", "UPPER(s)", "TRIM(s)", "LENGTH(s)", "LEFT(s, 0)", "LEFT(s, 1)", "LEFT(s, 3)", "LEFT(s, 1000000)"),
    *("SUBSTRING(s, 1)", "SUBSTRING(s, 2)", "SUBSTRING(s, 2, 2)", "SUBSTRING(s, 3, 0)", "SUBSTRING(s, 1000000, 1000000)"),
    *("STARTS_WITH(s, 'a')", "STARTS_WITH(s, '')", "STARTS_WITH(s, LEFT(s, 2))", "STARTS_WITH(u, s)", "LENGTH(TRIM(s))"),
    *("CAST(s AS INTEGER)", "CAST(s AS DECIMAL)", "CAST(s AS BOOLEAN)", "CAST(s AS DATE)", "CAST(s AS INTEGER) = 12"),
    *("CAST(CAST(s AS DECIMAL) AS INTEGER)", "CAST(CAST(s AS DECIMAL) AS TEXT)", "CAST(TRIM(s) AS INTEGER)"),
    *("YEAR(CAST(s AS DATE))", "LOWER(UPPER(s))", "LEFT(s, 1) = 'a'", "s IN ('a', 'b', '', '%')", "s NOT IN ('a')"),
    *("s BETWEEN 'A' AND 'b'", "s IS NULL", "COALESCE(s, u, '')", "NULLIF(s, '')", "NULLIF(s, u)", "LEAST(s, u)"),
    *("GREATEST(s, 'b')", "CASE WHEN s > u THEN s ELSE 'it''s \\ %' END", "'\\'", "CASE WHEN s = '' THEN NULL ELSE s END"),
]  # fmt: skip
OTHERS = [
    *("day", "day = '2024-02-29'", "day < '2024-03-01'", "day >= CAST(seen AS DATE)", "day IN ('2024-02-29')", "YEAR(day)"),
    *("MONTH(day)", "DAY(day)", "YEAR(seen)", "MONTH(seen)", "DAY(seen)", "CAST(seen AS DATE)", "CAST(day AS TEXT)", "seen"),
    *("day BETWEEN '2024-01-01' AND '2024-12-31'", "day NOT BETWEEN '0001-01-01' AND day", "LEAST(day, '2024-01-01')"),
    *("COALESCE(day, DATE '2024-01-01')", "NULLIF(day, '2024-02-29')", "COALESCE(seen, seen)", "seen IS NULL", "day IS NULL"),
    *("p", "NOT p", "p = q", "p <> q", "p = true", "p AND q", "p OR q", "NOT (p AND q OR NOT q)", "p IN (true)", "p IS NULL"),
    *("COALESCE(p, q, false)", "NULLIF(p, q)", "CASE WHEN p THEN q ELSE p END", "CAST(p AS TEXT)", "CAST(p AS INTEGER)"),
    *("CAST(p AS DECIMAL)", "p AND day > '2024-01-01'", "CASE WHEN p AND q THEN day END", "DATE '2024-01-01'", "FALSE"),
]  # fmt: skip
ALONE: dict[str, tuple[dict[str, ColumnType], list[str]]] = {
    "numbers": ({"n": "integer", "m": "integer", "x": "decimal", "y": "decimal"}, NUMBERS),
    "texts": ({"s": "text", "u": "text"}, TEXTS),
    "others": ({"day": "date", "seen": "timestamp", "p": "boolean", "q": "boolean"}, OTHERS),
}


@pytest.fixture(scope="module")
def backend() -> Iterator[Any]:
    connection = locked_connection()
    yield connection
    connection.disconnect()


class Loaded:
    """Rows in the engine, and what the engine makes of expressions on them."""

    def __init__(self, backend: Any, name: str, types: dict[str, ColumnType], rows: Sequence[Row]) -> None:
        self.types, self.rows = types, rows
        arrays = {
            f"c{at}": pa.array([row[column] for row in rows], ARROW[kind])
            for at, (column, kind) in enumerate(types.items())
        }
        arrays["row"] = pa.array(range(len(rows)), pa.int64())
        self._backend, self._table = backend, backend.create_table(name, pa.table(arrays))

    def _column(self, name: str) -> Any:
        return self._table[f"c{list(self.types).index(name)}"]

    def computed(self, expressions: Sequence[Expression]) -> list[list[Scalar | None]]:
        columns = {f"v{at}": to_ibis(each, self._column) for at, each in enumerate(expressions)}
        answer = self._backend.to_pyarrow(self._table.select("row", **columns)).sort_by("row")
        for at, each in enumerate(expressions):
            assert answer.column(f"v{at}").type == ARROW[each.type], each.text
        return [answer.column(f"v{at}").to_pylist() for at in range(len(expressions))]

    def kept(self, condition: Expression) -> list[int]:
        """The rows that a filter keeps, which takes other ways through the engine's optimiser."""
        answer = self._backend.to_pyarrow(self._table.filter(to_ibis(condition, self._column)).select("row"))
        return sorted(answer.column("row").to_pylist())


def agree(loaded: Loaded, expressions: Sequence[Expression]) -> None:
    for each, found in zip(expressions, loaded.computed(expressions), strict=True):
        wanted = [evaluate(each, row) for row in loaded.rows]
        wrong = [at for at, pair in enumerate(zip(wanted, found, strict=True)) if repr(pair[0]) != repr(pair[1])]
        shown = [(loaded.rows[at], wanted[at], found[at]) for at in wrong[:3]]
        assert not wrong, (each.text, len(wrong), shown)


def crossed(types: dict[str, ColumnType], draw: Random) -> list[Row]:
    """Pairs of values of the first two columns, of the last two, of the first and the last; the rest as drawn."""
    names = list(types)
    rows: list[Row] = []
    for first, second in {tuple(names[:2]), tuple(names[-2:]), (names[0], names[-1])}:
        pairs = list(product(VALUES[types[first]], VALUES[types[second]]))
        for one, two in draw.sample(pairs, min(len(pairs), 2500)):
            row: Row = {name: draw.choice(VALUES[kind]) for name, kind in types.items()}
            rows.append({**row, first: one, second: two})
    return rows


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("group", ALONE)
def test_every_step_alone_is_what_it_means(backend: Any, group: str) -> None:
    types, texts = ALONE[group]
    loaded = Loaded(backend, group, types, crossed(types, Random(1)))
    expressions = [parse(text, types) for text in texts]
    for at in range(0, len(expressions), 40):
        agree(loaded, expressions[at : at + 40])
    conditions = [each for each in expressions if each.type == "boolean"]
    for each in conditions[::3]:
        assert loaded.kept(each) == [at for at, row in enumerate(loaded.rows) if evaluate(each, row) is True], each.text


def test_the_list_of_steps_is_whole() -> None:
    kinds = {node.kind for types, texts in ALONE.values() for text in texts for node in nodes(parse(text, types).root)}
    assert kinds == set(get_args(NodeKind))


def nodes(node: Node) -> list[Node]:
    return [node, *(below for part in node.parts for below in nodes(part))]


def expressions_of(draw: Random, kinds: Sequence[ColumnType], depth: int) -> Iterator[Expression]:
    while True:
        try:
            yield parse(drawn(draw, draw.choice(kinds), depth), TYPES)
        except ExpressionError:
            continue


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_steps_in_each_other_are_what_they_mean(backend: Any, depth: int) -> None:
    draw = Random(depth)
    rows: list[Row] = [{name: draw.choice(VALUES[kind]) for name, kind in TYPES.items()} for _ in range(300)]
    rows.append(dict.fromkeys(TYPES, None))
    loaded = Loaded(backend, f"nested{depth}", TYPES, rows)
    found = expressions_of(draw, get_args(ColumnType), depth)
    for _ in range(2):
        agree(loaded, list(islice(found, 20)))
    for each in islice(expressions_of(draw, ["boolean"], depth), 8):
        assert loaded.kept(each) == [at for at, row in enumerate(rows) if evaluate(each, row) is True], each.text


def test_doubles_are_written_and_read_alike(backend: Any) -> None:
    """Ten thousand doubles of every size through their texts and back."""
    draw = Random(2)
    drawn_bits = [math.ldexp(draw.choice((-1, 1)) * draw.random(), draw.randrange(-1074, 1024)) for _ in range(8000)]
    short = [draw.randrange(10 ** draw.randrange(1, 18)) / 10.0 ** draw.randrange(25) for _ in range(2000)]
    rows: list[Row] = [{"x": value + 0.0, "s": f"{value!r}"} for value in (*drawn_bits, *short)]
    loaded = Loaded(backend, "doubles", {"x": "decimal", "s": "text"}, rows)
    texts = ["CAST(x AS TEXT)", "CAST(s AS DECIMAL)", "CAST(s AS DECIMAL) = x", "ROUND(x)", "FLOOR(x)", "CEIL(x)"]
    agree(loaded, [parse(text, loaded.types) for text in texts])
    constants = [parse(f"{abs(value)!r}", {}) for value in islice((value for value in drawn_bits if value), 200)]
    for each, found in zip(constants, loaded.computed(constants), strict=True):
        assert set(found) == {evaluate(each, {})}


def test_all_characters_keep_their_place(backend: Any) -> None:
    """Code points of every kind, alone and between others: order, length, case, blanks and parts of texts."""
    codes = [*range(0x600), *range(0x1680, 0x10000, 61), *range(0x1E90, 0x2070), 0x2126, 0x212A, 0x212B, 0x3000, 0xFEFF]
    codes = [code for code in (*codes, 0x10400, 0x1F926, 0x10FFFF) if not 0xD800 <= code < 0xE000]
    rows: list[Row] = [{"s": text} for code in codes for text in (chr(code), f"a{chr(code)}Z ")]
    loaded = Loaded(backend, "characters", {"s": "text"}, rows)
    texts = [
        "LOWER(s)",
        "UPPER(s)",
        "TRIM(s)",
        "LENGTH(s)",
        "LEFT(s, 1)",
        "SUBSTRING(s, 2, 1)",
        "s < 'a\u00e9'",
        "s = 'a'",
    ]
    casts = [f"CAST(s AS {kind})" for kind in ("INTEGER", "DECIMAL", "BOOLEAN", "DATE")]
    agree(loaded, [parse(text, loaded.types) for text in texts + casts])


def test_hostile_constants_stay_constants(backend: Any) -> None:
    rows: list[Row] = [{"s": text} for text in ("'", "';--", "\\", "$$", "{0}", "a\nb", "%s", "?", "/*", '"', "''")]
    loaded = Loaded(backend, "hostile", {"s": "text"}, rows)
    quoted = ["'" + str(row["s"]).replace("'", "''") + "'" for row in rows]
    agree(loaded, [parse(f"s = {text}", loaded.types) for text in quoted])
    agree(loaded, [parse(f"s IN ({text}, 'x')", loaded.types) for text in quoted])


WRITTEN = {
    "x": [
        *("({}) + 1", "1 - ({})", "({}) / 2", "1 / ({})", "-({})", "ABS({})", "ROUND({}) / 2", "NULLIF({}, 1.5)"),
        *("LEAST({}, 1.5)", "CASE WHEN ({}) > 0.5 THEN ({}) ELSE 0.5 END", "CAST(CAST({} AS TEXT) AS DECIMAL)"),
        *("CAST(CAST({} AS INTEGER) AS DECIMAL)", "CAST(CAST({} AS BOOLEAN) AS DECIMAL)", "COALESCE({}, 1)"),
    ],
    "s": [
        *("LOWER({})", "TRIM({})", "LEFT({}, 3)", "SUBSTRING({}, 2)", "CAST(CAST({} AS DATE) AS TEXT)"),
        *("CAST(CAST({} AS INTEGER) AS TEXT)", "CAST(CAST({} AS BOOLEAN) AS TEXT)", "CAST(LENGTH({}) AS TEXT)"),
        *("CAST(YEAR(CAST({} AS DATE)) AS TEXT)", "CAST(STARTS_WITH({}, 'a') AS TEXT)"),
    ],
}  # fmt: skip


@pytest.mark.thin(every=3)
@pytest.mark.parametrize(("column", "step"), [(column, step) for column, steps in WRITTEN.items() for step in steps])
def test_no_text_outgrows_its_limit(column: str, step: str) -> None:
    """The limit on a tree bounds the text that the engine gets: no operand stands more often than was counted."""
    types: dict[str, ColumnType] = {"x": "decimal", "s": "text"}
    table = ibis.table({"x": "float64", "s": "string"}, name="t")
    text = column
    for _ in range(4):
        text = step.replace("{}", text)
        try:
            read = parse(text, types)
        except ExpressionError:
            break
        sql = ibis.to_sql(table.select(v=to_ibis(read, table.__getitem__)), dialect="duckdb")
        assert str(sql).count(f'"{column}"') <= read.root.unfolded


def test_comparisons_that_were_compiled_before_are_the_same_statement() -> None:
    """Whatever came before: numbers that are equal and not the same, of one type and of another, are told apart."""
    types: dict[str, ColumnType] = {"x": "decimal", "n": "integer", "b": "boolean", "s": "text"}
    table = ibis.table({"x": "float64", "n": "int64", "b": "boolean", "s": "string"}, name="t")
    texts = (
        *("x = 0.0", "x = -0.0", "n = 1", "x = 1", "b = TRUE", "s = '1'", "n IN (1, 2)", "x IN (1, 2)"),
        *("n BETWEEN 1 AND 2", "x IS NULL", "n = 1 AND x < 2.5", "NOT n = 1 OR x = -0.0", "x + 0.0 = 0.0"),
        *("CAST(x AS TEXT) = '0'", "CASE WHEN n = 1 THEN x ELSE -0.0 END = 0.0"),
    )
    known: dict[Node, Any] = {}
    for text in (*texts, *reversed(texts)):
        read = parse(text, types)
        found, anew = to_ibis(read, table.__getitem__, known), to_ibis(read, table.__getitem__)
        assert ibis.to_sql(table.select(v=found), "duckdb") == ibis.to_sql(table.select(v=anew), "duckdb")
    assert len(known) == 8
