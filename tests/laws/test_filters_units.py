"""One step of an account's relation, in steps of a spec's: every small nested data set, by breadth-first search.

What a spec sees is a multiset of its units, each with its rows (here one letter). The account's data set is the same
rows in larger or smaller units. No step in between has to be a data set that could be.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import chain, combinations_with_replacement

import pytest

from dprelease.errors import PlanError
from dprelease.privacy.convert import converted, factor
from dprelease.privacy.event import Composed, DiscreteLaplace, Event, Repeated, Sensitivity
from dprelease.privacy.unit import Neighboring

ADD, REPLACE = Neighboring.ADD_REMOVE, Neighboring.REPLACE_ONE
Unit = str | tuple[str, ...]
Data = tuple[Unit, ...]  # sorted: a multiset
Pair = tuple[Data, Data]


def multisets(things: tuple[Unit, ...], least: int, most: int) -> list[Data]:
    return [each for size in range(least, most + 1) for each in combinations_with_replacement(things, size)]


def near(data: Data, relation: Neighboring, contents: tuple[Unit, ...], most: int) -> Iterator[Data]:
    less = [(*data[:k], *data[k + 1 :]) for k in range(len(data))]
    if relation is ADD:
        yield from less
        if len(data) < most:
            yield from (tuple(sorted((*data, new), key=str)) for new in contents)
    else:
        yield from (tuple(sorted((*rest, new), key=str)) for rest in less for new in contents)


@cache
def reached(start: Data, relation: Neighboring, contents: tuple[Unit, ...], most: int) -> dict[Data, int]:
    """Every data set of at most so many units that can be reached, and in how many steps."""
    found, queue = {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        for there in near(here, relation, contents, most):
            if there not in found:
                found[there] = found[here] + 1
                queue.append(there)
    return found


def farthest(pairs: list[Pair], relation: Neighboring, contents: tuple[Unit, ...], most: int) -> int | None:
    """The largest number of steps that a pair takes; None where one cannot be reached at all."""
    steps = [reached(start, relation, contents, most).get(end) for start, end in pairs]
    return None if None in steps else max(step for step in steps if step is not None)


def households(most: int, contents: str) -> list[tuple[str, ...]]:
    return [tuple(map(str, each)) for each in multisets(tuple(contents), 1, most)]


def flat(homes: Data) -> Data:
    return tuple(sorted(chain.from_iterable(homes)))


def neighbours(relation: Neighboring, homes: list[tuple[str, ...]], others: int) -> list[tuple[Data, Data]]:
    """All neighbours of the account, as lists of its units, beside up to so many other units."""
    found: list[tuple[Data, Data]] = []
    for rest in multisets(tuple(homes), 0, others):
        changed = [(rest, (*rest, home)) for home in homes]
        if relation is REPLACE:
            changed = [((*rest, old), (*rest, new)) for old in homes for new in homes]
        found += changed
    return [*found, *((b, a) for a, b in found)]


def required(k: int, account: Neighboring, spec: Neighboring, contents: str = "ab") -> int | None:
    """Steps of the spec (per person) for one household of at most k persons."""
    pairs = [(flat(a), flat(b)) for a, b in neighbours(account, households(k, contents), 2)]
    return farthest(pairs, spec, tuple(contents), 3 * k + 1)


@pytest.mark.parametrize(("k", "contents"), [(1, "abc"), (2, "abc"), (3, "ab"), (4, "ab")])
def test_nested_units_take_as_many_steps_as_the_factor_says_and_no_fewer(k: int, contents: str) -> None:
    nests = {"person": k}
    assert required(k, ADD, ADD, contents) == factor("person", ADD, "household", ADD, nests) == k
    assert required(k, REPLACE, ADD, contents) == factor("person", ADD, "household", REPLACE, nests) == 2 * k


@pytest.mark.parametrize("k", [2, 3])
def test_replaced_persons_do_not_make_up_a_household_that_comes_or_is_replaced(k: int) -> None:
    for account, code in ((ADD, "DPR-P411"), (REPLACE, "DPR-P412")):
        assert required(k, account, REPLACE) is None
        with pytest.raises(PlanError, match="replace_one") as refused:
            factor("person", REPLACE, "household", account, {"person": k})
        assert refused.value.code == code
        assert "neighboring: add_remove" in refused.value.hint


def test_one_unit_under_both_relations() -> None:
    contents = "abc"
    for account in (ADD, REPLACE):
        assert required(1, account, account, contents) == factor("person", account, "person", account, {}) == 1
    assert required(1, REPLACE, ADD, contents) == factor("person", ADD, "person", REPLACE, {}) == 2
    assert required(1, ADD, REPLACE, contents) is None
    with pytest.raises(PlanError, match="one person more or less"):
        factor("person", REPLACE, "person", ADD, {})
    assert factor("person", ADD, "person", ADD, {"person": 7}) == 1, "a unit holds one of itself"


def moved(homes: Data, relation: Neighboring, contents: str) -> Iterator[Data]:
    """What the households are when one person comes, goes or is replaced: in any household, or a new one."""
    lists = [tuple(map(str, home)) for home in homes]
    gone = [
        tuple(home for home in (*lists[:k], (*at[:j], *at[j + 1 :]), *lists[k + 1 :]) if home)
        for k, at in enumerate(lists)
        for j in range(len(at))
    ]
    for rest in [tuple(lists)] if relation is ADD else gone:
        for new in contents:
            yield (*rest, (new,))
            for k, at in enumerate(rest):
                yield (*rest[:k], tuple(sorted((*at, new))), *rest[k + 1 :])
    if relation is ADD:
        yield from gone


@pytest.mark.parametrize(("account", "spec", "steps"), [(ADD, ADD, 2), (REPLACE, ADD, 4), (ADD, REPLACE, None)])
def test_a_larger_unit_in_the_spec_is_refused_though_some_of_it_could_be_proved(
    account: Neighboring, spec: Neighboring, steps: int | None
) -> None:
    """With every person in one household there is a number, which no policy can say; `nests` would grant half of it."""
    homes, contents = households(2, "ab"), tuple(households(3, "ab"))
    pairs: list[Pair] = []
    for data in multisets(tuple(homes), 0, 2):
        pairs += [(data, tuple(sorted(there, key=str))) for there in moved(data, account, "ab")]
    assert farthest(pairs, spec, contents, 4) == steps
    with pytest.raises(PlanError, match="the spec protects one household") as refused:
        factor("household", spec, "person", account, {"person-month": 12})
    assert refused.value.code == "DPR-P410"
    assert "made up of: person-month" in refused.value.summary


def test_what_to_write_is_in_the_refusal() -> None:
    with pytest.raises(PlanError) as refused:
        factor("person", ADD, "household", ADD, {})
    assert "nests: {person: 5}" in str(refused.value)
    assert "unit: {entity: household}" in str(refused.value)
    with pytest.raises(PlanError, match="at most 0 person units") as wrong:
        factor("person", ADD, "household", ADD, {"person": 0})
    assert wrong.value.code == "DPR-P413"


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("account", [ADD, REPLACE])
def test_a_converted_draw_covers_every_change_by_one_unit_of_the_account(k: int, account: Neighboring) -> None:
    """A person is in one of three cells; what a household changes is within the norms and the worst-case vectors."""
    event: Event = DiscreteLaplace(scale=Fraction(2), sensitivity=Sensitivity.of_one_cell(1))
    steps = factor("person", ADD, "household", account, {"person": k})
    wide = converted(event, steps)
    assert isinstance(wide, DiscreteLaplace)
    claim, most = wide.sensitivity, 0
    for before, after in neighbours(account, households(k, "abc"), 1):
        a, b = Counter(flat(before)), Counter(flat(after))
        change = tuple(sorted((abs(a[cell] - b[cell]) for cell in "abc" if a[cell] != b[cell]), reverse=True))
        most = max(most, sum(change))
        assert len(change) <= claim.l0
        assert sum(change) <= claim.l1
        assert sum(c * c for c in change) <= claim.l2_squared
        assert max(change, default=0) <= claim.linf
        padded = [shift + (0,) * len(change) for shift in claim.shifts]
        assert any(all(c <= s for c, s in zip(change, shift, strict=False)) for shift in padded)
    assert most == claim.l1 == steps


def test_a_composed_event_is_converted_draw_by_draw() -> None:
    draw = DiscreteLaplace(scale=Fraction(2), sensitivity=Sensitivity.of_one_cell(1))
    whole = converted(Composed(events=(draw, Repeated(event=draw, count=3))), 2)
    one = converted(draw, 2)
    assert whole == Composed(events=(one, Repeated(event=one, count=3)))
    assert converted(whole, 1) is whole
