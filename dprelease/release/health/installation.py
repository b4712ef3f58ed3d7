"""Is dprelease installed as it must be? The versions that it was made for, and its extras."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from dprelease.engines.spark.session import LEAST_JAVA, java_version
from dprelease.formats import FORMATS
from dprelease.publish.publishable import missing_extras
from dprelease.release.health.condition import Condition

__all__ = ["installation"]

_FOR_USERS = ("dev",)  # extras that no release needs


def installation() -> Iterator[Condition]:
    """Python, the packages that are needed, the extras, and where randomness comes from."""
    yield _python()
    wanted = [Requirement(text) for text in requires("dprelease") or ()]
    yield from _packages([each for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})])
    extras = [name for name in metadata("dprelease").get_all("Provides-Extra") or () if name not in _FOR_USERS]
    for name in sorted(extras):
        yield _extra(name, [each for each in wanted if each.marker and each.marker.evaluate({"extra": name})])
    # A package can be there without the library of the system that it needs.
    for name, says in missing_extras(FORMATS).items():
        yield Condition(
            f"format {name}", "note", says, f"leave it out of `publish: formats`, or install what {name} needs"
        )
    yield from _java()
    yield _entropy()


def _python() -> Condition:
    asked = SpecifierSet(metadata("dprelease")["Requires-Python"] or "")
    found = platform.python_version()
    if asked.contains(found, prereleases=True):
        return Condition("python", "good", found)
    return Condition("python", "wrong", f"{found}; dprelease is made for {asked}", "install it for one of these")


def _packages(wanted: Sequence[Requirement]) -> Iterator[Condition]:
    """What is missing or of another version than was tested; one line where all is well."""
    wrong = [problem for each in wanted if (problem := _mismatch(each))]
    if not wrong:
        yield Condition("packages", "good", f"all {len(wanted)} that dprelease needs, in versions that it was made for")
    for says in wrong:
        hint = "pip install --upgrade dprelease, in an environment of its own; or the version that is named here"
        yield Condition("packages", "wrong", says, hint)


def _mismatch(wanted: Requirement) -> str:
    try:
        found = version(wanted.name)
    except PackageNotFoundError:
        return f"{wanted.name} is not installed; {wanted.name}{wanted.specifier} is needed"
    fits = wanted.specifier.contains(found, prereleases=True)
    return "" if fits else f"{wanted.name} {found} is installed; {wanted.name}{wanted.specifier} is needed"


def _extra(name: str, wanted: Sequence[Requirement]) -> Condition:
    own = [each for each in wanted if each.name != "dprelease"]
    wrong = [problem for each in own if (problem := _mismatch(each))]
    if wrong:
        hint = f"pip install 'dprelease[{name}]', where it is wanted"
        return Condition(f"extra {name}", "note", "; ".join(wrong), hint)
    return Condition(f"extra {name}", "good", ", ".join(f"{each.name} {version(each.name)}" for each in own))


def _java() -> Iterator[Condition]:
    """The Java that Spark would run in, where PySpark is installed."""
    try:
        version("pyspark")
    except PackageNotFoundError:
        return
    found, hint = java_version(), "install Java 17 (`apt install openjdk-17-jre-headless`), or let JAVA_HOME name it"
    if found is None:
        yield Condition("java", "note", f"none is found, and `engine: spark` needs {LEAST_JAVA} or later", hint)
    elif found < LEAST_JAVA:
        yield Condition("java", "note", f"{found}; `engine: spark` needs {LEAST_JAVA} or later", hint)
    else:
        yield Condition("java", "good", f"{found}, for `engine: spark`")


def _entropy() -> Condition:
    try:
        drawn = os.urandom(32)
    except NotImplementedError:
        return Condition("randomness", "wrong", "the operating system gives none", "no release can be drawn here")
    return Condition("randomness", "good", f"{len(drawn)} bytes of the operating system's")
