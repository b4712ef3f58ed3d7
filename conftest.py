"""Before anything is collected: Prefect's files of a test run go to a folder that is thrown away."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_HOME = tempfile.mkdtemp(prefix="dprelease-tests-")
os.environ["PREFECT_HOME"] = _HOME  # importing Prefect, as the doctests do, makes this folder
os.environ["DO_NOT_TRACK"] = "1"
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
