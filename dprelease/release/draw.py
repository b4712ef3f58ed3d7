"""One batch of steps, measured once. The only place where exact values exist: they are made here and die here.

The charge is durable before this is called. Each answer is committed under (release, period, plan, step) and
handed on only as the ledger returned it: the first commit wins, and a later draw for the same key is thrown
away unseen. Nothing between the read and the commit can fail because of a value.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Table
from dprelease.engines import Engine
from dprelease.errors import BrokenPromiseError, DpReleaseError
from dprelease.ledger import Ledger, StepKey
from dprelease.noise import JOINT_MECHANISMS, MECHANISMS, Exact, Measurement
from dprelease.plan.document import Batch, Step

__all__ = ["draw"]


def draw(
    batch: Batch,
    table: Table,
    references: Mapping[str, ReferenceTable],
    engine: Engine,
    ledger: Ledger,
    identity: tuple[str, str, str],
) -> tuple[Measurement, ...]:
    """Read, aggregate, add noise and commit every step of a batch that has no answer yet.

    Args:
        batch: Steps that share one pass over a table.
        table: The table, with its source as the engine shall read it.
        references: Public references, already held against the plan.
        engine: What reads and aggregates.
        ledger: What remembers; the reservation must be open.
        identity: (release, period, plan fingerprint).

    Returns:
        The committed measurement of every step, in the order of the batch.

    Raises:
        DpReleaseError: Errors of engine and ledger, which hold no data.
        BrokenPromiseError: For anything else, by class and step only: its own text may hold a value.
    """
    keys = {step.id: StepKey(*identity, step.id) for step in batch.steps}
    stored = {step.id: ledger.stored(keys[step.id]) for step in batch.steps}
    missing = [step for step in batch.steps if stored[step.id] is None]
    unexpected = ""
    try:
        if missing:
            stored.update(_measure(missing, batch, table, references, engine, ledger, keys))
    except DpReleaseError:
        raise
    except Exception as error:
        unexpected = type(error).__name__
    if unexpected:
        # Outside the except block, so that no traceback carries the first error along.
        raise BrokenPromiseError(
            f"{unexpected} while measuring {', '.join(step.id for step in missing)}",
            hint="the release stays charged; run the same command again to resume it",
        )
    return tuple(answer for step in batch.steps if (answer := stored[step.id]) is not None)


def _measure(
    missing: list[Step],
    batch: Batch,
    table: Table,
    references: Mapping[str, ReferenceTable],
    engine: Engine,
    ledger: Ledger,
    keys: Mapping[str, StepKey],
) -> dict[str, Measurement]:
    asked = tuple(dict.fromkeys(quantity for step in missing for quantity in step.parts))
    exact = dict(zip(asked, engine.aggregate(table, batch.by, asked, references), strict=True))
    committed = {}
    for step in missing:
        noisy = Measurement(step.id, _hidden(step, [exact[quantity] for quantity in step.parts]))
        if len(noisy.values) != step.numbers:
            raise BrokenPromiseError(f"step {step.id} has another number of cells than planned")
        committed[step.id] = ledger.commit(keys[step.id], noisy)
    return committed


def _hidden(step: Step, exact: list[Exact]) -> npt.NDArray[np.int64]:
    """The noisy values of a step; those of a joint step one quantity after the other."""
    if step.gauge is not None:
        return np.concatenate(JOINT_MECHANISMS[step.mechanism].draw_joint(exact, step.scale))
    (only,) = exact
    return MECHANISMS[step.mechanism].draw(only, step.scale)
