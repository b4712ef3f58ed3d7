"""What `dprelease doctor` says of an installation and a project that are well, and of broken ones; and the metrics."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from dprelease.flows import prefect_server
from dprelease.release.health import installation as installed_module
from dprelease.release.health.condition import Condition
from dprelease.release.health.installation import installation
from dprelease.release.health.machine import machine
from dprelease.release.project import Project
from tests.project import POLICY, SPEC, command, forked, small_project

NOW = datetime.now(UTC)


def wrong(found: list[Condition]) -> dict[str, str]:
    return {each.about: each.says for each in found if each.state == "wrong"}


def released(folder: Path) -> Project:
    small_project(folder, rows=30)
    command(folder, "run", "spec.yaml", "--direct")
    return Project.find(folder)


def told(project: Project, now: datetime | None = None) -> list[Condition]:
    return [*machine(project, os.environ, now or datetime.now(UTC))]


def test_a_project_that_is_well_has_nothing_wrong_before_and_after_a_release(tmp_path: Path) -> None:
    small_project(tmp_path, rows=30)
    assert not wrong(told(Project.find(tmp_path)))
    assert not (tmp_path / "state").exists(), "looking makes nothing"
    released(tmp_path)
    after = told(Project.find(tmp_path))
    assert not wrong(after)
    assert {each.about for each in after if each.state == "good"} >= {"ledger", "releases", "source key", "disk"}
    assert not [*tmp_path.rglob(".dprelease-doctor*")]


def test_the_command_says_it_in_words_and_as_json_and_ends_with_7(tmp_path: Path) -> None:
    released(tmp_path)
    assert "good   ledger: sqlite:" in command(tmp_path, "doctor")
    (tmp_path / "state" / "ledger.db").chmod(0o666)
    ended = forked(tmp_path, "doctor", "--json")
    assert ended.code == 7
    assert "DPR-C120" in ended.err
    found = [each for each in json.loads(ended.out)["conditions"] if each["state"] == "wrong"]
    assert {each["about"] for each in found} == {"ledger"}
    assert f"chmod 600 {tmp_path / 'state' / 'ledger.db'}" in {each["hint"] for each in found}


def _no_folder(folder: Path) -> str:
    (folder / "dprelease.yaml").write_text(
        (folder / "dprelease.yaml").read_text().replace("releases: releases", "releases: places.csv/releases")
    )
    return "releases"


def _open_key(folder: Path) -> str:
    (folder / "state-key" / "source.key").chmod(0o644)
    return "source key"


def _open_folder(folder: Path) -> str:
    (folder / "state").chmod(0o755)
    return "ledger"


def _no_anchor(folder: Path) -> str:
    with (folder / "dprelease.yaml").open("a") as file:
        file.write("anchors: []\n")
    return "anchor"


def _lost_ledger(folder: Path) -> str:
    for path in (folder / "state").glob("ledger.db*"):
        path.unlink()
    return "ledger"


def _no_signing_key(folder: Path) -> str:
    with (folder / "dprelease.yaml").open("a") as file:
        file.write('signing_key: "${env:NO_SUCH_KEY}"\n')
    return "signing key"


@pytest.mark.parametrize(
    "break_it",
    [_no_folder, _open_key, _open_folder, _no_anchor, _lost_ledger, _no_signing_key],
    ids=lambda f: f.__name__,
)
def test_each_broken_set_up_is_told_by_its_name_with_what_to_do(
    break_it: Callable[[Path], str], tmp_path: Path
) -> None:
    released(tmp_path)
    about = break_it(tmp_path)
    found = told(Project.find(tmp_path))
    assert about in wrong(found)
    assert all(each.hint for each in found if each.state == "wrong")


def test_a_project_without_a_policy_is_told_beside_everything_else(tmp_path: Path) -> None:
    small_project(tmp_path, rows=3)
    (tmp_path / "policy.yaml").unlink()
    ended = forked(tmp_path, "doctor")
    assert ended.code == 7
    assert "wrong  project: DPR-S001 cannot read" in ended.out
    assert "good   python" in ended.out


def test_a_clock_that_is_behind_the_ledger_or_away_from_its_disk_is_told(tmp_path: Path) -> None:
    project = released(tmp_path)
    assert "away from this clock" in wrong(told(project, NOW + timedelta(hours=2)))["clock"]
    behind = [each.says for each in told(project, NOW - timedelta(days=2)) if each.about == "clock"]
    assert any("in the future of this clock" in says for says in behind)


def test_a_package_of_another_version_or_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not wrong([*installation()])
    monkeypatch.setattr(
        installed_module, "requires", lambda _: ["numpy<1", "no-such-package>=2", "opendp>=99; extra == 'opendp'"]
    )
    found = [*installation()]
    says = [each.says for each in found if each.state == "wrong"]
    assert re.fullmatch(r"numpy \S+ is installed; numpy<1 is needed", says[0])
    assert says[1:] == ["no-such-package is not installed; no-such-package>=2 is needed"]
    (note,) = (each for each in found if each.about == "extra opendp")
    assert note.state == "note"
    assert "dprelease[opendp]" in note.hint


@pytest.mark.parametrize(
    ("api", "answer", "state", "words"),
    [
        ("", 200, "note", "is not set"),
        ("http://127.0.0.1:4200/api", 200, "good", "answers"),
        ("http://127.0.0.1:4200/api", 401, "wrong", "does not take these credentials"),
        ("http://127.0.0.1:4200/api", 404, "wrong", "answered 404"),
        ("http://127.0.0.1:4200/api", None, "wrong", "does not answer (ConnectError)"),
        ("http://prefect.example:4200/api", 200, "wrong", "answers without credentials"),
    ],
)
def test_what_is_said_of_a_prefect_server(
    api: str, answer: int | None, state: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def post(url: str, **more: object) -> httpx.Response:
        if answer is None:
            raise httpx.ConnectError("no route")
        return httpx.Response(answer)

    monkeypatch.setattr(httpx, "post", post)
    monkeypatch.setenv("PREFECT_API_URL", api)
    found = prefect_server({"PREFECT_API_URL": api, "PREFECT_API_AUTH_STRING": "office:secret"})
    assert (found.state, words in found.says) == (state, True)
    assert "secret" not in found.line


SCHEDULED = SPEC.replace("period: 2024", "period: 2024-01").replace(
    "privacy:\n",
    "schedule: {cron: '0 6 * * *', timezone: UTC, period: month, not_before: 1d, last: 2024-03}\nprivacy:\n",
    1,
)


def samples(text: str) -> dict[str, float]:
    """Every sample by its name and labels; each line has the form of the format, and follows HELP and TYPE."""
    found, known = {}, set()
    for line in text.splitlines():
        if line.startswith("# "):
            known.add(line.split()[2])
            continue
        name, value = re.fullmatch(r'((?:[a-z_]+)(?:\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)+\})?) (\S+)', line).groups()  # type: ignore[union-attr]
        assert name.partition("{")[0] in known
        found[name] = float(value)
    return found


def test_the_metrics_are_those_of_due_and_of_the_ledger(tmp_path: Path) -> None:
    released(tmp_path)
    target = tmp_path / "dprelease.prom"
    assert command(tmp_path, "metrics", "--textfile", str(target), "--check") == ""
    assert "--textfile" in command(tmp_path, "metrics", "--textfile", "gone/dprelease.prom", code=2)
    found = samples(target.read_text())
    (account,) = json.loads(command(tmp_path, "ledger", "status", "--json"))["accounts"]
    label = 'account="people",window="",currency="epsilon"'
    assert found[f"dprelease_account_spent{{{label}}}"] == pytest.approx(float(account["spent"]))
    assert found[f"dprelease_account_cap{{{label}}}"] == 4
    assert found["dprelease_ledger_sound"] == 1
    assert found["dprelease_open_releases"] == 0
    assert abs(found['dprelease_last_published_timestamp_seconds{release="survey"}'] - NOW.timestamp()) < 3600
    assert target.stat().st_mode & 0o777 == 0o644
    assert "dprelease_ledger_sound" not in command(tmp_path, "metrics")


def test_periods_of_a_schedule_are_counted_by_state_and_the_oldest_one_has_an_age(tmp_path: Path) -> None:
    small_project(tmp_path, SCHEDULED, rows=3)
    found = samples(command(tmp_path, "metrics"))
    assert found['dprelease_periods{release="survey",state="late"}'] == 2
    assert found['dprelease_periods{release="survey",state="published"}'] == 0
    due = datetime(2024, 2, 2, tzinfo=UTC)
    assert abs(found['dprelease_oldest_due_seconds{release="survey"}'] - (NOW - due).total_seconds()) < 3600


def test_a_cap_that_is_no_decimal_is_a_number_all_the_same(tmp_path: Path) -> None:
    small_project(tmp_path, rows=3)
    (tmp_path / "policy.yaml").write_text(POLICY.replace("epsilon: 4", "epsilon: 1/3"))
    found = samples(command(tmp_path, "metrics"))
    assert found['dprelease_account_cap{account="people",window="",currency="epsilon"}'] == pytest.approx(1 / 3)


def test_an_unsound_ledger_is_told_in_the_metrics_and_by_the_exit_code(tmp_path: Path) -> None:
    released(tmp_path)
    anchor = tmp_path / "state-anchor" / "head.json"
    anchor.write_bytes(anchor.read_bytes().replace(b'"', b"'", 1))
    ended = forked(tmp_path, "metrics", "--check")
    assert ended.code in (4, 7)
    assert ended.code == 4 or samples(ended.out)["dprelease_ledger_sound"] == 0
