"""Counts of any condition about one total: every row and neighbour by brute force, lies, errors and their division."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.expression import parse
from dprelease.errors import BrokenPromiseError
from dprelease.measures import Noisy
from dprelease.noise import MECHANISMS
from dprelease.noise.exact import Exact
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.event import Sensitivity
from tests.laws.test_joined_queries import QUERIES, ROWS, TYPES, asked
from tests.ledgers import account
from tests.planned import planned_anew
from tests.reference_comparisons import gaussian_sigma
from tests.reference_expressions import evaluate
from tests.reference_splits import elliptic_std

HEAD = """dprelease: 1
release: {name: centred, period: 2024}
privacy: {unit: {entity: person}, neighboring: RELATION, budget: {epsilon: 1, delta: 1e-6}, noise: NOISE}
references:
  wrong: {file: wrong.csv, columns: {sex: text, place: text}}
tables:
  people:
    account: people
    BOUNDS
    source: {file: people.csv}
    columns:
      who: {type: text}
      sex: {type: text, keys: [f, m]}
      place: {type: text, keys: [a, b, c]}
      age: {type: integer, range: [0, 99]}
      income: {type: integer, range: [0, 100000]}
queries:
"""
WRONG = {"wrong": b"sex,place\nf,a\nm,c\n"}


def made(
    queries: str,
    relation: str = "add_remove",
    *,
    noise: str = "gaussian",
    bounds: str = "",
    composition: str = "zcdp",
    by: str = "",
) -> ReleasePlan:
    order = "8" if composition == "rdp" else None
    terms = account(composition=composition, epsilon="100", delta="1e-5", neighboring=relation, order=order)  # type: ignore[arg-type]
    head = HEAD.replace("RELATION", relation).replace("NOISE", noise).replace("BOUNDS", bounds)
    plan = planned_anew(head + (queries.format(by=by) if "{by}" in queries else queries), WRONG, [terms])
    verify(plan)
    return plan


def contributed(part: Quantity, row: dict[str, Any] | None) -> int:
    """By the definition of a balance and of a number of rows; of no row nothing."""
    if row is None:
        return 0
    counts = part.where is None or evaluate(parse(part.where, TYPES), row) is True
    counts = counts and (part.column is None or row[part.column] is not None)
    return 2 * counts - 1 if part.kind == "balance" else int(counts)


def vector(step: Step, row: dict[str, Any] | None) -> tuple[int, ...]:
    """What a row adds to the cells of a step, which looks at all rows."""
    assert step.aggregate.where is None
    cells = ["f", "m"] if step.aggregate.by else [None]
    inside = [row is not None and (cell is None or row["sex"] == cell) for cell in cells]
    return tuple(contributed(step.aggregate.quantity, row) if here else 0 for here in inside)


@pytest.mark.parametrize("by", ["", "sex"])
def test_a_row_moves_every_draw_by_one_whatever_it_holds(by: str) -> None:
    """So the sum of squared changes, each by its scale, is the same for all rows of a cell, and is what is claimed."""
    plan = made(QUERIES, by=by)
    assert [step.aggregate.quantity.kind for step in plan.steps].count("rows") == 1
    assert {step.aggregate.quantity.kind for step in plan.steps} == {"rows", "balance"}
    claimed = sum(step.sensitivity.l2_squared / step.scale**2 for step in plan.steps)
    for row in ROWS:
        moved = [vector(step, row) for step in plan.steps]
        sizes = [sum(c * c for c in change) for change in moved]
        assert sizes == [0 if by and row["sex"] is None else 1] * len(plan.steps)
        spent = sum(size / step.scale**2 for size, step in zip(sizes, plan.steps, strict=True))
        assert spent in (claimed, 0)
    mu = float(gaussian_sigma(Fraction(1), Fraction(1), Fraction(1, 10**6))) ** -1
    assert math.sqrt(claimed) == pytest.approx(mu, rel=1e-3)
    assert plan.loss[plan.certified].epsilon <= 1
    assert all(step.sensitivity == Sensitivity.of_one_cell(1) for step in plan.steps)


@pytest.mark.parametrize("by", ["", "sex"])
def test_no_replaced_row_moves_a_draw_further_than_is_claimed(by: str) -> None:
    """In one cell there is no total that helps, so that the counts stay as they are."""
    plan = made(QUERIES, "replace_one", by=by)
    kinds = {step.aggregate.quantity.kind for step in plan.steps}
    assert ("balance" in kinds) == bool(by)
    for step in plan.steps if by else ():
        vectors = [vector(step, row) for row in ROWS]
        changes = {tuple(b - a for a, b in zip(x, y, strict=True)) for x in vectors for y in vectors}
        worst = max(sum(c * c for c in change) for change in changes)
        assert worst == step.sensitivity.l2_squared


@pytest.mark.parametrize("by", ["", "sex"])
def test_half_of_balance_and_total_is_the_count_that_a_query_asks_for(by: str) -> None:
    plan = made(QUERIES, by=by)
    for query in plan.queries:
        for measure, feeds in query.inputs.items():
            parts = [plan.step(feed.step).parts[feed.part] for feed in feeds]
            assert all(plan.step(feed.step).aggregate.where is None for feed in feeds)
            for row in ROWS:
                found = Fraction(sum(contributed(part, row) for part in parts), len(parts))
                assert found == asked(plan, query.name, measure, row), (query.name, measure, row)
    everyone = next(query for query in plan.queries if query.name == "all")
    assert len(everyone.inputs["n"]) == 1  # the total itself


def lies(plan: ReleasePlan) -> list[tuple[str, ReleasePlan]]:
    total = next(step for step in plan.steps if step.aggregate.quantity.kind == "rows")
    balance = next(step for step in plan.steps if step.aggregate.quantity.kind == "balance")

    def replaced(step: Step, **update: Any) -> ReleasePlan:
        other = step.model_copy(update=update)
        return plan.model_copy(update={"steps": tuple(other if each is step else each for each in plan.steps)})

    def aggregate(step: Step, **update: Any) -> ReleasePlan:
        return replaced(step, aggregate=step.aggregate.model_copy(update=update))

    half = Sensitivity.of_one_cell(1).model_copy(update={"l2_squared": Fraction(1, 4)})
    found = [
        ("noise of half the scale on the total", replaced(total, scale=total.scale / 2)),
        ("noise of half the scale on a balance", replaced(balance, scale=balance.scale / 2)),
        ("half the sensitivity of the total", replaced(total, sensitivity=half)),
        ("half the sensitivity of a balance", replaced(balance, sensitivity=half)),
        ("the total's share left out", replaced(total, share=Fraction(1, 10**9))),
        ("no total", plan.model_copy(update={"steps": tuple(each for each in plan.steps if each is not total)})),
    ]
    for where in ("age >= 65", "age >= 18", "income > 10"):
        found.append((f"a total of the rows with {where}", aggregate(total, where=where)))
        some = total.aggregate.quantity.model_copy(update={"where": where})
        found.append((f"a total that skips all but {where}", aggregate(total, quantity=some)))
        found.append((f"a balance of the rows with {where}", aggregate(balance, where=where)))
        other = balance.aggregate.quantity.model_copy(update={"where": f"{where} AND age < 90"})
        found.append((f"a balance of {where}", aggregate(balance, quantity=other)))
    plain = balance.aggregate.quantity.model_copy(update={"kind": "rows"})
    found.append(("a count in the place of a balance", aggregate(balance, quantity=plain)))
    found.append(("another number of cells", aggregate(total, by=("sex",))))
    return found


def test_every_lie_about_rows_noise_and_reach_is_refused() -> None:
    plan = made(QUERIES)
    for what, lie in lies(plan):
        with pytest.raises(BrokenPromiseError):
            pytest.fail(f"{what} is believed: {verify(lie)}")


def test_a_total_of_the_queries_own_rows_does_not_stand_beside_a_balance_of_all() -> None:
    """2 c - n of all rows plus the n of some is no count; each by itself would be in its place elsewhere."""
    plan = made('  a: {table: people, by: [], where: "age >= 18", measures: {m: {count: income}, n: {count: rows}}}\n'
                '  b: {table: people, by: [], where: "age >= 65", measures: {n: {count: rows}}}\n')  # fmt: skip
    total = next(step for step in plan.steps if step.aggregate.quantity.kind == "rows")
    for where, quantity in (("age >= 18", None), (None, "age >= 18")):
        own = total.aggregate.model_copy(update={"where": where, "quantity": Quantity(kind="rows", where=quantity)})
        steps = tuple(each.model_copy(update={"aggregate": own}) if each is total else each for each in plan.steps)
        with pytest.raises(BrokenPromiseError, match=r"other (quantities|cells)"):
            verify(plan.model_copy(update={"steps": steps}))


def many(k: int, form: str, shares: bool = False) -> str:
    if form == "B":
        counts = ", ".join(f'm{n}: {{count: rows, where: "income > {n}"}}' for n in range(k))
        return f"  q: {{table: people, by: [], measures: {{{counts}}}}}\n"
    return "".join(
        f'  q{n}: {{table: people, by: [], where: "income > {n}",{f" share: {1 + n % 7}," if shares else ""} '
        f"measures: {{n: {{count: rows}}}}}}\n"
        for n in range(k)
    )


def errors(plan: ReleasePlan) -> list[float]:
    return [float(each.standard_error or math.nan) for each in plan.outputs]


@pytest.mark.parametrize("form", ["A", "B"])
@pytest.mark.parametrize(("k", "composition"), [(2, "zcdp"), (9, "rdp"), (60, "pld"), (100, "zcdp"), (200, "pld")])
def test_equal_counts_have_the_error_of_the_correlated_gaussian(form: str, k: int, composition: str) -> None:
    """All the same, and (1 + sqrt k) / (2 mu), mu by the analytic Gaussian, to a hundredth of a per cent."""
    plan = made(many(k, form), noise="gaussian", composition=composition)
    mu = 1 / float(gaussian_sigma(Fraction(1), Fraction(1), Fraction(1, 10**6)))
    assert max(errors(plan)) <= min(errors(plan)) * (1 + 1e-5)
    assert max(errors(plan)) == pytest.approx(elliptic_std(k, mu), rel=3e-4 if k > 2 else 3e-3)


def test_unequal_shares_divide_the_budget_at_the_least_mean_log_variance() -> None:
    """The oracle: the stationary point in the total's part n, b_q = (s_q - b_q / (b_q + n)...) solved by bisection."""
    shares = [1 + n % 7 for n in range(20)]
    plan = made(many(20, "A", shares=True))
    weights = np.array(shares) / sum(shares)

    def rest(n: float) -> np.ndarray:
        # sum s ln(1 / b + 1 / n) - theta (sum b + n): s n / (b (b + n)) = theta, with theta = 1 at scale one
        return (-n + np.sqrt(n * n + 4 * weights * n)) / 2

    low, high = 1e-6, 1.0
    for _ in range(200):
        n = (low + high) / 2
        low, high = (n, high) if rest(n).sum() + n < 1 else (low, n)
    variances = (1 / rest(low) + 1 / low) / 4
    found = np.array(errors(plan)) ** 2
    np.testing.assert_allclose(found / found[0], variances / variances[0], rtol=2e-3)
    independent = next(each for each in plan.considered if each.name == "discrete Gaussian")
    assert float(independent.noise) > 1.3
    apart = np.sqrt(1 / weights) * math.sqrt(float(plan.steps[0].scale ** 2 * plan.steps[0].share))
    assert (np.array(errors(plan)) < apart).all()  # every single one is better than behind noise of its own


def test_targets_are_met_at_the_error_that_they_ask_for() -> None:
    """A total that ten targets need is paid for once: the loss is that of the correlated Gaussian at that error."""
    k, margin = 10, 60
    queries = many(k, "A").replace("measures", f"target: {{n: {{margin: {margin}}}}}, measures")
    plan = made(queries)
    assert all(float(each.margin or math.inf) <= margin for each in plan.outputs)
    spent = math.sqrt(sum(float(step.sensitivity.l2_squared / step.scale**2) for step in plan.steps))
    assert max(errors(plan)) == pytest.approx(margin / 1.96, rel=0.02)
    assert spent == pytest.approx(elliptic_std(k, 1.0) / max(errors(plan)), rel=1e-3)


def test_published_errors_are_those_of_the_draws() -> None:
    """Every step drawn 60,000 times on zeros, put together by the measure itself."""
    plan = made(many(12, "A", shares=True))
    rng_cells = 60_000
    drawn = {
        step.id: MECHANISMS[step.mechanism].draw(Exact(np.zeros(rng_cells, dtype=np.int64)), step.scale)
        for step in plan.steps
    }
    for query, output in zip(plan.queries, plan.outputs, strict=True):
        feeds = query.inputs["n"]
        noisy = [
            Noisy(plan.step(feed.step).parts[feed.part], drawn[feed.step], plan.step(feed.step).law) for feed in feeds
        ]
        found = query.measures["n"].estimate(noisy, plan.publish.confidence).value
        assert float(np.std(found)) == pytest.approx(float(output.standard_error or 0), rel=0.02)
        outside = float(np.mean(np.abs(found) > float(output.margin or 0)))
        assert 0.035 < outside <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / rng_cells)


def test_units_with_several_rows_share_a_total_within_a_query_alone() -> None:
    """Bounds come after the query's own filter: two queries keep other rows of a unit, and have no total in common."""
    bounds = "unit_id: who\n    bounds: {max_rows: 4}"
    limits = "bounds: {max_groups: 1, max_rows_per_group: 3}"
    counts = ", ".join(f'm{n}: {{count: {"units" if n % 2 else "rows"}, where: "age > {n}"}}' for n in range(8))
    one = f"  q: {{table: people, by: [sex], {limits}, measures: {{{counts}}}}}\n"
    plan = made(one, bounds=bounds)
    kinds = sorted((step.aggregate.quantity.kind, step.aggregate.quantity.per) for step in plan.steps)
    assert kinds == [*[("balance", "row")] * 4, *[("balance", "unit_cell")] * 4, ("rows", "row"), ("units", "row")]
    reach = {step.aggregate.quantity.kind: step.sensitivity.linf for step in plan.steps if step.id.endswith("rows")}
    assert reach == {"rows": 3}
    queries = "".join(
        f'  q{n}: {{table: people, by: [sex], {limits}, where: "age > {n}", measures: {{n: {{count: rows}}}}}}\n'
        for n in range(5)
    )
    apart = made(queries, bounds=bounds)
    assert {step.aggregate.quantity.kind for step in apart.steps} == {"rows"}
    assert {step.aggregate.where for step in apart.steps} == {f"age > {n}" for n in range(5)}


def test_structural_keys_are_cells_like_others() -> None:
    """Queries share a total only where they leave out the same cells."""
    query = (
        '  {name}: {{table: people, by: [sex, place],{left} where: "age > {n}", measures: {{n: {{count: rows}}}}}}\n'
    )
    left = " except: {reference: wrong},"
    queries = "".join(query.format(name=f"q{n}", left=left if n % 2 else "", n=n) for n in range(6))
    plan = made(queries)
    totals = [step for step in plan.steps if step.aggregate.quantity.kind == "rows"]
    assert sorted((step.cells or 0, len(step.answers)) for step in totals) == [(4, 3), (6, 3)]


def test_a_filter_too_long_to_write_twice_shares_no_total_and_is_no_error() -> None:
    long = " or ".join(f"income = {n}" for n in range(120))
    plan = made(
        f'  one: {{table: people, by: [], where: "age >= 18 and ({long})", measures: {{n: {{count: rows, where: "{long}"}}}}}}\n'
        '  two: {table: people, by: [], where: "age >= 18", measures: {n: {count: rows}}}\n'
    )
    assert {step.aggregate.quantity.kind for step in plan.steps} == {"rows"}


def test_a_ratio_takes_counts_about_a_total_as_they_are() -> None:
    plan = made(
        '  q: {table: people, by: [], where: "age > 17", measures: {n: {count: rows}, '
        'r: {count: rows, where: "income > 9"}, part: {ratio: [r, n]}}}\n'
        '  b: {table: people, by: [], where: "age >= 65", measures: {n: {count: rows}}}\n'
    )
    (ratio,) = (query.inputs["part"] for query in plan.queries if query.name == "q")
    kinds = [plan.step(feed.step).aggregate.quantity.kind for feed in ratio]
    assert kinds == ["balance", "rows", "balance", "rows"]
