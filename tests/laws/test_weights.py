"""Sensitivities under weights by brute force: every two neighbouring tables of a unit with up to two weighted records.

What a record contributes is written here a second time, from the words of docs/proofs/weights.md. The verifier's own
derivation must agree with the claim, and refuse one that leaves half of the weight out, however it is spelled.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, reduce
from itertools import combinations_with_replacement, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.factor import Factor, factor_sensitivity
from dprelease.catalog.residual import Residual, residual_sensitivity
from dprelease.catalog.sensitivity import choice_reach, sensitivity
from dprelease.catalog.table import Catalog, Column, Source, Table, TableBounds
from dprelease.catalog.weight import RowWeight, Weighting
from dprelease.errors import BrokenPromiseError
from dprelease.plan.verify.factor import check_factor
from dprelease.plan.verify.reach import _check_sensitivity
from dprelease.plan.verify.residual import check_residual
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

Integers = npt.NDArray[np.int64]
Record = tuple[int, int | None, int]  # cell, value in steps (None: null), weight as it is in the file

CLIP = 3
WEIGHTS = (-1, 1, 3, 9)  # below 0, one step, the clip, above it; 0 is a unit without the record
WEIGHT = RowWeight(column="w", step=Fraction(1), clip=CLIP)
QUANTITIES = [
    Quantity(kind="rows", weight=WEIGHT),
    Quantity(kind="nonnull", column="x", weight=WEIGHT),
    Quantity(kind="balance", column="x", weight=WEIGHT),
    Quantity(kind="sum", column="x", low=0, high=2, weight=WEIGHT),
    Quantity(kind="sum", column="x", low=-2, high=1, weight=WEIGHT),
    Quantity(kind="sum", column="x", low=0, high=4, centre=2, weight=WEIGHT),
]
VALUES = (None, -9, 9)
RELATIONS = list(Neighboring)


def catalog(cells: int, rows: int) -> Catalog:
    """A table of one key column; with more than one row the unit has an id, and that many rows at most."""
    columns = (
        Column(name="k", type="integer", keys=tuple(range(cells))),
        Column(name="x", type="integer"),
        Column(name="w", type="integer"),
    )
    table = Table(
        name="t",
        account="a",
        source=Source(file="t.csv", format="csv"),
        columns=columns,
        unit_id="id" if rows > 1 else None,
        bounds=TableBounds(max_rows=rows) if rows > 1 else None,
        weight=Weighting(column="w", step=Fraction(1), clip=CLIP),
    )
    return Catalog(tables={"t": table})


def contributed(quantity: Quantity, record: Record) -> int:
    """One record, in words: as often as it weighs, at most the clip and at least never."""
    _, value, written = record
    often = min(max(written, 0), CLIP)
    if quantity.kind == "rows":
        return often
    if quantity.kind == "balance":
        return often if value is not None else -often
    if value is None:
        return 0
    return (
        often
        if quantity.kind == "nonnull"
        else often * (min(max(value, quantity.low), quantity.high) - quantity.centre)
    )


@cache
def units(quantity: Quantity, cells: int, rows: int) -> Integers:
    """What every unit with at most so many records has in each cell; one without a record among them."""
    records = [(cell, value, weight) for cell, value, weight in product(range(cells), VALUES, WEIGHTS)]
    singles = np.zeros((len(records) + 1, cells), dtype=np.int64)
    for at, record in enumerate(records, start=1):
        singles[at, record[0]] = contributed(quantity, record)
    singles = np.unique(singles, axis=0)
    chosen = combinations_with_replacement(range(len(singles)), rows)
    return np.unique([singles[list(each)].sum(axis=0) for each in chosen], axis=0)


def moves(quantity: Quantity, cells: int, rows: int, relation: Neighboring) -> Integers:
    """Every change of the cells that one unit can make, for all neighbours."""
    held = units(quantity, cells, rows)
    if relation is Neighboring.ADD_REMOVE:
        return held
    return np.unique(np.concatenate([held - one for one in held]), axis=0)


def norms(changes: Integers) -> tuple[Fraction | int, ...]:
    sizes = np.abs(changes)
    squares = (sizes * sizes).sum(axis=1)
    return int((sizes > 0).sum(axis=1).max()), int(sizes.sum(axis=1).max()), int(squares.max()), int(sizes.max())


def said(claimed: Sensitivity) -> tuple[Fraction | int, ...]:
    return claimed.l0, claimed.l1, claimed.l2_squared, claimed.linf


CASES = list(product(QUANTITIES, (1, 2, 3), (1, 2), RELATIONS))
IDS = [f"{one.kind}-{one.low}-{cells}-{rows}-{relation}" for one, cells, rows, relation in CASES]
every_case = pytest.mark.parametrize(("quantity", "cells", "rows", "relation"), CASES, ids=IDS)


@every_case
def test_no_neighbour_moves_a_weighted_total_further_than_claimed_and_some_move_it_as_far(
    quantity: Quantity, cells: int, rows: int, relation: Neighboring
) -> None:
    aggregate = BoundedAggregate(table="t", by=("k",), quantity=quantity)
    claimed = sensitivity(aggregate, catalog(cells, rows), relation)
    assert norms(moves(quantity, cells, rows, relation)) == said(claimed)


@every_case
def test_every_change_is_within_a_shift(quantity: Quantity, cells: int, rows: int, relation: Neighboring) -> None:
    aggregate = BoundedAggregate(table="t", by=("k",), quantity=quantity)
    shifts = sensitivity(aggregate, catalog(cells, rows), relation).shifts
    assert shifts
    worst = np.array([sorted((*shift, *(0,) * (cells - len(shift))), reverse=True) for shift in shifts])
    found = -np.sort(-np.abs(moves(quantity, cells, rows, relation)), axis=1)
    for change in np.unique(found, axis=0):
        assert (change <= worst).all(axis=1).any(), change


def step_of(quantity: Quantity, claimed: Sensitivity, **more: Any) -> Any:
    aggregate = BoundedAggregate(table="t", by=more.pop("by", ("k",)), quantity=quantity)
    usual = {"joined": (), "gauge": None, "choosing": None, "selecting": None, "pieces": None}
    return SimpleNamespace(id="s", aggregate=aggregate, sensitivity=claimed, **usual, **more)


@every_case
def test_the_verifier_finds_the_same_by_itself_and_refuses_half_of_the_weight(
    quantity: Quantity, cells: int, rows: int, relation: Neighboring
) -> None:
    known = catalog(cells, rows)
    plan: Any = SimpleNamespace(catalog=known, neighboring=relation)
    aggregate = BoundedAggregate(table="t", by=("k",), quantity=quantity)
    claimed = sensitivity(aggregate, known, relation)
    _check_sensitivity(plan, step_of(quantity, claimed))
    for lie in (1, 2, CLIP - 1):  # one record counted once, or as less than it can weigh
        light = quantity.model_copy(update={"weight": WEIGHT.model_copy(update={"clip": lie})})
        less = sensitivity(aggregate.model_copy(update={"quantity": light}), known, relation)
        with pytest.raises(BrokenPromiseError, match="another sensitivity"):
            _check_sensitivity(plan, step_of(quantity, less))
        with pytest.raises(BrokenPromiseError, match="other weights than its table"):
            _check_sensitivity(plan, step_of(light, less))
    plain = quantity.model_copy(update={"weight": None})
    once = sensitivity(aggregate.model_copy(update={"quantity": plain}), known, relation)
    with pytest.raises(BrokenPromiseError, match="another sensitivity"):
        _check_sensitivity(plan, step_of(quantity, once))


def bare(known: Catalog) -> Catalog:
    table = known.tables["t"].model_copy(update={"weight": None})
    return Catalog(tables={"t": table})


def test_the_verifier_refuses_weights_of_a_table_that_has_none() -> None:
    known, (quantity, *_) = catalog(2, 1), QUANTITIES
    claimed = sensitivity(BoundedAggregate(table="t", by=("k",), quantity=quantity), known, Neighboring.ADD_REMOVE)
    plan: Any = SimpleNamespace(catalog=bare(known), neighboring=Neighboring.ADD_REMOVE)
    with pytest.raises(BrokenPromiseError, match="its table has none"):
        _check_sensitivity(plan, step_of(quantity, claimed))


def residual_matrix(shape: tuple[int, ...], axes: tuple[int, ...], grain: int) -> Integers:
    parts = [
        n * np.eye(n, dtype=np.int64) - 1 if at in axes else np.eye(n, dtype=np.int64) for at, n in enumerate(shape)
    ]
    return grain * reduce(np.kron, parts, np.ones((1, 1), dtype=np.int64))


def table_of(shape: tuple[int, ...], rows: int) -> Catalog:
    known = catalog(1, rows).tables["t"]
    keys = tuple(Column(name=f"k{at}", type="integer", keys=tuple(range(n))) for at, n in enumerate(shape))
    return Catalog(tables={"t": known.model_copy(update={"columns": (*keys, *known.columns)})})


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(("shape", "axes"), [((3,), (0,)), ((2, 2), (1,)), ((2, 2), (0, 1)), ((4,), ())])
def test_a_residual_of_weighted_counts_moves_as_far_as_claimed(
    shape: tuple[int, ...], axes: tuple[int, ...], rows: int, relation: Neighboring
) -> None:
    quantity, cells = QUANTITIES[0], int(np.prod(shape))
    residual = Residual(shape=shape, axes=axes, grain=2)
    claimed = residual_sensitivity(residual, rows, relation, CLIP)
    found = moves(quantity, cells, rows, relation) @ residual_matrix(shape, axes, 2).T
    assert norms(found) == said(claimed)
    plan: Any = SimpleNamespace(catalog=table_of(shape, rows), neighboring=relation)
    by = tuple(f"k{at}" for at in range(len(shape)))
    noise = {"mechanism": "discrete_gaussian", "residual": residual, "cells": cells, "by": by}
    check_residual(plan, step_of(quantity, claimed, **noise))
    for lie in (1, CLIP - 1):
        less = residual_sensitivity(residual, rows, relation, lie)
        with pytest.raises(BrokenPromiseError, match="another sensitivity"):
            check_residual(plan, step_of(quantity, less, **noise))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("slices", [1, 2])
def test_sums_along_a_column_of_weighted_counts_move_as_far_as_claimed(
    slices: int, rows: int, relation: Neighboring
) -> None:
    quantity, keys = QUANTITIES[0], 3
    matrix = ((1025, 3, 0), (700, 1024, 5), (-2, 9, 1030))
    factor = Factor(shape=(slices, keys), axis=1, kind="matrix", grain=1024, rows=matrix)
    claimed = factor_sensitivity(factor, rows, relation, CLIP)
    whole = np.kron(np.eye(slices, dtype=np.int64), np.array(matrix))
    assert norms(moves(quantity, slices * keys, rows, relation) @ whole.T)[1:] == said(claimed)[1:]
    plan: Any = SimpleNamespace(catalog=table_of((slices, keys), rows), neighboring=relation)
    noise = {"mechanism": "discrete_gaussian", "residual": None, "factor": factor, "cells": slices * keys}
    by = ("k0", "k1")
    check_factor(plan, step_of(quantity, claimed, by=by, **noise))
    for lie in (1, CLIP - 1):
        less = factor_sensitivity(factor, rows, relation, lie)
        with pytest.raises(BrokenPromiseError, match="another sensitivity"):
            check_factor(plan, step_of(quantity, less, by=by, **noise))


@pytest.mark.parametrize("kind", ["units", "distinct", "square", "quantile"])
def test_what_is_no_sum_over_rows_has_no_weights(kind: Any) -> None:
    with pytest.raises(ValidationError, match="has no weights"):
        Quantity(kind=kind, column="x", weight=WEIGHT)


def test_what_a_unit_has_in_a_cell_has_no_weights() -> None:
    with pytest.raises(ValidationError, match="has no weights"):
        Quantity(kind="sum", column="x", per="unit_cell", weight=WEIGHT)


def test_a_list_is_not_ranked_by_weighted_counts() -> None:
    aggregate = BoundedAggregate(table="t", by=("k",), quantity=QUANTITIES[0])
    with pytest.raises(ValueError, match="without weights"):
        choice_reach(aggregate, catalog(3, 1), Neighboring.ADD_REMOVE, 2)
