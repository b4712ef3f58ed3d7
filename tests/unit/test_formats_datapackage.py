"""datapackage.json: frictionless finds the files valid, and finds what was changed in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from frictionless import Package, system

from dprelease.publish.base import NOTICE, Content
from dprelease.publish.columns import table_header
from dprelease.publish.formats.datapackage import csv_files, datapackage_files
from tests.unit.formats_example import HOSTILE, chosen, hostile, plain, whole

# Python's own reader of CSV takes U+0000 only from version 3.11.4 on.
READABLE = tuple(key for key in HOSTILE if "\x00" not in key)
CASES: dict[str, Callable[[], Content]] = {
    "plain": plain,
    "hostile": lambda: hostile(READABLE),
    "chosen": chosen,
    "whole": whole,
    "withheld": lambda: plain(show="blank"),
    "rehearsal": lambda: plain(rehearsal=True),
}


def made(content: Content) -> dict[str, bytes]:
    files = dict(csv_files(content, {}))
    return {**files, **datapackage_files(content, files)}


def described(files: Mapping[str, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files["datapackage.json"])
    return found


def errors(files: Mapping[str, bytes], folder: Path) -> set[str]:
    """The kinds of errors that frictionless finds in the files."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    with system.use_context(trusted=True):
        report = Package(str(folder / "datapackage.json")).validate()
    return {kind for (kind,) in report.flatten(["type"])}


def income(files: dict[str, bytes], change: Callable[[bytes], bytes], *, hidden: bool = False) -> dict[str, bytes]:
    """The files with one changed; ``hidden``: the descriptor has the new size and hash."""
    data = change(files["tables/income.csv"])
    assert data != files["tables/income.csv"]
    if hidden:
        told = described(files)
        resource = next(each for each in told["resources"] if each["name"] == "income")
        resource.update(bytes=len(data), hash=f"sha256:{hashlib.sha256(data).hexdigest()}")
        files = {**files, "datapackage.json": json.dumps(told).encode()}
    return {**files, "tables/income.csv": data}


@pytest.mark.parametrize("name", CASES)
def test_frictionless_finds_the_files_valid(name: str, tmp_path: Path) -> None:
    assert errors(made(CASES[name]()), tmp_path) == set()


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    assert "hash-count" in errors(income(made(plain()), lambda data: data.replace(b"5210", b"5211")), tmp_path)


def _without_last(data: bytes) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:-1])


def test_a_dropped_row_is_found(tmp_path: Path) -> None:
    assert {"hash-count", "byte-count"} <= errors(income(made(plain()), _without_last), tmp_path)


def test_a_key_without_its_zero_is_found_even_with_a_new_hash(tmp_path: Path) -> None:
    changed = income(made(plain()), lambda data: data.replace(b'"06"', b"6"), hidden=True)
    assert "constraint-error" in errors(changed, tmp_path)


def test_a_row_twice_is_found_even_with_a_new_hash(tmp_path: Path) -> None:
    changed = income(made(plain()), lambda data: data + data.splitlines(keepends=True)[-1], hidden=True)
    assert "primary-key" in errors(changed, tmp_path)


def test_a_word_for_a_number_is_found_even_with_a_new_hash(tmp_path: Path) -> None:
    changed = income(made(plain()), lambda data: data.replace(b"5210", b"many"), hidden=True)
    assert "type-error" in errors(changed, tmp_path)


def test_keys_read_with_the_descriptor_are_as_declared(tmp_path: Path) -> None:
    files = made(hostile(READABLE))
    errors(files, tmp_path)
    with system.use_context(trusted=True):
        resource: Any = Package(str(tmp_path / "datapackage.json")).get_resource("population")
        rows = resource.read_rows()
    assert [row["region"] for row in rows][::2] == list(READABLE)
    assert [row["sex"] for row in rows][:2] == [1, 2]


def _columns(content: Content) -> Iterator[tuple[list[str], list[str]]]:
    told = described(made(content))
    for resource, table in zip(told["resources"], content.tables, strict=True):
        yield [field["name"] for field in resource["schema"]["fields"]], list(table_header(table, rehearsal=content.facts.rehearsal))  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_column_is_described_in_order(name: str) -> None:
    for found, expected in _columns(CASES[name]()):
        assert found == expected


def test_types_are_written() -> None:
    countries, terms, top, *_ = described(made(chosen()))["resources"]
    kinds = {field["name"]: field["type"] for field in countries["schema"]["fields"]}
    assert kinds["country"] == "string"
    assert kinds["new"] == "boolean"
    assert kinds["visits"] == kinds["visits_lower"] == "integer"
    assert kinds["visits_se"] == kinds["average"] == kinds["total"] == "number"
    assert terms["schema"]["primaryKey"] == ["term"]
    assert {field["name"]: field["type"] for field in top["schema"]["fields"]} == {"rank": "integer", "page": "string"}
    descriptions = {field["name"]: field["description"] for field in countries["schema"]["fields"]}
    assert "moved into 0 to 600" in descriptions["total"]
    assert descriptions["country"] == "key: text (DE: Germany)"


def test_the_package_says_what_it_is() -> None:
    content = plain()
    files = made(content)
    told = described(files)
    assert (told["name"], told["version"], told["created"]) == ("regional-monitor-2024-03", "2024-03", "2024-04-05T06:00:03Z")  # fmt: skip
    assert told["contributors"] == [{"title": "Example Statistical Office", "role": "publisher"}]
    assert not {"licenses", "sources"} & set(told)
    own = told["dprelease"]
    loss = content.plan.loss[content.plan.certified]
    assert (Fraction(own["epsilon"]), Fraction(own["delta"])) == (loss.epsilon, loss.delta)
    assert own["plan_fingerprint"] == content.facts.plan_fingerprint
    for resource in told["resources"]:
        data = files[resource["path"]]
        assert resource["bytes"] == len(data)
        assert resource["hash"] == f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_keys_that_are_empty_or_repeat_are_no_primary_key() -> None:
    schema = described(made(hostile(("", "=1"))))["resources"][0]["schema"]
    assert "primaryKey" not in schema
    assert "required" not in schema["fields"][0]["constraints"]
    assert "primaryKey" not in described(made(whole()))["resources"][0]["schema"]


def test_without_csv_files_there_is_no_package() -> None:
    assert datapackage_files(plain(), {}) == {}


def test_a_rehearsal_says_so() -> None:
    told = described(made(plain(rehearsal=True)))
    assert told["title"].startswith(NOTICE)
    assert told["dprelease"]["rehearsal"] is True


def test_the_same_release_gives_the_same_bytes() -> None:
    assert made(chosen()) == made(chosen())
