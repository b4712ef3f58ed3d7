"""A small project in a folder, and the command run in it as a user would."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from dprelease.formats import FORMATS
from dprelease.publish.publishable import missing_extras
from tests.warm import Ended, Warm

__all__ = [
    "CANARY",
    "check_published_again",
    "command",
    "environment",
    "forked",
    "installed",
    "on_terminal",
    "one_table",
    "small_project",
    "start",
    "writable_formats",
]

CANARY = 123_457

SETTINGS = "ledger: sqlite:///state/ledger.db\nreleases: releases\nprefect_home: state/prefect\npolicy: policy.yaml\n"
POLICY = """accounts:
  people: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 4, delta: 1e-8}}
ceilings: {epsilon: 2, delta: 1e-8}
approvals: {required: 0}
"""
SPEC = """dprelease: 1
release: {name: survey, period: 2024, title: "A survey: small", curator: Example Office}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
references:
  places: {file: places.csv, columns: {district: text, region: text}}
tables:
  people:
    account: people
    source: {file: "people-*.csv", null_values: ["", N]}
    join: [{reference: places, on: district, add: [region]}]
    columns:
      district: {type: text, keys: {reference: places}}
      region: {type: text, keys: {reference: places}}
      sex: {type: integer, keys: [1, 2], labels: {1: Male, 2: Female}}
      income: {type: decimal, range: [0, 200000], step: 1}
queries:
  population: {title: Population, table: people, by: [district, sex], measures: {persons: {count: rows}}}
  income:
    table: people
    by: [region]
    expect: {persons: 900}
    measures:
      persons: {count: rows}
      total: {sum: income}
      average: {mean: income, clip: [0, 100000]}
"""
PLACES = "district,region\n06-01,06\n06-02,06\n07-01,07\n"


@cache
def writable_formats() -> tuple[str, ...]:
    """Every format that can be made on this machine: the certificate wants libraries that a bare system has not."""
    missing = missing_extras(FORMATS)
    return tuple(name for name in FORMATS if name not in missing)


def check_published_again(folder: Path, bundle: Path) -> None:
    """A release is published again, and run again, byte by byte; its bundle verifies, and its ledger is sound."""
    before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    command(folder, "publish", "/".join(bundle.parts[-2:]))
    command(folder, "run", "spec.yaml", "--direct")
    assert before == {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    assert "FAIL" not in command(folder, "verify", str(bundle))
    assert "sound" in command(folder, "ledger", "check")


def one_table(folder: Path, spec: str, columns: str, rows: Iterable[Sequence[object]], policy: str = POLICY) -> Path:
    """Write a project of one spec, ``spec.yaml``, and one table, ``people.csv``; None is an empty cell.

    Args:
        folder: Of the project; it is there.
        spec: Its text.
        columns: The names of the columns, with commas between them.
        rows: Of the table.
        policy: The text of ``policy.yaml``.

    Returns:
        The folder.
    """
    lines = [columns, *(",".join("" if each is None else str(each) for each in row) for row in rows)]
    files = {"dprelease.yaml": SETTINGS, "policy.yaml": policy, "spec.yaml": spec}
    for name, text in (files | {"people.csv": "\n".join(lines) + "\n"}).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def small_project(folder: Path, spec: str = SPEC, rows: int = 3000) -> Path:
    """Write the project; the data hold one person with an income that nobody else has. Returns the spec's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {
        "dprelease.yaml": SETTINGS,
        "policy.yaml": POLICY,
        "places.csv": PLACES,
        "spec.yaml": spec,
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    lines = ["district,sex,income"]
    for k in range(rows):
        lines.append(
            f"{('06-01', '06-02', '07-01', '99-99')[k % 4]},{1 + k % 2},{'N' if k % 11 == 0 else 1000 * (k % 90)}"
        )
    lines.append(f"06-01,1,{CANARY}")
    (folder / "people-1.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "spec.yaml"


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a user who set nothing but these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "DPRELEASE_"))}
    return {**kept, "NO_COLOR": "1", **(variables or {})}


def start(folder: Path, *words: str, variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """The command, started in a folder and left to itself."""
    return subprocess.Popen(
        [sys.executable, "-m", "dprelease", *words],
        cwd=folder,
        env=environment(variables),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )


def installed(folder: Path, *words: str, code: int = 0, variables: Mapping[str, str] | None = None) -> str:
    """Run the installed command to its end; its output and errors as one text. The exit code must be ``code``."""
    process = start(folder, *words, variables=variables)
    out, err = process.communicate(timeout=180)
    return _said(Ended(process.returncode, out, err), code)


def command(folder: Path, *words: str, code: int = 0, variables: Mapping[str, str] | None = None) -> str:
    """As ``installed``, in a process of its own that is forked with everything imported. Not for Prefect."""
    return _said(forked(folder, *words, variables=variables), code)


def on_terminal(folder: Path, *words: str) -> tuple[int, str]:
    """The command with a terminal for its output: exit code and what stands on the screen."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "dprelease", *words],
            cwd=folder,
            env={**environment(), "TERM": "xterm", "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
    finally:
        os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # Linux says so where nobody writes any more
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    return process.wait(timeout=60), b"".join(parts).decode().replace("\r\n", "\n")


def forked(folder: Path, *words: str, variables: Mapping[str, str] | None = None) -> Ended:
    """As ``command``, and whatever its exit code."""
    assert words[0] != "run" or "--direct" in words, "Prefect wants a process from scratch"
    return _warm().run(folder, words, environment(variables))


@cache
def _warm() -> Warm:
    return Warm(environment())


def _said(ended: Ended, code: int) -> str:
    assert ended.code == code, f"exit {ended.code}, not {code}:\n{ended.out}\n{ended.err}"
    assert "Traceback" not in ended.out + ended.err
    return ended.out + ended.err
