"""Carrying a spec out, and what came of it: refused with a message, planned and verified, or released and compared."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from pathlib import Path

from dprelease.errors import BrokenPromiseError, BudgetTooSmall, DpReleaseError, SpecError
from dprelease.ledger import open_ledger
from dprelease.plan.allocate.planner import allocate
from dprelease.plan.document import Account, ReleasePlan
from dprelease.plan.resolve.catalog import references_needed, resolve
from dprelease.plan.verify.second_opinion import second_opinion
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Neighboring
from dprelease.publish import check_bundle, check_publishable
from dprelease.release.diff import compare_sides, open_side
from dprelease.release.direct import run_directly
from dprelease.release.request import Request
from dprelease.spec.load import load

__all__ = ["COMPOSITIONS", "ROOT", "Fault", "TooLong", "carried", "planned", "project", "rehearsed", "within"]

ROOT = Path(__file__).parents[2]
COMPOSITIONS = ("zcdp", "pld", "basic", "rdp")
_ORDER = 16  # of accounts that add Renyi divergences
_LONGEST = 90  # seconds of one spec, on a machine that does other things too


class Fault(AssertionError):
    """What must not come of any spec."""


class TooLong(Fault):
    """It has not ended."""


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """End what takes longer."""

    def stop(*_: object) -> None:
        raise TooLong(f"over {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@cache
def _reference(name: str) -> bytes | None:
    path = ROOT / "specs" / name
    return path.read_bytes() if path.is_file() else None


def planned(text: str, seed: int, composition: str | None = None) -> ReleasePlan:
    """The plan of a spec with accounts that bear anything; which composition they have goes by the seed, if none is given.

    Raises:
        DpReleaseError: It is refused.
    """
    loaded = load(text, "spec.yaml")
    spec, composition = loaded.spec, composition or COMPOSITIONS[seed % len(COMPOSITIONS)]
    files = {name: _reference(spec.references[name].file) for name in references_needed(spec)}
    catalog = resolve(loaded, files)
    accounts = [
        Account(
            name=name,
            unit=str(spec.privacy.unit),
            neighboring=Neighboring(spec.privacy.neighboring),
            composition=composition,
            lifetime=Budget(epsilon=Fraction(100), delta=Fraction(1, 10**5)),
            selecting=Fraction(1, 2 * 10**5),
            order=_ORDER if composition == "rdp" else None,
        )
        for name in sorted({table.account for table in catalog.tables.values()})
    ]
    return allocate(spec, catalog, accounts, loaded.fingerprint)


def carried(text: str, seed: int, *, opinion: bool = False) -> str:
    """What came of a spec: a word for it.

    Args:
        text: Of the spec.
        seed: By which it was made.
        opinion: Whether the independent accountant is asked, too.

    Raises:
        Fault: If a refusal has no place or no code, a plan breaks a promise or is not read back as itself, a claim is
            below the independent accountant's, or it takes too long. Every other error is one of the program.
    """
    with within(_LONGEST):
        try:
            plan = planned(text, seed)
        except SpecError as refused:
            if not refused.problems or any(not each.code or each.where is None for each in refused.problems):
                raise Fault(f"seed {seed}: refused without a place: {refused}") from refused
            return "refused by the spec"
        except BudgetTooSmall:
            return "budget too small"
        except BrokenPromiseError as broken:
            raise Fault(f"seed {seed}: {broken}") from broken
        except DpReleaseError as refused:
            if not refused.hint:
                raise Fault(f"seed {seed}: refused without a way out: {refused}") from refused
            return f"refused by the plan ({refused.code})"
        _check_plan(plan, seed)
        if opinion:
            for told in second_opinion(plan):
                if not told.agrees:
                    raise Fault(f"seed {seed}: {told}")
        return "planned and verified"


def _check_plan(plan: ReleasePlan, seed: int) -> None:
    try:
        verify(plan)
    except BrokenPromiseError as broken:
        raise Fault(f"seed {seed}: the plan is refused by verify: {broken}") from broken
    if ReleasePlan.model_validate_json(plan.canonical()) != plan:
        raise Fault(f"seed {seed}: the plan is not read back as itself")


def rehearsed(text: str, seed: int, folder: Path) -> str:
    """What came of running a spec that is planned: on made-up rows, then for real without any data.

    The bundle of the rehearsal passes every check and differs from itself in nothing. Without data nothing is charged.

    Raises:
        Fault: If that is not so.
    """
    plan = planned(text, seed)
    try:
        check_publishable(plan)
    except DpReleaseError as refused:
        return f"not publishable ({refused.code})"
    project(plan, text, folder)
    with within(_LONGEST):
        try:
            outcome = run_directly(Request(target=str(folder / "spec.yaml"), synthetic=True))
        except BrokenPromiseError as broken:
            raise Fault(f"seed {seed}: {broken}") from broken
        except DpReleaseError as refused:
            return f"refused by the run ({refused.code})"
        wrong = [each for each in check_bundle(Path(outcome.folder)) if each.passed is False]
        if wrong:
            raise Fault(f"seed {seed}: {wrong}")
        side = open_side(str(outcome.folder))
        compared = compare_sides(side, side, Fraction(95, 100))
        if compared.dropped or compared.added:
            raise Fault(f"seed {seed}: a bundle differs from itself")
        try:
            run_directly(Request(target=str(folder / "spec.yaml")))
        except DpReleaseError:
            pass
        else:
            raise Fault(f"seed {seed}: released without data")
        charged = open_ledger("sqlite:///state/ledger.db", folder).reservations()
        if any(each.state not in ("void", "given_up") for each in charged):
            raise Fault(f"seed {seed}: charged without a release: {[each.state for each in charged]}")
    return "run, verified, compared"


def project(plan: ReleasePlan, text: str, folder: Path) -> None:
    """A project for one spec: the references of the examples, accounts as in the plan, and no data."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(ROOT / "specs/reference", folder / "reference", dirs_exist_ok=True)
    accounts = [
        f"  {each.name}: {{unit: {plan.unit}, neighboring: {plan.neighboring}, composition: {each.composition}, "
        f"{'' if each.order is None else f'order: {each.order}, '}"
        f"lifetime: {{epsilon: 100, delta: 1e-5{', selecting: 5e-6' if each.composition in ('zcdp', 'rdp') else ''}}}}}"
        for each in plan.accounts
    ]
    settings = (
        "ledger: sqlite:///state/ledger.db\nreleases: releases\nprefect_home: state/prefect\npolicy: policy.yaml\n"
    )
    files = {"dprelease.yaml": settings, "policy.yaml": "\n".join(["accounts:", *accounts, ""]), "spec.yaml": text}
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
