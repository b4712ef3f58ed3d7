"""A table of counts that is published exactly: measured once like a step, hidden by nothing, no part of the loss."""

from __future__ import annotations

from fractions import Fraction

from pydantic import Field

from dprelease.canonical import Value
from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity
from dprelease.noise.unprotected import NoNoise
from dprelease.plan.document.step import Answer, Step

__all__ = ["Invariant", "Measured"]


class Invariant(Value):
    """A count of rows in public cells that is published as it is.

    It is no step of the plan: it has no mechanism, no sensitivity, no share and no event, so that no accountant can
    take it for something private. What the plan proves is proved of its steps alone. Exact counts beside them are
    differentially private for no epsilon: under ``add_remove`` one row more moves a total by 1 in every outcome. Two
    data sets with equal invariants still are told apart by the steps alone, at the loss of as many changes of the
    relation as lead from one to the other.

    What measures it asks the same of it as of a step; the rest of its attributes say that there is nothing.

    Attributes:
        id: Unique among steps and invariants.
        query: The published table that it is.
        measure: Its only number.
        aggregate: What the engine computes.
        cells: The number of cells.
        why: Which law or agreement asks for it, as the author wrote it.
    """

    id: str
    query: str
    measure: str
    aggregate: BoundedAggregate
    cells: int = Field(ge=1)
    why: str = Field(min_length=1)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The one measure that it is."""
        return (Answer(query=self.query, measure=self.measure),)

    @property
    def parts(self) -> tuple[Quantity, ...]:
        """Its one quantity."""
        return (self.aggregate.quantity,)

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """Its own cells."""
        return (self.aggregate.grouping,)

    @property
    def numbers(self) -> int:
        """How many numbers a measurement of it holds."""
        return self.cells

    @property
    def law(self) -> NoNoise:
        """The law of its noise, which is always zero."""
        return NoNoise()

    @property
    def scale(self) -> Fraction:
        """0."""
        return Fraction(0)


Measured = Step | Invariant
"""What a plan measures, each once."""
