"""The terms of a series: what of its query must be equal in the plans of all of its periods.

Its draws are charged together with the period that reads a row first, as if all had the band, the noise and the rows
of that plan. A later plan with another band, scale, cells or filter would cost what nobody has charged. What says which
rows count may not name the period either, for rows of earlier ones are read by the words of the newest plan.
"""

from __future__ import annotations

import json
from typing import Any

from dprelease.canonical import fingerprint
from dprelease.plan.document import PlannedQuery, ReleasePlan, Step

__all__ = ["differing_terms", "periods_charged", "periods_read_again", "series_terms", "steps_of_series"]


def periods_charged(plan: ReleasePlan, *, again: bool) -> dict[str, tuple[str, ...]]:
    """The periods whose rows a release is charged for, by account: its own first.

    The first draw of a period is paid with the columns of the periods that it reads. One more draw of it is paid by
    none, so that a release that replaces another one is charged for every period that its draws read, in full: a unit
    of the period k before loses c_k^2 of S of that (docs/proofs/series.md, section 2).

    Args:
        plan: What is charged.
        again: Whether a release of its period was charged before, which it replaces.
    """
    more = periods_read_again(plan) if again else {}
    return {account.name: (plan.release.period, *more.get(account.name, ())) for account in plan.accounts}


def periods_read_again(plan: ReleasePlan) -> dict[str, tuple[str, ...]]:
    """The periods before its own whose rows the draws of a release read, by account."""
    found: dict[str, dict[str, None]] = {}
    for query in plan.queries:
        if query.series is not None:
            earlier = [period for period, _ in query.series.read()][1:]
            found.setdefault(plan.catalog.tables[query.table].account, {}).update(dict.fromkeys(earlier))
    return {name: tuple(periods) for name, periods in found.items()}


def steps_of_series(plan: ReleasePlan, query: PlannedQuery) -> dict[str, Step]:
    """The draws of a query with a series: by measure, or where one has several by their ids."""
    if query.workload is not None:
        return {step: plan.step(step) for step in plan.fed_by(query)}
    found = {}
    for label, feeds in query.inputs.items():
        for feed in feeds:
            found[label if len(feeds) == 1 else feed.step] = plan.step(feed.step)
    return found


def series_terms(plan: ReleasePlan, query: PlannedQuery) -> dict[str, Any]:
    """What must be equal in every period, in words: what it is to what it says, as plain JSON or a fingerprint.

    Args:
        plan: Of one period.
        query: With a series.

    Raises:
        ValueError: If the query has none.
    """
    series, table = query.series, plan.catalog.tables[query.table]
    if series is None:
        raise ValueError("only a query with a series has its terms")
    steps = steps_of_series(plan, query)
    rows = table.model_copy(update={"source": table.source.without_place(), "time": None})
    declared = json.loads(rows.canonical())
    for column in declared["columns"]:
        column |= {"labels": {}, "title": ""}
    combined = {
        label: each.fingerprint() for label, step in steps.items() if (each := step.factor or step.residual) is not None
    }
    aggregates = {label: json.loads(step.aggregate.canonical()) for label, step in steps.items()}
    return {
        "the first period": series.periods[0],
        **({} if series.horizon is None else {"the horizon": series.horizon}),
        "the band": list(series.band.coefficients),
        "the measures": sorted(query.inputs),
        "the rows, cells or clips": fingerprint(aggregates),
        "the table": fingerprint(declared),
        **({"the combinations of cells": combined} if combined else {}),
        "the public files": {each.reference: plan.catalog.references[each.reference].sha256 for each in table.joins},
        "the account": table.account,
        "the unit": [str(plan.unit), plan.neighboring.value],
        "the noise": {label: [step.mechanism, str(step.scale)] for label, step in sorted(steps.items())},
        "the sensitivity": {label: str(step.sensitivity.l2_squared) for label, step in sorted(steps.items())},
        "the time": None if table.time is None else [table.time.column, table.time.type],
    }


def differing_terms(one: ReleasePlan, of_one: PlannedQuery, other: ReleasePlan) -> str:
    """The first of the terms in which the plan of another period differs; empty: they are those of one series."""
    of_other = next((each for each in other.queries if each.name == of_one.name), None)
    if of_other is None or of_other.series is None:
        return "the query, which has no series there"
    mine, theirs = series_terms(one, of_one), series_terms(other, of_other)
    differs = next((name for name, said in {**theirs, **mine}.items() if mine.get(name) != theirs.get(name)), "")
    series, past = of_one.series, of_other.series.periods
    if not differs and series is not None and series.periods[: len(past)] != past:
        return "which periods are skipped"
    return differs
