"""Columns of randomized answers, from the spec to the plan and back: what is refused, told, and derived again."""

from __future__ import annotations

import csv
import stat
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import BrokenPromiseError, DpReleaseError, SpecError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.local.respondents import check_local
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.randomized import LocalLoss
from dprelease.publish.accounting.glossary import described
from dprelease.publish.accounting.respondents import local_facts, local_losses
from dprelease.publish.derive.earlier import EarlierTables
from dprelease.publish.derive.tables import _lawless, outline
from dprelease.release.data.respond import questions_of, randomize_file
from dprelease.spec.load import load
from tests.planned import plan_of

SPEC = """
dprelease: 1
release: {name: survey, period: 2024, title: A survey}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      region: {type: text, keys: [a, b]}
      smokes: {type: text, keys: ["no", "yes"], collect: {randomized_response: {epsilon: 1}}}
      flu: {type: integer, keys: [0, 1], collect: {randomized_response: {weights: [3, 1], unary: {question: ill, answer: f}}}}
      cold: {type: integer, keys: [0, 1], collect: {randomized_response: {weights: [3, 1], unary: {question: ill, answer: c}}}}
queries:
  health:
    table: people
    by: [region]
    measures:
      n: {count: rows}
      smokers: {randomized: smokes, key: "yes"}
      flu: {randomized: flu, key: 1, show: share}
"""
RR = "{randomized_response: {epsilon: 1}}"


def test_what_is_estimated_is_told_in_words_with_the_probabilities_of_the_coins() -> None:
    plan = plan_of(SPEC)
    (query,) = plan.queries
    said = described(query.measures["flu"], plan.catalog.tables["people"], "person")
    assert said.startswith("estimated share of answers to flu that truly are 1")
    assert "with probability 1/2 where it is true and 1/4 where it is not" in said


WRONG = [
    ("{epsilon: 1}}}", "{weights: [1, 3]}}}", "DPR-S249"),
    ("{epsilon: 1}}}", "{weights: [3, 1.5]}}}", "DPR-S249"),
    ("{epsilon: 1}}}", "{}}}", "DPR-S250"),
    ("{epsilon: 1}}}", "{epsilon: 1, weights: [3, 1]}}}", "DPR-S250"),
    ("{epsilon: 1}}}", "{epsilon: 21}}}", "DPR-S251"),
    ("{epsilon: 1}}}", "{epsilon: 1e-4}}}", "DPR-S251"),
    (
        "keys: [a, b]}",
        f'keys: [a, b]}}\n      old: {{sql: "region", type: text, keys: [a, b], collect: {RR}}}',
        "DPR-S252",
    ),
    ('keys: ["no", "yes"], ', "", "DPR-S253"),
    ('"yes"], collect', '"yes"], null: "no", collect', "DPR-S253"),
    ("{epsilon: 1}}}", "{epsilon: 1, silence: perhaps}}}", "DPR-S254"),
    ('key: "yes"', 'key: "Yes"', "DPR-S254"),
    ("flu: {type: integer, keys: [0, 1]", "flu: {type: integer, keys: [1, 2]", "DPR-S255"),
    ("source: {file: people.csv}", "source: {file: people.csv}\n    unit_id: who", "DPR-S256"),
    ("answer: c", "answer: f", "DPR-S257"),
    ("question: ill, answer: c", "question: region, answer: c", "DPR-S257"),
    ("by: [region]", "by: [smokes]", "DPR-S258"),
    ("by: [region]", "by: [region]\n    where: \"smokes = 'yes'\"", "DPR-S258"),
    ("{count: rows}", "{count: smokes}", "DPR-S258"),
    ("{count: rows}", '{count: rows, where: "flu = 1"}', "DPR-S258"),
    ("{count: rows}", "{count_distinct: smokes}", "DPR-S258"),
    ("randomized: smokes", "randomized: region", "DPR-S258"),
    ("queries:", '      both: {sql: "flu + cold", type: integer}\nqueries:', "DPR-S258"),
    ("queries:", "      of: {map: smokes, to: {yes: s}}\nqueries:", "DPR-S258"),
    ("by: [region]", "by: [region]\n    totals: all", "DPR-S259"),
    ("by: [region]", "by: [region]\n    series: {from: 2024-01, sums: [3]}", "DPR-S259"),
    ("{count: rows}", "{count: rows}\n      part: {ratio: [smokers, n]}", "DPR-S259"),
]


@pytest.mark.parametrize(("old", "new", "code"), WRONG)
def test_a_spec_that_takes_them_for_true_or_says_no_law_is_refused(old: str, new: str, code: str) -> None:
    assert old in SPEC
    with pytest.raises(SpecError) as refused:
        load(SPEC.replace(old, new, 1), "s.yaml")
    assert code in {problem.code for problem in refused.value.problems}
    assert all(problem.where is not None for problem in refused.value.problems)


@pytest.fixture(scope="module")
def plan() -> ReleasePlan:
    return plan_of(SPEC)


def test_a_plan_tells_the_local_loss_and_verify_derives_it_again(plan: ReleasePlan) -> None:
    assert verify(plan).epsilon <= 1
    assert plan.local is not None
    assert [each.question for each in plan.local.questions] == ["smokes", "ill"]
    assert float(plan.local.epsilon) == pytest.approx(1 + 1.0986122886681098, abs=1e-9)
    assert check_local(plan) == pytest.approx(float(plan.local.epsilon), rel=1e-12)
    assert ReleasePlan.model_validate_json(plan.canonical()) == plan
    facts = local_facts(plan)["randomized_response"]
    assert facts["towards_collector"] == {"epsilon": "2.0986123", "delta": "0"}
    whole = {kind: loss for kind, loss in local_losses(plan) if "and this release" in kind}
    (both,) = whole.values()
    assert both is not None
    assert both.epsilon > plan.local.epsilon + plan.loss[plan.certified].epsilon  # replaced: more than one step


def test_a_plan_without_them_keeps_its_bytes() -> None:
    plain = plan_of(
        SPEC.split("      smokes: {type", maxsplit=1)[0]
        + "queries:\n  n: {table: people, measures: {n: {count: rows}}}\n"
    )
    assert plain.local is None
    assert '"local"' not in plain.canonical()
    assert '"collected"' not in plain.canonical()
    assert local_facts(plain) == {}


def planted(plan: ReleasePlan) -> dict[str, ReleasePlan]:
    """Plans with one thing wrong each."""
    assert plan.local is not None
    first, second = plan.local.questions
    people, (query,) = plan.catalog.tables["people"], plan.queries
    less = plan.local.model_copy(
        update={"questions": (first.model_copy(update={"epsilon": first.epsilon / 2}), second)}
    )
    smokes = people.column("smokes")
    stronger = smokes.model_copy(
        update={"collected": smokes.collected and smokes.collected.model_copy(update={"weights": (9, 1)})}
    )
    columns = tuple(stronger if each.name == "smokes" else each for each in people.columns)
    believed = tuple(
        each.model_copy(update={"collected": None}) if each.name == "smokes" else each for each in people.columns
    )

    def of(columns: object) -> ReleasePlan:
        tables = {"people": people.model_copy(update={"columns": columns})}
        return plan.model_copy(update={"catalog": plan.catalog.model_copy(update={"tables": tables})})

    sure = query.measures["smokers"]
    lying = sure.model_copy(update={"key": "perhaps"})
    grouped = query.model_copy(update={"by": ("smokes",)})
    steps = tuple(
        each.model_copy(update={"aggregate": each.aggregate.model_copy(update={"by": ("smokes",)})})
        for each in plan.steps
    )
    return {
        "half of a loss": plan.model_copy(update={"local": less}),
        "less in all": plan.model_copy(update={"local": plan.local.model_copy(update={"epsilon": Fraction(1)})}),
        "no loss": plan.model_copy(update={"local": None}),
        "a question less": plan.model_copy(update={"local": LocalLoss(questions=(first,), epsilon=first.epsilon)}),
        "another law": of(columns),
        "true answers": of(believed),
        "another answer": plan.model_copy(
            update={"queries": (query.model_copy(update={"measures": {**query.measures, "smokers": lying}}),)}
        ),
        "groups": plan.model_copy(update={"queries": (grouped,), "steps": steps}),
    }


def test_what_is_planted_in_a_plan_is_refused(plan: ReleasePlan) -> None:
    for name, wrong in planted(plan).items():
        for check in (check_local, verify):
            try:
                check(wrong)
            except BrokenPromiseError:
                continue
            pytest.fail(f"{name} is taken by {check.__name__}")


def test_a_derived_table_gives_no_margin_to_what_is_made_of_coins() -> None:
    derived = plan_of(SPEC + 'derive:\n  d: {sql: "select region, smokers - n as x, n as y from health"}\n')
    named = EarlierTables.of(derived, {}).queries_named(derived.derive[0])
    assert _lawless(named, frozenset({("health", "smokers")}))
    assert not _lawless(named, frozenset({("health", "n")}))
    assert outline(derived, derived.derive[0]).measures


def write(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


TRUE = [["region", "ill", "smokes", "note"], *[["a", "fc"[n % 2], "yes", "ü,\n"] for n in range(400)]]


def test_a_file_is_randomized_once_and_all_else_is_copied(tmp_path: Path) -> None:
    table = load(SPEC, "s.yaml").spec.tables["people"]
    out = tmp_path / "collected.csv"
    counts = randomize_file("people", table, write(tmp_path / "true.csv", TRUE), out)

    with out.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["region", "flu", "cold", "smokes", "note"]
    assert counts == {"smokes": 400, "ill": 400}
    assert {(row[0], row[4]) for row in rows} == {("a", "ü,\n")}
    assert {row[1] + row[2] for row in rows} == {"00", "01", "10", "11"}
    assert 200 < sum(row[3] == "yes" for row in rows) < 370  # 292 expected, 8.9 of spread
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    before = out.read_bytes()
    with pytest.raises(DpReleaseError) as again:
        randomize_file("people", table, tmp_path / "true.csv", out)
    assert again.value.code == "DPR-E136"
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([["region", "ill"], ["a", "f"]], "DPR-E133"),
        ([["region", "ill", "smokes", "flu"], ["a", "f", "yes", "1"]], "DPR-E133"),
        ([["region", "ill", "smokes"], ["a", "f", "secret-42"]], "DPR-E134"),
        ([["region", "ill", "smokes"], ["a", "f"]], "DPR-E137"),
        ([["smokes", "ill", "smokes"], ["a", "f", "no"]], "DPR-E137"),
        ([], "DPR-E137"),
    ],
)
def test_a_wrong_file_draws_nothing_and_is_told_without_its_answers(
    tmp_path: Path, rows: list[list[str]], code: str
) -> None:
    with pytest.raises(DpReleaseError) as refused:
        randomize_file(
            "people", load(SPEC, "s.yaml").spec.tables["people"], write(tmp_path / "t.csv", rows), tmp_path / "out.csv"
        )
    assert refused.value.code == code
    assert "secret-42" not in str(refused.value)
    assert not (tmp_path / "out.csv").exists()


def test_silence_is_an_answer_or_stays_silence(tmp_path: Path) -> None:
    spec = SPEC.replace("{epsilon: 1}}}", '{epsilon: 20, silence: "no"}}}')
    rows = [["ill", "smokes"], *[["", ""]] * 5]
    randomize_file(
        "people", load(spec, "s.yaml").spec.tables["people"], write(tmp_path / "t.csv", rows), tmp_path / "out.csv"
    )
    lines = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert lines == ["flu,cold,smokes", *[",,no"] * 5]  # e^20: another answer once in 500 million

    (alone,) = [
        each for each in questions_of("people", load(spec, "s.yaml").spec.tables["people"]) if each.name == "smokes"
    ]
    assert alone.law.silence == "no"
