"""The local loss of a plan by the probabilities of every answer, and what of the plan reads randomized answers.

For each question the probabilities of all answers are written out for two truths: of k answers as whole parts of the
sum of the weights, of bits as products over the two bits in which two truths differ (all others have the same law, and
cancel). The loss is the logarithm of the largest quotient, over the outcomes and both orders of the truths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.expression import parse
from dprelease.catalog.table import Binned, Column, Computed, Mapped, Table
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.reach import require

__all__ = ["check_local"]

_TOLERANCE = 1e-12


def check_local(plan: ReleasePlan) -> float:
    """The loss towards the collector, which must not be told smaller; and estimates alone read randomized answers.

    Returns:
        The sum over all questions, of one unit; 0 where no answers were randomized.

    Raises:
        BrokenPromiseError: If not.
    """
    told = {} if plan.local is None else {(each.table, each.question): each for each in plan.local.questions}
    collected = {
        (table.name, _question(column)): column
        for table in plan.catalog.tables.values()
        for column in table.columns
        if column.collected is not None
    }
    require(set(told) == set(collected), "it tells the local loss of other questions than there are")
    whole = 0.0
    for (table, question), column in collected.items():
        each, name = told[table, question], f"{question} of {table}"
        law, bits = column.collected, _bits(plan.catalog.tables[table], question)
        assert law is not None  # noqa: S101 - chosen by it
        choices = len(bits) or len(column.keys or ())
        require(each.columns == (bits or (column.name,)), f"{name} is told of other columns")
        facts = (each.weights, each.choices, each.answers)
        require(facts == (law.weights, choices, law.answers), f"{name} is told by another law")
        require(choices > 1, f"{name} has a single answer")
        loss = law.answers * _loss(law.weights, 0 if bits else choices)
        require(float(each.epsilon) >= loss * (1 - _TOLERANCE), f"{name} loses more to its collector than is told")
        whole += loss
    stated = 0.0 if plan.local is None else float(plan.local.epsilon)
    require(stated >= whole * (1 - _TOLERANCE), "the local losses add up to more than is told")
    _check_readers(plan)
    return whole


def _question(column: Column) -> str:
    law = column.collected
    return column.name if law is None or law.unary is None else law.unary.question


def _bits(table: Table, question: str) -> tuple[str, ...]:
    """The columns that hold the bits of a question, of which each says the same law; none of whole answers."""
    found = [each for each in table.columns if each.collected is not None and _question(each) == question]
    bits = [each for each in found if each.collected is not None and each.collected.unary is not None]
    laws = {(each.collected.weights, each.collected.answers) for each in found if each.collected is not None}
    answers = {each.collected.unary.answer for each in bits if each.collected is not None and each.collected.unary}
    alone = len(found) == 1 and not bits
    require(alone or (len(laws) == 1 and len(answers) == len(found)), f"{question} has bits that do not fit")
    return tuple(each.name for each in bits)


def _loss(weights: tuple[int, int], answers: int) -> float:
    """The logarithm of the largest quotient of the probabilities of one outcome under two truths.

    Args:
        weights: Of the true answer and of every other one.
        answers: How many there are; 0: the outcome is a bit for each.
    """
    right, wrong = weights
    if answers:
        first, second = (_given(at, right, wrong, answers) for at in (0, 1))
    else:
        own, other = Fraction(1, 2), Fraction(wrong, right + wrong)
        first = [own * other, own * (1 - other), (1 - own) * other, (1 - own) * (1 - other)]  # 11, 10, 01, 00
        second = [first[0], first[2], first[1], first[3]]  # the other way round
    largest = max(max(one / other, other / one) for one, other in zip(first, second, strict=True))
    return math.log(largest)


def _given(true: int, right: int, wrong: int, answers: int) -> list[Fraction]:
    """The probability of each answer, where this one is true."""
    whole = right + (answers - 1) * wrong
    return [Fraction(right if at == true else wrong, whole) for at in range(answers)]


def _check_readers(plan: ReleasePlan) -> None:
    """Estimates are of the law that the column declares; no cell, filter or other number looks at its answers."""
    collected = {
        name: {each.name for each in table.columns if each.collected is not None}
        for name, table in plan.catalog.tables.items()
    }
    for name, table in plan.catalog.tables.items():
        for place, named in _read_by_table(table):
            require(not set(named) & collected[name], f"{name} takes randomized answers for true ones in {place}")
        for join in table.private_joins:
            require(not set(join.add) & collected[join.table], f"{name} borrows randomized answers")
    for workload in plan.workloads:
        read = {*workload.attributes, *workload.levels}
        require(not read & collected[workload.table], f"{workload.name} takes randomized answers for true ones")
    for each in plan.measured:
        own, table = collected[each.aggregate.table], plan.catalog.tables[each.aggregate.table]
        if own:  # else there is nothing that it could read
            read = {*each.aggregate.by, *each.aggregate.complete, *_looked_at(each.aggregate.where, table)}
            require(not read & own, f"{each.id} takes randomized answers for true ones")
    for query in plan.queries:
        own, table = collected[query.table], plan.catalog.tables[query.table]
        for label, measure in query.measures.items():
            name, asked = f"{query.name}.{label}", measure.of_answers
            may = set() if asked is None else {asked.column}
            if asked is not None:
                column = table.column(asked.column)
                same = column.collected is not None and column.collected == asked.response
                require(same, f"{name} estimates by another law than its column's")
                keys = [str(key) for key in column.keys or ()]
                require(keys.count(asked.key) == 1, f"{name} estimates an answer that is none")
                require(not set(_looked_at(measure.where, table)) & own, f"{name} filters by randomized answers")
            for feed in query.inputs.get(label, ()) if own else ():
                read = set(_read(plan.taken(feed.step).parts[feed.part], table))
                require(not (read & own) - may, f"{name} takes randomized answers for true ones")


def _read_by_table(table: Table) -> Iterator[tuple[str, tuple[str, ...]]]:
    for column in table.columns:
        made = column.derivation
        if isinstance(made, Computed):
            yield column.name, _looked_at(made.sql, table)
        elif isinstance(made, Binned | Mapped):
            yield column.name, (made.of,)
        law = column.collected
        require(law is None or column.in_source, f"{column.name} was collected, and is not in the source")
    if table.unit_id is not None:
        yield "its unit id", (table.unit_id,)
    if table.weight is not None:
        yield "its weights", (table.weight.column,)
    if table.time is not None:
        yield "its time", (table.time.column,)
    if table.bounds is not None:
        yield "its order", table.bounds.order_by
    for join in table.joins:
        yield "a join", (join.on,)


def _read(quantity: Quantity, table: Table) -> tuple[str, ...]:
    return (*quantity.columns, *_looked_at(quantity.where, table))


def _looked_at(text: str | None, table: Table) -> tuple[str, ...]:
    return () if text is None else tuple(parse(text, table.types).columns)
