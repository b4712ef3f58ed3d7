"""What an account had before and behind an incident, in the sums that its lifetime cap is about. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from dprelease.ledger.balance import Balance
from dprelease.ledger.entry import Incident
from dprelease.ledger.tally import Taken
from dprelease.plan.document import Account
from dprelease.privacy.filters import Spent
from dprelease.privacy.stretches import counted

__all__ = ["sums_around"]


def sums_around(
    body: Incident, releases: Mapping[int, Taken], after: Balance, terms: Account
) -> tuple[Spent | None, Spent | None]:
    """Before and behind; None where there is no sum (``pld``). Of a parallel account its fullest stretch, or two.

    Args:
        body: Of the incident.
        releases: Those that it corrects, by entry.
        after: The balance that it carries.
        terms: Of the account.
    """
    if terms.composition == "pld":
        return None, None
    added = [(releases[each.reservation], each.spent) for each in body.corrected if each.account == terms.name]
    if terms.parallel is None:
        return _less(after.spent, [spent for _, spent in added]), after.spent
    before = {
        name: _less(spent, [more for taken, more in added if name in taken.parts[terms.name].windows])
        for name, spent in after.windows.items()
    }
    relation, now = terms.neighboring, after.windows
    return counted(before, before, relation), counted(now, now, relation)


def _less(total: Spent, added: Sequence[Spent]) -> Spent:
    loss = total.loss - sum((each.loss for each in added), Fraction(0))
    reveals = total.reveals - sum((each.reveals for each in added), Fraction(0))
    return Spent(loss=max(Fraction(0), loss), reveals=max(Fraction(0), reveals))
