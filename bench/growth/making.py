"""Rows, made in a process of its own: they take memory, and waiting for all that one has started is told apart.

Usage: ``python -m bench.growth.making FOLDER SIZE people|visits|census``.
"""

from __future__ import annotations

import sys
from pathlib import Path

_ROWS_OF_A_TRACT = 110


def main(folder: Path, size: int, what: str) -> None:
    """Write a table of ``bench/peers`` with so many rows; or a census with about so many cells, and print how many."""
    if what == "census":
        from bench.census import EACH, write_project

        print(EACH * write_project(folder, size, ["consistent"], _ROWS_OF_A_TRACT, spark=False, even=False)[0])
    else:
        from bench.peers.rows import write_rows

        write_rows(folder, size, [what])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
