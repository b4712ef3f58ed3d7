"""The ledger of a project, with its anchors: the one place where it is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from dprelease.errors import LedgerError
from dprelease.ledger import Ledger, open_ledger
from dprelease.release.project import Project
from dprelease.spec.project import HOST

__all__ = ["open_books", "open_rehearsal_books"]

_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def open_books(project: Project) -> Ledger:
    """The ledger that ``dprelease.yaml`` names; nothing is created until the first reservation.

    Raises:
        LedgerError: If it names no store that is there, a variable in it is not set, this host has no name (DPR-L327),
            or the policy demands an anchor that all hosts share and there is none (DPR-L326).
        MissingExtra: If its driver is not installed.
    """
    settings = project.settings
    if project.policy.shared_anchor == "required" and not settings.shared_anchors:
        raise LedgerError(
            f"the policy ({settings.policy}) demands a shared anchor, and dprelease.yaml lists none",
            detail="without it a ledger that lost its end can look whole to a host that did not write it",
            hint="write `shared_anchors: [/mnt/shared/head.json]`: a file that every host sees under this path",
            code="DPR-L326",
        )
    url = project.ledger_url(os.environ)
    host = _host(settings.host or "", os.environ)
    return open_ledger(url, project.folder, settings.anchors, host, settings.shared_anchors)


def _host(written: str, environment: Mapping[str, str]) -> str:
    """The name of this host with variables filled in; empty where none is written."""
    name = _VARIABLE.sub(lambda found: environment.get(found[1], ""), written)
    if written and not HOST.fullmatch(name):
        raise LedgerError(
            f"`host: {written}` gives no name of a host",
            detail="it stands in the ledger, before the anchors that this host alone has",
            hint="set its environment variable to a name of letters, digits, dots, - and _ that stays: worker-1",
            code="DPR-L327",
        )
    return name


def open_rehearsal_books(folder: Path) -> Ledger:
    """An empty ledger in a folder that is thrown away."""
    return open_ledger("sqlite:///ledger.db", folder)
