"""Registers specs with a clock that ticks every few seconds, which no spec and no command can ask for, and serves them.

``python -m tests.e2e.serving [--every SECONDS] [--most N] [--pool NAME] SPEC...``; with a pool they are registered only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dprelease.flows import schedule, serve


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.serving", description=__doc__)
    parser.add_argument("--every", type=float)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--pool")
    parser.add_argument("specs", type=Path, nargs="+")
    given = parser.parse_args()
    if given.pool:
        schedule(given.specs, pool=given.pool, every=given.every, most=given.most)
    else:
        serve(given.specs, every=given.every, most=given.most)


if __name__ == "__main__":
    main()
