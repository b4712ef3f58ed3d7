"""The Python API refuses what the command refuses, opens nothing that was changed, and keeps nothing of a row."""

from __future__ import annotations

import contextlib
import gc
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import dprelease as dp
from dprelease.errors import BudgetExceeded, CheckFailed, DpReleaseError, EngineError, PublishError
from dprelease.publish import NOTICE
from dprelease.signature import new_key_files
from tests.project import POLICY, SETTINGS, SPEC, command, forked, small_project

SMALL = SPEC[: SPEC.index("  income:\n    table:")]  # one query: quick to plan


@pytest.fixture
def copied(everything: Path, tmp_path: Path) -> Path:
    """A copy of the bundle, to be changed."""
    return Path(shutil.copytree(everything / "releases" / "everything" / "2024", tmp_path / "copy"))


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


# The others go the same way through the same functions.
QUICK = {"no spec to run", "an account that cannot pay", "not approved", "no bundle"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in REFUSALS]
)
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


@pytest.mark.slow
def test_what_was_changed_with_its_hash_is_found_by_verify_and_gives_no_table(copied: Path) -> None:
    import hashlib

    (copied / "accounting.json").write_text("[]", encoding="utf-8")
    path, manifest = copied / "tables" / "few.csv", json.loads((copied / "manifest.json").read_bytes())
    data = path.read_bytes().replace(b'"12"', b'"99"')
    path.write_bytes(data)
    for name, written in {"tables/few.csv": data, "accounting.json": b"[]"}.items():
        manifest["files"][name] = {"bytes": len(written), "sha256": hashlib.sha256(written).hexdigest()}
    (copied / "manifest.json").write_text(
        json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8"
    )

    with pytest.raises(CheckFailed, match="table 'few' of the bundle cannot be read"):
        dp.open(copied).tables["few"].to_pandas()
    with pytest.raises(CheckFailed, match=r"accounting\.json of the bundle cannot be read"):
        print(dp.open(copied).accounting)
    with pytest.raises(CheckFailed, match="tables") as refused:
        dp.verify(copied)
    assert "tables/few.csv" in str(refused.value)


def test_a_bundle_by_name_of_another_s_key_or_of_nothing(everything: Path, copied: Path, tmp_path: Path) -> None:
    new_key_files(tmp_path / "mine.key", "mine")
    with contextlib.chdir(everything):
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


@pytest.mark.thin(first=1)
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
    monkeypatch.setattr("dprelease.release.run.draw_batch", read)
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


@pytest.mark.slow
def test_what_the_command_warns_of_is_warned_of(tmp_path: Path) -> None:
    spec = small_project(tmp_path, SPEC.replace("average: {mean: income, clip: [0, 100000]}", "most: {max: income}"))
    printed = forked(tmp_path, "plan", "spec.yaml").err

    with pytest.warns(UserWarning, match="DPR-S701") as warned:
        dp.plan(spec)
    assert warned[0].filename == __file__
    assert [str(each.message).split("DPR")[1] for each in warned] == [printed.rstrip().split("DPR")[1]]
