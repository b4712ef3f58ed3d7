"""``collect: {randomized_response: {epsilon: 1}}``: how the values of a column were randomized at their source."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from dprelease.privacy.randomized import RandomizedResponse, UnaryBit
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.numbers import Numeral
from dprelease.spec.text.scalars import AsWritten, Bound, Filled, Positive, kind_of, refuse

__all__ = ["CollectSpec", "RandomizedResponseSpec", "UnarySpec"]

_LARGEST_EPSILON = 20  # of which nothing is hidden: e^20 is half a billion
_LARGEST_WEIGHT = 2**62
_WEIGHTS = "write `weights: [3, 1]`: the true answer three times as often as another one"


def _weights(value: Any) -> tuple[int, int]:
    """Two whole numbers, the first one larger: a table of an interviewer, or sides of a die."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise refuse("DPR-S249", f"is {kind_of(value)}, not two whole numbers", _WEIGHTS)
    found = []
    for each in value:
        whole = each if isinstance(each, int) and not isinstance(each, bool) else None
        whole = each.whole if isinstance(each, Numeral) else whole
        if whole is None or not 0 < whole <= _LARGEST_WEIGHT:
            raise refuse("DPR-S249", f"holds {kind_of(each)}, no whole number from 1 to 2^62", _WEIGHTS)
        found.append(whole)
    if found[0] <= found[1]:
        raise refuse("DPR-S249", "gives the true answer no larger weight than another one", _WEIGHTS)
    return found[0], found[1]


class UnarySpec(SpecValue):
    """The column holds one bit of a question: 1 where the answer was this one, after the coins."""

    question: Filled = Field(description="The name of the question, which all of its bits share.")
    answer: AsWritten = Field(description="The answer whose bit it is.")


class RandomizedResponseSpec(SpecValue):
    """By which coins every respondent changed the answer, before it was collected."""

    epsilon: Positive | None = Field(None, description="What one answer loses: the odds of two truths by e^epsilon.")
    weights: Annotated[
        tuple[int, int] | None,
        BeforeValidator(lambda value: None if value is None else _weights(value)),
        WithJsonSchema(
            {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 2},
        ),
    ] = Field(None, description="Instead: of the true answer and of every other one, such as [3, 1].")
    unary: UnarySpec | None = Field(None, description="The column is one bit of a question, not a whole answer.")
    answers: Bound = Field(1, description="How many answers one unit gave at most; each one loses epsilon.")
    silence: AsWritten | None = Field(
        None,
        description="The key that stands for no answer, so that silence is hidden as well; left out: it is public.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.epsilon is None) == (self.weights is None):
            found = "neither epsilon nor weights" if self.epsilon is None else "both epsilon and weights"
            raise refuse("DPR-S250", f"has {found}", "write one: `{epsilon: 1}` or `{weights: [3, 1]}`")
        if self.epsilon is not None and not Fraction(1, 1000) <= self.epsilon <= _LARGEST_EPSILON:
            says = f"has an epsilon of {self.epsilon}, not between 0.001 and {_LARGEST_EPSILON}"
            raise refuse("DPR-S251", says, "write `epsilon: 1`: the odds of two truths change by 2.72 at most")
        return self


class CollectSpec(SpecValue):
    """How the values of a column came to be what they are."""

    randomized_response: RandomizedResponseSpec = Field(description="Each respondent gave the true answer by chance.")

    def law(self, choices: int) -> RandomizedResponse:
        """The law of the answers.

        Args:
            choices: How many keys the column has.
        """
        asked = self.randomized_response
        if asked.weights is not None:
            weights = asked.weights
        else:
            assert asked.epsilon is not None  # noqa: S101 - the loader wants one of the two
            weights = RandomizedResponse.weights_of(asked.epsilon)
        bit = None if asked.unary is None else UnaryBit(question=asked.unary.question, answer=asked.unary.answer)
        return RandomizedResponse(
            weights=weights, choices=choices, unary=bit, answers=asked.answers, silence=asked.silence
        )
