"""How time and memory of a release grow: from 1 to 100 million rows, and from 10^4 to 10^7 cells.

Usage: ``python -m bench.growth [--rows 1000000 ...] [--cells 10000 ...] [--rounds N]``, then ``python -m bench.peers
page``, which puts the kept results on ``docs/benchmarks.md``. Every act is the command itself, in a process from
scratch; seconds and memory are of it and all that it starts. Rows and outputs are in ``--home``, which may be deleted
at any time. Nothing is asserted.

* Rows: ``run --direct`` of the works W1 to W4 of ``bench/peers``, from Parquet files of so many rows.
* Cells: ``run --direct``, ``publish`` (onto the same bundle, from the ledger) and ``verify`` of ``table``, one count of
  a million rows by keys that have so many cells together, and of ``census``, the reconciled tables of four levels of
  ``bench/census.py`` with about as many.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from bench.growth.results import RESULTS
from bench.growth.runs import CELLS, ROWS, Asking, run
from bench.peers.runs import ROOT


def main() -> None:
    """Run what was asked for, and keep what it took."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, default=ROOT / "build" / "growth", help="rows and outputs")
    parser.add_argument("--rows", type=int, nargs="*", default=[10**6, 10**7, 10**8])
    parser.add_argument("--cells", type=int, nargs="*", default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--works", nargs="+", choices=(*ROWS, *CELLS), default=[*ROWS, *CELLS])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    run(Asking(asked.home.resolve(), asked.rows, asked.cells, asked.works, asked.rounds, load), asked.results)


if __name__ == "__main__":
    main()
