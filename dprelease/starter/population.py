"""A made-up population to try things on: about what a small country's register looks like, dirt included.

Nobody in it exists. The generator is seeded, so that the same people come out every time; nothing here is noise,
and nothing here may ever be used as noise.

    python -m dprelease.starter.population PATH [PEOPLE]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from dprelease.errors import Problem, SpecError
from dprelease.regular import replace_file

__all__ = ["DISTRICTS", "PEOPLE", "population", "write_population"]

PEOPLE = 30_000
_SEED = 20_240_301
_HEADER = "district,age,sex,employed,income"

# District code to its part of the population, in thousandths; adds up to 1000.
DISTRICTS: dict[str, int] = {
    "01-01": 118,
    "01-02": 74,
    "01-03": 61,
    "02-01": 102,
    "02-02": 83,
    "02-03": 47,
    "03-01": 96,
    "03-02": 58,
    "03-03": 52,
    "04-01": 89,
    "04-02": 67,
    "04-03": 41,
    "06-01": 44,
    "06-02": 36,
    "06-03": 32,
}

# Lines that no reader should trip over: too few fields, too many, an open quote, another alphabet, nothing at all.
_MALFORMED = (
    "01-02,44,1",
    "03-01,51,2,1,28000,,,moved",
    '02-02,"37,1,1,31000',
    "\u00fcberall,\u0662\u0665,2,1,20000",
    ",,,,",
)
_ODD_AGES = ("", "unknown", "212", "-1")
_ODD_SEXES = ("9", "")
_ODD_INCOMES = ("n/a", "-", "9999999", "-2500", "1e400", "NaN", '"24,000"')


def population(people: int = PEOPLE) -> str:
    """The whole file as text: a header, one line per person, and a handful of malformed lines.

    Args:
        people: How many lines with a person; at least 1.

    Returns:
        CSV text of columns district, age, sex, employed, income; the same bytes every time.

    Raises:
        SpecError: If ``people`` is below 1.
    """
    if people < 1:
        raise SpecError([Problem("DPR-S903", f"a population of {people} people", "give a whole number from 1")])
    lines = [_HEADER, *_persons(people)]
    for number, line in enumerate(_MALFORMED, start=1):
        lines.insert(1 + number * len(lines) // (len(_MALFORMED) + 1), line)
    return "\n".join(lines) + "\n"


def _persons(people: int) -> Iterator[str]:
    dice = Random(_SEED)  # noqa: S311 - made-up people, not noise: the same ones are wanted every time
    # Only random() is drawn on: its sequence for a seed is the one that Python promises to keep.
    for _ in range(people):
        district = _pick(tuple(DISTRICTS), tuple(DISTRICTS.values()), dice.random())
        age = int(100 * dice.random() ** 1.35 * 0.96)
        sex = 1 if dice.random() < 0.489 else 2
        working = 18 <= age < 67 and dice.random() < (0.81 if sex == 1 else 0.74)
        yield ",".join((*_basics(dice, district, age, sex, working), _income(dice, district, age, working)))


def _basics(dice: Random, district: str, age: int, sex: int, working: bool) -> tuple[str, ...]:
    dirt = dice.random()
    shown_district = "99-99" if dirt < 0.0005 else district
    shown_age = _odd(dice, _ODD_AGES) if 0.001 < dirt < 0.002 else str(age)
    shown_sex = _odd(dice, _ODD_SEXES) if 0.002 < dirt < 0.003 else str(sex)
    return shown_district, shown_age, shown_sex, "1" if working else "0"


def _income(dice: Random, district: str, age: int, working: bool) -> str:
    """Empty for children and for some who did not answer; skewed to the right, as incomes are."""
    bell = sum(dice.random() for _ in range(12)) - 6
    dirt = dice.random()
    if dirt < 0.002:
        return _odd(dice, _ODD_INCOMES)
    if age < 15 or dirt < 0.04:
        return ""
    middle = (26_000 if working else 11_500) * (1.25 if district.startswith("01") else 1.0)
    return f"{10 * round(middle * math.exp(0.55 * bell) / 10)}.00"


def _odd(dice: Random, values: Sequence[str]) -> str:
    return values[int(dice.random() * len(values))]


def _pick(values: Sequence[str], weights: Sequence[int], at: float) -> str:
    left = at * sum(weights)
    for value, weight in zip(values, weights, strict=True):
        left -= weight
        if left < 0:
            return value
    return values[-1]


def write_population(path: Path, people: int = PEOPLE) -> None:
    """Write the population; whole or not at all, and not again where the same bytes are there already.

    Args:
        path: The file; its folder is made.
        people: How many people, at least 1.

    Raises:
        SpecError: If ``people`` is below 1, or the file cannot be written.
    """
    data = population(people).encode()
    try:
        if path.is_file() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        problem = Problem(
            "DPR-S904", f"cannot write {path}: {error.strerror}", "name a file in a folder that you can write to"
        )
        raise SpecError([problem]) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a population from the command line; exit code 0, or 2 with the reason on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m dprelease.starter.population", description="Made-up people as CSV."
    )
    parser.add_argument("path", type=Path, help="the file to write")
    parser.add_argument("people", type=int, nargs="?", default=PEOPLE, help=f"how many (default {PEOPLE})")
    asked = parser.parse_args(arguments)
    try:
        write_population(asked.path, asked.people)
    except SpecError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
