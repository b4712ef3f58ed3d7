"""What the plans of a ledger say that their reservations are held against; those of a series are read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import ValidationError

from dprelease.canonical import sha256
from dprelease.ledger.model.fault import ERRATA, cost_before
from dprelease.ledger.model.history import events_digest
from dprelease.plan.document import Account, Parallel, ReleaseInfo, ReleasePlan
from dprelease.plan.explain.series_terms import periods_read_again
from dprelease.plan.verify.periods import mistimed, untied

__all__ = ["Planned", "Plans", "Times"]

Times = frozenset[tuple[str, str] | None]  # columns and types; None: a table was read whole

_NONE: Mapping[str, Any] = MappingProxyType({})
_RELEASE, _SPEC = ',"release":', ',"spec_fingerprint":"'


class Planned(NamedTuple):
    """What a plan says that its reservation is held against.

    Attributes:
        name: Release, period, fingerprint of the spec.
        cells: How many numbers each measurement has: a step has one, or one for each of its pieces.
        cut: The ids of the pieces of each step that has some.
        costs: By account, the digest of what it is charged.
        before: The same as versions charged it that an erratum is about; a check of prices names those.
        parallel: By account whose stretches of time are apart, on what terms.
        windowed: By account with windows, the column and type that they go by; None: the policy had to name none.
        times: By account with windows, the column and type by which its tables are read.
        untied: Why a parallel account may be charged for less than its units lose.
        revisions: How many revisions of its period are planned, and are charged with the first publication.
        revision: Which of them it is; 0: the first publication.
        first: Of a revision: the fingerprint of the plan as that of the first publication.
        selects: Whether a step selects keys: no other plan has a price of the past that was too small.
        series: Whether a query is of a series: the draws of no other plan read rows of earlier periods.
        again: By account the earlier periods that it reads, for which it is charged where it replaces a release.
    """

    name: tuple[str, str, str]
    cells: Mapping[str, int | None]
    costs: Mapping[str, str]
    before: Mapping[str, str] = _NONE
    parallel: Mapping[str, Parallel] = _NONE
    windowed: Mapping[str, tuple[str, str] | None] = _NONE
    times: Mapping[str, Times] = _NONE
    untied: tuple[str, ...] = ()
    revisions: int = 0
    revision: int = 0
    first: str = ""
    cut: tuple[tuple[str, ...], ...] = ()
    selects: bool = False
    series: bool = False
    again: Mapping[str, tuple[str, ...]] = _NONE

    def fits(self, charged: Mapping[str, str], mended: Iterable[str]) -> bool:
        """Whether these are the digests of what it costs, as the version that charged it priced that."""
        return self.costs == charged or (not set(ERRATA) & set(mended) and {**self.costs, **self.before} == charged)

    def unfit(self, terms: Iterable[Account]) -> Iterator[str]:
        """Why it may be charged for less than units lose that are of one stretch of time each; nothing: it is not."""
        yield from self.untied
        for account in terms:
            if account.name in self.costs and self.parallel.get(account.name) != account.parallel:
                yield f"account {account.name} was opened with other stretches of time than the plan has"
            window = account.window
            if account.name in self.costs and window and window.time not in (None, self.windowed.get(account.name)):
                yield f"account {account.name} was opened with another time of its windows than the plan has"


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
        parts = _parts(text)
        if parts is None:
            return self._planned(text)
        release, start, _, spec, end = parts
        bare = _bare(release.revisions, release.revision)
        planned = self._planned(f"{text[:start]}{_RELEASE}{bare}{_SPEC}{text[end:]}")
        return planned._replace(name=(release.name, release.period, spec), first=_first(text, parts))


class _Parts(NamedTuple):
    """Where release and spec stand in the canonical text of a plan."""

    release: ReleaseInfo
    start: int
    at: int
    spec: str
    end: int


@lru_cache(100)
def _bare(revisions: int, revision: int) -> str:
    """What is charged depends on the number of revisions, and on which of them it is, and on nothing else of this."""
    return ReleaseInfo(name="", period="", revisions=revisions, revision=revision).canonical()


def _first(text: str, parts: _Parts) -> str:
    release, start, at, *_ = parts
    if not release.revision:
        return ""
    first = ReleaseInfo(**{**release.model_dump(), "revision": 0})
    return sha256(f"{text[:start]}{_RELEASE}{first.canonical()}{text[at:]}".encode())


def _parts(text: str) -> _Parts | None:
    """Release and spec of a plan's canonical text; None where they do not stand so."""
    # The last one in the text: a table may be named `release`, but nothing behind the spec's fingerprint is.
    at = text.rfind(_SPEC)
    start = text.rfind(_RELEASE, 0, at)
    if start < 0:
        return None
    end = text.find('"', at + len(_SPEC))
    try:
        release = ReleaseInfo.from_canonical(text[start + len(_RELEASE) : at])
    except ValidationError:
        return None
    return _Parts(release, start, at, text[at + len(_SPEC) : end], end)


def _planned(text: str) -> Planned:
    plan = ReleasePlan.from_canonical(text)
    owed = {plan.catalog.tables[step.aggregate.table].account for step in plan.steps if not plan.release.revision}
    accounts = {account.name: account for account in plan.accounts}
    before = {name: cost_before(plan, accounts[name]) for name in owed}
    return Planned(
        name=(plan.release.name, plan.release.period, plan.spec_fingerprint),
        cells=plan.numbers,
        cut=tuple(tuple(piece.id(step) for piece in pieces) for step, pieces in plan.pieces.items()),
        costs={name: events_digest(plan.cost_of(accounts[name])) for name in owed},
        before={name: events_digest(cost) for name, cost in before.items() if cost is not None},
        parallel={name: account.parallel for name, account in accounts.items() if account.parallel is not None},
        windowed={name: account.window.time for name, account in accounts.items() if account.window is not None},
        times={name: _times_of(plan, name) for name, account in accounts.items() if account.window is not None},
        untied=(*untied(plan), *mistimed(plan)),
        revisions=plan.release.revisions,
        revision=plan.release.revision,
        selects=any(step.selecting is not None for step in plan.steps),
        series=any(query.series is not None for query in plan.queries),
        again=periods_read_again(plan),
        first=plan.at_revision(0).fingerprint() if plan.release.revision else "",
    )


def _times_of(plan: ReleasePlan, account: str) -> Times:
    times = (table.time for table in plan.catalog.tables.values() if table.account == account)
    return frozenset((time.column, time.type) if time else None for time in times)
