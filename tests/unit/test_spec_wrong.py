"""Every rule of the loader, one wrong spec each: its code, its place, and what it says to type next."""

from __future__ import annotations

import pytest

from dprelease.errors import Problem, SpecError
from dprelease.spec.load import load

from .spec_example import SPEC, swapped

BUDGET = "{epsilon: 1/2, delta: 1e-9}"
SEX = "{type: integer, keys: [1, 2], labels: {1: Male, 2: Female}, null: 2}"
INCOME = "{type: decimal, range: [-10000, 500000], step: 0.5, outside: null, measured_in: EUR}"
SOURCE = '{file: "${env:DATA}/people-*.csv", null_values: ["", N, 99]}'
JOIN = "[{reference: places, on: district, add: [region]}]"
CLIP = "clip: [0, 200000.5]"

# What is replaced, by what, the code, the line, a fragment of the message or its hint.
WRONG: list[tuple[str, str, str, int, str]] = [
    # fields
    ("dprelease: 1\n", "dprelease: 2\n", "DPR-S202", 1, "write 1"),
    ("dprelease: 1\n", "", "DPR-S201", 1, "dprelease: 1"),
    ("  name: regional-monitor\n", "", "DPR-S201", 2, "name: my-release"),
    ("name: regional-monitor", "name: Regional_Monitor", "DPR-S211", 3, "a-z"),
    ("name: regional-monitor", "name: 2024", "DPR-S203", 3, '"2024"'),
    ("period: 2024-03", "period: 2024/03", "DPR-S217", 4, "2024-Q1"),
    ("period: 2024-03", "period:", "DPR-S215", 4, "empty"),
    ("period: 2024-03", "perod: 2024-03", "DPR-S200", 4, "`period`"),
    ("title: People", "title: People\n    noise: laplace", "DPR-S200", 32, "a field of `privacy`"),
    ("title: People", "title: People\n    geography: {}", "DPR-S200", 32, "the file itself"),
    (CLIP, f"{CLIP}, index_to: 2020", "DPR-S200", 40, "beside `measures`: `compare: {index: "),
    (CLIP, f"{CLIP}, round_to: 10", "DPR-S200", 40, "beside `measures`: `round: 10`"),
    ("average: {mean: income}", "average: {gini: income}", "DPR-S214", 41, "gini: true"),
    ("title: People", "title: [People]", "DPR-S203", 31, "not text"),
    ("title: People", "title: true", "DPR-S203", 31, "quotes"),
    ("neighboring: add_remove", "neighbouring: add_remove", "DPR-S200", 8, "`neighboring`"),
    ("neighboring: add_remove", "neighboring: add_remov", "DPR-S202", 8, "`add_remove`"),
    ("neighboring: add_remove", "accounting: zCDP", "DPR-S202", 8, "`zcdp`"),
    ("unit: {entity: person}", "unit: person", "DPR-S203", 7, "not a mapping"),
    ("unit: {entity: person}", "unit: 5", "DPR-S203", 7, "{entity: person}"),
    ("unit: {entity: person}", 'unit: {entity: " "}', "DPR-S215", 7, "empty"),
    # budgets
    (f"  budget: {BUDGET}\n", "", "DPR-S201", 6, "no default"),
    (BUDGET, "{epsilon: 0, delta: 1e-9}", "DPR-S205", 9, "zero"),
    (BUDGET, "{epsilon: -1, delta: 1e-9}", "DPR-S205", 9, "negative"),
    (BUDGET, "{epsilon: .nan, delta: 1e-9}", "DPR-S204", 9, "NaN"),
    (BUDGET, "{epsilon: .inf, delta: 1e-9}", "DPR-S204", 9, "infinite"),
    (BUDGET, "{epsilon: 5e-324, delta: 1e-9}", "DPR-S206", 9, "subnormal"),
    (BUDGET, "{epsilon: 1e999999999, delta: 1e-9}", "DPR-S204", 9, "absurd exponent"),
    (BUDGET, "{epsilon: 1, delta: 1}", "DPR-S207", 9, "1 or more"),
    (BUDGET, "{epsilon: 1, delta: -1e-9}", "DPR-S207", 9, "negative"),
    (BUDGET, "{epsilon: 1, delta: 1e-310}", "DPR-S206", 9, "subnormal"),
    (BUDGET, "{epsilon: 1, rho: 1}", "DPR-S218", 9, "both epsilon and rho"),
    (BUDGET, "{delta: 1e-9}", "DPR-S218", 9, "neither"),
    (BUDGET, "{epsilon: true}", "DPR-S203", 9, "not a number"),
    (BUDGET, "{epsilon: 1_0}", "DPR-S204", 9, "write 10"),
    (f"budget: {BUDGET}", "budget: {epsilon: 1}\n  noise: gaussian", "DPR-S533", 10, "delta, such as 1e-9"),
    ("at_most: {epsilon: 3, delta: 1e-8}", "at_most: {epsilon: 3}", "DPR-S201", 10, "write both"),
    # what is not there yet
    ("neighboring: add_remove", "accounting: pdl", "DPR-S202", 8, "`pld`"),
    (SOURCE, "{file: a.csv, database: sqlite:///x, table: people}", "DPR-S235", 16, "both file and database"),
    (
        SOURCE
        + "\n    unit_id: none\n    join: [{reference: places, on: district, add: [region]}]\n    columns:\n      district: {",
        '{database: "sqlite:///x.db", table: people}\n    unit_id: none\n'
        "    join: [{reference: places, on: district, add: [region]}]\n    columns:\n      district: {partition: true, ",
        "DPR-S549",
        20,
        "leave it out",
    ),
    (SOURCE, "{delta: data/people}", "DPR-S246", 16, "version: N"),
    (SOURCE, "{delta: data/people, version: -1}", "DPR-S209", 16, "_delta_log"),
    (SOURCE, "{delta: data/people, version: newest}", "DPR-S209", 16, "digits"),
    (SOURCE, "{delta: data/people/*.parquet, version: 1}", "DPR-S247", 16, "_delta_log"),
    (SOURCE, "{delta: data/people, version: 1, delimiter: tab}", "DPR-S235", 16, "delimiter"),
    (SOURCE, "{file: data/people.csv, version: 1}", "DPR-S235", 16, "version"),
    (SOURCE, '{file: "s3://KEY:SECRET@office/people.csv"}', "DPR-S245", 16, "environment alone"),
    (SOURCE, '{delta: "s3://KEY:SECRET@office/people", version: 3}', "DPR-S245", 16, "environment alone"),
    (SOURCE, '{file: "hdfs://office/people.csv"}', "DPR-S245", 16, "s3://BUCKET/"),
    (SOURCE, "{table: people}", "DPR-S235", 16, "neither file nor delta nor metastore nor database"),
    (SOURCE, "{metastore: visits}", "DPR-S740", 16, "`metastore: office.visits`"),
    (SOURCE, "{metastore: unity.office.visits}", "DPR-S740", 16, "name their files"),
    (SOURCE, "{metastore: 'office.visits; DROP TABLE x'}", "DPR-S740", 16, "letters, digits and _"),
    (SOURCE, "{metastore: office.visits}", "DPR-S741", 16, "`engine: spark`"),
    (SOURCE, "{metastore: office.visits, schema: main}", "DPR-S235", 16, "schema"),
    (SOURCE, "{metastore: office.visits, skip: 1}", "DPR-S235", 16, "skip"),
    (SOURCE, "{delta: data/people, metastore: office.visits}", "DPR-S235", 16, "both delta and metastore"),
    (SOURCE, "{file: a.csv, table: people}", "DPR-S235", 16, "`table`, which only a source with `database` has"),
    (SOURCE, '{database: sqlite:///x, table: people, delimiter: ";"}', "DPR-S235", 16, "`file` in place of `database`"),
    (SOURCE, "{database: sqlite:///x, schema: public, fil: a.csv}", "DPR-S200", 16, "`file`"),
    (SOURCE, "{database: people.db, table: people}", "DPR-S237", 16, "sqlite:///data/office.db"),
    (SOURCE, "{database: oracle://db/x, table: people}", "DPR-S237", 16, "export them"),
    (SOURCE, "{database: postgresql://me:word@db/x, table: people}", "DPR-S238", 16, "one variable"),
    (SOURCE, "{database: sqlite:///x}", "DPR-S236", 16, "neither table nor query"),
    (SOURCE, "{database: sqlite:///x, table: people, query: people.sql}", "DPR-S236", 16, "both table and query"),
    (SOURCE, "{database: sqlite:///x, query: people.txt}", "DPR-S236", 16, "people.sql"),
    (SOURCE, "{database: sqlite:///x, query: people.sql, schema: public}", "DPR-S236", 16, "the query itself"),
    ("title: People", "totals: [[code]]", "DPR-S711", 31, "there is: region, sex"),
    ("title: People", "totals: [[sex, region]]", "DPR-S711", 31, "leave one of its columns out"),
    ("title: People", "totals: [[sex], [sex]]", "DPR-S711", 31, "write every list once"),
    ("title: People", "totals: []", "DPR-S711", 31, "for one total of all"),
    ("title: People", "totals: some", "DPR-S711", 31, "or `totals: all`"),
    ("by: [code]\n", "by: [code]\n    totals: [[]]\n    keys: private\n", "DPR-S712", 40, "public"),
    ("title: People", "levels: geography", "DPR-S653", 31, "marginals"),
    # times
    ("unit_id: none", "time: {column: seen}", "DPR-S201", 17, "type: date"),
    ("unit_id: none", "time: seen", "DPR-S203", 17, "{column: seen, type: date}"),
    ("unit_id: none", "time: {type: date}", "DPR-S201", 17, "{column: seen, type: date}"),
    ("unit_id: none", "time: {column: seen, type: text}", "DPR-S202", 17, "date, timestamp"),
    ("unit_id: none", "time: {column: seen, type: date}", "DPR-S592", 17, "declared as timestamp"),
    ("unit_id: none", "time: {column: sex, type: date}", "DPR-S592", 17, "declared as integer"),
    ("unit_id: none", "time: {column: region, type: date}", "DPR-S591", 17, "is joined"),
    ("unit_id: none", "time: {column: my day, type: date}", "DPR-S502", 17, "rename"),
    ("unit_id: none", "time: {column: seen, typ: timestamp}", "DPR-S200", 17, "`type`"),
    ("formats: [csv, html]", "formats: [csv, ods]", "DPR-S202", 44, "xlsx"),
    ("publish:\n", "postprocess: [consistent]\npublish:\n", "DPR-S662", 43, "marginals"),
    ("title: People", 'title: "In {{ perod }}"', "DPR-S301", 31, "{{ period }}"),
    ("title: People", "title: In {{ period }}", "DPR-S111", 31, "quotes"),
    ("title: People", "title: {{ period }}", "DPR-S111", 31, "quotes"),
    # where variables may stand
    ("account: demo", "account: ${env:NAME}", "DPR-S213", 15, "secret"),
    ("reference/places.csv", '"${env:X}/places.csv"', "DPR-S213", 12, "source"),
    ("${env:DATA}", "${DATA}", "DPR-S219", 16, "${env:NAME}"),
    ("${env:DATA}", "${env:1}", "DPR-S219", 16, "letters"),
    # tables and columns
    ("keys: {reference: places}}", 'keys: {reference: places, "<list>": 1}}', "DPR-S200", 20, "there is: reference"),
    ("share: 0.5", '"<x": 0.5', "DPR-S200", 42, "there is"),
    ("people-*.csv", "people-*.txt", "DPR-S216", 16, ".parquet"),
    ("reference/places.csv", "reference/places.json", "DPR-S216", 12, "CSV"),
    ("coast: boolean}}", "coast: decimal}}", "DPR-S202", 12, "text, integer, boolean, date"),
    ('null_values: ["", N, 99]', "null_values: [null]", "DPR-S215", 16, "quotes"),
    # how a CSV is written
    ('null_values: ["", N, 99]', 'delimiter: ":"', "DPR-S202", 16, '";"'),
    ('null_values: ["", N, 99]', 'delimiter: "::"', "DPR-S202", 16, "tab"),
    ('null_values: ["", N, 99]', "quote: x", "DPR-S202", 16, "none"),
    ('null_values: ["", N, 99]', 'decimal: ";"', "DPR-S202", 16, '","'),
    ('null_values: ["", N, 99]', "thousands: _", "DPR-S202", 16, "\\u00a0"),
    ('null_values: ["", N, 99]', "encoding: utf-16", "DPR-S231", 16, "UTF-8"),
    ('null_values: ["", N, 99]', "encoding: klingon", "DPR-S231", 16, "windows-1252"),
    ('null_values: ["", N, 99]', "header: false", "DPR-S203", 16, "order of the file"),
    ('null_values: ["", N, 99]', "header: []", "DPR-S203", 16, "order of the file"),
    ('null_values: ["", N, 99]', "header: id", "DPR-S203", 16, "[id, sex, age]"),
    ('null_values: ["", N, 99]', "header: [a, b, a]", "DPR-S234", 16, "name of its own"),
    ('null_values: ["", N, 99]', "skip: -1", "DPR-S209", 16, "before the header"),
    ('null_values: ["", N, 99]', "skip: 0.5", "DPR-S209", 16, "digits alone"),
    ('null_values: ["", N, 99]', 'date_format: "%d.%m"', "DPR-S232", 16, "%d.%m.%Y"),
    ('null_values: ["", N, 99]', 'date_format: "%d.%m.%y"', "DPR-S232", 16, "%d.%m.%Y"),
    ('null_values: ["", N, 99]', 'decimal: ",", thousands: ","', "DPR-S234", 16, "leave `thousands` out"),
    ('null_values: ["", N, 99]', "true_values: [ja]", "DPR-S234", 16, "write both"),
    ('null_values: ["", N, 99]', "true_values: [ja, Nein], false_values: [nein]", "DPR-S234", 16, "one of the lists"),
    ("seen: {type: timestamp}", "my-col: {type: timestamp}", "DPR-S502", 27, "rename"),
    ("seen: {type: timestamp}", "rows: {type: timestamp}", "DPR-S534", 27, "rename"),
    ("{type: timestamp}", "{type: timestmp}", "DPR-S202", 27, "`timestamp`"),
    ("{type: timestamp}", "{type: timestamp, partition: yes}", "DPR-S203", 27, "write `true`"),
    ("region: {type: text, keys", "region: {partition: true, type: text, keys", "DPR-S549", 21, "leave it out"),
    ("{type: timestamp}", "{type: timestamp, range: [0, 1]}", "DPR-S514", 27, "integer and decimal"),
    ("{type: timestamp}", "{type: timestamp, keys: [2024-01-01]}", "DPR-S531", 27, "bands"),
    ("range: [-10000, 500000]", "range: [500000, -10000]", "DPR-S509", 28, "smaller one first"),
    ("range: [-10000, 500000]", "range: [0, 0]", "DPR-S509", 28, "no width"),
    ("range: [-10000, 500000]", "range: [0, 0.3]", "DPR-S510", 28, "step"),
    ("range: [-10000, 500000]", "range: [0, 1e18]", "DPR-S511", 28, "larger `step`"),
    ("race: {type: integer,", "race: {type: integer, step: 0.5,", "DPR-S510", 26, "step: 1"),
    ("range: [-10000, 500000]", "range: [0]", "DPR-S210", 28, "[low, high]"),
    ("range: [-10000, 500000]", "range: 500000", "DPR-S210", 28, "[low, high]"),
    ("range: [-10000, 500000]", "range: [0, high]", "DPR-S204", 28, "digits"),
    ("step: 0.5", "step: 0", "DPR-S205", 28, "greater than 0"),
    ("step: 0.5", "step: 1/9007199254740993", "DPR-S511", 28, "2^53"),
    ("outside: null", "outside: drop", "DPR-S202", 28, "clamp"),
    ("{from: 1, to: 9}", "{from: 9, to: 1}", "DPR-S529", 26, "smaller one"),
    ("{from: 1, to: 9}", "{from: 1, to: 2024-01-01}", "DPR-S529", 26, "two whole numbers"),
    ("{from: 1, to: 9}", "{from: 1}", "DPR-S201", 26, "both ends"),
    ("{from: 1, to: 9}", "{from: 1, to: 9000000}", "DPR-S530", 26, "a million"),
    ("{from: 1, to: 9}", "1-9", "DPR-S212", 26, "{from: 1, to: 9}"),
    ("2024-02-27, to: 2024-03-01", "2024-02-30, to: 2024-03-01", "DPR-S212", 25, "2024-03-07"),
    ("keys: [1, 2]", "keys: [1, 2, 1]", "DPR-S525", 22, "once"),
    ("keys: [1, 2]", 'keys: [1, "2"]', "DPR-S212", 22, "quotes"),
    ("keys: [1, 2]", "keys: [1, 2.5]", "DPR-S212", 22, "whole number"),
    ("keys: [true, false]", "keys: [true, no]", "DPR-S212", 24, "true or false"),
    ("[06, no, true, 1.10]", "[06, no, null]", "DPR-S215", 23, "quotes"),
    (SEX, "{type: integer, keys: []}", "DPR-S532", 22, "may be published"),
    ("2: Female", "3: Female", "DPR-S526", 22, "there is: 1, 2"),
    ("2: Female", "01: Man", "DPR-S526", 22, "keep one"),
    ("{type: timestamp}", "{type: timestamp, labels: {1: Male}}", "DPR-S526", 27, "declare `keys`"),
    ("null: 2", "null: 3", "DPR-S527", 22, "add it"),
    ("keys: {reference: places}}", "keys: {reference: place}}", "DPR-S517", 20, "`places`"),
    ("column: region}", "column: regoin}", "DPR-S518", 21, "`region`"),
    ("column: region}", "column: coast}", "DPR-S519", 21, "one type"),
    # joins
    (JOIN, "[{reference: place, on: district, add: [region]}]", "DPR-S517", 18, "`places`"),
    (JOIN, "[{reference: places, on: distrct, add: [region]}]", "DPR-S520", 18, "`district`"),
    (JOIN, "[{reference: places, on: sex, add: [region]}]", "DPR-S518", 18, "there is: district"),
    (JOIN, "[{reference: places, on: district, add: [coast]}]", "DPR-S521", 18, "coast: {type: boolean}"),
    (JOIN, "[{reference: places, on: district, add: [region, region]}]", "DPR-S522", 18, "once"),
    (JOIN, "[{reference: places, on: region, add: [region]}]", "DPR-S522", 18, "source"),
    (JOIN, "[{reference: places, on: district, add: []}]", "DPR-S210", 18, "at least 1"),
    (JOIN, "{reference: places, on: district, add: [region]}", "DPR-S203", 18, "not a list"),
    # queries
    ("by: [region, sex]", "by: region", "DPR-S203", 33, "[region]"),
    ("by: [region, sex]", "by: [regoin, sex]", "DPR-S504", 33, "`region`"),
    ("by: [region, sex]", "by: [region, region]", "DPR-S506", 33, "once"),
    ("by: [region, sex]", "by: [seen]", "DPR-S505", 33, "public values"),
    ("by: [code]", "by: [code, income]", "DPR-S505", 38, "keys"),
    (
        "  population:\n    title: People\n    table: people",
        "  population:\n    table: peple",
        "DPR-S503",
        31,
        "`people`",
    ),
    ("{count: income}", "{count: incme}", "DPR-S504", 34, "`income`"),
    ("{count: income}", "{cuont: income}", "DPR-S214", 34, "`count`"),
    ("{count: income}", "{count: income, sum: income}", "DPR-S214", 34, "2 measures"),
    ("{count: income}", "count", "DPR-S214", 34, "{count: ...}"),
    ("{count: income}", "{count: 5}", "DPR-S203", 34, "not text"),
    ("{mean: income}", "{mean: sex}", "DPR-S508", 41, "never read from the data"),
    ("{mean: income}", "{mean: code}", "DPR-S507", 41, "count it"),
    ("measures: {persons: {count: rows}, known: {count: income}}\n", "measures: {}\n", "DPR-S210", 34, "count: rows"),
    ("known: {count: income}", "two-words: {count: income}", "DPR-S502", 34, "letters"),
    ("known: {count: income}", "sex: {count: income}", "DPR-S523", 34, "rename"),
    ("known: {count: income}", "persons_se: {count: income}", "DPR-S523", 34, "persons_se"),
    ("known: {count: income}", "rehearsal: {count: income}", "DPR-S523", 34, "rehearsal"),
    (CLIP, "clip: [9, 0]", "DPR-S512", 40, "smaller one first"),
    (CLIP, "clip: [0, 0.3]", "DPR-S513", 40, "multiples of the step 1/2"),
    (CLIP, "clip: [0, 1, 2]", "DPR-S210", 40, "[low, high]"),
    (CLIP, "clip: 5", "DPR-S210", 40, "[low, high]"),
    (CLIP, 'clip: [0, "1e99999999"]', "DPR-S204", 40, "absurd exponent"),
    (CLIP, "clop: [0, 1]", "DPR-S200", 40, "`clip`"),
    ("clip_per: row", "clip_per: unit", "DPR-S202", 40, "unit_cell"),
    ("share: 0.5", "share: 0", "DPR-S205", 42, "leave the query out"),
    ("share: 0.5", "share: -1", "DPR-S205", 42, "leave the query out"),
    ("expect: {persons: 12000}", "expect: {person: 12000}", "DPR-S515", 35, "`persons`"),
    ("expect: {persons: 12000}", "expect: {persons: 0}", "DPR-S205", 35, "from 1"),
    ("expect: {persons: 12000}", "expect: {persons: 1.5}", "DPR-S209", 35, "digits alone"),
    ("  income:\n    table", "  Population:\n    table", "DPR-S524", 36, "rename"),
    ("  income:\n    table", "  in.come:\n    table", "DPR-S502", 36, "letters"),
    # publication
    ("formats: [csv, html]", "formats: [csv, csv]", "DPR-S535", 44, "once"),
    ("formats: [csv, html]", "formats: []", "DPR-S210", 44, "at least one"),
    ("confidence: 0.9", "confidence: 95%", "DPR-S204", 45, "0.95"),
    ("confidence: 0.9", "confidence: 95", "DPR-S208", 45, "0.95"),
    ("show: blank", "show: hide", "DPR-S202", 46, "flag"),
]


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        load(text, "spec.yaml")
    return caught.value.problems


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "says"), WRONG, ids=[f"{row[2]}: {row[1][:40]}" for row in WRONG]
)
def test_one_mistake_is_one_problem_with_code_line_and_hint(
    old: str, new: str, code: str, line: int, says: str
) -> None:
    problems = problems_of(swapped(old, new))

    assert [problem.code for problem in problems] == [code], "\n".join(map(str, problems))
    assert problems[0].where is not None
    assert (problems[0].where.file, problems[0].where.line) == ("spec.yaml", line)
    assert problems[0].where.column > 0
    assert says in f"{problems[0].summary}\n{problems[0].hint}"
    assert problems[0].hint


def test_the_right_spec_is_right() -> None:
    load(SPEC, "spec.yaml")


def test_no_message_speaks_the_jargon_of_the_validator() -> None:
    said = "\n".join(str(problem) for row in WRONG for problem in problems_of(swapped(row[0], row[1])))

    for word in (
        "Input should",
        "pydantic",
        "dict",
        "tuple",
        "valid",
        "Extra inputs",
        "NoneType",
        "Numeral(",
        "discriminator",
    ):
        assert word not in said.replace("validate", "").replace("valued", "")


def test_no_query_at_all() -> None:
    problems = problems_of(SPEC[: SPEC.index("queries:")] + "queries: {}\n")

    assert [(problem.code, problem.where.line if problem.where else 0) for problem in problems] == [("DPR-S501", 29)]


def test_more_than_ten_million_cells() -> None:
    wide = swapped("{from: 1, to: 9}", "{from: 1, to: 900000}")
    problems = problems_of(swapped("by: [code]", "by: [code, race, adult, sex]", wide))

    assert [problem.code for problem in problems] == ["DPR-S528"]
    assert "14400000 cells" in problems[0].summary


def test_many_problems_of_every_kind_are_told_at_once_in_file_order() -> None:
    text = SPEC
    for old, new in [
        ("period: 2024-03", "period: 2024\n  period: 2025"),
        (BUDGET, "{epsilon: 0, delta: 2}"),
        ("step: 0.5", "step: 0"),
        ("by: [region, sex]", "by: [regoin, sex]"),
        ("{mean: income}", "{mean: incme}"),
        ("confidence: 0.9", "confidence: 95%"),
    ]:
        text = swapped(old, new, text)
    found = [(problem.code, problem.where.line if problem.where else 0) for problem in problems_of(text)]

    assert found == [
        ("DPR-S109", 5),
        ("DPR-S205", 10),
        ("DPR-S207", 10),
        ("DPR-S205", 29),
        ("DPR-S504", 34),
        ("DPR-S504", 42),
        ("DPR-S204", 46),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range: [-10000, 500000]", "rnage: [-10000, 500000]"),
        ("range: [-10000, 500000]", "range: [low, 500000]"),
        ("type: decimal", "type: decmal"),
        ("queries:", "querys:"),
        ("tables:", "table:"),
        ("  people:\n    account", "  people:\n    acount"),
    ],
)
def test_what_only_follows_from_a_mistake_is_not_told(old: str, new: str) -> None:
    """A sum over a column whose range is misspelt does not lack a range; a query is not blamed for its table."""
    assert len(problems_of(swapped(old, new))) == 1


def test_a_flood_of_problems_is_cut_short() -> None:
    problems = problems_of(SPEC + "".join(f"x{k}: 1\n" for k in range(500)))

    assert len(problems) == 101
    assert problems[-1].summary == "and 400 more problems"


def test_a_half_character_or_a_brace_in_a_name_does_no_harm_to_the_message() -> None:
    problems = problems_of(swapped("seen:", '"{summary} {0}\\n":'))

    assert [problem.code for problem in problems] == ["DPR-S502"]
    assert "\n" not in problems[0].summary
