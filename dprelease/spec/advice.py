"""What the language knows and this version refuses, with what to do instead; and what a missing field looks like.

The patterns are dotted paths in which ``*`` stands for a name that the author chose, and ``=`` comes before a value.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COMPANIONS", "EXAMPLES", "MISPLACED", "NOT_YET"]

_PREPARE = "prepare the column in the data, and declare it"
_POSTPROCESS = "compute it from the published tables: what is done after the noise costs nothing"
_ONE_ROW = "keep one row per unit in the data, and leave this out: every row is then one unit"
_BY = "write one query for each table that is wanted"
_KEYS = "declare the keys that may appear, as a list or a reference"
_RANGE = "publish a sum, a mean and counts; a count by a column of bands shows the spread"

# A path, or a path and a value, to what can be done today.
NOT_YET: Mapping[str, str] = {
    "hierarchies": "join the levels from a reference, and write one query per level",
    "postprocess": _POSTPROCESS,
    "invariants": "leave it out: every published number is protected",
    "derive": _POSTPROCESS,
    "schedule": "start `dprelease run` with a scheduler of your own, one period at a time",
    "tables.*.source.database": "export the rows to a CSV or Parquet file, and write `file: ...`",
    "tables.*.unit_id": _ONE_ROW,
    "tables.*.time": "keep one file per period, and name it in `source.file`",
    "tables.*.bounds": _ONE_ROW,
    "tables.*.join.table": "join confidential tables before the release, one row per unit",
    "tables.*.columns.*.sql": _PREPARE,
    "tables.*.columns.*.bin": _PREPARE,
    "queries.*.where": "prepare a file with these rows alone, and declare it as a table",
    "queries.*.totals": _BY,
    "queries.*.except": "leave the cells in: they are published like all others",
    "queries.*.bounds": _ONE_ROW,
    "queries.*.keys": _KEYS,
    "queries.*.top_k": "publish a count by the column, and sort it",
    "queries.*.marginals": _BY,
    "queries.*.levels": _BY,
    "queries.*.measures.*.where": "prepare a column that is null in the other rows, and count it",
    "queries.*.measures.*.quantiles": _RANGE,
    "queries.*.measures.*.ratio": _POSTPROCESS,
    "publish.formats=json": "use csv or parquet",
    "publish.formats=sdmx": "use csv or parquet",
    "publish.formats=xlsx": "use csv, which spreadsheets open",
    # dprelease.yaml and policy.yaml
    "anchors": "leave it out, and keep copies of the ledger",
    "signing_key": "leave it out: releases then say that they are unsigned",
    "ledger=postgresql": "use a file on this host: sqlite:///state/ledger.db",
    "accounts.*.window": "write a `lifetime`, and open a new account for the next window",
    "accounts.*.composition=rdp": "use zcdp, or basic",
    "accounts.*.composition=pld": "use zcdp, or basic",
    "approvals.required": "write `required: 0`, or leave it out, and let reviews be kept by your own means",
    "approvals.roles": "leave it out, and let reviews be kept by your own means",
}

# Fields that only another one of NOT_YET gives a meaning: one problem for both.
COMPANIONS: Mapping[str, str] = {
    "tables.*.source.table": "database",
    "tables.*.columns.*.edges": "bin",
    "tables.*.join.max_matches": "table",
    "queries.*.k": "top_k",
    "queries.*.min_units": "keys",
    "queries.*.shares": "levels",
    "queries.*.measures.*.at": "quantiles",
}

# Fields that stand elsewhere, to what is meant there.
MISPLACED: Mapping[str, str] = {
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
    "tables.*.join.reference": "write `{reference: geography, on: puma, add: [state]}`",
    "tables.*.join.on": "write `{reference: geography, on: puma, add: [state]}`",
    "tables.*.join.add": "write `{reference: geography, on: puma, add: [state]}`",
    "queries": "write `queries: {people: {table: people, by: [sex], measures: {persons: {count: rows}}}}`",
    "queries.*.table": "write `table: NAME`, a table of this file",
    "queries.*.measures": "write `measures: {persons: {count: rows}}`",
    "queries.*.budget": "write `budget: {epsilon: 1/10}` or `budget: {rho: 1/100}`",
    "queries.*.target": "write `target: {persons: {margin: 500}}`, by the name of a measure",
    "queries.*.target.*": "write `target: {persons: {margin: 500}}`, by the name of a measure",
    "publish.unreliable.relative_error_above": "write `relative_error_above: 0.5`",
    "ledger": "write `ledger: sqlite:///state/ledger.db`",
    "accounts": "write `accounts: {demo: {unit: person, composition: zcdp, lifetime: {epsilon: 4, delta: 1e-8}}}`",
    "accounts.*.unit": "write `unit: person`: whom the account protects",
    "accounts.*.lifetime": "write `lifetime: {epsilon: 4, delta: 1e-8}`",
    "accounts.*.composition": "write `composition: zcdp`, or basic",
}
