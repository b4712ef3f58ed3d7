"""``dprelease metrics``: what a monitor should know of a project, in Prometheus' text format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.commands.due import due_schedules
from dprelease.cli.options import Folder, open_project
from dprelease.errors import CheckFailed, SpecError

__all__ = ["metrics_command"]


def metrics_command(
    folder: Folder = Path(),
    textfile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there, whole or not at all; else it is printed.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Check the whole ledger, too.")] = False,
) -> None:
    """Periods due and late, budgets spent and left, the last release and the ledger, for Prometheus."""
    import sys
    from datetime import UTC, datetime

    from dprelease.regular import replace_file
    from dprelease.release.health.metrics import metrics_text
    from dprelease.release.records.status import policy_accounts, status_facts

    now = datetime.now(UTC)
    project, ledger = open_project(folder)
    schedules, problems = due_schedules([], folder, now)
    newest: dict[str, str] = {}
    for each in ledger.reservations():
        if each.state == "closed":
            newest[each.release] = max(newest.get(each.release, ""), each.reserved_at)
    findings = ledger.check() if check else None
    text = metrics_text(
        schedules,
        status_facts(ledger, policy_accounts(project)),
        newest,
        now,
        sound=None if findings is None else not findings,
    )
    if textfile is None:
        sys.stdout.write(text)
    else:
        try:
            replace_file(textfile, text.encode(), 0o644)
        except OSError as error:
            says = f"{textfile} cannot be written: {error.strerror}; name a file in a folder that is there"
            raise typer.BadParameter(says, param_hint="--textfile") from None
    if problems:
        raise SpecError(problems)
    if findings:
        raise CheckFailed(
            f"the ledger is not sound: {len(findings)} finding(s)", hint="`dprelease ledger check`", code="DPR-C101"
        )
