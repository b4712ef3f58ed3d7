"""Values that are made or read again without the work of the first time are the values of the first time."""

from __future__ import annotations

from fractions import Fraction

import pytest
from pydantic import ValidationError

from dprelease.canonical import dumps
from dprelease.plan.document import Account, Head, ReleasePlan
from dprelease.privacy.budget import Budget
from dprelease.privacy.filters import Spent
from tests.ledgers import plan


def test_a_value_of_checked_fields_is_the_validated_one() -> None:
    for made, checked in (
        (Spent(loss=Fraction(1, 3)), Spent.of_checked({"loss": Fraction(1, 3), "reveals": Fraction(0)})),
        (Head(sequence=2, hash="a"), Head.of_checked({"sequence": 2, "hash": "a"})),
    ):
        assert checked == made
        assert made == checked
        assert hash(checked) == hash(made)
        assert dumps(checked) == dumps(made)
        assert checked.model_copy(update={}) == made


def test_a_copy_of_one_leaves_what_others_say_of_their_fields() -> None:
    one = Spent.of_checked({"loss": Fraction(1), "reveals": Fraction(0)})
    one.model_copy(update={"loss": Fraction(2)})
    again = Spent.of_checked({"loss": Fraction(1), "reveals": Fraction(0)})
    assert again.model_fields_set == {"loss", "reveals"}


def test_a_plan_that_is_read_again_is_the_one_of_before() -> None:
    text, other = plan().canonical(), plan("other").canonical()
    first = ReleasePlan.reread(text)
    assert first == ReleasePlan.from_canonical(text)
    assert ReleasePlan.reread(f"{text}\n".encode()) is first
    assert ReleasePlan.reread(other).release.name == "other"
    assert ReleasePlan.reread(text) == first


def test_a_text_of_another_kind_is_no_plan() -> None:
    account = Account(
        name="people", unit="person", neighboring="add_remove", composition="zcdp", lifetime=Budget(epsilon=Fraction(1))
    )
    text = account.canonical()
    assert Account.reread(text) == account
    for _ in range(2):
        with pytest.raises(ValidationError):
            ReleasePlan.reread(text)
    with pytest.raises(ValidationError):
        ReleasePlan.reread(b"\xff")
