"""What can be checked without any data: of a bundle its files, who signed them and the loss that it claims.

Of a ledger, whose plans it keeps: which releases rounded values to whole numbers and do not say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from pydantic import ValidationError

from dprelease.errors import BrokenPromiseError, CheckFailed, MissingExtra, NoOpinion
from dprelease.ledger import Ledger
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.facts import unprotected
from dprelease.plan.explain.rounding import rounded_in_silence
from dprelease.plan.verify.local.respondents import check_local
from dprelease.plan.verify.second_opinion import second_opinion
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.accountants import losses
from dprelease.publish import SENTENCES, Check, check_bundle
from dprelease.regular import LARGEST_PLAN, read_regular
from dprelease.release.opinion import begin_opinion, figures_beside
from dprelease.signature import PublicKey, read_public

__all__ = ["check_release", "conclusion", "failure", "public_key", "rounded_releases", "silence_text"]

_LOSS, _ACCOUNTANTS, ROUNDING = "loss re-derived", "accountants agree", "rounding is told"


def public_key(given: str) -> PublicKey:
    """The key that a reader gives: the text ``ed25519:...`` itself, or a file that holds it.

    Raises:
        SpecError: If a file cannot be read or holds no key (DPR-K101 to DPR-K103).
        NotAKey: If the text is none.
    """
    return PublicKey.from_text(given) if given.startswith("ed25519:") else read_public(Path(given))


def check_release(bundle: Path, key: PublicKey | None = None, earlier: Sequence[Path] = ()) -> tuple[Check, ...]:
    """Every check by name: files, hashes and signature, then the loss, derived three times from the published triples.

    Args:
        bundle: Its folder.
        key: The key of the one who should have signed it; None: it is not compared with any.
        earlier: Folders of earlier periods' bundles, with which it may compare.
    """
    begin_opinion()
    checks = list(check_bundle(bundle, key, earlier))
    try:
        plan = ReleasePlan.from_canonical(read_regular(bundle / "plan.json", LARGEST_PLAN))
    except (OSError, ValidationError, RecursionError, MemoryError):
        return (*checks, *(Check(name, False, "plan.json cannot be read") for name in (_LOSS, _ACCOUNTANTS)))
    try:
        return (*checks, *_loss_checks(plan))
    except Exception as error:  # a forged plan can be well formed and still name what it does not hold
        return (*checks, Check(_LOSS, False, f"plan.json makes no sense ({type(error).__name__})"))


def conclusion(checks: Sequence[Check]) -> str:
    """What all checks together show, in one plain sentence."""
    found = {check.name: check for check in checks}
    failed = [check.name for check in checks if check.passed is False]
    if failed:
        return f"Do not rely on these files: {len(failed)} of {len(checks)} checks failed."
    if found["signature"].passed is None:
        return "These files agree with one another, and nobody signed them: they show nothing of who made them."
    if found["signer"].passed is None:
        return (
            "These files agree with one another and are signed; whose key that is, they cannot show: get it from "
            "whoever should have signed them, and give it with --key."
        )
    return "These are the files that the holder of the given key signed, and all that was derived again is as they say."


def failure(checks: Sequence[Check]) -> CheckFailed:
    """The error for checks of which at least one failed; it names those."""
    failed = [check.name for check in checks if check.passed is False]
    again = "its files are what they were; `dprelease publish NAME/PERIOD` writes the pages again, and costs nothing"
    return CheckFailed(
        f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}",
        hint=again if failed == [SENTENCES] else "do not rely on this bundle; ask its curator for the original",
    )


def _accountants(plan: ReleasePlan) -> Check:
    """Whether no accountant's published figure is below what is proved of the same draws now.

    One that is above is true: the theorem that proves less loss came later than the release. It is named, and so is an
    accountant that the plan does not have: its file came later. That the certified figure is the smallest of the plan's
    own, and true, is checked by ``verify``.
    """
    proved: dict[str, Fraction] = {**losses(plan.event, plan.budget.delta)}
    published: dict[str, Fraction] = {name: loss.epsilon for name, loss in plan.loss.items()}
    epsilons = ", ".join(f"{name} {float(value):.6g}" for name, value in proved.items())
    if not set(published) <= set(proved):
        return Check(_ACCOUNTANTS, False, f"the plan gives {', '.join(sorted(published))}; here are {epsilons}")
    below = [name for name in published if published[name] < proved[name]]
    if below:
        return Check(_ACCOUNTANTS, False, f"{', '.join(below)} is published as less than what is proved: {epsilons}")
    above = [name for name in published if published[name] > proved[name]]
    more = f"; {', '.join(above)} is published as more, which is true: less is proved now" if above else ""
    later = [name for name in proved if name not in published]
    more += f"; {', '.join(later)} is not in the plan, and came after it" if later else ""
    return Check(_ACCOUNTANTS, True, epsilons + more)


def _rounding(plan: ReleasePlan) -> Check:
    """Whether every number that was made of values rounded to whole ones says so.

    The loss is what it is said to be, and the margins are about the rounded values. But a reader takes them for margins
    about the values themselves, and of shares between 0 and 1 nothing is left.
    """
    silence = silence_text(plan)
    detail = (
        f"values were rounded to whole numbers before anything was measured, and no page says so: {silence}. The "
        "numbers are a private release of the rounded values; release them again, with or without a `step`"
    )
    return Check(ROUNDING, not silence, detail if silence else "")


def _loss_checks(plan: ReleasePlan) -> list[Check]:
    certified = plan.loss[plan.certified]
    said = certified.told
    try:
        verify(plan)
        beside = f". {unprotected(plan)}" if plan.invariants else ""
        if plan.local is not None:
            beside = f"; {check_local(plan):.6g} towards the collector, from the probabilities of all answers{beside}"
        checks = [Check(_LOSS, True, f"{said}, sensitivities from extreme rows{beside}")]
    except BrokenPromiseError as error:
        checks = [Check(_LOSS, False, error.summary)]
    checks.append(_accountants(plan))
    checks.append(_rounding(plan))
    try:
        for opinion in second_opinion(plan, figures_beside):
            figures = f"{opinion.theirs} beside {opinion.ours}: {opinion.rule}"
            checks.append(Check(f"dp_accounting, {opinion.accountant}", opinion.agrees, figures))
    except (MissingExtra, NoOpinion) as error:
        checks.append(Check("dp_accounting", None, f"{error.summary}; {error.hint}"))
    return checks


def rounded_releases(ledger: Ledger) -> tuple[str, ...]:
    """One line for each (release, period) as it stands, in ledger order, by its kept plan; no data are looked at.

    A plan that cannot be read is left out: the check of the ledger tells of it.
    """
    lines = []
    for release, period in dict.fromkeys((each.release, each.period) for each in ledger.reservations()):
        known = ledger.find(release, period)
        try:
            plan = ReleasePlan.from_canonical(known.plan) if known is not None and known.plan else None
        except (ValidationError, RecursionError):
            plan = None
        if plan is not None and (silence := silence_text(plan)):
            lines.append(f"{release}/{period}: {silence}")
    return tuple(lines)


def silence_text(plan: ReleasePlan) -> str:
    """Which columns were rounded to whole numbers without a word, and how coarse that is; empty: none."""
    return ", ".join(
        f"{each.table}.{each.column.name} (a step of 1 is {float(each.step / each.width) * 100:.3g} % of its clip)"
        for each in rounded_in_silence(plan)
    )
