"""How often the published intervals hold the true numbers: a release drawn again and again from made-up data.

``python -m tests.statistical.coverage`` draws every scenario 2,000 times and prints the table of
``docs/measures/intervals.md``. The exact numbers are aggregated once, by the slow engine of the conformance tests; the
true values of the measures are worked out from the rows, apart from it. A draw then goes the way of a release from the
samplers to the tables, without engine and ledger: the mechanisms' own samplers, ``inputs_of``, ``queries_as_tables``
and ``derived_tables``. Tables that are reconciled or kept from being negative would be made here too, after
``queries_as_tables``, and are tallied as any other.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dprelease.catalog.aggregate import Quantity
from dprelease.estimate import PublishedMeasure, PublishedTable, interval
from dprelease.measures import Possible
from dprelease.noise import Exact, ExactHistogram, Law, Measurement
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw
from dprelease.noise.mechanisms.knorm import KNormLaw
from dprelease.plan.document import ReleasePlan, Step
from dprelease.publish.derive.tables import derived_tables, seed_of
from dprelease.publish.measured import inputs_of, queries_as_tables
from dprelease.release.draw import hidden
from tests.conformance.reference_engine import ReferenceEngine
from tests.planned import plan_of
from tests.statistical.coverage_data import SPEC, truths, write

__all__ = ["FACTORS", "SCENARIOS", "Scenario", "Tally", "law_says", "simulated"]

Floats = npt.NDArray[np.float64]
Box = Exact | ExactHistogram


@dataclass(frozen=True)
class Scenario:
    """A budget and a kind of noise; ``derived``: whether its derived tables are made too, 1,000 replicates in each draw."""

    epsilon: str
    noise: str
    words: str
    derived: bool = False

    @property
    def plan(self) -> ReleasePlan:
        """The plan of the release."""
        return plan_of(SPEC.replace("EPSILON", self.epsilon).replace("NOISE", self.noise))


SCENARIOS: dict[str, Scenario] = {
    "wide": Scenario("1/5", "laplace", "discrete Laplace, ε 0.2"),
    "gaussian": Scenario("4", "gaussian", "discrete Gaussian, ε 4", derived=True),
    "joint": Scenario("20", "knorm", "K-norm counts, ε 20"),
    "tiny": Scenario("60", "laplace", "discrete Laplace, ε 60: scales below one step"),
}
FACTORS = (1.0, 0.9)
"""Times which the margins are taken: as published, and too narrow, which must be seen."""


def boxes_of(plan: ReleasePlan, folder: Path) -> dict[str, tuple[Box, ...]]:
    """By step its exact quantities, aggregated once."""
    engine, found = ReferenceEngine(folder, {}), {}
    for batch in plan.batches():
        asked: list[Quantity] = list(dict.fromkeys(part for step in batch.steps for part in batch.asked(step)))
        boxes = dict(zip(asked, engine.aggregate(plan.catalog, batch.grouping, asked, {}, b"secret"), strict=True))
        found.update({step.id: tuple(boxes[part] for part in batch.asked(step)) for step in batch.steps})
    return found


def drawn(step: Step, boxes: Sequence[Box]) -> Measurement:
    """One measurement of a step, as a release hides its exact totals."""
    return Measurement(step.id, hidden(step, boxes, "native"))


@dataclass
class Tally:
    """What was seen of one measure over all draws and all cells where it is defined.

    Attributes:
        kind: The word of the spec; ``derived`` of a number that SQL made.
        law: Of the noise, where the number is one measurement; None elsewhere.
        promised: That ``value -/+ margin`` holds the true number, by the law itself; None: at least the confidence.
        numbers: Cells x draws.
        held: How many of them [lower, upper] holds, by the factor of the margin; what is blank says nothing wrong.
        margins: How many value -/+ so many margins holds, before anything is cut.
        blank: How many are blank.
        cut: How many intervals are shorter than value -/+ margin.
    """

    kind: str
    law: Law | None = None
    promised: float | None = None
    numbers: int = 0
    held: dict[float, int] = field(default_factory=lambda: dict.fromkeys(FACTORS, 0))
    margins: dict[float, int] = field(default_factory=lambda: dict.fromkeys(FACTORS, 0))
    blank: int = 0
    cut: int = 0

    def add(self, found: PublishedMeasure, possible: Possible, truth: Floats) -> None:
        """One draw."""
        defined = ~np.isnan(truth[0])
        blank = np.isnan(found.margin)
        for factor in FACTORS:
            ends = (found.lower, found.upper)
            if factor != 1:
                ends = interval(found.value, factor * found.margin, possible, nearest=True)
            self.held[factor] += int((defined & (blank | ((ends[0] <= truth[0]) & (truth[1] <= ends[1])))).sum())
            lower, upper = interval(found.value, factor * found.margin, (None, None))
            self.margins[factor] += int((defined & (blank | ((lower <= truth[0]) & (truth[1] <= upper)))).sum())
        self.numbers += int(defined.sum())
        self.blank += int((defined & blank).sum())
        self.cut += int((defined & found.cut).sum())

    @property
    def around(self) -> int:
        """How many ``value -/+ margin`` holds, before anything is cut."""
        return self.margins[1.0]


def law_says(law: Law, confidence: Fraction) -> float:
    """P(|noise| <= margin), added up from the probabilities of the law."""
    margin = law.margin(confidence)
    if isinstance(law, KNormLaw):
        return 1 - law.tail(int(margin))
    scale = float(law.scale)  # type: ignore[attr-defined] # discrete Laplace or Gaussian
    reach = int(60 * scale) + 40
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    weight = np.exp(-np.abs(k) / scale) if isinstance(law, DiscreteLaplaceLaw) else np.exp(-(k**2) / (2 * scale**2))
    return float(weight[np.abs(k) <= margin].sum() / weight.sum())


def simulated(
    name: str, draws: int, *, rare: int = 1, said: Callable[[str], None] = lambda _: None
) -> dict[tuple[str, str], Tally]:
    """By table and measure what was seen in so many draws of a scenario.

    Args:
        name: Of the scenario.
        draws: How many.
        rare: Quantiles are chosen and derived tables made in one of so many draws: they take the most time.
        said: Where progress goes.
    """
    plan, known = SCENARIOS[name].plan, truths()
    choosing = {step.id for step in plan.steps if step.choosing is not None}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        boxes = boxes_of(plan, Path(folder))
    tallies: dict[tuple[str, str], Tally] = {}
    measurements: dict[str, Measurement] = {}
    for at in range(draws):
        fresh = at % rare == 0
        steps = [step for step in plan.steps if fresh or step.id not in choosing]
        measurements |= {step.id: drawn(step, boxes[step.id]) for step in steps}
        for table in _tables(plan, measurements, with_derived=fresh and SCENARIOS[name].derived):
            _tallied(plan, table, known, tallies, set() if fresh else choosing)
        if at % 100 == 99:
            said(f"{name}: {at + 1} of {draws} draws")
    return tallies


def _tables(
    plan: ReleasePlan, measurements: Mapping[str, Measurement], *, with_derived: bool
) -> Iterator[PublishedTable]:
    inputs = inputs_of(plan, measurements)
    tables = queries_as_tables(plan, inputs)
    yield from tables
    if with_derived:
        yield from derived_tables(plan, tables, inputs, seed_of(measurements))


def _tallied(
    plan: ReleasePlan,
    table: PublishedTable,
    known: Mapping[tuple[str, str], Floats],
    tallies: dict[tuple[str, str], Tally],
    old: set[str],
) -> None:
    """Add one draw of a table; not what was made of ``old`` steps, which were not drawn again."""
    query = next((each for each in plan.queries if each.name == table.name and not table.derived), None)
    steps = {step.id: step for step in plan.steps}
    for measure in table.measures:
        asked = measure.measure
        feeds = query.inputs[measure.name] if query is not None else ()
        if old & {feed.step for feed in feeds}:
            continue
        if (table.name, measure.name) not in tallies:
            kind = asked.kind if asked is not None else "derived"
            tally = Tally(kind)
            if len(feeds) == 1 and kind in {"count", "count_distinct", "sum"}:
                tally.law = steps[feeds[0].step].law
                tally.promised = law_says(tally.law, table.confidence)
            tallies[table.name, measure.name] = tally
        possible: Possible = (None, None)
        if asked is not None and query is not None:
            possible = asked.possible(plan.catalog.tables[query.table])
        tallies[table.name, measure.name].add(measure, possible, known[table.name, measure.name])


def _lines(found: Mapping[str, Mapping[tuple[str, str], Tally]]) -> Iterator[str]:
    """The table of the docs: a row for each measure, a column for each scenario."""
    names = list(found)
    yield "| | Kind | " + " | ".join(SCENARIOS[name].words for name in names) + " |"
    yield "|---|---|" + "---|" * len(names)
    for key in dict.fromkeys(key for name in names for key in found[name]):
        seen = [found[name].get(key) for name in names]
        kind = next(tally.kind for tally in seen if tally is not None)
        yield f"| {'.'.join(key)} | {kind} | {' | '.join(map(_seen, seen))} |"


def _seen(tally: Tally | None) -> str:
    """The share that was held; behind it what the law says of one measurement, and how many are blank."""
    if tally is None:
        return ""
    notes = [f"law: {100 * tally.promised:.2f}"] if tally.promised is not None else []
    notes += [f"blank: {100 * tally.blank / tally.numbers:.0f}"] if tally.blank else []
    return f"{100 * tally.held[1.0] / tally.numbers:.2f}" + (f" ({', '.join(notes)})" if notes else "")


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--draws", type=int, default=2000)
    options.add_argument("--rare", type=int, default=8, help="quantiles and derived tables in one of so many draws")
    options.add_argument("--only", choices=sorted(SCENARIOS), action="append")
    chosen = options.parse_args()
    names = chosen.only or list(SCENARIOS)
    found = {
        name: simulated(name, chosen.draws, rare=chosen.rare, said=lambda text: print(text, file=sys.stderr))
        for name in names
    }
    print("\n".join(_lines(found)))


if __name__ == "__main__":
    main()
