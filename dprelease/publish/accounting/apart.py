"""What is said wherever an account is parallel: what its cap is about, and what it does not promise."""

from __future__ import annotations

from typing import Any

from dprelease.plan.document import Account, ReleasePlan
from dprelease.privacy.unit import Neighboring
from dprelease.publish.base import AccountFacts

__all__ = ["apart", "apart_facts", "named"]


def apart(plan: ReleasePlan) -> tuple[str, ...]:
    """One text for each parallel account of a plan; nothing where all releases of an account add up."""
    return tuple(_said(account) for account in plan.accounts if account.parallel is not None)


def apart_facts(plan: ReleasePlan) -> dict[str, Any]:
    """The same for ``accounting.json``; nothing without such an account, as in older bundles."""
    parallel = {account.name: account.parallel for account in plan.accounts if account.parallel is not None}
    if not parallel:
        return {}
    terms = {name: each.model_dump(mode="json") for name, each in parallel.items()}
    return {"parallel": {"accounts": terms, "says": list(apart(plan))}}


def _said(account: Account) -> str:
    per = account.stretch
    who = account.unit.removesuffix(f"-{per}")
    who = f"a {who}" if who != account.unit else "whoever"
    counts = f"the figures are those of the {per}, of those that this release is about, that lost most"
    if account.neighboring is Neighboring.REPLACE_ONE:
        counts = (
            f"as a unit of one {per} may be replaced by one of another, the figures are those of two {per}s "
            "together: of one that this release is about, and of the other one that lost most"
        )
    return (
        f"Account {account.name} protects one {account.unit}. Releases about different {per}s are about different "
        f"units, so its cap holds for each {per} by itself, and {counts}. It does not promise more: {who} with rows in "
        f"12 {per}s loses up to 12 times that."
    )


def named(facts: AccountFacts) -> str:
    """An account, and which stretch of time its figures are about, where they are about one."""
    return f"{facts.name}, {facts.window}" if facts.window else facts.name
