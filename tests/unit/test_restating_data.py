"""``run --restate`` where the data or what is measured are others than they were; never for another word in a title."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dprelease.engines import DuckDBEngine
from dprelease.errors import LedgerError
from dprelease.ledger import Ledger
from dprelease.ledger.model.entry import Reserved
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.same_question import asked, question, restated
from dprelease.release import direct
from dprelease.release.check import check_release
from dprelease.release.project import Project
from dprelease.release.publishing.rendering import Outcome
from dprelease.release.run import Request
from tests.planned import plan_of
from tests.project import small_project

TITLE = ("title: Population", "title: The population")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A survey that was released."""
    path = small_project(tmp_path, rows=40)
    run(path)
    return path


def run(spec: Path, restate: str = "") -> Outcome:
    return direct.run_directly(Request(target=str(spec), restate=restate))


def repair(spec: Path, line: str = "06-01,1,7") -> None:
    data = spec.parent / "people-1.csv"
    data.write_text(data.read_text() + line + "\n")


def change(spec: Path, old: str, new: str) -> None:
    text = spec.read_text()
    assert text.count(old) == 1
    spec.write_text(text.replace(old, new))


def ledger_of(spec: Path) -> Ledger:
    return Project.find(spec.parent).open_ledger()


def reserved(spec: Path) -> list[Reserved]:
    return [body for entry in ledger_of(spec).entries() if isinstance(body := entry.facts(), Reserved)]


def refused(spec: Path, code: str = "DPR-L114") -> LedgerError:
    before = len(list(ledger_of(spec).entries()))
    with pytest.raises(LedgerError) as caught:
        run(spec, "because")
    assert caught.value.code == code
    assert len(list(ledger_of(spec).entries())) == before, "nothing was charged"
    return caught.value


def accounting(spec: Path) -> dict[str, object]:
    bundle = spec.parent / "releases" / "survey" / "2024"
    checks = {check.name: check.passed for check in check_release(bundle)}
    assert False not in checks.values(), checks
    found: dict[str, object] = json.loads((bundle / "accounting.json").read_text())
    return found


def test_a_repaired_file_is_measured_again_and_charged_in_full(spec: Path) -> None:
    repair(spec)
    made = run(spec, "a row was missing")
    assert (made.state, made.reused) == ("published", 0)
    first, second = reserved(spec)
    assert second.restates is not None
    assert second.charges[0].spent == first.charges[0].spent, "a full new release"
    told = accounting(spec)["restates"]
    assert isinstance(told, dict)
    assert (told["data"], told["measured"]) == ("corrected", "same")
    page = (spec.parent / "releases" / "survey" / "2024" / "accounting.html").read_text()
    assert "the data were corrected" in page
    assert "what is measured was changed" not in page
    aside = [path.name for path in (spec.parent / "releases" / "survey").iterdir() if "superseded" in path.name]
    assert len(aside) == 1
    assert ledger_of(spec).check() == ()


@pytest.mark.slow
def test_the_same_restatement_again_is_there_and_another_repair_is_another_one(spec: Path) -> None:
    repair(spec)
    run(spec, "a row was missing")
    assert run(spec, "a row was missing").state == "exists"
    assert run(spec).note == ""
    repair(spec, "06-02,2,8")
    assert run(spec, "and another one").state == "published"
    plans = [ledger_of(spec).plan_of(each) for each in ledger_of(spec).reservations()]
    assert [plan.release.restatement for plan in plans if plan] == [0, 1, 2]
    assert len(reserved(spec)) == 3
    assert ledger_of(spec).check() == ()


@pytest.mark.slow
def test_neither_differs_whatever_the_titles_say(spec: Path) -> None:
    for words in (TITLE, ("curator: Example Office", "curator: Another Office"), ("1: Male", "1: Men")):
        change(spec, *words)
        error = refused(spec)
        assert "publish NAME/PERIOD --look SPEC" in error.hint


@pytest.mark.slow
def test_other_names_and_another_order_measure_the_same(spec: Path) -> None:
    change(spec, "  population: {title", "  people: {title")
    refused(spec)


@pytest.mark.slow
def test_a_file_that_was_put_back_is_no_correction(spec: Path) -> None:
    """A, then B, then A again would be a second draw of A's answers."""
    data = spec.parent / "people-1.csv"
    before = data.read_bytes()
    repair(spec)
    run(spec, "a row was missing")
    data.write_bytes(before)
    refused(spec)


@pytest.mark.slow
def test_a_file_of_another_name_and_place_is_the_same_file(spec: Path) -> None:
    (spec.parent / "people-1.csv").rename(spec.parent / "persons.csv")
    change(spec, '"people-*.csv"', '"persons.csv"')
    refused(spec)


@pytest.mark.slow
def test_what_is_measured_was_changed(spec: Path) -> None:
    change(spec, "budget: {epsilon: 1,", "budget: {epsilon: 1/2,")
    run(spec, "too dear")
    told = accounting(spec)["restates"]
    assert isinstance(told, dict)
    assert (told["data"], told["measured"]) == ("same", "changed")


@pytest.mark.slow
def test_data_that_are_put_back_between_reservation_and_reading_are_refused(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = spec.parent / "people-1.csv"
    before = data.read_bytes()
    repair(spec)
    with monkeypatch.context() as killed:
        killed.setattr("dprelease.release.run.Run.pin", lambda _: 1 / 0)
        killed.setattr("dprelease.release.run.Run.give_back", lambda *_: None)  # as a kill would leave it
        with pytest.raises(ZeroDivisionError):
            run(spec, "a row was missing")
    data.write_bytes(before)
    with pytest.raises(LedgerError, match="DPR-L114"):
        run(spec, "a row was missing")
    assert [each.state for each in ledger_of(spec).reservations()] == ["closed", "open"]
    assert not ledger_of(spec).measured(*identity(ledger_of(spec), 1))
    repair(spec)
    assert run(spec, "a row was missing").state == "published"
    assert ledger_of(spec).check() == ()


def identity(ledger: Ledger, at: int) -> tuple[str, str, str]:
    found = ledger.reservations()[at]
    return found.release, found.period, found.plan_fingerprint


@pytest.mark.slow
def test_another_key_cannot_tell_whether_the_data_are_others(spec: Path) -> None:
    key = Project.find(spec.parent).source_key
    kept = key.read_bytes()
    key.write_bytes(bytes(32))
    repair(spec)
    assert "DPR-L176" in str(refused(spec, "DPR-L176"))
    assert "cannot be told" in run(spec).note
    key.write_bytes(kept)
    assert run(spec, "a row was missing").state == "published"


def test_a_plain_run_says_that_the_files_are_others_and_reads_no_row(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(spec).note == ""
    repair(spec)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setattr(DuckDBEngine, "aggregate", never)
    made = run(spec)
    assert made.state == "exists"
    assert made.note.startswith("the files are not those that survey/2024 was measured from")
    assert "--restate REASON" in made.note
    (spec.parent / "people-1.csv").unlink()
    gone = run(spec)
    assert gone.state == "exists"
    assert "cannot be told" in gone.note


@pytest.mark.slow
def test_one_that_was_given_up_before_anything_was_read_may_be_asked_again(tmp_path: Path) -> None:
    path = small_project(tmp_path, rows=40)
    ledger = ledger_of(path)
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr("dprelease.release.run.Run.pin", lambda _: 1 / 0)
        killed.setattr("dprelease.release.run.Run.give_back", lambda *_: None)
        with pytest.raises(ZeroDivisionError):
            run(path)
    ledger.give_up(*identity(ledger, 0), "the machine was needed")
    assert run(path, "now").state == "published"
    assert ledger.check() == ()


def test_a_question_is_what_is_measured() -> None:
    plan = plan_of()
    assert question(restated(plan, 3)) == question(plan)
    assert asked(restated(plan, 3)) == plan
    assert restated(plan, 3).fingerprint() != plan.fingerprint()
    assert ReleasePlan.from_canonical(restated(plan, 3).canonical()) == restated(plan, 3)
    assert "restatement" not in plan.canonical()
    finer = plan.steps[0].model_copy(update={"scale": plan.steps[0].scale * 2})
    assert question(plan.model_copy(update={"steps": (finer, *plan.steps[1:])})) != question(plan)
