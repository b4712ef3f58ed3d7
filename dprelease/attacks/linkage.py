"""Linkage: names put to a file without names by a public register, and two files that are k-anonymous put together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dprelease.attacks.base import Bits, Demonstration, Drawing, DrawnPoints, Floats, ShownTable, share
from dprelease.attacks.throwaway import throwaway_project

__all__ = [
    "DETAILS",
    "DIAGNOSES",
    "Town",
    "demonstrate_linkage",
    "made_up_town",
    "one_of_many_bound",
    "one_possible",
    "share_from_release",
    "share_linked",
]

DIAGNOSES = 50  # equally frequent, so that whoever knows nothing is right with 1 in 50
_PEOPLE, _ZIPS, _DAYS = 54_000, 7, 24_000  # a town of the size of Cambridge; dates of birth within 66 years
_IN_REGISTER = 0.7
_PATIENTS = 10_000  # of two hospitals
_GROUPS = (2, 5, 10, 20)
_EPSILONS = ("0.5", "1", "2")
_BANDS = 6
# How exactly a file tells the date of birth, to the days that it cannot tell apart.
DETAILS: dict[str, int] = {"date of birth": 1, "month of birth": 30, "year of birth": 365, "five years": 1826}
_SPEC = """dprelease: 1
release: {{name: diagnoses, period: 2024, title: "Diagnoses by place, sex and age", curator: A demonstration}}
privacy:
  unit: {{entity: person}}
  budget: {{epsilon: {epsilon}, delta: 0}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      zip: {{type: integer, keys: {{from: 0, to: {zips}}}}}
      sex: {{type: integer, keys: [0, 1]}}
      band: {{type: integer, keys: {{from: 0, to: {bands}}}}}
      diagnosis: {{type: integer, keys: {{from: 0, to: {diagnoses}}}}}
queries:
  diagnoses: {{table: people, by: [zip, sex, band, diagnosis], measures: {{n: {{count: rows}}}}}}
publish: {{formats: [csv]}}
"""


@dataclass(frozen=True)
class Town:
    """People who do not exist; every array has one number for each.

    Attributes:
        born: The day of birth, counted from the first one.
        sex: 0 or 1.
        zip: Where the person lives.
        diagnosis: What the file without names says of the person.
    """

    born: Bits
    sex: Bits
    zip: Bits
    diagnosis: Bits

    def cells(self, days: int) -> Bits:
        """Which of the people look alike: a number for each combination of place, sex and date to so many days."""
        return (self.zip * 2 + self.sex) * (_DAYS + 1) + self.born // days


def made_up_town(source: np.random.Generator, people: int = _PEOPLE) -> Town:
    """Places of unequal size; younger people are more frequent than old ones."""
    sizes = np.arange(_ZIPS, 0, -1) + 2.0
    young = source.random(people) < 0.5
    born = np.where(young, source.integers(_DAYS // 2, _DAYS, people), source.integers(0, _DAYS, people))
    return Town(
        born,
        source.integers(0, 2, people),
        source.choice(_ZIPS, people, p=sizes / sizes.sum()),
        source.integers(0, DIAGNOSES, people),
    )


def share_linked(source: np.random.Generator, town: Town, days: int) -> tuple[float, float, float]:
    """How many of the people of a register are alone in the file, how many are linked rightly, and what theory says.

    Somebody takes each line of the register and picks at random among the records of the file that look the same. With
    k such records the pick is right with probability 1 / k, whose mean is the third number.
    """
    cells = town.cells(days)
    _, which, sizes = np.unique(cells, return_inverse=True, return_counts=True)
    listed = np.flatnonzero(source.random(len(cells)) < _IN_REGISTER)
    alike = sizes[which[listed]]
    by_cell = np.argsort(which, kind="stable")
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    picked = by_cell[first[which[listed]] + source.integers(0, alike)]
    return float(np.mean(alike == 1)), float(np.mean(picked == listed)), float(np.mean(1 / alike))


def one_possible(source: np.random.Generator, k: int, patients: int = _PATIENTS) -> tuple[float, float]:
    """Of people in two k-anonymous files: for how many one diagnosis alone is possible, and what theory says of that.

    Both hospitals publish groups of k people who look alike, with their diagnoses; the groups are others. In either
    file a person may have any of the diagnoses of the own group; only what is in both groups is possible. Of the k - 1
    others there and the k - 1 others here no pair may agree: (1 - 1 / d)^((k - 1)^2) of d equally frequent diagnoses.
    """
    diagnosis = source.integers(0, DIAGNOSES, patients)
    told = []
    for _ in range(2):
        group = source.permutation(patients) // k
        seen = np.zeros((patients // k + 1, DIAGNOSES), dtype=bool)
        seen[group, diagnosis] = True
        told.append(seen[group])
    possible = (told[0] & told[1]).sum(axis=1)
    return float(np.mean(possible == 1)), (1 - 1 / DIAGNOSES) ** ((k - 1) ** 2)


def one_of_many_bound(epsilon: float, choices: int) -> float:
    """How often, at most, one of so many equally likely values is guessed from an answer of this pure epsilon.

    Epsilon is for another value in the place of the true one. The probability of guessing v is at most e^epsilon times
    that under any other truth, and all guesses under all truths add up to ``choices``: so the right ones add up to
    choices / (1 + (choices - 1) e^-epsilon) at most.
    """
    return 1 / (1 + (choices - 1) * math.exp(-epsilon))


def share_from_release(town: Town, epsilon: str) -> float:
    """How often the diagnosis of a person is found from a release, by somebody who knows those of all others.

    What all others add to the cells of a person is taken off the published counts; the largest of the 50 numbers that
    are left is the guess.
    """
    band = town.born * _BANDS // _DAYS
    rows = np.stack([town.zip, town.sex, band, town.diagnosis], axis=1).tolist()
    text = "zip,sex,band,diagnosis\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows)
    asked = _SPEC.format(epsilon=epsilon, zips=_ZIPS - 1, bands=_BANDS - 1, diagnoses=DIAGNOSES - 1)
    with throwaway_project({"people.csv": text}, cap="100") as project:
        published: Floats = project.column(project.run(asked), "diagnoses", "n").reshape(-1, DIAGNOSES)
    place = (town.zip * 2 + town.sex) * _BANDS + band
    exact = np.zeros_like(published)
    np.add.at(exact, (place, town.diagnosis), 1)
    left = (published - exact)[place]
    left[np.arange(len(place)), town.diagnosis] += 1  # of the person alone
    return float(np.mean(left.argmax(axis=1) == town.diagnosis))


def demonstrate_linkage(seed: int) -> Demonstration:
    """A file and a register, two k-anonymous files, and a release of each epsilon."""
    source = np.random.default_rng(seed)
    town = made_up_town(source)
    linked = [(name, *share_linked(source, town, days)) for name, days in DETAILS.items()]
    files = [(k, *one_possible(source, k)) for k in _GROUPS]
    rows = []
    for epsilon in _EPSILONS:
        bound = math.ceil(1000 * one_of_many_bound(2 * float(epsilon), DIAGNOSES)) / 1000
        rows.append((epsilon, share(share_from_release(town, epsilon)), f"{bound:.3f}"))
    curve = tuple((k, (1 - 1 / DIAGNOSES) ** ((k - 1) ** 2)) for k in range(1, 21))
    return Demonstration(
        "linkage",
        (
            ShownTable(
                f"a file without names of {_PEOPLE:,} people, a register of {_IN_REGISTER:.0%}",
                ("place, sex and", "alone in the file", "linked rightly", "theory"),
                tuple((name, *map(share, found)) for name, *found in linked),
            ),
            ShownTable(
                f"people in two files, each k-anonymous with other groups, {DIAGNOSES} diagnoses",
                ("k", "one diagnosis is possible", "theory"),
                tuple((f"{k}", share(found), share(theory)) for k, found, theory in files),
            ),
            ShownTable(
                f"releases of this tool; who knows everybody else's diagnosis (a guess: {1 / DIAGNOSES:.3f})",
                ("epsilon", "share right", "expected at most"),
                tuple(rows),
            ),
        ),
        Drawing(
            "Two files that are k-anonymous, put together",
            "For how many people in both files one diagnosis alone is possible: at k = 5 for nearly three in four.",
            "k: people of a group who look alike",
            "share with one possible diagnosis",
            (
                DrawnPoints("theory", curve, "line"),
                DrawnPoints("attack", tuple((float(k), found) for k, found, _ in files)),
            ),
        ),
        "No record of a person is published, with or without a name, and what all tables together tell of one is "
        "bounded whatever else is known: a register, another file, or everybody else's record.",
    )
