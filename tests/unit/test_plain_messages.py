"""Mistakes that newcomers made, each with the words that would have helped them at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import POLICY, SPEC, command, forked, small_project

COUNT = "{count: rows}"


@pytest.mark.parametrize(
    ("written", "wrong", "code", "hint"),
    [
        (COUNT, "{median: income}", "DPR-S214", "write {quantiles: COLUMN, at: [0.5]}"),
        (COUNT, "{avg: income}", "DPR-S214", "write {mean: COLUMN}"),
        (COUNT, "{sd: income}", "DPR-S214", "write {stddev: COLUMN}"),
        (COUNT, "{nunique: sex}", "DPR-S214", "write {count_distinct: COLUMN}"),
        (COUNT, "{maen: income}", "DPR-S214", "did you mean `mean`?"),
        (COUNT, "{count: *}", "DPR-S103", "rows are counted by `{count: rows}`"),
        ("type: decimal", "type: float", "DPR-S202", "write decimal"),
        ("type: decimal", "type: string", "DPR-S202", "write text"),
        ("type: integer", "type: int", "DPR-S202", "write integer"),
        ("type: integer", "type: datetime", "DPR-S202", "write timestamp"),
        ("    by: [region]", '    by: [region]\n    where: "sex = F"', "DPR-S561", "in single quotes, such as 'F'"),
    ],
)
def test_a_word_of_another_language_is_answered_with_ours(
    written: str, wrong: str, code: str, hint: str, tmp_path: Path
) -> None:
    small_project(tmp_path, SPEC.replace(written, wrong, 1), rows=3)
    said = command(tmp_path, "validate", "spec.yaml", code=2)
    assert code in said
    assert hint in said


def test_a_folder_in_place_of_a_spec_is_answered_with_the_specs_in_it(tmp_path: Path) -> None:
    small_project(tmp_path, rows=3)
    for words in (("validate", "."), ("plan", "."), ("run", ".", "--direct")):
        said = command(tmp_path, *words, code=2)
        assert "DPR-S001" in said
        assert "give a file in it: spec.yaml" in said


def test_a_policy_that_is_not_there_is_told_as_what_it_is(tmp_path: Path) -> None:
    small_project(tmp_path, rows=3)
    (tmp_path / "policy.yaml").unlink()
    assert "`policy:` of dprelease.yaml names it" in command(tmp_path, "validate", "spec.yaml", code=2)


def test_a_bundle_is_verified_by_name_and_period_and_one_that_is_not_there_is_no_forgery(tmp_path: Path) -> None:
    small_project(tmp_path, rows=30)
    command(tmp_path, "run", "spec.yaml", "--direct")
    assert command(tmp_path, "verify", "survey/2024") == command(tmp_path, "verify", "releases/survey/2024")
    said = command(tmp_path, "verify", "survey/2023", code=7)
    assert "DPR-C121  there is no bundle survey/2023" in said
    assert "do not rely" not in said
    (away := tmp_path.parent / f"{tmp_path.name}-away").mkdir()
    assert "DPR-C121" in command(away, "verify", "survey/2024", code=7), "a stranger has no project"


def test_a_dry_run_is_answered_with_the_two_commands_that_it_may_mean(tmp_path: Path) -> None:
    small_project(tmp_path, rows=3)
    ended = forked(tmp_path, "run", "spec.yaml", "--direct", "--dry-run")
    assert ended.code == 2
    told = " ".join(ended.err.replace("│", " ").split())
    assert "dprelease plan" in told
    assert "--synthetic" in told
    assert not (tmp_path / "state").exists()


def test_private_keys_without_a_delta_for_them_are_answered_with_a_line_of_policy(tmp_path: Path) -> None:
    spec = SPEC.replace("by: [region]", "by: [town]\n    keys: private").replace(
        "      sex: {", "      town: {type: text}\n      sex: {", 1
    )
    small_project(tmp_path, spec, rows=3)
    assert "selecting: 5e-7}`" in command(tmp_path, "validate", "spec.yaml", code=2)


def test_a_cap_is_told_as_a_decimal(tmp_path: Path) -> None:
    small_project(tmp_path, rows=3)
    (tmp_path / "policy.yaml").write_text(POLICY.replace("epsilon: 4", "epsilon: 0.1"))
    said = command(tmp_path, "plan", "spec.yaml", code=4)
    assert "would exceed 0.1" in said
    assert "1/10" not in said
