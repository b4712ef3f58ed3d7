"""Approvals of frozen plans: adding one, and holding them against the policy before anything is reserved."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from dprelease.errors import PlanError, StalePlan
from dprelease.plan.document import FrozenPlan, Head, ReleasePlan
from dprelease.plan.document.approval import Approval, Signed, Statement, sign, stands
from dprelease.regular import replace_file
from dprelease.release.planning import Target, check_fresh, open_target, plan_release
from dprelease.signature import PrivateKey, PublicKey
from dprelease.spec.project import PolicySpec
from dprelease.spec.text.names import listed

__all__ = [
    "add_approval",
    "approval_needed",
    "approver_of",
    "check_heads",
    "counted_approvals",
    "open_frozen",
    "require_approvals",
]


def approval_needed(policy: PolicySpec, plan: ReleasePlan) -> bool:
    """Whether the policy wants a plan approved: always, or where it costs more than ``above``.

    The cost is the certified loss, as the policy's ceilings read it. A plan that protects another unit or relation than
    one of its accounts is never below ``above``: its epsilon is of another kind than the policy's.
    """
    approvals, loss = policy.approvals, plan.loss[plan.certified]
    if not approvals.required:
        return False
    if approvals.above is None:
        return True
    same = all(each.unit == str(plan.unit) and each.neighboring == plan.neighboring for each in plan.accounts)
    return not same or loss.epsilon > approvals.above.epsilon or loss.delta > approvals.above.delta


def require_approvals(
    policy: PolicySpec, frozen: FrozenPlan | None, plan: ReleasePlan, spec: str = "SPEC"
) -> tuple[Signed, ...]:
    """The approvals of a plan that is about to be reserved, each of them checked.

    Args:
        policy: As it is now: who was taken out of it, or has another key or role by now, no longer counts.
        frozen: The plan's file; None: a spec is to be run.
        plan: What would be reserved, made and verified now; its heads must be reserved as ``frozen`` has them.
        spec: The file to name in what to type next.

    Raises:
        PlanError: If approvals are demanded and a spec is run (DPR-K120), they do not suffice (DPR-K121), or one of
            them is not of this plan (DPR-K122).
        StalePlan: If ``frozen`` holds another plan.
    """
    needed = approval_needed(policy, plan)
    if frozen is None:
        if needed:
            raise PlanError(
                f"the policy demands approval of {plan.release.name}/{plan.release.period}: "
                f"{listed(policy.approvals.missing(()))}; a spec cannot be approved, a frozen plan can",
                hint=f"type `dprelease plan {spec} --out plan.json`, have every approver type "
                "`dprelease approve plan.json --key KEYFILE`, then `dprelease run plan.json`",
                code="DPR-K120",
            )
        return ()
    approvals, left_out = _judged(policy, frozen, plan)
    missing = policy.approvals.missing([each.role for each in approvals])
    if needed and missing:
        raise PlanError(
            f"the plan of {plan.release.name}/{plan.release.period} is not approved: it lacks {listed(missing)}",
            detail="; ".join(left_out),
            hint="an approver types `dprelease approve plan.json --key KEYFILE`",
            code="DPR-K121",
        )
    return approvals


def counted_approvals(policy: PolicySpec, frozen: FrozenPlan, plan: ReleasePlan) -> tuple[Signed, ...]:
    """The approvals of a frozen plan that count, whether or not they suffice.

    Raises:
        PlanError: If one of them is not of this plan (DPR-K122).
        StalePlan: If ``frozen`` holds another plan.
    """
    return _judged(policy, frozen, plan)[0]


def _judged(policy: PolicySpec, frozen: FrozenPlan, plan: ReleasePlan) -> tuple[tuple[Signed, ...], list[str]]:
    """The approvals that count, and for every other one why it does not."""
    fingerprint = plan.fingerprint()
    if frozen.plan_fingerprint != fingerprint:
        raise StalePlan("the frozen plan is not the one that would be made now", hint="freeze and approve a new one")
    approvals: list[Signed] = []
    left_out: list[str] = []
    for approval in frozen.approvals:
        why = _uncounted(policy, approval, approvals)
        if why:
            left_out.append(f"the approval of {approval.name} does not count: {why}")
            continue
        record = stands(approval, plan.release.name, plan.release.period, fingerprint, frozen.heads)
        if record is None:
            raise PlanError(
                f"the approval of {approval.name} is not of this plan: it was signed for another one or on top of "
                "other ledger entries, or was changed after it was signed",
                hint="freeze the plan again with `dprelease plan SPEC --out plan.json` and have that file approved",
                code="DPR-K122",
            )
        approvals.append(record)
    return tuple(approvals), left_out


def _uncounted(policy: PolicySpec, approval: Approval, counted: list[Signed]) -> str:
    """Why an approval does not count, before its signature is looked at; empty: it does."""
    approver = policy.approvals.approvers.get(approval.name)
    if approver is None:
        return "the policy has no such approver"
    if approver.key != approval.key:
        return "it was signed with another key than the policy has now"
    if approver.role != approval.role:
        return f"it was signed as {approval.role}, and the policy now says {approver.role}"
    if not policy.approvals.counts(approval.role):
        return f"no approval as {approval.role} is asked for"
    if any(each.key == approval.key for each in counted):  # one name has one key, as was just seen
        return "one person and one key count once"
    return ""


def open_frozen(path: Path) -> tuple[Target, FrozenPlan, ReleasePlan]:
    """A frozen plan that is, byte for byte, the plan that would be made now.

    Raises:
        PlanError: If the file is no frozen plan (DPR-K110, DPR-P301) or was changed (DPR-P302).
        StalePlan: If spec, references or policy have moved.
    """
    target = open_target(path) if path.suffix == ".json" else None
    if target is None or target.frozen is None:
        hint = f"type `dprelease plan {path} --out plan.json`, then `dprelease approve plan.json --key KEYFILE`"
        raise PlanError(f"{path} is no frozen plan, and nothing else can be approved", hint=hint, code="DPR-K110")
    plan = plan_release(target)
    check_fresh(target, plan)
    return target, target.frozen, plan


def check_heads(frozen: FrozenPlan, now: Mapping[str, Head]) -> None:
    """Refuse to approve what can no longer be run: the ledger has moved since the plan was frozen.

    Raises:
        StalePlan: Naming the accounts.
    """
    names = sorted({*frozen.heads, *(account.name for account in frozen.plan.accounts)})
    moved = [name for name in names if now.get(name, Head()) != frozen.heads.get(name, Head())]
    if moved:
        raise StalePlan(
            f"the plan is stale: the ledger has new entries of account {listed(moved)}, and `run` would refuse it",
            hint=f"review a new one: `dprelease plan {frozen.spec_file} --out plan.json`",
        )


def approver_of(policy: PolicySpec, key: PublicKey, name: str = "", before: Sequence[Signed] = ()) -> tuple[str, str]:
    """Name and role of whoever has this key in the policy and may sign now.

    Args:
        policy: The project's policy.
        key: The key of the one who wants to sign.
        name: Who that says to be; empty: whoever has the key.
        before: The approvals that count already.

    Raises:
        PlanError: If nobody has it (DPR-K111), it is somebody else's (DPR-K112), no approval in that role is asked for
            (DPR-K113), or its owner has signed (DPR-K114).
    """
    approvals = policy.approvals
    owner = next((each for each, approver in approvals.approvers.items() if approver.key == key.text), None)
    if owner is None:
        raise PlanError(
            f"the policy has no approver with the key {key.fingerprint}",
            detail=f"its approvers are: {listed(sorted(approvals.approvers))}",
            hint="its owner adds the line that `dprelease keys show FILE` prints to `approvals: approvers:`",
            code="DPR-K111",
        )
    if name not in ("", owner):
        raise PlanError(
            f"the key {key.fingerprint} is not that of {listed([name])}, but of {owner}",
            hint="sign with your own key",
            code="DPR-K112",
        )
    role = approvals.approvers[owner].role
    if not approvals.counts(role):
        raise PlanError(
            f"{owner} approves as {role}, and the policy asks for no approval in that role",
            hint=f"it asks for: {listed(approvals.missing(()))}",
            code="DPR-K113",
        )
    if any(each.name == owner for each in before):
        hint = "nothing is left to do for this approver"
        raise PlanError(f"{owner} has approved this plan already", hint=hint, code="DPR-K114")
    return owner, role


def add_approval(path: Path, shown: FrozenPlan, policy: PolicySpec, key: PrivateKey, at: str) -> FrozenPlan:
    """Sign a frozen plan and write the approval into its file; the plan and its fingerprint stay as they are.

    Two approvers at once each leave theirs: the file is read again under a lock of its folder.

    Args:
        path: The file's path.
        shown: What the approver has looked at.
        policy: The project's policy.
        key: The approver's key.
        at: The time, in UTC, for the record.

    Raises:
        PlanError: If the key may not sign (DPR-K111, DPR-K113) or has signed (DPR-K114), the file is no longer what was
            shown (DPR-K116) or cannot be written (DPR-K117), or holds an approval of another plan (DPR-K122).
    """
    real = path.resolve()  # of a link, what it leads to is written
    with _alone(real.parent):
        now = open_target(real).frozen
        if now is None or now.model_copy(update={"approvals": ()}) != shown.model_copy(update={"approvals": ()}):
            hint = "look at it again: the same command shows what is there now"
            raise PlanError(f"{path} was changed while it was looked at", hint=hint, code="DPR-K116")
        made = _with_approval(policy, now, key, at)
        mode = stat.S_IMODE(real.stat().st_mode)  # the rights that it had
        replace_file(real, (made.canonical() + "\n").encode(), mode)
    return made


def _with_approval(policy: PolicySpec, frozen: FrozenPlan, key: PrivateKey, at: str) -> FrozenPlan:
    name, role = approver_of(policy, key.public, before=counted_approvals(policy, frozen, frozen.plan))
    release = frozen.plan.release
    statement = Statement(
        release=release.name,
        period=release.period,
        plan_fingerprint=frozen.plan_fingerprint,
        heads=frozen.heads,
        name=name,
        role=role,
        key=key.public.text,
        at=at,
    )
    others = tuple(each for each in frozen.approvals if each.name != name)  # such as one with a key since replaced
    return frozen.model_copy(update={"approvals": (*others, sign(statement, key))})


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One writer at a time in a folder."""
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    except OSError as error:
        raise _unwritable(folder, error) from None
    finally:
        os.close(file)


def _unwritable(path: Path, error: OSError) -> PlanError:
    return PlanError(
        f"the approval cannot be written to {path}: {error.strerror or type(error).__name__}",
        hint="the plan's file must be in a folder that you can write; nothing was signed",
        code="DPR-K117",
    )
