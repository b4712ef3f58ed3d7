"""A table larger than memory beside the same with all the memory it wants: are the exact totals the same numbers?

    python -m bench.large_tables [--rows N] [--memory SIZE] [--work bounded]

The rows and the spec are those of a work of ``bench/phases.py``. Every pass of its plan is made by the engine once, in
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
from dprelease.engines import ENGINES, Engine
from dprelease.noise.exact import Exact, open_exact, open_histogram
from dprelease.plan.document import ReleasePlan
from dprelease.release.planning import open_target, plan_release
from dprelease.release.project import reference_tables


def answered(plan: ReleasePlan, folder: Path, engine: Engine) -> tuple[str, int]:
    """SHA-256 of the exact answers of all passes, each made once as a release makes it, and how many numbers these are.

    Of a quantile the answer is the histogram that it is drawn from.
    """
    found, cells, references = hashlib.sha256(), 0, reference_tables(plan.catalog, folder)
    engine.expect(plan.catalog, (each for batch in plan.batches() for each in batch.questions.items()))
    for batch in plan.batches():
        for grouping, asked in batch.questions.items():
            cube = batch.cube if grouping == batch.grouping else None
            for box in engine.aggregate(plan.catalog, grouping, asked, references, bytes(32), cube=cube):
                numbers = [open_exact(box)] if isinstance(box, Exact) else open_histogram(box)[1:]
                cells += numbers[-1].size
                for each in numbers:
                    found.update(each.tobytes())
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
