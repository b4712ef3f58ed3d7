"""Replacing what was released: where the data, or what is measured, are others than they were.

Both are told before the reservation: what is measured from the plans that the ledger has, the data from their keyed
hashes. That files are others than they were is an act of administration, and all that a refusal tells. A replacement is
charged again in full, so that nothing hangs on it for privacy that the same rows in other bytes count as other data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dprelease.errors import DpReleaseError, LedgerError
from dprelease.ledger import Ledger, Reservation
from dprelease.ledger.model.entry import Sourced
from dprelease.ledger.model.lifecycle import already_answered, replaces
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.same_question import question, restated
from dprelease.release.data.sources import SourceKey

__all__ = ["changed_data_note", "nothing_to_restate", "replacement"]

Tables = Mapping[str, tuple[str, ...]]
Hashed = Callable[[], tuple[SourceKey, Tables]]


def replacement(ledger: Ledger, known: Reservation, plan: ReleasePlan, why: str, hashed: Hashed) -> ReleasePlan:
    """The plan that replaces what was released: with a number where it asks what was asked before, of other data.

    Args:
        ledger: That has what was released.
        known: The last reservation of the release and period.
        plan: As the spec asks for it now.
        why: The reason that was given.
        hashed: The key and the keyed hashes of the files as they are now; called only where they decide.

    Raises:
        LedgerError: It is open (DPR-L110); the same question was answered from these very data (DPR-L114), or from
            data that cannot be compared (DPR-L176).
    """
    mark = plan.fingerprint()
    lost = known.state == "lost" and known.plan_fingerprint == mark  # all that is known of it
    replaces(known, mark, why, used=lost)
    past = [each for each in ledger.reservations() if (each.release, each.period) == (known.release, known.period)]
    wanted = question(plan)
    same = [each for each in past if (before := ledger.plan_of(each)) is not None and question(before) == wanted]
    if not same:
        return plan
    read = _records(ledger, same)
    key, tables = hashed()
    for each in same:
        records = read.get(each.sequence, ())
        if not records and not ledger.measured(each.release, each.period, each.plan_fingerprint):
            continue  # nothing was ever read for it, so that nothing was answered
        if any((body.tables, body.key) == (dict(tables), key.id) for body in records):
            raise already_answered(f"{known.release} {known.period}")
        if not records or any(body.key != key.id for body in records):
            raise LedgerError(
                f"whether the data of {known.release}/{known.period} are others than they were cannot be told",
                detail=f"ledger entry {each.sequence} was measured with this very question, "
                + ("from files that were not recorded" if not records else "and its files are known by another key"),
                hint="put the key of source fingerprints back from a backup; or change what is measured"
                if records
                else "change what is measured, if it was wrong",
                code="DPR-L176",
            )
    return restated(plan, sum(not each.revision for each in same))


def _records(ledger: Ledger, past: Sequence[Reservation]) -> dict[int, list[Sourced]]:
    wanted: dict[int, list[Sourced]] = {each.sequence: [] for each in past}
    for body in ledger.files_read():
        if body.reservation in wanted:
            wanted[body.reservation].append(body)
    return wanted


def changed_data_note(ledger: Ledger, known: Reservation, hashed: Hashed) -> str:
    """What to say of the files as they are now beside those that a release was measured from; empty: they are the same.

    Never an error: a release that is there is there, whatever became of its data.
    """
    records = _records(ledger, [known])[known.sequence]
    name = f"{known.release}/{known.period}"
    if not records:
        return ""  # nothing was recorded of them, or nothing was read
    try:
        key, tables = hashed()
    except DpReleaseError as error:
        return f"whether the files are those that {name} was measured from cannot be told: {error.summary}"
    if records[-1].key != key.id:
        return f"whether the files are those that {name} was measured from cannot be told: their key is another one"
    if records[-1].tables == dict(tables):
        return ""
    return (
        f"the files are not those that {name} was measured from, and they were not read: if they were corrected, "
        "`dprelease run SPEC --restate REASON` measures them, charged again"
    )


def nothing_to_restate(release: str, period: str, ledger: Ledger) -> LedgerError:
    """The error for a release that is to be replaced and never was."""
    others = dict.fromkeys(each.period for each in ledger.reservations() if each.release == release)
    periods = f"of {release} there is: {', '.join(others)}" if others else f"nothing of {release} was ever released"
    return LedgerError(
        f"{release}/{period} was never released: there is nothing that could be replaced",
        detail=periods,
        hint="correct `name` or `period` in the spec; or, if this is a new release, run it without `--restate`",
        code="DPR-L125",
    )
