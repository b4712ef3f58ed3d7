"""``audit.md``: what attacks on the plan proved before it was released, where whoever released it had it attacked."""

from __future__ import annotations

from dprelease.publish.base import NOTICE, AuditFacts, Content
from dprelease.publish.html_text import visible

__all__ = ["AUDIT_FILE", "audit_markdown"]

AUDIT_FILE = "audit.md"
_MOST_ROWS = 100  # draws in the table; the loss of the others is in no row, and all are counted


def audit_markdown(content: Content, facts: AuditFacts) -> bytes:
    """The page; the same bytes for the same content."""
    plan = content.plan
    lines = [f"# Attacks on the plan: {_plain(plan.release.title or plan.release.name)}, {_plain(plan.release.period)}"]
    lines += [f"**{NOTICE}**"] * content.facts.rehearsal
    nearest = max(facts.draws, key=lambda each: float(each.proved) / max(float(each.claimed), 1e-300))
    lines.append(
        f"Before the release `dprelease audit` attacked its plan {sum(each.runs for each in facts.draws):,} times, in "
        f"{len(facts.draws):,} ways, on made-up rows, by what measures a release. "
        f"Largest part of a claim that was proved: ε = {nearest.proved} of {nearest.claimed} ({_plain(nearest.draw)}). "
        "No attack proved more than is claimed; that is no proof that none can."
    )
    lines.append(
        f"{facts.tests:,} events were tested on {facts.units_tried:,} made-up units; a plan that keeps its promise is "
        f"accused with probability {facts.miss} at most. Each figure is a lower bound of ε at the δ beside it, and "
        "what is claimed at it."
    )
    rows = [
        f"| {_plain(each.draw)} | {_plain(each.mechanism)} | {each.runs:,} | "
        f"{each.delta} | {each.claimed} | {each.proved} |"
        for each in facts.draws[:_MOST_ROWS]
    ]
    head = "| attacked | mechanism | runs on each data set, or canaries | δ | ε claimed | ε proved |\n"
    head += "|---|---|---|---|---|---|\n"
    lines.append(head + "\n".join(rows))
    if len(facts.draws) > _MOST_ROWS:
        lines.append(f"{len(facts.draws) - _MOST_ROWS:,} further attacks are not listed.")
    lines.append(
        "The figures are those that the file of the audit had when the release was charged. Nobody can check them from "
        "this bundle alone; whoever has the spec can attack the plan again with `dprelease audit`."
    )
    return ("\n\n".join(lines) + "\n").encode()


def _plain(text: str) -> str:
    return visible(text).replace("|", "\\|")
