"""Sums, squares and balances are exact at every limit, in every engine."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Source, Table
from dprelease.engines import ENGINES
from dprelease.errors import Unsupported
from tests.conformance.people import BY, COUNT, HEAD, PEOPLE, answers, integers
from tests.conformance.reference_engine import ReferenceEngine


def test_totals_beyond_64_bits_are_clamped(kind: str, tmp_path: Path) -> None:
    column = Column(name="n", type="integer", range=integers(-(2**62), 2**62))
    table = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=(column,))
    (tmp_path / "t.csv").write_text("n\n" + "9999999999999999999\n" * 5)
    engine = ENGINES[kind](tmp_path, {})
    asked = [Quantity(kind="sum", column="n", low=-(2**62), high=2**62)]
    assert answers(engine, table, (), asked) == [[2**62]]
    (tmp_path / "u.csv").write_text("n\n" + "-1e30\n" * 5)
    other = table.model_copy(update={"source": Source(file="u.csv", format="csv")})
    assert answers(engine, other, (), asked) == [[-(2**62)]]
    engine.close()


def test_the_grid_holds_for_every_double(kind: str, tmp_path: Path) -> None:
    """Doubles beyond 64 bits, and beyond the largest double once multiplied, end at the clip; halves go outwards."""
    column = Column(name="x", type="decimal", range=integers(-(2**1020), 2**1020))
    table = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=(column,))
    (tmp_path / "t.csv").write_text("x\n1e308\n-1e308\n1e306\n1e30\n-1e30\n0.125\n-0.125\n0.49999999999999994\n")
    sums = [(-(2**60), 2**61, Fraction(1, 10**6)), (-10, 2**62, Fraction(1, 4)), (-3, 3, Fraction(1))]
    asked = [Quantity(kind="sum", column="x", low=low, high=high, step=step) for low, high, step in sums]
    engine = ENGINES[kind](tmp_path, {})
    found = answers(engine, table, (), asked)
    engine.close()
    assert found == answers(ReferenceEngine(tmp_path, {}), table, (), asked)
    assert found[2] == [3]  # 3 - 3 + 3 + 3 - 3 + 0 + 0 + 0


def test_integers_are_on_the_nearest_step_of_a_coarser_grid(kind: str, tmp_path: Path) -> None:
    """Next to every half, below and above zero, up to large values, and where the clip is no step."""
    steps = [Fraction(1000), Fraction(7), Fraction(3, 2), Fraction(1, 3), Fraction(2**20 + 1, 3), Fraction(2**47)]
    tops = [2, 200, 2**24, 2**47, 2**52]
    halves = {(2 * at + 1) * step / 2 for step in steps for top in tops for at in (0, 1, top // 2, top - 1, top)}
    values = {math.floor(half) + beside for half in halves for beside in (-1, 0, 1)}
    rows = sorted({sign * value for value in values for sign in (1, -1) if value < 2**62})
    key = Column(name="k", type="integer", keys=tuple(range(len(rows))))
    x = Column(name="x", type="integer", range=integers(-(2**62), 2**62))
    table = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=(key, x))
    (tmp_path / "t.csv").write_text("k,x\n" + "".join(f"{at},{value}\n" for at, value in enumerate(rows)))
    asked = [
        Quantity(kind="sum", column="x", low=low, high=top, step=step)
        for step in steps
        for top in tops
        for low in (0, 1, -top)
        if top * step.numerator < 2**53
    ]
    engine = ENGINES[kind](tmp_path, {})
    found = answers(engine, table, ("k",), asked)
    engine.close()
    assert found == answers(ReferenceEngine(tmp_path, {}), table, ("k",), asked)


@pytest.mark.thin(first=4)
@pytest.mark.parametrize(
    "most", [9, 2**15, 2**15 + 1, 46_341, 10**7, 2**31 - 1, 2**31, 3 * 10**9, 10**12 + 7, 2**45 - 1]
)
def test_squares_are_exact_next_to_every_half_grain(kind: str, most: int, tmp_path: Path) -> None:
    """Values whose squares lie just below, on and just above the half of a grain, in cells of their own."""
    grain = max(1, -(-(most**2) // 2**30))
    grains = sorted(each for each in {grain, grain + 1, 2 * grain + 1} if each < 2**60)
    draw = random.Random(most)
    values = {0, 1, most - 1, most, -most, -most - 1, most + 1}
    for each in grains:
        for number in [0, 1, most**2 // each, *(draw.randrange(most**2 // each + 1) for _ in range(12))]:
            root = math.isqrt((2 * number + 1) * each // 2)
            values |= {root - 1, root, root + 1, -root, -root - 1}
    rows = sorted(values)
    key = Column(name="k", type="integer", keys=tuple(range(len(rows))))
    x = Column(name="x", type="integer", range=integers(-(2**62), 2**62))
    table = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=(key, x))
    (tmp_path / "t.csv").write_text("k,x\n" + "".join(f"{at},{value}\n" for at, value in enumerate(rows)))
    asked = [
        Quantity(kind="square", column="x", low=-most, high=most, grain=each, offset=offset)
        for each in grains
        for offset in (0, 2**29)
    ]
    engine = ENGINES[kind](tmp_path, {})
    found = answers(engine, table, ("k",), asked)
    engine.close()
    assert found == answers(ReferenceEngine(tmp_path, {}), table, ("k",), asked)


def test_a_balance_is_one_for_every_value_and_minus_one_for_every_null(kind: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(HEAD + b"1,x,5\n1,x,\n1,x,what\n2,y,7\n2,y,-9\n3,x,5\n")
    asked = [Quantity(kind="balance", column="pay"), COUNT, Quantity(kind="nonnull", column="pay")]
    engine = ENGINES[kind](tmp_path, {})
    balance, rows, nonnull = answers(engine, PEOPLE, BY, asked)
    assert (balance, rows, nonnull) == ([-1, 0, 0, 2], [3, 0, 0, 2], [1, 0, 0, 2])
    assert answers(engine, PEOPLE, BY, [Quantity(kind="balance", where="pay > 0")]) == [[-1, 0, 0, 0]]
    assert answers(engine, PEOPLE, BY, [Quantity(kind="balance", column="pay", where="pay > 5")]) == [[-3, 0, 0, 0]]
    (tmp_path / "people.csv").write_bytes(HEAD)
    engine.close()
    engine = ENGINES[kind](tmp_path, {})
    assert answers(engine, PEOPLE, (), asked) == [[0]] * 3
    engine.close()


@pytest.mark.parametrize(
    "wide",
    [
        Quantity(kind="square", column="pay", low=0, high=2**15 + 1),
        Quantity(kind="square", column="pay", low=-(2**50), high=2**50, grain=2**70),
    ],
)
def test_squares_that_do_not_fit_are_refused_before_anything_is_read(kind: str, wide: Quantity, tmp_path: Path) -> None:
    engine = ENGINES[kind](tmp_path, {})
    with pytest.raises(Unsupported, match="DPR-E206"):
        answers(engine, PEOPLE, BY, [wide])
    engine.close()
