"""Checking a bundle with nothing but the bundle: what its own files can say about one another.

A manifest that is not signed shows accidents and careless changes. Somebody who rewrites every file can rewrite
the manifest too; the ledger's hash then tells.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.canonical import sha256
from dprelease.catalog.table import Column, Key
from dprelease.errors import PublishError
from dprelease.estimate import PublishedMeasure, PublishedTable, Status
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.accounting.report import planned
from dprelease.publish.base import columns, header, key_columns, key_text, measure_names, public_rows, safe_path
from dprelease.publish.bundle.folder import files_in
from dprelease.publish.bundle.package import MANIFEST_FILE, Manifest
from dprelease.publish.derive.tables import derived_of, made_again, outline
from dprelease.publish.formats.parquet import parquet_cells, parquet_keys

__all__ = ["Check", "check_bundle"]

_LEDGER_KEYS = {
    "accounts",
    "approvals",
    "cap_changes",
    "changed_data",
    "environment",
    "ledger",
    "notice",
    "rehearsal",
    "restates",
    "windows",
}


@dataclass(frozen=True)
class Check:
    """One thing that was checked.

    Attributes:
        name: Stable words for it.
        passed: Whether it holds.
        detail: What differs and where; empty where it holds.
    """

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True)
class _Bundle:
    folder: Path
    manifest: Manifest
    sound: Mapping[str, bytes]  # files whose size and hash are the manifest's
    plan: ReleasePlan | None


def check_bundle(folder: Path) -> tuple[Check, ...]:
    """Every check, in a fixed order, whatever is wrong with the folder.

    Returns:
        One result each for: the manifest is readable; every file has its size and hash; there is no other
        file; the plan has the fingerprint of the manifest; accounting and manifest agree with the plan; the
        columns and row keys of the tables are the plan's. Where noise decided the keys, the files of all formats
        have the same ones, none twice; a derived table is made again from the tables beside it. The loss itself is
        derived again by ``plan.verify``.
    """
    manifest, why = _manifest(folder)
    if manifest is None:
        later = tuple(Check(name, False, "the manifest cannot be read") for name in _CHECKS)
        return (Check("manifest", False, why), *later)
    sound = {path: data for path in manifest.files if (data := _sound(folder, manifest, path)) is not None}
    bundle = _Bundle(folder, manifest, sound, _plan(sound.get("plan.json")))
    results = [Check("manifest", True)]
    for name, check in _CHECKS.items():
        try:
            detail = check(bundle)
        except Exception as error:  # a forged plan can be well formed and still name what it does not hold
            detail = f"plan.json makes no sense ({type(error).__name__})"
        results.append(Check(name, not detail, detail))
    return tuple(results)


def _manifest(folder: Path) -> tuple[Manifest | None, str]:
    path = folder / MANIFEST_FILE
    if path.is_symlink() or not path.is_file():
        return None, f"there is no {MANIFEST_FILE} in {folder}"
    try:
        data = path.read_bytes()
        found = Manifest.from_canonical(data)
        for name in found.files:
            safe_path(name)
    except OSError as error:
        return None, f"{MANIFEST_FILE}: {error.strerror}"
    except (ValueError, PublishError):
        return None, f"{MANIFEST_FILE} is not a manifest of this format"
    if found.to_bytes() != data:
        return None, f"{MANIFEST_FILE} is not in its canonical form"
    return found, ""


def _sound(folder: Path, manifest: Manifest, name: str) -> bytes | None:
    """The bytes of a file, where they are what the manifest says; no link is followed out of the folder."""
    path, facts = folder / name, manifest.files[name]
    linked = any((folder / part).is_symlink() for part in (name, *map(str, Path(name).parents)) if part != ".")
    try:
        if linked or not path.is_file() or path.stat().st_size != facts.bytes:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    return data if sha256(data) == facts.sha256 else None


def _plan(data: bytes | None) -> ReleasePlan | None:
    if data is None:
        return None
    try:
        plan = ReleasePlan.from_canonical(data)
    except ValueError:
        return None
    return plan if (plan.canonical() + "\n").encode() == data else None


def _files(bundle: _Bundle) -> str:
    return _named([name for name in bundle.manifest.files if name not in bundle.sound], "missing or changed")


def _nothing_else(bundle: _Bundle) -> str:
    known = {MANIFEST_FILE, *bundle.manifest.files}
    return _named([name for name in files_in(bundle.folder) if name not in known], "not in the manifest")


def _named(names: list[str], what: str) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{what}: {', '.join(names[:5])}{more}" if names else ""


def _plan_agrees(bundle: _Bundle) -> str:
    plan, manifest = bundle.plan, bundle.manifest
    if plan is None:
        return "plan.json is missing, changed, or not a whole plan"
    if plan.fingerprint() != manifest.plan_fingerprint:
        return "plan.json has another fingerprint than the manifest says"
    claimed = (manifest.release, manifest.period, manifest.spec_fingerprint)
    if (plan.release.name, plan.release.period, plan.spec_fingerprint) != claimed:
        return "the manifest names another release, period or spec than plan.json"
    return ""


def _accounting_agrees(bundle: _Bundle) -> str:
    found = _json(bundle.sound.get("accounting.json"))
    if found is None or bundle.plan is None:
        return "accounting.json or plan.json cannot be read"
    expected = json.loads(json.dumps(planned(bundle.plan)))
    differ = [name for name in expected if found.get(name) != expected[name]]
    differ += sorted(set(found) ^ (set(expected) | _LEDGER_KEYS))
    if found.get("ledger") != bundle.manifest.ledger.model_dump():
        differ.append("ledger")
    if found.get("rehearsal") != bundle.manifest.rehearsal:
        differ.append("rehearsal")
    accounts = found.get("accounts")
    names = [each.get("name") for each in accounts if isinstance(each, dict)] if isinstance(accounts, list) else []
    if sorted(map(str, names)) != sorted(each.name for each in bundle.plan.accounts):
        differ.append("accounts")
    return _named(list(dict.fromkeys(differ)), "accounting.json differs from the plan or the manifest in")


def _json(data: bytes | None) -> dict[str, Any] | None:
    try:
        found = json.loads(data) if data is not None else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


Rows = list[tuple[str, ...]]


def _tables_agree(bundle: _Bundle) -> str:
    plan = bundle.plan
    if plan is None:
        return "plan.json cannot be read"
    readers: dict[str, Callable[[bytes, int], tuple[list[str], Rows] | None]] = {
        "csv": _csv_keys,
        "parquet": parquet_keys,
    }
    wrong = []
    for table in _asked(plan, bundle.manifest.rehearsal):
        seen: list[Rows] = []
        for ending in (each for each in readers if each in plan.publish.formats):
            name = f"tables/{table.name}.{ending}"
            data = bundle.sound.get(name)
            found = readers[ending](data, len(table.kinds)) if data is not None else None
            if found is None or found[0] != table.columns or not _rows_hold(table, found[1]):
                wrong.append(name)
            else:
                seen.append(found[1])
        if any(rows != seen[0] for rows in seen):
            wrong.append(f"tables/{table.name}")
    wrong += [] if wrong else _not_made_again(bundle, plan)
    return _named(wrong, "columns or row keys are not those of the plan")


@dataclass(frozen=True)
class _Asked:
    """What the plan says of a table: its columns, its keys' columns, and its rows or what they are out of."""

    name: str
    columns: list[str]
    kinds: tuple[Column, ...]
    rows: Rows | None
    ranks: int | None = None
    may_repeat: bool = False


def _asked(plan: ReleasePlan, rehearsal: bool) -> list[_Asked]:
    found = []
    for query in plan.queries:
        rows = public_rows(plan, query)
        known = None if rows is None else [tuple(map(key_text, row)) for row in rows]
        names, kinds = list(columns(plan, query, rehearsal=rehearsal)), key_columns(plan, query)
        found.append(_Asked(query.name, names, kinds, known, query.ranking.k if query.ranking else None))
    for derived in derived_of(plan):
        table = outline(plan, derived)
        names = list(header(table, rehearsal=rehearsal))
        found.append(_Asked(derived.name, names, table.key_columns, None, may_repeat=True))
    return found


def _rows_hold(table: _Asked, rows: Rows) -> bool:
    """Whether the rows are those of the plan; where noise decided, whether each can be, and stands there once."""
    if table.rows is not None:
        return rows == table.rows
    if table.ranks is not None and [row[0] for row in rows] != [str(rank) for rank in range(1, table.ranks + 1)]:
        return False
    known = [None if column.keys is None else set(map(key_text, column.keys)) for column in table.kinds]
    possible = all(allowed is None or part in allowed for row in rows for part, allowed in zip(row, known, strict=True))
    own = [row[1:] if table.ranks is not None else row for row in rows]
    return possible and (table.may_repeat or len(set(own)) == len(own))


def _not_made_again(bundle: _Bundle, plan: ReleasePlan) -> list[str]:
    """Derived tables whose keys or values are not those that their SQL gives on the tables beside them."""
    wrong = []
    ending = next((each for each in ("csv", "parquet") if each in plan.publish.formats), None)
    asked = derived_of(plan)
    if not asked or ending is None:
        return []
    read = csv_cells if ending == "csv" else parquet_cells
    tables = [_read(plan, query, read(bundle.sound[f"tables/{query.name}.{ending}"])) for query in plan.queries]
    for derived in asked:
        cells = read(bundle.sound[f"tables/{derived.name}.{ending}"])
        answer, table = made_again(plan, derived, tables), outline(plan, derived)
        keys = [tuple(map(key_text, row)) for row in answer.keys]
        found = list(zip(*(cells[column.name] for column in table.key_columns), strict=True))
        same = keys == (found if table.key_columns else [()] * len(keys))
        for at, measure in enumerate(table.measures):
            same = same and _equal(answer.values[:, at].tolist(), cells[measure.name], cells[f"{measure.name}_status"])
        if not same:
            wrong.append(f"tables/{derived.name}.{ending}")
    return wrong


def _equal(values: Sequence[float], texts: Sequence[str], statuses: Sequence[str]) -> bool:
    """Whether the numbers are these; what was withheld as unreliable is empty whatever it was."""
    if len(values) != len(texts):
        return False
    for value, text, status in zip(values, texts, statuses, strict=True):
        if not text:
            if not (math.isnan(value) or status == "unreliable"):
                return False
        elif not math.isclose(value, float(text), rel_tol=1e-9, abs_tol=1e-9):
            return False
    return True


def _read(plan: ReleasePlan, query: PlannedQuery, cells: Mapping[str, Sequence[str]]) -> PublishedTable:
    """The published values of a query from a file, as far as SQL can use them."""
    kinds, names = key_columns(plan, query), measure_names(plan, query)
    rows = len(next(iter(cells.values()), ()))
    read: dict[str, Callable[[str], Key]] = {"integer": int, "boolean": lambda text: text == "true"}
    nothing = np.full(rows, np.nan)
    ok: Status = "ok"
    return PublishedTable(
        name=query.name,
        title=query.title,
        key_columns=kinds,
        keys=tuple(tuple(map(read.get(column.type, str), cells[column.name])) for column in kinds),
        measures=tuple(
            PublishedMeasure(
                name=name,
                measure=query.measures[name],
                value=np.array([float(text) if text else math.nan for text in cells[name]], dtype=np.float64),
                standard_error=nothing,
                margin=nothing,
                status=(ok,) * rows,
                places=None,
                integer=False,
            )
            for name in names
        ),
        confidence=plan.publish.confidence,
        cells=rows,
    )


def csv_cells(data: bytes) -> dict[str, list[str]]:
    """The columns of a CSV file that was read before without a fault."""
    names, *rows = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


def _csv_keys(data: bytes, keys: int) -> tuple[list[str], Rows] | None:
    try:
        names, *rows = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
    except (ValueError, csv.Error):
        return None
    if any(len(row) != len(names) for row in rows):
        return None
    return names, [tuple(row[:keys]) for row in rows]


_CHECKS: dict[str, Callable[[_Bundle], str]] = {
    "files": _files,
    "nothing else": _nothing_else,
    "plan": _plan_agrees,
    "accounting": _accounting_agrees,
    "tables": _tables_agree,
}
