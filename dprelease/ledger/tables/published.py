"""What published bundles prove: an entry that charged one and is not here was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dprelease.canonical import Value
from dprelease.ledger.model.entry import Recovered
from dprelease.ledger.model.reservation import Charge
from dprelease.ledger.model.store import Transaction
from dprelease.ledger.tables import view
from dprelease.plan.document import Head

__all__ = ["Evidence", "PublishedBundle", "bundles_lacking"]


class PublishedBundle(Value):
    """What the manifest of a bundle, which is no rehearsal, says of the entry that charged it.

    Attributes:
        folder: Where the bundle lies, as it is shown.
        release: With ``period`` and ``plan`` (a fingerprint): what was released.
        entry: The entry that charged it.
        ledger: The id of the ledger that has it; empty in older bundles.
        manifest: Digest of the manifest.
    """

    folder: str
    release: str
    period: str
    plan: str
    entry: Head
    ledger: str = ""
    manifest: str = ""


@dataclass(frozen=True)
class Evidence:
    """A bundle, and what its release costs by its own plan, derived again.

    Attributes:
        published: The bundle.
        charges: The charge of each account; none of a planned revision whose first publication ``paid`` for it.
        paid: The plan of that first publication, and what it costs, for where the ledger lacks that one, too.
        wrong: Why the plan cannot be believed; empty: it can.
        before: Whether the plan may be older than today's price of pure noise, and its charge that of ``spent_before``.
        periods: By account those that it was charged for; of one that is not named the bundle's own.
    """

    published: PublishedBundle
    charges: tuple[Charge, ...] = ()
    paid: tuple[str, tuple[Charge, ...]] = ("", ())
    wrong: str = ""
    before: bool = False
    periods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def bundles_lacking(rows: Transaction, bundles: Sequence[PublishedBundle]) -> tuple[PublishedBundle, ...]:
    """The bundles whose charge is not in a ledger: neither the entry itself, nor a recovery that took its place.

    An entry that was given back charges nothing, so that a bundle of it is not accounted for.
    """
    if not bundles:
        return ()
    query = """
        SELECT r.sequence, s.hash FROM reservations AS r JOIN entries AS s ON s.sequence = r.sequence
        LEFT JOIN endings AS e ON e.reservation = r.sequence WHERE e.kind IS NULL OR e.kind <> 'void'"""
    here = {(int(row[0]), str(row[1])) for row in rows.execute(query)}
    missing = [each for each in bundles if (each.entry.sequence, each.entry.hash) not in here]
    if not missing:
        return ()
    query = """
        SELECT s.sequence, r.sequence FROM entries AS s LEFT JOIN reservations AS r ON r.sequence = s.sequence
        WHERE s.kind = 'recover' ORDER BY s.sequence"""
    charged, lost = set(), set()
    for sequence, reservation in rows.execute(query):
        body = view.at(rows, sequence).facts()
        if isinstance(body, Recovered) and body.bundle.sequence:
            charged.add(body.bundle)
        elif isinstance(body, Recovered) and reservation is not None:
            lost.add((body.release, body.period, body.plan))  # what anchors know of a lost release
    return tuple(
        each for each in missing if each.entry not in charged and (each.release, each.period, each.plan) not in lost
    )
