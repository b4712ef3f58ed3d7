"""What `deploy/` and `.github/` hold: every command, file and variable that is named there exists."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dprelease.event_log import VARIABLE
from tests.repo.documents import ROOT
from tests.repo.test_documents import problem_of

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file()]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def commands(text: str) -> list[str]:
    """Every command of ours on a line by itself, after `ExecStart=` or in a script."""
    return [
        f"dprelease {rest.strip()}" for rest in re.findall(r"(?:^|bin/|if | && )dprelease ([a-z][^;&|\n]*)", text, re.M)
    ]


@pytest.mark.parametrize("path", [*FILES, WORKFLOW], ids=lambda path: path.name)
def test_every_command_of_ours_exists_with_its_options(path: Path) -> None:
    text = re.sub(r"^\s*#.*$", "", path.read_text(encoding="utf-8"), flags=re.M)
    assert [(line, problem) for line in commands(text) if (problem := problem_of(line))] == []


def test_commands_are_found_where_there_are_some() -> None:
    assert {path.name for path in FILES if commands(path.read_text())} >= {
        "dprelease-due.service",
        "dprelease-serve.service",
        "restore-drill",
    }


@pytest.mark.parametrize("path", [path for path in UNITS if path.suffix == ".service"], ids=lambda path: path.name)
def test_a_unit_runs_without_root_and_sees_no_more_than_it_needs(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert {"UMask=0077", "NoNewPrivileges=yes", "ProtectSystem=strict"} <= set(lines)
    (user,) = (line.partition("=")[2] for line in lines if line.startswith("User="))
    assert user not in ("", "root")
    assert not any("PASSWORD=" in line or "AUTH_STRING=" in line for line in lines if not line.startswith("#"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_can_read_the_units(tmp_path: Path) -> None:
    said = subprocess.run(
        ["systemd-analyze", "verify", *map(str, UNITS)], capture_output=True, text=True, check=False
    ).stderr
    unknown = [line for line in said.splitlines() if "Unknown" in line or "Invalid" in line or "parse" in line]
    assert unknown == []


def _services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    return found


def test_the_compose_file_names_files_that_are_there_and_keeps_its_services_small() -> None:
    services = _services()
    assert {"database", "prefect", "runner", "proxy"} <= services.keys()
    assert (DEPLOY / "../pipelines/prefect-proxy.conf").is_file()
    assert "../pipelines/prefect-proxy.conf:/etc/nginx/nginx.conf:ro" in services["proxy"]["volumes"]
    runner = services["runner"]
    assert runner["hostname"], "anchors are named by it"
    assert runner["read_only"] is True
    assert runner["cap_drop"] == ["ALL"]
    assert runner["environment"] == {VARIABLE: "json"}
    assert problem_of(" ".join(["dprelease", *runner["command"]])) == ""
    assert [name for name, each in services.items() if "ports" in each] == ["proxy"], "nothing else can be reached"
    assert not any(
        key.endswith(("PASSWORD", "STRING")) for each in services.values() for key in each.get("environment", ())
    )


def test_the_cluster_runs_one_runner_with_a_name_that_stays_and_no_rights() -> None:
    stateful, policy = yaml.safe_load_all((DEPLOY / "kubernetes" / "runner.yaml").read_text(encoding="utf-8"))
    assert (stateful["kind"], stateful["spec"]["replicas"]) == ("StatefulSet", 1)
    pod = stateful["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    for each in (*pod["containers"], *pod["initContainers"]):
        assert each["securityContext"]["readOnlyRootFilesystem"] is True
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert problem_of(" ".join(["dprelease", *pod["containers"][0]["args"]])) == ""
    assert policy["spec"]["ingress"] == []


def test_the_image_is_not_roots_and_installs_by_hash() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER 10001$", text, re.M)
    assert "--require-hashes -r /tmp/constraints.txt" in text
    assert ":latest" not in text
    uid = yaml.safe_load((DEPLOY / "kubernetes" / "runner.yaml").read_text().split("---")[0])
    assert uid["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 10001


def test_the_tool_that_stands_in_for_an_engine_knows_every_step_of_the_image() -> None:
    tool = (ROOT / "tools" / "image-in-a-root").read_text(encoding="utf-8")
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.M))
    words = {line.split()[0] for line in text.splitlines() if line}
    (case,) = re.findall(r"case \$word in\n(.*?)\n  esac", tool, re.S)
    known = {word for names in re.findall(r"^    ([^)]+)\)", case, re.M) for word in names.split(" | ")}
    assert {"FROM", "COPY", "RUN", "USER"} <= words <= known
    subprocess.run(["bash", "-n", str(ROOT / "tools" / "image-in-a-root")], check=True)


def test_pages_of_the_server_are_made_where_it_may_write() -> None:
    """Prefect makes them beside its program else, where it may not, and then has none."""
    assert _services()["prefect"]["environment"]["PREFECT_UI_STATIC_DIRECTORY"].startswith("/tmp/")
    unit = (DEPLOY / "systemd" / "prefect-server.service").read_text(encoding="utf-8")
    assert "PREFECT_UI_STATIC_DIRECTORY=/var/lib/prefect/" in unit
    assert "StateDirectory=prefect" in unit


def test_the_workflow_calls_the_commands_of_the_readme() -> None:
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    ran = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))
    made = {target for text in ran for target in re.findall(r"make ([a-z-]+)", text)}
    assert made
    assert made <= targets
    assert ".ci/run" in ran
    pythons = jobs["fast"]["strategy"]["matrix"]["python"]
    classifiers = (ROOT / "pyproject.toml").read_text()
    assert all(f"Python :: {each}" in classifiers for each in pythons[:3])


def test_every_pinned_package_has_a_hash_and_no_address_of_an_index() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pins = re.split(r"\n(?=[A-Za-z0-9])", text.strip())
    assert len(pins) > 100
    assert [pin.splitlines()[0] for pin in pins if "--hash=sha256:" not in pin] == []
    assert not re.search(r"https?://|file://|--index", text)


def test_what_we_need_is_pinned_within_our_bounds() -> None:
    import tomllib

    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (named,) = re.findall(r"^PINNED := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert set(extras) - set(named.split()) == {"dev", "docs", "notebook", "opendp"}, "what releases nothing"
    wanted = [
        Requirement(each) for each in (*project["dependencies"], *(one for of in named.split() for one in extras[of]))
    ]
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", (ROOT / "constraints.txt").read_text(), re.M)
    pinned = {name.lower().replace("_", "-"): version for name, version in found}
    missing = [str(each) for each in wanted if not each.specifier.contains(pinned.get(each.name.lower(), "0.0a0"))]
    assert missing == [], "`make constraints` pins them again"
