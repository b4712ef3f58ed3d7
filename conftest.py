"""Before anything is collected: Prefect's files go to a folder that is thrown away, and no test is timed."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # how long an example takes is no law
settings.load_profile("untimed")

_HOME = tempfile.mkdtemp(prefix="dprelease-tests-")
os.environ["PREFECT_HOME"] = _HOME  # importing Prefect, as the doctests do, makes this folder
os.environ["DO_NOT_TRACK"] = "1"
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
