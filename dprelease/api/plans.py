"""Before any data are read: where a project begins, what is spent, and what each number of a plan will cost."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

from dprelease.api.frames import Shown, figures
from dprelease.errors import Problem, SpecError, Where
from dprelease.plan.forecast.other_budgets import Aim
from dprelease.privacy.budget import Loss
from dprelease.release.planning import open_target, plans_at
from dprelease.release.project import Project
from dprelease.release.quote import plan_or_solve, quote_plan, solved_facts, what_if_facts
from dprelease.release.records.status import policy_accounts, status_facts
from dprelease.starter import create_project

__all__ = ["Accounted", "Plan", "Spend", "init", "plan", "spend"]


@dataclass(frozen=True, eq=False, repr=False)
class Accounted(Shown):
    """Facts about what a release costs, exact numbers as text, and the parts of them that are tables."""

    facts: Mapping[str, Any]

    @property
    def steps(self) -> pd.DataFrame:
        """Every noisy draw: what it answers, its mechanism, its share, and scale and sensitivity in grid steps."""
        rows = [
            {
                **{name: each[name] for name in ("mechanism", "cells", "share", "scale", "grid")},
                **each["sensitivity"],
                "step": each["id"],
                "answers": ", ".join(f"{answer['query']}.{answer['measure']}" for answer in each["answers"]),
            }
            for each in self.facts["steps"]
        ]
        numbers = dict.fromkeys(("share", "scale", "grid", "l1", "l2", "linf"), "number")
        return figures(rows, {"step": "text", "answers": "text", "mechanism": "text", "cells": "count", **numbers})

    @property
    def loss(self) -> pd.DataFrame:
        """The loss under every accountant; one of them is certified."""
        certified = self.facts["loss"]["certified"]["accountant"]
        losses = {name: loss for name, loss in self.facts["loss"].items() if name != "certified"}
        rows = [{"accountant": name, **loss, "certified": name == certified} for name, loss in losses.items()]
        return figures(rows, {"accountant": "text", "epsilon": "number", "delta": "number", "certified": "flag"})

    @property
    def accounts(self) -> pd.DataFrame:
        """Epsilon of each account and window before and with this release, at the delta of its cap."""
        numbers = dict.fromkeys(("before", "after", "cap", "delta"), "number")
        columns = {"name": "text", "window": "text", "composition": "text", **numbers, "fits": "flag"}
        return figures(self._account_rows, columns)

    @property
    def _account_rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of ``accounts``, as a plan's facts have them."""
        return list(self.facts["accounts"])

    @property
    def _cost(self) -> str:
        certified = self.facts["loss"]["certified"]
        loss = Loss(epsilon=Fraction(certified["epsilon"]), delta=Fraction(certified["delta"]))
        return f"{loss.told}, by {certified['accountant']}"


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Accounted):
    """What a release does to the budget, and what it gets for it; ``facts`` are those of ``dprelease plan --json``."""

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the plan."""
        return str(self.facts["plan_fingerprint"])

    @property
    def outputs(self) -> pd.DataFrame:
        """The predicted standard error and margin of every measure, one row each, in units of the column."""
        columns = {"query": "text", "measure": "text", "standard_error": "number", "margin": "number"}
        return figures(self.facts["outputs"], {**columns, "why_null": "text"})

    @property
    def what_if(self) -> pd.DataFrame:
        """The margin of every measure at the other budgets that were asked for, one row each; none: no rows."""
        rows = [
            {"epsilon": tried["epsilon"], "query": each["query"], "measure": each["measure"], "margin": each["margin"]}
            for tried in self.facts.get("what_if", ())
            for each in tried["outputs"]
        ]
        return figures(rows, {"epsilon": "number", "query": "text", "measure": "text", "margin": "number"})

    def _told(self) -> tuple[str, Sequence[str], Mapping[str, pd.DataFrame]]:
        shown = {"margins of the published numbers": self.outputs, "draws": self.steps, "accounts": self.accounts}
        title = f"plan of {self.facts['release']}/{self.facts['period']}: costs {self._cost}"
        return title, [self.facts.get("unprotected", "")], shown


def plan(
    spec: str | os.PathLike[str],
    *,
    period: str | None = None,
    out: str | os.PathLike[str] | None = None,
    replace: bool = False,
    solve: bool | Aim = False,
    what_if: Iterable[str | float | Fraction] = (),
) -> Plan:
    """Plan a release, as ``dprelease plan`` does: no data are read and nothing is charged.

    Args:
        spec: The file of a spec.
        period: Takes the place of the spec's own.
        out: A file to freeze the plan in, for review; :func:`dprelease.run` takes it.
        replace: Whether ``out`` may name a file with another plan, which is lost then; never one that is approved.
        solve: Plan a budget that meets every target, in place of the spec's: the one that charges the accounts least,
            or with ``"epsilon"`` the smallest epsilon. What each noise would cost is under ``facts["solve"]``.
        what_if: Epsilons at which the margins are told as well.

    Raises:
        SpecError: If the spec, its project or its references are wrong; it carries every problem.
        PlanError: If the budget cannot buy it, a plan at another budget is to be frozen, or ``out`` holds
            something else.
        BudgetExceeded: If a ceiling forbids it, or an account could not pay for it.
    """
    epsilons = tuple(Fraction(str(each)) for each in what_if)
    if any(each <= 0 for each in epsilons):
        raise ValueError("what_if takes epsilons above 0, such as [0.5, 1, 2]")
    target = open_target(Path(spec), period)
    aim: Aim | None = ("charge" if solve is True else solve) if solve else None
    made, solved = plan_or_solve(target, solve=aim, frozen=out is not None)
    quote = quote_plan(target, made, target.project.open_ledger())
    _warn((*target.loaded.warnings, *quote.warnings))
    tried = plans_at(target, epsilons) if epsilons else ()
    if out is not None:
        quote.write(Path(out), replace=replace)
    quote.require_payable()
    told: dict[str, Any] = {"solve": solved_facts(solved)} if solved is not None else {}
    told |= {"what_if": [what_if_facts(each) for each in tried]} if tried else {}
    return Plan({**quote.facts, **told})


def _warn(problems: Sequence[Problem]) -> None:
    """What the command says on standard error."""
    for problem in problems:
        warnings.warn(str(problem), stacklevel=4)  # whoever called `dp.plan`


_AMOUNTS = dict.fromkeys(("spent", "reserved", "left", "cap", "delta"), "number") | {"currency": "text"}


@dataclass(frozen=True, eq=False, repr=False)
class Spend(Shown):
    """What the ledger says is spent and left.

    Attributes:
        facts: What ``dprelease ledger status --json`` prints, amounts as decimal text.
    """

    facts: Mapping[str, Any]

    @property
    def accounts(self) -> pd.DataFrame:
        """One row for each account; amounts are in ``currency`` at ``delta``, and ``fits`` releases like the last."""
        columns = {"name": "text", "unit": "text", "composition": "text", "releases": "count", **_AMOUNTS}
        return figures(self.facts["accounts"], {**columns, "fits": "count", "over_cap": "flag"})

    @property
    def windows(self) -> pd.DataFrame:
        """One row for each window or stretch of an account that something was spent in."""
        rows = [{"name": account["name"], **each} for account in self.facts["accounts"] for each in account["windows"]]
        return figures(rows, {"name": "text", "window": "text", "per": "text", **_AMOUNTS, "over_cap": "flag"})

    @property
    def open(self) -> pd.DataFrame:
        """The releases that were begun and have not ended; the same ``run`` goes on with each."""
        columns = {"release": "text", "period": "text", "revision": "count", "since": "text", "plan": "text"}
        return figures(self.facts["open"], columns)

    def _told(self) -> tuple[str, Sequence[str], Mapping[str, pd.DataFrame]]:
        further = {"windows": self.windows, "open releases": self.open}
        shown = {"accounts": self.accounts, **{name: each for name, each in further.items() if len(each)}}
        told = [f"incident, entry {each['entry']}: {each['why']}" for each in self.facts["incidents"]]
        return f"spend of {len(self.accounts)} account(s) after {self.facts['entries']} entries", told, shown


def spend(project: str | os.PathLike[str] = ".") -> Spend:
    """What is spent, reserved and left, as ``dprelease ledger status`` tells it.

    Args:
        project: A folder or file of the project.

    Raises:
        SpecError: If there is no such folder or file, or no project, or its settings or policy are wrong.
        LedgerError: If the ledger cannot be read.
    """
    if not Path(project).exists():
        says, hint = f"{project} is not there", "name the folder of dprelease.yaml"
        raise SpecError([Problem("DPR-S918", says, hint, Where(str(project)))])
    home = Project.find(Path(project))
    return Spend(status_facts(home.open_ledger(), policy_accounts(home)))


def init(folder: str | os.PathLike[str]) -> list[Path]:
    """Write a project to start from, with made-up data, as ``dprelease init`` does; returns the files.

    Raises:
        SpecError: If the folder is not empty or cannot be written. Nothing is overwritten.
    """
    return create_project(Path(folder))
