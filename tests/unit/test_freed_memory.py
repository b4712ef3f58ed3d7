"""What is free goes back to the machine."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from dprelease.freed_memory import give_back

_FREED = """
import os, sys
from dprelease.freed_memory import give_back
def held():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
pieces = [bytes(b"x") * 60_000 for _ in range(2_000)]
del pieces[:-1]  # the last one keeps what is below it
before = held()
give_back()
print(before - held())
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library cannot"
)
def test_what_the_c_library_keeps_below_what_is_used_goes_back() -> None:
    """A hundred MiB in small pieces, of which the last is used."""
    told = subprocess.run([sys.executable, "-c", _FREED], check=True, capture_output=True, text=True)
    assert float(told.stdout) > 90


def test_there_may_be_nothing_to_give_back_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprelease.freed_memory._trim", lambda: None)
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    give_back()
