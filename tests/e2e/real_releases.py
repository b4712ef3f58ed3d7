"""A real spec run to its end, with the exact aggregates that were measured kept for the test; and figures of merit.

The boxes are opened here, as tests may, because the sample of a unit's rows is drawn by a key that dies with the
release: nobody can compute the bounded truth afterwards.
"""

from __future__ import annotations

import csv
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.engines import ENGINES, DuckDBEngine
from dprelease.ledger import StepKey
from dprelease.measures.count import Count, CountDistinct
from dprelease.measures.counted_quantile import CountedQuantile
from dprelease.measures.ranked_quantile import Quantile
from dprelease.measures.sum import Sum
from dprelease.noise import Exact, ExactHistogram, Measurement
from dprelease.noise.exact import ExactKeys, open_exact, open_histogram
from dprelease.plan.document import PlannedQuery, ReleasePlan, Step
from dprelease.publish.measured import published_tables
from dprelease.release.direct import run_directly
from dprelease.release.draw import DataSource, draw_batch
from dprelease.release.run import Request
from tests.e2e.real_data import DATA, ROOT

__all__ = ["Line", "Recorder", "Release", "law_coverage", "project", "quantile_line", "released", "score", "told"]

Floats = npt.NDArray[np.float64]
Box = Exact | ExactHistogram
CONFIDENCE = 0.95
VARIABLES = {"DPRELEASE_DATA": str(DATA), "DPRELEASE_ACS": str(DATA)}


class Recorder(DuckDBEngine):
    """The engine itself, which also remembers every box that it handed out."""

    boxes: dict[tuple[Grouping, Quantity], Box]
    keys: dict[Grouping, ExactKeys]

    def aggregate(
        self, catalog: Any, grouping: Grouping, quantities: Sequence[Quantity], *rest: Any, **named: Any
    ) -> Any:
        """What the engine answers."""
        found = super().aggregate(catalog, grouping, quantities, *rest, **named)
        self.boxes.update({(grouping, quantity): box for quantity, box in zip(quantities, found, strict=True)})
        return found

    def units_by_key(self, catalog: Any, grouping: Grouping, *rest: Any, **named: Any) -> ExactKeys:
        """What the engine answers."""
        self.keys[grouping] = super().units_by_key(catalog, grouping, *rest, **named)
        return self.keys[grouping]


@dataclass(frozen=True, eq=False)
class Release:
    """A published release and what it was made from."""

    bundle: Path
    plan: ReleasePlan
    recorder: Recorder

    def rows(self, query: str) -> list[dict[str, str]]:
        """A published table."""
        with (self.bundle / "tables" / f"{query}.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def column(self, query: str, name: str) -> Floats:
        """A published column as numbers; NaN where it is blank."""
        return np.array([float(row[name] or "nan") for row in self.rows(query)])

    def query(self, name: str) -> PlannedQuery:
        """As it was planned."""
        return next(query for query in self.plan.queries if query.name == name)

    def box(self, step: Step, quantity: Quantity) -> Box:
        """The exact aggregate that a step hid."""
        batch = next(each for each in self.plan.batches() if step.id in each.ids)
        return self.recorder.boxes[batch.grouping, batch.asked(step)[step.parts.index(quantity)]]

    @cached_property
    def bounded(self) -> dict[tuple[str, str], Floats]:
        """What every measure would show without noise, from the very aggregates that were measured."""
        measurements = {step.id: self._silent(step) for step in self.plan.steps}
        tables = published_tables(self.plan, measurements)
        return {(table.name, each.name): each.value for table in tables for each in table.measures}

    def _silent(self, step: Step) -> Measurement:
        if step.selecting is not None:
            (query,) = [query for query in self.plan.queries if query.selection == step.id]
            keys = tuple(tuple(row[name] for name in query.by) for row in self.rows(query.name))
            return Measurement(step.id, np.ones(len(keys), dtype=np.int64), keys=keys)
        if step.mechanism == "exponential_top_k":
            return Measurement(step.id, np.arange(step.numbers or 0))
        return Measurement(step.id, np.concatenate([self._numbers(step, each) for each in step.parts]))

    def _numbers(self, step: Step, quantity: Quantity) -> npt.NDArray[np.int64]:
        box = self.box(step, quantity)
        return open_exact(box) if isinstance(box, Exact) else np.full(step.cells or 0, quantity.low)

    def histogram(self, query: str, measure: str) -> tuple[Floats, ...]:
        """For each cell the sorted values, in units of the column, from which a quantile was drawn."""
        step = self.plan.step(self.query(query).inputs[measure][0].step)
        box = self.box(step, step.aggregate.quantity)
        assert isinstance(box, ExactHistogram)
        cells, cell, value, count = open_histogram(box)
        step_size = float(step.aggregate.quantity.step)
        return tuple(np.sort(np.repeat(value[cell == at], count[cell == at])) * step_size for at in range(cells))

    def again(self) -> dict[tuple[str, str], tuple[Floats, Floats]]:
        """Value and margin of every measure in a fresh draw over the same aggregates (and keys); nothing is stored."""
        chosen = {step.id: self._silent(step) for step in self.plan.steps if step.selecting is not None}
        drawn: dict[str, Measurement] = {}
        source = DataSource(self.plan.catalog, {}, _Replay(self), _Still())  # type: ignore[arg-type]
        for batch in self.plan.batches():
            found = draw_batch(batch, source, _Nowhere(chosen), ("r", "p", "f"))  # type: ignore[arg-type]
            drawn.update({each.step: each for each in found})
        tables = published_tables(self.plan, drawn)
        return {(table.name, each.name): (each.value, each.margin) for table in tables for each in table.measures}


class _Replay:
    """An engine that hands out what was recorded."""

    def __init__(self, release: Release) -> None:
        self._recorder = release.recorder

    def aggregate(self, _: Any, grouping: Grouping, quantities: Sequence[Quantity], *__: Any, **___: Any) -> Any:
        return tuple(self._recorder.boxes[grouping, quantity] for quantity in quantities)


class _Still:
    """Data that nobody reads again, so that nothing can have changed."""

    def reading(self, names: Sequence[str]) -> AbstractContextManager[None]:
        return nullcontext()


class _Nowhere:
    """A ledger that keeps nothing; the keys are those that were published."""

    def __init__(self, chosen: Mapping[str, Measurement]) -> None:
        self._chosen = chosen

    def stored_all(self, keys: Iterable[StepKey]) -> dict[StepKey, Measurement]:
        return {key: self._chosen[key.step] for key in keys if key.step in self._chosen}

    def secret(self, *_: str) -> bytes:
        return bytes(32)

    def commit_all(self, drawn: dict[StepKey, Measurement]) -> dict[StepKey, Measurement]:
        return drawn


def project(folder: Path, spec: str) -> Path:
    """The example's project in a folder of its own; returns the path of the spec."""
    for name in ("dprelease.yaml", "policy.yaml", f"{spec}.yaml"):
        shutil.copy(ROOT / "specs" / name, folder)
    shutil.copytree(ROOT / "specs" / "reference", folder / "reference")
    return folder / f"{spec}.yaml"


def released(folder: Path, spec: str) -> Release:
    """Run a spec as ``dprelease run --direct`` does, in this process."""
    path, kept = project(folder, spec), list[Recorder]()

    class Kept(Recorder):
        """A recorder that can be asked when the release is there."""

        def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
            super().__init__(home, environment)
            self.boxes, self.keys = {}, {}
            kept.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENGINES, "duckdb", Kept)
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        outcome = run_directly(Request(target=str(path)))
    bundle = Path(outcome.folder)
    return Release(bundle, ReleasePlan.from_canonical((bundle / "plan.json").read_bytes()), kept[0])


@dataclass(frozen=True)
class Line:
    """Figures of one measure.

    Attributes:
        name: Spec, query and measure.
        cells: With a margin, out of how many.
        of: How many there are.
        covered: Of ``cells``, those whose margin holds the clipped and bounded truth.
        law: The probability of that by the law of the noise; None where only "at least 0.95" is known.
        clipping: The largest and the median change by clips, of all cells.
        truncation: The same, by the bounds of a unit's rows.
        totals: Of counts and sums, what clips and what bounds take off the total over all cells, as shares of it.
        error: The median distance of the published number from the raw truth; of quantiles in ranks.
    """

    name: str
    cells: int
    of: int
    covered: int
    law: float | None
    clipping: tuple[float, float]
    truncation: tuple[float, float]
    error: float
    totals: tuple[float, float] | None = None

    @property
    def agrees(self) -> bool:
        """Whether the share covered is what the law says, at 1e-6; and never significantly below 0.95."""
        low = stats.binomtest(self.covered + self.of - self.cells, self.of, CONFIDENCE, "less").pvalue
        both = 1.0 if self.law is None else stats.binomtest(self.covered, self.of, self.law).pvalue
        return bool(
            low > 1e-6 and both > 1e-6 and (self.law is None or (self.law >= CONFIDENCE and self.cells == self.of))
        )

    def __str__(self) -> str:
        share = f"{self.covered / self.cells:7.2%}" if self.cells else "      -"
        law = f"{self.law:7.2%}" if self.law is not None else ">=95.0%"
        biases = " ".join(f"{value:9.4g}" for value in (*self.clipping, *self.truncation, self.error))
        totals = " ".join(f"{value:7.2%}" for value in self.totals or ())
        return f"{self.name:38} {self.of:6} {self.cells:6} {share} {law} {biases} {totals}"


def biggest(change: Floats) -> tuple[float, float]:
    """The largest and the median size of a change, of the cells where there is something to speak of."""
    known = np.abs(change[~np.isnan(change)])
    return (float(known.max()), float(np.median(known))) if len(known) else (0.0, 0.0)


def law_coverage(release: Release, query: str, measure: str) -> float | None:
    """P(|noise| <= margin) where a number is one draw or the law of one part of a joint draw; None for all others."""
    planned = release.query(query)
    feeds = planned.inputs[measure]
    if len(feeds) != 1 or not isinstance(planned.measures[measure], Count | CountDistinct | Sum):
        return None
    step = release.plan.step(feeds[0].step)
    margin = step.law.margin(release.plan.publish.confidence)
    if step.gauge is not None:
        return 1 - float(step.law.tail(margin))  # type: ignore[attr-defined] # the law of a K-norm draw
    size, reach = float(step.scale), math.floor(margin)
    if "laplace" in step.mechanism:
        return 1 - 2 * math.exp(-(reach + 1) / size) / (1 + math.exp(-1 / size))
    if size > 100:  # the sum over whole numbers is the integral to their middles, but for 1e-6
        return math.erf((reach + 0.5) / size / math.sqrt(2))
    k = np.arange(-int(60 * size) - 60, int(60 * size) + 61, dtype=np.float64)
    weight = np.exp(-((k / size) ** 2) / 2)
    return float(weight[np.abs(k) <= margin].sum() / weight.sum())


def told(
    name: str,
    published: tuple[Floats, Floats],
    truths: tuple[Floats, Floats, Floats],
    law: float | None,
) -> Line:
    """The figures of a number per cell.

    Args:
        name: For people.
        published: Values and margins.
        truths: Raw, clipped, and clipped and bounded.
        law: See :class:`Line`.
    """
    (value, margin), (raw, clipped, bounded) = published, truths
    there = ~np.isnan(bounded)
    shown = there & ~np.isnan(margin)
    # Half a unit of the last digit of a double is no matter of coverage.
    inside = shown & (np.abs(value - bounded) <= margin * (1 + 1e-12) + 1e-9)
    return Line(
        name,
        int(shown.sum()),
        int(there.sum()),
        int(inside.sum()),
        law,
        biggest(clipped - raw),
        biggest(bounded - clipped),
        float(np.nanmedian(np.abs(value - raw))),
        None if law is None else (float(clipped.sum() / raw.sum() - 1), float((bounded - clipped).sum() / raw.sum())),
    )


def score(values: Floats, at: Fraction, answer: float) -> float:
    """How many ranks an answer is away from the quantile: 0 at every true one."""
    rank, n = float(at), len(values)
    below, above = np.searchsorted(values, answer), n - np.searchsorted(values, answer, side="right")
    return float(max(below - rank * n, above - (1 - rank) * n, 0.0))


def quantile_line(
    release: Release,
    query: str,
    measure: str,
    truths: tuple[tuple[Floats, ...], tuple[Floats, ...]],
    name: str,
) -> Line:
    """The figures of a quantile: its error in ranks, as a share of the cell's clipped and bounded values."""
    planned = release.query(query).measures[measure]
    assert isinstance(planned, Quantile | CountedQuantile)
    value, margin = release.column(query, measure), release.column(query, f"{measure}_margin")
    bounded = release.histogram(query, measure)
    ends = [np.array([_ends(cell, planned.at) for cell in each]) for each in (*truths, bounded)]
    raw, clipped, sampled = ends
    far = np.maximum(np.abs(value - sampled[:, 0]), np.abs(value - sampled[:, 1]))
    there, shown = ~np.isnan(sampled[:, 0]), ~np.isnan(sampled[:, 0]) & ~np.isnan(margin)
    ranks = [
        score(cell, planned.at, answer) / len(cell) for cell, answer in zip(bounded, value, strict=True) if len(cell)
    ]
    return Line(
        name,
        int(shown.sum()),
        int(there.sum()),
        int((shown & (far <= margin + 1e-9)).sum()),
        None,
        biggest((clipped - raw)[:, 0]),
        biggest((sampled - clipped)[:, 0]),
        float(np.median(ranks)),
    )


def _ends(values: Floats, at: Fraction) -> tuple[float, float]:
    """The least and the largest quantile at a rank."""
    n = len(values)
    if not n:
        return (np.nan, np.nan)
    least = values[max(0, -(-at.numerator * n // at.denominator) - 1)]
    most = values[min(n - 1, at.numerator * n // at.denominator)]
    return (float(least), float(most))
