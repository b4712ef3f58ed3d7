"""The JSON Schema says what the models take, with a description for every field of the spec."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dprelease.errors import SpecError
from dprelease.measures import MEASURES
from dprelease.spec.fields.document import MODELS
from dprelease.spec.load import load
from dprelease.spec.schema import json_schema
from dprelease.spec.text.nodes import plain
from dprelease.spec.text.numbers import Constant, Numeral
from dprelease.spec.text.yaml import read_yaml

from .spec_example import SPEC, swapped
from .units_example import UNITS
from .workloads_example import WORKLOADS

SCHEMA = json_schema()


def test_it_is_json_of_the_2020_draft() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert set(SCHEMA["required"]) == {"dprelease", "release", "privacy", "tables", "queries"}


def test_every_mapping_is_closed_and_has_its_fields() -> None:
    for model in MODELS.values():
        described = SCHEMA if model.__name__ == "ReleaseSpec" else SCHEMA["$defs"][model.__name__]

        assert described["additionalProperties"] is False
        assert described["description"]
        assert set(described["properties"]) == {info.alias or name for name, info in model.model_fields.items()}


def test_every_field_of_a_scalar_is_described() -> None:
    for name, model in SCHEMA["$defs"].items():
        if name in {measure.__name__ for measure in MEASURES.values()}:
            continue
        for field, described in model.get("properties", {}).items():
            assert "description" in described or "$ref" in described or field == "formats", f"{name}.{field}"


def test_numbers_may_be_exact_text() -> None:
    number = SCHEMA["$defs"]["Number"]["anyOf"]
    pattern = next(each["pattern"] for each in number if each["type"] == "string")

    assert {"type": "number"} in number
    for text in ("104/4099", "0.5", "1e-9", "-3", ".5"):
        assert re.search(pattern, text)
    for text in ("1_0", "nan", "1/", "ten"):
        assert not re.search(pattern, text)
    for model, field in (
        ("BudgetSpec", "epsilon"),
        ("QuerySpec", "share"),
        ("PinSpec", "epsilon"),
        ("TargetSpec", "margin"),
        ("PublishSpec", "confidence"),
    ):
        assert SCHEMA["$defs"][model]["properties"][field]["$ref"] == "#/$defs/Number"
    assert SCHEMA["$defs"]["QuerySpec"]["properties"]["target"]["additionalProperties"] == {
        "$ref": "#/$defs/TargetSpec"
    }
    numbers = [{"$ref": "#/$defs/Number"}] * 2
    assert SCHEMA["$defs"]["Variance"]["properties"]["clip"]["prefixItems"] == numbers
    written, chosen = SCHEMA["$defs"]["Sum"]["properties"]["clip"]["oneOf"]
    assert written["prefixItems"] == numbers
    assert chosen == {"$ref": "#/$defs/ChosenClip"}
    assert SCHEMA["$defs"]["ChosenClip"]["properties"]["within"]["prefixItems"] == numbers


def test_every_reference_leads_somewhere_and_no_null_is_offered() -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                assert value["$ref"].removeprefix("#/$defs/") in SCHEMA["$defs"]
            assert value.get("type") != "null"
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(SCHEMA)


def _as_json(value: Any) -> Any:
    """What an editor holds against the schema: numbers are numbers, other scalars what they are."""
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, Numeral):
        return value.whole if value.whole is not None else float(value.text)
    return value.value if isinstance(value, Constant) else value


@pytest.mark.parametrize(
    ("text", "old", "new", "fits"),
    [
        (SPEC, "sex: {type", "sex: {type", True),
        (UNITS, "bin: tenure", "bin: tenure", True),
        (UNITS, "top_k: page, k: 2}", "top_k: page, by: [country]}", False),
        (UNITS, "nace: {type: integer}", "nace: {}", False),
        (UNITS, "on: user_id, max_matches: 1", "on: user_id", False),
        (UNITS, "{max_groups: 5}", "{}", False),
        (UNITS, "{max_groups: 5}", "{max_group: 5}", False),
        (UNITS, "truncate: first", "truncate: none", False),
        (WORKLOADS, "ways: [0, 1, 3]", "ways: [0, 1, 3]", True),
        (WORKLOADS, "{of: [race, sex, band], ways: [0, 1, 3]}", "{of: [race, sex, band]}", False),
        (WORKLOADS, "{of: [race, sex, band], ways: [0, 1, 3]}", "{ways: [0], sets: [[race]]}", False),
        (WORKLOADS, "{of: [race, sex, band], ways: [0, 1, 3]}", "{of: [race], ways: []}", False),
        (WORKLOADS, "ages: [adult, band]", "ages: [band]", False),
        (WORKLOADS, "sex: 2/3}", "sex: half}", False),
        (WORKLOADS, "[consistent, nonnegative, integer]", "[consistent, whole]", False),
        (WORKLOADS, "invariants: []", "invariants: [{query: income, measure: persons}]", False),
    ],
)
def test_an_editor_agrees_with_the_loader(text: str, old: str, new: str, fits: bool) -> None:
    checker: Any = pytest.importorskip("jsonschema").Draft202012Validator(SCHEMA)
    places, _ = read_yaml(swapped(old, new, text), "spec.yaml")
    problems = [error.message for error in checker.iter_errors(_as_json(plain(places.root)))]

    assert (not problems) is fits, problems
    if fits:
        load(text, "spec.yaml")
    else:
        with pytest.raises(SpecError):
            load(swapped(old, new, text), "spec.yaml")


def test_two_calls_give_the_same_bytes() -> None:
    assert json.dumps(json_schema()) == json.dumps(SCHEMA)
