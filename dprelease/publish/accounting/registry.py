"""``registry.yaml``: an entry of tier 3 for the DP Deployments Registry, as a draft.

The registry (OpenDP, with Ghazi, Nanayakkara and Vadhan) collects what deployments of differential privacy state of
themselves, in one schema. What the plan and the ledger know is filled in, and precisely: the unit with its relation,
the exact rationals beside the rounded figures, every mechanism with its parameters. What only an officer knows stands
as "Not stated"; it is for the officer to write, never for this tool to guess. A field whose values are a closed list is
left out where the value is not known, for the list has no word for that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import yaml

from dprelease.catalog.table import Table
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.facts import unprotected
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget, round_up
from dprelease.publish.accounting.choices import draw_row, laws_of_loss, mechanism_words, other_ways
from dprelease.publish.accounting.glossary import (
    NOT_COVERED,
    not_protected,
    post_processing,
    relation,
    who_is_protected,
)
from dprelease.publish.accounting.guarantee import loss_totals
from dprelease.publish.accounting.guide import how_read, selections
from dprelease.publish.accounting.threat_model import ACTORS, MODEL, SIDE_CHANNELS, apart, series_told, signature_line
from dprelease.publish.base import NOTICE, Content, Facts
from dprelease.publish.html_text import utc, visible
from dprelease.publish.numbers import at_most, so_many

__all__ = ["NOT_STATED", "REGISTRY_FILE", "registry_entry", "registry_yaml"]

REGISTRY_FILE = "registry.yaml"
NOT_STATED = "Not stated"
_MOST_NAMED = 40  # of queries, tables and draws in a text; accounting.json has all of them


def registry_yaml(content: Content) -> bytes:
    """The entry as YAML; the same bytes for the same content."""
    entry = _visible(registry_entry(content))
    return yaml.dump(entry, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=100).encode()


class _Readable(yaml.SafeDumper):
    """Plain values alone, as of ``yaml.safe_dump``; texts of several lines as blocks that people can edit."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """A block where there are several lines, else whatever is shortest."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _Readable.represent_text)


def _visible(value: Any) -> Any:
    """Every text of an author without signs that nobody sees or that reorder others; line ends stay."""
    if isinstance(value, str):
        return "\n".join(visible(line) for line in value.split("\n"))
    if isinstance(value, dict):
        return {key: _visible(each) for key, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, list) else value


def registry_entry(content: Content) -> dict[str, Any]:
    """The entry as plain values, in the order of the registry's schema."""
    plan, facts = content.plan, content.facts
    return {
        "url_slug": _slug(f"{plan.release.name}-{plan.release.period}"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(content),
            "dp_variant": _variant(plan),
            "privacy_loss": _loss(plan),
            "deployment_model": _model(plan, facts),
            "accounting": _accounting(plan),
            "implementation": _implementation(plan, facts),
            "administrative": _administrative(plan, facts),
        },
    }


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _lines(items: Iterable[str]) -> str:
    """One item as it is; several as a list in Markdown."""
    found = [each.replace("\n", " ") for each in items]
    if not found:
        return NOT_STATED
    return found[0] if len(found) == 1 else "\n".join(f"- {each}" for each in found)


def _cut(items: Sequence[str], what: str, every: int | None = None) -> list[str]:
    """The first of them, and how many more the bundle lists; ``every``: how many there are, where not all are given."""
    rest = (len(items) if every is None else every) - _MOST_NAMED
    more = [f"... and {rest} more {what}, which accounting.json of the bundle lists."]
    return [*items[:_MOST_NAMED], *(more if rest > 0 else [])]


def _basic(content: Content) -> dict[str, Any]:
    release, rehearsal = content.plan.release, content.facts.rehearsal
    tables = [f"{each.title or each.name} ({each.name})" for each in content.plan.queries]
    derived = [f"{each.title or each.name} ({each.name}), made of the others" for each in content.plan.derive]
    head = f"{NOTICE}. " if rehearsal else ""
    return {
        "name": f"{head}{release.title or release.name}, {release.period}",
        "data_curators": [release.curator or NOT_STATED],
        "description": f"{head}Tables of noisy statistics for the period {release.period}:\n\n"
        + _lines(_cut([*tables, *derived], "tables")),
        "intended_use": release.intended_use or NOT_STATED,
        "data_product_type": "Summary statistics",
        "data_product_region": NOT_STATED,
        "publication_date": utc(content.facts.reserved_at)[:10],
    }


def _variant(plan: ReleasePlan) -> dict[str, Any]:
    return {
        "variant_name": _variant_name(plan),
        "data_domain": _lines(_domain(table) for table in plan.catalog.tables.values()),
        "unprotected_quantities": _lines(
            [
                *not_protected(plan),
                *(
                    f"Public reference {name}: {each.file}, SHA-256 {each.sha256}."
                    for name, each in sorted(plan.catalog.references.items())
                ),
            ]
        ),
    }


def _variant_name(plan: ReleasePlan) -> str:
    """Zero-concentrated where the budget is a rho and no draw has a delta of its own; pure where delta is 0."""
    if plan.budget.rho is not None and Fraction(loss_totals(plan)["reveals"]) == 0:
        return "Zero-concentrated DP"
    return "Pure DP" if plan.loss[plan.certified].delta == 0 else "Approximate DP"


def _domain(table: Table) -> str:
    columns = ", ".join(f"{column.name} ({column.type})" for column in table.columns if column.in_source)
    owner = f"; rows with the same {table.unit_id} belong to one unit" if table.unit_id is not None else ""
    time = f"; only rows of the period count, by {table.time.column}" if table.time is not None else ""
    return f"Table {table.name}: every finite multiset of rows with the columns {columns}{owner}{time}."


def _loss(plan: ReleasePlan) -> dict[str, Any]:
    certified, exact, words = plan.loss[plan.certified], loss_totals(plan), ACCOUNTANTS[plan.certified].words
    parameters = {"epsilon": _number(certified.epsilon), "delta": _number(certified.delta)}
    if _variant_name(plan) == "Zero-concentrated DP":
        parameters["rho"] = _number(Fraction(exact["rho"]))
    unit = [who_is_protected(plan), relation(plan), f"Relation: {plan.neighboring}; the largest distance is 1."]
    details = [
        *([unprotected(plan)] if plan.invariants else []),
        f"Certified by the accountant {plan.certified}: {words.framework}; it "
        f"{words.how}. Conversion: {words.theorem}.",
        "Rounded up. As rationals, exact or the next readable one above: "
        + ", ".join(f"{name} = {exact[name]}" for name in ("epsilon", "delta", "rho"))
        + "; rho is of the draws under zero-concentrated differential privacy, whichever accountant certifies.",
        f"Budget of the release: {_budget(plan.budget)}.",
    ]
    return {
        "privacy_unit": str(plan.unit),
        "privacy_unit_details": _lines([*unit, *_cut(how_read(plan), "sentences")]),
        "privacy_parameters": parameters,
        "privacy_parameters_details": _lines(details),
    }


def _number(value: Fraction) -> float:
    """A number whose shortest decimal, as YAML writes it, is not below the value."""
    return float(Decimal(round_up(value, 8)))


def _budget(budget: Budget) -> str:
    named = {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta}
    return ", ".join(f"{name} = {value}" for name, value in named.items() if value is not None)


def _model(plan: ReleasePlan, facts: Facts) -> dict[str, Any]:
    timed = any(table.time is not None for table in plan.catalog.tables.values())
    others = {point.period for point in facts.history if point.release == plan.release.name} - {plan.release.period}
    found = {
        "model_name": "Central",
        "model_name_details": MODEL,
        "actors": _lines(f"{who}. Sees: {sees}. Trust: {trust}." for who, sees, trust in ACTORS),
        "release_type": "Many releases" if timed or others or facts.windows else "One release",
        "release_type_details": _lines(_over_time(plan, facts)),
    }
    if timed:
        found["data_source_type"] = "Dynamic"
    told = "Rows are read by the period that they belong to." if timed else NOT_STATED
    return found | {
        "data_source_type_details": told,
        "access_type": "Non-interactive",
        "access_type_details": "The tables are published as they are; nobody but the curator queries the data.",
    }


def _over_time(plan: ReleasePlan, facts: Facts) -> list[str]:
    """What is known of other releases: as the ledger stood when this one was charged."""
    found = [
        f"This entry is about the period {plan.release.period} alone. How often the release is repeated: {NOT_STATED}."
    ]
    found += series_told(plan, facts)
    for each in (*facts.accounts, *facts.windows):
        where = f", {each.window}" if each.window else ""
        found.append(
            f"Account {each.name}{where} adds up the losses of all releases from its data for each {each.unit}, by "
            f"{each.composition}: epsilon {at_most(each.before.epsilon, 6)} before this release and "
            f"{at_most(each.after.epsilon, 6)} after it, at delta {at_most(each.after.delta)}; its cap is "
            f"{_budget(each.cap)}."
        )
    for account in plan.accounts:
        if account.window is not None:
            limit = _budget(account.window.cap)
            found.append(f"Account {account.name} has a further cap for each {account.window.per} of rows: {limit}.")
    found += apart(plan)
    found.append("A lifetime cap is never reset. When a cap is reached, a release is refused before data are read.")
    return found


def _accounting(plan: ReleasePlan) -> dict[str, str]:
    over_periods, words = apart(plan), ACCOUNTANTS[plan.certified].words
    composition = [
        "The draws of this release compose sequentially, with parameters that were fixed before the first one: "
        f"{words.framework}. The accountant {plan.certified} {words.how}.",
        "Cells of one table share a draw: how far one unit can move all of them together is the draw's sensitivity. "
        "No other parallel composition is claimed" + (", but over periods, as told below." if over_periods else "."),
        *(f"Account {each.name} composes over releases by {each.composition}." for each in plan.accounts),
        *over_periods,
    ]
    return {"post_processing": _lines(_cut(post_processing(plan), "sentences")), "composition": _lines(composition)}


def _implementation(plan: ReleasePlan, facts: Facts) -> dict[str, str]:
    before = [
        *_cut(how_read(plan), "sentences"),
        "Keys, ranges, clips, bounds and scales are part of the plan, which is made without the data. Whether anybody "
        f"explored the data or tuned these on it: {NOT_STATED}; no such work is charged here.",
    ]
    chosen = [
        f"Epsilon, delta and the shares of the queries: {NOT_STATED}.",
        "Scales follow from the budget, the shares, the targets and the sensitivities; every sensitivity and loss was "
        "derived a second time by other code before anything was drawn.",
        *(
            f"Passed over: {each['name']}, {each['noise']} times this plan's noise: {each['why_not']}."
            for each in other_ways(plan)
        ),
    ]
    return {
        "preprocessing_and_hyperparameter_tuning": _lines(before),
        "mechanisms": _lines(_mechanisms(plan, facts)),
        "justification": _lines(chosen),
    }


def _mechanisms(plan: ReleasePlan, facts: Facts) -> list[str]:
    rows = map(draw_row, plan.steps[:_MOST_NAMED])
    kinds = Counter(mechanism_words(step.mechanism) for step in plan.steps)
    made = facts.environment
    found = [f"{name}: {so_many(count, 'draw')}." for name, count in kinds.items()]
    if laws := laws_of_loss(plan):
        found.append(f"Loss of a draw: {laws.replace(chr(0xA0), ' ')}.")
    drawn = [
        f"Step {row['id']}: {row['mechanism']}, sensitivity {row['sensitivity']}, scale {row['scale']}, "
        f"loss {row['loss']}."
        for row in rows
    ]
    return [
        *found,
        *_cut(drawn, "steps", len(plan.steps)),
        *_cut(selections(plan), "sentences"),
        f"Library: {_tool(facts)}; sampler: {made.get('sampler', NOT_STATED)}; source of entropy: "
        f"{made.get('entropy', NOT_STATED)}; commit: {made.get('commit', NOT_STATED)} (tree: "
        f"{made.get('tree', NOT_STATED)}).",
        *SIDE_CHANNELS,
        f"Security of the data as they are, and who has access to them: {NOT_STATED}.",
    ]


def _administrative(plan: ReleasePlan, facts: Facts) -> dict[str, Any]:
    notes = [
        "A draft that was written by a program from the plan and the ledger of the release; an officer has to complete "
        f"it wherever it says {NOT_STATED}.",
        f"Plan {facts.plan_fingerprint}, specification {plan.spec_fingerprint}, ledger entry {facts.ledger_sequence} "
        f"({facts.ledger_hash}), charged {utc(facts.reserved_at)}.",
        f"Signature of the bundle: {signature_line(facts.signer)}.",
        *([f"Replaces the release of ledger entry {facts.restates.sequence}."] if facts.restates else []),
        *(f"Not covered: {each}" for each in NOT_COVERED),
    ]
    return {
        "sources": "The bundle of the release: accounting.json, plan.json, facts.json and measurements/recipe.json.",
        "notes": _lines(([f"{NOTICE}."] if facts.rehearsal else []) + notes),
        "registry_authors": [_tool(facts)],
    }


def _tool(facts: Facts) -> str:
    return f"dprelease {facts.environment.get('dprelease', '')}".strip()
