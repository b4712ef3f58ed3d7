"""What a plan says of the totals of its queries: which are drawn, how accurate they are, and what adding up gives."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dprelease.plan.design.totals import accuracy_of_tables
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.budget import round_up

__all__ = ["totals_facts"]


def totals_facts(plan: ReleasePlan) -> list[dict[str, Any]]:
    """For every query with totals the cells and each table of totals, with every measure: figures rounded up."""
    return [
        {
            "query": query.name,
            "by": list(each.by),
            "cells": each.cells,
            "measure": each.measure,
            "part": None if each.part is None else str(each.part),
            "standard_error": _text(each.expected.standard_error),
            "margin": _text(each.expected.margin),
            "standard_error_added_up": _text(each.added_up.standard_error),
            "margin_added_up": _text(each.added_up.margin),
        }
        for query in plan.queries
        if query.totals is not None
        for each in accuracy_of_tables(plan, query)
    ]


def _text(number: float | None) -> str | None:
    return None if number is None else round_up(Fraction(number), 6)
