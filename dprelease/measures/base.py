"""What every kind of measure must say."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from dprelease.canonical import GrownValue
from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.chosen_clip import ChosenClip
from dprelease.catalog.table import ColumnType, Table
from dprelease.catalog.weight import RowWeight
from dprelease.errors import BrokenPromiseError
from dprelease.measures.estimates import Estimate, Expected, Noisy, OfAnswers
from dprelease.measures.tested.quotients import NoisyQuotient
from dprelease.measures.text import Flaw, Formula, FormulaTerm, Widest
from dprelease.noise import Law

__all__ = ["Measure", "Possible", "WrittenMeasure"]

Floats = npt.NDArray[np.float64]
Possible = tuple[Fraction | None, Fraction | None]
"""The least and the largest that a true number can be; None: nothing is known on that side."""


class Measure(GrownValue):
    """One published number per cell.

    A measure names the quantities that it needs (each is measured once, by one step, however many measures
    of the query share it) and turns their noisy values into estimates. It never sees an exact value.

    All that depends on the kind of measure is said here, by the class of that kind; no other module asks for the class.
    What has no honest default is abstract, or a class variable without a value: ``measures`` refuses at import a class
    that leaves one of them out. A required field beside that of the kind gives ``examples``: for editors, hints, tests.

    Attributes:
        where: The rows that it looks at, beside the query's own ``where``; None: all. Every quantity that it needs
            looks at these rows alone.
        weighted: Whether rows count as often as they weigh; None: where the table has weights.
        kind: The field by which a spec or a plan asks for it; the field's text is a column, or a word of ``words``.
        plural: The name of such numbers in the plural, as a sentence begins with it.
        method: Sentences of the report on how such numbers are made of noisy measurements.
        held: Whether the estimate is moved into what the clip allows, which draws numbers of small cells inward.
        foreseen: When its margin is known before any draw: ``always``; ``by_size``: from a guess of the rows per cell;
            ``never``: it depends on the data.
        tag: The field by which a plan tells it from other kinds, where that is not ``kind``.
        words: What may be written in the place of a column.
        is_count: Whether it counts, so that it is a whole number where it is made of a single draw.
        direct: Whether a number made of a single draw is that draw as it stands.
        by_weights: Whether its variance is that of its draws, added up by :meth:`weights`; if not, it has its own
            :meth:`error`.
        joined: A sentence on numbers that are made of two draws, by the kind of the first; ``{names}`` stands for
            their names.
        gaussian: Whether its noise must be Gaussian, which needs a delta.
        other_form: When another one of :meth:`alternatives` is taken than the first: ``shared``: where other measures
            need all of its quantities, and sums are put together; ``offered``: where every quantity is measured anyway;
            ``centred``: where the counts of columns are.
        grid_kind: A kind of quantity, by which the column says its grid; None: no values are rounded and clipped.
        widest: The widest clip; None: any.
        weighs: Whether rows can have weights in it.
        has_totals: Whether that of a coarser cell is made of sums of what its cells are made of.
        tested_since_spreads: Whether its exact test is younger than that of quotients, so that some plans are without.
    """

    LATER: ClassVar[tuple[str, ...]] = ("weighted",)
    kind: ClassVar[str]
    plural: ClassVar[str]
    method: ClassVar[tuple[str, ...]]
    held: ClassVar[bool]
    foreseen: ClassVar[Literal["always", "by_size", "never"]]
    tag: ClassVar[str] = ""
    words: ClassVar[tuple[str, ...]] = ()
    is_count: ClassVar[bool] = False
    direct: ClassVar[bool] = False
    by_weights: ClassVar[bool] = True
    joined: ClassVar[Mapping[str, str]] = {}
    gaussian: ClassVar[bool] = False
    other_form: ClassVar[Literal["shared", "offered", "centred"]] = "shared"
    grid_kind: ClassVar[Literal["sum", "quantile"] | None] = None
    widest: ClassVar[Widest | None] = None
    weighs: ClassVar[bool] = False
    has_totals: ClassVar[bool] = False
    tested_since_spreads: ClassVar[bool] = False

    where: str | None = None
    weighted: bool | None = None

    @property
    def target(self) -> str | None:
        """What is measured: a column, or one of ``words``; None: the measure is made of other ones."""
        written = getattr(self, self.kind)
        return written if isinstance(written, str) else None

    @property
    def column(self) -> str | None:
        """The column that is measured, if it is one."""
        return None if self.target in self.words else self.target

    def row_weight(self, table: Table) -> RowWeight | None:
        """What a row of the table weighs in this number; None: every row counts once."""
        return None if table.weight is None or self.weighted is False else table.weight.row

    @property
    def chosen_clip(self) -> ChosenClip | None:
        """How noise shall choose the clip; None: it is written, the range of the column, or there is none."""
        return None

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the measures of the query that it is made of, the one that counts its rows last."""
        return ()

    @property
    def made_of(self) -> tuple[Measure, ...]:
        """The measures whose quantities it takes, one after the other: itself, or those of ``others`` spelled out."""
        return (self,)

    @property
    def counted(self) -> str | None:
        """What it counts one by one: ``rows``, ``units``, or the column whose values it counts; None: it does not."""
        return None

    @property
    def of_answers(self) -> OfAnswers | None:
        """Which randomized answers it estimates from; None: what it reads is true."""
        return None

    @property
    def sampled_as(self) -> Literal["total", "share"] | None:
        """Where rows have weights: whether it is a total of people, or a share of the last one of ``others``."""
        return None

    def of_titles(self, title: Callable[[str], str]) -> Measure:
        """The same, with what a reader sees in the place of the names of the measures that it is made of."""
        return self

    @property
    def whole(self) -> int:
        """What a quotient of 1 is published as: 100 of a percentage."""
        return 1

    @property
    def adds_rows(self) -> bool:
        """Whether more rows of one unit in a cell can move it further, so that a query must bound them."""
        return True

    @property
    def limits(self) -> tuple[Fraction, Fraction] | None:
        """The clip that the author wrote, in units of the column; None: there is none."""
        return None

    @property
    def lacks_clip_per(self) -> bool:
        """Whether it does not say what is clipped, which matters where a unit may have several rows in a cell."""
        return False

    def per(self, table: Table) -> Literal["row", "unit_cell"]:
        """What is one value: a row's, or the sum of a unit's rows in the cell."""
        return "row"

    def flaws(self, types: Mapping[str, ColumnType]) -> Iterator[Flaw]:
        """What is wrong with it by itself, for the author; a clip and a column are checked for every kind alike.

        Args:
            types: The type of each column of the table that is known, by name.
        """
        yield from ()

    def warnings(self) -> Iterator[Flaw]:
        """What the author should know of it before the budget is spent."""
        yield from ()

    def settled(self, table: Table) -> Measure:
        """The same with what follows from its conditions and its column, for a plan.

        Args:
            table: The table of the query.
        """
        return self

    def drawn_as_counts(self, counted: bool) -> Measure:
        """Of quantiles that do not say what is drawn: the same from counts, where that is better; else itself.

        Args:
            counted: Whether the number of values is asked for beside it, so that an interval is wanted.
        """
        return self

    def published(self, name: str) -> tuple[str, ...]:
        """The names of the numbers of :meth:`planned`, whatever the other measures are."""
        return (name,)

    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """One measure for every published number that this one asks for, by its published name.

        Args:
            name: The measure's name in the spec.
            others: All measures of the query as the author wrote them.
        """
        return {name: self}

    @property
    def broken(self) -> str:
        """Why no plan can hold it, though every field is of its type; empty where nothing is wrong."""
        return ""

    @property
    def claim(self) -> tuple[str | None, str | None] | None:
        """A condition and a column that has a value wherever the condition is true, if it relies on such a pair."""
        return None

    @abstractmethod
    def described(self, table: Table, unit: str) -> str:
        """The number in words, without its condition: for the report and the data dictionary.

        Args:
            table: The table of the query.
            unit: The name of the unit of privacy, such as ``person``.
        """

    @abstractmethod
    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """What must be measured, in the order that :meth:`estimate` takes it."""

    def alternatives(self, table: Table) -> tuple[tuple[Quantity, ...], ...]:
        """Every form in which the measure can be answered, :meth:`quantities` first.

        :meth:`estimate`, :meth:`expected`, :meth:`weights` and :meth:`formula` take the quantities of any one of them.
        Another form pays where its quantities are measured anyway, or serve several measures; that is for the planner
        to weigh, by ``other_form``.
        """
        return (self.quantities(table),)

    @abstractmethod
    def size(self, first: Quantity) -> int:
        """How many quantities the one of :meth:`alternatives` has that begins with this one."""

    def own(self, quantity: Quantity) -> bool:
        """Whether a quantity that it needs serves this number itself, and not only its place among others."""
        return True

    def possible(self, table: Table) -> Possible:
        """What the number can be that its margin is about, in units of the measure; see :meth:`bounds`."""
        return self.bounds(self.quantities(table))

    def parts_of_whole(self, table: Table) -> tuple[Quantity, Quantity] | None:
        """Of a share what is counted above and the rest of what is counted below, where both can be told so."""
        return None

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """The same, from one of :meth:`alternatives`.

        It is a promise for every data set, after bounds, rounding and clipping; where the number is not defined at all
        (a mean of no values) nothing is promised of it, as nothing is by its margin. Nothing unless a kind says more.
        """
        return (None, None)

    def grid(self, quantities: Sequence[Quantity]) -> Fraction | None:
        """The step of which every estimate is a multiple, in units of the measure; None: there is none."""
        return None

    def least_above_zero(self, quantities: Sequence[Quantity]) -> Fraction | None:
        """The least that the true number can be where it is not 0; None: nothing is known."""
        return None

    @abstractmethod
    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """How much of each quantity's noise variance reaches the variance of the number, to first order.

        Args:
            quantities: One of :meth:`alternatives`.
            count: The author's guess of rows per cell; None stands for 1, which leaves the proportions as they are.

        Returns:
            For each quantity a weight in squared units of the measure per squared grid step, at the worst cell.
        """

    def error(self, quantities: Sequence[Quantity], variances: Sequence[float], count: int | None) -> float:
        """The standard error of :meth:`expected` by the variances of the draws alone, by which plans are compared.

        It is in proportion to the noise. So without a guess of rows it is that of one row, and of a number whose
        standard error goes by a root of the noise it is to first order what feeds that.

        Args:
            quantities: One of :meth:`alternatives`.
            variances: For each quantity that of its noise, in squared grid steps.
            count: The author's guess of rows per cell.
        """
        weights = self.weights(quantities, count)
        return math.sqrt(math.fsum(weight * each for weight, each in zip(weights, variances, strict=True)))

    @abstractmethod
    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """Values with standard errors and margins, from the noisy quantities."""

    def estimate_tested(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The same; of a quotient with the interval that an exact test of the noise gives (``tested.quotients``)."""
        return self.estimate(noisy, confidence)

    def as_quotient(self, noisy: Sequence[Noisy]) -> NoisyQuotient | None:
        """Which two numbers, linear in their draws, it is the quotient of; None: of none."""
        return None

    def test_pays(self, laws: Sequence[Law], count: int | None, confidence: Fraction) -> bool:
        """Whether :meth:`estimate_tested` is taken, from what is public before any draw.

        Args:
            laws: Of what it is made of.
            count: The author's guess of rows per cell.
            confidence: Of the interval.
        """
        return True

    @abstractmethod
    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """The value of :meth:`estimate` as a formula that a stranger can work out, from the quantities of one form."""

    @abstractmethod
    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """Accuracy by the noise law alone; ``count`` is the author's public guess of rows per cell."""

    def expected_tested(
        self,
        quantities: Sequence[Quantity],
        laws: Sequence[Law],
        confidence: Fraction,
        count: int | None,
        drawn: Sequence[str] = (),
    ) -> Expected:
        """The same for the intervals of :meth:`estimate_tested`; ``drawn`` is the step of each law, if it is known."""
        return self.expected(quantities, laws, confidence, count)

    def coefficients(self, quantities: Sequence[Quantity]) -> tuple[Fraction, ...] | None:
        """How often each quantity is in the number, in units of the measure; None: it is not linear in them."""
        return None


class WrittenMeasure(Measure):
    """What an author writes and other measures stand for in a plan: it needs, draws and estimates nothing itself.

    Attributes:
        stands: The classes of the measures that can stand for it.
    """

    plural: ClassVar[str] = ""
    method: ClassVar[tuple[str, ...]] = ()
    held: ClassVar[bool] = False
    stands: ClassVar[tuple[type[Measure], ...]]

    @abstractmethod
    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """The measures that stand for it."""

    def _unplanned(self, *_: Any, **__: Any) -> NoReturn:
        name = type(self).__name__
        raise BrokenPromiseError(
            f"{name} was not planned", hint="call `measures.expand_measures` on what the author wrote"
        )

    described: ClassVar[Any] = _unplanned
    quantities: ClassVar[Any] = _unplanned
    size: ClassVar[Any] = _unplanned
    weights: ClassVar[Any] = _unplanned
    estimate: ClassVar[Any] = _unplanned
    formula: ClassVar[Any] = _unplanned
    expected: ClassVar[Any] = _unplanned
