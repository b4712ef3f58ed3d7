"""``dprelease schema``: prints the JSON Schema of a spec."""

from __future__ import annotations

from dprelease.cli.views import say_json

__all__ = ["schema_command"]


def schema_command() -> None:
    """Print the JSON Schema of a spec, for editors."""
    from dprelease.spec.schema import json_schema

    say_json(json_schema())
