"""The Python API says, writes, charges and refuses what the command does."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import subprocess
import sys
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
from dprelease.api.plans import Plan, Spend
from dprelease.api.releases import Accounting, Release, ReleaseTable, Verification
from dprelease.errors import PublishError
from tests.project import SPEC, command, environment, forked, small_project

from .api_project import write_project

SMALL = SPEC[: SPEC.index("  income:\n    table:")]  # one query: quick to plan


@pytest.fixture(scope="module")
def release(everything: Path) -> Release:
    return dp.open(everything / "releases" / "everything" / "2024")


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


@pytest.mark.slow
def test_plan_is_a_package_and_a_function_whichever_is_used_first() -> None:
    code = "import dprelease as dp; dp.plan; from dprelease.plan import allocate; import dprelease.plan.verify.whole_plan as v;"
    code += "assert dp.plan is __import__('sys').modules['dprelease.plan'] and callable(dp.plan) and v.verify"
    other = "import dprelease.plan.verify.whole_plan; import dprelease as dp; assert callable(dp.plan) and dp.plan.verify.whole_plan.verify"

    for each in (code, other):
        subprocess.run([sys.executable, "-c", each], check=True)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("words", ["--help", "plan spec.yaml", "ledger status", "--version"])
def test_a_command_imports_neither_the_api_nor_pandas(everything: Path, words: str) -> None:
    code = f"""import sys
sys.argv = ["dprelease", *{words.split()!r}]
from dprelease.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code
print("LOADED", sorted({{"pandas", "matplotlib", "dprelease.api"}} & set(sys.modules)))"""
    done = subprocess.run([sys.executable, "-c", code], cwd=everything, capture_output=True, text=True, check=True)

    assert done.stdout.rstrip().endswith("LOADED []")


@pytest.mark.slow
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
    Plan: {"accounts", "facts", "fingerprint", "loss", "outputs", "steps", "what_if"},
    Release: {"accounting", "folder", "join", "name", "outcome", "period", "plan", "rehearsal", "tables"},
    ReleaseTable: {"keys", "measures", "name", "title", "to_pandas"},
    Accounting: {"accounts", "facts", "loss", "steps"},
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


@pytest.mark.filterwarnings("ignore:.*DPR-W125")  # two keys of one label, on purpose
def test_a_plan_is_what_the_command_prints_and_freezes(everything: Path, tmp_path: Path) -> None:
    with contextlib.chdir(everything):
        plan = dp.plan("spec.yaml", out=tmp_path / "plan.json", what_if=[0.5, "1", 2])
    printed = said(
        everything, "plan", "spec.yaml", "--out", str(tmp_path / "other.json"), "--what-if", "epsilon=0.5,1,2"
    )

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
    assert plan._account_rows == printed["accounts"]
    assert len(plan.what_if) == 3 * len(printed["outputs"])
    assert set(plan.what_if["epsilon"]) == {0.5, 1.0, 2.0}


def test_a_second_run_is_found_by_the_command_and_by_the_api(everything: Path) -> None:
    before = said(everything, "ledger", "status")
    first, second = dp.run(str(everything / "spec.yaml")), said(everything, "run", "spec.yaml", "--direct")

    assert first.outcome is not None
    assert first.outcome.model_dump(mode="json") == second
    assert second["state"] == "exists"
    assert second["drawn"] == 0
    assert said(everything, "ledger", "status") == before == json.loads(json.dumps(dp.spend(everything).facts))
    assert (first.name, first.period, first.rehearsal) == ("everything", "2024", False)
    assert str(first.folder) == os.fspath(first) == second["folder"]


def test_spend_is_what_the_ledger_says(everything: Path) -> None:
    spend, printed = dp.spend(everything), said(everything, "ledger", "status")["accounts"]

    assert list(spend.accounts["spent"]) == [float(each["spent"]) for each in printed]
    assert list(spend.accounts["left"]) == [float(each["left"]) for each in printed]
    assert list(spend.accounts["fits"]) == [each["fits"] for each in printed]
    assert str(spend.accounts["releases"].dtype) == "Int64"
    assert [len(spend.open), len(spend.windows)] == [0, 0]


def test_the_accounting_is_the_one_that_was_published(everything: Path, release: Release) -> None:
    written = json.loads((release.folder / "accounting.json").read_text(encoding="utf-8"))
    accounting = release.accounting

    assert accounting.facts == written
    assert list(accounting.accounts["after"]) == [float(each["after"]["epsilon"]) for each in written["accounts"]]
    assert accounting._account_rows == release.plan._account_rows
    assert set(accounting.steps["step"]) == {each["id"] for each in written["steps"]}
    assert dict(zip(accounting.loss["accountant"], accounting.loss["epsilon"], strict=True)) == {
        name: float(loss["epsilon"]) for name, loss in written["loss"].items() if name != "certified"
    }
    planned = said(everything, "plan", "spec.yaml")
    assert {name: release.plan.facts[name] for name in ("steps", "outputs", "loss")} == {
        name: planned[name] for name in ("steps", "outputs", "loss")
    }


def test_checks_are_those_that_the_command_prints(everything: Path, release: Release) -> None:
    verified = dp.verify(release)
    printed = said(everything, "verify", str(release.folder))["checks"]

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
    assert (measured["few.rows"]["value"][few["n_status"] == "ok"] == few["n"][few["n_status"] == "ok"]).all()
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
    assert list(areas["persons_status"].cat.categories) == [
        "ok",
        "caution",
        "unreliable",
        "not_distinguishable",
        "blank",
    ]
    at_most = (areas["persons_lower"] == 0).fillna(False)  # of such a count "at most" is known, and not withheld
    assert (areas["persons"].notna() == ((areas["persons_status"] == "ok") | at_most)).all()

    incomes = release.tables["incomes"].to_pandas()
    assert [str(incomes[name].dtype) for name in ("persons", "total", "average")] == ["Int64", "float64", "float64"]

    assert list(release.tables["marital"].to_pandas().dtypes.map(str)[["marital_status", "marital_status_status"]]) == [
        "Int64",
        "category",
    ]
    assert str(release.tables["jobs"].to_pandas()["job"].dtype) == "string"  # keys that noise chose
    assert set(release.tables["jobs"].to_pandas()["job"]) <= {"=clerk", "007"}
    assert str(release.tables["first"].to_pandas()["rank"].dtype) == "Int64"
    assert list(release.tables["upto"].to_pandas()["age_to"].cat.categories) == list(range(12))
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


@pytest.mark.slow
def test_other_files_give_the_same_table_and_a_release_without_any_says_what_to_do(
    everything: Path, tmp_path: Path
) -> None:
    project = Path(shutil.copytree(everything, tmp_path / "project"))
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


@pytest.mark.filterwarnings("ignore:.*DPR-W125")  # two keys of one label, on purpose
def test_what_is_shown_is_small_escaped_and_needs_no_network(everything: Path, release: Release) -> None:
    shown = [
        release,
        *release.tables.values(),
        release.plan,
        release.accounting,
        dp.spend(everything),
        dp.verify(release),
    ]
    shown += [dp.plan(everything / "spec.yaml"), dp.read_measurements(release)]

    for each in shown:
        parser, html = _Tags(), each._repr_html_()
        parser.feed(html)
        assert parser.tags <= {"div", "p", "strong", "em", "table", "tr", "th", "td"}
        assert parser.attributes <= {"style"}
        assert html.count("<tr>") < 90
        assert len(repr(each)) < 300
    assert "All &lt;b&gt;kinds&lt;/b&gt; &amp; more" in release._repr_html_()
    assert "&lt;i&gt;South&lt;/i&gt;" in release.tables["few"]._repr_html_()
    assert "(20 of 24 rows)" in release.tables["upto"]._repr_html_()
