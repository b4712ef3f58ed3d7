"""Serve the release flow from this machine, to be started from Prefect's pages or by a schedule.

With a Prefect server running (``prefect server start``) and its address in ``PREFECT_API_URL``::

    python -m pipelines.release specs/quickstart.yaml "0 6 5 * *"
"""

from __future__ import annotations

import sys
from pathlib import Path

from dprelease.flows.flow import dprelease

__all__ = ["dprelease", "serve"]


def serve(target: Path, cron: str) -> None:
    """Serve one spec until interrupted. A run that comes late or twice finds the release and draws nothing.

    Args:
        target: A spec or a frozen plan.
        cron: When, as five fields, in UTC.
    """
    dprelease.serve(name=target.stem, cron=cron, parameters={"target": str(target.resolve())}, limit=1)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2])
