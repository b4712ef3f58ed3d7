"""What makes a new row of a ledger wrong, in SQL that both databases understand; each keeps it in triggers of its own.

A SQLite ledger holds these texts, and is compared with them byte by byte: no space of them may change.
"""

from __future__ import annotations

__all__ = ["ENDED", "MEASURED", "NOT_OPEN", "reserved"]

NOT_OPEN = """NOT EXISTS (SELECT 1 FROM reservations WHERE sequence = NEW.reservation)
        OR EXISTS (SELECT 1 FROM endings WHERE reservation = NEW.reservation)"""
"""A row of an open reservation: there is none, or it has ended."""

ENDED = """
        EXISTS (SELECT 1 FROM endings WHERE reservation = NEW.reservation OR sequence = NEW.sequence)
        OR NEW.kind = 'void' AND EXISTS (SELECT 1 FROM sources WHERE reservation = NEW.reservation)
        OR NEW.kind = 'void' AND EXISTS (
            SELECT 1 FROM measurements AS m JOIN reservations AS r
            ON m.release = r.release AND m.period = r.period AND m.plan = r.plan
            WHERE r.sequence = NEW.reservation AND m.sequence > r.sequence)"""
"""An ending: the reservation has one, or is given back although it was read or measured."""

MEASURED = """
        EXISTS (
            SELECT 1 FROM measurements WHERE sequence = NEW.sequence OR identity = NEW.identity
            OR release = NEW.release AND period = NEW.period AND plan = NEW.plan AND step = NEW.step)
        OR NOT EXISTS (
            SELECT 1 FROM reservations AS r LEFT JOIN endings AS e ON e.reservation = r.sequence
            WHERE r.release = NEW.release AND r.period = NEW.period AND r.plan = NEW.plan
            AND r.sequence < NEW.sequence AND e.kind IS NULL)"""
"""A measurement: its step has one, or no open reservation has its plan."""


def reserved(differs: str) -> str:
    """A reservation: the period has an open one or had this plan, or what it restates is not the last one that ended.

    Args:
        differs: How the database says that two values differ, either of which may be NULL.
    """
    return f"""EXISTS (
            SELECT 1 FROM reservations AS r LEFT JOIN endings AS e ON e.reservation = r.sequence
            WHERE r.release = NEW.release AND r.period = NEW.period
            AND (e.kind IS NULL OR r.plan = NEW.plan AND e.kind <> 'void'))
        OR NEW.restates {differs} (
            SELECT max(r.sequence) FROM reservations AS r JOIN endings AS e ON e.reservation = r.sequence
            WHERE r.release = NEW.release AND r.period = NEW.period AND e.kind <> 'void')"""  # noqa: S608 - constants
