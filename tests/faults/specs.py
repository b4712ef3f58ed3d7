"""The specs that faults are planted on the path of: one for each kind of draw, measure, bound and relation."""

from __future__ import annotations

from fractions import Fraction

from dprelease.plan.document import Account, ReleasePlan
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Neighboring
from tests.planned import plan_of

__all__ = ["SPECS", "plan_under_attack"]


def plan_under_attack(name: str) -> ReleasePlan:
    """The plan of one of ``SPECS``; joint draws are for accounts that add epsilons up."""
    if not name.startswith("joint"):
        return plan_of(SPECS[name])
    relation = Neighboring.REPLACE_ONE if name.endswith("replaced") else Neighboring.ADD_REMOVE
    cap = Budget(epsilon=Fraction(100))
    return plan_of(
        SPECS[name],
        accounts=[Account(name="people", unit="person", neighboring=relation, composition="basic", lifetime=cap)],
    )


_HEAD = """
dprelease: 1
release: {name: attacked, period: 2024}
privacy:
  unit: {entity: person}
  neighboring: RELATION
  budget: BUDGET
  noise: NOISE
tables:
  people:
    account: people
UNIT    source: {file: people.csv}
    columns:
      who: {type: text}
      place: {type: text, keys: [a, b, c]}
      sex: {type: integer, keys: [1, 2]}
      income: {type: integer, range: [0, 20]}
queries:
"""
_UNIT = "    unit_id: who\n    bounds: {max_rows: 3}\n"
_COUNT = "  n: {table: people, by: [place], measures: {n: {count: rows}}}\n"
_TWO = '  m: {table: people, by: [place], where: "sex = 1", measures: {m: {count: rows}}}\n'


def _spec(
    queries: str,
    noise: str = "laplace",
    relation: str = "add_remove",
    unit: str = _UNIT,
    budget: str = "{epsilon: 1}",
) -> str:
    names = {"RELATION": relation, "BUDGET": budget, "NOISE": noise, "UNIT": unit}
    text = _HEAD
    for name, value in names.items():
        text = text.replace(name, value)
    return (text if unit else text.replace("      who: {type: text}\n", "")) + queries


_GAUSSIAN = "{epsilon: 2, delta: 1e-5}"
_JOINT = "  n: {table: people, by: [place], measures: {n: {count: rows}, a: {count: sex}, b: {count: income}}}\n"
SPECS: dict[str, str] = {
    "counts": _spec(_COUNT),
    "rows": _spec(_COUNT, unit=""),
    "rows_where": _spec(_TWO, unit=""),  # counted by a statement, and not in arrays
    "replaced": _spec(_COUNT, relation="replace_one", unit=""),
    "gaussian": _spec(_COUNT, "gaussian", budget=_GAUSSIAN),
    "two": _spec(_COUNT + _TWO, "gaussian", budget=_GAUSSIAN),
    "one_cell": _spec("  n: {table: people, measures: {n: {count: rows}}}\n"),
    "sums": _spec("  s: {table: people, by: [place], measures: {s: {sum: income, clip: [0, 10], clip_per: row}}}\n"),
    "sums_of_rows": _spec("  s: {table: people, by: [place], measures: {s: {sum: income, clip: [0, 10]}}}\n", unit=""),
    "per_unit": _spec(
        "  s: {table: people, by: [place], measures: {s: {sum: income, clip: [0, 10], clip_per: unit_cell}}}\n"
    ),
    "units": _spec("  u: {table: people, by: [place], measures: {u: {count: units}}}\n"),
    "groups": _spec("  n: {table: people, by: [place], bounds: {max_groups: 1}, measures: {n: {count: rows}}}\n"),
    "within": _spec(
        "  n: {table: people, by: [place], bounds: {max_rows_per_group: 1}, measures: {n: {count: rows}}}\n"
    ),
    "distinct": _spec("  d: {table: people, by: [place], measures: {d: {count_distinct: income}}}\n"),
    "quantile": _spec(
        "  q: {table: people, measures: {q: {quantiles: income, at: [0.5]}}}\n", unit="", budget="{epsilon: 4}"
    ),
    "quantiles": _spec(
        "  q: {table: people, by: [place], measures: {q: {quantiles: income, at: [0.25, 0.5]}}}\n",
        "auto",
        unit="",
        budget="{epsilon: 4, delta: 1e-6}",
    ),
    "marginals": _spec(
        "  w: {table: people, marginals: {of: [place, sex], ways: [1, 2]}}\n", "gaussian", unit="", budget=_GAUSSIAN
    ),
    "keys": _spec(
        "  k: {table: people, by: [place], keys: private, measures: {k: {count: rows}}}\n",
        unit="    unit_id: who\n    bounds: {max_rows: 1}\n",
        budget="{epsilon: 2, delta: 1e-2}",
    ),
    "sums_within": _spec(
        "  s: {table: people, by: [place], bounds: {max_rows_per_group: 1}, "
        "measures: {s: {sum: income, clip: [0, 10], clip_per: row}}}\n"
    ),
    "gaussian_keys": _spec(
        "  k: {table: people, by: [place], keys: private, measures: {k: {count: rows}}}\n",
        "gaussian",
        unit="    unit_id: who\n    bounds: {max_rows: 1}\n",
        budget="{epsilon: 2, delta: 1e-2}",
    ),
    "bounded_keys": _spec(
        "  k: {table: people, by: [place], keys: private, bounds: {max_groups: 1}, measures: {k: {count: rows}}}\n",
        budget="{epsilon: 2, delta: 1e-2}",
    ),
    "uneven": _spec(
        "  n: {table: people, by: [place], bounds: {max_rows_per_group: 2}, measures: {n: {count: rows}}}\n",
        "gaussian",
        budget=_GAUSSIAN,
    ),
    "filtered": _spec(
        '  n: {table: people, by: [place], where: "income < 10", bounds: {max_groups: 1}, measures: {n: {count: rows}}}\n'
    ),
    "negative": _spec(
        "  s: {table: people, by: [place], measures: {s: {sum: income, clip: [-10, 5], clip_per: row}}}\n"
    ).replace("range: [0, 20]", "range: [-20, 20]"),
    "decimals": _spec(
        "  s: {table: people, by: [place], measures: {s: {sum: income, clip: [0, 10], clip_per: row}}}\n"
    ).replace("{type: integer, range: [0, 20]}", "{type: decimal, range: [0, 20], step: 0.5}"),
    "joint": _spec(_JOINT, "auto", unit=""),
    "joint-replaced": _spec(_JOINT, "auto", relation="replace_one", unit=""),
    "list": _spec("  l: {table: people, top_k: place, k: 2}\n", unit="", budget="{epsilon: 2}"),
    "list-replaced": _spec(
        "  l: {table: people, top_k: place, k: 2}\n", relation="replace_one", unit="", budget="{epsilon: 2}"
    ),
    "coins": _spec(
        "  k: {table: people, by: [place], keys: private, bounds: {max_groups: 2}, measures: {k: {count: rows}}}\n",
        budget="{epsilon: 1/2, delta: 1e-2}",
    ),
    "joined": _spec(_COUNT, unit=_UNIT + "    join: [{table: others, on: who, max_matches: 2, add: [age]}]\n")
    .replace(
        "queries:",
        "  others:\n    account: people\n    unit_id: who\n    bounds: {max_rows: 2}\n    source: {file: others.csv}\n"
        "    columns: {who: {type: text}, age: {type: integer, keys: [1, 2]}}\nqueries:",
    )
    .replace("      sex: {", "      age: {type: integer, keys: [1, 2]}\n      sex: {")
    .replace("by: [place]", "by: [place, age]"),
}
SPECS["matches"] = SPECS["joined"].replace(
    _COUNT.replace("[place]", "[place, age]"),
    '  n: {table: people, by: [place], bounds: {max_rows_per_group: 1}, measures: {n: {count: rows, where: "age = 1"}}}\n',
)
SPECS["nobody_sums"] = _spec(
    "  s: {table: people, by: [place], measures: {s: {sum: income, clip: [-10, 10], clip_per: unit_cell}}}\n",
    unit=_UNIT + "    null_id: unit\n",
).replace("range: [0, 20]", "range: [-20, 20]")
SPECS["weights"] = _spec(_COUNT, unit="    weight: {column: weight, clip: 5, step: 1}\n").replace(
    "      sex: {", "      weight: {type: integer}\n      sex: {"
)
SPECS["chosen_clip"] = _spec(
    "  s: {table: people, by: [place], measures: {s: {sum: income, clip: {private: true, within: [0, 20]}}}}\n",
    unit="",
    budget="{epsilon: 20}",
)
SPECS["joined_nobody"] = SPECS["joined"].replace("unit_id: who\n", "unit_id: who\n    null_id: unit\n")
