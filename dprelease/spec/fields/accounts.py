"""``accounts:`` and ``ceilings:`` of a policy: whom an account protects, how it adds up, and where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from dprelease.privacy.unit import Neighboring
from dprelease.spec.fields.document import Cap
from dprelease.spec.fields.tables import TimeSpec
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.period import Per
from dprelease.spec.text.scalars import (
    NUMBER,
    Delta,
    Filled,
    Positive,
    PositiveWhole,
    TrueOrFalse,
    exact_number,
    refuse,
)

__all__ = ["MODELS", "AccountSpec", "CeilingsSpec", "Lifetime", "WindowSpec"]

_LEAST_ORDER, _MOST_ORDER = Fraction(1_000_001, 1_000_000), Fraction(10**9)  # where 60 digits are enough


def _order(value: Any) -> Fraction:
    order = exact_number(value)
    if not _LEAST_ORDER <= order <= _MOST_ORDER:
        raise refuse("DPR-S593", "is no order from 1.000001 to 10^9", "write a number such as 20")
    return order


class Lifetime(SpecValue):
    """All that may ever be spent from an account."""

    epsilon: Positive = Field(description="At most this epsilon, over all releases together.")
    delta: Delta = Field(Fraction(0), description="At this delta.")
    selecting: Delta = Field(
        Fraction(0), description="With zcdp or rdp: the part of delta that `keys: private` may use, fixed for ever."
    )


class WindowSpec(SpecValue):
    """A further cap, on each day, week, month, quarter or year of the rows."""

    per: Per = Field(description="Of the rows' time: day, week (ISO 8601), month, quarter or year.")
    epsilon: Positive = Field(description="At most this epsilon, over all releases that touch the window.")
    delta: Delta = Field(Fraction(0), description="At this delta.")


class AccountSpec(SpecValue):
    """One account: whom it protects, how its losses add up, and where it ends."""

    unit: Filled = Field(description="Whom it protects, as specs name it.")
    neighboring: Neighboring = Field(Neighboring.ADD_REMOVE, strict=False, description="As in the specs.")
    composition: Literal["basic", "zcdp", "rdp", "pld"] = Field(description="How the losses of its releases add up.")
    order: Annotated[Fraction, BeforeValidator(_order), WithJsonSchema(NUMBER)] | None = Field(
        None, description="With rdp: the one Renyi order at which losses add up, fixed for ever."
    )
    lifetime: Lifetime
    window: WindowSpec | None = Field(None, description="A cap on each stretch of time, beside the lifetime.")
    nests: dict[str, PositiveWhole] = Field(
        {}, description="Units that specs may protect instead, to how many of them one unit holds at most."
    )
    parallel: Per | None = Field(None, description="Where a unit is of one period: the lifetime holds for each period.")
    time: TimeSpec | None = Field(None, description="With parallel or window: the time of every table of the account.")
    invariants: TrueOrFalse = Field(
        False, description="Whether specs may publish counts of its tables exactly, unprotected."
    )
    prefer: Literal["accuracy", "account"] | None = Field(
        None, description="With `noise: auto`: the least noise, or the least charge, where they pull apart."
    )


class CeilingsSpec(Cap):
    """What no single release may exceed."""

    units: tuple[Filled, ...] | None = Field(
        None, min_length=1, description="The units that a release may protect; left out: whatever an account takes."
    )


MODELS: Mapping[str, type[BaseModel]] = {
    "accounts.*": AccountSpec,
    "accounts.*.lifetime": Lifetime,
    "accounts.*.window": WindowSpec,
    "accounts.*.time": TimeSpec,
    "ceilings": CeilingsSpec,
}
