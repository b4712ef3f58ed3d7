"""How far a spec's plan would be from the truth: a confidential comparison, for tuning on public or made-up stand-ins.

Laws of noise say how accurate a count will be before any data are read. They do not say what clipping at zero,
rounding, blanking and ratios of noisy numbers do to the tables of a given population. This does: it makes the plan,
lets ``release/draw.py`` measure it several times exactly as a release would, and compares what would be published with
what would be published without noise.

**It is no release and has no guarantee.** A comparison with the truth is a function of the truth that no noise hides:
two runs on data that differ in one person can differ in every figure. So it never touches data that an account has paid
for, charges nothing, commits nothing, keeps no answer, and its figures are confidential. Exact values exist in
:func:`compare_with_truth` alone, as in ``draw``; nothing of them is logged, cached or handed on but sums of errors over
the cells of a table and size class, and the errors of this module tell no value.

The truth is what the plan asks for without its noise: after the declared bounds and clips, and before values were
rounded to a grid, so that a grid that is too coarse shows as what it is. What bounds and clips leave out of the data is
no error of the noise, and is not shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dprelease.catalog.aggregate import Grouping, Quantity, TotalsCube
from dprelease.catalog.reference import References
from dprelease.catalog.residual import Residual
from dprelease.catalog.table import Catalog, Key
from dprelease.engines import Engine, engine_for
from dprelease.errors import BrokenPromiseError, DpReleaseError
from dprelease.estimate import PublishedMeasure
from dprelease.ledger import Ledger, StepKey
from dprelease.measures import Noisy, PrefixCounts
from dprelease.noise import Exact, ExactHistogram, Measurement
from dprelease.noise.truth import true_factor, true_numbers, true_prefixes, true_quantile, true_residual
from dprelease.plan.document import Measured, PlannedQuery, ReleasePlan, Step
from dprelease.publish.measured import Inputs, inputs_of, queries_as_tables
from dprelease.release.data.sources import Pinned, confidential_tables
from dprelease.release.draw import DataSource, draw_batch
from dprelease.release.planning import open_target, plan_release
from dprelease.release.project import reference_tables
from dprelease.release.rehearsal import Rehearsal
from dprelease.release.series import refuse_series
from dprelease.release.tuning.error_figures import Errors, ErrorSums
from dprelease.release.tuning.fine_grids import unrounded
from dprelease.release.tuning.stand_in import UTILITY, require_consent, require_outside, require_terminal, stand_in

__all__ = ["WATERMARK", "ForgettingLedger", "Unpinned", "Utility", "compare_with_truth", "utility"]

WATERMARK = "CONFIDENTIAL: compares with the truth - not a release"

_SHOWS = "shows figures that compare with the confidential data"
_PLACES = "type it on a terminal, without `>` and `|`; or add `--out FILE`, a new file that only you can read"

Floats = npt.NDArray[np.float64]
Box = Exact | ExactHistogram
Keys = tuple[tuple[Key, ...], ...] | None
Shown = Callable[[int, int], None]


@dataclass(frozen=True)
class Utility:
    """A whole comparison. Confidential.

    Attributes:
        release: Name of the release; ``period``: its period.
        repeat: How often the plan was measured.
        confidence: The margins' confidence.
        synthetic: The rows were made up from the declarations.
        errors: In published order, then by size.
        left_out: Tables that have no numbers to compare, and why.
    """

    release: str
    period: str
    repeat: int
    confidence: Fraction
    synthetic: bool
    errors: tuple[Errors, ...]
    left_out: tuple[str, ...]


def utility(
    path: Path,
    *,
    allowed: bool,
    repeat: int = 5,
    synthetic: bool = False,
    is_terminal: bool = True,
    period: str | None = None,
    out: Path | None = None,
    show: Shown = lambda done, total: None,
) -> Utility:
    """Plan a spec, measure the plan ``repeat`` times, and compare with the truth; nothing charged, nothing published.

    The ledger keeps that these files were looked at; of made-up rows it keeps nothing.

    Args:
        path: The path of a spec or a frozen plan.
        allowed: Whether the caller has said that he may see the data; needed unless ``synthetic``.
        repeat: How often, at least 1.
        synthetic: Read made-up rows, and no source at all.
        is_terminal: Whether figures that are written to no file go to a terminal.
        period: Takes the place of the spec's own.
        out: Where the figures will be written; looked at only to refuse a place among the releases.
        show: Called after every repetition with how many are done, and how many there are.

    Raises:
        SpecError: Nobody said that the data may be seen (DPR-S020), ``out`` is among the releases (DPR-S021), or there
            is neither a file nor a terminal for figures of data that were not made up (DPR-S022).
        LedgerError: A source is one that an account has paid for (DPR-L170), that cannot be told (DPR-L171), or it was
            written to meanwhile (DPR-L172).
        DpReleaseError: Whatever planning and the engine raise; none of it holds a value.
    """
    require_consent(allowed or synthetic)
    require_terminal(is_terminal or synthetic or out is not None, _SHOWS, _PLACES, UTILITY)
    target = open_target(path, period)
    require_outside(target.project, out)
    plan = plan_release(target)
    refuse_series(plan, "utility")
    references = reference_tables(plan.catalog, target.project.folder)
    with ExitStack() as opened:
        rehearsal = Rehearsal.begin() if synthetic else None
        if rehearsal:
            opened.callback(rehearsal.close)
        folder, tables = rehearsal.folder if rehearsal else target.project.folder, confidential_tables(plan)
        tables = rehearsal.tables(plan, tables) if rehearsal else tables
        engine = opened.enter_context(closing(engine_for(tables.values())(folder, os.environ)))
        for table in tables.values():
            engine.describe(table)
        catalog = plan.catalog.model_copy(update={"tables": {**plan.catalog.tables, **tables}})
        files = None if rehearsal else stand_in(target.project, plan, tables, engine)
        errors = compare_with_truth(plan, catalog, references, engine, repeat, show)
        if files is not None:
            files.require_same()
    return Utility(
        release=plan.release.name,
        period=plan.release.period,
        repeat=repeat,
        confidence=plan.publish.confidence,
        synthetic=synthetic,
        errors=errors,
        left_out=(
            *(f"{query.name}: a list of keys has no numbers" for query in plan.queries if query.ranking is not None),
            *(f"{each.name}: made of published tables by SQL" for each in plan.derive),
        ),
    )


def compare_with_truth(
    plan: ReleasePlan,
    catalog: Catalog,
    references: References,
    engine: Engine,
    repeat: int,
    show: Shown = lambda done, total: None,
) -> tuple[Errors, ...]:
    """Measure a plan several times and compare what it would publish with the truth. The only function that has both.

    Rows are aggregated once (with private keys: once for every choice of keys) and hidden anew each time, by the very
    function that measures a release.

    Args:
        plan: Verified.
        catalog: The catalog of the plan, with sources as the engine shall read them.
        references: The plan's references.
        engine: What reads.
        repeat: How often, at least 1.
        show: Called after every repetition.

    Raises:
        DpReleaseError: Errors of the engine, which hold no data.
        BrokenPromiseError: For anything else, by class only: its own text may hold a value.
    """
    listening, ledger = _Listening(engine), ForgettingLedger(os.urandom(32))
    source = DataSource(catalog, references, cast(Engine, listening), cast(Pinned, Unpinned()))
    sums: dict[tuple[str, str], ErrorSums] = {}
    unexpected = ""
    try:
        for done in range(repeat):
            drawn = {
                measured.step: measured
                for batch in plan.batches(whole=True)
                for measured in draw_batch(batch, source, cast(Ledger, ledger), ("utility", "", ""))
            }
            inputs = inputs_of(plan, drawn)
            published = queries_as_tables(plan, inputs)
            keys = {query.name: _keys(drawn, query) for query in plan.queries}
            with np.errstate(all="ignore"):
                exact = queries_as_tables(
                    _plain(plan), _exact_inputs(plan, inputs, drawn, source, listening, ledger.key)
                )
            for query, noisy, true in zip(plan.queries, published, exact, strict=True):
                rows = _rows(query, noisy.measures, source, ledger.key, keys[query.name])
                for shown, known in zip(noisy.measures, true.measures, strict=True):
                    values = np.rint(known.value) if query.workload or query.ranges else known.value
                    size = np.rint(values) if rows is None or _counts(shown) else rows
                    found = sums.setdefault((_label(plan, query), shown.name), ErrorSums())
                    found.add(query.name, shown, values, size)
            listening.forget_chosen()
            show(done + 1, repeat)
    except BrokenPromiseError as error:
        unexpected = error.summary
    except DpReleaseError:
        raise
    except Exception as error:
        unexpected = f"{type(error).__name__} while comparing"
    if unexpected:
        # Outside the except block, so that no traceback carries the first error along.
        raise BrokenPromiseError(unexpected, hint="nothing was charged or kept; please report it, without the data")
    return tuple(line for (label, measure), found in sums.items() for line in found.lines(label, measure))


def _keys(drawn: Mapping[str, Measurement], query: PlannedQuery) -> Keys:
    return None if query.selection is None else drawn[query.selection].keys or ()


def _counts(shown: PublishedMeasure) -> bool:
    return shown.measure is not None and shown.measure.is_count


def _label(plan: ReleasePlan, query: PlannedQuery) -> str:
    """The query; tables of a workload are put together by level and number of attributes."""
    if query.workload is None:
        return query.name
    workload = plan.workload(query.workload)
    level, axes = workload.place(query.name)
    first = f"{workload.levels[level]}, " if workload.levels else ""
    return f"{workload.name}: {first}{f'{len(axes)}-way' if axes else 'total'}"


def _plain(plan: ReleasePlan) -> ReleasePlan:
    """The same tables with nothing withheld, cut or rounded: for the truth alone."""
    publish = plan.publish.model_copy(update={"unreliable_above": None})
    queries = tuple(query.model_copy(update={"suppress_below": None}) for query in plan.queries)
    workloads = tuple(each.model_copy(update={"post": ("consistent",)}) for each in plan.workloads)
    return plan.model_copy(update={"publish": publish, "queries": queries, "workloads": workloads})


def _exact_inputs(
    plan: ReleasePlan,
    inputs: Inputs,
    drawn: Mapping[str, Measurement],
    source: DataSource,
    listening: _Listening,
    secret: bytes,
) -> Inputs:
    """What the steps would have measured without noise and rounding, over the keys that were chosen with it."""
    noisy: dict[str, tuple[Noisy, ...]] = {}
    measured: dict[str, Measurement] = {}
    for planned in plan.batches(whole=True):
        # What is published is about values that were clipped where noise has chosen.
        batch = planned if planned.clip is None else planned.at_clip(int(drawn[planned.clip].values[0]))
        keys = None if batch.selection is None else drawn[batch.selection].keys or ()
        for step in batch.steps:
            if step.id in inputs.noisy and step.id != batch.clip:
                table = source.catalog.tables[batch.grouping.table]
                fine = tuple(unrounded(each, table) for each in batch.asked(step))
                boxes = listening.aggregate(source.catalog, batch.grouping, fine, source.references, secret, keys)
                parts = zip(inputs.noisy[step.id], fine, boxes, strict=True)
                noisy[step.id] = tuple(_known(part, each, box, step) for part, each, box in parts)
            if step.id in inputs.measured:  # an exact total is both: a table, and a part of a workload
                found = [listening.box(each, keys, batch.asked(step)[0]) for each in batch.groupings(step)]
                # A table that is published as it is has none.
                counted = [_counted(box, getattr(step, "residual", None)) for box in found]
                measured[step.id] = Measurement(step.id, np.concatenate(counted))
    return replace(inputs, noisy=noisy, measured=measured)


def _known(part: Noisy, quantity: Quantity, box: Box, step: Measured) -> Noisy:
    """A measurement as it would be without noise and rounding."""
    exact, known = replace(part, quantity=quantity, law=_NoNoise()), part.prefixes
    if known is None or not isinstance(box, ExactHistogram):
        return replace(exact, values=_opened(box, quantity, step))
    starts, counts = true_prefixes(box)
    none = np.zeros(len(starts))
    fine = PrefixCounts(starts, int(starts[-1]), counts, none, none, known.scale, none[:, None])
    return replace(exact, prefixes=fine)


def _opened(box: Box, quantity: Quantity, step: Measured) -> Any:
    factor = step.factor if isinstance(step, Step) else None
    if factor is not None and isinstance(box, Exact):
        return true_factor(box, factor)
    if isinstance(box, ExactHistogram):
        return true_quantile(box, quantity.at or Fraction(0))
    return true_numbers(box)


def _counted(box: Box, residual: Residual | None) -> npt.NDArray[np.int64]:
    if not isinstance(box, Exact):
        raise BrokenPromiseError("a step of a workload is no table of counts")
    return true_numbers(box) if residual is None else true_residual(box, residual)


def _rows(
    query: PlannedQuery, measures: Sequence[PublishedMeasure], source: DataSource, secret: bytes, keys: Keys
) -> Floats | None:
    """The true rows of every cell, where a measure is no count: they are then what its size class is about."""
    if query.workload is not None or all(map(_counts, measures)):
        return None
    asked = (Quantity(kind="rows"),)
    (box,) = source.engine.aggregate(source.catalog, query.grouping, asked, source.references, secret, keys)
    return true_numbers(box).astype(np.float64) if isinstance(box, Exact) else None


class _NoNoise:
    """The law of no noise at all."""

    variance = 0.0

    def margin(self, confidence: Fraction) -> int:
        """Nothing."""
        return 0


class Unpinned:
    """In place of the recorded state of a release's data: there is no release. See ``stand_in.StandIn``."""

    @contextmanager
    def reading(self, names: Iterable[str]) -> Iterator[None]:
        """Around a read: nothing."""
        yield


@dataclass(frozen=True)
class ForgettingLedger:
    """In place of a ledger: knows no answer, and hands on what is drawn. ``key``: 32 bytes that rows are sampled by."""

    key: bytes

    def stored_all(self, steps: Iterable[StepKey]) -> dict[StepKey, Measurement]:
        """No answer: every repetition draws."""
        return {}

    def commit(self, step: StepKey, measurement: Measurement) -> Measurement:
        """The answer itself, kept nowhere."""
        return measurement

    def commit_all(self, drawn: dict[StepKey, Measurement]) -> dict[StepKey, Measurement]:
        """The answers themselves, kept nowhere."""
        return drawn

    def secret(self, release: str, period: str, plan: str) -> bytes:
        """The same bytes in all repetitions."""
        return self.key


class _Listening:
    """An engine that reads once: it keeps the boxes which it has handed out, unopened, and hands them out again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._boxes: dict[tuple[Grouping, Keys, Quantity], Box] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def aggregate(
        self,
        catalog: Catalog,
        grouping: Grouping,
        quantities: Sequence[Quantity],
        references: References,
        secret: bytes,
        keys: Sequence[tuple[Key, ...]] | None = None,
        within: None = None,
        cube: TotalsCube | None = None,
    ) -> tuple[Box, ...]:
        """What the engine gives; the rows are read once, for every step is measured as a whole."""
        chosen = None if keys is None else tuple(keys)
        missing = [each for each in quantities if (grouping, chosen, each) not in self._boxes]
        if missing:
            exact = self._engine.aggregate(catalog, grouping, missing, references, secret=secret, keys=keys, cube=cube)
            self._boxes.update({(grouping, chosen, each): box for each, box in zip(missing, exact, strict=True)})
        return tuple(self._boxes[grouping, chosen, each] for each in quantities)

    def box(self, grouping: Grouping, keys: Keys, quantity: Quantity) -> Box:
        """A box that was handed out."""
        return self._boxes[grouping, keys, quantity]

    def forget_chosen(self) -> None:
        """Drop the boxes over keys that noise chose: it chooses others next time."""
        self._boxes = {key: box for key, box in self._boxes.items() if key[1] is None}
