"""Faults of the measuring path, each a name and a small patch, and a spec whose path it is on.

Every one makes a release tell more than is claimed. ``audit`` must see it; those that are in the plan ``verify`` must
refuse as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.engines.duck import bounding, bounds_check, query
from dprelease.noise.exact import Exact
from dprelease.noise.mechanisms import (
    exponential,
    residual,
    threshold,
)
from dprelease.noise.native import draws
from dprelease.noise.truth import true_numbers
from dprelease.plan.document import Step
from dprelease.release import draw

__all__ = ["FAULTS", "SPECS", "Fault"]

Patch = Callable[[pytest.MonkeyPatch], None]
Spoil = Callable[[Step], Step]


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: As the table of faults has it.
        kind: What it is about.
        spec: A name in ``SPECS``.
        tells: What an outsider then learns.
        patch: Plants it in the code; None: it is in the plan.
        spoil: Plants it in every step of the plan; ``verify`` refuses such a plan.
    """

    name: str
    kind: str
    spec: str
    tells: str
    patch: Patch | None = None
    spoil: Spoil | None = None


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
SPECS: dict[str, str] = {
    "counts": _spec(_COUNT),
    "rows": _spec(_COUNT, unit=""),
    "replaced": _spec(_COUNT, relation="replace_one", unit=""),
    "gaussian": _spec(_COUNT, "gaussian", budget=_GAUSSIAN),
    "two": _spec(_COUNT + _TWO, "gaussian", budget=_GAUSSIAN),
    "one_cell": _spec("  n: {table: people, measures: {n: {count: rows}}}\n"),
    "sums": _spec("  s: {table: people, by: [place], measures: {s: {sum: income, clip: [0, 10], clip_per: row}}}\n"),
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
    "marginals": _spec(
        "  w: {table: people, marginals: {of: [place, sex], ways: [1, 2]}}\n", "gaussian", unit="", budget=_GAUSSIAN
    ),
    "keys": _spec(
        "  k: {table: people, by: [place], keys: private, measures: {k: {count: rows}}}\n",
        unit="    unit_id: who\n    bounds: {max_rows: 1}\n",
        budget="{epsilon: 2, delta: 1e-2}",
    ),
}


def _shared(patch: pytest.MonkeyPatch) -> None:
    """The second table gets the very noise of the first."""
    real: Any = draw.hidden
    state: dict[str, Any] = {}

    def hidden(step: Any, exact: Any, *rest: Any) -> Any:
        answer, true = real(step, exact, *rest), true_numbers(exact[0])
        if step.id.startswith("n."):
            state["noise"] = answer - true
        elif len(state.get("noise", ())) == len(true):
            return true + state["noise"]
        return answer

    _everywhere(patch, "hidden", hidden)


def _everywhere(patch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    """A name in every module of ours that has imported it."""
    import sys

    for module in [*sys.modules.values()]:
        if getattr(module, "__name__", "").startswith("dprelease.") and name in vars(module):
            patch.setattr(module, name, value)


def _scaled(factor_: Fraction) -> Patch:
    def plant(patch: pytest.MonkeyPatch) -> None:
        real: Any = draws.add_native
        _everywhere(patch, "add_native", lambda kind, values, scale, *rest: real(kind, values, scale * factor_, *rest))

    return plant


def _noiseless(patch: pytest.MonkeyPatch) -> None:
    _everywhere(patch, "add_native", lambda kind, values, scale, *rest: values.copy())


def _parity(patch: pytest.MonkeyPatch) -> None:
    """Noise in steps of two: whether a count is odd is seen."""
    real: Any = draws.add_native
    _everywhere(
        patch,
        "add_native",
        lambda kind, values, scale, *rest: values + 2 * (real(kind, np.zeros_like(values), scale, *rest) // 2),
    )


def _one_sided(patch: pytest.MonkeyPatch) -> None:
    real: Any = draws.add_native
    _everywhere(
        patch,
        "add_native",
        lambda kind, values, scale, *rest: values + np.abs(real(kind, np.zeros_like(values), scale, *rest)),
    )


def _cut(patch: pytest.MonkeyPatch) -> None:
    """Noise clamped to one scale: what lies beyond tells the truth apart."""
    real: Any = draws.add_native

    def cut(kind: Any, values: Any, scale: Any, *rest: Any) -> Any:
        most = max(1, int(scale))
        return values + np.clip(real(kind, np.zeros_like(values), scale, *rest), -most, most)

    _everywhere(patch, "add_native", cut)


def _single_cells(patch: pytest.MonkeyPatch) -> None:
    real: Any = draw.hidden

    def hidden(step: Any, exact: Any, *rest: Any) -> Any:
        if step.cells == 1 and isinstance(exact[0], Exact):
            return true_numbers(exact[0])
        return real(step, exact, *rest)

    _everywhere(patch, "hidden", hidden)


def _half_scale(patch: pytest.MonkeyPatch) -> None:
    """What is drawn is not what was accounted."""
    real: Any = draw.hidden

    def hidden(step: Any, exact: Any, *rest: Any) -> Any:
        return real(step.model_copy(update={"scale": step.scale / 2}), exact, *rest)

    _everywhere(patch, "hidden", hidden)


def _one_row_more(patch: pytest.MonkeyPatch) -> None:
    real: Any = bounding._capped
    patch.setattr(bounding, "_capped", lambda limit: real(limit) + 1)


def _unchecked(patch: pytest.MonkeyPatch) -> None:
    _one_row_more(patch)
    patch.setattr(bounds_check, "_check_each", lambda *_: None)


def _unclipped(patch: pytest.MonkeyPatch) -> None:
    real: Any = query._contribution
    wide: Any = vars(query)["steps"]
    free = {"low": -1000, "high": 1000}
    patch.setattr(query, "steps", lambda rows, table, item: wide(rows, table, item.model_copy(update=free)))
    patch.setattr(query, "_contribution", real)


def _unclipped_units(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(query, "clip", lambda value, low, high: value)


def _double_rows(patch: pytest.MonkeyPatch) -> None:
    real: Any = query._total
    patch.setattr(query, "_total", lambda *given, **named: 2 * real(*given, **named))


def _quantile_scores(patch: pytest.MonkeyPatch) -> None:
    real: Any = exponential.Powers
    patch.setattr(exponential, "Powers", lambda scale: real(scale / 4))


def _keys_without_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(threshold, "add_noise", lambda kind, counts, scale, sampler: counts + 100)


def _contrasted_eightfold(patch: pytest.MonkeyPatch) -> None:
    real: Any = residual._contrast

    def twice(numbers: Any, shape: Any, axis: int) -> None:
        real(numbers, shape, axis)
        numbers *= 8

    patch.setattr(residual, "_contrast", twice)


def _claims(**parts: Fraction) -> Spoil:
    """A step that claims so much less than one unit can change, with noise for that alone."""

    def spoil(step: Step) -> Step:
        whole = step.sensitivity
        half = {
            "l1": whole.l1 * parts["by"],
            "l2_squared": whole.l2_squared * parts["by"] ** 2,
            "linf": whole.linf * parts["by"],
            "shifts": tuple(tuple(max(1, int(each * parts["by"])) for each in shift) for shift in whole.shifts),
        }
        sensitivity = whole.model_copy(update=half)
        return step.model_copy(update={"sensitivity": sensitivity, "scale": step.scale})

    return spoil


_HALF = _claims(by=Fraction(1, 2))

FAULTS: tuple[Fault, ...] = (
    Fault("laplace-half", "law", "counts", "epsilon x 2", _scaled(Fraction(1, 2))),
    Fault("laplace-three-quarters", "law", "counts", "epsilon x 4/3", _scaled(Fraction(3, 4))),
    Fault("gaussian-half", "law", "gaussian", "mu x 2", _scaled(Fraction(1, 2))),
    Fault("gaussian-by-variance", "law", "gaussian", "mu x 1.41", _scaled(Fraction(181, 256))),
    Fault("no-noise", "law", "counts", "everything", _noiseless),
    Fault("no-gaussian-noise", "law", "gaussian", "everything", _noiseless),
    Fault("even-noise", "law", "rows", "whether a count is odd", _parity),
    Fault("one-sided-noise", "law", "counts", "a least count", _one_sided),
    Fault("cut-noise", "law", "counts", "the ends", _cut),
    Fault("shared-noise", "reuse", "two", "exact differences of two tables", _shared),
    Fault("single-cells-shown", "path", "one_cell", "the exact total", _single_cells),
    Fault("drawn-at-half-scale", "path", "counts", "epsilon x 2", _half_scale),
    Fault("replaced-at-half-scale", "path", "replaced", "epsilon x 2", _half_scale),
    Fault("marginals-at-half-scale", "path", "marginals", "mu x 2", _half_scale),
    Fault("one-row-more", "bounds", "counts", "a unit's further row", _one_row_more),
    Fault("one-row-more-unchecked", "bounds", "counts", "a unit's further row", _unchecked),
    Fault("one-group-more-unchecked", "bounds", "groups", "a unit's further cell", _unchecked),
    Fault("one-row-of-a-group-more", "bounds", "within", "a unit's further row", _unchecked),
    Fault("sum-unclipped", "clip", "sums", "large values", _unclipped),
    Fault("unit-sum-unclipped", "clip", "per_unit", "large sums", _unclipped_units),
    Fault("rows-twice", "count", "rows", "epsilon x 2", _double_rows),
    Fault("quantile-by-half-scale", "choice", "quantile", "epsilon x 4", _quantile_scores),
    Fault("keys-without-noise", "keys", "keys", "every key", _keys_without_noise),
    Fault(
        "contrasts-eightfold",
        "workload",
        "marginals",
        "mu x 2",
        _contrasted_eightfold,
    ),
    Fault("claim-of-half", "sensitivity", "counts", "epsilon x 2", spoil=_HALF),
    Fault("gaussian-claim-of-half", "sensitivity", "gaussian", "mu x 2", spoil=_HALF),
    Fault("sum-claim-of-half", "sensitivity", "sums", "epsilon x 2", spoil=_HALF),
    Fault("replaced-claim-of-half", "sensitivity", "replaced", "epsilon x 2", spoil=_HALF),
    Fault("distinct-claim-of-half", "sensitivity", "distinct", "epsilon x 2", spoil=_HALF),
)
