"""What can be typed? The commands, and how they show things to a person or a machine.

Floor 9. Heavy imports happen inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import gc
import os

from dprelease.freed_memory import COLLECTED_AFTER

__all__ = ["main"]


def main() -> None:
    """Entry point of the ``dprelease`` command."""
    # Before anything of pydantic: what else is installed has no say in what a value is, and need not be looked through.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    gc.set_threshold(*COLLECTED_AFTER)
    from dprelease.cli.app import run_app

    try:
        run_app()
    finally:
        gc.freeze()  # or else Python, as it ends, looks for circles in all that was ever loaded: a quarter of a second
