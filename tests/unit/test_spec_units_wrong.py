"""Units, bounds, joins, computed columns, private keys and lists: one wrong spec for each rule, with its exact place."""

from __future__ import annotations

import pytest

from dprelease.errors import Problem, SpecError
from dprelease.spec.load import load

from .spec_example import swapped
from .units_example import UNITS

BOUNDS = "bounds: {max_rows: 100, truncate: first, order_by: [seen, seconds]}"
JOIN = "{table: users, on: user_id, max_matches: 1, add: [tenure]}"
PUBLIC = "{reference: pages, on: page, add: [topic]}"
LIMITS = "bounds: {max_groups: 3, max_rows_per_group: 10}"
TERMS = "    keys: private\n    min_units: 20\n    bounds: {max_groups: 5}\n"
CLICKS = "measures: {n: {count: units}, s: {sum: amount, clip_per: unit_cell}}}"
TOP = "top_k: page, k: 2}"
PLAIN = swapped(
    "bounds: {max_rows_per_group: 1}, measures: {t: {mean: tenure}}", "measures: {n: {count: units}}", UNITS
)
SEEN = "seen: {type: timestamp}"

# The spec, what is replaced, by what, the code, the text that begins at its place, and what is said.
WRONG: list[tuple[str, str, str, str, str, tuple[str, ...]]] = [
    # whose row it is
    (UNITS, "null_id: unit\n", "null_id: keep\n", "DPR-S202", "keep", ("drop, unit",)),
    (UNITS, "    unit_id: who\n", "    null_id: drop\n", "DPR-S551", "drop", ("`unit_id: COLUMN`",)),
    (UNITS, "    unit_id: who\n", "    bounds: {max_rows: 9}\n", "DPR-S552", "bounds", ("nothing to bound",)),
    (UNITS, "    unit_id: who\n", "    unit_id:\n", "DPR-S215", "", ("empty",)),
    (UNITS, "    unit_id: who\n", '    unit_id: "who is it"\n', "DPR-S502", '"who', ("rename the column",)),
    (UNITS, "who: {type: integer}", "who: {type: decimal}", "DPR-S550", "who", ("text or whole numbers",)),
    (UNITS, "who: {type: integer}", "who: {type: integer, range: [0, 9]}", "DPR-S550", "range", ("become one",)),
    (UNITS, "who: {type: integer}", "who: {type: integer, keys: [0], null: 0}", "DPR-S550", "0}", ("leave it out",)),
    (
        UNITS,
        "who: {type: integer}",
        'key: {type: text}\n      who: {sql: "key", type: text}',
        "DPR-S550",
        "who",
        ("is computed", "column of the source"),
    ),
    # bounds of a table
    (UNITS, BOUNDS, "bounds: {truncate: sample}", "DPR-S201", "bounds", ("max_rows: 100",)),
    (UNITS, BOUNDS, "bounds: {max_rows: 0}", "DPR-S205", "0}", ("from 1",)),
    (UNITS, BOUNDS, "bounds: {max_rows: 1.5}", "DPR-S209", "1.5", ("whole number",)),
    (UNITS, BOUNDS, "bounds: 100", "DPR-S203", "100", ("max_rows: 100",)),
    (UNITS, BOUNDS, "bounds: {max_rows: 9, truncate: random}", "DPR-S202", "random", ("sample",)),
    (UNITS, BOUNDS, "bounds: {max_rows: 9, max_groups: 2}", "DPR-S200", "max_groups", ("of a query",)),
    (UNITS, BOUNDS, "bounds: {max_rows: 9, truncate: last}", "DPR-S553", "last", ("order_by: [COLUMN]",)),
    (UNITS, BOUNDS, "bounds: {max_rows: 9, order_by: [seen]}", "DPR-S553", "order_by", ("truncate: first",)),
    (UNITS, "order_by: [seen, seconds]", "order_by: [seen, seen]", "DPR-S553", "seen]", ("once",)),
    (UNITS, "order_by: [seen, seconds]", "order_by: [sen]", "DPR-S553", "sen]", ("`seen`",)),
    (UNITS, "order_by: [seen, seconds]", "order_by: [topic]", "DPR-S553", "topic]", ("joined or computed",)),
    (UNITS, "order_by: [seen, seconds]", "order_by: [since]", "DPR-S553", "since]", ("joined or computed",)),
    # confidential joins
    (UNITS, JOIN, "{on: user_id, max_matches: 1, add: [tenure]}", "DPR-S223", "{on", ("neither reference nor",)),
    (UNITS, JOIN, JOIN.replace("{table", "{reference: pages, table"), "DPR-S223", "{reference: pages, t", ("both",)),
    (UNITS, JOIN, "{table: users, on: user_id, add: [tenure]}", "DPR-S223", "{table: users", ("max_matches: 1",)),
    (UNITS, PUBLIC, PUBLIC.replace("on", "max_matches: 1, on", 1), "DPR-S223", "{reference: pages", ("is unique",)),
    (UNITS, JOIN, JOIN.replace("matches: 1", "matches: 0"), "DPR-S205", "0, add", ("from 1",)),
    (UNITS, JOIN, JOIN.replace("users", "user"), "DPR-S564", "user, on", ("`users`",)),
    (UNITS, JOIN, JOIN.replace("users", "visits"), "DPR-S564", "visits, on", ("with itself",)),
    (UNITS, JOIN, JOIN.replace("users, on: user_id", "users, on: term"), "DPR-S565", "term", ("'user_id'", "both")),
    (PLAIN, "data/users.csv}\n    unit_id: user_id\n", "data/users.csv}\n", "DPR-S564", "users, on", ("no `unit_id`",)),
    (UNITS, JOIN, JOIN.replace("[tenure]", "[tenur]"), "DPR-S518", "tenur]", ("`tenure`",)),
    (UNITS, JOIN, JOIN.replace("[tenure]", "[tenure, plan]"), "DPR-S521", "plan]", ("plan: {type: text}",)),
    (UNITS, JOIN, JOIN.replace("[tenure]", "[tenure, tenure]"), "DPR-S522", "tenure]", ("once",)),
    (
        UNITS,
        "      tenure: {type: integer, range: [0, 40]}\n      country",
        "      tenure: {type: decimal, range: [0, 40]}\n      country",
        "DPR-S519",
        "tenure]",
        ("one type",),
    ),
    (
        UNITS,
        JOIN,
        JOIN + "\n      - {table: users, on: user_id, max_matches: 2, add: [plan]}",
        "DPR-S564",
        "users, on: user_id, max_matches: 2",
        ("a second time", "one join"),
    ),
    (
        UNITS,
        "  users:\n    account: web\n",
        "  users:\n    account: other\n",
        "DPR-S568",
        "users, on",
        ("'other' pays", "one account"),
    ),
    (
        UNITS,
        "    unit_id: who\n    columns:\n",
        "    unit_id: user_id\n    join: [{table: visits, on: user_id, max_matches: 1, add: [kind]}]\n    columns:\n",
        "DPR-S566",
        "visits, on",
        ("joins a confidential table itself",),
    ),
    (
        UNITS,
        "    columns:\n      tenure: {type: integer, range: [0, 40]}\n      plan",
        "    columns:\n      user_id: {type: integer}\n      tenure: {type: integer, range: [0, 40]}\n      plan",
        "DPR-S519",
        "user_id, max",
        ("text here, integer in 'users'",),
    ),
    # public joins beside them
    (UNITS, PUBLIC, PUBLIC.replace("on: page", "on: term"), "DPR-S518", "term", ("there is: page",)),
    (UNITS, PUBLIC, PUBLIC.replace("on: page", "on: user_id"), "DPR-S520", "user_id", ("no declared column",)),
    (
        swapped("columns: {page: text, topic: text}", "columns: {page: text, topic: text, sector: text}", UNITS),
        PUBLIC,
        PUBLIC.replace("on: page", "on: sector"),
        "DPR-S522",
        "sector",
        ("computed", "column of the source"),
    ),
    (
        swapped("columns: {page: text, topic: text}", "columns: {page: text, topic: text, tenure: integer}", UNITS),
        PUBLIC,
        PUBLIC.replace("on: page", "on: tenure"),
        "DPR-S522",
        "tenure, add",
        ("joined later",),
    ),
    (
        swapped("columns: {page: text, topic: text}", "columns: {page: text, topic: text, sector: text}", UNITS),
        PUBLIC,
        PUBLIC.replace("[topic]", "[topic, sector]"),
        "DPR-S522",
        "sector]",
        ("which the table computes",),
    ),
    # bands
    (UNITS, "bin: tenure,", "bin: tenur,", "DPR-S558", "tenur,", ("`tenure`",)),
    (UNITS, "bin: tenure,", "bin: device,", "DPR-S558", "device,", ("below device",)),
    (UNITS, "bin: tenure,", "bin: since,", "DPR-S558", "since,", ("means itself",)),
    (UNITS, "bin: tenure,", "bin: term,", "DPR-S558", "term,", ("is text", "`map`")),
    (
        UNITS,
        'edges: [0, 1, 2.5, 10], labels: {"[0,1)": New}',
        "labels: {}",
        "DPR-S559",
        "tenure, labels",
        ("`edges: [",),
    ),
    (UNITS, "[0, 1, 2.5, 10]", "[0, 1, 1, 10]", "DPR-S559", "edges", ("larger than the one before",)),
    (UNITS, '[0, 1, 2.5, 10], labels: {"[0,1)": New}', "[0]", "DPR-S559", "edges", ("two or more",)),
    (UNITS, "[0, 1, 2.5, 10]", "[0, 1, 1e17]", "DPR-S559", "edges", ("2^53",)),
    (UNITS, "[0, 1, 2.5, 10]", "[0, 1, ten]", "DPR-S204", "ten]", ("digits",)),
    (UNITS, '"[0,1)": New', '"[0,2)": New', "DPR-S526", '"[0,2)"', ("`[0,1)`",)),
    (UNITS, "bin: tenure, edges", "bin: tenure, type: integer, edges", "DPR-S557", "integer, edges", ("are text",)),
    (UNITS, "bin: tenure, edges", "bin: tenure, keys: [a], edges", "DPR-S557", "keys: [a]", ("are the bands",)),
    (UNITS, "bin: tenure, edges", 'bin: tenure, sql: "term", edges', "DPR-S557", '"term"', ("keep one",)),
    (UNITS, SEEN, "seen: {type: timestamp, edges: [1, 2]}", "DPR-S557", "edges: [1", ("`bin: COLUMN`",)),
    # maps
    (UNITS, "map: nace,", "map: nac,", "DPR-S558", "nac,", ("`nace`",)),
    (UNITS, "map: nace,", "map: price,", "DPR-S558", "price,", ("is decimal", "`bin`")),
    (UNITS, "{1: farming, 02: industry, 3: farming}", "{}", "DPR-S560", "nace, to", ("to: {A: farming",)),
    (UNITS, "02: industry", "01: industry", "DPR-S560", "01:", ("keep one",)),
    (UNITS, "02: industry", "x: industry", "DPR-S560", "x: ind", ("is no value of 'nace'",)),
    (UNITS, "to: {DE: 1, FR: 2}", "to: {DE: 1, FR: two}", "DPR-S212", "two", ("whole number",)),
    (UNITS, "to: {DE: 1, FR: 2}, null: 2", "to: {DE: 1, FR: 2}, null: 3", "DPR-S527", "3}", ("there is: 1, 2",)),
    (UNITS, SEEN, "seen: {type: timestamp, otherwise: x}", "DPR-S557", "x}", ("`map: COLUMN`",)),
    (UNITS, "      nace: {type: integer}", "      nace: {}", "DPR-S201", "nace", ("type: text",)),
    # expressions
    (UNITS, '"tenure  >= 18 and', '"tenur >= 18 and', "DPR-S561", '"tenur', ("no column",)),
    (UNITS, '"seconds / 60"', '"device"', "DPR-S558", '"device"', ("move this column below device",)),
    (UNITS, '"seconds / 60"', '"minutes + 1"', "DPR-S558", '"minutes', ("means itself",)),
    (UNITS, '"seconds / 60"', '"seconds > 60"', "DPR-S562", '"seconds >', ("type: boolean",)),
    (UNITS, '"seconds / 60"', '"(select 1)"', "DPR-S561", '"(select', ("cannot be used",)),
    (UNITS, '"seconds / 60"', '""', "DPR-S215", '""', ("empty",)),
    (UNITS, '"seconds > 0 and  term is not null"', '"seconds + 1"', "DPR-S562", '"seconds +', ("age >= 18",)),
    (UNITS, '"seconds > 0 and  term is not null"', '"secnds > 0"', "DPR-S561", '"secnds', ("no column",)),
    (UNITS, '"seconds > 0 and  term is not null"', "\"user_id = '7'\"", "DPR-S561", '"user_id', ("no column",)),
    (UNITS, '"seconds > 0 and  term is not null"', "[a]", "DPR-S203", "where", ("not text",)),
    (UNITS, '"seconds >  60"', '"seconds"', "DPR-S562", '"seconds"', ("true or false",)),
    (UNITS, '"seconds >  60"', '"random() > 60"', "DPR-S561", '"random', ("cannot be used",)),
    # bounds of a query
    (UNITS, LIMITS, "bounds: {}", "DPR-S224", "bounds", ("max_groups: 3",)),
    (UNITS, LIMITS, "bounds: {max_rows: 3}", "DPR-S200", "max_rows", ("of the table",)),
    (UNITS, LIMITS, "bounds: {max_groups: -3}", "DPR-S205", "-3", ("from 1",)),
    (UNITS, LIMITS, "max_groups: 3", "DPR-S200", "max_groups", ("bounds: {max_groups: 3}",)),
    (UNITS, "clip_per: row", "clip: [0, 9]", "DPR-S556", "average", ("unit_cell",)),
    (UNITS, CLICKS, "measures: {n: {count: rows}}}", "DPR-S554", "n: {count: r", ("max_rows_per_group: 10",)),
    (UNITS, CLICKS, "measures: {n: {count: amount}}}", "DPR-S554", "n: {count: a", ("max_rows: 100",)),
    (UNITS, CLICKS, "measures: {n: {min: amount}}}", "DPR-S554", "n: {min", ("one unit may have",)),
    (UNITS, CLICKS, "measures: {n: {sum: amount, clip_per: row}}}", "DPR-S554", "n: {sum", ("adds up rows",)),
    (UNITS, CLICKS, "measures: {n: {sum: amount}}}", "DPR-S556", "n: {sum", ("what is clipped",)),
    (UNITS, "of: rows, bounds: {max_rows_per_group: 4}", "of: rows", "DPR-S554", "rows, share", ("of: units",)),
    (UNITS, CLICKS, "keys: private, measures: {n: {count: units}}}", "DPR-S555", "private", ("max_groups: 3",)),
    # private keys
    (UNITS, TERMS, "    bounds: {max_groups: 5}\n", "DPR-S505", "term, sector", ("`keys: private`",)),
    (UNITS, "by: [term, sector]", "by: [term, price]", "DPR-S571", "price]", ("bin: COLUMN",)),
    (UNITS, "    by: [term, sector]\n", "", "DPR-S570", "private", ("by: [COLUMN]",)),
    (UNITS, "delta: 1e-9", "delta: 0", "DPR-S572", "private", ("greater than 0",)),
    (UNITS, "min_units: 20", "min_units: 0", "DPR-S205", "0", ("from 1",)),
    (UNITS, "keys: private", "keys: [a, b]", "DPR-S202", "keys: [a", ("private",)),
    (UNITS, LIMITS, LIMITS + "\n    min_units: 20", "DPR-S573", "20", ("keys: private",)),
    (UNITS, "min_units: 20", "except: {reference: never}", "DPR-S574", "except", ("nobody has",)),
    # exceptions
    (UNITS, "except: {reference: never}", "except: {reference: nevr}", "DPR-S517", "nevr", ("`never`",)),
    (UNITS, "except: {reference: never}", "except: never", "DPR-S203", "never", ("{reference: NAME}",)),
    (UNITS, "by: [country, device]", "by: [country, adult]", "DPR-S518", "never}", ("'adult'",)),
    (UNITS, "    by: [country, device]\n", "", "DPR-S574", "except", ("`by` is empty",)),
    (UNITS, "device: text, why", "device: integer, why", "DPR-S519", "never}", ("one type",)),
    # suppressed rows
    (UNITS, "{measure: users, below: 30}", "{measure: user, below: 30}", "DPR-S584", "user,", ("`users`",)),
    (UNITS, "{measure: users, below: 30}", "{measure: middle, below: 30}", "DPR-S584", "middle,", ("`middle_q",)),
    (UNITS, "{measure: users, below: 30}", "{measure: users}", "DPR-S201", "suppress", ("below: 30",)),
    (UNITS, "{measure: users, below: 30}", "{measure: users, below: few}", "DPR-S204", "few", ("digits",)),
    # lists of keys
    (UNITS, TOP, "top_k: pag, k: 2}", "DPR-S504", "pag,", ("`page`",)),
    (UNITS, TOP, "top_k: term, k: 2}", "DPR-S576", "term,", ("public values",)),
    (UNITS, TOP, "top_k: page}", "DPR-S577", "page}", ("k: 10",)),
    (UNITS, TOP, "top_k: country, k: 4}", "DPR-S577", "4}", ("from 1 to 3",)),
    (UNITS, TOP, "top_k: page, k: 0}", "DPR-S205", "0}", ("from 1",)),
    (UNITS, TOP, "top_k: page, k: 2, of: clicks}", "DPR-S202", "clicks", ("units",)),
    (UNITS, TOP, "k: 2, measures: {n: {count: units}}}", "DPR-S577", "2, measures", ("top_k: COLUMN",)),
    (UNITS, TOP, "top_k: page, k: 2, by: [country]}", "DPR-S578", "by: [country]", ("of its own",)),
    (UNITS, TOP, "top_k: page, k: 2, measures: {n: {count: units}}}", "DPR-S578", "measures", ("ranks",)),
    (UNITS, TOP, "top_k: page, k: 2, keys: private}", "DPR-S578", "private}", ("leave it out",)),
    (UNITS, TOP, "top_k: page, k: 2, target: {n: {margin: 5}}}", "DPR-S578", "target", ("leave it out",)),
    (UNITS, TOP, "top_k: page, k: 2, budget: {epsilon: 3}}", "DPR-S544", "3}", ("the whole release",)),
    (UNITS, TOP, "by: [page]}", "DPR-S201", "top_pages", ("count: rows",)),
    # measures
    (UNITS, "at: [0.125, 0.5, 0.75]", "at: [0.125, 50]", "DPR-S580", "50]", ("0.5 is the median",)),
    (UNITS, "at: [0.125, 0.5, 0.75]", "at: [0.5, 0.5]", "DPR-S580", "0.5]", ("once",)),
    (UNITS, "at: [0.125, 0.5, 0.75]", "at: [0.5, 0.25]", "DPR-S580", "0.25]", ("rising",)),
    (UNITS, "at: [0.125, 0.5, 0.75]", "at: 0.5", "DPR-S210", "0.5,", ("[0.25, 0.5, 0.75]",)),
    (UNITS, "at: [0.125, 0.5, 0.75]", "at: []", "DPR-S210", "at", ("at least",)),
    (UNITS, "at: [0.125, 0.5, 0.75], ", "", "DPR-S201", "middle", ("at",)),
    (UNITS, "{quantiles: seconds", "{quantiles: term", "DPR-S507", "term", ("needs a number",)),
    (UNITS, "{quantiles: seconds", "{quantiles: nace", "DPR-S508", "nace", ("never read from the data",)),
    (UNITS, "clip: [0, 600]", "clip: [0, 0.5]", "DPR-S513", "clip: [0, 0.5", ("multiples of the step",)),
    (UNITS, "clip: [0, 600]", "clip_per: row", "DPR-S200", "clip_per", ("clip",)),
    (UNITS, "range: [-100, 1e6], step: 0.01", "range: [0, 1e9], step: 0.01", "DPR-S581", "price}", ("step: 1`",)),
    (UNITS, "{count_distinct: page}", "{count_distinct: pag}", "DPR-S504", "pag}", ("`page`",)),
    (UNITS, "{ratio: [long, visits]}", "{ratio: [long, visit]}", "DPR-S582", "visit]", ("`visits`",)),
    (UNITS, "{ratio: [long, visits]}", "{ratio: [rate, visits]}", "DPR-S582", "rate, v", ("itself",)),
    (UNITS, "{ratio: [long, visits]}", "{ratio: [middle, visits]}", "DPR-S582", "middle, v", ("is a quantiles",)),
    (UNITS, "{ratio: [long, visits]}", "{ratio: [average, visits]}", "DPR-S582", "average, v", ("take a count",)),
    (UNITS, "{ratio: [long, visits]}", "{ratio: [long, long]}", "DPR-S582", "long]", ("two different",)),
    (UNITS, "{ratio: [long, visits]}", "{ratio: [long]}", "DPR-S210", "ratio", ("two",)),
    (UNITS, "[long, visits]}", '[long, visits], where: "seconds > 1"}', "DPR-S583", '"seconds > 1"', ("two measures",)),
    (UNITS, "pages: {count_distinct", "middle_q50: {count_distinct", "DPR-S523", "middle: ", ("middle_q50",)),
    (UNITS, "pages: {count_distinct", "Middle_Q75_margin: {count_distinct", "DPR-S523", "middle: ", ("rename",)),
    (UNITS, "pages: {count_distinct", "Middle_Q75_lower: {count_distinct", "DPR-S523", "middle: ", ("rename",)),
    (
        UNITS,
        "expect: {visits: 500}",
        "target: {middle: {margin: 5}}",
        "DPR-S585",
        "middle: {m",
        ("depends on the data",),
    ),
    (UNITS, "expect: {visits: 500}", "target: {least: {margin: 5}}", "DPR-S585", "least: {m", ("share",)),
    (UNITS, "expect: {visits: 500}", "target: {rate: {margin: 1}}", "DPR-S542", "rate: {m", ("expect",)),
    (UNITS, "expect: {visits: 500}", "expect: {pages: 500}", "DPR-S515", "pages: 500", ("no count",)),
    # further tables
    (UNITS, "  gap: {title", "  by_Country: {title", "DPR-S586", "by_Country", ("both would be one file",)),
    (UNITS, "  gap: {title", "  g.p: {title", "DPR-S502", "g.p", ("letters",)),
    (UNITS, '"select country, average - middle_q50 as gap from by_country"', '" "', "DPR-S215", '" "', ("empty",)),
    (UNITS, "  gap: {title: Gap, sql", "  gap: {title: Gap, sq1", "DPR-S200", "sq1", ("`sql`",)),
]


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        load(text, "spec.yaml")
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "old", "new", "code", "begins", "says"), WRONG, ids=[f"{row[3]}: {row[2][:40]}" for row in WRONG]
)
def test_one_mistake_is_one_problem_with_its_place_and_a_hint(
    text: str, old: str, new: str, code: str, begins: str, says: tuple[str, ...]
) -> None:
    wrong = swapped(old, new, text)
    problems = problems_of(wrong)

    assert [problem.code for problem in problems] == [code], "\n".join(map(str, problems))
    (problem,) = problems
    assert problem.where is not None
    line = wrong.splitlines()[problem.where.line - 1]
    assert line[problem.where.column - 1 :].startswith(begins), line[problem.where.column - 1 :]
    assert problem.hint
    for part in says:
        assert part in f"{problem.summary}\n{problem.hint}"
