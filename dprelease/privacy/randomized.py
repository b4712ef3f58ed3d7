"""Randomized response: each answer is noised by its respondent, before anybody collects it.

*k-ary* (Warner 1965 for two answers; Kairouz, Bonawitz and Ramage 2016): of k answers the true one is given with
probability p = a / (a + (k - 1) b), and each other one with q = b / (a + (k - 1) b), for whole weights a > b. *Unary*
(the optimized unary encoding of Wang, Blocki, Li and Jha 2017): one bit for every answer; that of the true one is set
with p = 1/2, and every other one with q = b / (a + b). Both lose exactly ln(a / b) where one answer is another one
(docs/proofs/randomized-response.md).

>>> coins = RandomizedResponse(weights=(3, 1), choices=2)
>>> str(coins.kept), str(coins.other), round(float(coins.epsilon), 4)
('3/4', '1/4', 1.0986)
>>> RandomizedResponse.weights_of(Fraction(1))
(11674931554, 4294967296)
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from pydantic import Field, model_validator

from dprelease.canonical import GrownValue, Value
from dprelease.privacy.rounding import CONTEXT, real, upper

__all__ = ["LocalLoss", "LocalQuestion", "RandomizedResponse", "UnaryBit"]

_SMALLER_WEIGHT = 2**32


class UnaryBit(Value):
    """Which bit of a question a column holds.

    Attributes:
        question: Its name, which all of its bits share.
        answer: The answer whose bit it is, as text.
    """

    question: str
    answer: str


class RandomizedResponse(GrownValue):
    """By which law the answers of one column were randomized, as the collector declares.

    Attributes:
        weights: a and b, of the true answer and of every other one.
        choices: k, the number of answers; of a bit 2.
        unary: Which bit it is; None: the column holds whole answers.
        answers: How many randomized answers the collector got of one unit at most.
        silence: The answer (as text) that stands for none, of those who did not answer; None: that is public.
    """

    LATER: ClassVar[tuple[str, ...]] = ("unary", "silence")
    weights: tuple[int, int]
    choices: int = Field(ge=2)
    unary: UnaryBit | None = None
    answers: int = Field(default=1, ge=1)
    silence: str | None = None

    @model_validator(mode="after")
    def _true_answers_lead(self) -> RandomizedResponse:
        if not self.weights[0] > self.weights[1] > 0:
            raise ValueError("the true answer needs a larger weight than another one, and both are above 0")
        return self

    @classmethod
    def weights_of(cls, epsilon: Fraction) -> tuple[int, int]:
        """Whole weights whose ln(a / b) is at most an epsilon, and within e^-epsilon 2^-32 of it."""
        return int(CONTEXT.floor(_SMALLER_WEIGHT * CONTEXT.exp(real(epsilon)))), _SMALLER_WEIGHT

    @property
    def kept(self) -> Fraction:
        """p: the probability of the true answer; of a bit that it is set where it is that of the true answer."""
        if self.unary is not None:
            return Fraction(1, 2)
        return Fraction(self.weights[0], self.weights[0] + (self.choices - 1) * self.weights[1])

    @property
    def other(self) -> Fraction:
        """q: the probability of each other answer; of a bit that it is set where it is that of another answer."""
        turned = 1 if self.unary is not None else self.choices - 1
        return Fraction(self.weights[1], self.weights[0] + turned * self.weights[1])

    @property
    def epsilon(self) -> Fraction:
        """ln(a / b), rounded up in the 30th digit: what one answer of one question loses."""
        return upper(CONTEXT.log(real(Fraction(*self.weights))))


class LocalQuestion(Value):
    """What one question loses to its collector.

    Attributes:
        table: Where its answers are.
        question: The column, or the question that several columns hold the bits of.
        columns: The columns.
        weights: As in :class:`RandomizedResponse`.
        choices: The number of answers, or of bits.
        answers: How many answers of one unit there are at most.
        epsilon: Of all of these together, for one unit.
    """

    table: str
    question: str
    columns: tuple[str, ...]
    weights: tuple[int, int]
    choices: int
    answers: int
    epsilon: Fraction


class LocalLoss(Value):
    """What one unit loses to whoever collected its randomized answers; no account pays for it.

    Attributes:
        questions: One after the other.
        epsilon: Their sum: one person may have answered all of them.
    """

    questions: tuple[LocalQuestion, ...]
    epsilon: Fraction
