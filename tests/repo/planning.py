"""Plans made from YAML text, as if it stood in the project of examples."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

from dprelease.plan.document import ReleasePlan
from dprelease.release.planning import plan_release
from dprelease.release.project import Project
from dprelease.spec.load import load
from dprelease.spec.project import load_policy, load_project

from .documents import SPECS


def yaml_kind(text: str) -> Literal["spec", "policy", "project"]:
    """Which of the three files a YAML text is, by the key that only that one has at its top."""
    for key, kind in (("dprelease", "spec"), ("accounts", "policy"), ("ledger", "project")):
        if re.search(rf"^{key}:", text, re.MULTILINE):
            return kind  # type: ignore[return-value]  # one of the three above
    raise AssertionError("neither a spec, nor a policy, nor a dprelease.yaml")


@cache
def plan_text(text: str, file: str, folder: Path = SPECS) -> ReleasePlan:
    """The plan of a spec's text, as if it stood in the project of ``folder``; no ledger is asked, no data read.

    Kept: several tests look at the same plan, and two names give two plans.
    """
    return plan_release(Project.find(folder), load(text, file))


def check_yaml(text: str, file: str) -> ReleasePlan | None:
    """Load any of the three files, and plan it if it is a spec."""
    kind = yaml_kind(text)
    if kind == "spec":
        return plan_text(text, file)
    if kind == "policy":
        load_policy(text, file)
    else:
        load_project(text, file)
    return None
