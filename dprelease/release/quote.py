"""A plan beside the accounts that would pay for it: what ``dprelease plan`` shows, and what it refuses."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.errors import BudgetExceeded, LedgerError, PlanError, Problem, UnsupportedEvent
from dprelease.ledger import NO_SERIES, AccountLosses, Ledger, Reservation
from dprelease.plan.document import FrozenPlan, ReleasePlan
from dprelease.plan.explain.facts import plan_facts
from dprelease.plan.explain.figures import figure_texts
from dprelease.plan.explain.memory import memory_of
from dprelease.plan.forecast.other_budgets import Aim, Solved, WhatIf
from dprelease.privacy.budget import round_up
from dprelease.regular import LARGEST_PLAN, TooLarge, read_regular
from dprelease.release.planning import Target, charges, freeze, plan_at_least, plan_release, read_frozen
from dprelease.release.revisions import payer_of

__all__ = ["Quote", "plan_or_solve", "quote_plan", "solved_facts", "what_if_facts", "window_of"]


def _kept(says: str) -> PlanError:
    hint = "give another file to `--out`, or add `--replace` where nobody needs that one any more"
    return PlanError(f"{says}: it is not written over", hint=hint, code="DPR-P308")


_BEGINS = b'{"'  # as every plan does, the cut-off one too


def _require_no_other_file(path: Path, *, replace: bool) -> None:
    """Refuse to write over what is no plan; one that was cut off or changed begins like one, and may be replaced.

    Raises:
        PlanError: A spec or a file of rows, say, would be lost (DPR-P306), or something that begins as a plan does, and
            nobody said that it may be (DPR-P308).
    """
    try:
        begins = read_regular(path, LARGEST_PLAN)[: len(_BEGINS)]
    except TooLarge:  # longer than any plan
        begins = b"?"
    except OSError:  # there is no file, or none that could be read: the attempt to write says which
        return
    if begins == _BEGINS and not replace:
        raise _kept(f"{path} is there, and no plan can be read from it")
    if begins not in (b"", _BEGINS):
        raise PlanError(
            f"{path} holds something else than a plan: it is not written over",
            hint="give another file to `--out`; or move that one away first",
            code="DPR-P306",
        )


@dataclass(frozen=True)
class Quote:
    """A plan and its price.

    Attributes:
        target: The spec that it was made from, and its project.
        plan: The plan.
        frozen: The plan with the heads of the accounts that it was made against, as ``--out`` writes it.
        known: The reservation that pays for this release and period already, if there is one.
        accounts: Each account and window before and with this release, as ``plan --json`` has them.
        warnings: What is allowed and seldom wanted of the accounts.
    """

    target: Target
    plan: ReleasePlan
    frozen: FrozenPlan
    known: Reservation | None
    accounts: list[dict[str, Any]]
    warnings: tuple[Problem, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """What ``plan --json`` prints where nothing else is asked for."""
        return {
            **plan_facts(self.plan),
            "plan_fingerprint": self.frozen.plan_fingerprint,
            "accounts": self.accounts,
            "memory_mb": asdict(memory_of(self.plan)),
            **_revision_facts(self.target),
            **({"cautions": list(texts)} if (texts := figure_texts(self.plan)) else {}),
        }

    def write(self, path: Path, *, replace: bool = False) -> str:
        """Freeze the plan in a file for review.

        Args:
            path: The file. Where it holds this very plan, the heads of the accounts beside it are made new.
            replace: Whether another plan that it holds may be lost.

        Returns:
            The fingerprint of another plan that the file held until now; empty: it held none.

        Raises:
            PlanError: It holds a plan that somebody has approved (DPR-P305), or something else than a plan, such as
                the spec (DPR-P306); another plan, and it is not to be replaced (DPR-P308); or nothing can be written
                there (DPR-P307).
        """
        try:
            before = read_frozen(path)
        except PlanError:  # no plan, or no file
            before = None
            _require_no_other_file(path, replace=replace)
        if before is not None and before.approvals:
            raise PlanError(
                f"{path} holds a plan that {len(before.approvals)} approved: it is not written over",
                hint="give another file to `--out`; or move that one away first",
                code="DPR-P305",
            )
        same = before is None or before.plan_fingerprint == self.frozen.plan_fingerprint
        if before is not None and not same and not replace:
            raise _kept(f"{path} holds another plan, {before.plan_fingerprint[:16]}")
        try:
            path.write_text(self.frozen.canonical() + "\n", encoding="utf-8")
        except OSError as error:
            raise PlanError(
                f"the plan cannot be written to {path}: {error.strerror}",
                hint="give `--out` the name of a file in a folder that is there and can be written to",
                code="DPR-P307",
            ) from None
        return "" if before is None or same else before.plan_fingerprint

    def require_payable(self) -> None:
        """Refuse a plan that an account could not pay for.

        Raises:
            BudgetExceeded: For the first such account.
        """
        for account in self.accounts:
            if not account["fits"]:
                raise BudgetExceeded(
                    f"account {account['name']!r}{window_of(account)} cannot pay for this plan: " + _above(account),
                    hint="lower the budget, or ask the data owner to raise the cap; see `dprelease ledger status`",
                )


def plan_or_solve(target: Target, *, solve: Aim | None, frozen: bool) -> tuple[ReleasePlan, Solved | None]:
    """The plan of a spec, at its own budget or at one that meets its targets, and how that was found.

    Args:
        target: The spec.
        solve: What is to be least of a budget that meets the targets; None: the spec's own budget.
        frozen: Whether the plan is to be written for a run.

    Raises:
        PlanError: If a plan at another budget than the spec's is to be frozen (DPR-P303), or there is no plan.
    """
    if solve is None:
        return plan_release(target), None
    if frozen:
        raise PlanError(
            "--solve plans another budget than the spec's, and only the spec's own plan can be frozen",
            hint="write the epsilon that --solve finds into the spec, then use --out",
            code="DPR-P303",
        )
    found = plan_at_least(target, solve)
    return found.plan, found


def solved_facts(solved: Solved) -> dict[str, Any]:
    """What each noise would cost where it meets every target, as ``plan --solve --json`` has it; rounded up."""
    return {
        "least": solved.aim,
        "epsilon": _epsilon_text(solved.plan.budget.limit),
        "noise": solved.noise,
        "noises": [
            {
                "noise": way.noise,
                "epsilon": None if way.plan is None else _epsilon_text(way.epsilon),
                "charges": [
                    {
                        "account": of.name,
                        "charged": None if amount is None else round_up(amount),
                        "currency": "epsilon" if of.lifetime.rho is None else "rho",
                    }
                    for of, amount in way.charges
                ],
                "refusal": way.refusal,
            }
            for way in solved.ways
        ],
    }


def _epsilon_text(epsilon: Fraction) -> str:
    return round_up(epsilon, 6)


def quote_plan(target: Target, plan: ReleasePlan, ledger: Ledger) -> Quote:
    """The price of a plan; nothing is charged.

    Raises:
        BudgetExceeded: If an account cannot take the plan's draws at all.
        LedgerError: If the ledger cannot be read.
    """
    known = ledger.find(plan.release.name, plan.release.period)
    known = payer_of(ledger, known) if known is not None else None
    frozen = freeze(target, plan, ledger.heads([account.name for account in plan.accounts]))
    accounts, warnings = _accounts(target, plan, ledger, known)
    return Quote(target, plan, frozen, known, accounts, warnings)


def what_if_facts(tried: WhatIf) -> dict[str, Any]:
    """The margins at another budget, as ``plan --what-if --json`` has them."""
    return {
        "epsilon": str(tried.epsilon),
        "outputs": [output.model_dump(mode="json") for output in tried.outputs],
        "refusal": tried.refusal,
    }


def _revision_facts(target: Target) -> dict[str, Any]:
    """When a period is released again, and what becomes of late rows; nothing where nothing is said of either."""
    schedule = target.loaded.spec.schedule
    if schedule is None or not (schedule.revisions or schedule.late_rows):
        return {}
    late = "next_revision" if schedule.takes_late_rows else "never"
    return {"schedule": {"revisions": [str(each) for each in schedule.revisions], "late_rows": late}}


def _above(account: dict[str, Any]) -> str:
    if Fraction(account["after_delta"]) > Fraction(account["delta"]):
        return f"no finite epsilon holds at delta {account['delta']}, which is what its cap is about"
    return f"epsilon {account['after']} would exceed {round_up(Fraction(account['cap']))}"


def _accounts(
    target: Target, plan: ReleasePlan, ledger: Ledger, known: Reservation | None
) -> tuple[list[dict[str, Any]], tuple[Problem, ...]]:
    """Each account before and with this release; as it was charged where it is charged already."""
    if known is not None and known.state != "lost":
        return [_account(facts, fits=True) for facts in (*known.accounts, *known.windows)], ()
    asked = charges(plan, target.loaded)
    try:
        charged, refused = ledger.quote(asked, plan.release.period)
    except UnsupportedEvent as error:
        raise BudgetExceeded(f"an account of this plan: {error.summary}", hint=error.hint) from None
    except LedgerError as error:
        if error.code != NO_SERIES:
            raise
        return [], (Problem(error.code, error.summary, error.hint),)  # to be opened with this very plan
    accounts = []
    for charge in charged:
        no = {(each.name, each.window) for each in refused}
        for facts in (charge.facts, *charge.further):
            accounts.append(_account(facts, fits=(facts.name, facts.window) not in no))
    return accounts, ()


def _account(facts: AccountLosses, *, fits: bool) -> dict[str, Any]:
    return {
        "name": facts.name,
        "composition": facts.composition,
        "before": round_up(facts.before.epsilon),
        "after": round_up(facts.after.epsilon),
        "cap": str(facts.cap.epsilon or Fraction(0)),
        "delta": round_up(facts.cap.delta),
        "after_delta": round_up(facts.after.delta),
        "fits": fits,
        "window": facts.window,
    }


def window_of(account: dict[str, Any]) -> str:
    """The window of an account as it is said behind its name; empty where the cap is for ever."""
    return f", {account['window']}" if account["window"] else ""
