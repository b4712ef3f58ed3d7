"""Steps that are measured in pieces, held against the tree and the data's side of each a second time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from dprelease.plan.document import Piece, ReleasePlan, Step, Workload
from dprelease.plan.verify.reach import require

__all__ = ["check_pieces"]


def check_pieces(plan: ReleasePlan) -> None:
    """Every step in pieces is a draw whose nodes have nothing to do with one another, and its pieces are its cells.

    The tree is climbed here node by node, from the level to the top, and not mapped down as ``plan.document.pieces``
    does it.

    Raises:
        BrokenPromiseError: If a step may not be cut, its pieces are not all of its cells, each once, or two
            measurements of the plan have one id.
    """
    cut = {step.id: step for step in plan.steps if step.pieces is not None}
    takes = [(workload, take) for workload in plan.workloads for take in workload.takes if take.step in cut]
    once = Counter(take.step for _, take in takes)
    pieces = plan.pieces
    require(set(pieces) == set(cut), "a step is in pieces that the plan does not have, or the other way round")
    for step in cut.values():
        require(once[step.id] == 1, f"{step.id} is in pieces and no draw of one workload")
    for workload, take in takes:
        _check_step(plan, workload, take.level, cut[take.step])
        _check_parts(plan, workload, take.level, cut[take.step], pieces[take.step])
    ids = [each.id for each in plan.measured if each.id not in cut]
    ids += [piece.id(step) for step, found in pieces.items() for piece in found]
    require(len(set(ids)) == len(ids) == len(plan.numbers), "two measurements with one id")


def _check_step(plan: ReleasePlan, workload: Workload, level: int, step: Step) -> None:
    """Independent noise on every number, and no contrast across nodes: else the parts would not be independent."""
    units = _units(plan, workload)
    require(workload.hierarchy is not None and level > units, f"{step.id} is in pieces and has no level above it")
    aggregate = step.aggregate
    require(aggregate.by[:1] == (workload.levels[level],), f"{step.id} is in pieces and not by its level first")
    whole = not aggregate.private and aggregate.excluding is None and bool(aggregate.complete)
    unbounded = aggregate.max_groups is None and aggregate.max_rows_per_group is None
    counts = aggregate.quantity.kind == "rows" and aggregate.quantity.where is None
    require(whole and unbounded and counts, f"{step.id} is in pieces and no plain count of complete rows")
    require(step.mechanism == "discrete_gaussian", f"{step.id} is in pieces behind noise that is not independent")
    alone = not step.joined and step.gauge is None and step.choosing is None and step.selecting is None
    require(alone, f"{step.id} is in pieces and of another kind, too")
    inside = step.residual is None or 0 not in step.residual.axes
    require(inside, f"{step.id} is in pieces and contrasts its level")
    top = plan.catalog.tables[workload.table].column(workload.levels[units])
    count = len(top.keys or ())
    require(step.pieces == count >= 2, f"{step.id} is in another number of pieces than there are {top.name} keys")
    require(step.factor is None, f"{step.id} is in pieces and adds up cells of its own")


def _check_parts(plan: ReleasePlan, workload: Workload, level: int, step: Step, pieces: Sequence[Piece]) -> None:
    table, units = plan.catalog.tables[workload.table], _units(plan, workload)
    top, own = (table.column(name).keys or () for name in (workload.levels[units], workload.levels[level]))
    under: Mapping[int, list[int]] = {unit: [] for unit in range(len(top))}
    for node in range(len(own)):
        under[_unit(plan, workload, level, node)].append(node)
    require(len(pieces) == len(top), f"{step.id} has another number of pieces than it says")
    others = prod(len(table.column(name).keys or ()) for name in step.aggregate.by[1:])
    for unit, piece in enumerate(pieces):
        named, column = (piece.unit, piece.of, piece.column, piece.key), workload.levels[units]
        require(named == (unit, len(top), column, str(top[unit])), f"{step.id} has a piece of another unit")
        nodes = (piece.within.column, piece.within.nodes)
        require(nodes == (workload.levels[level], tuple(under[unit])), f"{step.id} has a piece of other nodes")
        require(piece.level == len(own), f"{step.id} has a piece of a level of another size")
        require(piece.numbers(step) == len(under[unit]) * others, f"{step.id} has a piece of another shape")
    require(sum(piece.numbers(step) for piece in pieces) == step.cells, f"{step.id} has cells in no piece")


def _units(plan: ReleasePlan, workload: Workload) -> int:
    """The level of the units: those above it have one key each, and it has several."""
    table = plan.catalog.tables[workload.table]
    single = [len(table.column(name).keys or ()) == 1 for name in workload.levels]
    return single.index(False) if False in single else len(single)


def _unit(plan: ReleasePlan, workload: Workload, level: int, node: int) -> int:
    """The unit of one node."""
    for parents in reversed(plan.catalog.hierarchies[workload.hierarchy or ""].parents[_units(plan, workload) : level]):
        node = parents[node]
    return node
