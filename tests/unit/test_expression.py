"""Expressions: what is read, what it means, its canonical text, and that everything else is refused quickly."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import get_args

import pytest

from dprelease.catalog.expressions.expression import Expression, ExpressionError, Scalar, letters, parse
from dprelease.catalog.expressions.tree import FUNCTIONS, MOST_DEPTH, Node, NodeKind
from dprelease.catalog.table import ColumnType
from tests.reference_expressions import evaluate
from tests.unit.expression_texts import TYPES as DRAWN
from tests.unit.expression_texts import expression as drawn

CORPUS = Path(__file__).with_name("expression_corpus.txt")
TYPES: dict[str, ColumnType] = {
    "age": "integer",
    "income": "decimal",
    "sex": "text",
    "day": "date",
    "seen": "timestamp",
    "ok": "boolean",
    "odd name": "text",
}


def hostile() -> list[str]:
    lines = CORPUS.read_text(encoding="utf-8").split("\n")
    texts = [line for line in lines if line and not line.startswith("## ")]
    return [json.loads(text[5:]) if text.startswith("json:") else text for text in texts]


def value(text: str, **row: Scalar | None) -> Scalar | None:
    return evaluate(parse(text, TYPES), row)


CANONICAL = [
    ("age>=18", "age >= 18", "boolean"),
    ("income / 2 + age*-3 > 1e3", "income / 2 + age * -3 > 1000.0", "boolean"),
    ("age - (age - 1) - 2", "age - (age - 1) - 2", "decimal"),
    ("(age * 2) + (3 / (4 * age))", "age * 2 + 3 / (4 * age)", "decimal"),
    ("- - age", "-(-age)", "decimal"),
    ("-(5)", "-5", "integer"),
    ("- 0.0", "0.0", "decimal"),
    ("-(-9223372036854775808)", "-(-9223372036854775808)", "decimal"),
    ("1e22 + 1E-7", "1e+22 + 1e-07", "decimal"),
    ("day>='2024-03-01'", "day >= DATE '2024-03-01'", "boolean"),
    ("cast(seen as date) < date '2020-02-29'", "CAST(seen AS DATE) < DATE '2020-02-29'", "boolean"),
    ("cast('2024-01-01' as date)", "DATE '2024-01-01'", "date"),
    ("try_cast(sex as integer)", "CAST(sex AS INTEGER)", "integer"),
    ("cast(sex as text)", "sex", "text"),
    ("cast(null as decimal)", "CAST(NULL AS DECIMAL)", "decimal"),
    ("case when ok then 1 else 2.5 end", "CASE WHEN ok THEN 1 ELSE 2.5 END", "decimal"),
    ("case when ok then 'a' end", "CASE WHEN ok THEN 'a' ELSE NULL END", "text"),
    ("case when ok then day else '2024-01-01' end", "CASE WHEN ok THEN day ELSE DATE '2024-01-01' END", "date"),
    ("sex in ('a','b''c') or not ok and age between 1 and 5", "sex IN ('a', 'b''c') OR NOT ok AND age BETWEEN 1 AND 5", "boolean"),
    ("not (sex is null)", "sex IS NOT NULL", "boolean"),
    ("not age in (1)", "age NOT IN (1)", "boolean"),
    ("not (age between 1 and 2 or ok)", "NOT (age BETWEEN 1 AND 2 OR ok)", "boolean"),
    ("not (not ok)", "ok", "boolean"),
    ("ok = (age = 3)", "ok = (age = 3)", "boolean"),
    ("ok = (not ok)", "ok = (NOT ok)", "boolean"),
    ("ok or (ok or ok) or ok and (ok and ok)", "ok OR ok OR ok OR ok AND ok AND ok", "boolean"),
    ("ok and (ok or ok)", "ok AND (ok OR ok)", "boolean"),
    ('"odd name" = \'\' and "age" > 3', "\"odd name\" = '' AND age > 3", "boolean"),
    ("round(income) + floor(age)", "ROUND(income) + age", "decimal"),
    ("round(income)", "ROUND(income)", "integer"),
    ("substring(sex, 2, 3) = left(sex, 0)", "SUBSTRING(sex, 2, 3) = LEFT(sex, 0)", "boolean"),
    ("(((age)))", "age", "integer"),
    ("'-- ; /* \\ %'", "'-- ; /* \\ %'", "text"),
    ("age in (-1,\n1)", "age IN (-1, 1)", "boolean"),
    ("age in (1, 2.5)", "age IN (1, 2.5)", "boolean"),
    ("day in ('2024-01-01', date '2024-01-02')", "day IN (DATE '2024-01-01', DATE '2024-01-02')", "boolean"),
]  # fmt: skip


@contextmanager
def steps_below(most: int) -> Iterator[None]:
    """Calls are counted and not seconds, which whatever else runs on the machine would stretch."""
    steps = 0

    def step(*_: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(step)
    try:
        yield
    finally:
        sys.setprofile(None)
    assert steps < most


@pytest.mark.parametrize(("text", "canonical", "kind"), CANONICAL)
def test_what_is_read(text: str, canonical: str, kind: str) -> None:
    read = parse(text, TYPES)
    assert (read.text, read.type) == (canonical, kind)
    again = parse(read.text, TYPES)
    assert (again, again.text, hash(again)) == (read, read.text, hash(read))


def test_names_are_exact_and_odd_ones_are_quoted() -> None:
    odd = ["select", "Age", "AGE", "a b", 'a"b', "größe", "", "in", "NULL", "date", "left", "0", "a'; --", "{}", "f("]
    types: dict[str, ColumnType] = dict.fromkeys(odd, "integer")
    for name in odd:
        read = parse('"' + name.replace('"', '""') + '" > 1', types)
        assert read.columns == {name}
        assert parse(read.text, types) == read
    assert parse("Age > AGE", types).columns == {"Age", "AGE"}
    assert parse("date > left and select > 1", types).columns == {"date", "left", "select"}
    with pytest.raises(ExpressionError, match="did you mean"):
        parse("age > 1", types)
    with pytest.raises(ExpressionError, match="constants only"):
        parse("left IN (date)", types)


def test_the_whole_grammar_round_trips() -> None:
    """Random trees of all types: the canonical text reads back as the same tree, and every kind occurs."""
    draw, seen = Random(5), set[str]()
    kinds: tuple[ColumnType, ...] = get_args(ColumnType)
    accepted = 0
    for number in range(720):
        text = drawn(draw, kinds[number % len(kinds)], draw.randrange(1, 5))
        try:
            read = parse(text, DRAWN)
        except ExpressionError as error:
            if any(words in str(error) for words in ("too deeply", "more than", "longer than", "is not a day")):
                continue
            raise
        accepted += 1
        assert read.type == kinds[number % len(kinds)], text
        again = parse(read.text, DRAWN)
        assert again == read, text
        assert (again.text, hash(again), again.columns) == (read.text, hash(read), read.columns), text
        seen |= {node.kind for node in nodes(read.root)}
    assert accepted > 600
    assert seen == set(get_args(NodeKind))


def nodes(node: Node) -> list[Node]:
    return [node, *(below for part in node.parts for below in nodes(part))]


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("age / 0", {"age": 1}, None),
        ("age / 0 IS NULL", {"age": 1}, True),
        ("income * 10", {"income": 1e308}, None),
        ("1 / (income * 10)", {"income": 1e308}, None),
        ("income * 0", {"income": -1.0}, 0.0),
        ("age + 1", {"age": 2}, 3.0),
        ("age + 1 > 2", {"age": None}, None),
        ("ok AND age > 1", {"ok": False, "age": None}, False),
        ("ok OR age > 1", {"ok": True, "age": None}, True),
        ("NOT ok", {"ok": None}, None),
        ("age > 9007199254740992", {"age": 2**53 + 1}, True),
        ("age = 9007199254740992.0", {"age": 2**53 + 1}, True),
        ("age BETWEEN income AND 1", {"age": 2, "income": None}, False),
        ("age NOT IN (1, 2)", {"age": None}, None),
        ("LEAST(age, 3)", {"age": None}, None),
        ("COALESCE(age, 3)", {"age": None}, 3),
        ("COALESCE(age, 2.5)", {"age": 2}, 2.0),
        ("NULLIF(age, income)", {"age": 2, "income": None}, 2.0),
        ("CASE WHEN age > 1 THEN 'a' END", {"age": None}, None),
        ("ROUND(income)", {"income": -2.5}, -3),
        ("ROUND(income)", {"income": 0.49999999999999994}, 0),
        ("FLOOR(income)", {"income": 1e19}, None),
        ("CEIL(income)", {"income": -0.5}, 0),
        ("ABS(age)", {"age": -(2**63)}, None),
        ("CAST(income AS INTEGER)", {"income": 1.5}, None),
        ("CAST(income AS TEXT)", {"income": 15400.0}, "15400"),
        ("CAST(income AS TEXT)", {"income": 1e300}, "1e+300"),
        ("CAST(sex AS INTEGER)", {"sex": " +012\n"}, 12),
        ("CAST(sex AS INTEGER)", {"sex": "9223372036854775808"}, None),
        ("CAST(sex AS INTEGER)", {"sex": "9" * 9999}, None),
        ("CAST(sex AS DECIMAL)", {"sex": "1e400"}, None),
        ("CAST(sex AS DECIMAL)", {"sex": "nan"}, None),
        ("CAST(sex AS BOOLEAN)", {"sex": "T"}, True),
        ("CAST(sex AS DATE)", {"sex": "2023-02-29"}, None),
        ("CAST(seen AS DATE)", {"seen": "2024-02-29T23:59:59+02:00"}, "2024-02-29"),
        ("CAST(age AS BOOLEAN)", {"age": 2}, None),
        ("CAST(ok AS TEXT)", {"ok": True}, "true"),
        ("UPPER(sex)", {"sex": "straße ı ς é ŉ"}, "STRAẞE I Σ É ŉ"),
        ("LOWER(sex)", {"sex": "İ ΟΔΟΣ Ж Ⅷ"}, "i οδοσ ж Ⅷ"),
        ("TRIM(sex)", {"sex": "\t a \u00a0\r\n"}, "a \u00a0"),
        ("LENGTH(sex)", {"sex": "e\u0301"}, 2),
        ("SUBSTRING(sex, 2, 1)", {"sex": "äöü"}, "ö"),
        ("sex < 'b'", {"sex": "Z"}, True),
        ("YEAR(day) * 100 + MONTH(day)", {"day": "2024-03-01"}, 202403.0),
        ("DAY(seen)", {"seen": "2024-03-31 10:00"}, 31),
        ("-income", {"income": 0.0}, 0.0),
        ("-age", {"age": -(2**63)}, 2.0**63),
    ],
)
def test_what_it_means(text: str, row: dict[str, Scalar | None], expected: Scalar | None) -> None:
    found = value(text, **row)
    assert repr(found) == repr(expected)  # repr: 2 is not 2.0, and 0.0 is not -0.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agee > 1", "did you mean age?"),
        ("Age > 1", "did you mean age?"),
        ("age == 1", "write = instead of =="),
        ("age != 1", "write <> instead of !="),
        ("lowr(sex) = 'a'", "did you mean LOWER?"),
        ("sex = \"sax\"", "did you mean sex?"),
        ("\"male\" = 'x'", "text is written in single quotes"),
        ("sex LIKE 'a%'", "STARTS_WITH"),
        ("age = NULL", "write x IS NULL"),
        ("ok IS TRUE", "= true"),
        ("ROUND(income, 2)", "ROUND takes 1 argument, not 2: it rounds to a whole number"),
        ("age::TEXT", "write CAST"),
        ("seen > '2024-01-01'", "CAST(x AS DATE)"),
        ("day = '2024-02-30'", "'2024-02-30' is not a day"),
        ("sex = '{{ period }}'", "was not filled in"),
        ("persons.age > 1", "without its table"),
        ("(ok", ") is missing before the end"),
        ("CAST(day AS INTEGER)", "date cannot become integer"),
        ("age IN (SELECT 1)", "constants only"),
        ("CASE WHEN ok THEN 1", "END is missing before the end"),
    ],
)  # fmt: skip
def test_messages_say_what_to_type(text: str, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, TYPES)
    assert words in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_everything_hostile_is_refused() -> None:
    texts = hostile()
    assert len(set(texts)) >= 600
    for text in texts:
        with steps_below(5_000_000), pytest.raises(ExpressionError) as caught:
            print("accepted:", ascii(text), parse(text, TYPES).text)
        assert len(str(caught.value)) < 400
        assert str(caught.value).isprintable()


def test_nothing_hostile_becomes_a_constant_or_a_name() -> None:
    """A dangerous text in quotes is a text, and only that; a column of a dangerous name is a column."""
    for text in hostile():
        if not text or len(text) > 1000 or not text.isprintable() or "{{" in text or "${" in text:
            continue
        try:
            read = parse("sex = '" + text.replace("'", "''") + "'", TYPES)
        except ExpressionError as error:
            if "invisible" in str(error):
                continue
            raise
        assert read.root.parts[1].value == text
        name = parse('"' + text.replace('"', '""') + '" > 1', {text: "integer"})
        assert name.columns == {text}


DEEP = [
    pattern.format(a * count + b + c * count)
    for count in (33, 150, 1300)
    for pattern in ("{}", "age > 1 AND {}", "CASE WHEN {} THEN 1 END")
    for a, b, c in [
        ("(", "ok", ")"),
        ("(", "", ""),
        ("NOT ", "ok", ""),
        ("NOT (", "ok", ")"),
        ("ok = NOT ", "ok", ""),
        ("- ", "age", ""),
        ("-(", "age", ")"),
        ("age BETWEEN 1 AND NOT ", "ok", ""),
        ("age BETWEEN ", "1 AND 2", ""),
        ("age BETWEEN age BETWEEN 1 AND 2 AND ", "1", ""),
        ("age IN (", "1", ")"),
        ("ABS(", "age", ")"),
        ("COALESCE(age, ", "age", ")"),
        ("CASE WHEN ", "ok", " THEN ok END"),
        ("CASE WHEN ok THEN ", "ok", " END"),
        ("CASE ", "", ""),
        ("CAST(", "age", " AS TEXT)"),
        ("CAST(", "", ""),
        ("[", "1", "]"),
        ("{{", "1", "}}"),
        ("age + ", "'x'", ""),
        ("1/", "0 IS NULL IS NULL", ""),
        ("ok IS NULL = ", "ok", ""),
        ('"', "", ""),
        ("''", "'", ""),
        ("/*", "", "*/"),
        ("age age ", "", ""),
        ("1 ", "", ""),
        ("NOT ok AND ", "", ""),
        ("EXISTS(", "", ""),
        (" ", "", ""),
    ]
    if pattern != "{}" or b or count > 33
]
WIDE = [
    " + ".join(["age"] * 40),
    "(" + " + ".join(["age"] * 20) + ")" + " + age" * 20,
    "LOWER(" * 12 + "sex" + ")" * 12,
    "1 / (" * 20 + "age" + ")" * 20,
    " AND ".join(["ok"] * 501),
    " OR ".join(["age > 1"] * 200),
    "age IN (" + ",".join("1" * 1001) + ")",
    "age > " + "9" * 3000,
    "income > 1" + "0" * 400 + ".0",
    "income > 0." + "0" * 400 + "1",
    "ok AND" + " " * 4000 + "ok",
    "sex = '" + "x" * 4000 + "'",
    "age > 1 -- " + "x" * 5000,
    "LEAST(" + ", ".join(["age"] * 51) + ") > 1",
    "(age)+" * 600 + "'x' > 1",
    "CASE " + "WHEN ok THEN 1 " * 240 + "ELSE '1' END = 1",
    "x" * 4001,
    "-" * 4000,
    "\x00" * 4000,
]


@pytest.mark.thin(every=4)
@pytest.mark.parametrize("text", [*DEEP, *WIDE], ids=lambda text: f"{text[:24]!a}{len(text)}")
def test_deep_and_wide_ones_are_refused_in_time(text: str) -> None:
    with steps_below(5_000_000), pytest.raises(ExpressionError):
        print(parse(text, TYPES).text)


def test_the_limits_can_be_reached_from_a_deep_stack() -> None:
    """What is allowed at all is allowed however deep the caller is: sqlglot is never asked to recurse."""
    texts = {
        "ABS(": "age",
        "-(": "age",
        "NOT (ok AND ": "ok",
        "CASE WHEN ok THEN age ELSE (": "age",
        "COALESCE(NULL, ": "age",
    }
    for opening, inner in texts.items():
        closing = ") END" if opening.startswith("CASE") else ")"
        levels = MOST_DEPTH // 2 - 1
        text = opening * levels + inner + closing * levels
        expected = parse(text, TYPES)
        assert expected.root.depth <= MOST_DEPTH

        def deeper(left: int, text: str = text) -> Expression:
            return deeper(left - 1) if left else parse(text, TYPES)

        assert deeper(500) == expected
        assert parse(expected.text, TYPES) == expected


def test_long_ones_are_read_in_time() -> None:
    with steps_below(5_000_000):
        assert parse("age IN (" + ",".join("1" * 1000) + ")", TYPES).type == "boolean"
        assert parse(" OR ".join(["age > 1"] * 160), TYPES).root.size == 481
        assert parse(" + ".join(["age"] * 30), TYPES).type == "decimal"


def test_letters_change_alike_everywhere() -> None:
    """The tables must not change with the version of Python."""
    digests = {
        False: "c4406e0110094884e9e1d9c6da9ac71103f9b064de10d4337ff618295412f7df",
        True: "2f6902324f7e52c91d5aaa8e521b9e10cc65efdf4489e956f56d2d1921787d94",
    }
    for upper, digest in digests.items():
        old, new = letters(upper)
        assert len(old) == len(new) == len(set(old)) > 700
        assert hashlib.sha256((old + new).encode()).hexdigest() == digest
    lower = dict(zip(*letters(False), strict=True))
    raised = dict(zip(*letters(True), strict=True))
    assert [lower[letter] for letter in "AZ\u00c4\u0130\u03a3\u1e9e\uff21"] == list("az\u00e4i\u03c3\u00df\uff41")
    assert [raised[letter] for letter in "az\u00e4\u0131\u03c2\u00df\uff41"] == list("AZ\u00c4I\u03a3\u1e9e\uff21")
    assert not set("\u0251\u0149\u01f0\u0390") & set(raised)


def test_functions_are_listed_once() -> None:
    assert {kind for kind, _, _ in FUNCTIONS.values()} <= set(get_args(NodeKind))
    assert set(FUNCTIONS) == {kind.upper() for kind, _, _ in FUNCTIONS.values()}


def test_sqlglot_waits_until_it_is_needed() -> None:
    code = "import sys, dprelease.catalog.expressions.expression; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
