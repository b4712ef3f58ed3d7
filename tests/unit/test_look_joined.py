"""Counts of a look at what private joins add equal those of plain Python, which joins row by row."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.test_look import number, project, rows_of, seen, told, write

PERSONS = """  persons:
    account: people
    unit_id: person
    source: {file: persons.csv}
    bounds: {max_rows: MOST}
    columns:
      sex: {type: integer, keys: [1, 2]}
      pay: {type: decimal, range: [0, 100], step: 0.5}
"""
LENT = """      sex: {type: integer, keys: [1, 2]}
      pay: {type: decimal, range: [0, 100], step: 0.5}
"""
MORE = """      more: {sql: "pay + age", type: decimal, range: [0, 120], step: 1}
"""
SEXES = """  sexes:
    table: visits
    by: [sex]
    where: "age >= 5"
    bounds: {max_groups: 1, max_rows_per_group: 1}
    measures: {n: {count: rows}, pay: {sum: pay, clip: [10, 60], clip_per: row}}
"""


def lending(tmp_path: Path, most: int) -> Path:
    """A project in which persons lend what they are to their visits."""
    spec = project(tmp_path)
    text = spec.read_text().replace("queries:\n", PERSONS.replace("MOST", str(most)) + "queries:\n")
    join = f"join: [{{table: persons, on: person, max_matches: {most}, add: [sex, pay]}}, {{reference"
    text = text.replace("join: [{reference", join).replace("      age: {type", LENT + "      age: {type", 1)
    text = text.replace("      paid: {type", MORE + "      paid: {type", 1)
    spec.write_text(text + SEXES)
    return spec


@pytest.mark.parametrize("most", [1, 2])
def test_what_a_private_join_adds_is_counted_as_a_release_joins_it(most: int, tmp_path: Path) -> None:
    """No unit has more rows than are lent, so that nothing of it depends on a sample."""
    spec, chosen = lending(tmp_path, most), random.Random(most)
    rows = rows_of(400, 1)
    write(tmp_path, "csv", 1, rows[:150])
    write(tmp_path, "csv", 2, rows[150:])
    persons = [(f"p{k}", chosen.choice("123"), chosen.choice(["", "5", "33.5", "70.2", "x"])) for k in range(40)]
    persons += [(f"p{k}", "2", "12") for k in range(0, 40, 3)] if most == 2 else []
    persons += [("", "1", "1"), ("p99", "1", "1")]
    (tmp_path / "persons.csv").write_text("person,sex,pay\n" + "".join(f"{','.join(each)}\n" for each in persons))
    visits, others = seen(spec)
    counts = told(visits)
    assert told(others)["sex", "not_listed"] == (sum(sex == "3" for _, sex, _ in persons), len(persons))
    known: dict[str, list[tuple[int | None, float | None]]] = {}
    for person, sex, pay in persons:
        if person:
            known.setdefault(person, []).append((int(sex), float(pay) if pay not in ("", "x") else None))
    joined, kept = [], []
    for row in rows:
        if row["day"] not in ("2024-03-07", "2024-12-31") or not row["person"]:
            continue
        age = number(row["age"], 0, 99)[1]
        for match in known.get(row["person"], [(None, None)]):  # a row without a match stays
            joined.append(match)
            if age is not None and min(max(int(age), 0), 99) >= 5:
                kept.append((row["person"], *match))
    inside = [each for each in kept if each[1] in (1, 2)]
    assert counts["sex", "null"] == (sum(sex is None for sex, _ in joined), len(joined))
    assert counts["sex", "not_listed"] == (sum(sex == 3 for sex, _ in joined), len(joined))
    assert counts["pay", "null"] == (sum(pay is None for _, pay in joined), len(joined))
    assert counts["sexes", "no_cell"] == (len(kept) - len(inside), len(kept))
    paid = [pay for _, _, pay in inside if pay is not None]
    assert counts["sexes", "clipped of pay"] == (sum(not 10 <= pay <= 60 for pay in paid), len(paid))
    pairs = Counter((person, sex) for person, sex, _ in inside)
    met = Counter(person for person, _ in pairs)
    assert counts["sexes", "groups"] == (sum(each - 1 for each in met.values()), len(pairs))
    assert counts["sexes", "rows_in_groups"] == (sum(each - 1 for each in pairs.values()), len(inside))
    assert counts["more", "null"][1] == len(joined)
    assert min(each[1] for each in counts.values()) > 0


def test_of_a_unit_with_more_rows_than_are_lent_as_many_are_looked_at_as_a_release_lends(tmp_path: Path) -> None:
    spec = lending(tmp_path, 1)
    write(tmp_path, "csv", 1, rows_of(300, 3))
    (tmp_path / "persons.csv").write_text(
        "person,sex,pay\n" + "".join(f"p{k},{sex},1\n" for k in range(60) for sex in (1, 2))
    )
    visits, _ = seen(spec)
    counts = told(visits)
    assert counts["sex", "not_listed"] == (0, counts["region", "null"][1])
    assert counts["sex", "null"][0] == 0
