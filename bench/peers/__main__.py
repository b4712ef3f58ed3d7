"""Speed, memory and error of this project beside other systems on the same work, in one run.

Usage: ``python -m bench.peers build``, then ``python -m bench.peers run --rows 1000000 10000000 --rounds 3``, and
``python -m bench.peers page``, which writes ``docs/benchmarks.md`` from the kept results. Every system does the four
works of ``works.py`` on the same file, in a process from scratch and in turn with the others; DuckDB without privacy is
one of them. Nothing here is asserted.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bench.peers.page import RESULTS, write_page
from bench.peers.runs import ROOT, Asking, build, run
from bench.peers.table import SYSTEMS
from bench.peers.works import WORKS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, default=ROOT / "build" / "peers", help="environments, rows and outputs")
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="install every system into an environment of its own")
    building.add_argument("--python", default=sys.executable, help="a Python 3.11, if this one is another")
    building.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM")
    commands.add_parser("page", help="write docs/benchmarks.md and its figure from the kept results")
    pairs = [f"{system}:{work}" for system in SYSTEMS for work in WORKS]
    runs = commands.add_parser("run", help="run the systems in turn, and keep the results")
    runs.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    runs.add_argument("--rounds", type=int, default=3)
    runs.add_argument("--patience", type=float, default=60, help="seconds; what took longer is not repeated")
    runs.add_argument("--limit", type=float, default=1200, help="seconds; what takes longer is stopped")
    runs.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM")
    runs.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    runs.add_argument("--skip", nargs="+", default=[], choices=pairs, metavar="SYSTEM:WORK", help="not run at all")
    runs.add_argument("--results", type=Path, default=RESULTS, help="the folder of results")
    return parser


def main() -> None:
    """Do what was asked for."""
    asked = _parser().parse_args()
    home: Path = asked.home.resolve()
    if asked.command == "build":
        build(home, asked.python, asked.systems)
    elif asked.command == "page":
        write_page(ROOT / "docs")
    else:
        load = os.getloadavg()[0]
        asked.results.mkdir(parents=True, exist_ok=True)
        for rows in asked.rows:
            times = (asked.rounds, asked.patience, asked.limit)
            run(
                Asking(home, rows, *times, asked.systems, asked.works, asked.skip, load),
                asked.results / f"rows-{rows}.json",
            )


if __name__ == "__main__":
    main()
