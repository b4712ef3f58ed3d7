"""``python -m tests.fuzz 0 10000``: carry specs out by hand, and count what came of them.

``--run`` rehearses what is planned and runs it without data; ``--release`` releases made-up rows with the noise off, and
holds every published number against pandas.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.fuzz.carried import carried, rehearsed
from tests.fuzz.mutations import fuzzed
from tests.fuzz.released import released


def main() -> int:
    """Print faults as they come, and the numbers by outcome at the end; 1 where there was a fault."""
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz")
    asked.add_argument("first", type=int)
    asked.add_argument("end", type=int)
    asked.add_argument("--run", action="store_true", help="run what is planned, on made-up rows and without data")
    asked.add_argument("--opinion", action="store_true", help="ask the independent accountant")
    asked.add_argument("--release", action="store_true", help="release made-up rows by it, and compare with pandas")
    options = asked.parse_args()
    found: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for seed in range(options.first, options.end):
        try:
            text = fuzzed(seed)
            outcome = carried(text, seed, opinion=options.opinion)
            if options.run and outcome == "planned and verified":
                with tempfile.TemporaryDirectory(prefix="dprelease-fuzz-") as folder:
                    outcome = rehearsed(text, seed, Path(folder))
            elif options.release and outcome == "planned and verified":
                with tempfile.TemporaryDirectory(prefix="dprelease-fuzz-") as folder:
                    outcome, compared = released(text, seed, Path(folder) / "project")
                numbers += compared
        except Exception as error:  # whatever it is, it is what is looked for
            outcome = "FAULT"
            last = traceback.extract_tb(error.__traceback__)[-1]
            sys.stdout.write(
                f"FAULT {seed} {type(error).__name__}: {str(error)[:400]} ({last.filename}:{last.lineno})\n"
            )
        found[outcome] += 1
        sys.stdout.flush()
    for what in (found, numbers):
        sys.stdout.writelines(f"{count:6d}  {name}\n" for name, count in what.most_common())
    sys.stdout.write(f"{time.process_time():.0f} s of processor time\n")
    return int("FAULT" in found)


if __name__ == "__main__":
    sys.exit(main())
