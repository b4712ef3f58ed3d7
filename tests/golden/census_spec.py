"""The 2020 redistricting data of persons as a spec: the certificate's rho, levels, queries and proportions as written.

What the certificate does not say is made up, and no figure of the loss depends on it: two areas of each level in every
area above it, and numbers for keys. Every attribute is recoded, so that every record has a value of it: a record
without one would be in no table, and then every draw would depend on whether it has.
"""

from __future__ import annotations

from tests.golden.census_plan import FACTS, VALUES, levels

__all__ = ["ATTRIBUTES", "LEVELS", "text"]

LEVELS = levels("persons")
ATTRIBUTES = VALUES["persons"]
_HEAD = """dprelease: 1
release: {{name: pl94-persons, period: 2020, title: "{title}"}}
privacy:
  unit: {{entity: person}}
  neighboring: replace_one
  budget: {{rho: {rho}, delta: {delta}}}
  accounting: zcdp
tables:
  persons:
    account: census
    source: {{file: persons.csv}}
    columns:
"""


def text() -> str:
    """The spec."""
    facts = FACTS["persons"]
    lines = [_HEAD.format(title=facts["release"], rho=facts["rho"], delta=facts["delta"]), *_areas(), *_attributes()]
    lines += ["hierarchies:\n", f"  geography: [{', '.join(LEVELS)}]\n", "queries:\n", "  people:\n"]
    lines += ["    table: persons\n", "    levels: geography\n"]
    sets = ", ".join(f"[{', '.join(_columns(query))}]" for query in facts["query_proportions"])
    lines += [f"    marginals: {{sets: [{sets}]}}\n", "    shares:\n"]
    parts = ", ".join(f"{level}: {part}" for level, part in zip(LEVELS, facts["geolevel_proportions"], strict=True))
    lines += [f"      levels: {{{parts}}}\n", "      tables:\n"]
    for query, shares in facts["query_proportions"].items():
        listed = ", ".join("null" if share is None else share for share in shares)
        lines.append(f'        "{"*".join(_columns(query)) or "total"}": [{listed}]\n')
    return "".join(lines)


def _areas() -> list[str]:
    """Blocks as the source has them, and what they lie in, each level as a map of the next one."""
    found, finer = [], ""
    for depth, level in reversed(list(enumerate(LEVELS))):
        pairs = ", ".join(f"{key}: {key // 2}" for key in range(2 ** (depth + 1)))
        made = f"map: {finer}, to: {{{pairs}}}" if finer else f"keys: {{from: 0, to: {2**depth - 1}}}"
        found.append(f"      {level}: {{type: integer, {made}}}\n")
        finer = level
    return found


def _attributes() -> list[str]:
    found = []
    for name, values in ATTRIBUTES.items():
        found.append(f"      {name}_code: {{type: integer}}\n")
        found.append(_recoded(name, f"{name}_code", {key: key for key in range(values)}))
    found.append(_recoded("hhinstlevels", "hhgq_code", {key: min(key, 2) for key in range(ATTRIBUTES["hhgq"])}))
    return found


def _recoded(name: str, of: str, to: dict[int, int]) -> str:
    pairs = ", ".join(f"{value}: {key}" for value, key in to.items())
    return f"      {name}: {{type: integer, map: {of}, to: {{{pairs}}}, otherwise: 0, null: 0}}\n"


def _columns(query: str) -> tuple[str, ...]:
    """The columns of a query of the certificate."""
    if query == "detailed":
        return tuple(ATTRIBUTES)
    return () if query == "total" else tuple(query.split("*"))
