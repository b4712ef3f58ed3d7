"""Wrong specs through the command: located, with a hint, exit code 2, no traceback, nothing hanging."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project import SPEC, command, installed, small_project

Change = Callable[[str], str]


def swap(old: str, new: str) -> Change:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


def query(line: str) -> Change:
    """One more line in the query of incomes."""
    return swap("    expect: {persons: 900}\n", f"    expect: {{persons: 900}}\n    {line}\n")


def column(line: str) -> Change:
    """One more column, the last."""
    return swap("step: 1}\n", f"step: 1}}\n      {line}\n")


def unit(line: str) -> Change:
    """Rows that belong to units, and a line beside the unit id."""
    return swap("    account: people\n", f"    account: people\n    unit_id: person\n    {line}\n")


def both(first: Change, second: Change) -> Change:
    return lambda text: second(first(text))


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + k)}: &{chr(98 + k)} [{','.join(['*' + chr(97 + k)] * 9)}]\n" for k in range(8)
)

WRONG: list[tuple[str, Change, str]] = [
    ("unknown column in by", swap("by: [district, sex]", "by: [district, sexx]"), "sex"),
    ("misspelt field", swap("queries:", "querys:"), "queries"),
    ("misspelt measure", swap("{count: rows}}}", "{cuont: rows}}}"), "count"),
    ("missing range", swap("{type: decimal, range: [0, 200000], step: 1}", "{type: decimal}"), "range"),
    ("gaussian at delta 0", swap("delta: 1e-9}", "delta: 0}\n  noise: gaussian"), "delta"),
    ("zcdp at delta 0", swap("delta: 1e-9}", "delta: 0}\n  accounting: zcdp"), "accounting: basic"),
    ("a pin beside a share", swap("expect: {persons: 900}", "budget: {epsilon: 0.1}\n    share: 2"), "no share"),
    ("a target of nothing", swap("expect: {persons: 900}", "target: {person: {margin: 9}}"), "`persons`"),
    ("a share of zero", swap("expect: {persons: 900}", "share: 0"), "leave the query out"),
    ("negative epsilon", swap("epsilon: 1,", "epsilon: -1,"), "epsilon"),
    ("epsilon not a number", swap("epsilon: 1,", "epsilon: .nan,"), "epsilon"),
    ("delta of 1", swap("delta: 1e-9", "delta: 1"), "delta"),
    ("no budget", swap("  budget: {epsilon: 1, delta: 1e-9}\n", ""), "budget"),
    ("two queries with one name", swap("  income:\n    table", "  population:\n    table"), "population"),
    ("duplicate key", swap("period: 2024,", "period: 2024, period: 2025,"), "period"),
    ("alias bomb", lambda text: BOMB + text, "alias"),
    ("a tag", swap("title: Population", "title: !!python/object:os.system Population"), "tag"),
    ("two megabytes", lambda text: text + "# " + "x" * 2_000_000 + "\n", "1 MiB"),
    ("tab indentation", swap("  people:\n    account", "  people:\n\taccount"), "tab"),
    ("a range upside down", swap("range: [0, 200000]", "range: [200000, 0]"), "range"),
    ("a missing reference file", swap("file: places.csv", "file: nowhere.csv"), "nowhere.csv"),
    ("an account that is not there", swap("account: people", "account: persons"), "people"),
    ("another unit than the account's", swap("{entity: person}", "{entity: household}"), "person"),
    ("a clip upside down", swap("clip: [0, 100000]", "clip: [100000, 0]"), "clip"),
    ("a bare period", swap('"A survey: small"', "{{ period }}"), "quot"),
    (
        "totals over a column that is not in the table",
        swap("    table: people\n    by: [region]", "    totals: [[income]]\n    table: people\n    by: [region]"),
        "no column of `by`",
    ),
    ("totals without a list", query("totals: true"), "totals: all"),
    ("private keys of a column", swap("keys: [1, 2], labels: {1: Male, 2: Female}", "keys: private"), "in the query"),
    ("a walk through the whole disk", swap("people-*.csv", "/**/people-*.csv"), "name the folder"),
    ("noise by its common name", swap("delta: 1e-9}", "delta: 1e-9}\n  noise: normal"), "write gaussian"),
    ("a filter of no column", query('where: "age > 18"'), "no column"),
    ("a filter that runs a query", query('where: "sex in (select 1)"'), "cannot be used"),
    ("bounds without units", query("bounds: {max_groups: 3}"), "unit_id: COLUMN"),
    ("exceptions of nothing", query("except: {reference: place}"), "`places`"),
    ("suppressed by nothing", query("suppress: {measure: person, below: 5}"), "`persons`"),
    ("private keys at delta 0", both(query("keys: private"), swap(", delta: 1e-9", "")), "greater than 0"),
    ("a list too long", swap("by: [district, sex], measures: {persons: {count: rows}}", "top_k: sex, k: 3"), "1 to 2"),
    (
        "a list longer than its file",
        swap("by: [district, sex], measures: {persons: {count: rows}}", "top_k: region, k: 3"),
        "1 to 2",
    ),
    ("a ratio of a mean", swap("{sum: income}", "{ratio: [average, persons]}"), "take a count"),
    (
        "bands of a later column",
        swap("      income:", "      band: {bin: income, edges: [1, 2]}\n      income:"),
        "below income",
    ),
    ("units without bounds", unit(""), "max_rows: 100"),
    ("units and an unclear clip", unit("bounds: {max_rows: 9}"), "clip_per: row"),
    ("the last rows of no order", unit("bounds: {max_rows: 9, truncate: last}"), "order_by: [COLUMN]"),
    (
        "a confidential join of no table",
        swap("add: [region]}]", "add: [region]}, {table: p, on: id, max_matches: 1, add: [x]}]"),
        "declare it",
    ),
    ("a derived table with a query's name", lambda text: f"{text}derive:\n  income: {{sql: select 1}}\n", "one file"),
    ("too deep", lambda text: text + "x: " + "[" * 2000 + "]" * 2000 + "\n", "deep"),
    ("not a mapping", lambda _: "- a\n- b\n", "dprelease"),
    ("nothing", lambda _: "", "dprelease"),
    ("not text", lambda _: "\x00\x01", ""),
]


@pytest.mark.thin(first=4)
@pytest.mark.parametrize(
    ("change", "hint"), [(change, hint) for _, change, hint in WRONG], ids=[name for name, _, _ in WRONG]
)
def test_a_wrong_spec_gets_a_located_message_and_exit_code_2(tmp_path: Path, change: Change, hint: str) -> None:
    small_project(tmp_path, change(SPEC), rows=1)
    said = command(tmp_path, "validate", "spec.yaml", code=2)
    assert re.search(r"spec\.yaml:\d+:\d+  DPR-S\d{3}  \S", said), said
    assert hint.lower() in said.lower()


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    text = SPEC.replace("by: [district, sex]", "by: [district, sexx]").replace("range: [0, 200000]", "range: [5, 1]")
    small_project(tmp_path, text.replace("clip: [0, 100000]", "clipp: [0, 100000]"), rows=1)
    said = installed(tmp_path, "validate", "spec.yaml", code=2)
    assert all(word in said for word in ("sexx", "upside down", "clipp"))


@pytest.mark.parametrize(
    "words", [("validate", "nowhere.yaml"), ("plan", "nowhere.yaml"), ("run", "nowhere.yaml", "--direct")]
)
def test_a_spec_that_is_not_there(tmp_path: Path, words: tuple[str, ...]) -> None:
    small_project(tmp_path, rows=1)
    assert "nowhere.yaml" in command(tmp_path, *words, code=2)


def test_no_project_is_told_with_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC, encoding="utf-8")
    assert "dprelease init" in installed(tmp_path, "validate", "spec.yaml", code=2)
