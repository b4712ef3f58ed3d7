"""Before anything is collected: temporary files go to one folder that is thrown away, and Hypothesis has its profiles.

``fast`` and ``full`` try the same examples in every run, on every machine and in every order of the tests: a test that
passes goes on passing until somebody changes what it tests. ``nightly`` searches at random; what it finds is printed,
with the line that repeats it. ``tests/README.md`` says which command uses which. How long an example takes is no law.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.tiers import FAST, longest_first, steady_examples, thin_out

settings.register_profile("fast", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=FAST)
settings.register_profile("full", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile("nightly", deadline=None, derandomize=False, database=None, print_blob=True)
settings.load_profile("full")  # unless `--hypothesis-profile` names another one
steady_examples()

_MADE = "DPRELEASE_TESTS_FOLDER"
"""The folder of a run, made by the process that began it: worker processes end without their clean-up."""
_OURS = _MADE not in os.environ
if _OURS:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # what pytest keeps of failures stays there
    os.environ[_MADE] = tempfile.mkdtemp(prefix="dprelease-tests-")
    Path(os.environ[_MADE]).chmod(0o711)  # a server of PostgreSQL runs as somebody else
tempfile.tempdir = os.environ["TMPDIR"] = os.environ[_MADE]
os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="prefect-")  # importing Prefect, as doctests do, makes this folder
os.environ["DO_NOT_TRACK"] = "1"


def pytest_unconfigure() -> None:
    """The last thing of all: whatever a test, a server or a killed process has left is gone."""
    if _OURS:
        shutil.rmtree(os.environ[_MADE], ignore_errors=True)


def pytest_collection_finish() -> None:
    """What was collected stays until the end: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave a part of every grid of cases to ``make test``, and find the properties for ``make nightly``.

    What takes longest is begun first.
    """
    thin_out(items)
    longest_first(items)
    for item in items:  # Hypothesis marks the properties that are tests, and not those that a test calls
        if isinstance(item, pytest.Function) and {"given", "run_state_machine_as_test"} & set(
            item.function.__code__.co_names
        ):
            item.add_marker("hypothesis")
