"""The JSON Schema says what the models take, with a description for every field of the spec."""

from __future__ import annotations

import json
import re
from typing import Any

from dprelease.measures import MEASURES
from dprelease.spec.document import MODELS
from dprelease.spec.schema import json_schema

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
    clip = SCHEMA["$defs"]["Sum"]["properties"]["clip"]
    assert clip["prefixItems"] == [{"$ref": "#/$defs/Number"}] * 2


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


def test_two_calls_give_the_same_bytes() -> None:
    assert json.dumps(json_schema()) == json.dumps(SCHEMA)
