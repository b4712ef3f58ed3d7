"""Checking a bundle with nothing but the bundle: what its own files can say about one another.

A manifest that is not signed shows accidents and careless changes. Somebody who rewrites every file can rewrite
the manifest too; a signature by a key that the reader knows, or the ledger's hash, then tells.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.freed_memory import give_back
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document.approval import stands
from dprelease.plan.explain.same_question import restated
from dprelease.plan.verify.groups import shown_of
from dprelease.plan.verify.reach import keys_of_one
from dprelease.privacy.accountants.rho import as_priced
from dprelease.privacy.convert import converted
from dprelease.publish.accounting.guarantee import allocation_before
from dprelease.publish.accounting.report import planned_accounting
from dprelease.publish.accounting.semantics import group_at
from dprelease.publish.bundle.checks.earlier import EARLIER, earlier_check
from dprelease.publish.bundle.checks.opened import Check, OpenedBundle, largest, read_bundle, say_which
from dprelease.publish.bundle.checks.rendering import RENDERED_AGAIN, VERSIONS, render_again, versions
from dprelease.publish.bundle.checks.tables import tables_agree
from dprelease.publish.bundle.checks.values import values_agree
from dprelease.publish.bundle.folder import files_in
from dprelease.publish.errata import TEXTS, errata_of
from dprelease.publish.manifest import SIGNATURE_FILE, SUMS_FILE, SUMS_SIGNATURE_FILE, fault, sums_file
from dprelease.signature import NotAKey, PublicKey

__all__ = ["CHECKS", "Check", "as_written_before", "check_bundle", "check_files", "untrue"]

# What accounting.json says beside what was planned.
_OF_THE_LEDGER = {
    "accounts",
    "approvals",
    "cap_changes",
    "changed_data",
    "environment",
    "ledger",
    "notice",
    "rehearsal",
    "restates",
    "windows",
}
# What accounting.json holds in figures; the rest is told in the words of the wording that the bundle names.
_IN_FIGURES = {
    "accounting",
    "allocation",
    "budget",
    "certified",
    "confidence",
    "derived",
    "format",
    "loss",
    "neighboring",
    "outputs",
    "period",
    "plan_fingerprint",
    "references",
    "release",
    "semantics",
    "spec_fingerprint",
    "steps",
    "totals",
    "unit",
}
SENTENCES = "sentences"
_MOST_NAMED = 7
CHECKS = (
    "manifest",
    "files",
    "nothing else",
    "signature",
    "signer",
    SUMS_FILE,
    "plan",
    "facts",
    "accounting",
    "tables",
    "measurements",
    "values",
    VERSIONS,
    RENDERED_AGAIN,
    SENTENCES,
)
_ERRATUM = "key-selection"
_SUMMED = 1e-3  # of a probability: a wide Gaussian's is bounded by a continuous one's
_ROUNDED = Fraction(1, 10**9)  # of a figure, where decimal text was rounded up


def check_bundle(folder: Path, key: PublicKey | None = None, earlier: Sequence[Path] = ()) -> tuple[Check, ...]:
    """Every check, in the order of ``CHECKS``, whatever is wrong with the folder.

    Args:
        folder: The bundle.
        key: The key of the one who should have signed it, as the reader got it from elsewhere; None: anybody may have.
        earlier: Folders of earlier periods' bundles, with which it may compare.

    Returns:
        One result for each of ``CHECKS``, ``not compared`` where some files could not be made again as they were, and
        ``earlier periods`` where it compares with such.
        The loss itself is derived again by ``plan.verify.whole_plan``.
    """
    bundle, why = read_bundle(folder)
    if bundle is None:
        later = tuple(Check(name, False, "the manifest cannot be read") for name in CHECKS[1:])
        return (Check(CHECKS[0], False, why), *later)
    again = render_again(bundle)
    give_back()  # what files were made of: the tables that are read now take memory of their own
    plain: dict[str, Callable[[], str]] = {
        "files": lambda: _files(bundle),
        "nothing else": lambda: _nothing_else(bundle),
        "plan": lambda: _plan_agrees(bundle),
        "facts": lambda: _facts_agree(bundle),
        "accounting": lambda: _accounting_agrees(bundle),
        "tables": lambda: tables_agree(bundle, again.same),
        "measurements": lambda: bundle.measured[1],
        "values": lambda: values_agree(bundle, again.same),
    }
    found = {name: _result(name, check) for name, check in plain.items()}
    told = (Check(CHECKS[0], True), _signature(bundle), _signer(bundle, key), _sums(bundle), versions(bundle))
    found |= {each.name: each for each in (*told, _sentences(bundle))}
    found |= {each.name: each for each in again.checks}
    if (beside := _earlier(bundle, earlier)) is not None:
        found[beside.name] = beside
    return tuple(found[name] for name in dict.fromkeys((*CHECKS, *found)))


def check_files(bundle: OpenedBundle, key: PublicKey | None = None) -> tuple[Check, ...]:
    """The checks that come before a bundle is read: its files are the manifest's, and signed where it says so.

    Nothing is made again, so that this costs no more than reading the files.

    Args:
        bundle: The bundle.
        key: The key of the one who should have signed it, as in ``check_bundle``.
    """
    return (
        _result("files", lambda: _files(bundle)),
        _signature(bundle),
        _signer(bundle, key),
        _result("plan", lambda: _plan_agrees(bundle)),
        _result("facts", lambda: _facts_agree(bundle)),
    )


def _earlier(bundle: OpenedBundle, others: Sequence[Path]) -> Check | None:
    try:
        return earlier_check(bundle, others)
    except Exception as error:  # a forged plan can be well formed and still name what it does not hold
        return Check(EARLIER, False, f"earlier/ makes no sense ({type(error).__name__})")


def _result(name: str, check: Callable[[], str]) -> Check:
    try:
        detail = check()
    except Exception as error:  # a forged plan can be well formed and still name what it does not hold
        detail = f"plan.json makes no sense ({type(error).__name__})"
    return Check(name, not detail, detail)


def _files(bundle: OpenedBundle) -> str:
    files = bundle.manifest.files
    long = [name for name, facts in files.items() if facts.bytes > largest(name)]
    changed = [name for name in files if name not in bundle.sound and name not in long]
    return "; ".join(filter(None, (say_which(changed, "missing or changed"), say_which(long, "too large to be read"))))


def _nothing_else(bundle: OpenedBundle) -> str:
    known = {*bundle.manifest.beside, *bundle.manifest.files}
    return say_which([name for name in files_in(bundle.folder) if name not in known], "not in the manifest")


def _signature(bundle: OpenedBundle) -> Check:
    """Whether the key that the manifest names signed this very bundle; an unsigned one says so, and proves nothing."""
    manifest, data = bundle.manifest, bundle.signature
    if manifest.signature != SIGNATURE_FILE:
        if manifest.signer or data is not None:
            return Check("signature", False, f"the manifest says unsigned beside a signer or a {SIGNATURE_FILE}")
        return Check("signature", None, "the bundle is unsigned: nothing shows who made it")
    if data is None:
        return Check("signature", False, f"there is no {SIGNATURE_FILE}, and the manifest says that there is one")
    detail = fault(data, manifest)
    return Check("signature", not detail, detail or f"by key {PublicKey.from_text(manifest.signer).fingerprint}")


def _signer(bundle: OpenedBundle, key: PublicKey | None) -> Check:
    """Whether the bundle is signed by the key that the reader knows."""
    said = bundle.manifest.signer
    if key is None:
        return Check("signer", None, f"no key was given to compare with; the bundle says: {said or 'unsigned'}")
    if said == key.text:
        return Check("signer", True, f"it is the key that was given: {key.fingerprint}")
    try:
        told = f"signed by key {PublicKey.from_text(said).fingerprint}" if said else "unsigned"
    except NotAKey:
        told = "signed by something that is no key"
    return Check("signer", False, f"the bundle says that it is {told}, and not by key {key.fingerprint}")


def _sums(bundle: OpenedBundle) -> Check:
    """Whether ``SHA256SUMS`` lists this bundle, and its own signature is one by the key that the manifest names."""
    manifest = bundle.manifest
    if not manifest.sums:
        return Check(SUMS_FILE, None, "the bundle was made before there was one")
    if bundle.sums is None:
        return Check(SUMS_FILE, False, f"there is no {SUMS_FILE}, and the manifest says that there is one")
    signed = manifest.signature == SIGNATURE_FILE
    if bundle.sums != sums_file(manifest, bundle.signature if signed else None):
        return Check(SUMS_FILE, False, f"{SUMS_FILE} is not the list of these files")
    if not signed:
        return Check(SUMS_FILE, True)
    try:
        key = PublicKey.from_text(manifest.signer)
    except NotAKey as error:
        return Check(SUMS_FILE, False, f"the signer that the manifest names is {error.reason}")
    sound = bundle.sums_signature is not None and key.checks_ssh(bundle.sums_signature, bundle.sums)
    return Check(SUMS_FILE, sound, "" if sound else f"{SUMS_SIGNATURE_FILE} is no signature of it by that key")


def _plan_agrees(bundle: OpenedBundle) -> str:
    plan, manifest = bundle.plan, bundle.manifest
    if plan is None:
        return "plan.json is missing, changed, or not a whole plan"
    if plan.fingerprint() != manifest.plan_fingerprint:
        return "plan.json has another fingerprint than the manifest says"
    claimed = (manifest.release, manifest.period, manifest.spec_fingerprint)
    if (plan.release.name, plan.release.period, plan.spec_fingerprint) != claimed:
        return "the manifest names another release, period or spec than plan.json"
    return ""


def _facts_agree(bundle: OpenedBundle) -> str:
    """Whether facts.json is about this plan, this manifest and this ledger entry, and its approvals are signed."""
    facts, plan, manifest = bundle.facts, bundle.plan, bundle.manifest
    if facts is None:
        return "facts.json is missing, changed, or not a whole list of facts"
    said = {
        "plan_fingerprint": facts.plan_fingerprint == manifest.plan_fingerprint,
        "ledger": facts.ledger == manifest.ledger.model_dump(),
        "signer": facts.signer == manifest.signer,
        "rehearsal": facts.rehearsal == manifest.rehearsal and not (facts.rehearsal and facts.signer),
    }
    if plan is not None:
        names, asked = [each.name for each in facts.accounts], [each.name for each in plan.accounts]
        said["accounts"] = sorted(names) == sorted(asked) and {each.name for each in facts.windows} <= set(asked)
        # What was approved is what the spec asks for; that it replaces the same question is the ledger's addition.
        identity = (manifest.release, manifest.period, restated(plan, 0).fingerprint())
        said["approvals"] = all(stands(each, *identity, each.heads) is not None for each in facts.approvals)
        said["history"] = all(
            each.account in asked and each.sequence <= facts.ledger_sequence for each in facts.history
        )
    return say_which([name for name, holds in said.items() if not holds], "facts.json does not fit the bundle in")


def _accounting_agrees(bundle: OpenedBundle) -> str:
    found = _json(bundle.sound.get("accounting.json"))
    if found is None or bundle.shown is None:
        return "accounting.json or plan.json cannot be read"
    with as_priced(bundle.shown.is_older is True):
        said = json.dumps(planned_accounting(bundle.shown, bundle.manifest.plan_fingerprint))
    expected = {**json.loads(said), "signature": bundle.manifest.signature}
    compared = expected if _texts(bundle) == TEXTS else _IN_FIGURES & set(expected)
    differ = [name for name in compared if found.get(name) != expected[name]]
    if "allocation" in differ and _texts(bundle) < TEXTS and found.get("allocation") == allocation_before(bundle.shown):
        differ.remove("allocation")
    if "steps" in differ and found["steps"] == as_written_before(expected["steps"], bundle.shown):
        differ.remove("steps")
    false = untrue(found.get("semantics"), expected["semantics"], bundle.shown) if "semantics" in differ else []
    if not false:
        differ = [name for name in differ if name != "semantics"]
    differ += sorted(_OF_THE_LEDGER - set(found))
    if found.get("ledger") != bundle.manifest.ledger.model_dump():
        differ.append("ledger")
    if found.get("rehearsal") != bundle.manifest.rehearsal:
        differ.append("rehearsal")
    accounts = found.get("accounts")
    names = [each.get("name") for each in accounts if isinstance(each, dict)] if isinstance(accounts, list) else []
    if sorted(map(str, names)) != sorted(each.name for each in bundle.shown.accounts):
        differ.append("accounts")
    told = [say_which(list(dict.fromkeys(differ)), "accounting.json differs from the plan or the manifest in"), *false]
    return "; ".join(filter(None, told))


def _texts(bundle: OpenedBundle) -> int:
    """The wording that the bundle says it was made with; 1: it says none."""
    said = bundle.manifest.rendered_with.get("texts", "1")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 10 else 1


def _sentences(bundle: OpenedBundle) -> Check:
    """The sentences of the bundle that are known to be false, each with what is true; not run without a plan."""
    plan = bundle.shown
    if plan is None:
        return Check(SENTENCES, None, "what its sentences are about cannot be told without its plan")
    try:
        found = [*errata_of(bundle.sound, frozenset(bundle.manifest.files), plan, _texts(bundle))]
        told = [f"“{each.words}” ({_some(each.files)}): {each.erratum.said_of(plan)}" for each in found]
    except Exception as error:  # a forged plan can be well formed and still name what it does not hold
        return Check(SENTENCES, None, f"plan.json makes no sense ({type(error).__name__})")
    number = f"{len(found)} {'sentence' if len(found) == 1 else 'sentences'}"
    head = f"{number} known to be false, or to say what nobody knows"
    return Check(SENTENCES, not found, "\n".join([head, *told]) if found else "")


def _some(files: tuple[str, ...]) -> str:
    more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
    return ", ".join(files[:_MOST_NAMED]) + more


def _json(data: bytes | None) -> dict[str, Any] | None:
    try:
        found = json.loads(data) if data is not None else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def as_written_before(steps: Sequence[Any], plan: ReleasePlan) -> list[Any]:
    """The steps of ``accounting.json`` as versions wrote them that took selections of keys apart."""
    return [
        {**step, "event": converted(event, 1).model_dump(mode="json")}
        for step, event in zip(steps, plan.events, strict=True)
    ]


def untrue(said: Any, expected: Sequence[Mapping[str, Any]], plan: ReleasePlan) -> list[str]:
    """What is wrong with the rows that say what each change of the data costs; nothing: every one of them is proved.

    That holds for bundles of any version: a later one may prove less loss than an earlier one said, and what was said
    then stays true. It may also know that what was said was never true; that has a name (``ledger.model.fault``).
    """
    if not isinstance(said, list) or len(said) != len(expected):
        return ["it has other rows"]
    return [why for row, ours in zip(said, expected, strict=True) for why in _wrong(row, ours, plan)]


def _wrong(row: Any, ours: Mapping[str, Any], plan: ReleasePlan) -> Iterator[str]:
    if row == ours:
        return
    same = isinstance(row, dict) and {**row, "loss": None} == {**ours, "loss": None}
    if not same:
        yield "it has other rows"
        return
    if row["loss"] is None:
        return  # it claims nothing
    try:
        epsilon, delta = (Fraction(row["loss"][name]) for name in ("epsilon", "delta"))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        yield f"{ours['what']}: it is no loss"
        return
    if ours["loss"] is not None and _at_least((epsilon, delta), ours["loss"]):
        return  # larger than it needs to be
    if ours["kind"] == "group":
        units = ours["size"]
        shown = _shown(plan, units)
        if shown > float(delta) * (1 + _SUMMED):
            yield (
                f"{ours['what']}: epsilon {row['loss']['epsilon']} at delta {row['loss']['delta']} is false, for keys "
                f"that {units} units alone hold are shown with probability {shown:.3g} (erratum {_ERRATUM})"
            )
            return
        proved = group_at(plan, units, delta)
        if proved is not None and proved <= epsilon * (1 + _ROUNDED):
            return
    yield f"{ours['what']}: it is less than is proved"


def _at_least(claimed: tuple[Fraction, Fraction], ours: Mapping[str, str]) -> bool:
    return claimed[0] >= Fraction(ours["epsilon"]) and claimed[1] >= Fraction(ours["delta"])


def _shown(plan: ReleasePlan, units: int) -> float:
    """With which probability some key is shown that so many units alone hold: no delta below that is true."""
    by_threshold = [step for step in plan.steps if step.selecting is not None and step.mechanism != "optimal_selection"]
    each = [shown_of(step, keys_of_one(plan, step), units) for step in by_threshold]
    return 1.0 if max(each, default=0.0) >= 1 else -math.expm1(math.fsum(math.log1p(-shown) for shown in each))
