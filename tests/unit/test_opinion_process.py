"""The second opinion is asked beside the release: nothing is read before it agrees, and no answer is no agreement."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import BrokenPromiseError, NoOpinion, Retryable
from dprelease.ledger import Ledger, open_ledger
from dprelease.plan.verify.second_opinion import second_opinion
from dprelease.privacy.crosscheck import Figures, Questions, peer_figures
from dprelease.release import opinion
from dprelease.release import run as running
from dprelease.release.direct import run_directly
from dprelease.release.opinion import PeerProcess
from dprelease.release.project import Project
from dprelease.release.run import Request, open_run
from tests.planned import plan_of
from tests.project import installed, small_project

ASKED = Questions(((0.01, 3), (0.02, 1)), 1e-9, ((("laplace", 3.0, 1.0), 2), (("gaussian", 9.0, 2), 1)), 1e-3, 1e-9)
# What the fake of each name does: while it is imported, or when it is asked.
FAKES = {
    "broken": ("raise ImportError('no SciPy here')", ""),
    "killed": ("import os; os.kill(os.getpid(), 9)", ""),
    "left": ("import os; os._exit(3)", ""),
    "asleep": ("import time; time.sleep(600)", ""),
    "failing": ("print('a word of a library')", "raise OverflowError('too large\\nsecond line')"),
}


@pytest.fixture
def processes() -> Iterator[list[PeerProcess]]:
    """Those that a test starts, all of them ended behind it."""
    begun: list[PeerProcess] = []
    yield begun
    for each in begun:
        each.end()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts another ``dp_accounting`` in front of the installed one, for processes that are started from now on."""

    def put(name: str) -> Path:
        imported, asked = FAKES[name]
        package = tmp_path / "fake" / "dp_accounting"
        (package / "pld").mkdir(parents=True)
        for path, text in {
            "__init__.py": "",
            "dp_event.py": imported,
            "rdp.py": f"class RdpAccountant:\n    def __init__(self, orders):\n        {asked or 'pass'}\n",
            "pld/__init__.py": "",
            "pld/privacy_loss_distribution.py": "",
        }.items():
            (package / path).write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(package.parent)
        return package.parent

    return put


WARM = """
import json, sys
from dprelease.privacy import crosscheck
from dprelease.release import opinion
sys.meta_path.insert(0, opinion._LATE)
crosscheck.load_peer()
if sys.argv[1] == "warm":
    crosscheck.warm_up()
before = set(sys.modules)
crosscheck.peer_figures(crosscheck.Questions(((0.1, 3),), 1e-6, ((("laplace", 2.0, 3.0), 2),), 1e-3, 1e-6))
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_a_process_that_was_warmed_up_loads_nothing_when_it_is_asked() -> None:
    pytest.importorskip("dp_accounting", reason="the crosscheck extra is not installed")
    cold, warm = (
        json.loads(subprocess.run([sys.executable, "-c", WARM, how], capture_output=True, check=True).stdout)
        for how in ("cold", "warm")
    )
    assert warm == []
    assert "scipy.stats" in {".".join(each.split(".")[:2]) for each in cold}, "there was something to load"


def test_another_process_answers_as_this_one_does_and_more_than_once(processes: list[PeerProcess]) -> None:
    pytest.importorskip("dp_accounting", reason="the crosscheck extra is not installed")
    processes.append(PeerProcess())
    plan = plan_of()
    theirs = second_opinion(plan, lambda asked: processes[0].figures(asked, 120))
    assert theirs == second_opinion(plan)
    assert len(theirs) == 3
    assert processes[0].figures(ASKED, 120) == peer_figures(ASKED)


_LOADED = """
import json, sys
from dprelease.release import opinion
sys.meta_path.insert(0, opinion._LATE)
opinion.load_peer()
for part in json.loads(sys.argv[1]):
    asked = {"rhos": [[0.02, 2]], "left": 1e-9, "parts": [[part, 2]], "grid": 1e-3, "delta": 1e-9}
    told = opinion._answered(asked)
    print(json.dumps([told, [name for name in json.loads(sys.argv[2]) if name in sys.modules]]))
"""
_PARTS = [("gaussian", 9.0, 1), ("laplace", 9.0, 2), ("laplace", 9e4, 2000), ("gaussian", 9e4, 2000)]
_DISTRIBUTIONS = "scipy.stats._continuous_distns"
_NEVER = (
    "scipy.stats._stats_py",
    "scipy.integrate._quadpack_py",
    "scipy.interpolate._fitpack2",
    "scipy.ndimage._filters",
    "scipy.optimize._linprog",
    "scipy.sparse.linalg._eigen",
    "scipy.spatial.transform",
)


def test_of_scipy_only_what_a_question_needs_is_loaded() -> None:
    """And the answers are those of the whole library, to the last bit."""
    pytest.importorskip("dp_accounting", reason="the crosscheck extra is not installed")
    told = subprocess.run(
        [sys.executable, "-c", _LOADED, json.dumps(_PARTS), json.dumps((_DISTRIBUTIONS, *_NEVER))],
        check=True,
        capture_output=True,
        text=True,
    )
    for part, loaded, line in zip(
        _PARTS, [[], [], [_DISTRIBUTIONS], [_DISTRIBUTIONS]], told.stdout.splitlines(), strict=True
    ):
        asked = Questions(((0.02, 2),), 1e-9, ((part, 2),), 1e-3, 1e-9)
        assert json.loads(line) == [asdict(peer_figures(asked)), loaded]


def test_what_cannot_be_loaded_when_it_is_used_is_told_as_what_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: Questions) -> Figures:
        raise ImportError("no distributions here")

    monkeypatch.setattr(opinion, "peer_figures", broken)
    assert opinion._answered(asdict(ASKED)) == {"broken": "ImportError: no distributions here"}


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("broken", NoOpinion, "it cannot be imported: ImportError: no SciPy here"),
        ("killed", NoOpinion, "its process ended with code -9 before it had answered"),
        ("left", NoOpinion, "its process ended with code 3 before it had answered"),
        ("asleep", NoOpinion, "no answer within 1 seconds"),
        ("failing", BrokenPromiseError, "dp_accounting fails on this plan: OverflowError: too large"),
    ],
)
def test_what_does_not_answer_is_told_and_gone(
    name: str, error: type[Exception], says: str, processes: list[PeerProcess], fake: Callable[[str], Path]
) -> None:
    """What a library prints is no answer either."""
    fake(name)
    processes.append(PeerProcess())
    with pytest.raises(error, match=says) as caught:
        processes[0].figures(ASKED, 1 if name == "asleep" else 60)
    assert isinstance(caught.value, Retryable) == (error is NoOpinion)
    assert "second line" not in str(caught.value)
    if name in ("killed", "left", "asleep"):
        assert not processes[0].serves


def test_one_that_is_killed_while_it_waits_is_told_and_the_next_try_begins_another(
    processes: list[PeerProcess], monkeypatch: pytest.MonkeyPatch, fake: Callable[[str], Path]
) -> None:
    fake("failing")
    beside = opinion._Beside()
    beside.begin()
    first = beside.begun()
    processes.append(first)
    os.kill(first.pid, signal.SIGKILL)
    first._process.wait()
    with pytest.raises(NoOpinion, match="ended with code -9"):
        beside.figures(ASKED)
    with pytest.raises(BrokenPromiseError, match="OverflowError"):  # this fake's answer: another process has given it
        beside.figures(ASKED)
    processes.append(beside.begun())
    assert processes[1].pid != first.pid


def test_one_that_cannot_be_started_is_told_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("dprelease.release.opinion.subprocess.Popen", refuse)
    beside = opinion._Beside()
    beside.begin()
    with pytest.raises(NoOpinion, match="could not be started"):
        beside.figures(ASKED)


def test_it_ends_with_the_process_that_asks_even_while_it_imports(
    processes: list[PeerProcess], fake: Callable[[str], Path]
) -> None:
    fake("asleep")
    processes.append(PeerProcess())
    child = processes[0]._process
    assert child.stdin is not None
    child.stdin.close()  # as the system does when the asking process is killed
    assert child.wait(timeout=60) == 0


def test_a_forked_process_neither_asks_nor_ends_the_one_of_its_parent(
    processes: list[PeerProcess], fake: Callable[[str], Path]
) -> None:
    fake("asleep")
    processes.append(PeerProcess())
    if not (forked := os.fork()):
        processes[0].end()
        os._exit(1 if processes[0].serves else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
    assert processes[0].serves


# -- in a release ------------------------------------------------------------------------------------------------------


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    pytest.importorskip("dp_accounting", reason="the crosscheck extra is not installed")
    return small_project(tmp_path / "project", rows=300)


def ledger_of(spec: Path) -> Ledger:
    return open_ledger(Project.find(spec).settings.ledger, spec.parent)


def kinds(spec: Path) -> list[str]:
    return [entry.kind for entry in ledger_of(spec).entries() if entry.kind != "anchor"]


def asking(monkeypatch: pytest.MonkeyPatch, answer: Callable[[Questions], Figures]) -> None:
    monkeypatch.setattr(running, "figures_beside", answer)


def half_as_much(asked: Questions) -> Figures:
    """What would be said of a plan that claims half of its loss."""
    right = peer_figures(asked)
    return Figures(curve=2 * (right.curve or 0), pairs=right.pairs)


def test_a_disagreement_is_waited_for_when_all_is_charged_and_gives_the_budget_back(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def disagreeing(asked: Questions) -> Figures:
        end = time.monotonic() + 60
        while "reserve" not in kinds(spec) and time.monotonic() < end:  # slower than all before the first read
            time.sleep(0.01)
        time.sleep(0.1)
        seen.append(kinds(spec))
        return half_as_much(asked)

    asking(monkeypatch, disagreeing)
    with pytest.raises(BrokenPromiseError, match="dp_accounting finds epsilon"):
        open_run(Request(target=str(spec)), "test")
    (then,) = seen
    assert "reserve" in then
    assert not {"source", "measure"} & set(then)
    assert kinds(spec)[-1] == "void"
    assert not {"source", "measure"} & set(kinds(spec))
    assert not (spec.parent / "releases" / "survey").exists()
    asking(monkeypatch, peer_figures)
    assert run_directly(Request(target=str(spec))).state == "published"


def test_no_answer_is_no_agreement_and_the_same_command_tries_again(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(asked: Questions) -> Figures:
        raise NoOpinion("no answer")

    asking(monkeypatch, silent)
    with pytest.raises(NoOpinion):
        open_run(Request(target=str(spec)), "test")
    assert kinds(spec)[-1] == "void"
    asking(monkeypatch, peer_figures)
    assert run_directly(Request(target=str(spec))).state == "published"


def test_a_release_that_was_killed_before_the_agreement_waits_for_it_when_it_is_resumed(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(asked: Questions) -> Figures:
        raise Killed

    with monkeypatch.context() as patch:  # a process that is killed gives nothing back
        asking(patch, killed)
        patch.setattr(running.Run, "give_back", lambda self, error: None)
        with pytest.raises(Killed):
            open_run(Request(target=str(spec)), "test")
    before = kinds(spec)
    assert before[-1] == "reserve"
    asking(monkeypatch, half_as_much)
    another = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: another)  # another process comes back to it
    with pytest.raises(BrokenPromiseError, match="dp_accounting finds epsilon"):
        open_run(Request(target=str(spec)), "test")
    assert kinds(spec) == before, "what another process has charged stays charged, and nothing is read"
    asking(monkeypatch, peer_figures)
    assert run_directly(Request(target=str(spec))).state == "published"


def test_it_is_asked_once_and_not_when_a_release_goes_on_or_was_published(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Questions] = []

    def counted(questions: Questions) -> Figures:
        asked.append(questions)
        return peer_figures(questions)

    asking(monkeypatch, counted)
    with open_run(Request(target=str(spec)), "test") as run:
        run.measure(run.batches()[0])
    assert len(asked) == 1
    assert run_directly(Request(target=str(spec))).reused > 0
    assert run_directly(Request(target=str(spec))).state == "exists"
    assert len(asked) == 1


def test_without_the_package_a_release_goes_on_and_nobody_is_asked(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(asked: Questions) -> Figures:
        raise AssertionError("asked")

    asking(monkeypatch, never)
    monkeypatch.setattr("dprelease.plan.verify.second_opinion.is_installed", lambda: False)
    monkeypatch.setattr(opinion, "is_installed", lambda: False)
    assert run_directly(Request(target=str(spec))).state == "published"


def test_the_command_ends_with_the_error_and_leaves_no_process(spec: Path, fake: Callable[[str], Path]) -> None:
    path = os.pathsep.join([str(fake("killed")), *filter(None, sys.path)])
    said = installed(spec.parent, "run", "spec.yaml", "--direct", code=3, variables={"PYTHONPATH": path})
    assert "DPR-P500" in said
    assert "ended with code -9" in said
    assert "Traceback" not in said
    assert kinds(spec)[-1] == "void"


def test_a_command_that_is_refused_does_not_wait_for_it(tmp_path: Path, fake: Callable[[str], Path]) -> None:
    """A spec that is wrong: the process that sleeps for ten minutes is ended with the command."""
    spec = small_project(tmp_path / "project", rows=30)
    spec.write_text(spec.read_text(encoding="utf-8").replace("epsilon: 1,", "epsilon: -1,"), encoding="utf-8")
    path = os.pathsep.join([str(fake("asleep")), *filter(None, sys.path)])
    began = time.monotonic()
    assert "DPR-S" in installed(spec.parent, "run", "spec.yaml", "--direct", code=2, variables={"PYTHONPATH": path})
    assert time.monotonic() - began < 170
