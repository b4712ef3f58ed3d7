"""Noise of k counts, each with a condition of its own, beside the best that is known: the table of scalars.

Usage: ``python -m bench.scalars [--k 1,2,5] [--budgets 1:1e-6] [--accounts pld]``. One line for every budget and k, one
column for every account and form:

* A: k queries of one table, each with its own ``where``;
* B: one query with k measures, each with its own ``where``;
* C: one query with k measures, each the count of a column.

An entry is the largest standard error of a plan, divided by the least of three formulas, which share no code with the
planner: integer ``count`` K-norm noise at the whole epsilon, the correlated Gaussian (1 + sqrt k) / (2 mu), and total
and residuals at the best share. Where it is above 1.01, what the plan itself says of what it passed over is printed
below the table. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from dprelease.plan.document import ReleasePlan
from tests.ledgers import account
from tests.planned import planned_anew

BUDGETS = ("1:1e-6", "0.5:1e-9", "4:1e-10", "10:1e-12")
ACCOUNTS = ("zcdp", "pld", "basic")
SIZES = (1, 2, 3, 5, 10, 20, 50, 100, 200)
TOLD = 1.01

HEAD = """
dprelease: 1
release: {{name: scalars, period: 2024}}
privacy:
  unit: {{entity: person}}
  budget: {{epsilon: {epsilon}, delta: {delta}}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      age: {{type: integer, range: [0, 999]}}
"""


def knorm_std(k: int, epsilon: float) -> float:
    """Of one of k counts behind integer noise with P(z) ~ exp(-epsilon (max(0, max z) - min(0, min z))).

    With a coordinate 0 beside them, and shifted so that the least is 0, the vectors of norm r are those of [0, r]^(k +
    1) that reach both 0 and r: second differences of boxes. So are sums of squares of a difference of two coordinates,
    n^(k+1) (n^2 - 1) / 6 over a box of n points a side, and the factor (1 - q)^2 of both cancels.
    """
    return math.sqrt(_mean(k + 1, epsilon, lambda n: (n * n - 1) / 6, first=1))


def split_std(k: int, epsilon: float) -> float:
    """Of one of k counts behind total and residuals, at the best part of epsilon for the total."""
    return math.sqrt(_least(lambda share: _split_variance(k, epsilon, share), 1e-3, 0.5))


def _split_variance(k: int, epsilon: float, share: float) -> float:
    """(E x^2 + E m^2) / 4: x uniform on {-R, -R + 2, .., R}, R ~ (R + 1)^k q^R, and m of the parity of R."""
    q, s = math.exp(-epsilon * (1 - share)), math.exp(-epsilon * share)
    sums = {0: (1 + s * s) / (1 - s * s), 1: 2 * s / (1 - s * s)}  # over m of one parity, of s^|m|
    inner = {0: 8 * s * s / (1 - s * s) ** 2, 1: 1 + 8 * s * s / (1 - s * s) ** 2}  # E m^2 given the parity
    top = _top(k, q)
    whole = spread = 0.0
    for r in range(2 * int(top) + 200 + int(40 / -math.log(q))):
        log = k * math.log((r + 1) / (top + 1)) + (r - top) * math.log(q)
        weight = sums[r % 2] * math.exp(log)
        whole += weight
        spread += weight * (r * (r + 2) / 3 + inner[r % 2])
    return spread / whole / 4


def _mean(power: int, epsilon: float, of: Callable[[int], float], *, first: int) -> float:
    """The mean of a function of n under n^power q^n."""
    q = math.exp(-epsilon)
    top = max(1.0, _top(power, q))
    whole = total = 0.0
    for n in range(first, 2 * int(top) + 200 + int(40 / epsilon)):
        weight = math.exp(power * math.log(n / top) + (n - top) * math.log(q))
        whole += weight
        total += weight * of(n)
    return total / whole


def _top(power: int, q: float) -> float:
    return max(0.0, -power / math.log(q))


def _least(of: Callable[[float], float], low: float, high: float) -> float:
    """The least value of a function with one minimum: the golden section."""
    part = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - part * (high - low), low + part * (high - low)
        low, high = (low, right) if of(left) < of(right) else (left, high)
    return of((low + high) / 2)


def elliptic_std(k: int, epsilon: float, delta: float) -> float:
    """Of the correlated Gaussian (Joseph and Yu; Lebeda 2024), mu by the analytic Gaussian (Balle and Wang 2018)."""

    def tail(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    low, high = 1e-6, 100.0
    for _ in range(200):
        mu = (low + high) / 2
        found = tail(epsilon / mu - mu / 2) - math.exp(epsilon) * tail(epsilon / mu + mu / 2)
        low, high = (mu, high) if found <= delta else (low, mu)
    return (1 + math.sqrt(k)) / (2 * low)


def best(k: int, epsilon: float, delta: float) -> tuple[str, float]:
    """The least of the three, and its name."""
    found = {
        "K-norm": knorm_std(k, epsilon),
        "total and residuals": split_std(k, epsilon),
        "correlated Gaussian": elliptic_std(k, epsilon, delta),
    }
    name = min(found, key=lambda each: found[each])
    return name, found[name]


def spec(form: str, k: int, epsilon: str, delta: str) -> str:
    """Form A, B or C with k counts."""
    head = HEAD.format(epsilon=epsilon, delta=str(Fraction(delta)) if "/" in delta else f"{Decimal(delta):f}")
    if form == "C":
        columns = "".join(f"      c{n}: {{type: integer, range: [0, 9]}}\n" for n in range(k))
        counts = ", ".join(f"m{n}: {{count: c{n}}}" for n in range(k))
        return f"{head}{columns}queries:\n  q: {{table: people, by: [], measures: {{{counts}}}}}\n"
    if form == "B":
        counts = ", ".join(f'm{n}: {{count: rows, where: "age > {n}"}}' for n in range(k))
        return f"{head}queries:\n  q: {{table: people, by: [], measures: {{{counts}}}}}\n"
    queries = "".join(
        f'  q{n}: {{table: people, by: [], where: "age > {n}", measures: {{n: {{count: rows}}}}}}\n' for n in range(k)
    )
    return f"{head}queries:\n{queries}"


def planned(form: str, k: int, epsilon: str, delta: str, composition: str) -> ReleasePlan:
    order = "8" if composition == "rdp" else None
    terms = account(composition=composition, epsilon="1000", delta="1e-5", order=order)  # type: ignore[arg-type]
    return planned_anew(spec(form, k, epsilon, delta), None, [terms])


def worst(plan: ReleasePlan) -> float:
    """The largest standard error that a plan publishes."""
    return max(float(each.standard_error or math.inf) for each in plan.outputs)


def reason(plan: ReleasePlan) -> str:
    """What the plan says of noise that it passed over although there would have been less of it."""
    told = [each for each in plan.considered if each.why_not and float(each.noise) < 1]
    return "; ".join(f"{each.name}, {each.noise} times the noise: {each.why_not}" for each in told) or "none is told"


def main() -> None:
    parser = argparse.ArgumentParser(description="Noise of k counts beside the best that is known.")
    parser.add_argument("--k", default=",".join(map(str, SIZES)))
    parser.add_argument("--budgets", default=",".join(BUDGETS))
    parser.add_argument("--accounts", default=",".join(ACCOUNTS))
    parser.add_argument("--forms", default="ABC")
    asked = parser.parse_args()
    accounts = asked.accounts.split(",")
    columns = [(composition, form) for composition in accounts for form in asked.forms]
    began, reasons = time.process_time(), []
    for budget in asked.budgets.split(","):
        epsilon, delta = budget.split(":")
        print(f"\n(epsilon, delta) = ({epsilon}, {delta})")
        print(f"{'k':>5}{'best':>10}  {'by':21}" + "".join(f"{f'{name} {form}':>9}" for name, form in columns))
        for k in map(int, asked.k.split(",")):
            name, least = best(k, float(epsilon), float(delta))
            line = f"{k:5}{least:10.4f}  {name:21}"
            for composition, form in columns:
                plan = planned(form, k, epsilon, delta, composition)
                times = worst(plan) / least
                line += f"{times:9.3f}"
                if times > TOLD:
                    reasons.append(f"({epsilon}, {delta}) k = {k} {form} {composition} {times:.3f}: {reason(plan)}")
            print(line, flush=True)
    print(f"\n{len(reasons)} entries above {TOLD}; what their plans say:")
    for each in reasons:
        print(f"  {each}")
    print(f"\n{time.process_time() - began:.1f} s of CPU")


if __name__ == "__main__":
    main()
