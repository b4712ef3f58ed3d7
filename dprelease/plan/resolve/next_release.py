"""When the period after this one is released: what the author says, or what the schedule does."""

from __future__ import annotations

from dprelease.spec.cron import tick_from
from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.period import following, span

__all__ = ["next_release"]


def next_release(spec: ReleaseSpec) -> str:
    """The day, as ``YYYY-MM-DD`` in the schedule's time zone; empty where nobody says, or the schedule ends before it.

    It is no part of a plan unless the author asks for it: another hour of the schedule leaves plans as they are.
    """
    asked, schedule = spec.release.next, spec.schedule
    if asked is None or asked != "schedule" or schedule is None:
        return "" if asked in (None, "schedule") else str(asked)
    period = following(spec.release.period)
    days = span(period)
    while period in schedule.skip and days is not None:
        period = following(period)
        days = span(period)
    if days is None or (schedule.last is not None and period > schedule.last):
        return ""
    starts = tick_from(schedule.cron, schedule.zone, schedule.complete(days[1]))
    return starts.astimezone(schedule.zone).date().isoformat()
