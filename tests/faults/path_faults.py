"""Faults of the measuring path, each a name and a small patch, and a spec whose path it is on.

Every one makes a release tell more than is claimed. ``audit`` must see it; those that are in the plan ``verify`` must
refuse as well.
"""

from __future__ import annotations

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
from tests.faults.fault import Fault, Spoil
from tests.faults.planting import Patch, Seen, everywhere

__all__ = ["PATH_FAULTS"]


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

    everywhere(patch, "hidden", hidden)


def _scaled(factor_: Fraction) -> Patch:
    def plant(patch: pytest.MonkeyPatch) -> None:
        real: Any = draws.add_native
        everywhere(patch, "add_native", lambda kind, values, scale, *rest: real(kind, values, scale * factor_, *rest))

    return plant


def _noiseless(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, "add_native", lambda kind, values, scale, *rest: values.copy())


def _parity(patch: pytest.MonkeyPatch) -> None:
    """Noise in steps of two: whether a count is odd is seen."""
    real: Any = draws.add_native
    everywhere(
        patch,
        "add_native",
        lambda kind, values, scale, *rest: values + 2 * (real(kind, np.zeros_like(values), scale, *rest) // 2),
    )


def _one_sided(patch: pytest.MonkeyPatch) -> None:
    real: Any = draws.add_native
    everywhere(
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

    everywhere(patch, "add_native", cut)


def _single_cells(patch: pytest.MonkeyPatch) -> None:
    real: Any = draw.hidden

    def hidden(step: Any, exact: Any, *rest: Any) -> Any:
        if step.cells == 1 and isinstance(exact[0], Exact):
            return true_numbers(exact[0])
        return real(step, exact, *rest)

    everywhere(patch, "hidden", hidden)


def _half_scale(patch: pytest.MonkeyPatch) -> None:
    """What is drawn is not what was accounted."""
    real: Any = draw.hidden

    def hidden(step: Any, exact: Any, *rest: Any) -> Any:
        return real(step.model_copy(update={"scale": step.scale / 2}), exact, *rest)

    everywhere(patch, "hidden", hidden)


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


_LAPLACE = Seen("unit.test_draw", "test_what_is_drawn_has_the_planned_scale", {"noise": "laplace"})
_GAUSSIAN = Seen("unit.test_draw", "test_what_is_drawn_has_the_planned_scale", {"noise": "gaussian"})
_LAW = Seen("statistical.test_samplers", "test_noise_has_the_claimed_law_and_a_wrong_scale_is_seen")
_BOUNDS = Seen(
    "conformance.test_engines_units",
    "test_every_quantity_under_every_bound",
    {"null_id": "unit"},
    {"kind": lambda _: "duckdb"},
)


def _attacked(name: str, kind: str, spec: str, tells: str, plant: Patch, seen: Seen) -> Fault:
    return Fault(name, kind, tells, seen, plant, spec=spec, audit=True)


def _spoilt(name: str, spec: str, tells: str) -> Fault:
    """``verify`` refuses it, which is its test; an audit sees it in a plan that was never verified."""
    return Fault(name, "sensitivity", tells, None, spoil=_HALF, spec=spec, verify="claims another", audit=True)


PATH_FAULTS: tuple[Fault, ...] = (
    _attacked("laplace-half", "law", "counts", "epsilon x 2", _scaled(Fraction(1, 2)), _LAPLACE),
    _attacked("laplace-three-quarters", "law", "counts", "epsilon x 4/3", _scaled(Fraction(3, 4)), _LAPLACE),
    _attacked("gaussian-half", "law", "gaussian", "mu x 2", _scaled(Fraction(1, 2)), _GAUSSIAN),
    _attacked("gaussian-by-variance", "law", "gaussian", "mu x 1.41", _scaled(Fraction(181, 256)), _GAUSSIAN),
    _attacked("no-noise", "law", "counts", "everything", _noiseless, _LAPLACE),
    _attacked("no-gaussian-noise", "law", "gaussian", "everything", _noiseless, _GAUSSIAN),
    _attacked("even-noise", "law", "rows", "whether a count is odd", _parity, _LAW),
    _attacked("one-sided-noise", "law", "counts", "a least count", _one_sided, _LAW),
    _attacked("cut-noise", "law", "counts", "the ends", _cut, _LAW),
    _attacked(
        "shared-noise",
        "reuse",
        "two",
        "exact differences of two tables",
        _shared,
        Seen("unit.test_draw", "test_two_steps_of_one_pass_have_noise_of_their_own"),
    ),
    _attacked(
        "single-cells-shown",
        "path",
        "one_cell",
        "the exact total",
        _single_cells,
        Seen("unit.test_draw", "test_a_total_of_one_cell_is_hidden_too"),
    ),
    _attacked("drawn-at-half-scale", "path", "counts", "epsilon x 2", _half_scale, _LAPLACE),
    _attacked("replaced-at-half-scale", "path", "replaced", "epsilon x 2", _half_scale, _LAPLACE),
    _attacked(
        "marginals-at-half-scale",
        "path",
        "marginals",
        "mu x 2",
        _half_scale,
        Seen("unit.test_pieces", "test_a_residual_is_drawn_at_the_planned_scale"),
    ),
    _attacked("one-row-more", "bounds", "counts", "a unit's further row", _one_row_more, _BOUNDS),
    _attacked("one-row-more-unchecked", "bounds", "counts", "a unit's further row", _unchecked, _BOUNDS),
    _attacked("one-group-more-unchecked", "bounds", "groups", "a unit's further cell", _unchecked, _BOUNDS),
    _attacked("one-row-of-a-group-more", "bounds", "sums_within", "a unit's further row", _unchecked, _BOUNDS),
    _attacked("sum-unclipped", "clip", "sums", "large values", _unclipped, _BOUNDS),
    _attacked("unit-sum-unclipped", "clip", "per_unit", "large sums", _unclipped_units, _BOUNDS),
    _attacked("rows-twice", "count", "rows_where", "epsilon x 2", _double_rows, _BOUNDS),
    _attacked(
        "quantile-by-half-scale",
        "choice",
        "quantile",
        "epsilon x 4",
        _quantile_scores,
        Seen("unit.test_draw", "test_a_quantile_is_chosen_at_the_planned_scale"),
    ),
    _attacked(
        "keys-without-noise",
        "keys",
        "keys",
        "every key",
        _keys_without_noise,
        Seen("unit.test_draw", "test_keys_are_selected_at_the_planned_scale", {"mechanism": "laplace_threshold"}),
    ),
    _attacked(
        "contrasts-eightfold",
        "workload",
        "marginals",
        "mu x 8",
        _contrasted_eightfold,
        Seen("unit.test_noise_residual", "test_without_noise_a_draw_is_the_kronecker_product_times_the_counts"),
    ),
    _spoilt("claim-of-half", "counts", "epsilon x 2"),
    _spoilt("gaussian-claim-of-half", "gaussian", "mu x 2"),
    _spoilt("sum-claim-of-half", "sums", "epsilon x 2"),
    _spoilt("replaced-claim-of-half", "replaced", "epsilon x 2"),
    _spoilt("distinct-claim-of-half", "distinct", "epsilon x 2"),
)
