"""Strict YAML: YAML 1.2 scalars with their own digits, and every trick refused where it stands."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.errors import SpecError
from dprelease.spec.text.nodes import plain
from dprelease.spec.text.numbers import Constant, NotANumber, Numeral, read_rational
from dprelease.spec.text.yaml import _quickly, read_yaml
from tests.repo.documents import SPECS


def value_of(text: str) -> object:
    places, problems = read_yaml(f"a: {text}\n", "f.yaml")
    assert problems == []
    return plain(places.root)["a"]


def problems_of(text: str | bytes) -> list[tuple[str, int, int]]:
    """Code, line and column of every problem, whether or not a tree could be built."""
    try:
        _, problems = read_yaml(text, "f.yaml")
    except SpecError as error:
        problems = list(error.problems)
    return [(p.code, p.where.line, p.where.column) for p in problems if p.where]


@pytest.mark.parametrize("text", ["06", "1", "-3", "+4", "1e-9", ".5", "1.", "1.5E+3", "0.10"])
def test_a_plain_number_keeps_its_digits(text: str) -> None:
    assert value_of(text) == Numeral(text)


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "on",
        "yes",
        "No",
        "y",
        "tRue",
        "nULL",
        "1_0",
        "12:30:45",
        "0x10",
        "0o7",
        "2024-03-07",
        ".inf",
        ".nan",
        "1e",
        "e5",
    ],
)
def test_what_only_yaml_1_1_reads_as_something_else_is_text(text: str) -> None:
    assert value_of(text) == text


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "false", "False", "FALSE"])
def test_true_and_false(text: str) -> None:
    assert value_of(text) == Constant(text, text.lower() == "true")


@pytest.mark.parametrize("text", ["null", "Null", "NULL", "~", ""])
def test_nothing(text: str) -> None:
    assert value_of(text) == Constant(text, None)


@pytest.mark.parametrize("text", ['"1"', "'true'", '"null"', "'06'", '""'])
def test_a_quoted_scalar_is_text(text: str) -> None:
    assert value_of(text) == text[1:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a: \xff\n", [("DPR-S100", 1, 4)]),
        ("a: " + "x" * (1 << 20), [("DPR-S101", 1, 1)]),
        ("a: " + "[" * 40 + "]" * 40, [("DPR-S102", 1, 35)]),
        ("a: b: c\n", [("DPR-S103", 1, 5)]),
        ("a: [1, 2\nb: 3\n", [("DPR-S103", 2, 2)]),
        ("a: 'x\nb: 1\n", [("DPR-S103", 1, 4)]),
        ("a: @x\n", [("DPR-S103", 1, 4)]),
        ('a: "\\UFFFFFFFF"\n', [("DPR-S103", 1, 1)]),
        ("%YAML 1." + "9" * 5000 + "\n---\na: 1\n", [("DPR-S103", 1, 1)]),
        ("a:\n\tb: 1\n", [("DPR-S104", 2, 1)]),
        ("a: &x 1\nb: *x\n", [("DPR-S105", 1, 4), ("DPR-S105", 2, 4)]),
        ("a: 1\n<<: {b: 2}\n", [("DPR-S106", 2, 1)]),
        (
            "a: !x 1\nb: !!str 2\nc: !!python/object:os.system 3\nd: ! 4\n",
            [("DPR-S107", line, 4) for line in (1, 2, 3, 4)],
        ),
        ("a: 1\n---\nb: 2\n", [("DPR-S108", 2, 1)]),
        ("a: 1\nb: 2\na: 3\n", [("DPR-S109", 3, 1)]),
        ("a: {b: 1, b: 2}\n", [("DPR-S109", 1, 11)]),
        ('a: {1: x, "1": y}\n', [("DPR-S109", 1, 11)]),
        ("[a]: 1\n", [("DPR-S110", 1, 1)]),
        ("a: {{ period }}\n", [("DPR-S111", 1, 4)]),
        ("a: {{ period }}/x.csv\n", [("DPR-S111", 1, 4)]),
        ("a: {b: data/{{ period }}.csv}\n", [("DPR-S111", 1, 13)]),
        ("%YAML 1.1\n---\na: 1\n", [("DPR-S112", 1, 1)]),
        ("", [("DPR-S113", 1, 1)]),
        ("# nothing\n", [("DPR-S113", 1, 1)]),
        ("- a\n", [("DPR-S113", 1, 1)]),
        ("a: 1\nb: \x00\n", [("DPR-S114", 2, 4)]),
        ('a: "\\0"\n', [("DPR-S114", 1, 4)]),
        ('a: "\\ud800"\n', [("DPR-S114", 1, 4)]),
        ("a: \ud800\n", [("DPR-S114", 1, 4)]),
    ],
)
def test_every_trick_is_refused_where_it_stands(text: str | bytes, expected: list[tuple[str, int, int]]) -> None:
    assert problems_of(text) == expected


def test_a_duplicate_names_both_places() -> None:
    _, problems = read_yaml("a: 1\nb: 2\na: 3\n", "f.yaml")

    assert str(problems[0]).startswith("f.yaml:3:1  DPR-S109  `a` is given twice, first at 1:1")


def test_what_was_found_before_the_text_becomes_unreadable_is_told_too() -> None:
    assert [code for code, _, _ in problems_of("a: !x 1\nb: [\n")] == ["DPR-S107", "DPR-S103"]


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    assert plain(read_yaml(b"\xef\xbb\xbfa: 1\n", "f")[0].root) == {"a": Numeral("1")}
    assert plain(read_yaml("\ufeffa: 1\n", "f")[0].root) == {"a": Numeral("1")}


def test_a_mapping_nested_32_deep_is_read() -> None:
    depth = 31
    assert problems_of("a: " + "[" * depth + "]" * depth) == []


@pytest.mark.thin(every=2)
@pytest.mark.parametrize(
    "text",
    [
        "x" * 2_000_000,
        "a: " + "[" * 2000,
        "a: " + "{b: " * 2000,
        "- " * 2000,
        "".join(" " * k + "a:\n" for k in range(1200)),
        "a: &a [x,x]\n" + "".join(f"b{k}: &b{k} [{','.join(['*a'] * 9)}]\n" for k in range(30)),
    ],
    ids=["2 MB", "lists", "mappings", "items", "block", "bomb"],
)
def test_what_is_made_to_hang_is_refused_at_once(text: str) -> None:
    begin = time.process_time()

    assert problems_of(text)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", Fraction(1, 2)),
        ("1e-9", Fraction(1, 10**9)),
        ("104/4099", Fraction(104, 4099)),
        ("0.1", Fraction(1, 10)),
        ("-.5e1", Fraction(-5)),
        ("1.", Fraction(1)),
        ("06", Fraction(6)),
    ],
)
def test_numbers_are_exact(text: str, value: Fraction) -> None:
    assert read_rational(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (".nan", "NaN"),
        ("nan", "NaN"),
        (".inf", "infinite"),
        ("-Infinity", "infinite"),
        ("1e999999999", "absurd exponent"),
        ("1e-999999999", "absurd exponent"),
        ("1e300", "too large"),
        ("1" * 201, "201 characters"),
        ("1/0", "division by zero"),
        ("95%", "percentage"),
        ("1_000", "`_`"),
        ("1,000", "comma"),
        ("0x10", "text"),
        ("١٢", "text"),
        ("", "text"),
    ],
)
def test_what_is_no_number_is_refused_by_name(text: str, reason: str) -> None:
    begin = time.process_time()

    with pytest.raises(NotANumber, match=reason):
        read_rational(text)
    assert time.process_time() - begin < 0.5


# -- two parsers -------------------------------------------------------------------------------------------------------


class _Slow(yaml.SafeLoader):
    """PyYAML's own parser, which is asked wherever libyaml might build another tree."""


_TEXTS = (
    'dprelease: 1\nqueries:\n  q0: {table: people, by: [], where: "age >= 1", share: 1.5, measures: {n: {count: rows}}}\n',
    'a: {b: [1, "x\\n", \'y\'], c: q}\nd:\n- e\n- f: g  # h\n  i: "j\n    k"\n',
    "a: |\n  b\n  c\nd: >-\n  e\n  f\n",
)
_PIECES = (
    *" \n\t:{}[],'\"#&*!|>%@`-?\\.0a\ufeff\u2028\x85é\r=<~",
    ": ",
    " #",
    "- ",
    "\n  ",
    "---\n",
    ": ,",
    "|#",
    "{a:b}",
)
_PLACES = st.lists(st.tuples(st.integers(0, 150), st.integers(0, 3), st.sampled_from(_PIECES)), max_size=4)


@given(st.sampled_from(_TEXTS), _PLACES)
@example(_TEXTS[1], [(10, 0, ": ,")])  # where an empty scalar stands, the two say differently
@example(_TEXTS[2], [(4, 0, "#")])  # libyaml takes `|#`
@example(_TEXTS[0], [(13, 0, "\t")])
def test_libyaml_is_believed_only_where_the_other_parser_builds_the_same_tree(
    text: str, changes: list[tuple[int, int, str]]
) -> None:
    for at, taken, piece in changes:
        here = at % (len(text) + 1)
        text = text[:here] + piece + text[here + taken :]
    quick = _quickly(text, "f.yaml")
    if quick is not None:
        places, problems = read_yaml(text, "f.yaml", loader=_Slow)
        assert (repr(quick.root), problems) == (repr(places.root), [])


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML is here without libyaml")
@pytest.mark.parametrize("path", sorted(SPECS.glob("survey-*.yaml")), ids=lambda path: path.stem)
def test_libyaml_reads_a_usual_spec_as_the_other_parser_does(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    quick = _quickly(text, "f.yaml")
    assert quick is not None
    assert repr(quick.root) == repr(read_yaml(text, "f.yaml", loader=_Slow)[0].root)
