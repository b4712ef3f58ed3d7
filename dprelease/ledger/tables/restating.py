"""The same question again: which publications have asked it before, and from which data they were answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dprelease.ledger.model.entry import Sourced
from dprelease.ledger.model.lifecycle import already_answered
from dprelease.ledger.model.reservation import Reservation
from dprelease.ledger.model.store import Rows
from dprelease.ledger.tables import view
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.same_question import question

__all__ = ["repeated", "require_other_data"]

Tables = Mapping[str, tuple[str, ...]]


def repeated(rows: Rows, existing: Reservation, plan: ReleasePlan) -> bool:
    """Whether a plan asks again what was asked for its release and period, without the number that it then has.

    Args:
        rows: The transaction.
        existing: The last reservation of its release and period.
        plan: That shall replace it.
    """
    same = _same(rows, view.history(rows, existing.release, existing.period), plan)
    return plan.release.restatement != sum(not each.revision for each in same)


def require_other_data(rows: Rows, live: Reservation, plan: ReleasePlan, tables: Tables, key: str) -> None:
    """Refuse the data that the same question was answered from before; hashes under another key say nothing.

    Raises:
        LedgerError: An earlier publication of the same question was read from them (DPR-L114).
    """
    if not plan.release.restatement:
        return
    past = [each for each in view.history(rows, live.release, live.period) if each.sequence < live.sequence]
    for each in _same(rows, past, plan):
        for body in _records(rows, each.sequence):
            if (body.tables, body.key) == (dict(tables), key):
                raise already_answered(f"{live.release} {live.period}")


def _same(rows: Rows, past: Sequence[Reservation], plan: ReleasePlan) -> list[Reservation]:
    """Those of the past that asked what this plan asks; of a lost one nobody knows what it asked."""
    wanted = question(plan)
    known = [each for each in past if each.state != "lost"]
    return [each for each in known if question(ReleasePlan.from_canonical(view.plan_text(rows, each))) == wanted]


def _records(rows: Rows, reservation: int) -> Iterator[Sourced]:
    sequences = rows.execute("SELECT sequence FROM sources WHERE reservation = ? ORDER BY sequence", (reservation,))
    for (sequence,) in sequences:
        body = view.at(rows, sequence).facts()
        if isinstance(body, Sourced):
            yield body
