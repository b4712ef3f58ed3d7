"""registry.yaml: valid by the registry's schema, precise where the plan knows, and silent where only an officer does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dprelease.privacy.budget import Budget, Loss
from dprelease.publish.accounting.registry import NOT_STATED, registry_entry, registry_yaml
from dprelease.publish.base import NOTICE, AccountPoint, Content
from tests.unit import forms_example, publish_example
from tests.unit.formats_example import chosen, content, hostile, plain, whole

SCHEMA = Path(__file__).parents[3] / "shared/data/anchors/dp_deployments_registry_schema.yaml"


def bare() -> Content:
    """A release of which its author said nothing that could be left out."""
    made = publish_example.plan()
    release = made.release.model_copy(update={"title": "", "curator": "", "contact": "", "intended_use": ""})
    found = content(made.model_copy(update={"release": release}), publish_example.measurements())
    return replace(found, facts=found.facts.model_copy(update={"environment": {}, "accounts": ()}))


CASES: dict[str, Callable[[], Content]] = {
    "plain": plain,
    "chosen": chosen,
    "hostile": hostile,
    "whole": whole,
    "rehearsal": lambda: plain(rehearsal=True),
    "bare": bare,
}
# The parts of the registry's schema that decide, written down here: they are checked where the schema is not at hand.
SECTIONS: dict[str, tuple[str, ...]] = {
    "basic": (
        "name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region",
        "publication_date",
    ),
    "dp_variant": ("variant_name", "data_domain", "unprotected_quantities"),
    "privacy_loss": ("privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"),
    "deployment_model": (
        "model_name", "model_name_details", "actors", "release_type", "release_type_details",
        "data_source_type_details", "access_type", "access_type_details",
    ),
    "accounting": ("post_processing", "composition"),
    "implementation": ("preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"),
    "administrative": ("sources", "notes", "registry_authors"),
}  # fmt: skip
CLOSED = {
    ("basic", "data_product_type"): ("Summary statistics",),
    ("dp_variant", "variant_name"): ("Pure DP", "Approximate DP", "Zero-concentrated DP"),
    ("deployment_model", "model_name"): ("Central",),
    ("deployment_model", "release_type"): ("One release", "Many releases"),
    ("deployment_model", "access_type"): ("Non-interactive",),
    ("deployment_model", "data_source_type"): ("Static", "Dynamic"),
}


def read(content: Content) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(registry_yaml(content))
    return found


@pytest.mark.parametrize("case", CASES)
def test_it_is_valid_by_the_schema_of_the_registry(case: str) -> None:
    if not SCHEMA.exists():
        pytest.skip("the registry's schema is not beside the checkout")
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    check = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    assert [error.message for error in check.iter_errors(read(CASES[case]()))] == []
    broken = read(CASES[case]())
    broken["deployment"]["dp_variant"]["variant_name"] = "Some DP"
    del broken["deployment"]["basic"]["publication_date"]
    assert len(list(check.iter_errors(broken))) == 2


@pytest.mark.parametrize("case", CASES)
def test_every_field_that_is_asked_for_is_there(case: str) -> None:
    found = read(CASES[case]())
    assert (found["status"], found["tier"]) == ("Draft", 3)
    assert set(found) == {"url_slug", "status", "tier", "deployment"}
    assert set(found["deployment"]) == set(SECTIONS)
    for section, names in SECTIONS.items():
        here = found["deployment"][section]
        assert set(names) <= set(here) <= {*names, "data_source_type"}
        for name, value in here.items():
            listed = name in ("data_curators", "registry_authors")
            assert isinstance(value, dict if name == "privacy_parameters" else list if listed else str), name
            assert value
            if (section, name) in CLOSED:
                assert value in CLOSED[section, name]
    assert isinstance(found["deployment"]["basic"]["publication_date"], str)


@pytest.mark.parametrize("case", CASES)
def test_what_is_read_back_is_what_was_meant(case: str) -> None:
    content = CASES[case]()
    assert registry_yaml(content) == registry_yaml(CASES[case]())
    if case != "hostile":
        assert read(content) == registry_entry(content)
    assert b"!!" not in registry_yaml(content)  # plain values alone


def test_numbers_are_not_below_the_loss() -> None:
    plan = publish_example.plan()
    loss = Loss(epsilon=Fraction(10**20 + 1, 10**20) * Fraction(13, 10), delta=Fraction(1, 3 * 10**9))
    content_of = content(plan.model_copy(update={"loss": {"zcdp": loss}}), publish_example.measurements())
    told = read(content_of)["deployment"]["privacy_loss"]["privacy_parameters"]
    assert set(told) == {"epsilon", "delta"}
    for name, value in (("epsilon", loss.epsilon), ("delta", loss.delta)):
        assert value <= Fraction(repr(told[name])) <= value * Fraction(10001, 10000)


def test_the_variant_follows_from_the_budget_and_the_certified_loss() -> None:
    plan, measured = publish_example.plan(), publish_example.measurements()
    assert _variant(plain()) == "Approximate DP"
    rho = Budget(rho=Fraction(1, 100), delta=Fraction(1, 10**9))
    concentrated = content(plan.model_copy(update={"budget": rho}), measured)
    assert _variant(concentrated) == "Zero-concentrated DP"
    parameters = read(concentrated)["deployment"]["privacy_loss"]["privacy_parameters"]
    assert Fraction(repr(parameters["rho"])) == Fraction(7, 3200)  # the sum over the four draws of the example
    pure = {"basic": Loss(epsilon=Fraction(1), delta=Fraction(0))}
    assert _variant(content(plan.model_copy(update={"loss": pure, "certified": "basic"}), measured)) == "Pure DP"
    selecting = chosen()  # a selection has a delta of its own: rho alone promises nothing
    assert _variant(replace(selecting, plan=selecting.plan.model_copy(update={"budget": rho}))) == "Approximate DP"


def _variant(content: Content) -> str:
    return str(read(content)["deployment"]["dp_variant"]["variant_name"])


def test_what_only_an_officer_knows_is_not_stated_and_never_invented() -> None:
    found = read(bare())["deployment"]
    assert found["basic"]["data_curators"] == [NOT_STATED]
    for section, name in (("basic", "intended_use"), ("basic", "data_product_region")):
        assert found[section][name] == NOT_STATED
    assert found["basic"]["name"] == "regional-monitor, 2024-03"
    assert "data_product_sector" not in found["basic"]
    assert "data_source_type" not in found["deployment_model"]
    for name in ("preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"):
        assert NOT_STATED in found["implementation"][name]
    assert found["administrative"]["registry_authors"] == ["dprelease"]
    said = read(plain())["deployment"]["basic"]
    assert (said["data_curators"], said["intended_use"]) == (["Example Statistical Office"], "Regional planning")
    assert said["publication_date"] == "2024-04-05"


def test_earlier_periods_make_it_one_of_many_releases() -> None:
    made = plain()
    assert read(made)["deployment"]["deployment_model"]["release_type"] == "One release"
    point = AccountPoint(
        account="acs", release="regional-monitor", period="2024-02", sequence=9, after=made.facts.accounts[0].before
    )
    later = replace(made, facts=made.facts.model_copy(update={"history": (point,)}))
    assert read(later)["deployment"]["deployment_model"]["release_type"] == "Many releases"


def test_unit_steps_and_references_are_named() -> None:
    made = plain()
    found = read(made)["deployment"]
    assert found["privacy_loss"]["privacy_unit"] == "person"
    assert "add_remove" in found["privacy_loss"]["privacy_unit_details"]
    for step in made.plan.steps:
        assert f"Step {step.id}: " in found["implementation"]["mechanisms"]
    assert "ab" * 32 in found["dp_variant"]["unprotected_quantities"]
    assert made.facts.plan_fingerprint in found["administrative"]["notes"]
    assert NOTICE not in registry_yaml(made).decode()
    assert NOTICE in read(plain(rehearsal=True))["deployment"]["basic"]["name"]


def test_long_lists_are_cut_and_say_so() -> None:
    made = plain()
    more = tuple(made.plan.steps[0].model_copy(update={"id": f"s{at}"}) for at in range(200))
    steps = (*made.plan.steps, *more)
    found = read(replace(made, plan=made.plan.model_copy(update={"steps": steps})))
    text = found["deployment"]["implementation"]["mechanisms"]
    assert "more steps, which accounting.json" in text
    assert text.count("Step s") == 36
    assert "Security of the data" in text


def test_every_way_that_was_passed_over_has_a_reason_in_a_whole_sentence() -> None:
    text = yaml.safe_load(registry_yaml(content(forms_example.forms(), forms_example.answers())))
    words = str(text)
    assert "times this plan's noise: it would charge an account epsilon 3.8, at the δ of its cap." in words
    assert "1.26 times this plan's noise: more noise." in words
    assert "noise. it" not in words
    assert "noise. -" not in words
