"""What a release was made with, as recorded when its budget was reserved."""

from __future__ import annotations

import json
import platform
import subprocess
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions, version
from pathlib import Path

from dprelease.canonical import sha256
from dprelease.noise import SAMPLERS, Sampler

__all__ = ["environment"]

_PACKAGES = (
    "dprelease",
    "opendp",
    "duckdb",
    "ibis-framework",
    "pyarrow",
    "numpy",
    "pandas",
    "prefect",
    "dp-accounting",
)
_UNKNOWN = "not known"
_HEAD = "# branch.oid "  # before the commit, in what git says of a checkout


def environment(sampler: Sampler = "native") -> dict[str, str]:
    """Versions of what touches the numbers, the sampler and where its entropy comes from; no host, no path.

    ``commit`` and ``tree`` say which source ran, where it is told: the commit that was installed, or the checkout and
    whether it was ``clean`` or ``modified``. ``packages`` is the SHA-256 of every installed ``name==version``, sorted,
    one a line.
    """
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    versions["sampler"] = SAMPLERS[sampler]
    versions["entropy"] = "operating system"
    versions["commit"], versions["tree"] = _source()
    versions["packages"] = _installed()
    return versions


@cache  # what a process has loaded does not change while it runs
def _installed() -> str:
    known = (_headers(each) for each in distributions())
    lines = sorted({f"{name.lower().replace('_', '-')}=={number}\n" for name, number in known})
    return sha256("".join(lines).encode())


def _headers(installed: Distribution) -> tuple[str, str]:
    """Name and version as its metadata say, of a wheel, of an egg, or of an egg that is one file.

    By the first header of that name, as ``importlib.metadata`` reads them, which takes ten times as long.
    """
    text = installed.read_text("METADATA") or installed.read_text("PKG-INFO") or installed.read_text("") or ""
    found = {line.partition(":")[0].lower(): line.partition(":")[2].lstrip(" \t") for line in _first_lines(text)}
    return str(found.get("name")), str(found.get("version"))


def _first_lines(text: str) -> list[str]:
    """The headers, the last one first; lines that go on with one before them have no colon at a name of ours."""
    return [line for line in text.partition("\n\n")[0].splitlines() if line[:1].strip()][::-1]


def _source() -> tuple[str, str]:
    """The commit that runs, and the state of its files."""
    try:
        commit = _recorded(distribution("dprelease"))
    except PackageNotFoundError:
        commit = ""
    if commit:
        return commit, "clean"
    root = Path(__file__).parents[2]
    told = _git(root, "status", "--porcelain=v2", "--branch", "--", "dprelease", "pyproject.toml")
    head, *changed = [line for line in told.splitlines() if line.startswith(_HEAD) or not line.startswith("#")] or [""]
    if not head.startswith(_HEAD) or "(" in head:  # "(initial)": there is no commit
        return _UNKNOWN, _UNKNOWN
    return head.removeprefix(_HEAD), "modified" if changed else "clean"


def _recorded(installed: Distribution) -> str:
    """The commit that an installer has written down (direct_url.json of the Python packaging specifications)."""
    try:
        facts = json.loads(installed.read_text("direct_url.json") or "{}")
        return str(facts.get("vcs_info", {}).get("commit_id", ""))
    except (ValueError, AttributeError):
        return ""


def _git(root: Path, *words: str) -> str:
    """What git answers; nothing where there is no git or no checkout, or it will not."""
    if not (root / ".git").exists():
        return ""
    try:
        command = ["git", "-C", str(root), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603 - our words alone
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
