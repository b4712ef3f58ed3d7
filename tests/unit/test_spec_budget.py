"""Pins, targets and shares of one release, and accountings at delta 0: each rule with its exact place and words."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.errors import Problem, SpecError
from dprelease.measures import MEASURES
from dprelease.measures.clipped import Clipped
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.spec.fields.document import PinSpec, QuerySpec, ReleaseSpec, TargetSpec
from dprelease.spec.load import load

from .spec_example import SPEC, swapped

BUDGET = "budget: {epsilon: 1/2, delta: 1e-9}"
PURE = swapped(BUDGET, "budget: {epsilon: 1/2}")
RHO = swapped(BUDGET, "budget: {rho: 1/10, delta: 1e-9}")
SHARE = "share: 0.5"
EXPECT = "expect: {persons: 12000}"

# The spec, what is replaced, by what, the code, its place (line, and the text that begins there), what is said.
WRONG: list[tuple[str, str, str, str, tuple[int, str], tuple[str, ...]]] = [
    # a pin in itself
    (SPEC, SHARE, "budget: {}", "DPR-S218", (42, "budget"), ("neither epsilon nor rho", "budget: {epsilon: 1/10}")),
    (SPEC, SHARE, "budget: {epsilon: 1/9, rho: 1}", "DPR-S218", (42, "budget"), ("both epsilon and rho",)),
    (SPEC, SHARE, "budget: {epsilon: 0}", "DPR-S205", (42, "0"), ("is zero", "greater than 0")),
    (SPEC, SHARE, "budget: {rho: -1}", "DPR-S205", (42, "-1"), ("is negative",)),
    (SPEC, SHARE, "budget: 0.1", "DPR-S203", (42, "0.1"), ("number 0.1", "budget: {epsilon: 1/10}")),
    (SPEC, SHARE, "budget:", "DPR-S215", (42, ""), ("is empty",)),
    (SPEC, SHARE, "budget: {epsilon: 0.1, delta: 1e-9}", "DPR-S200", (42, "delta"), ("`privacy.budget` holds",)),
    (SPEC, SHARE, "budget: {epsilno: 0.1}", "DPR-S200", (42, "epsilno"), ("`epsilon`",)),
    # a budget that no noise is made for
    (
        SPEC,
        BUDGET,
        "budget: {epsilon: 1e-19, delta: 1e-9}",
        "DPR-S548",
        (9, "1e-19"),
        ("no noise is wide enough", "1e-18"),
    ),
    (SPEC, BUDGET, "budget: {epsilon: 1e7}", "DPR-S548", (9, "1e7"), ("no noise is small enough", "0.1 to 10")),
    (SPEC, BUDGET, "budget: {rho: 1e-40, delta: 1e-9}", "DPR-S548", (9, "1e-40"), ("1e-36", "0.001 to 3")),
    (SPEC, SHARE, "budget: {rho: 1e-40}", "DPR-S548", (42, "1e-40"), ("`queries.income.budget.rho`", "1e-36")),
    # a pin beside other things
    (SPEC, SHARE, "budget: {rho: 1/100}\n    share: 2", "DPR-S537", (43, "2"), ("has no share", "keep `budget`")),
    (
        SPEC,
        SHARE,
        "budget: {epsilon: 0.1}\n    target: {total: {margin: 1e6}}",
        "DPR-S538",
        (43, "target"),
        ("`queries.income.target`", "fixes the noise", "keep `budget`", "keep `target`"),
    ),
    (PURE, SHARE, "budget: {rho: 1/100}", "DPR-S543", (42, "1/100"), ("delta 0", "budget: {epsilon: 1/10}")),
    (
        SPEC,
        SHARE,
        "budget: {epsilon: 0.75}",
        "DPR-S544",
        (42, "0.75"),
        ("is 0.75,", "has epsilon 0.5", "less than 0.5"),
    ),
    (SPEC, SHARE, "budget: {epsilon: 2/3}", "DPR-S544", (42, "2/3"), ("is 2/3,", "has epsilon 0.5")),
    (RHO, SHARE, "budget: {rho: 3}", "DPR-S544", (42, "3"), ("is 3,", "has rho 0.1", "less than 0.1")),
    # a target in itself
    (SPEC, SHARE, "target: {total: {}}", "DPR-S222", (42, "total"), ("neither margin nor", "{margin: 500}")),
    (SPEC, EXPECT, "target: {persons: {margin: 5, relative: 0.1}}", "DPR-S222", (35, "persons"), ("both margin and",)),
    (SPEC, SHARE, "target: {total: {margin: 0}}", "DPR-S205", (42, "0"), ("is zero",)),
    (SPEC, SHARE, "target: {total: {margin: 5%}}", "DPR-S204", (42, "5%"), ("a percentage", "95% is 0.95")),
    (SPEC, EXPECT, EXPECT + "\n    target: {persons: {relative: 11}}", "DPR-S221", (36, "11"), ("more than 10",)),
    (SPEC, EXPECT, EXPECT + "\n    target: {persons: {relative: 0}}", "DPR-S205", (36, "0"), ("is zero",)),
    (SPEC, SHARE, "target: {total: 500}", "DPR-S203", (42, "500"), ("not a mapping", "{margin: 500}")),
    (SPEC, SHARE, "target: {margin: 500}", "DPR-S203", (42, "500"), ("by the name of a measure",)),
    (SPEC, SHARE, "target: 500", "DPR-S203", (42, "500"), ("target: {persons: {margin: 500}}",)),
    (SPEC, SHARE, "target: {total: {margn: 5}}", "DPR-S200", (42, "margn"), ("`margin`",)),
    (
        SPEC,
        SHARE,
        "target: {total: {margin: 5, confidence: 0.9}}",
        "DPR-S200",
        (42, "confidence"),
        ("`publish.confidence` holds",),
    ),
    # a target and what it needs
    (SPEC, SHARE, "target: {totl: {margin: 5}}", "DPR-S539", (42, "totl"), ("no measure of this", "`total`")),
    (SPEC, SHARE, "target: {xyz: {margin: 5}}", "DPR-S539", (42, "xyz"), ("there is: total, average",)),
    (
        SPEC,
        EXPECT,
        "target: {persons: {relative: 0.1}}",
        "DPR-S540",
        (35, "0.1"),
        ("part of `expect`", "write `expect: {persons: 12000}`"),
    ),
    (
        SPEC,
        EXPECT,
        "expect: {known: 9}\n    target: {persons: {relative: 0.1}}",
        "DPR-S540",
        (36, "0.1"),
        ("write `expect: {persons: 12000}`",),
    ),
    (SPEC, SHARE, "target: {total: {relative: 0.1}}", "DPR-S541", (42, "0.1"), ("for counts", "{margin: ...}")),
    (
        SPEC,
        SHARE,
        "target: {average: {margin: 900}}",
        "DPR-S542",
        (42, "average"),
        ("how many are in a cell", "add a count", "expect: {persons: 12000}"),
    ),
    (
        swapped("average: {mean: income}", "average: {mean: income}\n      known: {count: income}"),
        SHARE,
        "share: 1\n    target: {average: {margin: 900}}",
        "DPR-S542",
        (44, "average"),
        ("write `expect: {known: 12000}`",),
    ),
    # shares
    (SPEC, SHARE, "share: 0", "DPR-S205", (42, "0"), ("is zero", "leave the query out")),
    (SPEC, SHARE, "share: -0.5", "DPR-S205", (42, "-0.5"), ("is negative", "leave the query out")),
    # accountings that cannot certify at delta 0
    (PURE, "neighboring: add_remove", "accounting: zcdp", "DPR-S545", (8, "zcdp"), ("delta 0", "accounting: basic")),
    (
        PURE,
        "neighboring: add_remove",
        "accounting: advanced",
        "DPR-S546",
        (8, "advanced"),
        ("greater than 0", "such as 1e-9", "accounting: basic"),
    ),
    (
        swapped(BUDGET, "budget: {rho: 1/10}"),
        "neighboring: add_remove",
        "accounting: zcdp",
        "DPR-S545",
        (8, "zcdp"),
        ("give the budget a delta",),
    ),
]


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        load(text, "spec.yaml")
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "old", "new", "code", "place", "says"), WRONG, ids=[f"{row[3]}: {row[2][:40]}" for row in WRONG]
)
def test_one_mistake_is_one_problem_at_its_place(
    text: str, old: str, new: str, code: str, place: tuple[int, str], says: tuple[str, ...]
) -> None:
    changed = swapped(old, new, text)
    problems = problems_of(changed)

    assert [problem.code for problem in problems] == [code], "\n".join(map(str, problems))
    where, (line, begins) = problems[0].where, place
    assert where is not None
    assert where.line == line
    assert changed.splitlines()[line - 1][where.column - 1 :].startswith(begins)
    assert problems[0].hint
    for words in says:
        assert words in f"{problems[0].summary}\n{problems[0].hint}"


def test_every_new_rule_has_a_code_of_its_own_and_is_tested() -> None:
    crossing = {row[3] for row in WRONG if row[3] >= "DPR-S537"}

    assert crossing == {f"DPR-S{number}" for number in (*range(537, 547), 548)}


def test_several_mistakes_are_told_at_once_in_file_order() -> None:
    text = swapped(EXPECT, "expect: {persons: 12000}\n    target: {person: {margin: 5}, known: {relative: 0.1}}", PURE)
    text = swapped("neighboring: add_remove", "accounting: advanced", text)
    text = swapped(SHARE, "share: 2\n    budget: {epsilon: 3}\n    target: {average: {margin: 9}}", text)
    found = [(each.code, each.where.line, each.where.column) for each in problems_of(text) if each.where]

    assert found == [
        ("DPR-S546", 8, 15),
        ("DPR-S539", 36, 14),
        ("DPR-S540", 36, 53),
        ("DPR-S537", 43, 12),
        ("DPR-S544", 44, 23),
        ("DPR-S538", 45, 5),
        ("DPR-S542", 45, 14),
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # the budget of the release is wrong in itself: no pin can be judged against it
        (swapped(SHARE, "budget: {epsilon: 3}", swapped(BUDGET, "budget: {epsilon: 0, delta: 1e-9}")), "DPR-S205"),
        # the guess is there, under a name that is nearly right
        (swapped(EXPECT, "expect: {person: 9}\n    target: {persons: {relative: 0.1}}"), "DPR-S515"),
        (swapped(EXPECT, "expect: {persons: 0}\n    target: {persons: {relative: 0.1}}"), "DPR-S205"),
        # the measure is there, and wrong in itself
        (swapped("{mean: income}", "{maen: income}\n    target: {average: {margin: 9}}"), "DPR-S214"),
        # the pin is wrong in itself: the query is not blamed for what stands beside it
        (swapped(SHARE, "budget: {epsilon: 0}\n    target: {total: {margin: 9}}"), "DPR-S205"),
    ],
)
def test_what_only_follows_from_a_mistake_is_not_told(text: str, code: str) -> None:
    assert [problem.code for problem in problems_of(text)] == [code]


def queries(text: str) -> dict[str, QuerySpec]:
    return load(text, "spec.yaml").spec.queries


@pytest.mark.parametrize(
    ("lines", "share", "weight", "pin", "target"),
    [
        ("clip_per", Fraction(1), Fraction(1), None, {}),
        ("share: 104/4099", Fraction(104, 4099), Fraction(104, 4099), None, {}),
        ("budget: {epsilon: 0.1}", None, None, PinSpec(epsilon=Fraction(1, 10)), {}),
        ("budget: {epsilon: 1/2}", None, None, PinSpec(epsilon=Fraction(1, 2)), {}),
        ("budget: {rho: 1/7}", None, None, PinSpec(rho=Fraction(1, 7)), {}),
        ("target: {total: {margin: 1/3}}", None, None, None, {"total": TargetSpec(margin=Fraction(1, 3))}),
        ("share: 2\n    target: {total: {margin: 5e5}}", 2, 2, None, {"total": TargetSpec(margin=Fraction(500000))}),
        ("target: {}", Fraction(1), Fraction(1), None, {}),
    ],
)
def test_shares_pins_and_targets_are_exact(
    lines: str, share: Fraction | None, weight: Fraction | None, pin: PinSpec | None, target: dict[str, TargetSpec]
) -> None:
    text = swapped(f"    {SHARE}\n", "" if lines == "clip_per" else f"    {lines}\n")
    query = queries(text)["income"]

    assert (query.share, query.weight, query.budget, query.target) == (share, weight, pin, target)
    again = ReleaseSpec.from_canonical(load(text, "s").spec.canonical())
    assert again == load(text, "s").spec
    assert again.fingerprint() == load(text, "s").fingerprint


@pytest.mark.parametrize("relative", ["10", "1e-3", "1/7"])
def test_a_relative_target_is_a_part_of_the_guess(relative: str) -> None:
    text = swapped(EXPECT, f"{EXPECT}\n    target: {{persons: {{relative: {relative}}}, known: {{margin: 0.5}}}}")

    assert queries(text)["population"].target == {
        "persons": TargetSpec(relative=Fraction(relative)),
        "known": TargetSpec(margin=Fraction(1, 2)),
    }


def test_any_guess_of_the_query_lets_the_margin_of_a_mean_be_a_target() -> None:
    measures = "average: {mean: income}\n      persons: {count: rows}"
    text = swapped("average: {mean: income}", measures)
    text = swapped(SHARE, "expect: {persons: 700}\n    target: {average: {margin: 900}}", text)

    assert queries(text)["income"].weight is None


def test_leaving_the_share_out_and_writing_one_are_the_same_spec_and_a_target_is_another() -> None:
    left_out, written = swapped(f"    {SHARE}\n", ""), swapped(SHARE, "share: 1")
    target = swapped(SHARE, "target: {total: {margin: 9}}")
    shared = swapped(SHARE, "share: 1\n    target: {total: {margin: 9}}")
    pinned = swapped(SHARE, "budget: {epsilon: 0.1}")

    assert load(left_out, "s").fingerprint == load(written, "s").fingerprint
    assert len({load(text, "s").fingerprint for text in (written, target, shared, pinned)}) == 4


@pytest.mark.parametrize("accounting", ["auto", "basic", "rdp", "pld"])
def test_pure_noise_needs_no_delta_under_the_other_accountings(accounting: str) -> None:
    load(swapped("neighboring: add_remove", f"accounting: {accounting}\n  noise: laplace", PURE), "s")


def test_every_accounting_is_known() -> None:
    for accounting in ("auto", *ACCOUNTANTS):
        text = swapped("neighboring: add_remove", f"accounting: {accounting}")
        assert load(text, "s").spec.privacy.accounting == accounting


@pytest.mark.parametrize("budget", ["{rho: 1/10, delta: 1e-9}", "{epsilon: 1/10, delta: 1e-9}"])
def test_a_pin_in_the_other_currency_is_left_to_the_planner(budget: str) -> None:
    other = "epsilon" if "rho" in budget else "rho"
    text = swapped(SHARE, f"budget: {{{other}: 3}}", swapped(BUDGET, f"budget: {budget}"))

    assert queries(text)["income"].weight is None


CLIPPED = [kind for kind, model in MEASURES.items() if issubclass(model, Clipped)]


@pytest.mark.parametrize("kind", CLIPPED)
@pytest.mark.parametrize(
    ("measure", "codes"),
    [
        ("income, clip: [0, 200.5]", []),
        ("income, clip: [9, 0]", ["DPR-S512"]),
        ("income, clip: [0, 0.3]", ["DPR-S513"]),
        ("sex", ["DPR-S508"]),
        ("code", ["DPR-S507"]),
        ("incme", ["DPR-S504"]),
    ],
)
def test_every_clipped_measure_is_held_to_its_column(kind: str, measure: str, codes: list[str]) -> None:
    text = swapped("{mean: income}", f"{{{kind}: {measure}}}")

    assert [problem.code for problem in (problems_of(text) if codes else ())] == codes
    if not codes:
        load(text, "s")


@pytest.mark.parametrize("kind", CLIPPED)
def test_a_target_needs_a_guess_where_the_margin_depends_on_the_cell(kind: str) -> None:
    text = swapped("{mean: income}", f"{{{kind}: income, clip: [0, 100]}}")
    text = swapped(SHARE, "target: {average: {margin: 900}}", text)

    if kind == "sum":
        load(text, "s")
    else:
        assert [problem.code for problem in problems_of(text)] == ["DPR-S542"]
