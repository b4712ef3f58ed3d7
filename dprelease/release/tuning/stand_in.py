"""May a plan be compared with the truth here? Only where somebody said so, and on no data that an account has paid for.

Whoever tunes a spec on the data that it will be released from chooses it by them, and the figures of the comparison
carry what no noise hides: the loss that the ledger shows would then be wrong. So files that the ledger knows, by their
keyed hashes, are refused, always: what such a look has cost could not be said, so that nothing could be charged for it.
A file is known byte by byte. An edited copy, or next month's file of the same persons, is not recognised; that nobody
compares with those is in the hands of whoever says that he may see the data.

Every look is recorded before it: a release of the very files that its plan was tuned on says so. Of those too an edited
copy is not recognised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dprelease.catalog.table import Table
from dprelease.engines import Engine
from dprelease.errors import LedgerError, Problem, SpecError, Where
from dprelease.ledger.tables.sources import require_unpaid
from dprelease.plan.document import ReleasePlan
from dprelease.release.data.sources import SourceKey, fingerprints, source_key
from dprelease.release.project import Project
from dprelease.release.publishing.published import require_accounted
from dprelease.release.rehearsal import Rehearsal

__all__ = ["UTILITY", "StandIn", "require_consent", "require_outside", "require_terminal", "stand_in"]

UTILITY = "dprelease utility"
_TRUTH = "a comparison with the truth is confidential, and no noise hides what it shows"
_STAND_IN = (
    "add `--i-can-see-the-data` where the spec reads public or made-up data that stand in for the confidential ones; "
    "or `--synthetic`, which makes up rows and reads none"
)


@dataclass(frozen=True)
class StandIn:
    """Files that no account has paid for, as they were when that was looked up and recorded."""

    engine: Engine
    tables: Mapping[str, Table]
    key: SourceKey
    files: Mapping[str, tuple[str, ...]]

    def require_same(self) -> None:
        """Refuse figures of other files than those that were looked up.

        Raises:
            LedgerError: One was written to meanwhile (DPR-L172).
        """
        now = fingerprints(self.engine, self.tables, self.key)
        changed = [name for name, files in self.files.items() if now[name] != files]
        if changed:
            raise LedgerError(
                f"the files of table {changed[0]!r} were written to while they were compared",
                detail="nobody can tell what was compared; no figure is shown",
                hint="compare again once nothing writes to them",
                code="DPR-L172",
            )


def require_consent(allowed: bool, says: str = _TRUTH, hint: str = _STAND_IN, command: str = UTILITY) -> None:
    """Refuse to look at data without a word that they may be seen.

    Args:
        allowed: Whether somebody said so.
        says: What is confidential.
        hint: What to add, and when.
        command: That looks.

    Raises:
        SpecError: Nobody said so (DPR-S020).
    """
    if not allowed:
        raise SpecError([Problem("DPR-S020", says, hint, Where(command))])


def require_terminal(is_terminal: bool, shows: str, hint: str, command: str) -> None:
    """Refuse to show confidential figures where nobody sees them appear: in a pipe, or in a log of a scheduler.

    Args:
        is_terminal: Whether what is shown goes to a terminal.
        shows: What is shown.
        hint: What to do instead.
        command: That shows it.

    Raises:
        SpecError: It is none (DPR-S022).
    """
    if not is_terminal:
        says = f"`{command}` {shows}, and what it would write to is no terminal"
        raise SpecError([Problem("DPR-S022", says, hint, Where(command))])


def require_outside(project: Project, out: Path | None) -> None:
    """Refuse to write figures where releases are, or rehearsals of them.

    Raises:
        SpecError: ``out`` lies there (DPR-S021).
    """
    if out is None:
        return
    for folder in (project.releases, Rehearsal.releases(project.releases)):
        if out.resolve().is_relative_to(folder.resolve()):
            hint = "the figures are confidential and no part of a release: give a place that nobody publishes"
            says = f"{out} lies among the releases, in {folder}"
            raise SpecError([Problem("DPR-S021", says, hint, Where("--out"))])


def stand_in(
    project: Project, plan: ReleasePlan, tables: Mapping[str, Table], engine: Engine, command: str = UTILITY
) -> StandIn:
    """Look up in the ledger whether an account has paid for a file of these tables, and record which command looks.

    The record is durable before anything is read; where there is no ledger yet, this begins it.

    Raises:
        LedgerError: One has (DPR-L170), or that cannot be told, because the key of the fingerprints is another one
            or none (DPR-L171); or the ledger, or some of it, is gone (as of ``published.require_accounted``).
        Unavailable: A source cannot be read.
    """
    ledger = project.open_ledger()
    require_accounted(ledger, project.releases, plan.release.name, plan.release.period)
    read = [body for body in ledger.files_read() if body.reservation]
    # Made by the first that reads; one that is made now would recognise nothing of what was read before.
    key = source_key(project.source_key, project.releases, ledger) if project.source_key.exists() or not read else None
    if key is None or any(fact.key != key.id for fact in read):
        raise LedgerError(
            "whether an account has paid for these data cannot be told: the ledger knows files by another key",
            detail=f"the key of source fingerprints is read from {project.settings.source_key}",
            hint="put that file back from a backup; or compare in a project of its own, with stand-in data",
            code="DPR-L171",
        )
    files = fingerprints(engine, tables, key)
    require_unpaid(read, files, key.id)
    ledger.look(plan, files, key.id, command)
    return StandIn(engine, tables, key, files)
