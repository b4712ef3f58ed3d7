"""A small project with workloads whose totals by state are published exactly."""

from __future__ import annotations

from pathlib import Path

from tests.workloads import areas, ordinary, small_workloads, spec_of

__all__ = ["LAW", "STATES", "allowed", "exact_states", "project"]

LAW = "Title 2, section 2"
STATES = "  states: {title: People by state, table: persons, by: [state], measures: {persons: {count: rows}}}\n"


def exact_states(
    *queries: str, post: str = "[consistent]", budget: str = "{epsilon: 1, delta: 1e-9}", relation: str = "add_remove"
) -> str:
    """The text of a spec of these queries (left out: a workload with levels, and another query) and exact states."""
    head = spec_of(*(queries or (areas(), ordinary())), STATES, post=post, budget=budget, relation=relation)
    return f'{head}invariants: [{{query: states, measure: persons, why: "{LAW}"}}]\n'


def allowed(folder: Path) -> None:
    """The owner of the account lets its counts be published exactly."""
    policy = folder / "policy.yaml"
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text.replace("{unit: person, ", "{unit: person, invariants: true, "), encoding="utf-8")


def project(folder: Path, spec: str, rows: int = 3000) -> Path:
    """As ``small_workloads``, with a policy that allows invariants."""
    path = small_workloads(folder, spec, rows)
    allowed(folder)
    return path
