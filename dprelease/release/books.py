"""The ledger of a project, with its anchors: the one place where it is opened."""

from __future__ import annotations

import os
from pathlib import Path

from dprelease.ledger import Ledger, open_ledger
from dprelease.release.project import Project
from dprelease.spec.place import ledger_resolved

__all__ = ["open_books", "open_rehearsal_books"]


def open_books(project: Project) -> Ledger:
    """The ledger that ``dprelease.yaml`` names; nothing is created until the first reservation.

    Raises:
        LedgerError: If it names no store that is there, or a variable in it is not set.
        MissingExtra: If its driver is not installed.
    """
    settings = project.settings
    return open_ledger(ledger_resolved(settings.ledger, os.environ), project.folder, settings.anchors)


def open_rehearsal_books(folder: Path) -> Ledger:
    """An empty ledger in a folder that is thrown away."""
    return open_ledger("sqlite:///ledger.db", folder)
