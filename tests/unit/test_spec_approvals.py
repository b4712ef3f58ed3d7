"""``approvals:`` of a policy: what it may say, and whose signatures would meet it."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, cycle, islice

import pytest

from dprelease.errors import SpecError
from dprelease.signature import PrivateKey
from dprelease.spec.fields.approvals import ApprovalsSpec
from dprelease.spec.project import load_policy

ACCOUNTS = "accounts:\n  people: {unit: person, composition: zcdp, lifetime: {epsilon: 8, delta: 1e-8}}\n"
KEYS = {name: PrivateKey.new() for name in ("alice", "bob", "carol")}
GOOD = f"""\
{ACCOUNTS}approvals:
  required: 1
  roles: [data-owner]
  approvers:
    alice: {{role: data-owner, key: "{KEYS["alice"].public.text}"}}
    bob: {{role: data-owner, key: "{KEYS["bob"].public.text}"}}
    carol: {{role: officer, key: "{KEYS["carol"].public.text}"}}
  above: {{epsilon: 1, delta: 1e-9}}
"""
ALICE, BOB = KEYS["alice"].public.text, KEYS["bob"].public.text


def test_a_policy_says_who_approves() -> None:
    policy = load_policy(GOOD, "policy.yaml")

    assert policy.approvals.required == 1
    assert policy.approvals.roles == ("data-owner",)
    assert policy.approvals.approvers["carol"].role == "officer"
    assert policy.approvals.approvers["alice"].key == ALICE
    assert policy.approvals.above is not None
    assert policy.approvals.above.delta == Fraction(1, 10**9)
    by_role = GOOD.replace("required: 1\n  roles: [data-owner]", "required: {data-owner: 2, officer: 1}")
    assert load_policy(by_role, "policy.yaml").approvals.required == {"data-owner": 2, "officer": 1}
    assert load_policy(ACCOUNTS, "policy.yaml").approvals == ApprovalsSpec()
    assert load_policy(f"{ACCOUNTS}approvals: {{required: 0}}\n", "policy.yaml").approvals.required == 0


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "column", "says"),
    [
        (f'"{ALICE}"', "ed25519:abc", "DPR-S620", 7, 36, "base64"),
        (f'"{ALICE}"', '"ssh-ed25519 AAAA"', "DPR-S620", 7, 36, "dprelease keys show"),
        (f'"{ALICE}"', "12", "DPR-S620", 7, 36, "the number 12"),
        (f'"{ALICE}"', '"ed25519:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="', "DPR-S620", 7, 36, "anybody"),
        (f'"{BOB}"', f'"{ALICE}"', "DPR-S622", 8, 34, "'alice'"),
        ("required: 1", "required: -1", "DPR-S621", 4, 13, "required: 2"),
        ("required: 1", "required: 1.5", "DPR-S621", 4, 13, "1.5"),
        ("required: 1", "required: 101", "DPR-S621", 4, 13, "100"),
        ("required: 1", "required: yes", "DPR-S621", 4, 13, "yes"),
        ("required: 1\n  roles: [data-owner]", "required: {data-owner: 0}", "DPR-S621", 4, 3, "from 1"),
        ("required: 1\n  roles: [data-owner]", "required: {}", "DPR-S621", 4, 3, "no role"),
        ("required: 1\n  roles: [data-owner]", "required: {owner: 1}", "DPR-S625", 4, 14, "data-owner"),
        ("required: 1\n  roles: [data-owner]", "required: {data-owner: 3}", "DPR-S626", 4, 3, "1 more as data-owner"),
        ("  required: 1\n", "", "DPR-S623", 3, 1, "required: 0"),
        ("required: 1\n", "required: {officer: 1}\n", "DPR-S624", 5, 3, "leave `roles` out"),
        ("roles: [data-owner]", "roles: [dataowner]", "DPR-S625", 5, 11, "did you mean `data-owner`"),
        ("roles: [data-owner]", "roles: [data-owner, data-owner]", "DPR-S624", 5, 23, "once"),
        ("roles: [data-owner]", "roles: data-owner", "DPR-S203", 5, 10, "[data-owner]"),
        ("required: 1", "required: 3", "DPR-S626", 4, 13, "1 more as data-owner"),
        ("role: officer", "role: data owner", "DPR-S502", 9, 19, "letters"),
        ("    carol:", "    carol k:", "DPR-S502", 9, 5, "letters"),
        ("role: officer, ", "", "DPR-S201", 9, 5, "role"),
        ("role: officer", "rol: officer", "DPR-S200", 9, 13, "did you mean `role`"),
        ("delta: 1e-9}", "}", "DPR-S201", 10, 3, "delta"),
        ("  above:", "  abov:", "DPR-S200", 10, 3, "`above`"),
    ],
    ids=map(str, range(100)),  # by number: keys are made anew by every process
)
def test_a_wrong_policy_is_told_with_its_place(
    old: str, new: str, code: str, line: int, column: int, says: str
) -> None:
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, new)
    with pytest.raises(SpecError) as caught:
        load_policy(text, "policy.yaml")

    (problem,) = caught.value.problems
    assert problem.where is not None
    assert (problem.code, problem.where.line, problem.where.column) == (code, line, column), problem
    assert says in f"{problem.summary} {problem.hint}"


def named(part: str) -> list[str]:
    """So many roles in turn: ``2 more as a or b`` is [a, b]."""
    number, _, roles = part.partition(" more")
    return list(islice(cycle(roles.removeprefix(" as ").split(" or ") if roles else ["d"]), int(number)))


@pytest.mark.parametrize("required", [1, 2, 3, 4])
@pytest.mark.parametrize("asked", [(), ("a",), ("a", "b"), ("a", "b", "c")])
def test_a_number_of_people_from_as_many_roles_as_they_can_have(required: int, asked: tuple[str, ...]) -> None:
    """Against the definition, for every set of up to five people with four roles; and what is missing would do."""
    spec = ApprovalsSpec(required=required, roles=asked)
    for size in range(6):
        for people in combinations_with_replacement("abcd", size):
            counted = [role for role in people if not asked or role in asked]
            enough = any(
                not asked or len(set(some)) >= min(required, len(asked)) for some in combinations(counted, required)
            )
            missing = spec.missing(people)
            assert (missing == ()) is enough
            added = [role for part in missing for role in named(part)]
            assert spec.missing([*people, *added]) == ()


def test_numbers_by_role() -> None:
    spec = ApprovalsSpec(required={"owner": 1, "officer": 2})

    assert spec.missing(["owner", "owner", "owner"]) == ("2 more as officer",)
    assert spec.missing(["officer", "other"]) == ("1 more as officer", "1 more as owner")
    assert spec.missing(["officer", "owner", "officer"]) == ()
    assert not spec.counts("other")
