"""Where a project begins and where its budget stands: ``dprelease init`` and ``dprelease ledger status``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dprelease.api.frames import Shown, figures
from dprelease.release.project import Project
from dprelease.release.records.status import policy_accounts, status_facts
from dprelease.starter import create_project

__all__ = ["Spend", "init", "spend"]

_AMOUNTS = dict.fromkeys(("spent", "reserved", "left", "cap", "delta"), "number") | {"currency": "text"}


@dataclass(frozen=True, eq=False, repr=False)
class Spend(Shown):
    """What the ledger says is spent and left.

    Attributes:
        facts: What ``dprelease ledger status --json`` prints, amounts as decimal text.
    """

    facts: Mapping[str, Any]

    @property
    def accounts(self) -> pd.DataFrame:
        """One row for each account; amounts are in ``currency`` at ``delta``, and ``fits`` releases like the last."""
        columns = {"name": "text", "unit": "text", "composition": "text", "releases": "count", **_AMOUNTS}
        return figures(self.facts["accounts"], {**columns, "fits": "count", "over_cap": "flag"})

    @property
    def windows(self) -> pd.DataFrame:
        """One row for each window or stretch of an account that something was spent in."""
        rows = [{"name": account["name"], **each} for account in self.facts["accounts"] for each in account["windows"]]
        return figures(rows, {"name": "text", "window": "text", "per": "text", **_AMOUNTS, "over_cap": "flag"})

    @property
    def open(self) -> pd.DataFrame:
        """The releases that were begun and have not ended; the same ``run`` goes on with each."""
        columns = {"release": "text", "period": "text", "revision": "count", "since": "text", "plan": "text"}
        return figures(self.facts["open"], columns)

    def _told(self) -> tuple[str, Sequence[str], Mapping[str, pd.DataFrame]]:
        further = {"windows": self.windows, "open releases": self.open}
        shown = {"accounts": self.accounts, **{name: each for name, each in further.items() if len(each)}}
        told = [f"incident, entry {each['entry']}: {each['why']}" for each in self.facts["incidents"]]
        return f"spend of {len(self.accounts)} account(s) after {self.facts['entries']} entries", told, shown


def spend(project: str | os.PathLike[str] = ".") -> Spend:
    """What is spent, reserved and left, as ``dprelease ledger status`` tells it.

    Args:
        project: A folder or file of the project.

    Raises:
        SpecError: If there is no project, or its settings or policy are wrong.
        LedgerError: If the ledger cannot be read.
    """
    found = Project.find(Path(project))
    return Spend(status_facts(found.open_ledger(), policy_accounts(found)))


def init(folder: str | os.PathLike[str]) -> list[Path]:
    """Write a project to start from, with made-up data, as ``dprelease init`` does; returns the files.

    Raises:
        SpecError: If the folder is not empty or cannot be written. Nothing is overwritten.
    """
    return create_project(Path(folder))
