"""The certificates of the 2020 Census, fed as plans: their rationals and all of their epsilons, in our own documents."""

from __future__ import annotations

import io
import re
from fractions import Fraction
from functools import cache
from itertools import pairwise

import pytest

from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.accounting.levels import attribute_changes, levels
from dprelease.publish.accounting.report import accounting_page
from dprelease.publish.base import Content
from dprelease.publish.certificate.pdf import certificate_files
from tests.golden import census_plan
from tests.golden.census_plan import FACTS, allocated, plan

FILES = ("persons", "units")


@cache
def content(name: str) -> Content:
    return census_plan.content(name)


@cache
def text(name: str) -> str:
    """What a reader of the PDF sees, with single spaces."""
    pypdf = pytest.importorskip("pypdf")
    data = certificate_files(content(name), {})["certificate.pdf"]
    return " ".join(" ".join(page.extract_text().split()) for page in pypdf.PdfReader(io.BytesIO(data)).pages)


def published(name: str) -> dict[str, float]:
    """Every published epsilon but the total, by how our certificate names what it is about."""
    facts, table = FACTS[name], f" of {name}"
    found = {
        f"block{table}, within one {level.removeprefix('Block-within-').lower()}": value
        for level, value in facts["published_geography_epsilon"].items()
    }
    return found | {f"{name_}{table}": value for name_, value in facts["published_attribute_epsilon"].items()}


@pytest.mark.parametrize("name", FILES)
def test_the_plan_passes_the_guard_that_every_release_passes(name: str) -> None:
    made = plan(name)
    verify(made)
    assert sum(step.share for step in made.steps) == 1
    assert len(made.steps) == {"persons": 65, "units": 6}[name]


@pytest.mark.parametrize("name", FILES)
def test_each_step_costs_its_published_share_up_to_the_last_bit(name: str) -> None:
    made, total = plan(name), Fraction(FACTS[name]["rho"])
    assert made.budget.rho == total
    for step in made.steps:
        rho = step.sensitivity.l2_squared / (2 * step.scale**2)
        assert 0 <= step.share * total - rho < step.share * total / 10**15


@pytest.mark.parametrize("name", FILES)
def test_the_allocation_is_the_published_one_in_exact_rationals(name: str) -> None:
    found = levels(plan(name))
    facts = FACTS[name]
    assert [level.share for level in found] == [Fraction(part) for part in facts["geolevel_proportions"]]
    ours = {(level.name, query.query): query.within for level in found for query in level.queries}
    for at, level in enumerate(census_plan.levels(name)):
        for query, shares in facts["query_proportions"].items():
            key = (level, census_plan.named(level, query))
            assert (key in ours) == (shares[at] is not None)
            assert ours.get(key) == (None if shares[at] is None else Fraction(shares[at]))


@pytest.mark.parametrize("name", FILES)
def test_all_published_epsilons_are_found_by_attribute_and_level(name: str) -> None:
    ours = {}
    for change in attribute_changes(plan(name)):
        column, within = change.attribute[1], f", within one {change.within}" if change.within else ""
        assert change.loss is not None
        ours[f"{column} of {name}{within}"] = change.loss.epsilon
    for what, epsilon in published(name).items():
        assert round(float(ours[what]), 2) == epsilon, what
    nested = [ours[f"block of {name}, within one {level}"] for level in census_plan.levels(name)[:-1]]
    assert all(wide > narrow for wide, narrow in pairwise(nested))
    assert ours[f"block of {name}"] >= nested[0]


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("name", FILES)
def test_the_certificate_shows_their_rationals(name: str) -> None:
    shown, facts = text(name), FACTS[name]
    words = set(re.findall(r"[0-9]+/[0-9]+", shown)) | set(re.findall(r"\b1\b", shown))
    assert {facts["rho"], facts["delta"]} <= words
    assert set(facts["geolevel_proportions"]) <= words
    within = {str(Fraction(each)) for shares in facts["query_proportions"].values() for each in shares if each}
    assert within <= words
    assert {str(share) for _, _, share in allocated(name)} <= words


@pytest.mark.parametrize("name", FILES)
def test_the_certificate_shows_their_epsilons(name: str) -> None:
    shown, facts = text(name), FACTS[name]
    total = re.search(r"ε = ([0-9.]+), δ = 10⁻¹⁰", shown)
    assert total is not None
    assert round(float(total[1]), 2) == round(float(Fraction(facts["epsilon_published"])), 2)
    for what, epsilon in published(name).items():
        found = re.search(rf"{re.escape(what)} [0-9]+ ([0-9.]+) 10⁻¹⁰", shown)
        assert found is not None, what
        assert round(float(found[1]), 2) == epsilon


@pytest.mark.slow
def test_the_page_shows_the_total_and_the_rationals() -> None:
    page = accounting_page(content("persons")).decode()
    assert "ε = 17.1436" in page
    assert FACTS["persons"]["delta"] in page
    assert "2.55623" in page
