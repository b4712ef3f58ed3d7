"""Published tables as their files have them, by the layout that the plan names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.plan.document import ReleasePlan
from dprelease.publish.csv_text import written

__all__ = ["filed"]


def filed(plan: ReleasePlan, tables: Iterable[PublishedTable]) -> tuple[PublishedTable, ...]:
    """The tables as their files have them: by the rules of the layout that the plan names.

    A layout decides bytes of files that were published, so that it is never changed; a further one gets the next
    number. Files of the first layout have no column for the estimate of a number that was moved; what people read tells
    of it in either layout. In the second one

    - the margin of a number that was made whole is the next whole one: files hold whole numbers there, and the nearest
      could be too small (ends of the interval are rounded to the nearest, for the true number is whole as well);
    - a number on a decimal grid is the double that its text in the CSV file reads as, so that Parquet has the same.
    """
    period = plan.release.period if plan.publish.period_column else ""
    return tuple(
        replace(table, measures=tuple(_filed(each, plan.publish.layout) for each in table.measures), period=period)
        for table in tables
    )


def _filed(measure: PublishedMeasure, layout: int) -> PublishedMeasure:
    if layout == 1:
        return measure if measure.unadjusted is None else replace(measure, unadjusted=None)
    if measure.integer:
        return measure if measure.unadjusted is None else replace(measure, margin=np.ceil(measure.margin))
    if not measure.places:
        return measure
    value, margin, lower, upper = (
        written(each, measure.places) for each in (measure.value, measure.margin, measure.lower, measure.upper)
    )
    return replace(measure, value=value, margin=margin, lower=lower, upper=upper)
