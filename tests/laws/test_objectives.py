"""No plan of 500 generated specs is worse than it was when ``objectives.json`` was last written, by its own objective."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dprelease.plan.allocate import best_candidate, candidates
from tests.laws.objectives import BLOCKS, Objective, fell_back, of_block, of_today, read

KNOWN = read()
KEPT = Objective("0" * 8, noise=1.0, charge=2.0, bearable=1.25)


def check(seed: int, *, units: bool) -> bool:
    before = KNOWN[seed, units]
    if before is None:
        return False
    why = fell_back(before, of_today(seed, units=units))
    assert why is None, f"seed {seed}, units {units}: {why}"
    return True


def check_block(block: int) -> None:
    assert sum(check(seed, units=units) for seed, units in of_block(block)) >= 30


@pytest.mark.parametrize("seed", [*range(100, 108), *range(460, 464)])
def test_a_plan_is_worth_what_it_was(seed: int) -> None:
    check(seed, units=False)


@pytest.mark.parametrize("seed", [100, 101])
def test_a_plan_for_units_with_many_rows_is_worth_what_it_was(seed: int) -> None:
    check(seed, units=True)


@pytest.mark.slow
def test_fifty_plans_are_worth_what_they_were() -> None:
    check_block(0)


@pytest.mark.nightly
@pytest.mark.parametrize("block", BLOCKS[1:])
def test_five_hundred_plans_are_worth_what_they_were(block: int) -> None:
    check_block(block)


def test_a_planner_that_joins_no_counts_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [each for each in candidates.CANDIDATES if not each.form.knorm and not each.form.centred_counts]
    monkeypatch.setattr(best_candidate, "CANDIDATES", tuple(plain))
    known = ((seed, KNOWN[seed, False]) for seed in (101, 106, 107, 109, 110))

    found = [fell_back(before, of_today(seed, units=False)) for seed, before in known if before is not None]

    assert sum(why is not None and "is worse by" in why for why in found) >= 3


def test_the_table_has_all_specs_and_most_of_them_have_a_plan() -> None:
    assert set(KNOWN) == {key for block in BLOCKS for key in of_block(block)}
    assert len(KNOWN) == 500
    assert sum(each is not None for each in KNOWN.values()) >= 400


@pytest.mark.parametrize(
    ("now", "falls"),
    [
        (KEPT, False),
        (replace(KEPT, noise=1 + 5e-6), False),
        (replace(KEPT, noise=1 + 2e-5), True),
        (replace(KEPT, noise=0.9), False),
        (replace(KEPT, noise=0.9, charge=2.1), True),  # four times the logarithm of 1.05 is 0.195
        (replace(KEPT, noise=1.1, charge=1.9), False),
        (replace(KEPT, noise=1.0, charge=1.0), False),
        (replace(KEPT, spec="1" * 8), True),
        (None, True),
    ],
)
def test_what_is_worse_is_told_by_noise_and_by_charge(now: Objective | None, falls: bool) -> None:
    assert (fell_back(KEPT, now) is not None) is falls
