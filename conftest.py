"""Before anything is collected: Prefect's files go to a folder that is thrown away, and Hypothesis has its profiles.

``fast`` and ``full`` try the same examples in every run, on every machine and in every order of the tests: a test that
passes goes on passing until somebody changes what it tests. ``nightly`` searches at random; what it finds is printed,
with the line that repeats it. ``tests/README.md`` says which command uses which. How long an example takes is no law.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile

import pytest
from hypothesis import settings

from tests.tiers import FAST, steady_examples, thin_out

settings.register_profile("fast", deadline=None, derandomize=True, database=None, print_blob=True, max_examples=FAST)
settings.register_profile("full", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile("nightly", deadline=None, derandomize=False, database=None, print_blob=True)
settings.load_profile("full")  # unless `--hypothesis-profile` names another one
steady_examples()

_HOME = tempfile.mkdtemp(prefix="dprelease-tests-")
os.environ["PREFECT_HOME"] = _HOME  # importing Prefect, as the doctests do, makes this folder
os.environ["DO_NOT_TRACK"] = "1"
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)


def pytest_collection_finish() -> None:
    """What was collected stays until the end: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave a part of every grid of cases to ``make test``, and find the properties for ``make nightly``."""
    thin_out(items)
    for item in items:  # Hypothesis marks the properties that are tests, and not those that a test calls
        if isinstance(item, pytest.Function) and {"given", "run_state_machine_as_test"} & set(
            item.function.__code__.co_names
        ):
            item.add_marker("hypothesis")
