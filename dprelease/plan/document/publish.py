"""How a release is published: its formats, its margins, and the tables that are made of published ones."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal

from dprelease.canonical import GrownValue, Value
from dprelease.estimate import FigureRules
from dprelease.formats import USUAL, FormatName
from dprelease.measures import Measure
from dprelease.measures.comparing.comparison import PREVIOUS
from dprelease.spec.period import preceding

__all__ = ["Derived", "EarlierTable", "KeyFigure", "Publish"]


class KeyFigure(Value):
    """A number that the front page begins with, because the author says so: no rule looks for a large one.

    Attributes:
        table: The name of a published table.
        measure: The name of its number.
        keys: By its key columns the key of the row, as text.
    """

    table: str
    measure: str
    keys: dict[str, str] = {}


class Publish(GrownValue):
    """How the tables are shown.

    Attributes:
        formats: The files that are written.
        confidence: The confidence of margins and intervals.
        unreliable_above: A number is unreliable where its margin is more than this part of it; None: never.
        unreliable_show: Whether it is then shown with a flag, or withheld.
        intervals: ``nearest``: they are about the possible number that is nearest to the value
            (``estimate.intervals``). None: about the value, as in plans from before there was another way.
        quotients: ``tested``: of a mean and a ratio they are all that an exact test of the noise does not refuse
            (``measures.tested.quotients``). ``with_spreads``: so are those of variances and standard deviations
            (``measures.tested.spreads``). None: what the box of both margins allows, as in plans from before.
        layout: By which rules the files of tables are written. 1 is that of plans from before there was another. With
            2 a number that was moved after it was estimated has the estimate beside it, Parquet has the double that
            the text in CSV reads as, JSON-stat gives ranks no errors, and ``csv_formulas`` holds. With 3, which plans
            of many queries have, small steps share files of ``measurements/`` as well, and small tables share pages.
        csv_formulas: Whether keys that a spreadsheet would take for formulas are escaped in CSV; None: where noise
            selected them, which are texts from the data, and not where they are declared.
        figures: How numbers are judged, signed and rounded (``estimate.figures``); None: as in plans from before, by
            ``unreliable_above`` and the margin alone.
        period_column: Whether CSV and Parquet have the period as their first column.
        across: By query the key column whose keys are columns of its table on pages.
        interactive: Whether pages have a script that searches and sorts tables.
        key_figures: What the front page begins with; none: the numbers of tables with one row.
        research: What lies beside the files of ``measurements/``; 1: how to read them, an example, covariances, and
            what was moved. None: nothing, as in plans from before.
    """

    LATER: ClassVar[tuple[str, ...]] = (
        "intervals",
        "quotients",
        "layout",
        "csv_formulas",
        "figures",
        "period_column",
        "across",
        "interactive",
        "key_figures",
        "research",
    )
    formats: tuple[FormatName, ...] = USUAL
    confidence: Fraction = Fraction(95, 100)
    unreliable_above: Fraction | None = None
    unreliable_show: Literal["flag", "blank"] = "flag"
    intervals: Literal["nearest"] | None = None
    quotients: Literal["tested", "with_spreads"] | None = None
    layout: Literal[1, 2, 3] = 1
    csv_formulas: Literal["escape", "keep"] | None = None
    figures: FigureRules | None = None
    period_column: bool = False
    across: dict[str, str] = {}
    interactive: bool = False
    key_figures: tuple[KeyFigure, ...] = ()
    research: Literal[1] | None = None

    def tests(self, measure: Measure) -> bool:
        """Whether intervals of such numbers are told by an exact test, where the laws of the draws allow one."""
        return self.quotients == "with_spreads" or (self.quotients == "tested" and not measure.tested_since_spreads)


class EarlierTable(Value):
    """A published table of an earlier period that SQL reads.

    Attributes:
        query: The table, which this plan has as well.
        period: Of the release that published it: ``previous``, or one by name.
    """

    query: str
    period: str

    def period_in(self, period: str) -> str | None:
        """The period that it is of, by name, in a release of ``period``; None: there is none before that one."""
        return preceding(period) if self.period == PREVIOUS else self.period


class Derived(GrownValue):
    """A further table, made from the published ones by SQL: it costs nothing.

    Attributes:
        name: Its name.
        title: What a reader sees above it.
        sql: What makes it.
        earlier: By the names that the SQL gives them, tables of earlier periods' published bundles.
    """

    LATER: ClassVar[tuple[str, ...]] = ("earlier",)
    name: str
    title: str
    sql: str
    earlier: dict[str, EarlierTable] = {}
