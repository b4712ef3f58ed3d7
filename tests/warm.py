"""The installed command without the seconds of its imports: a warm process forks a child for each of them.

A child is a process of its own, with a folder, an environment, streams and an exit code of its own, and does what
``python -m dprelease`` does once everything is imported. The parent has opened nothing: no database, no ledger, no
file of a project. What only a process from scratch can show (what is imported when, Prefect, kills) starts one.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["Ended", "Warm", "load"]

_ROOT = Path(__file__).resolve().parents[1]
_HUNG = 180  # seconds
# What a release imports on its way, so that no child does it again. Nothing of it starts a thread.
_IMPORTED = (
    "dprelease.release.direct",
    "dp_accounting",
    "ibis.backends.duckdb",
    "ibis.formats.pandas",
    "ibis.formats.pyarrow",
    "pandas",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.pandas_compat",
    "sqlglot.dialects.duckdb",
    "xlsxwriter",
)
_COMMANDS = (
    "dprelease.cli.app",
    "dprelease.cli.ledger.acts",
    "dprelease.cli.views.plan",
    "dprelease.release.schedule.due_runs",
    "dprelease.release.check",
    "dprelease.plan.verify.second_opinion",
    "dp_accounting.pld.privacy_loss_distribution",
    "dp_accounting.rdp",
)


class Ended(NamedTuple):
    """How a command ended; a negative code is the signal that ended it."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class _Order:
    folder: str
    words: tuple[str, ...]
    environment: dict[str, str]
    out: str
    err: str


class Warm:
    """Starts the warm process, which ends with this one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm"],
            cwd=_ROOT,
            env={**environment, "OPENBLAS_NUM_THREADS": "1"},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        weakref.finalize(self, self._process.communicate)

    def run(self, folder: Path, words: Sequence[str], environment: Mapping[str, str]) -> Ended:
        """Run one command to its end; after three minutes SIGALRM ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as streams:
            out, err = Path(streams, "out"), Path(streams, "err")
            order = _Order(str(folder), tuple(words), dict(environment), str(out), str(err))
            self._process.stdin.write(json.dumps(asdict(order)) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            assert line, "the warm process has died"
            return Ended(int(line), out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def _redirect(path: str, *, onto: int) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, onto)
    os.close(file)


def _obey(order: _Order) -> int:
    """Become the command; its exit code."""
    from dprelease.cli import main

    signal.alarm(_HUNG)
    _redirect(os.devnull, onto=0)
    _redirect(order.out, onto=1)
    _redirect(order.err, onto=2)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.path[0] = order.folder  # where `python -m` finds the folder it was started in
    sys.modules["__main__"].__package__ = "dprelease"  # as which the command names itself
    sys.argv = [str(_ROOT / "dprelease" / "__main__.py"), *order.words]
    try:
        main()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    return 0


def load(*modules: str) -> None:
    """Import what a release imports, and do once what comes out alike in every child.

    The templates of all pages are compiled, and the installed packages are listed.
    """
    for name in (*_IMPORTED, *modules):
        importlib.import_module(name)
    html_text, environment = map(
        importlib.import_module, ("dprelease.publish.html_text", "dprelease.release.environment")
    )
    pages = html_text._environment()
    for name in pages.list_templates(extensions=["j2"]):
        pages.get_template(name)
    environment.environment()


def _serve() -> None:
    load(*_COMMANDS)
    for line in sys.stdin:
        words = json.loads(line)
        if not (child := os.fork()):
            code = 1
            try:
                code = _obey(_Order(**words))
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # destructors of libraries would look for the parent's threads
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
