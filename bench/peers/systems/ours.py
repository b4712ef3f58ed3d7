"""This project: ``dprelease run spec.yaml --direct`` in a new project, so that every run is a release of its own.

All that the command does counts: the plan and its verification, the charge, and a bundle with margins, report and
accounting beside the answers. Planning counts as query, and what follows the last draw as write.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.peers.answering import Asked, Phases, answer_with
from bench.peers.works import CLIP, GRID, KEYS, MOST_GROUPS, QUANTILES, Query, Work

SETTINGS = "ledger: sqlite:///state/ledger.db\nanchors: [anchor/head.json]\nreleases: releases\npolicy: policy.yaml\n"
_COMPOSITIONS = {"laplace": "basic", "gaussian": "zcdp"}
_PUBLISHING = ("dprelease.point", "publish.begun")


def policy_text(noise: str) -> str:
    """The account that is charged: for a few releases with pure noise, or for many with Gaussian noise."""
    lasting = f"composition: {_COMPOSITIONS[noise]}, lifetime: {{epsilon: 8, delta: 1e-4}}"
    return f"accounts:\n  bench: {{unit: unit, neighboring: add_remove, {lasting}}}\n"


def _measure(query: Query) -> str:
    if query.kind == "count":
        return "{count: rows}"
    if query.kind == "quantiles":
        return f"{{quantiles: income, at: [{', '.join(map(str, QUANTILES))}]}}"
    return f"{{{query.kind}: income, clip: [{CLIP[0]}, {CLIP[1]}]}}"


def _lines(work: Work, file: str, epsilon: str, delta: str) -> Iterator[str]:
    yield "dprelease: 1"
    yield f"release: {{name: bench, period: 2024, title: {work.name}}}"
    yield f"privacy: {{unit: {{entity: unit}}, budget: {{epsilon: {epsilon}, delta: {delta}}}}}"
    yield f"tables:\n  {work.table}:\n    account: bench\n    source: {{file: {file}}}"
    if work.bounded:
        yield "    unit_id: user_id"
    yield "    columns:"
    if work.bounded:
        yield "      user_id: {type: integer}"
    for column in sorted({column for query in work.queries for column in query.by}):
        yield f"      {column}: {{type: integer, keys: {{from: 1, to: {KEYS[column]}}}}}"
    kinds = {query.kind for query in work.queries}
    if kinds - {"count"}:
        step = GRID if "quantiles" in kinds else 1
        yield f"      income: {{type: integer, range: [{CLIP[0]}, {CLIP[1]}], step: {step}}}"
    yield "queries:"
    bounds = f", bounds: {{max_groups: {MOST_GROUPS}, max_rows_per_group: 1}}" if work.bounded else ""
    for query in work.queries:
        by = ", ".join(query.by)
        yield f"  {query.name}: {{table: {work.table}, by: [{by}]{bounds}, measures: {{value: {_measure(query)}}}}}"
    yield "publish: {formats: [csv]}"


def spec_text(work: Work, file: str, epsilon: str, delta: str) -> str:
    """The spec of a work about a Parquet file."""
    return "\n".join(_lines(work, file, epsilon, delta)) + "\n"


def answer(asked: Asked, phases: Phases) -> None:
    """The command, in this process; it exits by itself."""
    spec = spec_text(asked.work, str(asked.file.resolve()), f"{asked.epsilon:g}", f"{asked.delta:g}")
    for name, text in (("dprelease", SETTINGS), ("policy", policy_text(asked.noise)), ("spec", spec)):
        (asked.out / f"{name}.yaml").write_text(text, encoding="utf-8")
    back = Path.cwd()
    os.chdir(asked.out)
    seen: list[float] = []

    def note(event: str, told: tuple[Any, ...]) -> None:
        if event == _PUBLISHING[0] and told[0] == _PUBLISHING[1]:
            seen.append(time.perf_counter())

    sys.addaudithook(note)
    with phases("query"):
        from dprelease.cli import command as dprelease  # all that a process of the command does, to its very end

        sys.argv = ["dprelease", "run", "spec.yaml", "--direct"]
        try:
            dprelease()
        except SystemExit as left:
            if left.code:
                raise
        end = time.perf_counter()
    phases.seconds["write"] = end - seen[0]
    phases.seconds["query"] -= phases.seconds["write"]
    os.chdir(back)


if __name__ == "__main__":
    answer_with(answer)
