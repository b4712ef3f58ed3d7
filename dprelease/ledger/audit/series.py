"""Series in a ledger: was every period that a draw reads charged before, and by the very terms of that draw?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from dprelease.errors import DpReleaseError
from dprelease.ledger.model.store import Transaction
from dprelease.ledger.tables import view
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.series_terms import differing_terms

__all__ = ["broken_series"]


def broken_series(rows: Transaction, may_be: Callable[[str], bool]) -> list[str]:
    """Every draw of a series that reads rows which nobody has charged for, one line each; empty: there is none.

    A draw of period t reads the last periods of its band. Each of them must have been charged by an earlier entry that
    stands, for a plan with the same band, noise, rows and cells, which is what its charge was made for.

    Args:
        rows: The ledger.
        may_be: Whether the plan of this digest may have such a draw; no other is read.
    """
    found: list[str] = []
    query = "SELECT sequence, release, period, plan FROM reservations ORDER BY sequence"
    for sequence, release, period, digest in (row for row in rows.execute(query) if may_be(row[3])):
        with suppress(DpReleaseError, ValueError, KeyError, TypeError):  # of a damaged book, which is said elsewhere
            text = view.plan_text(rows, sequence, digest)
            found += _of_plan(rows, sequence, release, period, ReleasePlan.from_canonical(text))
    return found


def _of_plan(rows: Transaction, sequence: int, release: str, period: str, plan: ReleasePlan) -> Iterator[str]:
    for query in plan.queries:
        if query.series is None:
            continue
        for earlier in [each for each, _ in query.series.read()][1:]:
            charged = [each for each in view.history(rows, release, earlier) if each.sequence < sequence]
            why = f"no entry before it charges {earlier}, whose rows it reads"
            if charged:
                last = charged[-1]
                before = ReleasePlan.from_canonical(view.plan_text(rows, last.sequence, last.plan_fingerprint))
                differs = differing_terms(plan, query, before)
                why = f"{earlier} was charged by other terms: {differs} differs" if differs else ""
            if why:
                yield f"entry {sequence}: query {query.name} of {release} {period} is of a series, and {why}"
