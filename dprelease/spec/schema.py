"""The JSON Schema of a spec, for editors: what a field takes, and what it means."""

from __future__ import annotations

from typing import Any

from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.text.scalars import NUMBER

__all__ = ["json_schema"]


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a spec file; numbers are numbers or exact text such as ``104/4099``.

    It says what editors can check by themselves; ``dprelease validate`` checks the rest.
    """
    found: dict[str, Any] = _tidy(ReleaseSpec.model_json_schema(by_alias=True, mode="validation"))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "dprelease spec"}
    number = {"description": "A number, or the exact text of a fraction such as 104/4099.", **NUMBER}
    return {**head, **found, "$defs": {**found["$defs"], "Number": number}}


def _tidy(value: Any) -> Any:
    """Without titles that only repeat a name, without the nulls that no spec may hold, every number by one rule."""
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: item for name, item in value.items() if not (name == "title" and isinstance(item, str))}
    if kept.get("default", 0) is None:
        del kept["default"]
    if "anyOf" in kept:
        kept = {**_one_of(kept.pop("anyOf")), **kept}
    return {name: item if name == "default" else _tidy(item) for name, item in kept.items()}


def _one_of(choices: list[Any]) -> dict[str, Any]:
    left = [choice for choice in choices if choice != {"type": "null"}]
    if {"type": "number"} in left:
        return {"$ref": "#/$defs/Number"}
    return left[0] if len(left) == 1 else {"anyOf": left}
