"""``clip: {private: true, within: [0, 1500000]}``: a clip that noise chooses, as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pydantic_core import PydanticCustomError

from dprelease.catalog.chosen_clip import ChosenClip
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.numbers import Constant
from dprelease.spec.text.scalars import exact_number, kind_of, refuse, true_or_false

__all__ = ["chosen_clip"]

_EXAMPLE = "write `clip: {private: true, within: [0, 1500000]}`"
_HAVE = ("sum", "mean")
_FIELDS = tuple(ChosenClip.model_fields)
_RANK = (
    "asks for a clip at a fixed rank, {}: of 10,000 rows and more what is cut off is 1 to 21 % of the total at 0.99, "
    "15 to 35 % at 0.95, 2 to 15 and 6 to 97 times the error of the best clip, and no budget makes it less"
)


def chosen_clip(kind: str, written: Mapping[str, Any]) -> ChosenClip:
    """A clip that noise chooses, with its numbers exact.

    Args:
        kind: What kind of measure has it.
        written: The mapping.

    Raises:
        PydanticCustomError: With the first thing that is wrong.
    """
    if kind not in _HAVE:
        says = f"is a mapping: noise chooses clips of sums and means alone, not of {kind}"
        raise refuse("DPR-S456", says, "write a clip of two numbers, such as one that an earlier release has chosen")
    unknown = next((name for name in written if name not in _FIELDS), None)
    if unknown is not None:
        raise refuse("DPR-S457", f"has no field {shown(str(unknown))!r}", did_you_mean(str(unknown), _FIELDS))
    missing = next((name for name in ("private", "within") if name not in written), None)
    if missing is not None:
        raise refuse("DPR-S457", f"lacks `{missing}`", _EXAMPLE)
    _check_private(written["private"])
    within = written["within"]
    if not isinstance(within, list | tuple) or len(within) != 2:
        found = f"of {len(within)}" if isinstance(within, list | tuple) else f"that is {kind_of(within)}"
        raise refuse("DPR-S457", f"has a `within` {found}, not of two numbers", _EXAMPLE)
    low, high = (_number("within", each) for each in within)
    rest = {name: _number(name, written[name]) for name in ("above", "share") if name in written}
    return ChosenClip(private=True, within=(low, high), **rest)


def _number(name: str, written: Any) -> Fraction:
    """One number of the mapping; what is wrong with it is told with its field."""
    try:
        return exact_number(written)
    except PydanticCustomError as wrong:
        told = wrong.context or {}
        raise refuse(wrong.type, f"has `{name}`, which {told['summary']}", str(told["hint"])) from None


def _check_private(written: Any) -> None:
    """True; a rank is refused with what it would cost."""
    if not isinstance(written, bool | Constant):
        raise refuse(
            "DPR-S450",
            _RANK.format(shown(str(getattr(written, "text", written)))),
            "write `private: true`: then as many rows lie above the clip as the noise is worth",
        )
    if not true_or_false(written):
        raise refuse("DPR-S451", "says that noise does not choose it", "write `clip: [0, 1500000]`")
