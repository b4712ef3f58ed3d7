"""Twelve mistakes that once spent a budget without a word: each is told before, or is none any more.

Who tells it: ``validate`` and ``plan`` what the spec alone shows, ``look`` what only somebody who may see the data can
know, and ``plan --out`` what it writes over. A decimal without a ``step`` has one that costs nothing.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import PlanError
from dprelease.plan.document.approval import Approval
from dprelease.release.planning import open_target, plan_release, read_frozen
from dprelease.release.quote import quote_plan
from dprelease.release.tuning.look import look_at
from dprelease.spec.load import load
from tests.project import POLICY, SETTINGS

SPEC = """dprelease: 1
release: {name: pay, period: 2024, title: Pay}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      canton: {type: text, keys: [Bern, Genève], labels: {Bern: Berne, Genève: Geneva}}
      day: {type: date}
      pay: {type: decimal, range: [0, 20000]}
queries:
  pay: {table: people, where: "year(day) = 2024", by: [canton], measures: {n: {count: rows}, pay: {mean: pay, clip: [0, 9000]}}}
"""
TIMED = SPEC.replace("    columns:\n", "    time: {column: day, type: date}\n    columns:\n").replace(
    'where: "year(day) = 2024", ', ""
)
HEADER = "canton,day,pay"
APPROVAL = Approval(name="alice", role="data-owner", key="ed25519:x", at="2024-03-07T05:06:07Z", signature="x")
RIGHT = "Genève,2024-03-07,1234.5"


def project(folder: Path, spec: str, line: str, encoding: str = "utf-8", rows: int = 50) -> Path:
    (folder / "dprelease.yaml").write_text(SETTINGS)
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "spec.yaml").write_text(spec, encoding="utf-8")
    (folder / "people.csv").write_text("\n".join([HEADER, *[line] * rows]) + "\n", encoding=encoding)
    return folder / "spec.yaml"


def marked(spec: Path) -> set[tuple[str, str]]:
    """Where a look marks a line, and what of it."""
    (found,) = look_at(spec, allowed=True, is_terminal=True)
    lines = [("", line) for line in found.rows]
    lines += [(name, line) for name, part in found.columns.items() for line in part]
    lines += [(f"query {name}", line) for name, part in found.queries.items() for line in part]
    return {(place, line.what) for place, line in lines if line.is_odd}


def warned(spec: Path) -> set[str]:
    target = open_target(spec)
    plan_release(target)
    return {problem.code for problem in target.loaded.warnings}


@pytest.mark.parametrize("spec", [SPEC, TIMED])
def test_nobody_is_warned_of_what_is_right(tmp_path: Path, spec: str) -> None:
    assert marked(project(tmp_path, spec, RIGHT)) == set()
    assert warned(tmp_path / "spec.yaml") == set()


@pytest.mark.parametrize(
    ("mistake", "spec", "line", "encoding", "rows", "places"),
    [
        ("1 decimal comma", SPEC, 'Bern,2024-03-07,"1234,5"', "utf-8", 50, {("pay", "unreadable")}),
        ("2 thousands", SPEC, 'Bern,2024-03-07,"1,234.5"', "utf-8", 50, {("pay", "unreadable")}),
        (
            "3 keys in Latin-1",
            SPEC,
            RIGHT,
            "latin-1",
            50,
            {("canton", "not_listed"), ("canton", "unreadable"), ("query pay", "no_cell")},
        ),
        ("4 day first, in a condition", SPEC, "Bern,07/03/2024,1234.5", "utf-8", 50, {("day", "unreadable")}),
        ("5 day first, as the time", TIMED, "Bern,07/03/2024,1234.5", "utf-8", 50, {("day", "unreadable")}),
        ("6 a header alone", SPEC, "", "utf-8", 0, {("", "rows")}),
    ],
    ids=lambda value: value if isinstance(value, str) and value[:1].isdigit() else "",
)
def test_look_tells_what_only_the_data_show(
    tmp_path: Path, mistake: str, spec: str, line: str, encoding: str, rows: int, places: set[tuple[str, str]]
) -> None:
    path = project(tmp_path, spec, line, encoding, rows)
    assert warned(path) == set()  # nothing in the spec shows it
    assert marked(path) == places, mistake


@pytest.mark.parametrize(
    ("mistake", "before", "after", "code"),
    [
        ("7 no delta", ", delta: 1e-9", "", "DPR-W124"),
        ("8 no period", ", period: 2024", "", "DPR-W123"),
        ("9 a clip beyond the range", "clip: [0, 9000]", "clip: [-100, 40000]", "DPR-W126"),
        ("10 two keys with one label", "Genève: Geneva", "Genève: Berne", "DPR-W125"),
    ],
    ids=lambda value: value if value[:1].isdigit() else "",
)
def test_validate_tells_what_the_spec_shows(tmp_path: Path, mistake: str, before: str, after: str, code: str) -> None:
    assert before in SPEC
    assert warned(project(tmp_path, SPEC.replace(before, after), RIGHT)) == {code}, mistake


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (", delta: 1e-9", ", delta: 0"),
        (", period: 2024", ", period: once"),
        ("clip: [0, 9000]", "clip: [0, 20000]"),
    ],
)
def test_what_is_said_in_so_many_words_is_no_mistake(tmp_path: Path, before: str, after: str) -> None:
    assert warned(project(tmp_path, SPEC.replace(before, after), RIGHT)) == set()


def test_a_decimal_without_a_step_is_not_rounded_to_whole_numbers(tmp_path: Path) -> None:
    """11: right by declaration, for the limits say how fine is fine enough."""
    plan = plan_release(open_target(project(tmp_path, SPEC, RIGHT)))
    assert plan.catalog.tables["people"].column("pay").step <= Fraction(1, 100)


def test_a_reviewed_plan_is_not_written_over_without_a_word(tmp_path: Path) -> None:
    """12: `plan --out` refuses a file with another plan but for `--replace`; one that somebody has approved stays."""
    path = project(tmp_path, SPEC, RIGHT)

    def written(*, replace: bool = False) -> str:
        target = open_target(path)
        plan = plan_release(target)
        return quote_plan(target, plan, target.project.open_ledger()).write(tmp_path / "plan.json", replace=replace)

    assert written() == ""
    assert written() == ""  # the same plan
    first = plan_release(open_target(path)).fingerprint()
    path.write_text(SPEC.replace("title: Pay", "title: Wages"), encoding="utf-8")
    reviewed = (tmp_path / "plan.json").read_bytes()
    with pytest.raises(PlanError, match=first[:16]) as caught:
        written()
    assert caught.value.code == "DPR-P308"
    assert "--replace" in caught.value.hint
    assert (tmp_path / "plan.json").read_bytes() == reviewed
    assert written(replace=True) == first
    approved = read_frozen(tmp_path / "plan.json").model_copy(update={"approvals": (APPROVAL,)})
    (tmp_path / "plan.json").write_text(approved.canonical(), encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        written(replace=True)
    assert caught.value.code == "DPR-P305"
    assert read_frozen(tmp_path / "plan.json") == approved


def test_a_plan_takes_the_place_of_no_other_file(tmp_path: Path) -> None:
    """`plan spec.yaml --out spec.yaml` would lose the spec; what began as a plan may be written again."""
    path = project(tmp_path, SPEC, RIGHT)
    target = open_target(path)
    quote = quote_plan(target, plan_release(target), target.project.open_ledger())
    for out, code in ((path, "DPR-P306"), (tmp_path, "DPR-P307"), (tmp_path / "gone/plan.json", "DPR-P307")):
        with pytest.raises(PlanError) as caught:
            quote.write(out, replace=True)
        assert caught.value.code == code
    assert path.read_text(encoding="utf-8") == SPEC
    (tmp_path / "plan.json").write_text(quote.frozen.canonical()[:100], encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        quote.write(tmp_path / "plan.json")
    assert caught.value.code == "DPR-P308"
    assert quote.write(tmp_path / "plan.json", replace=True) == ""


@pytest.mark.parametrize(("delta", "codes"), [("1e-5", []), ("1.01e-5", ["DPR-W127"]), ("1/2", ["DPR-W127"])])
def test_a_delta_that_promises_next_to_nothing_is_told(delta: str, codes: list[str]) -> None:
    assert [each.code for each in load(SPEC.replace("delta: 1e-9", f"delta: {delta}"), "spec.yaml").warnings] == codes
