"""The 17 epsilons that the 2020 Census certificates publish, from their exact rho by our zCDP conversion."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.privacy.theorems.concentrated import rho_to_epsilon

FACTS: dict[str, Any] = json.loads((Path(__file__).parent / "census2020.json").read_text(encoding="utf-8"))
FILES = ("persons", "units")
LEVELS = [(name, level) for name in FILES for level in FACTS[name]["published_geography_epsilon"]]
ATTRIBUTES = [(name, attribute) for name in FILES for attribute in FACTS[name]["published_attribute_epsilon"]]


def epsilon_of(facts: dict[str, Any], rho: Fraction) -> float:
    return float(rho_to_epsilon(rho, Fraction(facts["delta"])))


@pytest.mark.parametrize("name", FILES)
def test_total(name: str) -> None:
    facts = FACTS[name]
    published = Fraction(facts["epsilon_published"])
    assert epsilon_of(facts, Fraction(facts["rho"])) == pytest.approx(float(published), abs=1e-6)


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_block_within_a_level(name: str, level: str) -> None:
    """Moving a person between blocks of one area touches only the tables of the levels below that area."""
    facts = FACTS[name]
    outer = facts["geolevels"].index(level.removeprefix("Block-within-"))
    below = sum(Fraction(share) for share in facts["geolevel_proportions"][outer + 1 :])
    assert round(epsilon_of(facts, Fraction(facts["rho"]) * below), 2) == facts["published_geography_epsilon"][level]


@pytest.mark.parametrize(("name", "attribute"), ATTRIBUTES)
def test_one_attribute(name: str, attribute: str) -> None:
    """Changing one attribute of a person touches only the queries that tabulate it."""
    facts, rho = FACTS[name], Fraction(0)
    for query, shares in facts["query_proportions"].items():
        used = facts.get("attribute_of_query", {}).get(query, query.split("*"))
        if attribute in used or name == "units":
            levels = zip(facts["geolevel_proportions"], shares, strict=True)
            rho += sum(Fraction(level) * Fraction(share or 0) for level, share in levels)
    epsilon = epsilon_of(facts, Fraction(facts["rho"]) * rho)
    assert round(epsilon, 2) == facts["published_attribute_epsilon"][attribute]


def test_losses_compose_and_do_not_add_up() -> None:
    """Persons and units together: 17.435, not 17.14 + 2.47 = 19.61."""
    together = sum(Fraction(FACTS[name]["rho"]) for name in FILES)
    assert round(epsilon_of(FACTS["persons"], Fraction(together)), 3) == 17.435
