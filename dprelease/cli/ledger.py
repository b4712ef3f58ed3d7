"""``dprelease ledger``: what is spent, by account; the entries; and whether the book is sound."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["ledger_app"]

ledger_app = typer.Typer(help="What is spent, by account; the log; the check.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--project", help="A folder of the project.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def _open(folder: Path) -> tuple[Any, Any]:
    from dprelease.ledger import open_ledger
    from dprelease.release.project import Project

    project = Project.find(folder)
    return project, open_ledger(project.settings.ledger, project.folder)


@ledger_app.command()
def status(project: Folder = Path(), as_json: Json = False) -> None:
    """Spent and left per account, under the account's own composition and every accountant."""
    from dprelease.cli.views import columns, say, say_json
    from dprelease.release.status import account_status

    found, ledger = _open(project)
    facts = account_status(found, ledger)
    if as_json:
        say_json({"accounts": facts})
        return
    for account in facts:
        say(
            f"account {account['name']}: protects one {account['unit']} ({account['neighboring']}), "
            f"composition {account['composition']}, {account['releases']} release(s)"
        )
        say(
            f"  spent epsilon {account['spent']} of {account['cap']} at delta {account['delta']}; "
            f"left {account['left']}"
        )
        if account["hypothetical"]:
            rows = [[name, value] for name, value in account["hypothetical"].items()]
            say("  had all of it been fixed in advance:")
            say("    " + columns(["accountant", "epsilon"], rows, right=frozenset({1})).replace("\n", "\n    "))
    releases = [[each["release"], each["period"], each["state"], each["plan"]] for each in ledger_releases(ledger)]
    if releases:
        say("")
        say(columns(["release", "period", "state", "plan"], releases))


def ledger_releases(ledger: Any) -> list[dict[str, str]]:
    """Every release that the ledger knows."""
    return [
        {
            "release": each.release,
            "period": each.period,
            "state": each.state,
            "plan": each.plan_fingerprint[:16],
        }
        for each in ledger.reservations()
    ]


@ledger_app.command()
def log(project: Folder = Path(), as_json: Json = False) -> None:
    """Every entry in order."""
    from dprelease.cli.views import columns, say, say_json
    from dprelease.release.status import log_lines

    _, ledger = _open(project)
    lines = log_lines(ledger)
    if as_json:
        say_json({"entries": lines})
        return
    rows = [[str(each["sequence"]), each["at"], each["kind"], each["what"], each["hash"][:12]] for each in lines]
    say(columns(["entry", "at", "kind", "what", "hash"], rows, right=frozenset({0})))


@ledger_app.command()
def check(project: Folder = Path(), as_json: Json = False) -> None:
    """Chain, measurements and sums; exits with 7 where something does not hold."""
    from dprelease.cli.views import say, say_json
    from dprelease.errors import CheckFailed

    _, ledger = _open(project)
    findings = ledger.check()
    if as_json:
        say_json({"sound": not findings, "findings": list(findings)})
    elif not findings:
        say("the ledger is sound: chain, measurements and sums hold")
    if findings:
        raise CheckFailed(
            f"the ledger is not sound: {len(findings)} finding(s)",
            detail="; ".join(findings),
            hint="do not release from it; restore the newest backup that passes this check",
            code="DPR-C101",
        )
