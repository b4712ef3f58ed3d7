"""What is free goes back to the machine, or stays for what is asked for next."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from dprelease.freed_memory import give_back, keep_freed

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
_BLOCKS = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from dprelease.freed_memory import give_back, keep_freed

def worked(rounds):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        arrays = [np.ones(1 << 17) for _ in range(6)]
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "kept":
    keep_freed()
with ThreadPoolExecutor(1) as pool:
    pool.submit(worked, 3).result()
    print(pool.submit(worked, 60).result())
    give_back()
    print(pool.submit(worked, 1).result())
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library cannot"
)
def test_what_the_c_library_keeps_below_what_is_used_goes_back() -> None:
    """A hundred MiB in small pieces, of which the last is used."""
    told = subprocess.run([sys.executable, "-c", _FREED], check=True, capture_output=True, text=True)
    assert float(told.stdout) > 90


def test_there_may_be_nothing_to_give_back_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprelease.freed_memory._of_c_library", lambda name: None)
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    give_back()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives back what is freed at once")
def test_arrays_of_blocks_are_not_fetched_from_the_system_again_and_again() -> None:
    """Each of 60 rounds frees 6 MB, which are 1,536 pages; they are taken from the system once, or every time."""
    faults = {
        how: [
            int(line)
            for line in subprocess.run(
                [sys.executable, "-c", _BLOCKS, how], capture_output=True, check=True, text=True
            ).stdout.split()
        ]
        for how in ("kept", "freed")
    }
    assert faults["freed"][0] > 60 * 1000
    assert faults["kept"][0] < 3 * 1536
    assert faults["kept"][1] > 1000  # what was given back is fetched again


def test_there_may_be_nothing_that_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another C library than glibc, or on another system."""
    monkeypatch.setattr("dprelease.freed_memory._of_c_library", lambda name: None)
    keep_freed()
