"""A table larger than memory beside the same with all the memory it wants: are the exact totals the same numbers?

    python -m bench.large_tables [--rows N] [--memory SIZE] [--work bounded]

The rows and the spec are those of a work of ``bench/phases.py``. Every step of its plan is asked of the engine once, in
a process of its own: with ``DPRELEASE_MEMORY`` and without. Of each: SHA-256 of the exact totals, seconds of the
processor, MiB at the most, and bytes that were written to the disk.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.databases import peak
from bench.phases import POLICY, SETTINGS, WORKS
from dprelease.catalog.aggregate import Grouping
from dprelease.engines import ENGINES, Engine
from dprelease.noise.exact import Exact, open_exact
from dprelease.plan.document import ReleasePlan
from dprelease.release.planning import open_target, plan_release
from dprelease.release.project import reference_tables


def answered(plan: ReleasePlan, folder: Path, engine: Engine) -> tuple[str, int]:
    """SHA-256 of the exact totals of all steps, each asked once, and how many totals these are."""
    found, cells = hashlib.sha256(), 0
    for step in plan.steps:
        grouping = Grouping(**{name: getattr(step.aggregate, name) for name in Grouping.model_fields})
        references = reference_tables(plan.catalog, folder)
        (box,) = engine.aggregate(plan.catalog, grouping, (step.aggregate.quantity,), references, bytes(32))
        if not isinstance(box, Exact):
            raise TypeError("this bench compares totals, and a quantile has none")
        exact = open_exact(box)
        cells += exact.size
        found.update(exact.tobytes())
    return found.hexdigest(), cells


def totals(folder: Path, memory: str, told: Any) -> None:
    """Tell what the totals of all steps are, and what they took."""
    environment = {**os.environ, **({"DPRELEASE_MEMORY": memory} if memory else {})}
    plan = plan_release(open_target(folder / "spec.yaml"))
    engine, spent = ENGINES["duckdb"](folder, environment), time.process_time()
    digest, cells = answered(plan, folder, engine)
    engine.close()
    written = resource.getrusage(resource.RUSAGE_SELF).ru_oublock * 512
    told.send((digest, cells, time.process_time() - spent, peak(), written))


def main() -> None:
    """Print both, and whether they are equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--work", default="bounded")
    asked = parser.parse_args()
    spawned = multiprocessing.get_context("spawn")
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = WORKS[asked.work][0](folder, asked.rows, False)
        for file, content in (("dprelease", SETTINGS), ("policy", POLICY), ("spec", made)):
            (folder / f"{file}.yaml").write_text(content, encoding="utf-8")
        print(f"{asked.rows:,} rows, {asked.work}; cells, processor s, MiB at the most, bytes written", flush=True)
        for memory in (asked.memory, ""):
            mine, its = spawned.Pipe()
            child = spawned.Process(target=totals, args=(folder, memory, its))
            child.start()
            its.close()
            found.append(mine.recv())
            child.join()
            digest, cells, spent, most, written = found[-1]
            print(f"{memory or 'all':6} {digest} {cells:,} {spent:8.1f} {most:8.0f} {written:,}", flush=True)
    print("equal" if found[0][:2] == found[1][:2] else "NOT EQUAL")
    raise SystemExit(found[0][:2] != found[1][:2])


if __name__ == "__main__":
    main()
