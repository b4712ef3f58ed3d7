"""Publishing is rehearsed before anything is charged: what could not be published is refused, and costs nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dprelease
from dprelease.cli import main
from dprelease.errors import PublishError
from dprelease.ledger import open_ledger
from dprelease.plan.document import ReleasePlan
from dprelease.publish import rehearse, rehearsed
from dprelease.publish.bundle import measurements, package
from dprelease.publish.formats import datapackage, jsonstat
from dprelease.release import direct
from dprelease.release.planning import open_target, plan_release
from dprelease.release.project import Project
from dprelease.release.publishing.rendering import plan_of
from dprelease.release.run import Request
from tests.project import small_project
from tests.shapes import shapes_project

FORMATS = ("csv", "parquet", "xlsx", "json", "sdmx", "html")
Fault = Callable[[pytest.MonkeyPatch], None]


def fails(*_: Any, **__: Any) -> Any:
    raise ValueError("no words for this measure")


def renderer_raises(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(jsonstat, "dataset", fails)


def renderer_writes_elsewhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(jsonstat, "jsonstat_files", lambda content, files: {"tables/all.json": b"{}"})


def words_raise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(datapackage, "dictionary", fails)


def recipe_raises(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(measurements, "recipe", fails)


FAULTS: list[tuple[Fault, str, str]] = [
    (renderer_raises, "the files of format json cannot be made", "ValueError: no words for this measure"),
    (renderer_writes_elsewhere, "the files of format json cannot be made", "tables/all.json, tables/income.json"),
    (words_raise, "the files of format csv cannot be made", "ValueError: no words for this measure"),
    (recipe_raises, "measurements/ cannot be made", "ValueError: no words for this measure"),
]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> ReleasePlan:
    target = open_target(shapes_project(tmp_path_factory.mktemp("shapes") / "project", FORMATS))
    return plan_release(target)


def project(folder: Path) -> Path:
    spec = small_project(folder, rows=60)
    spec.write_text(spec.read_text() + "publish: {formats: [csv, json]}\n", encoding="utf-8")
    return spec


def entries(spec: Path) -> list[str]:
    """What is in the ledger that could have been charged or measured."""
    ledger = open_ledger(Project.find(spec).settings.ledger, spec.parent)
    return [each.kind for each in ledger.entries()]


@pytest.mark.thin(first=1)
@pytest.mark.parametrize(("fault", "summary", "detail"), FAULTS, ids=[each[0].__name__ for each in FAULTS])
def test_a_fault_in_publishing_is_told_and_nothing_is_charged(
    fault: Fault, summary: str, detail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = project(tmp_path / "project")
    with monkeypatch.context() as patch:
        fault(patch)
        with pytest.raises(PublishError) as caught:
            direct.run_directly(Request(target=str(spec)))
    assert (caught.value.code, caught.value.exit_code) == ("DPR-W111", 6)
    assert summary in caught.value.summary
    assert detail in caught.value.detail
    assert "nothing was charged" in caught.value.hint
    assert entries(spec) == []
    assert not (spec.parent / "releases").exists()
    assert direct.run_directly(Request(target=str(spec))).state == "published"  # once the fault is mended


def test_the_command_ends_with_the_exit_code_of_publishing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = project(tmp_path / "project")
    renderer_raises(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["dprelease", "run", "--direct", str(spec)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 6
    told = capsys.readouterr()
    assert "DPR-W111" in told.out + told.err
    assert "Traceback" not in told.out + told.err
    assert entries(spec) == []


def test_only_a_run_that_has_rehearsed_reserves() -> None:
    """Direct runs, flows of Prefect and catching up all open a ``Run``: no other module has a ledger reserve."""
    root = Path(dprelease.__file__).parent
    calls = {
        path.relative_to(root).as_posix()
        for folder in ("release", "flows", "cli")
        for path in (root / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "reserve"
    }
    assert calls == {"release/run.py"}


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("most", [rehearsed.MOST_NUMBERS, 20], ids=["whole", "cut"])
def test_every_shape_is_rehearsed_without_selected_keys_and_with_some(
    most: int, shapes: ReleasePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsed, "MOST_NUMBERS", most)
    seen: list[tuple[str, dict[str, int]]] = []
    real = package.format_files

    def watched(form: Any, content: Any, *rest: Any) -> Any:
        seen.append((form.name, {table.name: table.cells for table in content.tables}))
        return real(form, content, *rest)

    monkeypatch.setattr(package, "format_files", watched)
    rehearse(shapes)
    assert sorted(name for name, _ in seen) == sorted(2 * shapes.publish.formats)
    names = {query.name for query in shapes.queries} | {"shares"}
    assert all(tables.keys() == names for _, tables in seen)
    assert {tables["jobs"] for _, tables in seen} == ({0, 2} if most > 20 else {0, 1})
    sizes = {name: cells for name, cells in seen[-1][1].items() if name not in ("jobs", "shares")}
    whole = {
        "income": 3,
        "commonest": 2,
        "up_to": 12,
        "crossed__district__sex": 6,
        "crossed__district": 3,
        "crossed__sex": 2,
    }
    assert most == 20 or sizes == whole
    assert most > 20 or {name for name, cells in sizes.items() if cells > 2} == set()


def test_a_large_plan_is_rehearsed_in_a_bounded_time(shapes: ReleasePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cut plan nothing is measured, reconciled or derived, and faults in the words are found all the same."""
    monkeypatch.setattr(rehearsed, "MOST_NUMBERS", 20)
    monkeypatch.setattr(rehearsed, "bundle_files", fails)
    rehearse(shapes)
    words_raise(monkeypatch)
    with pytest.raises(PublishError, match="format csv"):
        rehearse(shapes)


ALIKE = """dprelease: 1
release: {name: alike, period: 2024}
privacy: {unit: {entity: person}, budget: {epsilon: 1, delta: 1e-9}}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      a: {type: integer, keys: {from: 1, to: 3}}
      b: {type: integer, keys: {from: 1, to: 700}}
      income: {type: integer, range: [0, 10]}
queries:
  one: {table: people, by: [a], measures: {n: {count: rows}}}
  same: {table: people, by: [a], title: The same again, measures: {m: {count: rows}}}
  long: {table: people, by: [b], measures: {n: {count: rows}}}
  signs: {table: people, by: [a], title: Überall, measures: {n: {count: rows}}}
  total: {table: people, by: [a], measures: {n: {sum: income}}}
  both: {table: people, by: [a, b], measures: {n: {count: rows}}}
publish: {formats: [csv, json]}
"""


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> ReleasePlan:
    spec = small_project(tmp_path_factory.mktemp("alike") / "project", ALIKE, rows=5)
    return plan_release(open_target(spec))


def written(patch: pytest.MonkeyPatch) -> list[dict[str, int]]:
    """What tables are written from now on, with how many rows, by format and rehearsal."""
    seen: list[dict[str, int]] = []
    real = package.format_files

    def watched(form: Any, content: Any, *rest: Any) -> Any:
        seen.append({table.name: table.cells for table in content.tables})
        return real(form, content, *rest)

    patch.setattr(package, "format_files", watched)
    return seen


def test_of_queries_that_are_alike_one_is_rehearsed(alike: ReleasePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every column, number of columns, measure and foreign sign is in a table that is written; nothing is twice."""
    seen = written(monkeypatch)
    rehearse(alike)
    most = rehearsed.MOST_ROWS
    assert seen
    assert all(each == {"one": 3, "long": most, "signs": 3, "total": 3, "both": most} for each in seen)


def test_what_a_release_costs_is_rehearsed_whole_where_it_has_few_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so is worked out once, for the rehearsal and the bundle; of many draws those of the rehearsed tables."""
    two = ALIKE.partition("  long:")[0].replace("[a], measures", "[a], where: b = 1, measures")
    spec = small_project(tmp_path / "project", two.replace("again, measures", "again, where: b = 2, measures"), rows=5)
    plan = plan_release(open_target(spec))
    part = rehearsed._unlike(plan)
    (kept,) = part.queries
    assert part.event == plan.event
    monkeypatch.setattr(rehearsed, "MOST_DRAWS", 1)
    fewer = {step.id for step in rehearsed._unlike(plan).steps}
    assert fewer < {step.id for step in plan.steps}
    assert fewer == rehearsed._feeds(kept)


@pytest.mark.parametrize("query", ["same", "total"])
def test_where_the_part_fails_the_whole_plan_has_the_word(
    query: str, alike: ReleasePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault that only the part has refuses nothing; one in the words of any measure that is unlike others does."""
    seen = written(monkeypatch)
    with monkeypatch.context() as patch:
        real = jsonstat.dataset
        patch.setattr(jsonstat, "dataset", lambda *given: real(*given) if len(seen[-1]) == 6 else fails())
        rehearse(alike)
    assert sorted({len(each) for each in seen}) == [5, 6]
    assert seen[-1] == {"one": 3, "same": 3, "long": 700, "signs": 3, "total": 3, "both": 2100}
    words: Callable[..., Any] = vars(datapackage)["dictionary"]

    def of_one(plan: ReleasePlan, *rest: Any) -> Any:
        return fails() if plan.query(query) is not None else words(plan, *rest)

    monkeypatch.setattr(datapackage, "dictionary", of_one)
    if query == "same":
        rehearse(alike)  # its table is made like that of `one`, which was
        return
    with pytest.raises(PublishError, match="format csv"):
        rehearse(alike)


def test_a_bundle_is_of_the_stored_plan_whichever_one_is_at_hand(alike: ReleasePlan) -> None:
    """One of another text is not looked at; one of the same text is taken, with all that was worked out of it."""
    text = alike.canonical()
    other = alike.model_copy(update={"release": alike.release.model_copy(update={"title": "Another title"})})
    assert plan_of(text, alike) is alike
    assert plan_of(text, other) == plan_of(text) == alike
    assert plan_of(other.canonical(), alike) == other
