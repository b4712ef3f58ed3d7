"""What lies beside the noisy measurements: an example that runs, covariances, what was moved, and how to do it again."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import random
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.estimate.workloads.reconcile import PublishedCell
from dprelease.estimate.workloads.zeros import covariance
from dprelease.noise import Measurement
from dprelease.plan.design.workload_design import design_of
from dprelease.plan.document import ReleasePlan
from dprelease.publish import check_bundle, render, write
from dprelease.publish.base import Publication
from dprelease.publish.bundle.package import planned_files
from tests.planned import plan_of
from tests.unit import tamper_example
from tests.unit.tamper_example import told
from tests.workloads import GEO, areas, crosstabs, ordinary, spec_of


@cache
def planned(post: str) -> ReleasePlan:
    return plan_of(spec_of(areas(), crosstabs(ways="[0, 1, 2, 3]"), ordinary(), post=post), {"geo": GEO.encode()})


@cache
def files_of(post: str = "[consistent, integer]") -> Mapping[str, bytes]:
    plan, chance = planned(post), np.random.default_rng(7)
    numbers = {
        step.id: Measurement(step.id, chance.integers(-3, 400, step.numbers or 0, dtype=np.int64))
        for step in plan.measured
    }
    return render(plan, numbers, told(plan)).files


def table(files: Mapping[str, bytes], name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(files[f"tables/{name}.csv"].decode())))


def unpacked(files: Mapping[str, bytes], folder: Path) -> Path:
    write(Publication(files), folder / "bundle")
    return folder / "bundle"


def test_the_example_makes_every_table_with_formulas_again_with_the_standard_library_alone(tmp_path: Path) -> None:
    files = tamper_example.bundle()
    program = files["measurements/example.py"].decode()
    assert len(program.splitlines()) <= 25
    assert set(re.findall(r"^import (.*?)(?:  #.*)?$", program, re.MULTILINE)) == {"csv, json, math, pathlib, sys"}
    at = unpacked(files, tmp_path)
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(at / "measurements/example.py")], capture_output=True, text=True, check=True
    )
    shown = [line.split(",") for line in done.stdout.splitlines()]
    for query in ("population", "income"):
        rows = table(files, query)
        for measure in {name for of, name, _, _ in shown if of == query}:
            mine = [text for of, name, _, text in shown if (of, name) == (query, measure)]
            assert [float(text) for text in mine] == [float(row[measure]) for row in rows], (query, measure)
    assert {(of, name) for of, name, _, _ in shown} == {
        ("population", "persons"), ("income", "persons"), ("income", "total"), ("income", "average"),
    }  # fmt: skip


def test_a_bundle_with_workloads_says_what_it_holds_and_verifies(tmp_path: Path) -> None:
    files = files_of()
    added = {"README.md", "example.py", "covariance.json", "covariance.py", "moved.json"}
    assert {f"measurements/{name}" for name in added} <= set(files)
    assert set(planned_files(planned("[consistent, integer]"))) - {"manifest.sig"} <= set(files)
    found = {check.name: check for check in check_bundle(unpacked(files, tmp_path))}
    assert [name for name, check in found.items() if check.passed is False] == []


def test_a_plan_from_before_has_none_of_it_and_keeps_its_bytes() -> None:
    plan = planned("[consistent, integer]")
    old = plan.model_copy(update={"publish": plan.publish.model_copy(update={"research": None})})
    assert '"research"' not in old.canonical()
    assert '"research":1' in plan.canonical()
    numbers = {step.id: Measurement(step.id, np.full(step.numbers or 0, 9)) for step in old.measured}
    files = render(old, numbers, told(old)).files
    assert [name for name in files if re.search(r"measurements/(README|example|covariance|moved)", name)] == []


def function_of(files: Mapping[str, bytes], folder: Path) -> dict[str, Any]:
    """``covariance.py`` of a bundle, run as it stands there."""
    at = folder / "measurements"
    at.mkdir()
    for name in ("covariance.json", "covariance.py"):
        (at / name).write_bytes(files[f"measurements/{name}"])
    module: dict[str, Any] = {"__file__": str(at / "covariance.py")}
    exec(compile(files["measurements/covariance.py"], "covariance.py", "exec"), module)
    return module


@pytest.mark.parametrize("name", ["areas", "crosstabs"])
def test_the_covariance_of_any_two_cells_is_the_one_that_reconciliation_works_with(name: str, tmp_path: Path) -> None:
    plan, module, chance = planned("[consistent, integer]"), function_of(files_of(), tmp_path), random.Random(5)
    workload = plan.workload(name)
    design = design_of(workload, plan.catalog, {take.step: plan.taken(take.step) for take in workload.takes})
    told_of = module["workload"](name)

    def any_cell() -> PublishedCell:
        level, axes = chance.choice(sorted(design.tables))
        keys = tuple(chance.randrange(design.sizes[axis]) for axis in axes)
        return PublishedCell(level, axes, chance.randrange(design.tree.sizes[level]), keys)

    def as_told(cell: PublishedCell) -> tuple[int, int, dict[str, int]]:
        return cell.level, cell.node, {workload.attributes[i]: key for i, key in zip(cell.axes, cell.keys, strict=True)}

    seen = 0
    for _ in range(300):
        one, two = any_cell(), any_cell()
        expected = covariance(design, one, two)
        assert math.isclose(
            module["covariance"](told_of, as_told(one), as_told(two)), expected, rel_tol=1e-9, abs_tol=1e-9
        )
        seen += expected != 0
        assert module["covariance"](told_of, as_told(one), as_told(one)) > 0
    assert seen > 100


@pytest.mark.parametrize("post", ["[consistent, integer]", "[consistent, nonnegative]"])
def test_what_was_moved_is_told_by_table_and_by_how_much_at_most(post: str) -> None:
    files = files_of(post)
    found = {each["table"]: each for each in json.loads(files["measurements/moved.json"])["tables"]}
    assert found
    assert "population" not in found  # is no workload's
    moved_in_all = 0
    for name, each in found.items():
        rows = table(files, name)
        apart = [abs(float(row["count"]) - float(row["count_unadjusted"])) for row in rows]
        assert each["moved"] == sum(one > 0 for one in apart)
        assert max(apart) <= float(each["most"]) <= max(apart) * (1 + 1e-12)
        moved_in_all += each["moved"]
    assert moved_in_all > 0


def redone(told_of: Mapping[str, Any], finest: list[list[float]], key: bytes) -> list[list[list[int]]]:
    """``integer`` as measurements/README.md says it, and nothing else; by level, node and cell."""

    def offsets(label: str, count: int) -> list[float]:
        raw = hashlib.shake_256(key + label.encode()).digest(8 * count)
        return [(int.from_bytes(raw[8 * at : 8 * at + 8], "little") >> 11) / 2**53 for at in range(count)]

    def up(chances: list[float], offset: float) -> list[int]:
        found, total, before = [], 0.0, math.floor(offset)
        for chance in chances:
            total += chance
            now = math.floor(total + offset)
            found.append(0 if chance <= 0 else min(1, now - before))
            before = now
        return found

    stages: list[tuple[int, list[Any]]] = []  # level, and for each sum its numbers: (left, right) or (alone,)
    numbers = finest
    for level in range(len(told_of["parents"]), 0, -1):
        parents = told_of["parents"][level - 1]
        groups = [[at for at, parent in enumerate(parents) if parent == node] for node in range(max(parents) + 1)]
        flat, where, own = numbers, groups, []
        while True:
            pairs: list[list[int]] = []
            nexts, nodes = [], []
            for group in where:
                line = []
                for at in range(0, len(group), 2):
                    line.append(len(pairs))
                    pairs.append(group[at : at + 2])
                    nexts.append([sum(cell) for cell in zip(*(flat[one] for one in group[at : at + 2]), strict=True)])
                nodes.append(line)
            own.append((pairs, flat))
            flat, where = nexts, nodes
            if all(len(group) == 1 for group in where):
                break
        stages.append((level, own))
        numbers = flat
    tops = offsets("top", len(numbers))
    made = [
        [math.floor(x) + u for x, u in zip(row, up([x - math.floor(x) for x in row], offset), strict=True)]
        for row, offset in zip(numbers, tops, strict=True)
    ]
    levels = [made]
    for level, own in reversed(stages):
        for place, (pairs, flat) in enumerate(reversed(own)):
            known = offsets(f"{level}.{place}", sum(len(pair) == 2 for pair in pairs))
            found: list[Any] = [None] * len(flat)
            both = 0
            for at, pair in enumerate(pairs):
                if len(pair) == 1:
                    found[pair[0]] = made[at]
                    continue
                left, right = flat[pair[0]], flat[pair[1]]
                chances, extras = [], []
                for x, y, whole in zip(left, right, made[at], strict=True):
                    f, g = x - math.floor(x), y - math.floor(y)
                    extras.append(whole - math.floor(x) - math.floor(y))
                    q = (f / (f + g) if f + g < 1 else (1 - g) / (2 - f - g)) if extras[-1] == 1 else 0
                    chances.append(q)
                ones = up(chances, known[both])
                both += 1
                found[pair[0]] = [
                    math.floor(x) + (1 if e > 1 else u) for x, u, e in zip(left, ones, extras, strict=True)
                ]
                found[pair[1]] = [whole - x for whole, x in zip(made[at], found[pair[0]], strict=True)]
            made = found
        levels.append(made)
    return levels


def test_whole_numbers_can_be_made_again_from_the_words_and_the_files_alone() -> None:
    """From the estimates in the files, by the steps of measurements/README.md and no code of ours."""
    files = files_of()
    recipe = json.loads(files["measurements/recipe.json"])
    (areas_told,) = [
        each for each in json.loads(files["measurements/covariance.json"])["workloads"] if each["workload"] == "areas"
    ]
    (drawn,) = [each["draws"] for each in recipe["workloads"] if each["workload"] == "areas"]
    steps = {each["step"]: each for each in recipe["steps"]}
    key = hashlib.sha256(b"dprelease rounding of a workload 1")
    for name in dict.fromkeys(each["step"] for each in drawn):
        rows = list(csv.DictReader(io.StringIO(files[steps[name]["file"]].decode())))
        parts = steps[name]["columns"][-len(steps[name]["parts"]) :]
        numbers = [int(row[part]) for part in parts for row in rows]
        head = json.dumps({"cells": len(numbers), "format": 1, "step": name}, separators=(",", ":")).encode()
        body = b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)
        key.update(hashlib.sha256(head + b"\n" + body).digest())
    cells = math.prod(areas_told["sizes"])
    levels = areas_told["levels"]
    names = [f"areas__{level}__" + "__".join(areas_told["attributes"]) for level in levels]
    finest = [float(row["count_unadjusted"]) for row in table(files, names[-1])]
    found = redone(areas_told, [finest[at : at + cells] for at in range(0, len(finest), cells)], key.digest())
    for name, made in zip(names, found, strict=True):
        assert [int(row["count"]) for row in table(files, name)] == [cell for node in made for cell in node], name
    assert b"SHAKE-256" in files["measurements/README.md"]


def test_the_words_are_there_for_what_a_release_does_and_not_for_what_it_does_not() -> None:
    def said(post: str) -> str:
        return files_of(post)["measurements/README.md"].decode()

    assert "### Whole numbers" in said("[consistent, integer]")
    assert "### Non-negative" not in said("[consistent, integer]")
    assert "### Non-negative" in said("[consistent, nonnegative]")
    plain = tamper_example.bundle()["measurements/README.md"].decode()
    assert "# Noisy measurements" in plain
    assert "Workloads" not in plain
