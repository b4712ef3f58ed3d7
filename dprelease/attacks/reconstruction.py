"""Reconstruction: the secret bit of everybody from enough counts, however they are rounded, unless a budget is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dprelease.attacks.base import Bits, Demonstration, Drawing, DrawnPoints, Floats, ShownTable, guess_bound, share
from dprelease.attacks.subset_counts import (
    bits_by_least_squares,
    bits_by_shrinking,
    consistent_candidates,
    every_subset,
    expected_share,
    random_subsets,
    worst_answers,
)
from dprelease.attacks.throwaway import throwaway_project

__all__ = [
    "CONTROLS",
    "ReleasedTowns",
    "demonstrate_reconstruction",
    "released_towns",
    "share_from_control",
    "share_from_random",
    "shares_from_random",
]

_ALL = 12  # people, of whom every subset is asked about
_COUNTS = 4  # for each person
_TOWN, _TOWNS = 50, 20  # people of a town whose counts are released, and how many towns
_SIZES = (50, 200, 1000)
_REGIME = (50, 200, 500, 1000, 2000)
_ERRORS = (0.125, 0.25, 0.5, 1.0, 2.0)
_DELTA = "1e-6"
_SPEC = """dprelease: 1
release: {{name: subsets, period: 2024, title: "Counts of random subsets", curator: A demonstration}}
privacy:
  unit: {{entity: person}}
  budget: {{epsilon: {epsilon}, delta: {delta}}}
references:
  subsets: {{file: subsets.csv, columns: {{subset: integer}}}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    unit_id: person
    columns:
      subset: {{type: integer, keys: {{reference: subsets}}}}
      secret: {{type: integer, keys: [0, 1]}}
queries:
  counts:
    table: people
    by: [subset]
    bounds: {{max_groups: {counts}, max_rows_per_group: 1}}
    measures: {{persons: {{count: rows, where: "secret = 1"}}}}
publish: {{formats: [csv]}}
"""


def _rounded(counts: Floats, source: np.random.Generator) -> Floats:
    return 5 * np.round(counts / 5)


def _randomly_rounded(counts: Floats, source: np.random.Generator) -> Floats:
    return 5 * np.floor(counts / 5 + source.random(len(counts)))


def _suppressed(counts: Floats, source: np.random.Generator) -> Floats:
    return np.where(counts < 10, np.nan, counts)


def _suppressed_and_rounded(counts: Floats, source: np.random.Generator) -> Floats:
    return _rounded(_suppressed(counts, source), source)


# What offices do to exact counts in place of noise that is charged.
CONTROLS: dict[str, Callable[[Floats, np.random.Generator], Floats]] = {
    "rounded to 5": _rounded,
    "randomly rounded to 5": _randomly_rounded,
    "suppressed below 10": _suppressed,
    "suppressed below 10, rounded to 5": _suppressed_and_rounded,
}


def share_from_random(source: np.random.Generator, people: int, counts: int, error: float) -> float:
    """The share of secret bits right, from counts with a normal error of standard deviation ``error`` sqrt people."""
    bits, subsets = source.integers(0, 2, people), random_subsets(source, counts, people)
    answers = subsets @ bits + source.normal(0, error * math.sqrt(people), counts)
    return float(np.mean(bits_by_least_squares(subsets, answers) == bits))


def shares_from_random(
    source: np.random.Generator, people: int, counts: int, errors: Sequence[float]
) -> tuple[float, ...]:
    """The same for several errors on the same subsets, which are looked at once."""
    bits, subsets = source.integers(0, 2, people), random_subsets(source, counts, people)
    noise = source.normal(0, 1, (counts, len(errors))) * np.array(errors) * math.sqrt(people)
    answers = (subsets @ bits)[:, None] + noise
    found = np.linalg.solve(subsets.T @ subsets, subsets.T @ answers) > 0.5
    return tuple(np.mean(found == bits[:, None], axis=0).tolist())


def share_from_control(source: np.random.Generator, people: int, counts: int, control: str) -> float:
    """The share of secret bits right, from exact counts behind one of the ``CONTROLS``."""
    bits, subsets = source.integers(0, 2, people), random_subsets(source, counts, people)
    answers = CONTROLS[control](subsets @ bits, source)
    return float(np.mean(bits_by_least_squares(subsets, answers) == bits))


@dataclass(frozen=True)
class ReleasedTowns:
    """Counts of random subsets in towns of equal size, published in one release.

    Attributes:
        bits: The secrets: shape (towns, people).
        subsets: Who is in which subset of a town: shape (towns, counts, people).
        answers: What was published: shape (towns, counts).
        standard_error: Of each number, as published.
        epsilon: What the release cost, at a delta of 1e-6.
    """

    bits: Bits
    subsets: Floats
    answers: Floats
    standard_error: float
    epsilon: float

    @property
    def share_right(self) -> float:
        """The share of all bits that the attack gets right, town by town."""
        found = [
            bits_by_shrinking(subsets, answers, self.standard_error)
            for subsets, answers in zip(self.subsets, self.answers, strict=True)
        ]
        return float(np.mean(np.array(found) == self.bits))


def released_towns(source: np.random.Generator, epsilon: str, towns: int = _TOWNS) -> ReleasedTowns:
    """The same counts from a release of this tool, about so many towns of 50 people with 200 subsets each.

    A person may be in every subset of the own town, and the product is told so: the bound is the number of subsets of
    one town. One release of many towns has the noise of one town, and more bits to count. A person whose bit is 0 is
    counted nowhere: changing a bit is adding or removing what is counted of one person, one step of add_remove.
    """
    counts = _COUNTS * _TOWN
    bits = source.integers(0, 2, (towns, _TOWN))
    subsets = random_subsets(source, towns * counts, _TOWN).reshape(towns, counts, _TOWN)
    rows = [
        f"{town * _TOWN + person},{town * counts + subset},{bits[town, person]}\n"
        for town, subset, person in np.argwhere(subsets).tolist()
    ]
    names = "".join(f"{subset}\n" for subset in range(towns * counts))
    files = {"people.csv": "person,subset,secret\n" + "".join(rows), "subsets.csv": "subset\n" + names}
    with throwaway_project(files, cap="100") as project:
        outcome = project.run(_SPEC.format(epsilon=epsilon, delta=_DELTA, counts=counts))
        numbers, errors = (project.column(outcome, "counts", name) for name in ("persons", "persons_se"))
    answers = numbers.reshape(towns, counts)
    return ReleasedTowns(bits, subsets, answers, float(errors[0]), float(outcome.epsilon))


def demonstrate_reconstruction(seed: int, epsilons: tuple[str, ...] = ("0.5", "1", "4")) -> Demonstration:
    """All subsets, random subsets, controls, and a release of each epsilon; about ten seconds."""
    source = np.random.default_rng(seed)
    tables = [_all_subsets(source)]
    random, dots = _random_subsets(source)
    controls = ShownTable(
        f"exact counts behind a rule, {_COUNTS} n of them",
        ("rule", *(f"n = {n}" for n in _SIZES)),
        tuple((name, *(share(share_from_control(source, n, _COUNTS * n, name)) for n in _SIZES)) for name in CONTROLS),
    )
    released, noisy = _released(source, epsilons)
    curve = tuple((10**at, expected_share(_COUNTS, 10**at)) for at in np.linspace(-1, 2, 61).tolist())
    drawing = Drawing(
        "Secret bits recovered from counts of random subsets",
        "Four counts for each person: while the error is far below the square root of the number of people, nearly "
        "every bit is right; a release within a budget has so much error that the guess is little better than a coin.",
        "error of a count, in square roots of the number of people",
        "share of bits right",
        (DrawnPoints("theory", curve, "line"), DrawnPoints("attack", dots), DrawnPoints("releases", noisy)),
        powers_across=True,
    )
    return Demonstration(
        "reconstruction",
        (*tables, random, controls, released),
        drawing,
        "One budget for all counts together: a release is charged for every count before it reads anything, so that "
        "the more it counts, the more noise has each count. Rounding and suppression are no substitute.",
    )


def _all_subsets(source: np.random.Generator) -> ShownTable:
    """Dinur and Nissim's first regime: answers about every subset, each within an error of ``E``."""
    subsets = every_subset(_ALL)
    bits = source.permutation(np.arange(_ALL) % 2)
    rows = []
    for error in range(4):
        truth = subsets @ bits
        for name, answers in (
            ("random", truth + source.integers(-error, error + 1, len(truth))),
            ("worst", worst_answers(subsets, bits, error)),
        ):
            left = consistent_candidates(subsets, answers, error)
            wrong = int(np.abs(left - bits).sum(axis=1).max())
            rows.append(
                (f"{error}", f"{error / _ALL:.3f}", name, f"{len(left)}", f"{wrong}", f"{min(4 * error, _ALL)}")
            )
    head = ("error E", "E / n", "answers", "candidates left", "most bits wrong", "at most 4 E")
    return ShownTable(f"all {len(subsets):,} subsets of n = {_ALL} people", head, tuple(rows))


def _random_subsets(source: np.random.Generator) -> tuple[ShownTable, tuple[tuple[float, float], ...]]:
    """The second regime: an error of c sqrt n, and some n or n log^2 n random subsets; and the points of 4 n."""
    rows, dots = [], []
    regime = [shares_from_random(source, n, _COUNTS * n, _ERRORS) for n in _REGIME]
    for error, found in zip(_ERRORS, zip(*regime, strict=True), strict=True):
        dots += [(error, each) for each in found]
        rows.append((f"{error:g}", "4 n", share(expected_share(_COUNTS, error)), *map(share, found)))
    for error in (1.0, 2.0):
        many = [math.ceil(math.log2(n) ** 2) for n in (50, 200)]
        few = [share(share_from_random(source, n, k * n, error)) for n, k in zip((50, 200), many, strict=True)]
        theory = share(expected_share(many[0], error))
        rows.append((f"{error:g}", "n log2(n)^2", theory + " (n = 50)", *few, *["-"] * (len(_REGIME) - len(few))))
    head = ("c: error / sqrt n", "counts", "theory", *(f"n = {n:,}" for n in _REGIME))
    return ShownTable("share of bits right, random subsets", head, tuple(rows)), tuple(dots)


def _released(
    source: np.random.Generator, epsilons: tuple[str, ...]
) -> tuple[ShownTable, tuple[tuple[float, float], ...]]:
    """The same attack on a release of this tool for each epsilon, and on one that does not add its counts up."""
    rows, dots = [], []
    for epsilon in epsilons:
        release = released_towns(source, epsilon)
        bound = math.ceil(1000 * guess_bound(release.epsilon, float(_DELTA))) / 1000
        rows.append((epsilon, f"{release.standard_error:.1f}", share(release.share_right), f"{bound:.3f}"))
        dots.append((release.standard_error / math.sqrt(_TOWN), release.share_right))
    alone = replace(release, answers=_asked_alone(source, release), standard_error=math.sqrt(2))
    rows.append(("1 for each count, not added up", f"{math.sqrt(2):.1f}", share(alone.share_right), "-"))
    head = ("epsilon", "error of a count", "share right", "expected at most")
    title = f"releases of this tool at delta {_DELTA}, {_TOWNS} towns of n = {_TOWN}, 4 n counts each; a coin: 0.500"
    return ShownTable(title, head, tuple(rows)), tuple(dots)


def _asked_alone(source: np.random.Generator, release: ReleasedTowns) -> Floats:
    """The same counts with noise for an epsilon of 1 each, as if every question had a budget of its own."""
    exact = np.einsum("tcp,tp->tc", release.subsets, release.bits)
    answers: Floats = exact + source.laplace(0, 1, exact.shape)
    return answers
