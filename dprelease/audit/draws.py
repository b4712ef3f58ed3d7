"""Many answers of one step on one data set: the same exact totals, hidden again each time by what hides a release's.

Where the noise of a cell depends on no other cell, many draws are one call over as many copies of the cells; and only
of the cells that the two data sets differ in. Where it does, a call is one draw.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dprelease.audit.pairs import Boxes
from dprelease.noise import Exact, ExactHistogram, ExactKeys, Key, Sampler
from dprelease.noise.truth import repeated_exact, repeated_histogram, repeated_keys
from dprelease.plan.document import Step
from dprelease.release.draw import hidden, selected_keys

__all__ = ["draws_of", "keys_drawn", "one_by_one"]

Answers = npt.NDArray[np.int64]
_AT_ONCE = 2_000_000  # numbers of a call
_SAMPLER: Sampler = "native"


def one_by_one(step: Step) -> bool:
    """Whether a call of the mechanism is one draw: its numbers belong together."""
    ranks = step.mechanism == "exponential_top_k"
    return ranks or step.is_clip or step.residual is not None or step.factor is not None or bool(step.tables)


def draws_of(step: Step, boxes: Boxes, places: npt.NDArray[np.int64], runs: int) -> Answers:
    """So many answers of a step, shape ``(runs, places)`` or more columns: those that an attack looks at.

    Args:
        step: Of the plan.
        boxes: Its exact totals.
        places: The cells that differ, rising; of what is drawn one by one those of its numbers, of a selection nothing.
        runs: How many.
    """
    if isinstance(boxes[0], ExactKeys):
        raise TypeError("keys are drawn by `keys_of`")
    if one_by_one(step):
        every = [hidden(step, _plain(boxes), _SAMPLER) for _ in range(runs)]
        whole = np.stack(every)
        return whole if step.mechanism == "exponential_top_k" else whole[:, places]
    most = max(1, _AT_ONCE // max(1, len(places) * len(boxes)))
    parts = [_at_once(step, _plain(boxes), places, min(most, runs - start)) for start in range(0, runs, most)]
    return np.concatenate(parts)


def keys_drawn(step: Step, boxes: Boxes, runs: int, keys: Sequence[tuple[Key, ...]]) -> Answers:
    """Which of some keys each of so many selections shows, as 0 and 1: shape ``(runs, keys)``."""
    (box,) = boxes
    if not isinstance(box, ExactKeys):
        raise TypeError("a selection counts units by key")
    found = np.zeros((runs, len(keys)), dtype=np.int64)
    place = {key: at for at, key in enumerate(keys)}
    for run, *key in selected_keys(step, repeated_keys(box, runs), _SAMPLER):
        if tuple(key) in place:
            found[int(run), place[tuple(key)]] = 1
    return found


def _plain(boxes: Boxes) -> list[Exact | ExactHistogram]:
    return [box for box in boxes if not isinstance(box, ExactKeys)]


def _at_once(step: Step, boxes: Sequence[Exact | ExactHistogram], places: Answers, runs: int) -> Answers:
    copies = [
        repeated_exact(box, runs, places) if isinstance(box, Exact) else repeated_histogram(box, runs, places)
        for box in boxes
    ]
    answers = hidden(step, copies, _SAMPLER)
    return answers.reshape(len(boxes), runs, -1).transpose(1, 0, 2).reshape(runs, -1)
