"""``dp_accounting`` asked in a process of its own, which loads it while this one plans, charges and opens the data.

Loading it takes a second, and nothing is to be drawn from a plan before it has agreed. So the command begins the
process at once and asks it when the plan is there; the answer is waited for before the first byte is read for a draw
(``Run.pin``). The process is told numbers and tells numbers: no data, no path, no setting. It serves every release of
this process, and ends with it, however that ends: its standard input is then at an end.

An answer that does not come is no agreement: the process was killed, it takes too long, the package is broken. Then the
release ends before anything is read, and what was charged for it is given back. Only where the package is not installed
does a release go on without it.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from queue import Empty, SimpleQueue
from typing import Self

from dprelease.errors import BrokenPromiseError, NoOpinion
from dprelease.freed_memory import COLLECTED_AFTER
from dprelease.late_modules import LateModules
from dprelease.privacy.crosscheck import Figures, Questions, is_installed, load_peer, peer_figures, warm_up

__all__ = ["PeerProcess", "answer_questions", "begin_opinion", "figures_beside"]

LIMIT = 900.0  # seconds for an answer: a thousand different draws take some
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from dprelease.release.opinion import answer_questions; answer_questions()"
)
# Half a second of loading that no question needs: of ``dp_accounting`` its own events, calibrations and mechanisms, of
# SciPy all but four distributions and one convolution, and what they use; of NumPy what SciPy names and never calls.
# What SciPy looks through in search of distributions must be no module of the second kind: being looked at is a use.
_LATE = LateModules(
    packages={
        "absl.logging": {},
        "dp_accounting": {},
        "scipy.integrate": {},
        "scipy.interpolate": {"BSpline": "_bsplines", "interp1d": "_interpolate", "make_interp_spline": "_bsplines"},
        "scipy.ndimage": {},
        "scipy.optimize": {"minimize_scalar": "_minimize", "root_scalar": "_root_scalar"},
        "scipy.signal": {"fftconvolve": "_signaltools"},
        "scipy.sparse.linalg": {"LinearOperator": "_interface"},
        "scipy.spatial": {"cKDTree": "_ckdtree"},
        "scipy.stats": {
            "binom": "_discrete_distns",
            "dlaplace": "_discrete_distns",
            "laplace": "_continuous_distns",
            "norm": "_continuous_distns",
        },
    },
    modules=["numpy.ctypeslib", "numpy.f2py", "numpy.ma", "numpy.testing"],
)


class PeerProcess:
    """A process that has loaded ``dp_accounting``, or is about to."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and words of our own
            [sys.executable, "-P", "-c", _START, json.dumps([each for each in sys.path if isinstance(each, str)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what goes wrong is told in the answer
            env={"OPENBLAS_NUM_THREADS": "1", **os.environ},
            text=True,
            encoding="utf-8",
        )

    @property
    def serves(self) -> bool:
        """Whether it is a process of this one, and lives."""
        return self._owner == os.getpid() and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def figures(self, asked: Questions, limit: float) -> Figures:
        """Ask, and wait for the answer.

        Args:
            asked: The questions.
            limit: Seconds to wait.

        Raises:
            NoOpinion: It was ended from outside, it takes too long, or it cannot import ``dp_accounting``.
            BrokenPromiseError: ``dp_accounting`` fails on these numbers.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise BrokenPromiseError("the process of dp_accounting has no pipes")
        lines: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=lambda: lines.put(stdout.readline()), daemon=True).start()
        try:
            stdin.write(json.dumps(asdict(asked)) + "\n")
            stdin.flush()
            line = lines.get(timeout=limit)
        except OSError:  # nobody reads any more
            line = ""
        except Empty:
            self.end()
            raise _lost(f"no answer within {limit:g} seconds") from None
        if not line.endswith("\n"):
            self.end()
            raise _lost(f"its process ended with code {self._process.returncode} before it had answered")
        answer = json.loads(line)
        if "broken" in answer:
            raise _lost(f"it cannot be imported: {answer['broken']}")
        if "failed" in answer:
            raise BrokenPromiseError(
                f"dp_accounting fails on this plan: {answer['failed']}",
                hint="nothing was drawn; please report this with the plan file",
            )
        return Figures(**answer)

    def end(self) -> None:
        """End it, if it is this process's own."""
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError):  # what was not sent to it
                    if pipe is not None:
                        pipe.close()

    @classmethod
    def begun(cls) -> Self:
        """Begin one that ends with this process.

        Raises:
            NoOpinion: If the system starts none.
        """
        try:
            process = cls()
        except OSError as error:
            raise _lost(f"its process could not be started ({error.strerror or type(error).__name__})") from error
        atexit.register(process.end)
        return process


def _lost(why: str) -> NoOpinion:
    return NoOpinion(
        f"dp_accounting is installed and gave no second opinion on this plan: {why}",
        detail="nothing was drawn",
        hint="the same command tries it again; if it stays so, install it anew (pip install --force-reinstall "
        '"dprelease[crosscheck]"), or do without it (pip uninstall dp-accounting)',
    )


class _Beside:
    """The process that serves this one; one question at a time."""

    def __init__(self) -> None:
        self._one: PeerProcess | None = None
        self._turn = threading.Lock()

    def begun(self) -> PeerProcess:
        if self._one is None or not self._one.serves:
            self._one = PeerProcess.begun()
        return self._one

    def begin(self) -> None:
        with self._turn, suppress(NoOpinion):  # said to whoever asks
            self.begun()

    def figures(self, asked: Questions) -> Figures:
        with self._turn:
            # One that was begun early and has died is not begun again in silence: why it died is told.
            process = self._one if self._one is not None and self._one._owner == os.getpid() else self.begun()
            try:
                return process.figures(asked, LIMIT)
            except NoOpinion:
                self._one = None
                process.end()
                raise


_BESIDE = _Beside()


def _is_here() -> bool:
    """Whether this very process has ``dp_accounting``: a notebook that uses it, say. Then it is asked here."""
    return "dp_accounting.rdp" in sys.modules and "dp_accounting.pld.privacy_loss_distribution" in sys.modules


def begin_opinion() -> None:
    """Let ``dp_accounting`` be loaded beside what is done next; nothing where it is not installed, or begun already."""
    if is_installed() and not _is_here():
        _BESIDE.begin()


def figures_beside(asked: Questions) -> Figures:
    """Ask ``dp_accounting`` beside this process, and wait for its answer.

    Raises:
        NoOpinion: It is installed, and no answer comes.
        BrokenPromiseError: It fails on these numbers.
    """
    return peer_figures(asked) if _is_here() else _BESIDE.figures(asked)


def answer_questions() -> None:
    """Answer questions, one a line of standard input, until its end: the whole life of the process beside."""
    lines: SimpleQueue[str] = SimpleQueue()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    broken = ""
    gc.set_threshold(*COLLECTED_AFTER)
    sys.meta_path.insert(0, _LATE)
    try:
        load_peer()
    except Exception as error:  # whatever is wrong with the package; it is told in place of an answer
        broken = _words(error)
    with suppress(Exception):  # whoever asks is told
        warm_up()  # while this process would wait for its first question
    while True:
        asked = json.loads(lines.get())
        answers.write(json.dumps({"broken": broken} if broken else _answered(asked)) + "\n")
        answers.flush()


def _listen(lines: SimpleQueue[str]) -> None:
    """Pass every question on; at the end of them the process that asks is gone, and this one ends at once."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def _answered(asked: dict[str, object]) -> dict[str, object]:
    try:
        return asdict(peer_figures(Questions(**asked)))  # type: ignore[arg-type]  # as they were written, but for lists
    except ImportError as error:  # of what is loaded when it is used
        return {"broken": _words(error)}
    except Exception as error:
        return {"failed": _words(error)}


def _words(error: Exception) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no text'}"[:300]
