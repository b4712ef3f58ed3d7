"""Sets of quotients that the noise does not refuse, against exact probabilities that are summed another way."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.measures import Noisy
from dprelease.measures.count import Count
from dprelease.measures.laws import KnownLaw
from dprelease.measures.mean import Mean
from dprelease.measures.ratio import PlannedRatio
from dprelease.measures.tested.knorm_pairs import KNormPair
from dprelease.measures.tested.quotients import Draw, _table, quotients, reach_at, with_ends
from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw
from dprelease.noise.mechanisms.knorm import KNormLaw
from dprelease.noise.mechanisms.lattice_ball import Ball

CONFIDENCE = Fraction(95, 100)
ALPHA = 0.05


def laplace(scale: int | Fraction) -> KnownLaw:
    return DiscreteLaplaceLaw(Fraction(scale))


def gauss(scale: int | Fraction) -> KnownLaw:
    return DiscreteGaussianLaw(Fraction(scale))


PAIRS = {
    "laplace 2, 2": (laplace(2), laplace(2)),
    "laplace 20, 20": (laplace(20), laplace(20)),
    "gauss 5, 5": (gauss(5), gauss(5)),
    "gauss 8, laplace 5": (gauss(8), laplace(5)),
    "laplace 3, gauss 60": (laplace(3), gauss(60)),
}


@lru_cache
def masses(law: KnownLaw) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """All values of a draw that matter, and their probabilities, by the definition of the law."""
    scale = float(law.scale)
    size = int(45 * scale) + 2 if "Laplace" in type(law).__name__ else int(12 * scale) + 2
    at = np.arange(-size, size + 1, dtype=np.float64)
    weight = np.exp(-np.abs(at) / scale) if "Laplace" in type(law).__name__ else np.exp(-(at**2) / (2 * scale**2))
    return at, weight / weight.sum()


def beyond(x: KnownLaw, y: KnownLaw, quotient: float, q: float) -> float:
    """P(|X - r Y| > q): for every value of Y the probability of all X that are too large, or too small."""
    (first, p), (second, s) = masses(x), masses(y)
    above, hair = np.append(np.cumsum(p[::-1])[::-1], 0.0), 1e-9 * (1 + q)
    large = above[np.searchsorted(first, quotient * second + q + hair, side="right")]
    return 2 * float(large @ s)  # (-X, -Y) is as likely as (X, Y)


def pair(x: Law, y: Law) -> tuple[Draw, Draw]:
    return Draw(x, 1.0, 0.0), Draw(y, 0.0, 1.0)


@pytest.mark.parametrize("name", PAIRS)
def test_the_reach_is_enough_and_a_twentieth_less_is_not(name: str) -> None:
    x, y = PAIRS[name]
    chance = np.random.default_rng(7)
    spread = math.sqrt(x.variance / y.variance)
    less = 0
    for quotient in (spread * np.sinh(chance.uniform(-3, 3, 200))).tolist():
        q = reach_at(pair(x, y), quotient, CONFIDENCE)
        assert beyond(x, y, quotient, q) <= ALPHA
        less += beyond(x, y, quotient, 0.95 * q) > ALPHA
    assert less >= 190  # a lattice can jump over one of them


@pytest.mark.nightly
@pytest.mark.parametrize("name", PAIRS)
def test_the_reach_of_the_tables_is_enough_at_a_thousand_quotients_and_a_twentieth_less_is_not(name: str) -> None:
    """Of the brackets that are published from, and of one quotient by itself; by sums that are made another way."""
    x, y = PAIRS[name]
    spread, chance = math.sqrt(x.variance / y.variance), np.random.default_rng()
    table = _table(pair(x, y), -20 * spread, 20 * spread, CONFIDENCE)
    seen = (spread * np.sinh(chance.uniform(-3.6, 3.6, 1000))).tolist()
    bracket = np.searchsorted(table.last, seen)
    less, excess = 0, []
    for at, quotient in zip(bracket.tolist(), seen, strict=True):
        alone, q = reach_at(pair(x, y), quotient, CONFIDENCE), float(table.reach[at])
        assert table.first[at] <= quotient <= table.last[at]
        assert beyond(x, y, quotient, alone) <= ALPHA, quotient
        assert beyond(x, y, quotient, q) <= ALPHA, quotient
        less += beyond(x, y, quotient, 0.95 * alone) > ALPHA
        excess.append(q / alone - 1)
    assert less >= 940  # a lattice can jump over one of them
    assert np.mean(excess) < 0.01
    assert max(excess) < 0.05


@pytest.mark.nightly
@pytest.mark.parametrize("ball", ["count", "linf"])
def test_the_reach_of_one_draw_of_two_numbers_is_enough_at_a_thousand_quotients(ball: Ball) -> None:
    law = KNormLaw(ball, Fraction(3), 2)
    at = np.arange(-130, 131)
    first, second = np.meshgrid(at, at, indexing="ij")
    most, least = np.maximum(np.maximum(first, second), 0), np.minimum(np.minimum(first, second), 0)
    mass = np.exp(-(most - least if ball == "count" else np.maximum(most, -least)) / 3)
    mass /= mass.sum()
    draws = (Draw(law, 1.0, 0.0, "s1"), Draw(law, 0.0, 1.0, "s1"))
    less = 0
    for quotient in np.sinh(np.random.default_rng().uniform(-3, 3, 1000)).tolist():
        q = reach_at(draws, quotient, CONFIDENCE)
        far = np.abs(first - quotient * second)
        assert mass[far > q + 1e-9 * (1 + q)].sum() <= ALPHA, quotient
        less += mass[far > 0.95 * q].sum() > ALPHA
    assert less >= 900


GOLDEN = {  # q at 0, 0.1, 0.25, 0.5, 0.75, 1 and 2
    "laplace 2, 2": (6, 6, 6, 6.5, 7.25, 8, 13),
    "laplace 20, 20": (60, 60.1, 61.25, 65.5, 72.75, 82, 131),
    "gauss 5, 5": (10, 9.9, 10, 11, 12.25, 14, 22),
    "gauss 8, laplace 5": (16, 15.8, 16, 17, 19, 21, 33),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_reaches_known_from_exact_laws(name: str) -> None:
    """To six digits; they were found outside of this project."""
    x, y = PAIRS[name]
    for quotient, told in zip((0, 0.1, 0.25, 0.5, 0.75, 1, 2), GOLDEN[name], strict=True):
        assert told <= reach_at(pair(x, y), quotient, CONFIDENCE) * (1 + 1e-9) <= told * (1 + 2e-6), quotient


@pytest.mark.parametrize(
    ("above", "below", "name", "possible", "ends"),
    [
        (30, 100, "laplace 2, 2", (0.0, 1.0), (0.240000, 0.362637)),
        (90, 100, "gauss 5, 5", (0.0, 1.0), (0.775701, 1.0)),
        (3, 100, "gauss 5, 5", (0.0, 1.0), (0.0, 0.128713)),
        (-40, 50, "gauss 8, laplace 5", (-3.0, 3.0), (-1.282051, -0.460526)),
        (30, 100, "laplace 20, 20", (0.0, 1.0), (0.0, 1.0)),
    ],
)
def test_sets_known_from_exact_p_values(
    above: int, below: int, name: str, possible: tuple[float, float], ends: tuple[float, float]
) -> None:
    """The ends were found by bisection of exact p-values, outside of this project."""
    found = quotients(np.array([float(above)]), np.array([float(below)]), pair(*PAIRS[name]), possible, CONFIDENCE)
    low, high = (float(end[0]) for end in found)
    hair = 0.01 * (ends[1] - ends[0])
    assert ends[0] - hair <= low <= ends[0] + 1e-6
    assert ends[1] - 1e-6 <= high <= ends[1] + hair


def test_the_set_of_a_pair_that_could_not_be_true_is_joined_with_that_of_the_nearest_one_that_could() -> None:
    """40 of 30: what the test leaves of [0, 1] begins at 0.894737, and what is published where the set of 30 of 30 does."""
    above, below, draws = np.array([40.0]), np.array([30.0]), pair(*PAIRS["gauss 5, 5"])
    low, high = quotients(above, below, draws, (None, None), CONFIDENCE)
    assert 0.894737 - 0.01 * (high[0] - low[0]) <= low[0] <= 0.894737 + 1e-6
    assert 1.8 < high[0] < 2.3
    joined, nearest = (quotients(each, below, draws, (0.0, 1.0), CONFIDENCE) for each in (above, below))
    assert joined == nearest
    assert (joined[0][0] < low[0], joined[1][0]) == (True, 1)


@pytest.mark.parametrize("name", ["laplace 2, 2", "gauss 5, 5", "gauss 8, laplace 5"])
def test_a_set_holds_every_quotient_that_an_exact_test_does_not_refuse(name: str) -> None:
    x, y = PAIRS[name]
    for above, below in ((12, 9), (-7, 30), (55, 60), (0, 4)):
        (low,), (high,) = quotients(
            np.array([float(above)]), np.array([float(below)]), pair(x, y), (-2.0, 2.0), CONFIDENCE
        )
        for quotient in np.linspace(-2, 2, 81).tolist():
            size = abs(above - quotient * below)
            kept = beyond(x, y, quotient, size - 1e-6) > ALPHA * (1 + 1e-6)
            assert not kept or low <= quotient <= high


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("true", "size"), [(0.0, 1), (1.0, 3), (0.3, 10), (0.5, 100), (0.97, 100), (0.7, 1000)])
def test_sets_hold_the_true_share_whatever_it_is(name: str, true: float, size: int) -> None:
    x, y = PAIRS[name]
    chance, draws = np.random.default_rng(11), 4000
    above, below = round(true * size), size
    first, second = (chance.choice(at, draws, p=p) for at, p in (masses(x), masses(y)))
    low, high = quotients(above + first, below + second, pair(x, y), (0.0, 1.0), CONFIDENCE)
    told = below + second > 0
    held = (low[told] <= above / below) & (above / below <= high[told])
    assert held.mean() >= 0.95 - 5 * math.sqrt(0.95 * 0.05 / told.sum())
    assert (low[told] <= high[told]).all()  # never empty
    assert ((low[told] >= 0) & (high[told] <= 1)).all()
    assert np.isnan(low[~told]).all()


def test_the_quotient_itself_is_always_in_the_set() -> None:
    above, below = np.meshgrid(np.arange(-60.0, 200.0, 7.0), np.arange(1.0, 150.0, 9.0))
    low, high = quotients(above.ravel(), below.ravel(), pair(laplace(5), laplace(5)), (0.0, 1.0), CONFIDENCE)
    value = np.clip(above.ravel() / below.ravel(), 0, 1)
    assert ((low <= value) & (value <= high)).all()


def test_without_an_upper_limit_a_set_may_have_no_end() -> None:
    draws = pair(laplace(20), laplace(20))
    low, high = quotients(np.array([1000.0, 1e6, 1e9]), np.array([50.0, 100.0, 1e6]), draws, (0.0, None), CONFIDENCE)
    assert math.isinf(high[0])
    assert 9 < low[0] < 20
    # Beyond the last bracket the margins of the two numbers are added up: a little wider, and never narrower.
    assert 1e6 / (100 + 61) <= low[1] <= 1e6 / (100 + 59)
    assert 1e6 / (100 - 59) <= high[1] <= 1.02 * 1e6 / (100 - 60)
    assert low[2] < 1000 < high[2]
    assert high[2] - low[2] < 0.15


def test_numbers_that_share_a_draw_are_tested_together() -> None:
    """Half the sum of (balance, rows) over the rows: the noise is (X + Y) / 2 - r Y, exactly X / 2 at r = 1 / 2."""
    draws = (Draw(gauss(8), 0.5, 0.0), Draw(gauss(8), 0.5, 1.0))
    assert reach_at(draws, 0.5, CONFIDENCE) == pytest.approx(gauss(8).margin(CONFIDENCE) / 2, abs=0.51)
    chance, count = np.random.default_rng(3), 4000
    at, p = masses(gauss(8))
    x, y = (chance.choice(at, count, p=p) for _ in range(2))
    for part in (40, 60):
        low, high = quotients(part + (x + y) / 2, 100 + y, draws, (0.0, 1.0), CONFIDENCE)
        held = (low <= part / 100) & (part / 100 <= high)
        assert held.mean() >= 0.95 - 5 * math.sqrt(0.95 * 0.05 / count)
        assert held.mean() < 0.975  # and not much more: nothing is added up that goes together


def test_draws_of_unknown_dependence_have_their_margins_added_up() -> None:
    law = KNormLaw("count", Fraction(3), 2)
    q = reach_at(pair(law, law), 0.5, CONFIDENCE)
    least = min(law.margin(1 - (1 - CONFIDENCE) * part) + law.margin(1 - (1 - CONFIDENCE) * (1 - part)) / 2
                for part in (Fraction(at, 100) for at in range(1, 100)))  # fmt: skip
    assert least * (1 - 1e-9) <= q <= 1.1 * least


def test_one_number_of_a_shared_draw_beside_a_draw_of_its_own() -> None:
    law = KNormLaw("count", Fraction(4), 5)
    at = np.arange(-400, 401)
    p = np.array([law.mass(int(k)) for k in at])
    (first, q), quotient = masses(gauss(30)), 2.5
    reach = reach_at(pair(gauss(30), law), quotient, CONFIDENCE)
    above = np.append(np.cumsum(q[::-1])[::-1], 0.0)

    def missed(size: float) -> float:
        return 2 * float(above[np.searchsorted(first, quotient * at + size, side="right")] @ p)

    assert missed(reach) <= ALPHA < missed(0.97 * reach)


@pytest.mark.parametrize("ball", ["count", "linf"])
@pytest.mark.parametrize("dimension", [2, 3])
def test_two_numbers_of_one_draw_by_every_vector(ball: Ball, dimension: int) -> None:
    law, size = KNormLaw(ball, Fraction(4, 5), dimension), 22 if dimension == 2 else 15
    vectors = np.array(list(product(range(-size, size + 1), repeat=dimension)))
    most, least = np.maximum(vectors.max(axis=1), 0), np.minimum(vectors.min(axis=1), 0)
    mass = np.exp(-(most - least if ball == "count" else np.maximum(most, -least)) / 0.8)
    mass /= mass.sum()
    found = KNormPair.of(law)
    assert found is not None
    for i, j in product(range(-4, 5), repeat=2):
        true = mass[(vectors[:, 0] >= i) & (vectors[:, 1] == j)].sum()
        assert float(found.at_least(np.array([float(i)]), np.array([float(j)]))[0]) == pytest.approx(true, abs=2e-7)
    draws = (Draw(law, 1.0, 0.0, "s1"), Draw(law, 0.0, 1.0, "s1"))
    for quotient in (0.0, 0.3, 0.5, 1.0, -0.7, 2.0):
        q = reach_at(draws, quotient, CONFIDENCE)
        far = np.abs(vectors[:, 0] - quotient * vectors[:, 1])
        assert mass[far > q + 1e-9].sum() <= ALPHA < mass[far > 0.9 * q - 0.11].sum()
        assert q <= reach_at(pair(law, law), quotient, CONFIDENCE)  # of unknown dependence


def test_three_gaussian_draws_are_nearly_normal() -> None:
    draws = (Draw(gauss(80), 0.5, 0.0), Draw(gauss(90), 0.5, 0.5), Draw(gauss(70), 0.0, 0.5))
    sigma = math.hypot(40, 0.25 * 90, 0.25 * 70)
    assert 1.96 * sigma <= reach_at(draws, 0.5, CONFIDENCE) <= 1.96 * sigma + 1.1


def test_means_and_shares_are_narrower_than_the_box() -> None:
    rows, part = Quantity(kind="rows"), Quantity(kind="rows", where="a = 1")
    ratio = PlannedRatio.model_validate(
        {"ratio": ("n", "all"), "of": ({"count": "rows", "where": "a = 1"}, {"count": "rows"})}
    )
    noisy = [Noisy(part, np.array([500]), laplace(2)), Noisy(rows, np.array([1000]), laplace(2))]
    box, tested = ratio.estimate(noisy, CONFIDENCE), ratio.estimate_tested(noisy, CONFIDENCE)
    assert tested.ends is not None
    assert tested.value == box.value == 0.5
    assert 1.6 < float(2 * box.margin[0] / (tested.ends[1] - tested.ends[0])[0]) < 1.9
    mean = Mean(mean="income", clip=(Fraction(0), Fraction(60_000)))
    quantity = Quantity(kind="sum", column="income", step=Fraction(1), low=0, high=60_000, centre=30_000)
    count = Quantity(kind="nonnull", column="income")
    noisy = [Noisy(quantity, np.array([25_000_000]), laplace(60_000)), Noisy(count, np.array([1000]), laplace(2))]
    box, tested = mean.estimate(noisy, CONFIDENCE), mean.estimate_tested(noisy, CONFIDENCE)
    assert tested.ends is not None
    assert 1.4 < float(2 * box.margin[0] / (tested.ends[1] - tested.ends[0])[0]) < 1.9
    assert Count(count="rows").estimate_tested([noisy[1]], CONFIDENCE).ends is None


def test_foreseen_margins_are_those_of_the_widest_cell() -> None:
    mean = Mean(mean="income", clip=(Fraction(0), Fraction(1000)))
    quantity = Quantity(kind="sum", column="income", step=Fraction(1), low=0, high=1000, centre=500)
    count, laws = Quantity(kind="nonnull", column="income"), (laplace(1000), laplace(2))
    foreseen = mean.expected_tested((quantity, count), laws, CONFIDENCE, 100).margin
    sums = np.linspace(-50_000, 50_000, 401).astype(np.int64)
    noisy = [Noisy(quantity, sums, laws[0]), Noisy(count, np.full(401, 100), laws[1])]
    widest = mean.estimate_tested(noisy, CONFIDENCE).margin.max()
    assert foreseen is not None
    assert 0.98 * foreseen <= widest <= 1.02 * foreseen


def test_foreseen_margins_know_that_two_numbers_are_of_one_draw() -> None:
    """As published ones do: of a joint draw the widest interval of a share, and not that of two unknown draws."""
    law, confidence = KNormLaw("count", Fraction(1), 2), CONFIDENCE
    part = Count(count="rows", where="a = 1")
    share = PlannedRatio(ratio=("part", "all"), of=(part, Count(count="rows")))
    quantities = (Quantity(kind="rows", where="a = 1"), Quantity(kind="rows"))
    apart = share.expected_tested(quantities, (law, law), confidence, 100).margin
    together = share.expected_tested(quantities, (law, law), confidence, 100, ("s", "s")).margin
    assert apart is not None
    assert together is not None
    assert together < 0.5 * apart
    widest = max(reach_at((Draw(law, 1.0, 0.0, "s"), Draw(law, 0.0, 1.0, "s")), end, confidence) for end in (0.0, 1.0))
    assert widest / 100 <= together <= 1.02 * widest / 100


def test_no_set_where_nothing_is_known() -> None:
    found = with_ends(
        Count(count="rows").estimate([Noisy(Quantity(kind="rows"), np.array([5]), laplace(2))], CONFIDENCE),
        np.array([1.0]),
        np.array([math.inf]),
    )
    assert found.ends is not None
    assert math.isnan(found.margin[0])
    assert math.isnan(found.ends[0][0])
