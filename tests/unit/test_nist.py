"""nist-800-226.md: every layer, honest answers, and evidence that is where it is said to be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dprelease.plan.document import ReleasePlan
from dprelease.privacy.budget import Loss
from dprelease.publish.accounting.nist import LAYERS, nist_lines, nist_markdown
from dprelease.publish.accounting.report import accounting
from dprelease.publish.base import NOTICE, Content
from dprelease.publish.bundle.measurements import measurement_files
from dprelease.signature import PublicKey
from tests.unit.formats_example import chosen, hostile, plain, whole

CASES: dict[str, Callable[[], Content]] = {"plain": plain, "chosen": chosen, "hostile": hostile, "whole": whole}
KEY = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="


def of_facts(content: Content, **changes: Any) -> Content:
    return replace(content, facts=content.facts.model_copy(update=changes))


def answers(content: Content) -> dict[str, str]:
    return {line.question: line.answer for line in nist_lines(content)}


def answer(content: Content, part: str) -> str:
    (found,) = [value for question, value in answers(content).items() if part in question]
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_layer_has_lines_and_no_question_stands_twice(case: str) -> None:
    lines = nist_lines(CASES[case]())
    assert {line.layer for line in lines} == set(LAYERS)
    assert [line.layer for line in lines] == sorted((line.layer for line in lines), key=LAYERS.index)
    assert len({line.question for line in lines}) == len(lines)
    assert all(line.answer in ("yes", "no", "unknown") and line.why.strip() for line in lines)
    assert all(line.evidence for line in lines if line.answer == "yes"), "a yes without evidence is a promise"


@pytest.mark.parametrize("case", CASES)
def test_all_evidence_is_there(case: str) -> None:
    content = CASES[case]()
    recipe = measurement_files(content.plan, content.measurements)["measurements/recipe.json"]
    files = {
        "accounting.json": accounting(content),
        "facts.json": json.loads(content.facts.canonical()),
        "plan.json": json.loads(content.plan.canonical()),
        "measurements/recipe.json": json.loads(recipe),
    }
    named = {each for line in nist_lines(content) for each in line.evidence}
    assert len(named) > 20
    for each in named:
        file, _, field = each.partition(": ")
        found: Any = files[file]
        for name in field.split("."):
            assert name in found, each
            found = found[name]


def test_what_the_tool_cannot_know_is_unknown_whatever_the_release() -> None:
    parts = (
        "small enough", "hold all data of one person", "every other publication", "audited by somebody",
        "accurate enough", "compared with the truth", "whom these errors harm", "can reach the data",
        "machine that ran it secure", "no more data", "lawful basis", "where they lie", "fixed when", "never published",
    )  # fmt: skip
    for case in CASES.values():
        found = {question.lower(): value for question, value in answers(case()).items()}
        for part in parts:
            told = [v for q, v in found.items() if part.lower() in q]
            assert told == ["unknown"], part


def test_answers_follow_the_facts() -> None:
    content = plain()
    assert answer(content, "source that ran") == "unknown"
    for tree, told in (("clean", "yes"), ("modified", "no"), ("not known", "unknown")):
        environment = {**content.facts.environment, "tree": tree, "commit": "c" * 40}
        assert answer(of_facts(content, environment=environment), "source that ran") == told
    bare = of_facts(content, environment={})
    assert answer(bare, "drawn exactly") == answer(bare, "fit for cryptography") == "unknown"
    assert answer(content, "drawn exactly") == answer(content, "fit for cryptography") == "yes"
    assert answer(content, "bundle signed") == "no"
    assert answer(of_facts(content, signer=PublicKey.from_text(KEY).text), "bundle signed") == "yes"
    assert answer(content, "approved by named people") == "no"
    assert answer(of_facts(content, accounts=()), "added up and capped") == "no"


def test_answers_follow_the_plan() -> None:
    content = plain()
    assert answer(content, "free of bias") == "no"  # incomes are clipped
    counted = only_counts(content)
    assert answer(counted, "free of bias") == "yes"
    assert answer(content, "δ far below") == "unknown"
    pure = {"basic": Loss(epsilon=content.plan.budget.limit, delta=content.plan.budget.delta * 0)}
    exact = content.plan.model_copy(update={"loss": pure, "certified": "basic"})
    assert answer(replace(content, plan=exact), "δ far below") == "yes"
    assert answer(content, "targets for accuracy") == "no"


def only_counts(content: Content) -> Content:
    plan = content.plan
    made = plan.model_copy(update={"queries": plan.queries[:1], "steps": plan.steps[:1], "outputs": plan.outputs[:1]})
    return replace(content, plan=ReleasePlan.from_canonical(made.canonical()))


def test_a_row_is_one_row_whatever_an_author_writes() -> None:
    content = plain()
    title = "a | b\n\n# c <script>x</script> `d` \\| [e](http://f.example) \u202eg"
    release = content.plan.release.model_copy(update={"title": title, "intended_use": title})
    text = nist_markdown(replace(content, plan=content.plan.model_copy(update={"release": release}))).decode()
    assert "<script" not in text
    assert "\u202e" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert sum(line.startswith("#") for line in text.splitlines()) == 1 + len(LAYERS)


def test_the_file_counts_its_answers_and_repeats_itself() -> None:
    content = plain()
    text = nist_markdown(content)
    assert text == nist_markdown(plain())
    lines = nist_lines(content)
    for each in ("yes", "no", "unknown"):
        count = sum(line.answer == each for line in lines)
        assert count
        assert text.decode().count(f"| **{each}** |") == count
        assert f"{count} {each}" in text.decode()
    assert NOTICE not in text.decode()
    assert NOTICE in nist_markdown(plain(rehearsal=True)).decode()
