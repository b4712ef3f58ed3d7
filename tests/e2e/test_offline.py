"""With the network cut off a release is the same, and nothing even tries to reach out."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.alone import Asked, alone, asked_for, why_not
from tests.project import SPEC, command, environment, small_project

pytestmark = [pytest.mark.skipif(bool(why_not()), reason=why_not() or "possible")]

ROOT = Path(__file__).resolve().parents[2]
LOOK_UP = "import socket; socket.getaddrinfo('statistics.example', 443)"
CALL = "import socket; socket.create_connection(('192.0.2.1', 443), timeout=5)"
HERE = """
import socket
listening = socket.create_server(("127.0.0.1", 0))
calling = socket.create_connection(listening.getsockname())
"""


def python(folder: Path, code: str) -> tuple[int, set[Asked]]:
    """The exit code of a program, and what it asked for."""
    ended, asked = alone(folder, sys.executable, "-c", code, trace=folder / "trace")
    return ended.code, asked


def outside(asked: set[Asked]) -> list[Asked]:
    return sorted(each for each in asked if each.outside)


def published(releases: Path) -> list[str]:
    """The files of all bundles: the same whatever the noise is."""
    return sorted(str(path.relative_to(releases)) for path in releases.rglob("*") if path.is_file())


@pytest.mark.slow
def test_whatever_tries_to_reach_out_is_seen(tmp_path: Path) -> None:
    """Against a test that sees nothing: a name is looked up, an address is called, and neither is there."""
    code, asked = python(tmp_path, LOOK_UP)
    assert code == 1
    assert any(each.port == 53 or each.family == "UNIX" for each in outside(asked)), asked

    code, asked = python(tmp_path, CALL)
    assert code == 1
    assert outside(asked) == [Asked("INET", "192.0.2.1", 443)]

    code, asked = python(tmp_path, HERE)
    assert code == 0
    assert {each.address for each in asked if each.port} == {"127.0.0.1"}
    assert outside(asked) == []


def test_addresses_are_read_as_strace_writes_them() -> None:
    trace = """
71 connect(3, {sa_family=AF_INET6, sin6_port=htons(443), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}, 28) = 0
72 sendto(5, "\\24\\0\\0\\0", 20, 0, {sa_family=AF_NETLINK, nl_pid=0, nl_groups=00000000}, 12) = 20
73 connect(4, {sa_family=AF_UNIX, sun_path="/run/systemd/resolve/io.systemd.Resolve"}, 42 <unfinished ...>
74 sendmsg(6, {msg_name={sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("127.0.0.53")}, msg_namelen=16}, 0) = 1
75 sendto(3, "x", 1, 0, NULL, 0) = 1
"""
    asked = asked_for(trace)
    assert len(asked) == 4
    assert {(each.family, each.port) for each in asked if each.outside} == {("UNIX", 0), ("INET", 53)}


@pytest.mark.slow
def test_a_run_through_prefect_with_its_temporary_server_reaches_nothing_but_the_loopback(tmp_path: Path) -> None:
    """In a terminal, as far as it can tell: there Prefect by itself reports to its makers."""
    for name in ("here", "alone"):
        small_project(tmp_path / name)
    said = command(tmp_path / "here", "run", "spec.yaml", "--direct")

    typed = f"{shlex.quote(sys.executable)} -m dprelease run spec.yaml"
    words = ("script", "--quiet", "--return", "--command", typed, "/dev/null")
    ended, asked = alone(tmp_path / "alone", *words, trace=tmp_path / "trace")

    assert ended.code == 0, ended
    shown = ended.out.replace("\r\n", "\n").replace(str(tmp_path / "alone"), str(tmp_path / "here"))
    assert said in shown, "beside the progress"
    assert published(tmp_path / "alone" / "releases") == published(tmp_path / "here" / "releases")
    assert any(each.port for each in asked), "the server was reached"
    assert outside(asked) == []


def checkout(folder: Path) -> Path:
    """What `make demo` wants of a checkout; the environment is the one that runs this test."""
    shutil.copytree(ROOT / "specs", folder / "specs", ignore=shutil.ignore_patterns("data", "releases", "state*"))
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_demo_is_the_same_without_a_network(tmp_path: Path) -> None:
    words = ("make", "--old-file=.venv/.run", "demo")  # installed already: pip is not asked
    by_hand = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    here, cut_off = checkout(tmp_path / "here"), checkout(tmp_path / "alone")
    before = subprocess.run(words, cwd=here, env=environment(by_hand), capture_output=True, text=True, check=False)

    ended, asked = alone(cut_off, *words, trace=tmp_path / "trace", variables=by_hand, hung=900)

    assert (before.returncode, ended.code) == (0, 0), before.stderr + ended.err
    assert ended.err.replace(str(cut_off), str(here)) == before.stderr
    assert ended.out.replace(str(cut_off), str(here)) == before.stdout
    assert published(cut_off / "specs" / "releases") == published(here / "specs" / "releases")
    assert outside(asked) == []

    again, asked = alone(cut_off, *words, trace=tmp_path / "again", variables=by_hand, hung=900)
    assert again.code == 0
    assert "quickstart/2024 exists: nothing drawn, nothing spent" in again.out
    assert outside(asked) == []


SERVED = """
import sys
from pathlib import Path
from tests.e2e.prefect_server import Household
folder = Path.cwd()
with Household(folder / "prefect") as house:
    house.serve(Path(sys.argv[1]))
    house.start("served", "tests.e2e.serving", "--every", "10", "spec.yaml", folder=folder / "project")
    done = folder / "project" / "releases" / "survey" / "2024" / "manifest.json"
    house.until("a release that a clock has started", done.exists, 600)
"""


@pytest.mark.nightly
def test_a_server_that_serves_a_schedule_reaches_nothing_but_the_loopback(tmp_path: Path, empty: Path) -> None:
    """`prefect server start`, the process that serves, and the flow runs that a clock starts."""
    schedule = 'schedule: {cron: "0 6 5 1 *", timezone: UTC, period: year, last: 2024}\n'
    small_project(tmp_path / "project", SPEC + schedule)

    words = (sys.executable, "-c", SERVED, str(empty))
    variables = {"PYTHONPATH": str(ROOT)}
    ended, asked = alone(tmp_path, *words, trace=tmp_path / "trace", variables=variables, hung=900)

    assert ended.code == 0, ended.err
    assert len({each.port for each in asked}) > 1
    assert outside(asked) == []
