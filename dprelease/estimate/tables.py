"""From the noisy quantities of one query to its published table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Column, Key
from dprelease.estimate.figures import FigureRules, ShowRules
from dprelease.estimate.intervals import interval, outward_ends, was_cut
from dprelease.estimate.keys import Coded, Rows, as_rows, coded, crossed
from dprelease.measures import Estimate, Measure, Noisy, Possible
from dprelease.measures.comparing.comparison import ComparedNumber

__all__ = [
    "RANK",
    "PublishedMeasure",
    "PublishedTable",
    "Status",
    "estimate",
    "full_product",
    "ranking_table",
    "statuses",
]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Status = Literal["ok", "caution", "unreliable", "blank", "not_distinguishable"]
RANK = "rank"
_STATUSES: tuple[Status, ...] = ("ok", "unreliable", "blank", "caution", "not_distinguishable")


@dataclass(frozen=True, eq=False)
class PublishedMeasure:
    """One measure of a published table, one number per cell.

    Attributes:
        name: Its name in the spec.
        measure: What it is; None of a number that SQL made of published ones.
        value: Shape ``(cells,)``, read-only, of any strides; NaN where nothing is published.
        standard_error: The standard error of the same shape; NaN with the value, and of a quantile, which has none.
        margin: The margin of the same shape; NaN with the value, and where nothing is known of it. Half the width of
            the interval at the table's confidence, or where ``tested`` the distance of its farther end.
        lower: Estimate less margin, but no less than the true number can be; NaN where the margin is. It is cut where
            the possible numbers end, never moved, so that the value can lie outside (a negative count).
        upper: Estimate and margin, but no more than the true number can be; NaN where the margin is.
        status: ``ok``; ``caution`` and ``unreliable``: the interval, or in older plans the margin, is larger than the
            release allows beside its value (with ``show: blank`` unreliable numbers are withheld, and the status says
            why); ``blank``: no estimate can be made from the noisy numbers, or the row is suppressed;
            ``not_distinguishable``: of a change or a difference, that noise alone may have made it. Whatever is given
            becomes a ``Coded`` column.
        places: Decimals in which value and margin are exact (0 for a count, 1 for a count that is half the sum of
            two draws); None where there is no grid.
        integer: Whether value and margin are whole numbers by their kind.
        unadjusted: Of a number that was moved after it was estimated (made non-negative or whole, or made of such
            ones): the estimate before, of the same shape, NaN with the value. Standard error and margin are then about
            this one, and so is the interval unless ``held``. None: nothing was moved.
        tested: Whether the interval is a set of its own about the value, and not value -/+ margin: the margin is then
            the distance of the farther end.
        sampling_error: The standard error of a weighted number because it is of a sample, by a public model; NaN with
            the value. None: no model says it.
        total_margin: The margin of noise and sampling together, where there is such an error.
        held: Whether it is shown by the rules of ``FigureRules``: the interval of a number that was moved holds it
            too, no margin is published beside it, and pages show no number outside of its interval.
        base: Value, margin and ends were rounded to multiples of this after the noise; None: they were not.
        low: Where a number was rounded to 0 and its interval before did not hold 0; None: nothing was rounded.
        p_value: Of a change or a difference an upper bound of the probability that noise alone is as far from 0, of the
            same shape; None: it is none, or no law says it.
        compared: What it compares, where it is made of published numbers by their laws.
        never: Of such: the rows in which there is no such number, whatever was measured.
        title: What a reader of a page sees in the place of its name.
    """

    name: str
    measure: Measure | None
    value: Floats
    standard_error: Floats
    margin: Floats
    lower: Floats
    upper: Floats
    status: Sequence[Status]
    places: int | None
    integer: bool
    unadjusted: Floats | None = None
    tested: bool = False
    sampling_error: Floats | None = None
    total_margin: Floats | None = None
    held: bool = False
    base: Fraction | None = None
    low: Flags | None = None
    p_value: Floats | None = None
    compared: ComparedNumber | None = None
    never: Flags | None = None
    title: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", coded(self.status))

    @property
    def shown(self) -> str:
        """What a reader sees: its title, or its name."""
        return self.title or self.name

    @property
    def unit(self) -> str:
        """``percent`` of a percentage, with its errors and its interval; empty: nothing is said here."""
        if self.compared is not None:
            return self.compared.show or ""
        return "percent" if self.measure is not None and self.measure.whole == 100 else ""

    @property
    def estimate(self) -> Floats:
        """What margin and interval are about: the value, or what it was before it was moved."""
        return self.value if self.unadjusted is None else self.unadjusted

    @property
    def cut(self) -> Flags:
        """In which cells the interval is shorter than estimate -/+ margin, because the rest of it is not possible."""
        return was_cut(self.estimate, self.margin, self.lower, self.upper)

    @property
    def lows(self) -> Flags:
        """``low`` of every row; nowhere where nothing was rounded."""
        return _nowhere(len(self.value)) if self.low is None else self.low

    @property
    def impossible(self) -> Flags:
        """``never`` of every row; nowhere in a number that compares nothing."""
        return _nowhere(len(self.value)) if self.never is None else self.never

    def first(self, rows: int) -> PublishedMeasure:
        """The same of the first rows."""
        return replace(self, **{name: each[:rows] for name, each in vars(self).items() if _is_column(each)})


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """One query as published.

    Attributes:
        name: The query's name.
        title: Its title.
        key_columns: In published order.
        keys: For each key column its value in every row; whatever is given becomes a ``Coded`` column, which holds
            ten million rows without a Python object for each.
        measures: In the order of the spec.
        confidence: The confidence of the margins.
        cells: The number of rows.
        suppressed: How many rows are blank because a noisy number of theirs was below a limit.
        derived: The SQL that made it of published tables; empty where noise did.
        period: That its files have in a column of its own; empty: they have none.
    """

    name: str
    title: str
    key_columns: tuple[Column, ...]
    keys: tuple[Sequence[Key], ...]
    measures: tuple[PublishedMeasure, ...]
    confidence: Fraction
    cells: int
    suppressed: int = 0
    derived: str = ""
    period: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(map(coded, self.keys)))

    def first(self, rows: int) -> PublishedTable:
        """The table cut to its first rows; itself where it has no more."""
        if self.cells <= rows:
            return self
        keys, measures = (each[:rows] for each in self.keys), (each.first(rows) for each in self.measures)
        return replace(self, keys=tuple(keys), measures=tuple(measures), cells=rows, suppressed=0)


def _is_column(value: object) -> bool:
    return isinstance(value, np.ndarray | Coded)


def full_product(key_columns: Sequence[Column]) -> Rows:
    """Every combination of the public keys, row-major: the last column runs fastest; one empty row without columns."""
    return crossed([column.keys or () for column in key_columns])


def statuses(
    blank: Flags, unreliable: Flags, caution: Flags | None = None, alike: Flags | None = None
) -> Coded[Status]:
    """The status of every cell; ``blank`` goes before ``unreliable``, and that before ``caution``.

    Args:
        blank: Where there is no number.
        unreliable: Where one is.
        caution: Where care is needed.
        alike: Of changes and differences: where noise alone may have made them.
    """
    weak = unreliable.astype(np.uint8)
    if caution is not None:
        weak = np.where(caution & ~unreliable, np.uint8(3), weak)
    if alike is not None:
        weak = np.where(alike, np.uint8(4), weak)
    return Coded(_STATUSES, np.where(blank, np.uint8(2), weak))


def estimate(
    name: str,
    title: str,
    key_columns: Sequence[Column],
    measures: Mapping[str, Measure],
    inputs: Mapping[str, Sequence[Noisy]],
    *,
    confidence: Fraction,
    rows: Sequence[tuple[Key, ...]] | None = None,
    suppress_below: tuple[str, Fraction] | None = None,
    unreliable_above: Fraction | None = None,
    unreliable_show: Literal["flag", "blank"] = "flag",
    nearest: bool = False,
    tested: Collection[str] = (),
    possible: Mapping[str, Possible] = MappingProxyType({}),
    figures: FigureRules | None = None,
) -> PublishedTable:
    """The published table of a query.

    Args:
        name: The query's name.
        title: Its title.
        key_columns: The columns of its ``by``; none means one cell.
        measures: By name, in published order.
        inputs: For each measure its noisy quantities, in the order that its ``estimate`` takes them; every
            array has one value per row.
        confidence: The confidence of the margins, between 0 and 1.
        rows: The keys of each row, in order, where they are not the full cross product: keys that a noisy selection
            chose, maybe none, or all but those that are left out.
        suppress_below: A measure, and the number below which a row is withheld: all of its numbers are then blank.
            It is the noisy number that decides, so that this reveals nothing more.
        unreliable_above: A cell is unreliable where margin > this x |value|, or by ``figures`` half its interval;
            None: never.
        unreliable_show: ``flag`` keeps the numbers of an unreliable cell, ``blank`` withholds them.
        nearest: Whether intervals are about the nearest possible number (``intervals.interval``).
        tested: The measures whose interval is the set that an exact test of the noise gives (``measures.tested``).
        possible: By measure, what its true numbers can be; left out: what its own quantities say (``Measure.within``).
        figures: The rules by which numbers are judged; None: those of plans from before there were others.

    Returns:
        The table; its rows depend on the keys alone.
    """
    held = full_product(key_columns) if rows is None else as_rows(rows, len(key_columns))
    found = {
        label: (measure.estimate_tested if label in tested else measure.estimate)(inputs[label], confidence)
        for label, measure in measures.items()
    }
    gone = np.zeros(len(held), dtype=bool)
    if suppress_below is not None:
        label, limit = suppress_below
        gone = ~(found[label].value >= float(limit))  # what cannot be said to reach the limit goes as well
    rules = ShowRules(unreliable_above, unreliable_show, nearest, figures)
    return PublishedTable(
        name=name,
        title=title,
        key_columns=tuple(key_columns),
        keys=held.columns,
        measures=tuple(
            _published(label, measure, found[label], inputs[label], gone, rules, possible)
            for label, measure in measures.items()
        ),
        confidence=confidence,
        cells=len(held),
        suppressed=int(gone.sum()),
    )


def ranking_table(
    name: str, title: str, column: Column, positions: Sequence[int], *, confidence: Fraction
) -> PublishedTable:
    """The published table of the most frequent keys: their ranks, from 1, and the keys; it has no numbers.

    Args:
        name: The query's name.
        title: Its title.
        column: Whose keys are ranked.
        positions: The positions of the keys, the first rank first.
        confidence: The confidence of the release's margins.
    """
    keys = column.keys or ()
    return PublishedTable(
        name=name,
        title=title,
        key_columns=(Column(name=RANK, type="integer"), column),
        keys=(range(1, len(positions) + 1), Coded(keys, np.array(positions, dtype=np.int32))),
        measures=(),
        confidence=confidence,
        cells=len(positions),
    )


def _published(
    name: str,
    measure: Measure,
    found: Estimate,
    noisy: Sequence[Noisy],
    gone: Flags,
    rules: ShowRules,
    possible: Mapping[str, Possible],
) -> PublishedMeasure:
    blank = np.isnan(found.value) | gone
    quantities = [part.quantity for part in noisy]
    grid = measure.grid(quantities) if all(part.values.dtype.kind == "i" for part in noisy) else None
    bounds = possible[name] if name in possible else measure.bounds(quantities)
    if found.ends is None:
        ends = interval(found.value, found.margin, bounds, grid=grid, nearest=rules.nearest)
    else:
        ends = outward_ends(*found.ends, bounds)
    # A percentage is judged as the share that it is.
    share, off, low, high = (each / measure.whole for each in (found.value, found.margin, *ends))
    least, most = (None if end is None else end / measure.whole for end in bounds)
    caution, unreliable, hidden = rules.judged(share, off, low, high, (least, most), blank, counts=measure.is_count)
    lower, upper = (_without(each, hidden) for each in ends)
    return PublishedMeasure(
        name=name,
        measure=measure,
        value=_without(found.value, hidden),
        standard_error=_without(found.standard_error, hidden),
        margin=_without(found.margin, hidden),
        lower=lower,
        upper=upper,
        status=statuses(blank, unreliable, caution),
        places=_places(grid),
        integer=measure.is_count and grid == 1,
        tested=found.ends is not None,
        held=rules.figures is not None,
    )


def _nowhere(rows: int) -> Flags:
    """False for every row, of one byte: as ``np.broadcast_to`` makes it, in a tenth of the time."""
    return np.ndarray((rows,), np.bool_, b"\0", strides=(0,))


def _without(numbers: Floats, hidden: Flags) -> Floats:
    shown = np.where(hidden, np.nan, numbers) + 0.0  # + 0.0: no negative zero
    shown.flags.writeable = False
    return shown


def _places(grid: Fraction | None) -> int | None:
    """The decimals of a grid; None where there is none, or a decimal cannot write its step."""
    if grid is None:
        return None
    return next((places for places in range(19) if (grid * 10**places).denominator == 1), None)
