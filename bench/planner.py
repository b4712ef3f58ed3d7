"""Noise by accountant and by mechanism, beside the figures measured before this code was written.

Usage: ``python -m bench.planner``. Each entry is the standard deviation of the noise on one of k queries of sensitivity
1, its ratio to the best independent Laplace or Gaussian noise of its column, the earlier figure
(``tests/golden/planner_tables.json``; four digits, three where queries are drawn together), and the difference.
Entries that differ by more than 0.5 % are marked and counted. The exit code is 1 if one of them is a figure of an
exact method. A dash stands for a formula that is not proved there.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from bench.methods import EXACT, JOINT, METHODS, Method, discrete_laplace, textbook_truth

EARLIER = Path(__file__).parents[1] / "tests" / "golden" / "planner_tables.json"
NEAR = 0.005

Row = list[float | None]


class Differences:
    """Counts the entries that are not what they were; ``exact`` are those of methods that lose nothing."""

    def __init__(self) -> None:
        self.compared = 0
        self.exact: list[str] = []
        self.others: list[str] = []

    def between(self, ours: float | None, earlier: float | None, where: str, *, exact: bool) -> str:
        """The relative difference as text, marked where it is above the limit."""
        self.compared += 1
        if ours is None and earlier is None:
            return "same"
        if ours is None or earlier is None:
            text = "refused" if ours is None else "proved"
        else:
            text = f"{100 * (ours / earlier - 1):+.2f}%"
            if abs(ours / earlier - 1) <= NEAR:
                return text
        (self.exact if exact else self.others).append(f"{where}: {entry(ours)} here, {entry(earlier)} there")
        return f"{text} <"


def entry(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def ratio(value: float | None, best: float) -> str:
    return "" if value is None else f"({value / best:.2f}x)"


def table(
    title: str, methods: Mapping[str, Method], columns: Sequence[int], facts: Mapping[str, Any], seen: Differences
) -> None:
    """Prints one table: a line per method, a column per k."""
    epsilon, delta = Fraction(facts["epsilon"]), Fraction(facts["delta"])
    rows: dict[str, Row] = {name: [of(epsilon, delta, k) for k in columns] for name, of in methods.items()}
    independent = [row for name, row in rows.items() if not name.startswith("K-norm") and "elliptic" not in name]
    best = [min(v for v in column if v is not None) for column in zip(*independent, strict=True)]
    print(f"\n{title} (epsilon, delta) = ({facts['epsilon']}, {facts['delta']})")
    print(f"{'':22}" + "".join(f"{f'k={k}':>8}{'':8}{'earlier':>9}{'':10}" for k in columns))
    for name, row in rows.items():
        line(name, row, facts["std"][name], columns, best, f"({facts['epsilon']}, {facts['delta']})", seen)


def line(
    name: str,
    row: Row,
    earlier: Row,
    columns: Sequence[int],
    best: Sequence[float] | None,
    budget: str,
    seen: Differences,
) -> None:
    cells = []
    for at, (k, ours, was) in enumerate(zip(columns, row, earlier, strict=True)):
        gap = seen.between(ours, was, f"{budget} {name} k={k}", exact=name in EXACT)
        cells.append(f"{entry(ours):>8} {ratio(ours, best[at]) if best else '':>8} {entry(was):>7} {gap:<9}")
    print(f"{name:22}" + "".join(cells))


def crossovers(facts: Mapping[str, Any], seen: Differences) -> None:
    """The least k at which the first method has less noise than the second."""
    print("\nFrom which k on")
    for claim, cases in facts["crossovers"].items():
        first, second = ({**METHODS, **JOINT}[name] for name in claim.split(" < "))
        for case in cases:
            epsilon, delta = Fraction(case["epsilon"]), Fraction(case["delta"])

            def wins(k: int, a: Method = first, b: Method = second, e: Fraction = epsilon, d: Fraction = delta) -> bool:
                return (a(e, d, k) or 0.0) < (b(e, d, k) or 0.0)

            found = bisect_left(range(1, 200), True, key=wins) + 1
            budget = f"({case['epsilon']}, {case['delta']})"
            gap = seen.between(found, case["k"], f"{budget} {claim}", exact=True)
            print(f"  {claim:36} {budget:14} k = {found:3} (was {case['k']:3}, {gap.strip()})")


def main() -> int:
    facts = json.loads(EARLIER.read_text(encoding="utf-8"))
    seen = Differences()
    for budget in facts["independent"]:
        table("Independent noise,", METHODS, facts["k"], budget, seen)
        epsilon, delta = Fraction(budget["epsilon"]), Fraction(budget["delta"])
        name = f"({budget['epsilon']}, {budget['delta']})"
        row: Row = [discrete_laplace(epsilon, delta, k) for k in facts["k"]]
        line("discrete Laplace, KOV", row, budget["discrete_laplace"], facts["k"], None, name, seen)
        truth = [textbook_truth(epsilon, delta, k) for k in facts["k"]]
        print(f"{'true epsilon of (8k)':22}" + "".join(f"{entry(e):>8}{'':27}" for e in truth))
    for budget in facts["joint"]:
        table("k counts of the same rows,", JOINT, facts["joint_k"], budget, seen)
    crossovers(facts, seen)
    found = [*seen.exact, *seen.others]
    print(f"\n{seen.compared} entries, {len(found)} of them more than {100 * NEAR:g} % from the earlier figure")
    for text in found:
        print(f"  {text}")
    return 1 if seen.exact else 0


if __name__ == "__main__":
    sys.exit(main())
