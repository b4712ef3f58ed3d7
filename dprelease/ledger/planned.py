"""What the plans of a ledger say that their reservations are held against; those of a series are read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from pydantic import ValidationError

from dprelease.ledger.history import digest_of
from dprelease.plan.document import ReleaseInfo, ReleasePlan

__all__ = ["Planned", "Plans"]

_RELEASE, _SPEC = ',"release":', ',"spec_fingerprint":"'


@dataclass(frozen=True)
class Planned:
    """What a plan says that its reservation is held against.

    Attributes:
        name: Release, period, fingerprint of the spec.
        cells: How many numbers each step has.
        costs: By account, the digest of what it is charged.
    """

    name: tuple[str, str, str]
    cells: Mapping[str, int | None]
    costs: Mapping[str, str]


class Plans:
    """Reads plans, and remembers the last hundred of them by their text."""

    def __init__(self) -> None:
        self._planned = lru_cache(100)(_planned)

    def read(self, text: str) -> Planned:
        """What a plan says.

        Two plans that differ in their release and spec alone, as those of a series do, are read once.

        Raises:
            ValidationError: If it is no plan.
        """
        name, nameless = _blotted(text)
        return self._planned(text) if name is None else replace(self._planned(nameless), name=name)


def _blotted(text: str) -> tuple[tuple[str, str, str] | None, str]:
    """The release and spec of a plan's canonical text, and the text with others; None where they do not stand so."""
    # The last one in the text: a table may be named `release`, but nothing behind the spec's fingerprint is.
    at = text.rfind(_SPEC)
    start = text.rfind(_RELEASE, 0, at)
    if start < 0:
        return None, text
    end = text.find('"', at + len(_SPEC))
    try:
        release = ReleaseInfo.from_canonical(text[start + len(_RELEASE) : at])
    except ValidationError:
        return None, text
    name = (release.name, release.period, text[at + len(_SPEC) : end])
    return name, f'{text[:start]}{_RELEASE}{{"name":"","period":""}}{_SPEC}{text[end:]}'


def _planned(text: str) -> Planned:
    plan = ReleasePlan.from_canonical(text)
    owed = {plan.catalog.tables[step.aggregate.table].account for step in plan.steps}
    accounts = {account.name: account for account in plan.accounts}
    return Planned(
        name=(plan.release.name, plan.release.period, plan.spec_fingerprint),
        cells={step.id: step.numbers for step in plan.steps},
        costs={name: digest_of(plan.cost_of(accounts[name])) for name in owed},
    )
