"""A release that this process has no memory for is refused before it is charged; one that is charged never is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprelease.cli.views.plan import show_plan
from dprelease.errors import PlanError
from dprelease.freed_memory import memory_left
from dprelease.ledger import open_ledger
from dprelease.plan.explain import memory as explained
from dprelease.plan.explain.memory import Memory, memory_lacking, require_memory, require_small_draws
from dprelease.release import planning
from dprelease.release.project import Project
from dprelease.release.run import Request, open_run
from tests.pieces import KINDS, planned
from tests.planned import plan_of
from tests.project import small_project

GB = 10**9


def _put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_machine_without_a_container_has_what_linux_calls_available_and_free_swap(tmp_path: Path) -> None:
    assert memory_left(tmp_path) is None  # another system: nothing is known, so nothing is refused
    _put(tmp_path, "proc/meminfo", "MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable:   4000 kB\nSwapFree: 500 kB\n")
    assert memory_left(tmp_path) == 4500 * 1024


@pytest.mark.parametrize(
    ("told", "folder", "limit", "used", "dropped"),
    [
        ("0::/work/job\n", "", "memory.max", "memory.current", "inactive_file"),
        ("4:cpu,memory:/work/job\n0::/\n", "memory/", "memory.limit_in_bytes", "memory.usage_in_bytes",
         "total_inactive_file"),
    ],
)  # fmt: skip
def test_of_the_groups_around_a_process_the_tightest_one_counts(
    told: str, folder: str, limit: str, used: str, dropped: str, tmp_path: Path
) -> None:
    """What a group could drop at once, pages of files, is not in use."""
    group = f"sys/fs/cgroup/{folder}"
    _put(tmp_path, "proc/meminfo", "MemAvailable: 8000000 kB\n")
    _put(tmp_path, "proc/self/cgroup", f"7:pids:/elsewhere\n{told}")
    for inside, most, taken in (("work/job/", "max", 1), ("work/", 3 * GB, GB), ("", 5 * GB, 4 * GB)):
        _put(tmp_path, f"{group}{inside}{limit}", f"{most}\n")
        _put(tmp_path, f"{group}{inside}{used}", f"{taken}\n")
    assert memory_left(tmp_path) == GB
    _put(tmp_path, f"{group}memory.stat", f"anon 12\n{dropped} {GB // 2}\n")
    assert memory_left(tmp_path) == GB * 3 // 2
    _put(tmp_path, f"{group}work/job/{limit}", "5\n")
    _put(tmp_path, f"{group}work/job/{used}", "9\n")
    assert memory_left(tmp_path) == 0


def test_small_releases_are_not_refused_and_nothing_is_where_nothing_is_known() -> None:
    plan = plan_of()
    require_memory(plan, 0)
    assert not memory_lacking(plan, None)


@pytest.mark.parametrize(("needed", "says"), [(Memory(2200, 9700), "9.7 GB to publish it"),
                                              (Memory(6400, 3000), "6.4 GB to draw its largest answers")])  # fmt: skip
def test_a_release_without_memory_is_refused_before_it_is_charged_and_goes_on_once_it_is(
    needed: Memory,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = small_project(tmp_path)
    monkeypatch.setattr(explained, "memory_of", lambda _: needed)
    monkeypatch.setattr(planning, "memory_left", lambda: 3 * GB)
    monkeypatch.setattr("dprelease.cli.views.plan.memory_left", lambda: 3 * GB)
    show_plan(spec, None, compare=False, solve=None, epsilons=(), as_json=False)
    assert f"{says}, and this process may take 3.0 GB" in capsys.readouterr().err
    with pytest.raises(PlanError, match=says) as caught:
        open_run(Request(target=str(spec)), "test")
    assert (caught.value.code, caught.value.exit_code) == ("DPR-P342", 3)
    assert open_ledger(Project.find(spec).settings.ledger, tmp_path).reservations() == ()

    monkeypatch.setattr(planning, "memory_left", lambda: 10 * GB)
    open_run(Request(target=str(spec)), "test").__exit__()  # charged, and stopped before its first draw
    monkeypatch.setattr(planning, "memory_left", lambda: 0)
    with open_run(Request(target=str(spec)), "test") as run:
        for batch in run.batches():
            run.measure(batch)
        assert run.publish().state == "published"


def test_a_draw_that_is_too_large_for_one_entry_of_the_ledger_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a draw in pieces the largest piece counts."""
    cut = planned(KINDS["residuals"])
    steps = {step.id: step for step in cut.steps}
    largest = max(piece.numbers(steps[name]) for name, pieces in cut.pieces.items() for piece in pieces)
    whole = max(step.numbers or 0 for step in cut.steps if step.id not in cut.pieces)
    monkeypatch.setattr(explained, "_MOST_DRAWN", max(largest, whole))
    require_small_draws(cut)
    monkeypatch.setattr(explained, "_MOST_DRAWN", largest - 1)
    with pytest.raises(PlanError, match="DPR-P343"):
        require_small_draws(cut)
