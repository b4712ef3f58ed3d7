"""How often the intervals of the four releases of real data hold the truth: their plans, drawn again and again.

With `DPRELEASE_DATA` and `DPRELEASE_ACS` set, ``python -m bench.real_coverage 50`` plans each spec in a folder of
its own, where no account has paid for its files, has ``dprelease utility`` measure it as a release would, and
prints for every measure how many numbers there were and which part of their intervals held the true one.
The data are public, and nothing is released: the figures compare with the truth, and no noise hides them.

The truth is what the plan asks for without its noise, after its bounds and clips. Cells of one measure have noise of
their own, in every draw, so that numbers are independent trials; with a promise of 95 % each, so few would be held with
the probability that is printed (one-sided binomial).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scipy import stats

from dprelease.release.tuning.error_figures import Errors
from dprelease.release.tuning.utility import utility

__all__ = ["SPECS", "Held", "added_up", "held_by"]

SPECS = ("retail", "incomes", "flights", "crashes")
FOLDER = Path(__file__).resolve().parents[1] / "specs"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Held:
    """One measure of one table, over all cells and draws.

    Attributes:
        table: Its query.
        measure: Its name.
        numbers: With a margin.
        held: Of them, how many intervals hold the truth.
        blank: Without a number.
    """

    table: str
    measure: str
    numbers: int
    held: int
    blank: int

    @property
    def chance(self) -> float:
        """The probability of so few, were each held with 95 %."""
        return float(stats.binom.cdf(self.held, self.numbers, CONFIDENCE))


def added_up(errors: Iterable[Errors]) -> list[Held]:
    """Size classes of each measure put together; what has no margins is left out."""
    found: dict[tuple[str, str], Held] = {}
    for each in errors:
        if each.coverage is None:
            continue
        old = found.get((each.table, each.measure), Held(each.table, each.measure, 0, 0, 0))
        found[each.table, each.measure] = Held(
            each.table,
            each.measure,
            old.numbers + each.compared,
            old.held + round(each.coverage * each.compared),
            old.blank + each.withheld,
        )
    return list(found.values())


def held_by(spec: str, draws: int, *, synthetic: bool = False) -> list[Held]:
    """One of the specs, drawn so many times in a folder where nothing was ever released."""
    with tempfile.TemporaryDirectory() as made:
        project = Path(made) / "specs"
        shutil.copytree(FOLDER, project, ignore=shutil.ignore_patterns("releases", "ledger*", "*.db"))
        found = utility(
            project / f"{spec}.yaml",
            allowed=True,
            repeat=draws,
            synthetic=synthetic,
            is_terminal=False,
            out=Path(made) / "figures.txt",
        )
    return added_up(found.errors)


def main() -> int:
    """Print a row for every measure; 1 where one holds too seldom for its promise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("draws", nargs="?", type=int, default=20)
    parser.add_argument("--only", choices=SPECS, action="append")
    asked = parser.parse_args()
    wrong = 0
    sys.stdout.write(
        f"{'spec':9}{'table':19}{'measure':15}{'numbers':>9}{'blank':>8}{'held':>9}{'chance of so few':>18}\n"
    )
    for spec in asked.only or SPECS:
        for each in held_by(spec, asked.draws):
            share = f"{100 * each.held / each.numbers:.2f} %" if each.numbers else "-"
            row = (
                f"{spec:9}{each.table:19}{each.measure:15}{each.numbers:9,}{each.blank:8,}{share:>9}{each.chance:18.2g}"
            )
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
            wrong += each.chance < 1e-6
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
