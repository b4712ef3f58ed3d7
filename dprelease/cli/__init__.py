"""What can be typed? The commands, and how they show things to a person or a machine.

Floor 9. Heavy imports happen inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from functools import partial

from dprelease.freed_memory import COLLECTED_AFTER

__all__ = ["command", "main"]


def command() -> None:
    """The whole life of a process of the ``dprelease`` command.

    Once the command has ended, the threads have, and all that was registered for the end is done, nothing is left but
    to free what the system takes back in any case, value by value; so the process ends there.
    """
    ended: list[int] = []
    atexit.register(partial(_end, ended))  # the first that is registered is called last
    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, int | None):
            ended.append(end.code or 0)
        raise
    ended.append(0)


def _end(ended: list[int]) -> None:
    """End the process with the code that the command has ended with; Python does where it has none, or cannot write."""
    if not ended:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):  # nobody reads it, its disk is full, or it was closed
        return
    os._exit(ended[0] & 0xFF)


def main() -> None:
    """Run the command that this process was started with."""
    # Before anything of pydantic: what else is installed has no say in what a value is, and need not be looked through.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    # Before anything of NumPy, whose threads else look for work for 70 ms before they sleep.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    gc.set_threshold(*COLLECTED_AFTER)
    from dprelease.cli.app import run_app

    run_app()
