"""Building the environments, and running the systems in turn."""

from __future__ import annotations

import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.peers.accuracy import Truth, errors, truth_of
from bench.peers.measure import StoppedShort, run_measured
from bench.peers.rows import write_rows
from bench.peers.table import SYSTEMS, System
from bench.peers.works import DELTA, EPSILON, WORKS, Work

__all__ = ["REQUIREMENTS", "ROOT", "Asking", "build", "compact", "machine", "run", "turns"]

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).parent / "requirements"


@dataclass(frozen=True)
class Asking:
    """What a run is to do.

    Attributes:
        home: The folder of environments, rows and outputs; it may be deleted at any time.
        rows: How many rows each file has.
        rounds: How often every system does every work.
        patience: A work that took a system longer than so many seconds is not repeated by it.
        limit: A run is stopped after so many seconds.
        systems: Their names.
        works: Their names.
        skip: Pairs of a system and a work, ``SYSTEM:WORK``, that are not run at all.
        load: How busy the machine was before the first run, so that a reader can tell.
    """

    home: Path
    rows: int
    rounds: int
    patience: float
    limit: float
    systems: Sequence[str]
    works: Sequence[str]
    skip: Sequence[str]
    load: float


def _python(home: Path, system: System) -> Path:
    return home / "environments" / system.environment / "bin" / "python" if system.environment else Path(sys.executable)


def build(home: Path, python: str, systems: Sequence[str]) -> None:
    """Make an environment for each system from its pinned requirements, unless it is there with the same ones.

    The versions were pinned under Python 3.11, for which all of them have wheels; ``python`` is what makes them.
    """
    named = (SYSTEMS[name].environment for name in systems)
    for name in filter(None, dict.fromkeys(named)):
        wanted, folder = REQUIREMENTS / f"{name}.txt", home / "environments" / name
        stamp = folder / "requirements.txt"
        if stamp.exists() and stamp.read_bytes() == wanted.read_bytes():
            continue
        print(f"{name}: {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(wanted)], check=True)
        shutil.copyfile(wanted, stamp)


def _versions(home: Path, system: System) -> dict[str, str]:
    code = "import importlib.metadata as m, json, sys; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    told = subprocess.run(
        [str(_python(home, system)), "-c", code, *system.packages], check=True, capture_output=True, text=True
    )
    return dict(json.loads(told.stdout))


def machine(load: float) -> dict[str, Any]:
    """What the machine is, and how busy it was before the first run."""
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in cpus if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": round(load, 1),
    }


def turns(asking: Asking, number: int) -> Iterator[tuple[Work, System]]:
    """Every system does a work before the next work begins; the first one of a round is another one each time.

    DuckDB without privacy and this project go first and last by turns like all others.
    """
    systems = [SYSTEMS[name] for name in asking.systems]
    turned = systems[number % len(systems) :] + systems[: number % len(systems)]
    for name in asking.works:
        for system in turned:
            if name in system.works and name not in system.cannot and f"{system.name}:{name}" not in asking.skip:
                yield WORKS[name], system


def _once(asking: Asking, system: System, work: Work, data: Path, truth: Truth) -> dict[str, Any]:
    """One run, measured, and how far its answers are from the truth."""
    out = asking.home / "out" / system.name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    command = [str(_python(asking.home, system)), "-m", f"bench.peers.systems.{system.script}"]
    command += ["--data", str(data), "--work", work.name, "--epsilon", str(EPSILON), "--delta", str(DELTA)]
    command += ["--out", str(out), "--noise", system.noise.get(work.name, "laplace")]
    taken = {name: round(value, 3) for name, value in asdict(run_measured(command, ROOT, out, asking.limit)).items()}
    found = errors(work, out, truth)
    shutil.rmtree(out)
    return {**taken, "errors": {kind: {n: float(f"{v:.4g}") for n, v in told.items()} for kind, told in found.items()}}


def run(asking: Asking, results: Path) -> None:
    """Run everything; the file of results is written again after every run, so that nothing is lost.

    Raises:
        SystemExit: An environment was not built.
    """
    unbuilt = [name for name in asking.systems if not _python(asking.home, SYSTEMS[name]).exists()]
    if unbuilt:
        raise SystemExit(f"not built: {', '.join(unbuilt)}; first run `python -m bench.peers build`")
    data = write_rows(asking.home / "data", asking.rows)
    truths = {name: truth_of(WORKS[name], data) for name in asking.works}
    kept: dict[str, Any] = {
        "day": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "rows": asking.rows,
        "rounds": asking.rounds,
        "patience": asking.patience,
        "limit": asking.limit,
        "epsilon": EPSILON,
        "delta": DELTA,
        "machine": machine(asking.load),
        "versions": {name: _versions(asking.home, SYSTEMS[name]) for name in asking.systems},
        "runs": [],
        "stopped": [],
    }
    over: set[tuple[str, str]] = set()
    for number in range(asking.rounds):
        for work, system in turns(asking, number):
            if (system.name, work.name) in over:
                continue
            which = {"system": system.name, "work": work.name, "round": number + 1}
            try:
                found = _once(asking, system, work, data, truths[work.name])
            except StoppedShort as reason:
                kept["stopped"].append({**which, "reason": str(reason)})
                over.add((system.name, work.name))
                print(f"{number + 1} {work.name} {system.name:18} {reason}", flush=True)
            else:
                kept["runs"].append({**which, **found})
                if found["wall"] > asking.patience:
                    over.add((system.name, work.name))
                print(f"{number + 1} {work.name} {system.name:18} {_line(found)}", flush=True)
            results.write_text(compact(kept), encoding="utf-8")


def _line(found: dict[str, Any]) -> str:
    told = "  ".join(f"{kind} {each['rmse']:.4g} ({each['relative']:.2g})" for kind, each in found["errors"].items())
    times = (
        f"{found['wall']:8.2f} s  {found['cpu']:8.2f} CPU s  {found['inside']:8.2f} inside  {found['peak']:6.0f} MiB"
    )
    return f"{times}  {told}"


def compact(kept: dict[str, Any]) -> str:
    """Results as a file has them: one run a line."""
    head = json.dumps({name: value for name, value in kept.items() if name != "runs"}, indent=1)
    lines = ",\n".join(f"  {json.dumps(each)}" for each in kept["runs"])
    return f'{head[:-2]},\n "runs": [\n{lines}\n ]\n}}\n'
