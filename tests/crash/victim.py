"""A project that is made to be killed: tables of a few hundred made-up rows, and a release of each period.

Everything that a run writes is inside the project's folder; what the killed processes handed on is noted beside it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dprelease.ledger import Ledger
from dprelease.release.project import Project

__all__ = ["FULL", "SERIES", "SMALL", "TINY", "Handed", "Victim", "anchor_files", "opened"]

_SETTINGS = """ledger: sqlite:///state/ledger.db
anchors: [anchor/head.json]
source_key: key/source.key
releases: releases
prefect_home: prefect
policy: policy.yaml
"""
_POLICY = """accounts:
  people:
    unit: person
    neighboring: add_remove
    composition: zcdp
    lifetime: {epsilon: 40, delta: 1e-5, selecting: 5e-6}
  days: {unit: row, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 40, delta: 1e-5}}
"""
_HEAD = """dprelease: 1
release: {name: crash, period: PERIOD, title: A release that is killed, curator: Example Office}
privacy:
  unit: {entity: person}
  neighboring: add_remove
  budget: {epsilon: 1, delta: 1e-8}
  accounting: zcdp
tables:
  visits:
    account: people
    source: {file: visits.csv}
    unit_id: person
    bounds: {max_rows: 2, truncate: sample}
    columns:
      person: {type: integer}
      town: {type: text}
      sex: {type: integer, keys: [1, 2]}
      amount: {type: integer, range: [0, 100]}
"""
_TOWNS = """
queries:
  towns:
    table: visits
    by: [town]
    keys: private
    bounds: {max_groups: 1}
    measures: {persons: {count: units}}
    share: 6
"""
_VISITS = """  visits:
    table: visits
    by: [sex]
    bounds: {max_groups: 2}
    measures: {visits: {count: rows}}
"""
_TAIL = "publish: {formats: [csv]}\n"
# Two steps in one batch, the first a selection of private keys; every read needs the release's secret.
TINY = _HEAD + _TOWNS + _TAIL
# Three steps in two batches, which two threads measure.
SMALL = _HEAD + _TOWNS + _VISITS + _TAIL
# Eight steps of six queries.
FULL = (
    _HEAD
    + """  people:
    account: people
    source: {file: people.csv}
    columns:
      region: {type: text, keys: [a, b, c]}
      sex: {type: integer, keys: [1, 2]}
      age: {type: integer, range: [0, 120]}
"""
    + _TOWNS
    + _VISITS
    + """  amounts:
    table: visits
    by: [sex]
    bounds: {max_groups: 2}
    measures: {total: {sum: amount, clip_per: unit_cell}}
  population: {table: people, by: [region, sex], measures: {persons: {count: rows}}}
  ages: {table: people, by: [region], measures: {persons: {count: rows}, total: {sum: age}}}
  sexes: {table: people, by: [sex], measures: {total: {sum: age}}}
"""
    + _TAIL
)
# Months that share their noise: each reads three of them, and is made of the draws of all before it.
SERIES = """dprelease: 1
release: {name: crash, period: PERIOD, title: A release that is killed, curator: Example Office}
privacy: {unit: {entity: row}, neighboring: add_remove, budget: {epsilon: 1/2, delta: 1e-8}, accounting: zcdp}
tables:
  days:
    account: days
    source: {file: days.csv}
    time: {column: day, type: date}
    columns:
      sex: {type: text, keys: [f, m]}
queries:
  visits:
    table: days
    by: [sex]
    measures: {visits: {count: rows}}
    series: {from: 2024-01, sums: [2, 12, ytd], look_back: 3}
publish: {formats: [csv], certificate: false}
"""


class Handed(NamedTuple):
    """What a process has handed on: the answer of a step, or a bundle in its place (``step`` is empty)."""

    release: str
    period: str
    plan: str
    step: str
    digest: str


@dataclass(frozen=True)
class Victim:
    """One project in a folder; its note of what was handed on is a file beside the folder."""

    folder: Path
    text: str = SMALL

    @classmethod
    def make(cls, folder: Path, text: str = SMALL) -> Victim:
        """Write the project; nothing of it has run."""
        folder.mkdir(parents=True)
        visits = ["person,town,sex,amount"]
        visits += [f"{k // 3},{'w' if k % 7 else 'xyz'[k % 3]},{1 + k // 3 % 2},{k % 100}" for k in range(200)]
        people = ["region,sex,age", *(f"{'abc'[k % 3]},{1 + k % 2},{k % 90}" for k in range(200))]
        months = [f"{2024 + at // 12}-{1 + at % 12:02}" for at in range(24)]
        days = ["day,sex", *(f"{month}-{1 + k % 28:02},{'fm'[k % 2]}" for month in months for k in range(40))]
        for name, content in {
            "days.csv": "\n".join(days) + "\n",
            "dprelease.yaml": _SETTINGS,
            "policy.yaml": _POLICY,
            "visits.csv": "\n".join(visits) + "\n",
            "people.csv": "\n".join(people) + "\n",
        }.items():
            (folder / name).write_text(content, encoding="utf-8")
        return cls(folder, text)

    def spec(self, period: str) -> Path:
        """The spec of one period, written if it is not there."""
        path = self.folder / f"{period}.yaml"
        if not path.exists():
            path.write_text(self.text.replace("PERIOD", period), encoding="utf-8")
        return path

    @property
    def note(self) -> Path:
        """One JSON line for everything that was handed on."""
        return self.folder.with_name(self.folder.name + ".handed")

    def handed(self) -> list[Handed]:
        """Everything ever handed on; half a last line was not."""
        if not self.note.exists():
            return []
        lines = self.note.read_text(encoding="utf-8").splitlines(keepends=True)
        return [Handed(**json.loads(line)) for line in lines if line.endswith("\n")]

    def bundle(self, period: str) -> Path:
        """Where the bundle of a period is published."""
        return self.folder / "releases" / "crash" / period

    @property
    def database(self) -> Path:
        """The file of the ledger."""
        return self.folder / "state" / "ledger.db"


def opened(folder: Path) -> tuple[Project, Ledger]:
    """The project and its ledger, opened as the command does it."""
    project = Project.open(folder)
    return project, project.open_ledger()


def anchor_files(project: Project) -> tuple[Path, ...]:
    """The anchor files of a project."""
    return tuple(project.folder / name for name in project.settings.anchors)
