"""The executor without an orchestrator: the same steps, walked by threads of this process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed

from dprelease.release.publishing.rendering import Outcome
from dprelease.release.run import Progress, Request, open_run

__all__ = ["execute"]

_WORKERS = 4


def execute(request: Request, progress: Progress | None = None) -> Outcome:
    """Run a request to its end in this process.

    Raises:
        DpReleaseError: Whatever a step raises; what was measured stays measured.
    """
    show = progress or (lambda label, done, total: None)
    with open_run(request, "dprelease run --direct") as run:
        batches = run.batches()
        total = sum(len(batch.steps) for batch in batches)
        done = 0
        with ThreadPoolExecutor(_WORKERS) as pool:
            pending = [pool.submit(run.measure, batch) for batch in batches]
            for finished in as_completed(pending):
                done += finished.result()
                show("measuring", done, total)
        return run.publish()
