"""What the plans of the generated specs of :mod:`tests.laws.test_choices` were worth when the table was last written.

``python -m tests.laws.objectives`` plans all of them, says which are better and which are worse than the table, and
writes it again. Where one is worse it writes nothing, unless ``--accept-worse`` says that this is meant: the reason
belongs into a decision record.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import pytest

from dprelease.plan.allocate import best_candidate
from dprelease.plan.document import Account
from tests.laws.generated import generated_spec, generated_units_spec
from tests.laws.test_choices import NEARLY, POWER, chosen, planning_of, worth_of

__all__ = ["BLOCK", "BLOCKS", "TABLE", "Objective", "fell_back", "of_block", "of_today", "read"]

TABLE = Path(__file__).with_name("objectives.json")
BLOCKS, BLOCK = range(10), 40  # as test_choices has them: 40 specs of rows, and 10 of units with many, in each
_DIGITS = 9


@dataclass(frozen=True)
class Objective:
    """What one plan is worth.

    Attributes:
        spec: The first digits of the SHA-256 of the spec's text: of another spec nothing follows.
        noise: The mean logarithm of its standard errors, or half that of the total error, as the spec asks.
        charge: What an account is charged, by the epsilon of the budget.
        bearable: How much a candidate could charge without a price.
    """

    spec: str
    noise: float
    charge: float
    bearable: float

    def price(self, bearable: float) -> float:
        """What the planner makes least (docs/decisions/0049-charges-and-knife-edges.md)."""
        return self.noise + POWER * math.log(max(1.0, self.charge / bearable))


def of_block(block: int) -> Iterator[tuple[int, bool]]:
    """The seeds of a block, each with whether its units have many rows."""
    seeds = range(100 + block * BLOCK, 100 + (block + 1) * BLOCK)
    yield from ((seed, False) for seed in seeds)
    yield from ((seed, True) for seed in seeds[:10])


def of_today(seed: int, *, units: bool) -> Objective | None:
    """What a plan is worth today; None where nothing can be planned, or nothing is shared out."""
    most = 4 if units else 12
    text = generated_units_spec(seed, most) if units else generated_spec(seed, most, ratios=seed % 2 == 1)
    planning, bearable = planning_of(seed, most, units=units), [1.0]
    usual = best_candidate._bearable

    def kept(accounts: Sequence[Account], burdens: Sequence[float]) -> float:
        bearable.append(usual(accounts, burdens))
        return bearable[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(best_candidate, "_bearable", kept)
        found = chosen(planning)
    if found is None:
        return None
    worth = worth_of(planning, *found)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return Objective(digest, round(worth.noise, _DIGITS), round(worth.charge, _DIGITS), round(bearable[-1], _DIGITS))


def fell_back(before: Objective, now: Objective | None) -> str | None:
    """In what a plan is worse than the one before, in words; None where it is not."""
    if now is None:
        return "could be planned, and cannot be any more"
    if now.spec != before.spec:
        return "is another spec now: write the table again"
    bearable = before.bearable if math.isfinite(before.bearable) else now.charge
    worse = now.price(bearable) - before.price(bearable)
    return None if worse <= NEARLY else f"is worse by {math.expm1(worse):.3%}: {now}, and was {before}"


def read() -> dict[tuple[int, bool], Objective | None]:
    """The table: by seed, and whether units have many rows."""
    found = json.loads(TABLE.read_text("utf-8"))
    return {
        (int(seed), kind == "units"): None if each is None else Objective(*each)
        for kind in ("rows", "units")
        for seed, each in found[kind].items()
    }


def _written(found: Mapping[tuple[int, bool], Objective | None]) -> str:
    """One line for each spec, so that a change shows which."""
    kinds = []
    for kind in ("rows", "units"):
        own = ((seed, each) for (seed, units), each in found.items() if units == (kind == "units"))
        lines = (f'"{seed}": {json.dumps(None if each is None else astuple(each))}' for seed, each in own)
        kinds.append(f'"{kind}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(kinds) + "\n}\n"


def _worse(found: Mapping[tuple[int, bool], Objective | None]) -> Iterable[str]:
    """A line for each spec of which the table knows a better plan."""
    for key, before in (read() if TABLE.exists() else {}).items():
        if before is not None and (why := fell_back(before, found[key])) is not None:
            yield f"seed {key[0]}{', units' if key[1] else ''}: {why}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the table of what plans are worth again.")
    parser.add_argument("--accept-worse", action="store_true", help="write it where plans are worse, too")
    given = parser.parse_args()
    found = {(seed, units): of_today(seed, units=units) for block in BLOCKS for seed, units in of_block(block)}
    worse = list(_worse(found))
    print("\n".join(worse) or "no plan is worse")
    if worse and not given.accept_worse:
        raise SystemExit(1)
    TABLE.write_text(_written(found), "utf-8")
    print(
        f"{len(found)} specs, {sum(each is not None for each in found.values())} with a plan: {TABLE.name} is written"
    )


if __name__ == "__main__":
    main()
