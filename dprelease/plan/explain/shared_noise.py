"""What a series gains and what its periods lose: beside independent noise, and beside the best that there is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from dprelease.catalog.series.aims import Aim
from dprelease.catalog.series.band import SumOf, lengths_of
from dprelease.catalog.series.best_band import least_variance
from dprelease.estimate.series import endless_variances
from dprelease.plan.document import PlannedSeries, ReleasePlan
from dprelease.privacy.budget import round_up

__all__ = ["series_facts", "series_texts"]


def series_facts(plan: ReleasePlan) -> list[dict[str, Any]]:
    """For every query with a series the standard errors of a period and of its sums, in a series without end.

    They are roots of mean variances over the periods that a sum can be of (``ytd``: the months of a year), the error of
    a period with independent noise at the same charge being 1; decimal text, rounded up.
    """
    found = []
    for name, query in {query.workload or query.name: query for query in plan.queries}.items():
        if query.series is not None:
            sums: tuple[SumOf, ...] = (1, *query.series.sums)
            errors = {"period" if which == 1 else str(which): _errors(query.series, which) for which in sums}
            read = len(query.series.draw.read)
            found.append({"query": name, "reads": read, "band": query.series.band.periods, "errors": errors})
    return found


def _errors(series: PlannedSeries, which: SumOf) -> Mapping[str, str]:
    lengths = lengths_of(which, series.year or 1, series.horizon)
    year = series.year or 1
    aim = Aim.of(series.minimize, series.sums, year, series.horizon)
    known = endless_variances(series.band, max(lengths))

    def told(variances: list[Fraction]) -> str:
        return round_up(Fraction(math.sqrt(sum(variances) / len(variances))), 4)

    return {
        "independent": told([Fraction(each) for each in lengths]),
        "shared": told([series.band.squared * known[each - 1] for each in lengths]),
        "best": told([Fraction(least_variance(aim, each)) for each in lengths]),
    }


def series_texts(plan: ReleasePlan) -> Iterator[str]:
    """The same in sentences, for people."""
    for each in series_facts(plan):
        errors: Mapping[str, Mapping[str, str]] = each["errors"]
        yield (
            f"{each['query']}: its periods share their noise, {each['reads']} of at most {each['band']} are read now; "
            "standard errors in a series without end, where a period with independent noise at the same charge has 1:"
        )
        for name, found in errors.items():
            what = {"period": "a period", "ytd": "year to date", "total": "since the first period"}.get(
                name, f"{name} periods"
            )
            yield f"  {what}: {found['shared']} (independent {found['independent']}, best possible {found['best']})"
