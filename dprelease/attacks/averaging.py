"""Averaging: a house on a map, found by asking again, where noise is drawn again; and a release asked again."""

from __future__ import annotations

import math

import numpy as np

from dprelease.attacks.base import Demonstration, Drawing, DrawnPoints, ShownTable
from dprelease.attacks.throwaway import ThrowawayProject, throwaway_project
from dprelease.errors import BudgetExceeded

__all__ = ["answers_of_release", "demonstrate_averaging", "distance_after"]

SCALE = 1000.0  # metres of Laplace noise on each coordinate
_TIMES = (1, 10, 100, 1000, 10_000)
_RUNS = 100
_CAP = 3
_HOUSE = (7_310, 4_250)  # metres from the corner of a map of 10 by 10 kilometres
_SPEC = """dprelease: 1
release: {{name: {name}, period: 2024, title: "Where people live", curator: A demonstration}}
privacy:
  unit: {{entity: person}}
  budget: {{epsilon: 1, delta: 0}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      area: {{type: integer, keys: [1]}}
      east: {{type: integer, range: [0, 10000]}}
      north: {{type: integer, range: [0, 10000]}}
queries:
  places: {{table: people, by: [area], measures: {{east: {{sum: east}}, north: {{sum: north}}}}}}
publish: {{formats: [csv]}}
"""


def distance_after(source: np.random.Generator, times: int, runs: int = _RUNS) -> float:
    """How far the mean of so many redrawn answers is from the house: metres, on average over so many attackers.

    Each coordinate's mean has a variance of 2 SCALE^2 / times, and the distance of two independent normal numbers of
    that variance has the mean SCALE sqrt(pi / times).
    """
    means = np.array([source.laplace(0, SCALE, (times, 2)).mean(axis=0) for _ in range(runs)])
    return float(np.hypot(means[:, 0], means[:, 1]).mean())


def answers_of_release(project: ThrowawayProject, name: str) -> tuple[tuple[float, float], str]:
    """What a release of this name publishes about the house, and whether it was measured or had been before."""
    outcome = project.run(_SPEC.format(name=name))
    east, north = (float(project.column(outcome, "places", each)[0]) for each in ("east", "north"))
    return (east, north), outcome.state


def demonstrate_averaging(seed: int) -> Demonstration:
    """Mean answers that are drawn again, and releases asked again by their own name and by others."""
    source = np.random.default_rng(seed)
    found = [(times, distance_after(source, times)) for times in _TIMES]
    rows = tuple(
        (f"{times:,}", f"{distance:,.0f}", f"{SCALE * math.sqrt(math.pi / times):,.0f}") for times, distance in found
    )
    redrawn = ShownTable(
        f"noise of {SCALE:,.0f} m drawn again for each answer: metres between the mean answer and the house",
        ("answers", "distance", "theory, for many"),
        rows,
    )
    drawing = Drawing(
        "A house on a map, found by asking again",
        "Where noise is drawn again, the distance falls with the square root of the number of answers. An answer that "
        "never changes stays where it is.",
        "answers",
        "metres from the house",
        (
            DrawnPoints("drawn again", tuple((float(times), distance) for times, distance in found)),
            DrawnPoints("the same answer", tuple((float(times), found[0][1]) for times in _TIMES), "line"),
        ),
        powers_across=True,
        powers_up=True,
    )
    return Demonstration(
        "averaging",
        (redrawn, _released()),
        drawing,
        "The first committed answer of a release is its answer for ever, and asking under another name is charged to "
        "the same account until its cap refuses.",
    )


def _released() -> ShownTable:
    rows: list[tuple[str, ...]] = []
    with throwaway_project({"people.csv": "area,east,north\n1,{},{}\n".format(*_HOUSE)}, cap=str(_CAP)) as project:
        for number in range(1, _CAP + 2):
            for _ in range(2):
                try:
                    (east, north), state = answers_of_release(project, f"places-{number}")
                except BudgetExceeded as refusal:
                    rows.append((f"places-{number}", refusal.code, "-", "-"))
                    break
                rows.append((f"places-{number}", state, f"{east:,.0f}", f"{north:,.0f}"))
    title = f"a release of epsilon 1, run twice under each name, from an account with a cap of {_CAP}: metres"
    return ShownTable(title, ("release", "ends", "east", "north"), tuple(rows))
