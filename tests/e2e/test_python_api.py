"""The Python API says, writes, charges and refuses what the command does."""

from __future__ import annotations

import contextlib
import csv
import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dprelease as dp
from dprelease import api
from dprelease.api.frames import Shown
from dprelease.api.measurements import Measurements
from dprelease.api.plans import Plan
from dprelease.api.releases import Accounting, Release, Table, Verification
from dprelease.api.spending import Spend
from dprelease.errors import BudgetExceeded, CheckFailed, DpReleaseError, EngineError, PublishError
from dprelease.publish import NOTICE
from dprelease.signature import new_key_files
from tests.project import POLICY, SETTINGS, SPEC, command, environment, forked, small_project

from .api_project import write_project

SMALL = SPEC[: SPEC.index("  income:\n    table:")]  # one query: quick to plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in a folder whose name has a blank, in which everything was released by the API."""
    made = tmp_path_factory.mktemp("api") / "a Büro of numbers"
    outcome = dp.run(write_project(made)).outcome
    assert outcome is not None
    assert outcome.state == "published"
    return made


@pytest.fixture(scope="module")
def release(folder: Path) -> Release:
    return dp.open(folder / "releases" / "everything" / "2024")


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """A copy of the bundle, to be changed."""
    return Path(shutil.copytree(folder / "releases" / "everything" / "2024", tmp_path / "copy"))


def said(folder: Path, *words: str) -> Any:
    """What a command prints for machines."""
    return json.loads(forked(folder, *words, "--json").out)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def as_written(value: Any) -> Any:
    """A cell as a reader of the CSV file has it: a number, None where it is empty, or text."""
    if pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.date().isoformat()
    return str(value).lower() if isinstance(value, bool) else value


# -- names and imports


def test_these_are_the_names() -> None:
    assert sorted(dp.__all__) == sorted([*api.__all__, "__version__"])
    assert api.__all__ == ["DpReleaseError", "init", "open", "plan", "read_measurements", "run", "spend", "verify"]
    assert set(dp.__all__) <= set(dir(dp))
    assert all(getattr(dp, name) is not None for name in dp.__all__)
    assert dp.open is api.open
    with pytest.raises(AttributeError, match="burn"):
        _ = dp.burn  # type: ignore[attr-defined]


def test_plan_is_a_package_and_a_function_whichever_is_used_first() -> None:
    code = "import dprelease as dp; dp.plan; from dprelease.plan import allocate; import dprelease.plan.verify as v;"
    code += "assert dp.plan is __import__('sys').modules['dprelease.plan'] and callable(dp.plan) and v.verify"
    other = "import dprelease.plan.verify; import dprelease as dp; assert callable(dp.plan) and dp.plan.verify.verify"

    for each in (code, other):
        subprocess.run([sys.executable, "-c", each], check=True)


@pytest.mark.parametrize("words", ["--help", "plan spec.yaml", "ledger status", "--version"])
def test_a_command_imports_neither_the_api_nor_pandas(folder: Path, words: str) -> None:
    code = f"""import sys
sys.argv = ["dprelease", *{words.split()!r}]
from dprelease.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code
print("LOADED", sorted({{"pandas", "matplotlib", "dprelease.api"}} & set(sys.modules)))"""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)

    assert done.stdout.rstrip().endswith("LOADED []")


def test_importing_it_loads_nothing_and_a_notebook_loads_no_prefect(tmp_path: Path) -> None:
    spec = small_project(tmp_path / "an office", SMALL, rows=60)
    code = "import sys, dprelease as dp; before = set(sys.modules); print(sorted({'numpy', 'pandas', 'pydantic'} & before));"
    code += "dp.run('spec.yaml'); print('prefect' in sys.modules)"
    # As where nothing says that text is UTF-8.
    plain = {**environment(), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=spec.parent, env=plain, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["[]", "False"]


# -- every attribute, beside what the command prints and writes

PROVED = {
    Plan: {"account_rows", "accounts", "facts", "fingerprint", "loss", "outputs", "steps", "what_if"},
    Release: {"accounting", "folder", "join", "name", "outcome", "period", "plan", "rehearsal", "tables"},
    Table: {"keys", "measures", "name", "title", "to_pandas"},
    Accounting: {"account_rows", "accounts", "facts", "loss", "steps"},
    Verification: {"checks", "to_pandas"},
    Spend: {"accounts", "facts", "open", "windows"},
    Measurements: {"get", "items", "keys", "recipe", "steps", "values"},
}


def test_every_public_attribute_is_compared_below() -> None:
    found = {
        kind: {name for name in {*dir(kind), *(field.name for field in fields(kind))} if not name.startswith("_")}
        for kind in PROVED
    }

    assert found == PROVED
    assert set(Shown.__subclasses__()) <= {*PROVED, Plan.__mro__[1]}


def test_a_plan_is_what_the_command_prints_and_freezes(folder: Path, tmp_path: Path) -> None:
    with contextlib.chdir(folder):
        plan = dp.plan("spec.yaml", out=tmp_path / "plan.json", what_if=[0.5, "1", 2])
    printed = said(folder, "plan", "spec.yaml", "--out", str(tmp_path / "other.json"), "--what-if", "epsilon=0.5,1,2")

    assert json.loads(json.dumps(plan.facts)) == printed
    assert (tmp_path / "plan.json").read_bytes() == (tmp_path / "other.json").read_bytes()
    assert plan.fingerprint == printed["plan_fingerprint"]
    assert list(plan.outputs["measure"]) == [each["measure"] for each in printed["outputs"]]
    margins = [each["margin"] and float(each["margin"]) for each in printed["outputs"]]
    assert [as_written(each) for each in plan.outputs["margin"]] == margins
    assert list(plan.steps["step"]) == [each["id"] for each in printed["steps"]]
    assert list(plan.steps["cells"].dropna()) == [each["cells"] for each in printed["steps"] if each["cells"]]
    assert plan.steps["share"].sum() == pytest.approx(1)
    assert list(plan.loss["accountant"][plan.loss["certified"]]) == [printed["loss"]["certified"]["accountant"]]
    assert list(plan.loss["epsilon"]) == [float(each["epsilon"]) for each in list(printed["loss"].values())[:-1]]
    assert plan.accounts["after"].to_list() == [float(each["after"]) for each in printed["accounts"]]
    assert plan.account_rows == printed["accounts"]
    assert len(plan.what_if) == 3 * len(printed["outputs"])
    assert set(plan.what_if["epsilon"]) == {0.5, 1.0, 2.0}


def test_a_second_run_is_found_by_the_command_and_by_the_api(folder: Path) -> None:
    before = said(folder, "ledger", "status")
    first, second = dp.run(str(folder / "spec.yaml")), said(folder, "run", "spec.yaml", "--direct")

    assert first.outcome is not None
    assert first.outcome.model_dump(mode="json") == second
    assert second["state"] == "exists"
    assert second["drawn"] == 0
    assert said(folder, "ledger", "status") == before == json.loads(json.dumps(dp.spend(folder).facts))
    assert (first.name, first.period, first.rehearsal) == ("everything", "2024", False)
    assert str(first.folder) == os.fspath(first) == second["folder"]


def test_spend_is_what_the_ledger_says(folder: Path) -> None:
    spend, printed = dp.spend(folder), said(folder, "ledger", "status")["accounts"]

    assert list(spend.accounts["spent"]) == [float(each["spent"]) for each in printed]
    assert list(spend.accounts["left"]) == [float(each["left"]) for each in printed]
    assert list(spend.accounts["fits"]) == [each["fits"] for each in printed]
    assert str(spend.accounts["releases"].dtype) == "Int64"
    assert [len(spend.open), len(spend.windows)] == [0, 0]


def test_the_accounting_is_the_one_that_was_published(folder: Path, release: Release) -> None:
    written = json.loads((release.folder / "accounting.json").read_text(encoding="utf-8"))
    accounting = release.accounting

    assert accounting.facts == written
    assert list(accounting.accounts["after"]) == [float(each["after"]["epsilon"]) for each in written["accounts"]]
    assert accounting.account_rows == release.plan.account_rows
    assert set(accounting.steps["step"]) == {each["id"] for each in written["steps"]}
    assert dict(zip(accounting.loss["accountant"], accounting.loss["epsilon"], strict=True)) == {
        name: float(loss["epsilon"]) for name, loss in written["loss"].items() if name != "certified"
    }
    planned = said(folder, "plan", "spec.yaml")
    assert {name: release.plan.facts[name] for name in ("steps", "outputs", "loss")} == {
        name: planned[name] for name in ("steps", "outputs", "loss")
    }


def test_checks_are_those_that_the_command_prints(folder: Path, release: Release) -> None:
    verified = dp.verify(release)
    printed = said(folder, "verify", str(release.folder))["checks"]

    assert [{"name": each.name, "passed": each.passed, "detail": each.detail} for each in verified.checks] == printed
    assert [None if pd.isna(each) else each for each in verified.to_pandas()["passed"]] == [
        each["passed"] for each in printed
    ]


def test_every_table_is_the_published_file(release: Release) -> None:
    assert {f"{name}.csv" for name in release.tables} == {
        path.name for path in (release.folder / "tables").glob("*.csv")
    }

    for name, table in release.tables.items():
        frame, rows = table.to_pandas(), rows_of(release.folder / "tables" / f"{name}.csv")
        assert list(frame) == list(rows[0])
        assert len(frame) == len(rows)
        assert name == table.name
        assert set(table.keys) | set(table.measures) <= set(frame)
        for column in frame:
            for value, text in zip(
                map(as_written, frame[column].astype(object)), (row[str(column)] for row in rows), strict=True
            ):
                if isinstance(value, str):
                    assert value == text.removeprefix("'")
                else:
                    assert value == (float(text) if text else None)


def test_measurements_are_the_published_files_and_make_the_tables(release: Release) -> None:
    measured = dp.read_measurements(release)
    written = json.loads((release.folder / "measurements" / "recipe.json").read_text(encoding="utf-8"))

    assert measured.recipe == written
    assert list(measured.keys()) == [each["step"] for each in written["steps"]]
    for step in written["steps"]:
        frame, rows = measured[step["step"]], rows_of(release.folder / step["file"])
        assert list(frame) == step["columns"]
        for column in frame:
            texts = [str(as_written(each)) for each in frame[column].astype(object)]
            assert texts == [row[str(column)].removeprefix("'") for row in rows]
    variance = {each["step"]: each["variance"] for each in written["steps"]}
    for at, row in measured.steps.iterrows():
        said = variance[row["step"]]
        assert as_written(row["variance"]) == (None if said is None else float(said)), at
    # The recipe: 100 * x1 + ... of a sum; a count is its draw.
    few = release.tables["few"].to_pandas()
    assert (measured["few.rows"]["value"][few["n_status"] == "ok"] == few["n"].dropna()).all()
    frame = measured["few.rows"]
    frame["value"] = 0  # a copy: nothing that is done to it changes the release
    assert (measured["few.rows"]["value"] != 0).any()


# -- types


def test_columns_have_the_declared_types(release: Release) -> None:
    areas = release.tables["areas"].to_pandas()
    assert areas["area"].cat.ordered
    assert list(areas["area"].cat.categories) == ["010", "007", "12"]  # text, in the order of the spec
    assert list(areas["day"].cat.categories) == [pd.Timestamp(2024, 3, 1), pd.Timestamp(2024, 1, 31)]
    assert list(areas["member"].cat.categories) == [True, False]
    assert str(areas["persons"].dtype) == str(areas["persons_margin"].dtype) == "Int64"
    assert str(areas["persons_se"].dtype) == "float64"
    assert list(areas["persons_status"].cat.categories) == ["ok", "unreliable", "blank"]
    assert (areas["persons"].isna() == (areas["persons_status"] != "ok")).all()

    incomes = release.tables["incomes"].to_pandas()
    assert [str(incomes[name].dtype) for name in ("persons", "total", "average")] == ["Int64", "float64", "float64"]

    assert list(release.tables["marital"].to_pandas().dtypes.map(str)[["marital_status", "marital_status_status"]]) == [
        "Int64",
        "category",
    ]
    assert str(release.tables["jobs"].to_pandas()["job"].dtype) == "string"  # keys that noise chose
    assert set(release.tables["jobs"].to_pandas()["job"]) <= {"=clerk", "007"}
    assert str(release.tables["first"].to_pandas()["rank"].dtype) == "Int64"
    assert list(release.tables["upto"].to_pandas()["age_to"].cat.categories) == list(range(10))
    assert "count_unadjusted" in release.tables["cross__sex"].to_pandas()
    assert release.tables["all"].keys == ()


def test_labels_take_the_place_of_keys_and_stay_apart(release: Release) -> None:
    labelled = release.tables["few"].to_pandas(labels=True)

    assert list(labelled["area"].cat.categories) == ["North (010)", "<i>South</i>", "North (12)"]
    assert list(labelled["sex"].cat.categories) == ["Women", "Men"]
    assert list(labelled["area"].cat.codes) == list(release.tables["few"].to_pandas()["area"].cat.codes)


def test_tables_are_joined_by_their_common_keys(release: Release) -> None:
    few, incomes = (release.tables[name].to_pandas() for name in ("few", "incomes"))
    joined = release.join("few", "incomes", "all")

    assert joined["area"].dtype == few["area"].dtype
    assert len(joined) == len(few)
    assert joined["total"].isna().sum() == few["area"].map(incomes.set_index("area")["total"]).isna().sum()
    assert set(joined["everybody"]) == set(release.tables["all"].to_pandas()["everybody"])
    assert {"areas_persons", "incomes_persons", "incomes_persons_status", "total"} <= set(
        release.join("areas", "incomes")
    )
    with pytest.raises(ValueError, match="the keys of marital are not within those before it: area"):
        release.join("incomes", "marital", "few")
    with pytest.raises(KeyError, match="no table 'income'; the release has areas, incomes"):
        release.join("income")


def test_other_files_give_the_same_table_and_a_release_without_any_says_what_to_do(
    folder: Path, tmp_path: Path
) -> None:
    project = Path(shutil.copytree(folder, tmp_path / "project"))
    command(project, "ledger", "recover", "--why", "moved", "--yes")
    before = {name: each.to_pandas() for name, each in dp.open(project / "releases/everything/2024").tables.items()}
    look = write_project(project, "parquet")
    command(project, "publish", "everything/2024", "--look", str(look))
    after = dp.open(project / "releases" / "everything" / "2024")
    for name, frame in before.items():
        # Of a number that was made whole Parquet cuts the ends of the interval off, where CSV rounds them.
        ends = [column for column in frame if column in ("count_lower", "count_upper")]
        again = after.tables[name].to_pandas()
        pd.testing.assert_frame_equal(frame.drop(columns=ends), again.drop(columns=ends))
        assert all((frame[column] - again[column]).abs().max() <= 1 for column in ends)

    write_project(project, "html")
    command(project, "publish", "everything/2024", "--look", str(look))
    with pytest.raises(PublishError, match="has neither CSV nor Parquet") as refused:
        dp.open(project / "releases" / "everything" / "2024").tables["few"].to_pandas()
    assert refused.value.code == "DPR-W122"


# -- what a notebook shows


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_what_is_shown_is_small_escaped_and_needs_no_network(folder: Path, release: Release) -> None:
    shown = [release, *release.tables.values(), release.plan, release.accounting, dp.spend(folder), dp.verify(release)]
    shown += [dp.plan(folder / "spec.yaml"), dp.read_measurements(release)]

    for each in shown:
        parser, html = _Tags(), each._repr_html_()
        parser.feed(html)
        assert parser.tags <= {"div", "p", "strong", "em", "table", "tr", "th", "td"}
        assert parser.attributes <= {"style"}
        assert html.count("<tr>") < 80
        assert len(repr(each)) < 300
    assert "All &lt;b&gt;kinds&lt;/b&gt; &amp; more" in release._repr_html_()
    assert "&lt;i&gt;South&lt;/i&gt;" in release.tables["few"]._repr_html_()
    assert "(12 of 20 rows)" in release.tables["upto"]._repr_html_()


# -- refusals


def _approved(folder: Path) -> None:
    new_key_files(folder / "alice.key", "alice")
    key = (folder / "alice.key.pub").read_text(encoding="utf-8").split()[0]
    asked = f'approvals:\n  required: {{owner: 1}}\n  approvers:\n    alice: {{role: owner, key: "{key}"}}'
    (folder / "policy.yaml").write_text(POLICY.replace("approvals: {required: 0}", asked), encoding="utf-8")


def _poor(folder: Path) -> None:
    (folder / "policy.yaml").write_text(POLICY.replace("epsilon: 4,", "epsilon: 0.1,"), encoding="utf-8")


def _strict(folder: Path) -> None:
    (folder / "policy.yaml").write_text(POLICY.replace("epsilon: 2,", "epsilon: 0.5,"), encoding="utf-8")


def _misspelt(folder: Path) -> None:
    text = (folder / "spec.yaml").read_text(encoding="utf-8")
    (folder / "spec.yaml").write_text(
        text.replace("count: rows", "count: lines").replace("keys:", "kees:"), encoding="utf-8"
    )


def _nothing(_: Path) -> None:
    pass


def _homeless(folder: Path) -> None:
    (folder / "dprelease.yaml").unlink()


def _lost_data(folder: Path) -> None:
    (folder / "people-1.csv").unlink()


def _lost_policy(folder: Path) -> None:
    (folder / "dprelease.yaml").write_text(SETTINGS.replace("policy.yaml", "gone.yaml"), encoding="utf-8")


Refusal = tuple[Callable[[Path], None], str, Callable[[], object]]
REFUSALS: Mapping[str, Refusal] = {
    "no spec": (_nothing, "plan gone.yaml", lambda: dp.plan("gone.yaml")),
    "no spec to run": (_nothing, "run gone.yaml --direct", lambda: dp.run("gone.yaml")),
    "no project": (_homeless, "plan spec.yaml", lambda: dp.plan("spec.yaml")),
    "no project to spend": (_homeless, "ledger status", dp.spend),
    "no policy": (_lost_policy, "plan spec.yaml", lambda: dp.plan("spec.yaml")),
    "every problem": (_misspelt, "plan spec.yaml", lambda: dp.plan("spec.yaml")),
    "an account that cannot pay": (_poor, "plan spec.yaml", lambda: dp.plan("spec.yaml")),
    "an account that cannot pay a run": (_poor, "run spec.yaml --direct", lambda: dp.run("spec.yaml")),
    "above the ceiling": (_strict, "run spec.yaml --direct", lambda: dp.run("spec.yaml")),
    "not approved": (_approved, "run spec.yaml --direct", lambda: dp.run("spec.yaml")),
    "no data": (_lost_data, "run spec.yaml --direct", lambda: dp.run("spec.yaml")),
    "nothing to restate": (
        _nothing,
        "run spec.yaml --direct --restate why",
        lambda: dp.run("spec.yaml", restate="why"),
    ),
    "no revision": (_nothing, "run spec.yaml --direct --revision 1", lambda: dp.run("spec.yaml", revision=1)),
    "a wrong period": (_nothing, "run spec.yaml --direct --period ..", lambda: dp.run("spec.yaml", period="..")),
    "solved and frozen": (
        _nothing,
        "plan spec.yaml --solve --out plan.json",
        lambda: dp.plan("spec.yaml", solve=True, out="plan.json"),
    ),
    "nothing to solve for": (_nothing, "plan spec.yaml --solve", lambda: dp.plan("spec.yaml", solve=True)),
    "no bundle": (_nothing, "verify .", lambda: dp.verify(".")),
    "no key": (_nothing, "verify . --key gone.pub", lambda: dp.verify(".", key="gone.pub")),
    "a full folder": (_nothing, "init .", lambda: dp.init(".")),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_is_the_command_s_and_leaves_the_project_as_it_was(name: str, tmp_path: Path) -> None:
    spoil, words, call = REFUSALS[name]
    small_project(tmp_path, SMALL, rows=60)
    spoil(tmp_path)
    ended = forked(tmp_path, *words.split())
    with contextlib.chdir(tmp_path), pytest.raises(DpReleaseError) as refused:
        call()

    assert refused.value.exit_code == ended.code
    assert refused.value.code in ended.err
    for line in str(refused.value).splitlines():
        # A folder is named as it was typed; what `verify` prints on standard output stands in the error here.
        assert line.strip() in ended.err or line.strip().partition(": ")[2] in ended.out
    assert not (tmp_path / "releases").exists()


def test_options_that_exclude_each_other_are_refused(tmp_path: Path) -> None:
    spec = small_project(tmp_path, SMALL, rows=60)

    for options in (
        {"revision": 1, "restate": "x"},
        {"revision": 1, "synthetic": True},
        {"as_planned": True, "restate": "x"},
    ):
        with pytest.raises(ValueError, match="not taken together"):
            dp.run(spec, **options)
    for wrong in ({"sampler": "dice"}, {"revision": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            dp.run(spec, **wrong)
    with pytest.raises(ValueError, match="above 0"):
        dp.plan(spec, what_if=[0])
    assert not (tmp_path / "state").exists()


def test_an_approved_plan_is_run_and_no_other(tmp_path: Path) -> None:
    spec = small_project(tmp_path, SMALL, rows=60)
    _approved(tmp_path)
    dp.plan(spec, out=tmp_path / "plan.json")
    with pytest.raises(DpReleaseError, match="approv"):
        dp.run(tmp_path / "plan.json")
    command(tmp_path, "approve", "plan.json", "--key", "alice.key", "--yes")

    release = dp.run(tmp_path / "plan.json")

    assert [each["name"] for each in release.accounting.facts["approvals"]] == ["alice"]


@pytest.mark.parametrize("name", ["tables/few.csv", "accounting.json", "plan.json", "measurements/few.rows.csv"])
def test_a_changed_or_missing_file_is_refused_before_anything_is_read(copied: Path, name: str) -> None:
    data = (copied / name).read_bytes()
    (copied / name).write_bytes(data.replace(b"1", b"2", 1))
    for opens in (dp.open, dp.read_measurements):
        with pytest.raises(CheckFailed, match="files") as refused:
            opens(copied)
        assert f"files: missing or changed: {name}" in str(refused.value)
    (copied / name).unlink()
    with pytest.raises(CheckFailed, match="files"):
        dp.open(copied)


def test_what_was_changed_with_its_hash_is_found_by_verify_and_gives_no_table(copied: Path) -> None:
    import hashlib

    path, manifest = copied / "tables" / "few.csv", json.loads((copied / "manifest.json").read_bytes())
    data = path.read_bytes().replace(b'"12"', b'"99"')
    path.write_bytes(data)
    manifest["files"]["tables/few.csv"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (copied / "manifest.json").write_text(
        json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8"
    )

    with pytest.raises(CheckFailed, match="is not the one that its plan and its manifest describe"):
        dp.open(copied).tables["few"].to_pandas()
    with pytest.raises(CheckFailed, match="tables") as refused:
        dp.verify(copied)
    assert "tables/few.csv" in str(refused.value)


def test_a_bundle_by_name_of_another_s_key_or_of_nothing(folder: Path, copied: Path, tmp_path: Path) -> None:
    new_key_files(tmp_path / "mine.key", "mine")
    with contextlib.chdir(folder):
        assert dp.open("everything/2024").folder.samefile(dp.open(Path("releases/everything/2024")).folder)
        with pytest.raises(PublishError, match="everything/2025 is no whole bundle") as refused:
            dp.open("everything/2025")
    assert refused.value.code == "DPR-W120"
    with pytest.raises(CheckFailed, match="signer"):
        dp.open(copied, key=str(tmp_path / "mine.key.pub"))
    (copied / "manifest.json").unlink()
    with pytest.raises(PublishError, match=r"there is no manifest\.json"):
        dp.read_measurements(copied)


def test_a_signed_bundle_is_opened_with_its_key(tmp_path: Path) -> None:
    spec = small_project(tmp_path / "project", SMALL, rows=60)
    new_key_files(tmp_path / "office.key", "office")
    (tmp_path / "project" / "dprelease.yaml").write_text(f"{SETTINGS}signing_key: ../office.key\n", encoding="utf-8")
    release = dp.run(spec)

    key = str(tmp_path / "office.key.pub")
    assert dp.open(release, key=key).name == "survey"
    assert "signer" not in [each.name for each in dp.verify(release, key=key).checks if each.passed is None]
    signature = release.folder / "manifest.sig"
    signature.write_bytes(signature.read_bytes()[:-9] + b"AAAAAAAA\n")
    with pytest.raises(CheckFailed, match="signature"):
        dp.open(release)


# -- privacy


def test_a_rehearsal_says_so_and_spends_nothing(tmp_path: Path) -> None:
    rehearsed = dp.run(small_project(tmp_path, SMALL, rows=60), synthetic=True)

    assert rehearsed.rehearsal
    assert NOTICE in rehearsed._repr_html_()
    assert NOTICE in rehearsed.tables["population"]._repr_html_()
    assert set(rehearsed.tables["population"].to_pandas()["rehearsal"]) == {NOTICE}
    assert "rehearsal" not in rehearsed.join("population")
    assert dp.spend(tmp_path).accounts["spent"].sum() == 0


@pytest.mark.parametrize(
    ("fault", "kind"), [(KeyError, KeyError), (MemoryError, EngineError), (lambda: BudgetExceeded("x"), BudgetExceeded)]
)
def test_an_error_of_a_run_keeps_no_frame_that_saw_a_row(
    fault: Callable[[], Exception], kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook keeps the last error, and its debugger looks into its frames."""

    class Exactly:
        """What stands for the rows that a frame had."""

    def read(*_: object) -> None:
        secret = Exactly()
        try:
            raise ValueError(secret)
        except ValueError:
            raise fault() from None

    spec = small_project(tmp_path, SMALL, rows=60)
    monkeypatch.setattr("dprelease.release.run.draw", read)
    with pytest.raises(kind) as failed:
        dp.run(spec)

    frames, at = [], failed.tb
    while at is not None:
        frames.append(at.tb_frame.f_code.co_name)
        at = at.tb_next  # type: ignore[assignment]
    assert frames == ["test_an_error_of_a_run_keeps_no_frame_that_saw_a_row", "run"]
    assert failed.value.__context__ is failed.value.__cause__ is None
    monkeypatch.undo()
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is Exactly]
    assert str(dp.run(spec).outcome).count("state='published'") == 1  # it goes on, and nothing is charged again


def test_a_project_is_begun_and_planned_by_path_or_text(tmp_path: Path) -> None:
    files = dp.init(str(tmp_path / "new project"))

    assert (tmp_path / "new project" / "quickstart.yaml") in files
    assert (
        dp.plan(files[0].parent / "quickstart.yaml").fingerprint
        == dp.plan(str(files[0].parent / "quickstart.yaml")).fingerprint
    )


def test_what_the_command_warns_of_is_warned_of(tmp_path: Path) -> None:
    spec = small_project(tmp_path, SPEC.replace("average: {mean: income, clip: [0, 100000]}", "most: {max: income}"))
    printed = forked(tmp_path, "plan", "spec.yaml").err

    with pytest.warns(UserWarning, match="DPR-S701") as warned:
        dp.plan(spec)
    assert warned[0].filename == __file__
    assert [str(each.message).split("DPR")[1] for each in warned] == [printed.rstrip().split("DPR")[1]]
