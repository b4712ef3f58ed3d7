"""Measures can be answered in several forms (a sum by itself, or from what a mean needs anyway): which one is taken.

A :class:`Form` says which to take; ``candidates`` tries them and the best plan wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.measures import Measure
from dprelease.plan.lower.unscaled import CountBall

__all__ = ["Asked", "Form", "Group", "Place", "WorkloadNoise", "forms_taken", "in_even_parts"]

Place = tuple[int, int]
"""A quantity of a group: their places in ``Lowering.groups`` and in ``Lowering.quantities``."""

WorkloadNoise = Literal["gaussian", "laplace", "knorm"]


@dataclass(frozen=True)
class Form:
    """Which form of the measures to take.

    Attributes:
        joint_sums: A sum comes from the centred sum and the count, where a mean or variance measures both.
        centred_counts: Counts come from "how many more of the rows count than do not", and all rows: the correlated
            Gaussian mechanism of Lebeda 2024 (arXiv 2408.06853) as integer queries.
        knorm: The counts of the same cells are hidden together by one K-norm draw, those of several queries too.
        residuals: That draw is one of a total with residuals, where there are so many counts that it has less noise.
        random_scale: That draw is Gaussian noise of one secret scale, where there are so many counts that it can be
            less.
        parts: The whole of a share is the sum of its part and of the rest, which are drawn together: a row is in one.
        apart: Counts that no row is in together are drawn together, as those of finer cells.
        pure: Workloads draw tables behind discrete Laplace noise, and not residuals behind Gaussian noise; with
            ``knorm`` all tables behind one K-norm draw, where one can hide them.
    """

    joint_sums: bool = False
    centred_counts: bool = False
    knorm: bool = False
    residuals: bool = False
    random_scale: bool = False
    pure: bool = False
    parts: bool = False
    apart: bool = False

    @property
    def of_workloads(self) -> WorkloadNoise:
        """Which noise workloads have that can have any."""
        return "gaussian" if not self.pure else "knorm" if self.knorm else "laplace"

    @property
    def ball(self) -> CountBall:
        """What a joint draw of counts shall be, where these are enough."""
        return "sphere" if self.random_scale else "total" if self.residuals else "count"


@dataclass(frozen=True)
class Asked:
    """One measure of one query, with every form of it.

    Attributes:
        query: The query's place in the spec.
        name: The query.
        label: The measure.
        measure: What it is.
        forms: Its quantities in every form.
        count: The author's guess of rows per cell.
        parted: Of the whole of a share the rest, and the part that is drawn with it.
    """

    query: int
    name: str
    label: str
    measure: Measure
    forms: tuple[tuple[Place, ...], ...]
    count: int | None
    parted: tuple[Place, Place] | None = None


@dataclass(frozen=True)
class Group:
    """The measures over the same cells that may share steps: one grouping, one domain.

    A pinned query is a domain of its own, for its price is that of its own steps; all others are one.

    Attributes:
        domain: The domain.
        grouping: The rows, and the cells that they fall into.
        members: The measures; none where the group is only of a total that other groups share.
        cells: Domain and cells, equal for groups whose counts can be drawn together whatever rows they look at.
        counts: How many different counts the groups of these cells have.
        apart: Counts that no row is in together, the first of each set with the others.
    """

    domain: str
    grouping: Grouping
    members: tuple[Asked, ...]
    cells: tuple[str, Grouping]
    counts: int
    apart: tuple[tuple[Place, ...], ...] = ()


def forms_taken(group: Group, form: Form, quantities: Sequence[Quantity]) -> list[tuple[Place, ...]]:
    """The form of each member: the plain one, unless another is asked for and pays.

    A sum comes from other quantities where these are measured anyway. A quantile takes the count that its margin needs
    wherever that count is drawn for somebody. Counts are centred where the cells have several of them; one that a mean
    or variance needs anyway stays as it is. A ratio takes the forms that its two measures took, so that it draws
    nothing of its own.
    """
    plainly = Counter(place for asked in group.members for place in asked.forms[0])
    drawn = {  # by measures that are drawn themselves: of one that is a rest there is no plain count
        place
        for asked in group.members
        if not asked.measure.others
        for place in (asked.parted if form.parts and asked.parted else asked.forms[0])
    }
    needed = {
        (quantities[quantity].column, quantities[quantity].where)
        for asked in group.members
        if asked.measure.other_form != "centred" and not asked.measure.others
        for _, quantity in asked.forms[-1 if asked.measure.other_form == "offered" else 0]
        if quantities[quantity].kind == "nonnull"
    }
    centred = form.centred_counts and group.counts > 1
    found = []
    for asked in group.members:
        own, chosen = Counter(asked.forms[0]), asked.forms[0]
        for other in asked.forms[1:]:
            if asked.measure.other_form == "centred":
                first = quantities[asked.forms[0][0][1]]
                better = centred and (first.column, first.where) not in needed
            elif asked.measure.other_form == "offered":
                better = drawn.issuperset(other)
            else:
                better = form.joint_sums and all(plainly[place] > own[place] for place in other)
            chosen = other if better else chosen
        found.append(asked.parted if form.parts and asked.parted else chosen)
    taken = {(asked.query, asked.label): form for asked, form in zip(group.members, found, strict=True)}
    return [
        tuple(chain.from_iterable(taken[asked.query, label] for label in asked.measure.others)) or form
        for asked, form in zip(group.members, found, strict=True)
    ]


def in_even_parts(keys: list[tuple[int, int]], most: int) -> Iterator[list[tuple[int, int]]]:
    """As few parts as can be, whose lengths differ by one at most."""
    number = -(-len(keys) // most)
    ends = [len(keys) * part // number for part in range(number + 1)]
    yield from (keys[start:end] for start, end in pairwise(ends))
