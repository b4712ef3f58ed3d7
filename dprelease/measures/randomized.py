"""``{randomized: COLUMN, key: KEY}``: how many truly have a key, from answers that respondents randomized.

What is drawn are two counts: C, the answers that are the key, and N, all answers. With p and q the probabilities that
an answer is the key where it is true and where it is not (``privacy.randomized``), (C - q N) / (p - q) is unbiased. Its
error has two parts, the coins of the respondents and the noise of the release; both are in what is published.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, WithJsonSchema

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.expression import both_hold, parse
from dprelease.catalog.table import Key, Table
from dprelease.errors import BrokenPromiseError
from dprelease.measures.base import Floats, Measure, Possible, WrittenMeasure
from dprelease.measures.estimates import Estimate, Expected, Noisy, OfAnswers
from dprelease.measures.text import Formula, FormulaTerm, operand
from dprelease.noise import Law
from dprelease.privacy.randomized import RandomizedResponse
from dprelease.words import marked, phrase

__all__ = ["PlannedRandomized", "Randomized", "answer_is", "answer_is_any"]

_OF_NOISE = 5  # the part of the error probability that the two draws get is one in so many


class PlannedRandomized(Measure):
    """An estimate from randomized answers; its quantities are those that are the key, and all of them.

    Attributes:
        randomized: The column.
        key: One of its keys, as text.
        show: ``share``: of all answers; None: the number of units.
        response: By which law they were randomized; from the column.
    """

    kind: ClassVar[str] = "randomized"
    tag: ClassVar[str] = "response"
    plural: ClassVar[str] = marked("Estimates from randomized answers")
    method: ClassVar[tuple[str, ...]] = (
        marked(
            "An estimate from randomized answers is the noisy number of answers that are the key, less what chance "
            "alone makes of all answers, over how much likelier the true answer is than another one. Its error and its "
            "interval are of the coins of the respondents and of the noise together."
        ),
    )
    held: ClassVar[bool] = False
    foreseen: ClassVar[Literal["by_size"]] = "by_size"
    randomized: str
    key: str
    show: Literal["share"] | None = None
    response: RandomizedResponse | None = None

    @property
    def of_answers(self) -> OfAnswers:
        """Its column, its key, and the law."""
        return OfAnswers(self.randomized, self.key, self.response)

    def settled(self, table: Table) -> PlannedRandomized:
        """With the law of the column's answers."""
        return self.model_copy(update={"response": table.column(self.randomized).collected})

    @property
    def broken(self) -> str:
        """No law of answers."""
        return "" if self.response is not None else f"{self.randomized} has no law of its answers"

    @property
    def law(self) -> RandomizedResponse:
        """By which the answers were randomized."""
        if self.response is None:
            raise BrokenPromiseError(f"the answers of {self.randomized} have no law", hint="settle the measure first")
        return self.response

    def described(self, table: Table, unit: str) -> str:
        """Whose true answer it is, and how likely that was given."""
        words = {
            "column": table.column(self.randomized).shown,
            "key": self.key,
            "kept": str(self.law.kept),
            "other": str(self.law.other),
        }
        if self.show == "share":
            return phrase(
                "estimated share of answers to {column} that truly are {key}; each was randomized before it was "
                "collected, and is told so with probability {kept} where it is true and {other} where it is not",
                **words,
            )
        return phrase(
            "estimated number of answers to {column} that truly are {key}; each was randomized before it was "
            "collected, and is told so with probability {kept} where it is true and {other} where it is not",
            **words,
        )

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """Two: the answers that are the key, and all that are any key."""
        keys = table.column(self.randomized).keys or ()
        (key,) = (each for each in keys if str(each) == self.key)
        mine, every = answer_is(self.randomized, key), answer_is_any(self.randomized, keys)
        return tuple(
            Quantity(kind="rows", where=both_hold(self.where, parse(each, table.types).text, table.types))
            for each in (mine, every)
        )

    def size(self, first: Quantity) -> int:
        """Always two."""
        return 2

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """A number of people is at least 0, a share of them in [0, 1]."""
        return (Fraction(0), Fraction(1) if self.show == "share" else None)

    def coefficients(self, quantities: Sequence[Quantity]) -> tuple[Fraction, ...] | None:
        """1 / (p - q) of the key, and -q / (p - q) of all; a share is no sum of them."""
        apart = self.law.kept - self.law.other
        return None if self.show == "share" else (1 / apart, -self.law.other / apart)

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """The squares of what a unit of noise of each does; of a share over ``count``, at an answer that all gave."""
        kept, other = float(self.law.kept), float(self.law.other)
        of_all = kept if self.show == "share" else other
        size = (count or 1) if self.show == "share" else 1
        return tuple((each / (kept - other) / size) ** 2 for each in (1.0, of_all))

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The unbiased number, or its share of all answers, which is blank where the noisy number of these is below 1.

        The standard error is that of both parts, with the estimate in the place of the truth. The interval holds the
        truth with the confidence that is asked for (:func:`_ends`); the margin is its farther end.
        """
        told, every = (part.values.astype(np.float64) for part in noisy)
        laws = [part.law for part in noisy]
        value = self._value(told, every)
        low, high = self._ends(told, every, laws, confidence)
        blank = np.isnan(value)
        low, high = np.where(blank, np.nan, low), np.where(blank, np.nan, high)
        margin = np.maximum(np.maximum(value - low, high - value), 0.0)
        return Estimate(value, self._error(told, every, laws), margin, (low, high))

    def _value(self, told: Floats, every: Floats) -> Floats:
        kept, other = float(self.law.kept), float(self.law.other)
        if self.show == "share":
            return (told / np.where(every >= 1, every, np.nan) - other) / (kept - other)
        return (told - other * every) / (kept - other)

    def _error(self, told: Floats, every: Floats, laws: Sequence[Law]) -> Floats:
        """The root of n_v p (1 - p) + (n - n_v) q (1 - q) and of the variances of the noise, over (p - q)^2."""
        kept, other = float(self.law.kept), float(self.law.other)
        size = np.maximum(every, 0.0)
        true = np.clip((told - other * every) / (kept - other), 0.0, size)
        coins = true * kept * (1 - kept) + (size - true) * other * (1 - other)
        if self.show == "share":
            size = np.where(every >= 1, every, np.nan)
            of_both = laws[0].variance + np.clip(told / size, other, kept) ** 2 * laws[1].variance
            return np.asarray(np.sqrt(coins + of_both) / (kept - other) / size)
        noise = laws[0].variance + other**2 * laws[1].variance
        return np.asarray(np.sqrt(coins + noise) / (kept - other))

    def _ends(self, told: Floats, every: Floats, laws: Sequence[Law], confidence: Fraction) -> tuple[Floats, Floats]:
        """An interval that holds the truth; docs/proofs/randomized-response.md, section 3.

        A tenth of the error probability goes to the noise of either draw, the rest to the coins. Given exact numbers c
        of n answers, their mean mu is where n KL((c - 1) / n, mu / n) on the left of it, and n KL((c + 1) / n, mu / n)
        on the right, are below z^2 / 2; the left end falls with n and the right one rises.
        """
        alpha = 1 - confidence
        reach = [float(law.margin(1 - alpha / (2 * _OF_NOISE))) for law in laws]
        z = NormalDist().inv_cdf(1 - float(alpha) * (1 - 1 / _OF_NOISE) / 2)
        kept, other = float(self.law.kept), float(self.law.other)
        most = np.maximum(every + reach[1], 0.0)
        least = np.minimum(np.maximum(every - reach[1], 0.0), most)
        fewest, fullest = np.clip(told - reach[0], 0.0, most), np.clip(told + reach[0], 0.0, most)
        left = _leftmost(fewest, most, z)
        if self.show == "share":
            whole = np.maximum(least, 1.0)
            low = left / np.maximum(most, 1.0)
            high = _rightmost(np.minimum(fullest, whole), whole, z) / whole
            low, high = (low - other) / (kept - other), (high - other) / (kept - other)
            return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        low = (left - most * other) / (kept - other)
        high = (_rightmost(fullest, most, z) - least * other) / (kept - other)
        return np.clip(low, 0.0, most), np.clip(high, 0.0, most)

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """The answers that are the key, less q times all, over p - q; of a share over all."""
        told, every = (term.name for term in terms)
        kept, other = self.law.kept, self.law.other
        if self.show == "share":
            return Formula(f"({told} / {every} - {operand(other)}) / {operand(kept - other)}", (f"{every} < 1",))
        return Formula(f"({told} - {operand(other)} * {every}) / {operand(kept - other)}")

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """For a cell of ``count`` answers, at the worst number of true ones: none, all, or where chance is widest."""
        if count is None:
            return Expected(why_null="depends on the cell's size: give `expect` for a count of the query")
        kept, other = float(self.law.kept), float(self.law.other)
        worst = max(kept * (1 - kept), other * (1 - other)) * count
        noise = math.fsum(
            weight * law.variance for weight, law in zip(self.weights(quantities, count), laws, strict=True)
        )
        size = count if self.show == "share" else 1
        error = math.sqrt(worst / (kept - other) ** 2 / size**2 + noise)
        widest = min(max((0.5 - other) / (kept - other), 0.0), 1.0)
        true = np.array([0.0, widest, 1.0]) * count
        told, every = true * kept + (count - true) * other, np.full(3, float(count))
        low, high = self._ends(told, every, laws, confidence)
        value = self._value(told, every)
        return Expected(error, float(np.maximum(value - low, high - value).max()))


class Randomized(WrittenMeasure):
    """How many truly have a key, from a column that says how its answers were randomized (``collect:``)."""

    kind: ClassVar[str] = "randomized"
    foreseen: ClassVar[Literal["by_size"]] = "by_size"
    stands: ClassVar[tuple[type[Measure], ...]] = (PlannedRandomized,)
    randomized: str
    key: Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})] = Field(
        examples=["yes"], description="The answer that is counted."
    )
    show: Literal["share"] | None = Field(None, description="share: of all answers, from 0 to 1.")

    @property
    def of_answers(self) -> OfAnswers:
        """Its column and its key; the column has the law."""
        return OfAnswers(self.randomized, self.key, None)

    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """The same, to which its table gives the law of the answers."""
        asked: dict[str, Any] = {each: getattr(self, each) for each in ("randomized", "key", "show", "where")}
        return {name: PlannedRandomized(**asked)}


def answer_is(column: str, key: Key) -> str:
    """The condition that an answer is a key, as the text of an expression."""
    return f"{_quoted(column)} = {_constant(key)}"


def answer_is_any(column: str, keys: Sequence[Key]) -> str:
    """The condition that an answer is one of the keys."""
    return f"{_quoted(column)} IN ({', '.join(map(_constant, keys))})"


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _constant(key: Key) -> str:
    return str(key) if isinstance(key, int) else "'" + key.replace("'", "''") + "'"


def _leftmost(told: Floats, every: Floats, z: float) -> Floats:
    """The least mean that so many of so many answers do not refuse; 0 where nothing is refused."""
    return _solved(told - 1, every, np.zeros_like(told), told - 1, z)


def _rightmost(told: Floats, every: Floats, z: float) -> Floats:
    """The largest one; all of them where nothing is refused."""
    return _solved(told + 1, every, every, told + 1, z)


def _solved(at: Floats, every: Floats, end: Floats, near: Floats, z: float) -> Floats:
    """The mu between ``near`` and ``end`` where n KL(x / n, mu / n) is z^2 / 2, rounded outward; else ``end``."""
    inside = (at > 0) & (at < every)
    x, n = np.where(inside, at, 1.0), np.where(inside, every, 2.0)
    beyond, within = np.where(inside, end, 1.0), np.where(inside, near, 1.0)
    for _ in range(60):
        middle = (beyond + within) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = x * np.log(x / middle) + (n - x) * np.log((n - x) / (n - middle))
        out = apart >= z * z / 2
        beyond, within = np.where(out, middle, beyond), np.where(out, within, middle)
    return np.where(inside, beyond, end)
