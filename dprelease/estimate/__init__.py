"""What do the noisy numbers say? Arithmetic after the noise: values, standard errors, margins, status.

Floor 4: pure. It sees measurements and public laws only, so nothing here can cost privacy.

>>> from fractions import Fraction
>>> import numpy as np
>>> from dprelease.catalog.aggregate import Quantity
>>> from dprelease.catalog.table import Column
>>> from dprelease.measures import Noisy
>>> from dprelease.measures.count import Count
>>> from dprelease.noise import MECHANISMS
>>> noisy = Noisy(Quantity(kind="rows"), np.array([120, 3]), MECHANISMS["discrete_laplace"].law(Fraction(10)))
>>> sex = Column(name="sex", type="integer", keys=(1, 2))
>>> table = estimate(
...     "people", "People by sex", (sex,), {"n": Count(count="rows")}, {"n": [noisy]},
...     confidence=Fraction(95, 100), unreliable_above=Fraction(1, 2),
... )
>>> list(table.measures[0].status)
['ok', 'unreliable']
"""

from __future__ import annotations

from dprelease.estimate.figures import FigureRules
from dprelease.estimate.intervals import interval
from dprelease.estimate.keys import Coded, Rows, as_rows, coded
from dprelease.estimate.tables import (
    RANK,
    PublishedMeasure,
    PublishedTable,
    Status,
    estimate,
    full_product,
    ranking_table,
    statuses,
)

__all__ = [
    "RANK",
    "Coded",
    "FigureRules",
    "PublishedMeasure",
    "PublishedTable",
    "Rows",
    "Status",
    "as_rows",
    "coded",
    "estimate",
    "full_product",
    "interval",
    "ranking_table",
    "statuses",
]
