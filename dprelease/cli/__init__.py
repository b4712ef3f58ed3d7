"""What can be typed? The commands, and how they show things to a person or a machine.

Floor 9. Heavy imports happen inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Entry point of the ``dprelease`` command."""
    from dprelease.cli.app import run_app

    run_app()
