"""Plans made from YAML text, as if it stood in the project of examples."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

from dprelease.ledger import schemes
from dprelease.plan.document import ReleasePlan
from dprelease.release.planning import Target, plan_release
from dprelease.release.project import Project
from dprelease.spec.expect_data import load_expected
from dprelease.spec.load import load
from dprelease.spec.project import load_policy, load_project

from .documents import SPECS


def yaml_kind(text: str) -> Literal["spec", "policy", "project", "publish", "expected"]:
    """Which of the four files a YAML text is, or the one part of a spec that may stand alone: by its first key."""
    keys = (("dprelease", "spec"), ("accounts", "policy"), ("ledger", "project"), ("publish", "publish"))
    for key, kind in (*keys, ("expect_data", "expected")):
        if re.search(rf"^{key}:", text, re.MULTILINE):
            return kind  # type: ignore[return-value]  # one of those above
    raise AssertionError("neither a spec, nor a policy, nor a dprelease.yaml")


@cache
def plan_text(text: str, file: str, folder: Path = SPECS) -> ReleasePlan:
    """The plan of a spec's text, as if it stood in the project of ``folder``; no ledger is asked, no data read.

    Kept: several tests look at the same plan, and two names give two plans.
    """
    return plan_release(Target(Project.find(folder), folder / file, load(text, file)))


def check_yaml(text: str, file: str) -> ReleasePlan | None:
    """Load any of the four files, and plan it if it is a spec; what is expected of data is of the quickstart's."""
    kind = yaml_kind(text)
    if kind == "spec":
        return plan_text(text, file)
    if kind == "publish":
        spec = (SPECS / "quickstart.yaml").read_text(encoding="utf-8")
        return plan_text(re.sub(r"^publish:\n(?:[ #].*\n|\n)*", "", spec, flags=re.MULTILINE) + "\n" + text, file)
    if kind == "expected":
        load_expected(text, file, load((SPECS / "quickstart.yaml").read_text(encoding="utf-8"), file).spec)
    elif kind == "policy":
        load_policy(text, file)
    else:
        load_project(text, file, schemes())
    return None
