"""A period that is released again with the rows that came late, as a user does it: paid once, each drawn once."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from dprelease.release.run import Request, open_run
from tests.project import SPEC, command, small_project

# One query, so that a release is quick.
LATE = SPEC[: SPEC.index("  income:\n    table")].replace("period: 2024,", "period: 2024-01,") + (
    'schedule: {cron: "0 6 5 * *", timezone: Europe/Paris, period: month, not_before: 4d, revisions: [1m, 12m]}\n'
)
ROWS = 3000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    small_project(tmp_path, LATE, rows=ROWS)
    return tmp_path


def late_rows(folder: Path, count: int) -> None:
    """So many persons of one cell more, in a file of their own, which is like no other."""
    number = len(list(folder.glob("people-*.csv"))) + 1
    (folder / f"people-{number}.csv").write_text("district,sex,income\n" + f"07-01,2,{number}\n" * count)


def counted(bundle: Path) -> float:
    (row,) = [
        row
        for row in csv.DictReader((bundle / "tables" / "population.csv").read_text().splitlines())
        if (row["district"], row["sex"]) == ("07-01", "2")
    ]
    return float(row["persons"])


def as_json(folder: Path, *words: str, code: int = 0) -> Any:
    return json.JSONDecoder().raw_decode(command(folder, *words, "--json", code=code))[0]  # an error comes behind it


def run(folder: Path, *words: str, code: int = 0) -> str:
    return command(folder, "run", "spec.yaml", "--direct", *words, code=code)


def spent(folder: Path) -> str:
    (account,) = as_json(folder, "ledger", "status")["accounts"]
    return str(account["spent"])


def test_a_period_is_published_three_times_and_paid_once(project: Path) -> None:
    shown = command(project, "plan", "spec.yaml")
    assert "published 3 times: 2 planned revision(s), 1m, 12m after the period's end" in shown
    bundle = project / "releases" / "survey" / "2024-01"
    said = run(project)
    assert "2 revision(s) of this period; the accounts were charged for them as well" in said
    paid, before = spent(project), counted(bundle)

    for number, more in ((1, 1000), (2, 4000)):
        late_rows(project, more)
        said = run(project, "--revision", str(number))
        assert f"published survey/2024-01 revision {number}: 1 steps drawn, 0 reused" in said
        assert f"planned revision {number} of 2, paid with the first one" in said
        assert counted(bundle) - before == pytest.approx(more, abs=200)
        before = counted(bundle)
        assert "exists: nothing drawn, nothing spent" in run(project, "--revision", str(number))
        assert counted(bundle) == before
    assert "DPR-L165" in run(project, "--revision", "3", code=4)
    assert "DPR-L163" in run(project, "--revision", "1", code=4)

    assert spent(project) == paid
    assert "sound" in command(project, "ledger", "check")
    bundles = sorted(each for each in bundle.parent.iterdir() if each.is_dir())
    assert [each.name.partition(".superseded")[1] for each in bundles] == ["", ".superseded", ".superseded"]
    for each in bundles[:2]:
        command(project, "verify", str(each))
    files = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    command(project, "publish", "survey/2024-01")
    assert files == {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    moved = as_json(project, "diff", str(bundles[1]), str(bundle), code=7)
    assert [each["what"] for each in moved["differences"]] == ["revision"]
    look_at_pages(project, bundle)


def look_at_pages(project: Path, bundle: Path) -> None:
    """What they tell a reader of the three publications."""
    page, accounting = ((bundle / name).read_text() for name in ("index.html", "accounting.html"))
    assert "planned revision 2 of 2, with the rows that came late; each has this loss" in page
    assert "This period has 3, the first one and its planned" in page
    assert "it was paid with the first publication, by ledger entry 3, and charged nothing itself" in accounting
    assert "and was paid with the first publication: planned revision 2 of 2" in accounting
    assert "charged again" not in accounting
    facts, first = (
        json.loads((each / "accounting.json").read_text())
        for each in (bundle, next(each for each in bundle.parent.iterdir() if "superseded" in each.name))
    )
    assert (facts["revision"], facts["revisions"], facts["paid_by"], first["revisions"]) == (2, 2, 3, 2)
    assert facts["accounts"] == first["accounts"]  # as they were charged, once
    assert facts["accounts"][0]["this_release"] == facts["accounts"][0]["after"]
    everything = (project / "releases" / "index.html").read_text()
    assert everything.count("superseded by ledger entry") == 2


@pytest.mark.slow
def test_a_revision_takes_the_plan_that_was_published_whatever_the_spec_says_now(project: Path) -> None:
    run(project)
    (project / "spec.yaml").write_text(LATE.replace("epsilon: 1,", "epsilon: 1/2,").replace("[1m, 12m]", "[6m]"))
    assert "DPR-L110" in run(project, code=4)
    late_rows(project, 1000)
    command(project, "run", "spec.yaml", "--direct", "--revision", "2")  # its time is in the spec no more

    plans = [json.loads(each.read_text()) for each in sorted((project / "releases" / "survey").glob("*/plan.json"))]
    assert [each["release"].pop("revision", 0) for each in plans] == [2, 0]
    assert plans[0] == plans[1]


@pytest.mark.slow
def test_a_revision_that_was_cut_off_is_gone_on_with_and_reads_one_state_of_the_data(project: Path) -> None:
    run(project)
    late_rows(project, 1000)
    with open_run(Request(target=str(project / "spec.yaml"), revision=1), "test") as begun:
        assert (begun.closed, begun.reservation.revision) == (False, 1)
    assert "2024-01 revision 1" in command(project, "ledger", "status")
    late_rows(project, 1000)
    assert "DPR-L150" in run(project, "--revision", "1", code=4)  # what came since is of the next revision
    (project / "people-3.csv").unlink()
    assert "published survey/2024-01 revision 1" in run(project)  # the same command as ever goes on with it
    assert "sound" in command(project, "ledger", "check")


@pytest.mark.slow
def test_a_revision_is_not_released_before_its_time_but_for_a_reason(project: Path) -> None:
    (project / "spec.yaml").write_text(LATE.replace("[1m, 12m]", "[1m, 90y]"))
    run(project)
    said = run(project, "--revision", "2", code=3)
    assert "DPR-P313" in said
    assert "2114-02-01" in said
    run(project, "--revision", "2", "--early", "the archive closes")
    assert "the archive closes" in json.dumps(as_json(project, "ledger", "log"))


@pytest.mark.slow
def test_what_cannot_be_revised_says_why(project: Path) -> None:
    assert "DPR-L160" in run(project, "--revision", "1", code=4)
    assert "--restate" in run(project, "--revision", "1", "--restate", "why", code=2)
    assert "--synthetic" in run(project, "--revision", "1", "--synthetic", code=2)
    command(project, "plan", "spec.yaml", "--out", "plan.json")
    command(project, "run", "plan.json", "--direct")
    command(project, "run", "plan.json", "--direct", "--revision", "1")
    assert "exists" in command(project, "run", "plan.json", "--direct")
    (project / "spec.yaml").write_text(LATE.replace("epsilon: 1,", "epsilon: 1/2,"))
    command(project, "plan", "spec.yaml", "--out", "plan.json", "--replace")
    assert "DPR-P315" in command(project, "run", "plan.json", "--direct", "--revision", "2", code=3)
    run(project, "--restate", "half the loss")  # a publication with revisions of its own
    assert "planned revision 1 of 2" in run(project, "--revision", "1")
    assert "sound" in command(project, "ledger", "check")


@pytest.mark.slow
def test_a_horizon_of_revised_releases_is_that_of_twice_as_many_with_one_revision(project: Path) -> None:
    def total(releases: int, revisions: str) -> str:
        (project / "spec.yaml").write_text(
            LATE.replace("epsilon: 1,", "epsilon: 1/10,").replace("revisions: [1m, 12m]", revisions)
        )
        seen = as_json(project, "plan", "spec.yaml", "--horizon", str(releases))["horizon"]
        (cap,) = [cap for account in seen["accounts"] for cap in account["caps"] if not cap["window"]]
        return str(cap["after"][-1]["total"])

    assert total(12, "revisions: [1m]") == total(24, "revisions: []") != total(12, "revisions: []")
