"""Differencing: two totals that differ by one person, subtracted."""

from __future__ import annotations

import math

import numpy as np

from dprelease.attacks.base import Bits, Demonstration, Drawing, DrawnPoints, ShownTable, guess_bound, share
from dprelease.attacks.throwaway import throwaway_project

__all__ = ["demonstrate_differencing", "released_differences", "share_from_rounded"]

_BLOCKS, _PEOPLE = 400, 20
_EPSILONS = ("0.5", "1", "2", "4")
_SPEC = """dprelease: 1
release: {{name: totals, period: 2024, title: "Two totals of each block", curator: A demonstration}}
privacy:
  unit: {{entity: person}}
  budget: {{epsilon: {epsilon}, delta: 0}}
references:
  blocks: {{file: blocks.csv, columns: {{block: integer}}}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      block: {{type: integer, keys: {{reference: blocks}}}}
      newcomer: {{type: integer, keys: [0, 1]}}
      ill: {{type: integer, keys: [0, 1]}}
queries:
  all: {{table: people, by: [block], share: 1, measures: {{ill: {{count: rows, where: "ill = 1"}}}}}}
  residents:
    table: people
    by: [block]
    where: "newcomer = 0"
    share: 1
    measures: {{ill: {{count: rows, where: "ill = 1"}}}}
publish: {{formats: [csv]}}
"""


def _town(source: np.random.Generator) -> Bits:
    """Whether each person of each block is ill; the first of a block is the newcomer whom the attack is about."""
    ill = source.integers(0, 2, (_BLOCKS, _PEOPLE))
    ill[:, 1:5] = 1  # people of whom the attacker knows it
    return ill


def share_from_rounded(source: np.random.Generator, pairs: int) -> float:
    """How often the difference of totals rounded to 5 tells whether the newcomer is ill.

    Args:
        source: Makes the town.
        pairs: Pairs of totals, at most 5, each of which leaves out one more person who is known to be ill.
    """
    ill = _town(source)
    totals = ill.sum(axis=1)[:, None] - np.arange(pairs)
    residents = totals - ill[:, :1]
    apart = 5 * np.round(totals / 5) - 5 * np.round(residents / 5)
    guess = (apart > 0).any(axis=1)  # of five totals in a row, one is where rounding turns
    return float(np.mean(guess == ill[:, 0]))


def released_differences(source: np.random.Generator, epsilon: str) -> float:
    """How often the difference of two released totals tells it; both are in one release of this epsilon."""
    ill = _town(source)
    rows = "".join(f"{block},{int(person == 0)},{bit}\n" for (block, person), bit in np.ndenumerate(ill))
    names = "".join(f"{block}\n" for block in range(_BLOCKS))
    files = {"people.csv": "block,newcomer,ill\n" + rows, "blocks.csv": "block\n" + names}
    with throwaway_project(files, cap="100") as project:
        outcome = project.run(_SPEC.format(epsilon=epsilon))
        everybody, residents = (project.column(outcome, name, "ill") for name in ("all", "residents"))
    apart = everybody - residents
    return float(np.mean(np.where(apart > 0.5, 1, 0) == ill[:, 0]))


def demonstrate_differencing(seed: int) -> Demonstration:
    """Exact and rounded totals, and a release of each epsilon, beside what its epsilon allows."""
    source = np.random.default_rng(seed)
    ill = _town(source)
    exact = ("exact totals", share(float(np.mean(ill.sum(axis=1) - ill[:, 1:].sum(axis=1) == ill[:, 0]))))
    rounded = [(f"rounded to 5, {n} pair{'s' * (n > 1)}", share(share_from_rounded(source, n))) for n in (1, 5)]
    rows, dots = [], []
    for epsilon in _EPSILONS:
        right, bound = released_differences(source, epsilon), guess_bound(float(epsilon), 0)
        rows.append((epsilon, share(right), f"{math.ceil(1000 * bound) / 1000:.3f}"))
        dots.append((float(epsilon), right))
    most = tuple((at / 20, guess_bound(at / 20, 0)) for at in range(20 * int(max(map(float, _EPSILONS))) + 1))
    return Demonstration(
        "differencing",
        (
            ShownTable(f"is the newcomer ill? {_BLOCKS} blocks", ("totals", "share right"), (exact, *rounded)),
            ShownTable(
                "both totals from a release of this tool", ("epsilon", "share right", "expected at most"), tuple(rows)
            ),
        ),
        Drawing(
            "What the difference of two totals tells of one person",
            "The share of right guesses about one person in each block, below the bound that the epsilon gives.",
            "epsilon of both totals together",
            "share right",
            (DrawnPoints("bound", most, "line"), DrawnPoints("releases", tuple(dots))),
        ),
        "Every total is noised, and the loss of all of them is added up: however answers are combined, they tell of "
        "one person no more than the epsilon of the release.",
    )
