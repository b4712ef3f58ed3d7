"""What is meant by a field in another place or by another word, and what a missing field looks like.

The patterns are dotted paths in which ``*`` stands for a name that the author chose.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["EXAMPLES", "MEASURES_ELSEWHERE", "MISPLACED", "WORDS_ELSEWHERE"]

# Fields that stand elsewhere, to what is meant there.
MISPLACED: Mapping[str, str] = {
    "tables.*.bounds.max_groups": "write it under `bounds` of a query: it depends on the cells",
    "tables.*.bounds.max_rows_per_group": "write it under `bounds` of a query: it depends on the cells",
    "queries.*.bounds.max_rows": "write it under `bounds` of the table: it holds for all of its queries",
    "queries.*.bounds.truncate": "write it under `bounds` of the table: it holds for all of its queries",
    "queries.*.max_groups": "write `bounds: {max_groups: 3}`",
    "queries.*.max_rows_per_group": "write `bounds: {max_rows_per_group: 10}`",
    "tables.*.max_rows": "write `bounds: {max_rows: 100}`",
    "tables.*.where": "write it in each query",
    **{
        f"queries.*.measures.*.{word}": f"write it in the query, beside `measures`: `compare: {{{example}}}`"
        for word, example in {
            "share_of": "share: {measure: persons, share_of: total}",
            "change_from": "change: {measure: persons, change_from: previous}",
            "difference_from": "to_south: {measure: persons, difference_from: {region: South}}",
            "differences_between": "apart: {measure: persons, differences_between: region}",
            "index_to": "index: {measure: persons, index_to: 2023}",
        }.items()
    },
    "queries.*.measures.*.round": "write it in the query, beside `measures`: `round: 10` or `round: {persons: 10}`",
    "queries.*.budget.delta": "leave it out: the delta of `privacy.budget` holds for every query",
    "queries.*.target.*.confidence": "leave it out: `publish.confidence` holds for every margin",
}

# A required field, or one that is no mapping, to a line that would do.
EXAMPLES: Mapping[str, str] = {
    "dprelease": "write `dprelease: 1`, the version of the format",
    "release": "write `release: {name: my-release}`",
    "release.name": "write `name: my-release`",
    "privacy": "write `privacy: {unit: {entity: person}, budget: {epsilon: 1, delta: 1e-9}}`",
    "privacy.unit": "write `unit: {entity: person}`: who is protected",
    "privacy.unit.entity": "write `entity: person`: who is protected",
    "privacy.budget": "write `budget: {epsilon: 1, delta: 1e-9}`: there is no default",
    "privacy.at_most.delta": "write both: `at_most: {epsilon: 3, delta: 1e-8}`",
    "privacy.at_most.epsilon": "write both: `at_most: {epsilon: 3, delta: 1e-8}`",
    "references.*.file": "write `file: reference/NAME.csv`",
    "references.*.columns": "write `columns: {region: text}`",
    "tables": "write `tables: {people: {account: ..., source: {file: ...}, columns: {...}}}`",
    "tables.*.account": "write `account: NAME`, an account of policy.yaml that pays",
    "tables.*.source": "write `source: {file: data/people.csv}`",
    "tables.*.source.file": "write `file: data/people.csv`",
    "tables.*.columns": "write `columns: {sex: {type: integer, keys: [1, 2]}}`",
    "tables.*.columns.*.type": "write `type: text`, or integer, decimal, boolean, date, timestamp",
    "tables.*.columns.*.keys.reference": "write `keys: {reference: NAME}`, a list, or `{from: 1, to: 9}`",
    "tables.*.columns.*.keys.from": "write both ends: `keys: {from: 1, to: 9}`",
    "tables.*.columns.*.keys.to": "write both ends: `keys: {from: 1, to: 9}`",
    "tables.*.time": "write `time: {column: seen, type: date}`",
    "tables.*.time.column": "write `time: {column: seen, type: date}`",
    "tables.*.time.type": "write `type: date`, or timestamp",
    "tables.*.bounds": "write `bounds: {max_rows: 100}`",
    "tables.*.bounds.max_rows": "write `bounds: {max_rows: 100}`",
    "tables.*.join.on": "write `{reference: geography, on: puma, add: [state]}`",
    "tables.*.join.add": "write `{reference: geography, on: puma, add: [state]}`",
    "queries": "write `queries: {people: {table: people, by: [sex], measures: {persons: {count: rows}}}}`",
    "queries.*.table": "write `table: NAME`, a table of this file",
    "queries.*.measures": "write `measures: {persons: {count: rows}}`",
    "queries.*.measures.*.at": "write `at: [0.25, 0.5, 0.75]`, at least one",
    "queries.*.measures.*.ratio": "write `ratio: [a, b]`, by the names of two measures of this query",
    "queries.*.bounds": "write `bounds: {max_groups: 3, max_rows_per_group: 10}`",
    "queries.*.except": "write `except: {reference: NAME}`, whose lines are the combinations",
    "queries.*.except.reference": "write `except: {reference: NAME}`, whose lines are the combinations",
    "queries.*.suppress": "write `suppress: {measure: users, below: 30}`",
    "queries.*.suppress.measure": "write `suppress: {measure: users, below: 30}`",
    "queries.*.suppress.below": "write `suppress: {measure: users, below: 30}`",
    "queries.*.budget": "write `budget: {epsilon: 1/10}` or `budget: {rho: 1/100}`",
    "queries.*.target": "write `target: {persons: {margin: 500}}`, by the name of a measure",
    "queries.*.target.*": "write `target: {persons: {margin: 500}}`, by the name of a measure",
    "queries.*.marginals": "write `marginals: {of: [sex, race], ways: [0, 1, 2]}`",
    "queries.*.marginals.of": "write `of: [sex, race]`, columns with keys",
    "queries.*.marginals.ways": "write `ways: [0, 1, 2]`: the total, tables of one column, and tables of two",
    "queries.*.marginals.sets": "write `sets: [[sex, race], [sex], []]`",
    "queries.*.ranges": "write `ranges: {of: age, which: prefixes}`",
    "queries.*.ranges.of": "write `ranges: {of: age, which: prefixes}`, a column of `by` in order",
    "queries.*.ranges.which": "write `which: prefixes`, up to each key; or `which: all`, from each to each later one",
    "queries.*.series": "write `series: {from: 2024-01, sums: [3, 12, ytd]}`",
    "queries.*.series.from": "write `from: 2024-01`, the first period of the series",
    "queries.*.series.sums": "write `sums: [3, 12, ytd]`: numbers of periods, and `ytd` for all since January",
    "queries.*.series.look_back": "write `look_back: 12`: how many periods are read again each time",
    "queries.*.series.skip": "write `skip: [2024-05]`, periods of which nothing was read and nothing can be",
    "queries.*.series.horizon": "write `horizon: 60`, the number of periods after which a new series begins",
    "queries.*.series.minimize": "write `minimize: relative`, or alike, or weights as in `{period: 4, 12: 1}`",
    "queries.*.totals": "write `totals: [[], [region]]`, lists of columns of `by`, or `totals: all`",
    "queries.*.shares": "write `shares: {levels: {region: 1/3, state: 2/3}, tables: {total: 1/2, sex: 1/2}}`",
    "queries.*.shares.levels": "write `levels: {region: 1/3, state: 2/3}`",
    "queries.*.shares.tables": "write `tables: {total: [1/2, 1/4], sex: [1/2, 3/4]}`, a number for each level",
    "hierarchies": "write `hierarchies: {geography: [region, state]}`, top first",
    "hierarchies.*": "write the columns, top first, two or more: `geography: [region, state]`",
    "postprocess": "write `postprocess: [consistent]`",
    "invariants": 'write `invariants: [{query: population, measure: persons, why: "Title 2, section 2"}]`',
    "derive.*": 'write `gap: {sql: "select state, average - middle_q50 as gap from income"}`',
    "derive.*.sql": 'write `gap: {sql: "select state, average - middle_q50 as gap from income"}`',
    "publish.unreliable.relative_error_above": "write `relative_error_above: 0.5`",
    "publish.symbols": 'write `symbols: {unreliable: "[u]", no_estimate: "[x]"}`',
    "schedule": 'write `schedule: {cron: "0 6 5 * *", timezone: Europe/Paris, period: month, not_before: 4d}`',
    "schedule.cron": 'write `cron: "0 6 5 * *"`: 6:00 on every 5th',
    "schedule.timezone": "write `timezone: Europe/Paris`, or UTC",
    "schedule.revisions": "write `revisions: [1m, 12m]`: how long after a period's end it is released again",
    "schedule.skip": "write `skip: {2024-02: the source is lost}`: a period, and why it is not released",
    "schedule.period": "write `period: month`, or day, week, quarter, year",
    "ledger": "write `ledger: sqlite:///state/ledger.db`",
    "accounts": "write `accounts: {demo: {unit: person, composition: zcdp, lifetime: {epsilon: 4, delta: 1e-8}}}`",
    "accounts.*.unit": "write `unit: person`: whom the account protects",
    "accounts.*.lifetime": "write `lifetime: {epsilon: 4, delta: 1e-8}`",
    "accounts.*.composition": "write `composition: zcdp`, or basic",
    "accounts.*.lifetime.epsilon": "write `lifetime: {epsilon: 4, delta: 1e-8}`",
    "accounts.*.window": "write `window: {per: year, epsilon: 4, delta: 1e-8}`",
    "accounts.*.window.per": "write `per: year`, or day, week, month, quarter",
    "accounts.*.window.epsilon": "write `window: {per: year, epsilon: 4, delta: 1e-8}`",
    "accounts.*.parallel": "write `parallel: month`, or day, week, quarter, year",
    "accounts.*.time": "write `time: {column: seen, type: date}`, as in the tables",
    "accounts.*.nests": "write `nests: {person: 5}`: at most so many persons in one unit of the account",
    "anchors": "write `anchors: [state-anchor/head.json]`, or `anchors: []` for none",
    "ceilings": "write `ceilings: {epsilon: 4, delta: 1e-8}`",
    "ceilings.epsilon": "write `ceilings: {epsilon: 4, delta: 1e-8}`",
    "ceilings.delta": "write `ceilings: {epsilon: 4, delta: 1e-8}`",
    "ceilings.units": "write `units: [person]`, or leave it out",
}

# What other languages call a measure, in small letters, to how it is written here.
MEASURES_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("median", "medians"), "{quantiles: COLUMN, at: [0.5]}"),
    **dict.fromkeys(
        ("quantile", "percentile", "percentiles", "quartiles", "deciles"), "{quantiles: COLUMN, at: [0.5]}"
    ),
    "gini": "{quantiles: COLUMN, at: [0.5], gini: true}",
    **dict.fromkeys(("avg", "average"), "{mean: COLUMN}"),
    **dict.fromkeys(("std", "sd", "stdev", "stdev_samp", "stddev_samp"), "{stddev: COLUMN}"),
    **dict.fromkeys(("var", "var_samp"), "{variance: COLUMN}"),
    **dict.fromkeys(("n", "size", "rows", "number", "freq", "frequency"), "{count: rows}"),
    **dict.fromkeys(("units", "persons", "people"), "{count: units}"),
    **dict.fromkeys(("unique", "nunique", "distinct", "n_unique"), "{count_distinct: COLUMN}"),
    **dict.fromkeys(("total", "sums"), "{sum: COLUMN}"),
    **dict.fromkeys(("share", "percent", "proportion", "rate"), "{ratio: [a, b]}, of two measures of the query"),
}

_TYPES_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("float", "double", "real", "number", "numeric", "money", "float64", "currency"), "decimal"),
    **dict.fromkeys(("string", "str", "varchar", "char", "character", "category", "factor", "object"), "text"),
    **dict.fromkeys(("int", "int64", "int32", "bigint", "smallint", "long", "whole"), "integer"),
    **dict.fromkeys(("bool", "logical", "flag"), "boolean"),
    **dict.fromkeys(("datetime", "datetime64", "time", "posixct"), "timestamp"),
    "day": "date",
}
_NOISE_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("normal", "gauss", "discrete gaussian", "discrete_gaussian"), "gaussian"),
    **dict.fromkeys(("geometric", "exponential", "discrete laplace", "discrete_laplace"), "laplace"),
}

# By field: what other languages call a choice, in small letters, to the choice that is meant.
WORDS_ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "tables.*.columns.*.type": _TYPES_ELSEWHERE,
    "privacy.noise": _NOISE_ELSEWHERE,
}
