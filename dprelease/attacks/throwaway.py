"""A project in a temporary folder, released by the product's own planner, samplers and ledger, and thrown away.

The rows are made up by the attack. Nothing of a real project is opened: settings, policy and ledger are written here.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dprelease.attacks.base import Floats
from dprelease.release.direct import run_directly
from dprelease.release.publishing.rendering import Outcome
from dprelease.release.run import Request

__all__ = ["ThrowawayProject", "throwaway_project"]

_SETTINGS = "ledger: sqlite:///state/ledger.db\nreleases: releases\nprefect_home: state/prefect\npolicy: policy.yaml\n"
_POLICY = """accounts:
  people: {{unit: person, neighboring: add_remove, composition: basic, lifetime: {{epsilon: {cap}, delta: 1e-3}}}}
ceilings: {{epsilon: {cap}, delta: 1e-3}}
approvals: {{required: 0}}
"""


@dataclass(frozen=True)
class ThrowawayProject:
    """The folder of a project that ends with its demonstration."""

    folder: Path

    def run(self, spec: str) -> Outcome:
        """Release what a spec says; as ``dprelease run --direct`` raises."""
        path = self.folder / "spec.yaml"
        path.write_text(spec, encoding="utf-8")
        return run_directly(Request(target=str(path)))

    def column(self, outcome: Outcome, table: str, column: str) -> Floats:
        """A column of a published table, in published order."""
        with (Path(outcome.folder) / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
            return np.array([float(row[column]) for row in csv.DictReader(file)])


@contextmanager
def throwaway_project(files: Mapping[str, str], cap: str) -> Iterator[ThrowawayProject]:
    """A project with these files, and one account that can spend an epsilon of ``cap`` in all."""
    with tempfile.TemporaryDirectory(prefix="dprelease-demo-") as name:
        folder = Path(name)
        for path, text in {"dprelease.yaml": _SETTINGS, "policy.yaml": _POLICY.format(cap=cap), **files}.items():
            (folder / path).write_text(text, encoding="utf-8")
        yield ThrowawayProject(folder)
