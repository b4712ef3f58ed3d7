"""What is said of columns that compare: with what, what their margins cover, and what a mark says of many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from dprelease.estimate import PublishedTable
from dprelease.measures.comparing.comparison import ALIKE_KINDS
from dprelease.plan.document import PlannedQuery, PlannedSeries, ReleasePlan
from dprelease.publish.base import ComparedWith, Facts
from dprelease.publish.comparing.earlier import needed_periods, period_of
from dprelease.publish.numbers import percent
from dprelease.words import phrase, phrase_many

__all__ = ["compared_words", "earlier_words", "marks_words", "shared_words"]


def compared_words(plan: ReleasePlan, query: PlannedQuery | None, facts: Facts, table: PublishedTable) -> list[str]:
    """Sentences above a table with columns that compare, or that SQL makes of earlier periods, too; else nothing.

    Args:
        plan: That was measured.
        query: Of the table; None: it is derived.
        facts: Which earlier releases it compares with.
        table: As published.
    """
    shown = {each.name: each.shown for each in table.measures}
    if query is None:
        asked = [each for derived in plan.derive if derived.name == table.name for each in derived.earlier.values()]
        periods = [each.period_in(plan.release.period) for each in asked]
        return [said for each in dict.fromkeys(periods) for said in _beside(plan, facts, each, shown.values())]
    if not query.compare:
        return []
    return [
        *_sums(query, shown),
        *_skipped(query),
        *_shares(query, shown),
        *_earlier(plan, query, facts, shown),
        *marks_words(table),
    ]


def _sums(query: PlannedQuery, shown: Mapping[str, str]) -> Iterator[str]:
    told = {name: query.compare[name] for name in shown if name in query.compare}
    sums = {name: len(query.inputs[each.measure]) for name, each in told.items() if each.kind == "sum"}
    names = [shown[name] for name, taken in sums.items() if taken <= 1]
    made = [shown[name] for name, taken in sums.items() if taken > 1]
    if names:
        yield phrase_many(
            "{names}: a sum of published periods, whose noise is shared; the interval takes that into account.",
            "{names}: sums of published periods, whose noise is shared; the intervals take that into account.",
            len(names),
            names=", ".join(names),
        )
    if made:
        yield phrase(
            "{names}: of all these periods together, made of their sums and not of the numbers of each period; the "
            "intervals take into account that the noise is shared.",
            names=", ".join(made),
        )


def _told_periods(read: Sequence[str], series: PlannedSeries) -> str:
    """Periods one after the other by their ends, where none of the series was skipped; else each of them."""
    if len(read) < 3 or series.skipped:
        return ", ".join(read)
    return phrase("{first} to {last}", first=read[0], last=read[-1])


def _skipped(query: PlannedQuery) -> Iterator[str]:
    if query.series is not None and query.series.skipped:
        yield phrase(
            "{name}: nothing was ever read of {periods}, and sums with such a period are blank.",
            name=query.name,
            periods=", ".join(query.series.skipped),
        )


def _shares(query: PlannedQuery, shown: Mapping[str, str]) -> Iterator[str]:
    names = [shown[name] for name, each in query.compare.items() if each.kind == "share"]
    if names:
        yield phrase_many(
            "{names}: the total is of the same draws as its parts, and the intervals take that into account.",
            "{names}: the totals are of the same draws as parts, and the intervals take that into account.",
            len(names),
            names=", ".join(names),
        )


def _earlier(plan: ReleasePlan, query: PlannedQuery, facts: Facts, shown: Mapping[str, str]) -> Iterator[str]:
    periods: dict[str, list[str]] = {}
    for name, each in query.compare.items():
        period = period_of(plan, each)
        if each.period is not None:
            periods.setdefault(period or "", []).append(shown[name])
    for period, names in periods.items():
        yield from _beside(plan, facts, period, names)


def _beside(plan: ReleasePlan, facts: Facts, period: str | None, names: Iterable[str]) -> Iterator[str]:
    """What numbers that look back to a period are made of, or why they are blank."""
    known = {each.period: each for each in facts.earlier}
    told = ", ".join(names)
    if period == plan.release.period:
        yield phrase("{names}: this is the base period.", names=told)
    elif not period:
        yield phrase("{names}: blank, for no release of an earlier period was published before this one.", names=told)
    elif period not in known:
        yield phrase(
            "{names}: blank, for no release of {period} was published before this one.", names=told, period=period
        )
    else:
        yield phrase(
            "{names}: beside {period}, as it was published ({entry}). Margins are for the noise of "
            "both releases, which is independent, whoever is in both periods. They say how far noise moved the "
            "number, and not whether the difference would be there in other years.",
            names=told,
            period=period,
            entry=_which(known[period]),
        )


def _which(earlier: ComparedWith) -> str:
    parts = [phrase("ledger entry {entry}", entry=earlier.sequence)]
    if earlier.revision:
        parts.append(phrase("revision {number}", number=earlier.revision))
    if earlier.restatement:
        parts.append(phrase("replacement {number}", number=earlier.restatement))
    return ", ".join([*parts, phrase("manifest {hash}", hash=earlier.manifest[:12])])


def marks_words(table: PublishedTable) -> list[str]:
    """What it means that a change or a difference is not marked, where there are many of them."""
    apart = [each for each in table.measures if each.compared is not None and each.compared.kind in ALIKE_KINDS]
    pairs = [each for each in apart if each.compared and each.compared.among and each.p_value is not None]
    single = [each for each in apart if each not in pairs]
    tested, alone = ([each.shown for each in single if (each.p_value is not None) == told] for told in (True, False))
    rate = percent(1 - Fraction(table.confidence))
    found = []
    if tested:
        found.append(
            phrase(
                "{names}: marked as not distinguishable from 0 where noise alone may have made it. In each column "
                "about {rate} % or fewer of those without the mark would be there by noise alone (Benjamini and "
                "Hochberg, by the p-values beside them).",
                names=", ".join(tested),
                rate=rate,
            )
        )
    for among in dict.fromkeys(each.compared.among for each in pairs if each.compared):
        names = ", ".join(each.shown for each in pairs if each.compared and each.compared.among == among)
        found.append(
            phrase(
                "{names}: all pairs of groups, each from both sides. Marked as not distinguishable from 0 where noise "
                "alone may have made it; over all these columns together about {rate} % or fewer of those without the "
                "mark would be there by noise alone (Benjamini and Hochberg, by the p-values beside them).",
                names=names,
                rate=rate,
            )
        )
    if bare := [each.shown for each in apart if each.compared and not each.compared.proved]:
        found.append(
            phrase(
                "{names}: the interval is by the method MOVER, and with the p-value it holds as often as it says in "
                "simulations; no proof says so for all numbers.",
                names=", ".join(bare),
            )
        )
    if alone:
        found.append(
            phrase(
                "{names}: marked as not distinguishable from 0 where the interval holds 0. Each is judged by itself: "
                "of many that are 0, up to {rate} % would have no mark.",
                names=", ".join(alone),
                rate=rate,
            )
        )
    return found


def earlier_words(plan: ReleasePlan, facts: Facts) -> list[str]:
    """Sentences of the accounting page: which bundles were read, and that this cost nothing."""
    shared = {period for query in plan.queries if query.series for period in query.series.periods[:-1]}
    found = [
        phrase(
            "Some columns compare with {period}, as it was published ({which}, plan {plan_fingerprint}). Its noisy "
            "measurements are public; comparing with them costs nothing.",
            period=each.period,
            which=_which(each),
            plan_fingerprint=each.plan_fingerprint[:12],
        )
        for each in facts.earlier
        if each.period not in shared
    ]
    found += shared_words(plan, replaces=facts.restates is not None)
    known = {each.period for each in facts.earlier} | shared
    missing = [each for each in needed_periods(plan) if each not in known]
    if missing:
        found.append(
            phrase(
                "No release of {missing} was published before this one: columns beside it are blank.",
                missing=", ".join(missing),
            )
        )
    return found


def shared_words(plan: ReleasePlan, *, replaces: bool) -> Iterator[str]:
    """What was charged when, of queries whose periods share their noise.

    Args:
        plan: That was charged.
        replaces: Whether the release takes the place of another one of its period, which was drawn before.
    """
    for name, query in {query.workload or query.name: query for query in plan.queries if query.series}.items():
        series = query.series
        if series is None:
            continue
        read = series.periods[-series.band.periods : -1]
        yield phrase(
            "The periods of {name} share their noise since {first}. This release is charged now for all draws that "
            "will ever read the rows of {period}: its own, and those of as many as {later} periods after it, by the "
            "same plan.",
            name=name,
            first=series.periods[0],
            period=series.periods[-1],
            later=series.band.periods - 1,
        )
        if read and replaces:
            yield phrase(
                "It replaces a release of {period} that was charged before, so that its draw of {name} is one more: it "
                "is charged in full for {periods} again, too, of which it reads the rows.",
                period=series.periods[-1],
                name=name,
                periods=_told_periods(read, series),
            )
        elif read:
            yield phrase(
                "For its draw of {name} the rows of {periods} were read again, which was charged with the releases of "
                "those periods. What was measured for earlier periods is public, and costs nothing to use.",
                name=name,
                periods=_told_periods(read, series),
            )
        yield from _skipped(query)
