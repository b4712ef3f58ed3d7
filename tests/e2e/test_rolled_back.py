"""A ledger that was put back as it was, with everything beside it: what was published still knows what is lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.project import command, small_project

BUNDLE = Path("releases", "survey", "2024")


def saved(folder: Path, *names: str) -> None:
    """As a snapshot of a disk, or a backup of the whole folder, has them."""
    for name in names:
        if (folder / name).exists():
            shutil.copytree(folder / name, folder / "saved" / name)


def put_back(folder: Path, *names: str) -> None:
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
        if (folder / "saved" / name).exists():
            shutil.copytree(folder / "saved" / name, folder / name)


def table(bundle: Path) -> bytes:
    return (bundle / "tables" / "population.csv").read_bytes()


def account(folder: Path) -> Any:
    return json.loads(command(folder, "ledger", "status", "--json"))["accounts"][0]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose ledger has been used before."""
    small_project(tmp_path)
    command(tmp_path, "ledger", "open", "people", "--why", "the year begins")
    return tmp_path


def test_ledger_and_anchor_put_back_together_give_no_second_answer(project: Path) -> None:
    saved(project, "state", "state-anchor")
    command(project, "run", "spec.yaml", "--direct")
    first, spent = table(project / BUNDLE), account(project)["spent"]
    put_back(project, "state", "state-anchor")

    said = command(project, "run", "spec.yaml", "--direct", code=4)

    assert "DPR-L320" in said
    assert table(project / BUNDLE) == first
    said = command(project, "ledger", "check", code=7)
    assert f"{BUNDLE} was published and charged by entry 3 which this ledger lacks" in said
    assert "2024.erratum-ENTRY.md" in said

    said = command(project, "ledger", "recover", "--why", "the disk was put back", "--yes")

    assert "survey 2024 is lost, and published in" in said
    assert "sound" in command(project, "ledger", "check")
    assert account(project)["spent"] == spent
    assert "DPR-L113" in command(project, "run", "spec.yaml", "--direct", code=4)
    assert table(project / BUNDLE) == first
    assert "FAIL" not in command(project, "verify", str(BUNDLE))
    (erratum,) = (project / BUNDLE).parent.glob("2024.erratum-*.json")
    told = json.loads(erratum.read_bytes())
    assert (told["lost"]["entry"], told["accounts"]) == (3, ["people"])
    assert "nothing is wrong" in command(project, "ledger", "recover", "--why", "again", "--yes")


@pytest.mark.slow
def test_a_lost_release_is_replaced_as_any_other_and_its_bundle_is_kept(project: Path) -> None:
    saved(project, "state", "state-anchor")
    command(project, "run", "spec.yaml", "--direct")
    first = table(project / BUNDLE)
    put_back(project, "state", "state-anchor")
    command(project, "ledger", "recover", "--why", "the disk was put back", "--yes")
    spec = project / "spec.yaml"
    spec.write_text(spec.read_text().replace("epsilon: 1, delta", "epsilon: 1/2, delta"))

    command(project, "run", "spec.yaml", "--direct", "--restate", "half as much will do")

    (aside,) = (project / BUNDLE).parent.glob("2024.superseded-*")
    assert table(aside) == first
    assert table(project / BUNDLE) != first
    assert "sound" in command(project, "ledger", "check")


@pytest.mark.slow
def test_a_bundle_is_never_replaced_by_one_of_another_entry_whoever_publishes_it(project: Path) -> None:
    """Two hosts share no ledger any more, and still one folder: the second one's answer is not handed out."""
    saved(project, "state", "state-anchor")
    command(project, "run", "spec.yaml", "--direct")
    first = table(project / BUNDLE)
    put_back(project, "state", "state-anchor")
    (project / "releases").rename(project / "elsewhere")
    command(project, "run", "spec.yaml", "--direct")
    shutil.rmtree(project / "releases")
    (project / "elsewhere").rename(project / "releases")

    said = command(project, "publish", "survey/2024", code=4)

    assert "DPR-L320" in said
    assert table(project / BUNDLE) == first
    spent = float(account(project)["spent"])
    said = command(project, "ledger", "recover", "--why", "two answers are known", "--yes")
    assert "is a second answer to a plan that this ledger has" in said
    assert float(account(project)["spent"]) > 1.3 * spent  # two of the same, under zcdp
    assert "sound" in command(project, "ledger", "check")
    assert "DPR-L328" in command(project, "publish", "survey/2024", code=4)
    assert table(project / BUNDLE) == first


def test_a_ledger_that_was_begun_anew_or_lost_is_charged_what_the_bundles_prove(project: Path) -> None:
    command(project, "run", "spec.yaml", "--direct")
    spent = account(project)["spent"]
    for name in ("state", "state-anchor"):
        shutil.rmtree(project / name)
    assert "DPR-L307" in command(project, "run", "spec.yaml", "--direct", code=4)
    saved(project, "releases")

    command(project, "ledger", "recover", "--why", "all is gone but the bundles", "--yes")

    assert account(project)["spent"] == spent
    assert "sound" in command(project, "ledger", "check")
    assert "DPR-L113" in command(project, "run", "spec.yaml", "--direct", code=4)
    for name in ("state", "state-anchor"):
        shutil.rmtree(project / name)
    command(project, "ledger", "open", "people", "--why", "begun anew")
    said = command(project, "run", "spec.yaml", "--direct", code=4)
    assert "DPR-L321" in said
    assert "was charged in another ledger" in said
    shutil.rmtree(project / "releases")  # it was another project's
    assert "published survey/2024" in command(project, "run", "spec.yaml", "--direct")


@pytest.mark.slow
def test_a_rehearsal_and_what_was_given_back_are_told_apart(project: Path) -> None:
    command(project, "run", "spec.yaml", "--direct", "--synthetic")
    shutil.copytree(project / "releases-synthetic", project / "releases")
    assert "sound" in command(project, "ledger", "check")
    shutil.rmtree(project / "releases")
    command(project, "run", "spec.yaml", "--direct")
    assert "nothing drawn" in command(project, "run", "spec.yaml", "--direct")


@pytest.mark.slow
def test_a_bundle_whose_plan_cannot_be_believed_charges_nothing_by_guess(project: Path) -> None:
    saved(project, "state", "state-anchor")
    command(project, "run", "spec.yaml", "--direct")
    put_back(project, "state", "state-anchor")
    plan = project / BUNDLE / "plan.json"
    whole = plan.read_bytes()
    plan.write_bytes(whole.replace(b'"survey"', b'"surrey"'))
    assert "DPR-L322" in command(project, "ledger", "recover", "--why", "put back", "--yes", code=4)
    plan.write_bytes(whole)
    manifest = project / BUNDLE / "manifest.json"
    told = manifest.read_bytes()
    manifest.write_bytes(told[:100])
    assert "DPR-L323" in command(project, "run", "spec.yaml", "--direct", code=4)
    assert "cannot be read" in command(project, "ledger", "check", code=7)
    manifest.write_bytes(told)
    command(project, "ledger", "recover", "--why", "put back", "--yes")
    assert "sound" in command(project, "ledger", "check")


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("anchors", ["[]", "[elsewhere/head.json]"])
def test_an_edited_list_of_anchors_lets_no_ledger_be_rolled_back(project: Path, anchors: str) -> None:
    settings = project / "dprelease.yaml"
    saved(project, "state")
    command(project, "run", "spec.yaml", "--direct")
    spent = account(project)["spent"]
    put_back(project, "state")
    (project / "releases").rename(project / "moved")
    assert "DPR-L310" in command(project, "run", "spec.yaml", "--direct", code=4)
    settings.write_text(f"{settings.read_text()}anchors: {anchors}\n")

    assert "DPR-L310" in command(project, "run", "spec.yaml", "--direct", code=4)
    assert "rolled back" in command(project, "ledger", "check", code=7)

    (project / "state-anchor").rename(project / "anchors")
    assert "DPR-L312" in command(project, "run", "spec.yaml", "--direct", code=4)
    (project / "anchors").rename(project / "state-anchor")
    command(project, "ledger", "recover", "--why", "the list was changed", "--yes")
    assert account(project)["spent"] == spent
    assert "DPR-L113" in command(project, "run", "spec.yaml", "--direct", code=4)
    assert "sound" in command(project, "ledger", "check")
