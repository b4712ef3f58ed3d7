"""An erratum beside a bundle: what was claimed, and what it really cost. The bundle keeps its bytes.

Everything in it comes from the ledger, so that the same incident gives the same files for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.canonical import dumps
from dprelease.errors import PublishError, UnsupportedEvent
from dprelease.ledger.model.balance import terms_of
from dprelease.ledger.model.entry import Incident
from dprelease.ledger.model.fault import is_unprotected
from dprelease.ledger.tables.incident import Recorded, one_copy
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.facts import budget_facts, loss_facts
from dprelease.privacy.accountants import smallest
from dprelease.privacy.budget import round_up
from dprelease.privacy.filters import Spent, read_total
from dprelease.publish import folder_for
from dprelease.publish.accounting.semantics import semantics
from dprelease.regular import replace_file
from dprelease.release.records.status import UNBOUNDED

__all__ = ["FORMAT", "errata", "write_beside", "write_errata"]

FORMAT = "dprelease-erratum/1"


def errata(recorded: Iterable[Recorded]) -> tuple[dict[str, Any], ...]:
    """One erratum for each release and entry, all accounts of it together."""
    grouped: dict[tuple[int, int], list[Recorded]] = {}
    for each in recorded:
        grouped.setdefault((each.entry.sequence, each.taken.sequence), []).append(each)
    return tuple(_facts(group) for group in grouped.values())


def _facts(group: list[Recorded]) -> dict[str, Any]:
    first = group[0]
    body, taken = first.entry.facts(), first.taken
    if not isinstance(body, Incident):
        raise TypeError("an erratum is about an incident")
    return {
        "format": FORMAT,
        "release": taken.release,
        "period": taken.period,
        "plan": taken.plan,
        "reservation": taken.sequence,
        "incident": {
            "entry": first.entry.sequence,
            "hash": first.entry.hash,
            "at": body.at,
            "why": body.why,
            "mechanism": body.mechanism,
            "package": body.package,
            "version": body.version,
            "factor": "unprotected" if body.factor == 0 else str(body.factor),
            **({"erratum": body.erratum} if body.erratum else {}),
        },
        **({} if first.plan is None else {"groups": _groups(first.plan)}),
        "claimed": None if taken.claimed is None else loss_facts(taken.claimed),
        "accounts": {each.terms.name: _account(each) for each in group},
    }


def _account(each: Recorded) -> dict[str, Any]:
    cap = each.terms.lifetime
    delta = each.taken.claimed.delta if each.taken.claimed else cap.delta
    if each.plan is not None:  # of several units, which have more of it than one
        delta = max(delta, cap.delta)
    return {
        "really": _really(each, delta),
        "composition": each.terms.composition,
        "cap": budget_facts(cap),
        "before": _read(each, each.before),
        "after": _read(each, each.after),
    }


def _groups(plan: ReleasePlan) -> list[dict[str, Any]]:
    """What the report should have said of groups of units; None: no bound is proved."""
    return [
        {"size": each.size, "loss": None if each.loss is None else loss_facts(each.loss)}
        for each in semantics(plan)
        if each.kind == "group"
    ]


def _really(each: Recorded, delta: Fraction) -> dict[str, str]:
    """What this publication alone costs the account, by the best accountant, at the delta that it was claimed at."""
    if is_unprotected(each.now):
        return {"epsilon": UNBOUNDED, "delta": "1", "accountant": ""}
    try:
        name, epsilon = smallest(one_copy(each.now, each.taken.copies), delta)
    except UnsupportedEvent:
        return {"epsilon": UNBOUNDED, "delta": round_up(delta), "accountant": ""}
    return {"epsilon": round_up(epsilon, 8), "delta": round_up(delta), "accountant": name}


def _read(each: Recorded, spent: Spent | None) -> dict[str, str] | None:
    """The account as it stood; None where it is a series, whose cost is in its `open` entry."""
    if spent is None:
        return None
    delta = each.terms.lifetime.delta
    try:
        return loss_facts(read_total(terms_of(each.terms), spent, delta))
    except UnsupportedEvent:
        return {"epsilon": UNBOUNDED, "delta": round_up(delta)}


def write_errata(releases: Path, every: Iterable[Mapping[str, Any]]) -> tuple[Path, ...]:
    """Write those that are missing or differ, beside bundles that are there; returns the paths of all.

    Raises:
        PublishError: One cannot be written (DPR-W210).
    """
    hint = "the incident is in the ledger; the same command writes the errata again"
    beside = [(folder_for(releases, facts["release"], facts["period"]), facts) for facts in every]
    return tuple(
        path
        for bundle, facts in beside
        if bundle.is_dir()
        for path in write_beside(bundle, facts["incident"]["entry"], facts, _words(facts), hint)
    )


def write_beside(bundle: Path, entry: int, facts: Mapping[str, Any], words: str, hint: str) -> tuple[Path, ...]:
    """Write an erratum in two forms, named by its entry: ``releases/survey/2024.erratum-17.json`` and ``.md``.

    Args:
        bundle: The folder of the bundle that it is about.
        entry: The number of the ledger's entry.
        facts: What a machine reads.
        words: What a person reads.
        hint: What to do where it cannot be written.

    Returns:
        The paths of both; what has these bytes already is left as it is.

    Raises:
        PublishError: One cannot be written (DPR-W210).
    """
    texts = {".json": dumps(dict(facts)) + "\n", ".md": words}
    paths = {bundle.with_name(f"{bundle.name}.erratum-{entry}{ending}"): text for ending, text in texts.items()}
    for path, text in paths.items():
        try:
            if not (path.is_file() and path.read_bytes() == text.encode()):
                replace_file(path, text.encode())
        except OSError as error:
            what = f"cannot write {path}: {error.strerror or type(error).__name__}"
            raise PublishError(what, hint=hint, code="DPR-W210") from error
    return tuple(paths)


def _words(facts: Mapping[str, Any]) -> str:
    incident, claimed = facts["incident"], facts["claimed"]
    which = [f"mechanism {incident['mechanism']}"] if incident["mechanism"] else []
    if incident["package"]:
        which.append(f"{incident['package']} {incident['version'] or 'in any version'}")
    how = (
        "these draws protected nothing"
        if incident["factor"] == "unprotected"
        else f"the noise was too small by a factor of {incident['factor']}"
    )
    if "erratum" in incident:
        how = f"the noise was right, and a price was too small (erratum {incident['erratum']})"
    lines = [
        f"# Erratum to {facts['release']} {facts['period']}",
        "",
        f"Entry {incident['entry']} of the ledger, {incident['at']}: {incident['why']}",
        "",
        f"Where: {'; '.join(which) or 'all draws'}. What it means: {how}. The published numbers are unchanged.",
        "",
    ]
    if claimed:
        lines += [f"Claimed: epsilon {claimed['epsilon']} at delta {claimed['delta']}.", ""]
    for each in facts.get("groups", ()):
        loss = each["loss"]
        claim = f"epsilon {loss['epsilon']} at delta {loss['delta']}" if loss else "no bound is proved"
        lines.append(f"- A group of {each['size']} at once: {claim}, whatever the report says.")
    for name, account in facts["accounts"].items():
        really, before, after = account["really"], account["before"], account["after"]
        lines.append(f"- Account {name}: really epsilon {really['epsilon']} at delta {really['delta']}.")
        if before and after:
            cap = ", ".join(f"{key} {value}" for key, value in account["cap"].items())
            lines.append(
                f"  All its releases: epsilon {before['epsilon']} was recorded, and it is {after['epsilon']}, "
                f"at delta {after['delta']} (cap: {cap})."
            )
    return "\n".join(lines) + "\n"
