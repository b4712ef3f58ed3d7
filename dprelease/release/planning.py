"""Plans without running them: make, freeze, and hold a frozen one against what is there now."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pydantic import ValidationError

from dprelease.catalog.table import Catalog
from dprelease.errors import BudgetExceeded, LedgerError, PlanError, Problem, SpecError, StalePlan, Where
from dprelease.freed_memory import memory_left
from dprelease.plan.allocate.planner import allocate
from dprelease.plan.document import FrozenPlan, Head, ReleasePlan
from dprelease.plan.explain.cluster import engine_questions, require_in_pieces
from dprelease.plan.explain.memory import require_memory, require_small_draws
from dprelease.plan.explain.same_question import asked
from dprelease.plan.forecast.other_budgets import Aim, Planner, Solved, WhatIf, solve, what_if
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.budget import Budget
from dprelease.regular import LARGEST_PLAN, read_regular
from dprelease.release.data.boundaries import geography_of
from dprelease.release.project import Project, read_text, reference_tables
from dprelease.spec.load import Loaded
from dprelease.spec.text.names import listed

if TYPE_CHECKING:
    from dprelease.engines import Engine
    from dprelease.ledger import Charge, Reservation

__all__ = [
    "Target",
    "charges",
    "check_fresh",
    "freeze",
    "is_another",
    "open_target",
    "plan_at_least",
    "plan_release",
    "plans_at",
    "read_frozen",
    "require_computable",
    "require_same_spec",
]


@dataclass(frozen=True)
class Target:
    """What a command was pointed at: a spec of a project, and the frozen plan where it was one."""

    project: Project
    spec_file: Path
    loaded: Loaded
    frozen: FrozenPlan | None = None

    @cached_property
    def resolved(self) -> tuple[Catalog, str]:
        """The catalog of the spec and the fingerprint of spec and references; the references are read once.

        Raises:
            SpecError: If the references do not fit the spec.
        """
        return self.project.resolve(self.loaded)


def open_target(path: Path, period: str | None = None) -> Target:
    """Read a spec or a frozen plan, and the spec that the plan was made from, of the period of the plan.

    Args:
        path: The path of either of them.
        period: Takes the place of the spec's own; of a plan it is the one that it has.

    Raises:
        SpecError: If the spec, the project or the period is wrong.
        PlanError: If the file says that it is a plan and is not a whole one, or one of another period.
    """
    if path.suffix != ".json":
        read_text(path, str(path))  # a file that is not there is told before a project that is not
        project = Project.find(path.parent)
        return Target(project, path, project.load(path, period))
    frozen = read_frozen(path)
    planned = frozen.plan.release.period
    if period not in (None, planned):
        raise PlanError(
            f"{path} is a plan for the period {planned}, not for {period!r}",
            hint=f"leave out `--period`, or plan the other one: `dprelease plan {frozen.spec_file} --period ...`",
            code="DPR-P304",
        )
    project = Project.find(path.parent)
    spec_file = _named_spec(project, frozen.spec_file, path)
    return Target(project, spec_file, project.load(spec_file, planned), frozen)


def read_frozen(path: Path) -> FrozenPlan:
    """A frozen plan, whatever its spec is now.

    Raises:
        PlanError: If it is not a whole one (DPR-P301), or was changed (DPR-P302).
    """
    try:
        data = read_regular(path, LARGEST_PLAN)
    except (OSError, ValueError):
        data = b""
    return _read_frozen(data, path)


def _named_spec(project: Project, name: str, plan: Path) -> Path:
    """The spec that a frozen plan names: a file of the plan's own project, or a link in it.

    Raises:
        SpecError: If the name leads out of the project, or is that of no spec (DPR-S693).
    """
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts or "\0" in name or name.endswith(".json"):
        hint = "`dprelease plan SPEC --out plan.json` writes a plan beside the spec that it was made from"
        says = "the frozen plan names a spec outside of its project, which is not opened"
        raise SpecError([Problem("DPR-S693", says, hint, Where(str(plan)))])
    return project.folder / name


def _read_frozen(data: bytes, path: Path) -> FrozenPlan:
    try:
        frozen = FrozenPlan.from_canonical(data)
    except (ValidationError, json.JSONDecodeError) as error:
        raise PlanError(
            f"{path} is not a whole frozen plan",
            detail=_unknown_word(error),
            hint="`dprelease plan SPEC --out plan.json` writes one",
            code="DPR-P301",
        ) from None
    if frozen.plan.fingerprint() != frozen.plan_fingerprint:
        raise PlanError(
            f"{path} was changed after it was frozen: its content has another fingerprint",
            hint="freeze it again with `dprelease plan SPEC --out plan.json`",
            code="DPR-P302",
        )
    return frozen


def _unknown_word(error: Exception) -> str:
    """What a plan names that this version does not know, such as a format of a later one; empty: nothing."""
    problems = error.errors(include_url=False) if isinstance(error, ValidationError) else ()
    return next(
        (
            f"`{'.'.join(map(str, each['loc']))}` is {each['input']!r}, not one of: {each['ctx']['expected']}"
            for each in problems
            if each["type"] == "literal_error"
        ),
        "",
    )


def plan_release(target: Target) -> ReleasePlan:
    """The plan of a spec: a pure function of the spec, its references and the policy; verified before it is shown.

    Raises:
        SpecError: If the references or the policy do not fit the spec.
        PlanError: If the budget cannot buy it, or the policy's ceilings forbid it.
    """
    from dprelease.publish import check_publishable  # here, so that a wrong spec is told before it is loaded

    project, loaded = target.project, target.loaded
    catalog, fingerprint = target.resolved
    _ = project.theme  # one that no page takes is told before anything is charged
    plan = allocate(loaded.spec, catalog, project.accounts(loaded), fingerprint)
    if loaded.spec.geography:
        areas = geography_of(loaded, catalog, project.folder, project.confidential)
        plan = plan.model_copy(update={"geography": areas})
    _check_ceilings(project, loaded, plan)
    check_publishable(plan)
    require_in_pieces(plan)
    require_small_draws(plan)
    verify(plan)
    return plan


def _planner(target: Target) -> Planner:
    """Plans of the same spec at other budgets; none of them is for running."""
    catalog, fingerprint = target.resolved
    accounts = target.project.accounts(target.loaded)
    return lambda spec: allocate(spec, catalog, accounts, fingerprint)


def plan_at_least(target: Target, aim: Aim) -> Solved:
    """The plan that meets every target of the spec at the least charge, or the least epsilon; verified.

    Raises:
        PlanError: If a query has no target, or a target cannot be met.
    """
    found = solve(target.loaded.spec, _planner(target), aim)
    verify(found.plan)
    return found


def plans_at(target: Target, epsilons: Sequence[Fraction]) -> tuple[WhatIf, ...]:
    """The accuracy that other epsilons would buy."""
    return what_if(target.loaded.spec, _planner(target), epsilons)


def _check_ceilings(project: Project, loaded: Loaded, plan: ReleasePlan) -> None:
    ceilings, certified = project.policy.ceilings, plan.loss[plan.certified]
    if ceilings is None:
        return
    if ceilings.units is not None and str(plan.unit) not in ceilings.units:
        says = f"the policy's ceilings let no release protect one {plan.unit} only"
        hint = f"they allow one {listed(ceilings.units)}; or ask the data owner to add it"
        raise SpecError([Problem("DPR-S416", says, hint, loaded.where("privacy", "unit"))])
    if certified.epsilon > ceilings.epsilon or certified.delta > ceilings.delta:
        raise BudgetExceeded(
            f"the release costs epsilon {float(certified.epsilon):.6g} at delta {float(certified.delta):.3g}, "
            f"above the policy's ceiling of {ceilings.epsilon} at {float(ceilings.delta):.3g}",
            hint="lower `privacy: budget:` in the spec, or ask the data owner to raise the ceiling",
            code="DPR-L101",
        )


def charges(plan: ReleasePlan, loaded: Loaded) -> tuple[Charge, ...]:
    """What each account would be charged, under its lifetime cap or the spec's lower `at_most`."""
    from dprelease.ledger import Charge

    at_most = loaded.spec.privacy.at_most
    owed = []
    for account in plan.accounts:
        cap = account.lifetime
        if at_most is not None and cap.epsilon is not None:
            cap = Budget(epsilon=min(cap.epsilon, at_most.epsilon), delta=min(cap.delta, at_most.delta))
        owed.append(Charge(account=account, events=plan.cost_of(account), cap=cap))
    return tuple(owed)


def freeze(target: Target, plan: ReleasePlan, heads: Mapping[str, Head]) -> FrozenPlan:
    """The plan with its fingerprint and the heads of the accounts that it was made against."""
    # The folder is resolved, as the project's was; the file itself may be a link to elsewhere.
    relative = (target.spec_file.parent.resolve() / target.spec_file.name).relative_to(target.project.folder)
    return FrozenPlan(
        plan=plan,
        plan_fingerprint=plan.fingerprint(),
        spec_file=relative.as_posix(),
        heads={account.name: heads.get(account.name, Head()) for account in plan.accounts},
    )


def check_fresh(target: Target, plan: ReleasePlan) -> None:
    """Refuse a frozen plan that is not, byte for byte, the plan that would be made now.

    Raises:
        StalePlan: Saying what moved.
    """
    if target.frozen is None or target.frozen.plan_fingerprint == plan.fingerprint():
        return
    old = target.frozen.plan
    moved = (
        "the spec or one of its references"
        if old.spec_fingerprint != plan.spec_fingerprint
        else "the order of its parts, the policy or dprelease itself"
    )
    other = "" if target.loaded.written_period == old.release.period else f" --period {old.release.period}"
    raise StalePlan(
        f"the plan is stale: {moved} changed since it was frozen",
        hint=f"review a new one: `dprelease plan {target.frozen.spec_file}{other} --out plan.json`",
    )


def is_another(target: Target, known: Reservation) -> bool:
    """Whether what is there cannot be the restatement that is asked for: another spec, none at all, or given up."""
    if known.restates is None or known.revision or known.state == "given_up":
        return True
    return target.resolved[1] != known.spec_fingerprint


def require_same_spec(target: Target, known: Reservation) -> None:
    """Refuse to go on with a release, or to show it again, for a spec or frozen plan that is not its own."""
    _, fingerprint = target.resolved
    frozen, first = target.frozen, known.plan_fingerprint
    if frozen:
        first = asked(ReleasePlan.from_canonical(known.plan)).fingerprint()
    if fingerprint != known.spec_fingerprint or (frozen and frozen.plan_fingerprint != first):
        finish = "finish it by the plan that it was begun with, `--as-planned`; " if known.state == "open" else ""
        raise LedgerError(
            f"{known.release}/{known.period} is already {known.state} with another spec",
            detail="a period is released once; its plan and answers are kept as they are",
            hint=f"{finish}release under another `period`; put the spec back as it was; or, once that one has "
            "ended, replace it with `--restate REASON`, which is charged again",
            code="DPR-L110",
        )


def require_computable(plan: ReleasePlan, engine: Engine, folder: Path) -> None:
    """Refuse now what this process has no memory for, or its engine cannot compute, and not when it is charged.

    Raises:
        PlanError: There is no memory to draw or to publish it (DPR-P342).
        Unsupported: The engine says so.
    """
    require_memory(plan, memory_left())
    references = reference_tables(plan.catalog, folder)
    for grouping, quantities, within in engine_questions(plan):
        engine.check(plan.catalog, grouping, quantities, references, within)
