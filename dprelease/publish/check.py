"""Checking a bundle with nothing but the bundle: what its own files can say about one another.

A manifest that is not signed shows accidents and careless changes. Somebody who rewrites every file can rewrite
the manifest too; the ledger's hash then tells.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprelease.canonical import sha256
from dprelease.errors import PublishError
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.base import columns, key_text, safe_path
from dprelease.publish.folder import files_in
from dprelease.publish.package import MANIFEST_FILE, Manifest
from dprelease.publish.parquet import parquet_keys
from dprelease.publish.report import planned

__all__ = ["Check", "check_bundle"]

_LEDGER_KEYS = {"accounts", "environment", "ledger", "rehearsal", "notice"}


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
        columns and row keys of the tables are the plan's. The loss itself is derived again by ``plan.verify``.
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


def _tables_agree(bundle: _Bundle) -> str:
    plan = bundle.plan
    if plan is None:
        return "plan.json cannot be read"
    readers: dict[str, Callable[[bytes, int], tuple[list[str], list[tuple[str, ...]]] | None]] = {
        "csv": _csv_keys,
        "parquet": parquet_keys,
    }
    wrong = []
    for query, (ending, read) in itertools.product(plan.queries, readers.items()):
        if ending not in plan.publish.formats:
            continue
        name = f"tables/{query.name}.{ending}"
        data = bundle.sound.get(name)
        found = read(data, len(query.by)) if data is not None else None
        if found is None or found != _expected(plan, query, bundle.manifest.rehearsal):
            wrong.append(name)
    return _named(wrong, "columns or row keys are not those of the plan")


def _expected(plan: ReleasePlan, query: PlannedQuery, rehearsal: bool) -> tuple[list[str], list[tuple[str, ...]]]:
    keys = itertools.product(*(map(key_text, column.keys or ()) for column in plan.keys(query)))
    return list(columns(plan, query, rehearsal=rehearsal)), list(keys)


def _csv_keys(data: bytes, keys: int) -> tuple[list[str], list[tuple[str, ...]]] | None:
    try:
        header, *rows = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
    except (ValueError, csv.Error):
        return None
    if any(len(row) != len(header) for row in rows):
        return None
    return header, [tuple(row[:keys]) for row in rows]


_CHECKS: dict[str, Callable[[_Bundle], str]] = {
    "files": _files,
    "nothing else": _nothing_else,
    "plan": _plan_agrees,
    "accounting": _accounting_agrees,
    "tables": _tables_agree,
}
