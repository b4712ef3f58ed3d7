"""Bundles of a real plan, signed and not, and everything that somebody may do to their files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.canonical import dumps, sha256
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.budget import Loss
from dprelease.publish import AccountFacts, Facts, render
from dprelease.signature import PrivateKey
from tests.planned import SPEC, plan_of

OURS, THEIRS = PrivateKey.new(), PrivateKey.new()
BESIDE = ("manifest.json", "manifest.sig", "SHA256SUMS", "SHA256SUMS.sig")
DERIVED = 'derive:\n  each: {sql: "select region, total / persons as mean from income"}\n'


@cache
def made(period: str = "2024") -> ReleasePlan:
    return plan_of(SPEC.replace("period: 2024", f'period: "{period}"') + DERIVED)


def numbers(more: int = 0) -> dict[str, Measurement]:
    return {
        step.id: Measurement(step.id, np.arange(1, (step.numbers or 0) + 1) * 1000 + more * 7) for step in made().steps
    }


def told(plan: ReleasePlan, **changes: Any) -> Facts:
    loss = Loss(epsilon=Fraction(1), delta=Fraction(1, 10**5))
    accounts = tuple(
        AccountFacts(
            name=each.name, unit=each.unit, composition=each.composition, cap=each.lifetime, before=loss, after=loss
        )
        for each in plan.accounts
    )
    facts = Facts(
        plan_fingerprint=plan.fingerprint(),
        reserved_at="2024-04-05T06:00:03Z",
        ledger_sequence=17,
        ledger_hash="c0ffee" + "0" * 58,
        accounts=accounts,
        environment={"python": "3.11.9"},
    )
    return facts.model_copy(update=changes)


@cache
def bundle(signer: PrivateKey | None = None, period: str = "2024", more: int = 0) -> Mapping[str, bytes]:
    plan = made(period)
    facts = told(plan, signer="" if signer is None else signer.public.text)
    return render(plan, numbers(more), facts, signer).files


@dataclass
class Folder:
    """A bundle in a folder, to be tampered with."""

    path: Path
    signer: PrivateKey | None

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        (self.path / name).parent.mkdir(exist_ok=True)
        (self.path / name).write_bytes(data)

    def replace(self, name: str, old: bytes, new: bytes) -> None:
        data = self.read(name)
        assert old in data
        self.put(name, data.replace(old, new, 1))

    def flip(self, name: str) -> None:
        data = bytearray(self.read(name))
        data[len(data) // 2] ^= 1
        self.put(name, bytes(data))

    def json(self, name: str, **changes: Any) -> None:
        self.put(name, (dumps({**json.loads(self.read(name)), **changes}) + "\n").encode())

    def reseal(self, **changes: Any) -> None:
        """Make every hash of the manifest again, over the files that are there now."""
        manifest = json.loads(self.read("manifest.json"))
        found = [path for path in self.path.rglob("*") if path.is_file()]
        files = {path.relative_to(self.path).as_posix(): path.read_bytes() for path in found}
        kept = {name: data for name, data in files.items() if name not in BESIDE}
        manifest["files"] = {name: {"sha256": sha256(data), "bytes": len(data)} for name, data in kept.items()}
        self.json("manifest.json", **{**manifest, **changes})
        self.sum_up()

    def sum_up(self) -> None:
        """Make SHA256SUMS again, as ``sha256sum`` would; nobody but the signer can sign it."""
        found = {path.relative_to(self.path).as_posix(): path for path in self.path.rglob("*") if path.is_file()}
        listed = sorted(found.keys() - set(BESIDE[2:]))
        self.put(BESIDE[2], "".join(f"{sha256(found[name].read_bytes())}  {name}\n" for name in listed).encode())

    def all(self, files: Mapping[str, bytes]) -> None:
        """Put another bundle in the place of this one."""
        shutil.rmtree(self.path)
        for name, data in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            self.put(name, data)


def swapped_rows(at: Folder) -> None:
    data = at.read("tables/population.csv").split(b"\r\n")
    first, second = (line.split(b",", 2) for line in data[1:3])
    data[1:3] = [b",".join([*first[:2], second[2]]), b",".join([*second[:2], first[2]])]
    at.put("tables/population.csv", b"\r\n".join(data))
    at.reseal()


def swapped_files(at: Folder) -> None:
    first, second = at.read("tables/income.parquet"), at.read("tables/population.parquet")
    at.put("tables/income.parquet", second)
    at.put("tables/population.parquet", first)
    at.reseal()


def lowered_scale(at: Folder) -> None:
    plan = json.loads(at.read("plan.json"))
    plan["steps"][0]["scale"] = str(Fraction(plan["steps"][0]["scale"]) / 2)
    fingerprint = sha256(dumps(plan).encode())
    at.json("plan.json", **plan)
    at.json("facts.json", plan_fingerprint=fingerprint)
    at.reseal(plan_fingerprint=fingerprint)


def linked(at: Folder) -> None:
    outside = at.path.parent / "outside.csv"
    (at.path / "tables/income.csv").rename(outside)
    (at.path / "tables/income.csv").symlink_to(outside)


def linked_folder(at: Folder) -> None:
    (at.path / "tables").rename(at.path.parent / "tables")
    (at.path / "tables").symlink_to(at.path.parent / "tables")


def lowered(name: str, pattern: bytes, place: int | None = None) -> Callable[[Folder], None]:
    """The number that a pattern holds in its only group, less by one at a digit, and all hashes made again.

    Args:
        name: Of the file.
        pattern: Of the number and what stands around it.
        place: Of the digit, from the end of the number; None: the first one that is not 0.
    """

    def act(at: Folder) -> None:
        data = at.read(name)
        found = re.search(pattern, data)
        assert found is not None
        start, end = found.span(1)
        digit = next(k for k in range(start, end) if data[k] in b"123456789") if place is None else end - place
        at.put(name, data[:digit] + bytes([data[digit] - 1]) + data[digit + 1 :])
        assert at.read(name)[digit] in b"0123456789"
        at.reseal()

    return act


def changed(name: str, old: bytes, new: bytes, *, sealed: bool = True) -> Callable[[Folder], None]:
    def act(at: Folder) -> None:
        at.replace(name, old, new)
        if sealed:
            at.reseal()

    return act


def rewritten(name: str, *, sealed: bool = True, **changes: Any) -> Callable[[Folder], None]:
    def act(at: Folder) -> None:
        at.json(name, **changes)
        if sealed:
            at.reseal()

    return act


def added(name: str, data: bytes = b"x", *, sealed: bool = False) -> Callable[[Folder], None]:
    def act(at: Folder) -> None:
        at.put(name, data)
        if sealed:
            at.reseal()

    return act


def dropped(name: str, *, sealed: bool = False) -> Callable[[Folder], None]:
    def act(at: Folder) -> None:
        (at.path / name).unlink()
        if sealed:
            at.reseal()

    return act


def renamed(old: str, new: str, *, sealed: bool = False) -> Callable[[Folder], None]:
    def act(at: Folder) -> None:
        (at.path / old).rename(at.path / new)
        if sealed:
            at.reseal()

    return act


def old_manifest(at: Folder) -> None:
    for name in BESIDE:
        if (at.path / name).exists():
            at.put(name, bundle(at.signer, "2023")[name])


def case_folded(at: Folder) -> None:
    manifest = json.loads(at.read("manifest.json"))
    files = manifest["files"]
    at.json("manifest.json", files={**files, "Index.html": files["index.html"]})
