"""When a plan needs approvals, whose count, and attacks on signed plans."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache

import pytest
from pydantic import ValidationError

from dprelease.errors import PlanError, StalePlan
from dprelease.plan.document import Account, FrozenPlan, Head, ReleasePlan
from dprelease.plan.document.approval import PURPOSE, Approval, Signed, Statement, approval_lines, sign, stands
from dprelease.privacy.unit import Neighboring
from dprelease.release.approval import approval_needed, approver_of, check_heads, counted_approvals, require_approvals
from dprelease.signature import PrivateKey
from dprelease.spec.fields.approvals import ApprovalsSpec, ApproverSpec
from dprelease.spec.fields.document import Cap
from dprelease.spec.project import PolicySpec, load_policy
from tests.planned import SPEC, plan_of

ACCOUNTS = "accounts:\n  people: {unit: person, composition: zcdp, lifetime: {epsilon: 8, delta: 1e-8}}\n"
AT = "2024-03-07T05:06:07Z"
HEADS = {"people": Head(sequence=7, hash="ab" * 32)}
KEYS = {name: PrivateKey.new() for name in ("alice", "bob", "carol", "eve")}
ROLES = {"alice": "data-owner", "bob": "data-owner", "carol": "privacy-officer"}


@cache
def plan_for(period: str = "2024") -> ReleasePlan:
    return plan_of(SPEC.replace("period: 2024", f"period: {period}"))


def policy_for(required: str = "1", extra: str = "", roles: Mapping[str, str] = ROLES) -> PolicySpec:
    lines = "".join(f'    {name}: {{role: {role}, key: "{KEYS[name].public.text}"}}\n' for name, role in roles.items())
    text = f"{ACCOUNTS}approvals:\n  required: {required}\n{extra}  approvers:\n{lines}"
    return load_policy(text, "policy.yaml")


def approval(
    name: str, plan: ReleasePlan, *, role: str = "", key: str = "", heads: Mapping[str, Head] = HEADS
) -> Approval:
    """Of this name, signed with the key of ``key``, for this plan."""
    by = KEYS[key or name]
    statement = Statement(
        release=plan.release.name,
        period=plan.release.period,
        plan_fingerprint=plan.fingerprint(),
        heads=dict(heads),
        name=name,
        role=role or ROLES[name],
        key=by.public.text,
        at=AT,
    )
    return sign(statement, by)


def frozen(plan: ReleasePlan, *approvals: Approval, heads: Mapping[str, Head] = HEADS) -> FrozenPlan:
    return FrozenPlan(
        plan=plan, plan_fingerprint=plan.fingerprint(), spec_file="s.yaml", heads=dict(heads), approvals=approvals
    )


def refused(policy: PolicySpec, file: FrozenPlan | None, plan: ReleasePlan) -> PlanError:
    with pytest.raises(PlanError) as caught:
        require_approvals(policy, file, plan)
    assert caught.value.hint
    return caught.value


# When it is needed


def test_nothing_is_asked_where_the_policy_asks_nothing() -> None:
    plan = plan_for()

    assert require_approvals(policy_for("0"), None, plan) == ()
    assert require_approvals(policy_for("0"), frozen(plan), plan) == ()
    assert require_approvals(load_policy(ACCOUNTS, "p"), None, plan) == ()


def test_above_is_exact() -> None:
    plan = plan_for()
    loss = plan.loss[plan.certified]
    tiny = Fraction(1, 10**30)

    def needed(epsilon: Fraction, delta: Fraction, plan: ReleasePlan = plan) -> bool:
        approvals = policy_for().approvals.model_copy(update={"above": Cap(epsilon=epsilon, delta=delta)})
        return approval_needed(policy_for().model_copy(update={"approvals": approvals}), plan)

    assert not needed(loss.epsilon, loss.delta)
    assert needed(loss.epsilon - tiny, loss.delta)
    assert needed(loss.epsilon, loss.delta - tiny)
    assert approval_needed(policy_for(), plan)


@pytest.mark.parametrize(("unit", "relation"), [("household", "add_remove"), ("person", "replace_one")])
def test_a_plan_in_other_units_than_its_account_is_never_small(unit: str, relation: str) -> None:
    """An epsilon of a smaller unit is a smaller promise: it must not slip below the policy's figure."""
    plan = plan_for()
    (account,) = plan.accounts
    other = Account(**{**account.model_dump(), "unit": unit, "neighboring": Neighboring(relation)})
    large = ApprovalsSpec(required=1, above=Cap(epsilon=Fraction(100), delta=Fraction(1, 2)))
    policy = PolicySpec(accounts={}, approvals=large)

    assert not approval_needed(policy, plan)
    assert approval_needed(policy, plan.model_copy(update={"accounts": (account, other)}))


def test_a_spec_is_refused_with_what_to_type() -> None:
    error = refused(policy_for(), None, plan_for())

    assert error.code == "DPR-K120"
    assert "dprelease plan SPEC --out plan.json" in error.hint
    assert "dprelease approve plan.json --key KEYFILE" in error.hint
    assert "dprelease run plan.json" in error.hint


# Whose approvals count


def test_an_approved_plan_passes_and_its_record_can_be_checked_alone() -> None:
    plan = plan_for()
    found = require_approvals(
        policy_for("{data-owner: 1, privacy-officer: 1}"),
        frozen(plan, approval("carol", plan), approval("alice", plan)),
        plan,
    )

    assert [each.name for each in found] == ["carol", "alice"]
    assert approval_lines(found)[0] == (
        f"carol (privacy-officer), 2024-03-07 05:06:07 UTC, key {KEYS['carol'].public.fingerprint}"
    )
    for record in found:
        again = Signed.from_canonical(record.canonical())
        assert stands(again, "survey", "2024", plan.fingerprint(), again.heads) == record
        assert stands(again, "survey", "2025", plan.fingerprint(), again.heads) is None
        changed = again.model_copy(update={"statement": "0" * 64})
        assert stands(changed, "survey", "2024", plan.fingerprint(), changed.heads) is None


def test_too_few_is_told_with_who_is_missing() -> None:
    plan = plan_for()
    policy = policy_for("2", "  roles: [data-owner, privacy-officer]\n")

    error = refused(policy, frozen(plan, approval("alice", plan), approval("bob", plan)), plan)

    assert error.code == "DPR-K121"
    assert "1 more as privacy-officer" in error.summary
    assert require_approvals(policy, frozen(plan, approval("alice", plan), approval("carol", plan)), plan)


def test_who_left_the_policy_no_longer_counts() -> None:
    plan = plan_for()
    file = frozen(plan, approval("alice", plan), approval("carol", plan))
    left = {name: role for name, role in ROLES.items() if name != "carol"}

    assert len(require_approvals(policy_for("2"), file, plan)) == 2
    error = refused(policy_for("2", roles=left), file, plan)
    assert error.code == "DPR-K121"
    assert "carol" in error.detail
    assert [each.name for each in require_approvals(policy_for("1", roles=left), file, plan)] == ["alice"]


def test_a_replaced_key_and_another_role_no_longer_count() -> None:
    plan = plan_for()
    policy = policy_for()
    file = frozen(plan, approval("alice", plan))
    for change in ({"key": KEYS["eve"].public.text}, {"role": "privacy-officer"}):
        alice = policy.approvals.approvers["alice"].model_copy(update=change)
        people = {**policy.approvals.approvers, "alice": alice}
        changed = policy.model_copy(update={"approvals": policy.approvals.model_copy(update={"approvers": people})})
        assert refused(changed, file, plan).code == "DPR-K121"


def test_a_role_that_is_not_asked_does_not_count() -> None:
    plan = plan_for()
    for policy in (policy_for("1", "  roles: [data-owner]\n"), policy_for("{data-owner: 1}")):
        error = refused(policy, frozen(plan, approval("carol", plan)), plan)
        assert error.code == "DPR-K121"
        assert "no approval as privacy-officer" in error.detail


def test_who_may_sign() -> None:
    policy, plan = policy_for("1", "  roles: [data-owner]\n"), plan_for()

    def code(key: str, name: str = "") -> str:
        with pytest.raises(PlanError) as caught:
            approver_of(
                policy, KEYS[key].public, name, counted_approvals(policy, frozen(plan, approval("bob", plan)), plan)
            )
        assert caught.value.hint
        return caught.value.code

    assert approver_of(policy, KEYS["alice"].public) == ("alice", "data-owner")
    assert code("eve") == "DPR-K111"
    assert code("alice", "bob") == "DPR-K112"
    assert code("carol") == "DPR-K113"
    assert code("bob") == "DPR-K114"


def test_a_moved_ledger_is_told_before_anything_is_signed() -> None:
    file = frozen(plan_for())

    check_heads(file, HEADS)
    for now in ({}, {"people": Head(sequence=8, hash="cd" * 32)}, {"people": Head(sequence=7, hash="cd" * 32)}):
        with pytest.raises(StalePlan, match="people"):
            check_heads(file, now)
    with pytest.raises(StalePlan, match="people"):  # a file that forgets an account says that it has no entry
        check_heads(frozen(plan_for(), heads={}), HEADS)


# Attacks


def test_a_signature_of_another_plan() -> None:
    plan, other = plan_for(), plan_of(SPEC.replace("epsilon: 1,", "epsilon: 2,"))

    assert refused(policy_for(), frozen(other, approval("alice", plan)), other).code == "DPR-K122"


def test_an_approval_copied_between_two_periods() -> None:
    march, april = plan_for("2024-03"), plan_for("2024-04")

    assert require_approvals(policy_for(), frozen(march, approval("alice", march)), march)
    assert refused(policy_for(), frozen(april, approval("alice", march)), april).code == "DPR-K122"


def test_a_file_that_claims_the_fingerprint_of_the_approved_plan() -> None:
    """The fingerprint that counts is that of the plan that would be reserved, made from the spec now."""
    good, bad = plan_for(), plan_of(SPEC.replace("epsilon: 1,", "epsilon: 2,"))
    file = frozen(good, approval("alice", good))

    with pytest.raises(StalePlan):
        require_approvals(policy_for(), file, bad)
    with pytest.raises(StalePlan):
        require_approvals(policy_for(), file.model_copy(update={"plan": bad, "plan_fingerprint": "0" * 64}), good)


@pytest.mark.parametrize(
    "heads",
    [
        {},
        {"people": Head()},
        {"people": Head(sequence=8, hash="ab" * 32)},
        {"people": Head(sequence=7, hash="cd" * 32)},
        {**HEADS, "other": Head()},
    ],
)
def test_swapped_heads(heads: dict[str, Head]) -> None:
    """An approval is used up by the first charge: put on top of later entries, it is not one of that plan."""
    plan = plan_for()

    assert refused(policy_for(), frozen(plan, approval("alice", plan), heads=heads), plan).code == "DPR-K122"


def test_one_person_with_two_keys_or_two_signatures_counts_once() -> None:
    plan, policy = plan_for(), policy_for("2")

    twice = refused(policy, frozen(plan, approval("alice", plan), approval("alice", plan)), plan)
    second = refused(policy, frozen(plan, approval("alice", plan), approval("alice", plan, key="eve")), plan)

    assert twice.code == second.code == "DPR-K121"
    assert "count once" in twice.detail
    assert "another key" in second.detail


def test_two_people_with_one_key_count_once() -> None:
    """Such a policy is refused when it is read; one that was made otherwise does not count the key twice."""
    plan = plan_for()
    key = KEYS["alice"].public.text
    both = {name: ApproverSpec(role="data-owner", key=key) for name in ("alice", "bob")}
    policy = PolicySpec(accounts={}, approvals=ApprovalsSpec(required=2, approvers=both))
    file = frozen(plan, approval("alice", plan), approval("bob", plan, key="alice"))

    assert refused(policy, file, plan).code == "DPR-K121"


@pytest.mark.parametrize("name", ["bob", "carol"])
def test_one_approval_given_out_as_that_of_another(name: str) -> None:
    plan = plan_for()
    mine = approval("alice", plan)
    renamed = mine.model_copy(update={"name": name})
    with_key = renamed.model_copy(update={"key": KEYS[name].public.text, "role": ROLES[name]})

    assert refused(policy_for(), frozen(plan, renamed), plan).code == "DPR-K121"
    assert refused(policy_for(), frozen(plan, with_key), plan).code == "DPR-K122"


def test_a_signature_by_a_key_that_is_not_in_the_policy() -> None:
    plan = plan_for()
    claimed = approval("alice", plan, key="eve").model_copy(update={"key": KEYS["alice"].public.text})

    assert refused(policy_for(), frozen(plan, approval("alice", plan, key="eve")), plan).code == "DPR-K121"
    assert refused(policy_for(), frozen(plan, claimed), plan).code == "DPR-K122"


def test_a_signature_for_another_purpose() -> None:
    plan = plan_for()
    mine = approval("alice", plan)
    record = stands(mine, "survey", "2024", plan.fingerprint(), HEADS)
    assert record is not None
    statement = Statement(
        release="survey",
        period="2024",
        plan_fingerprint=plan.fingerprint(),
        heads=HEADS,
        name="alice",
        role="data-owner",
        key=KEYS["alice"].public.text,
        at=AT,
    )
    assert record.statement == statement.fingerprint()
    for purpose in ("", "manifest", PURPOSE + " "):
        other = mine.model_copy(update={"signature": KEYS["alice"].sign(purpose, statement.to_bytes())})
        assert refused(policy_for(), frozen(plan, other), plan).code == "DPR-K122"
    with pytest.raises(ValueError, match="key that it names"):
        sign(statement, KEYS["eve"])


@pytest.mark.slow
def test_no_flipped_bit_of_the_statement_verifies() -> None:
    plan = plan_for()
    mine = approval("alice", plan)
    statement = Statement(
        release="survey",
        period="2024",
        plan_fingerprint=plan.fingerprint(),
        heads=HEADS,
        name="alice",
        role="data-owner",
        key=KEYS["alice"].public.text,
        at=AT,
    ).to_bytes()
    public = KEYS["alice"].public
    assert public.signed(mine.signature, PURPOSE, statement)

    for bit in range(8 * len(statement)):
        flipped = bytearray(statement)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not public.signed(mine.signature, PURPOSE, bytes(flipped))


def test_no_flipped_bit_of_the_file_around_the_plan_is_taken() -> None:
    """Approvals, heads, kind and fingerprint; the plan itself is held by its fingerprint."""
    plan, policy = plan_for(), policy_for()
    text = frozen(plan, approval("alice", plan)).canonical().encode()
    start, end = text.index(b'"plan":'), text.index(b'"spec_file"')
    after = text.index(b'"plan_fingerprint"')
    fields = frozen(plan, approval("alice", plan)).model_dump()
    taken = 0
    for at in [*range(start), *range(after, end)]:
        for bit in range(8):
            flipped = bytearray(text)
            flipped[at] ^= 1 << bit
            around = bytes(flipped[:start] + b'"plan":null,' + flipped[after:])
            try:
                found = _Around.model_validate_json(around)
            except ValidationError:
                continue
            file = FrozenPlan.model_construct(
                **{**fields, **{name: getattr(found, name) for name in ("approvals", "heads", "plan_fingerprint")}}
            )
            with pytest.raises(PlanError):
                require_approvals(policy, file, plan)
            taken += 1

    assert taken > 500  # so many flips still are a file


class _Around(FrozenPlan):
    """A frozen plan without its plan, which is large."""

    plan: None  # type: ignore[assignment]
