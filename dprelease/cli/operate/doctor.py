"""``dprelease doctor``: whether the installation, this machine and the project are as a release needs them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from dprelease.cli.options import Folder, Json
from dprelease.cli.views import say, say_json
from dprelease.errors import CheckFailed, DpReleaseError

__all__ = ["doctor_command"]


def doctor_command(folder: Folder = Path(), as_json: Json = False) -> None:
    """Versions, extras, keys, folders, ledger, clock, locks and Prefect; exits with 7 where something is wrong."""
    import os
    from datetime import UTC, datetime

    from dprelease.flows import prefect_server
    from dprelease.release.health.condition import Condition
    from dprelease.release.health.installation import installation
    from dprelease.release.health.machine import machine
    from dprelease.release.project import Project

    found = [*installation()]
    try:
        project = Project.find(folder)
    except DpReleaseError as error:
        found.append(Condition("project", "wrong", f"{error.code} {error.summary}", error.hint))
    else:
        says = f"{project.folder}, with {len(project.policy.accounts)} account(s) in its policy"
        found += [Condition("project", "good", says), *machine(project, os.environ, datetime.now(UTC))]
    found.append(prefect_server(os.environ))
    if as_json:
        say_json({"conditions": [asdict(each) for each in found]})
    else:
        for each in found:
            say(each.line)
    if wrong := [each.about for each in found if each.state == "wrong"]:
        raise CheckFailed(
            f"{len(wrong)} of {len(found)} conditions are wrong: {', '.join(dict.fromkeys(wrong))}",
            hint="each says above what to do",
            code="DPR-C120",
        )
