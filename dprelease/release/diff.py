"""The two arguments of `dprelease diff`.

Each may be a bundle folder, NAME/PERIOD, a frozen plan or a spec; all are resolved to a plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from dprelease.errors import PublishError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.changes import Moved, moved
from dprelease.plan.explain.differences import union
from dprelease.publish import Comparison, Released, compare_releases
from dprelease.publish.bundle.checks.opened import OpenedBundle, read_bundle
from dprelease.publish.bundle.package import planned_files
from dprelease.publish.comparing.earlier import draws_of
from dprelease.release.bundle_place import bundle_folder
from dprelease.release.planning import open_target, plan_release, read_frozen

__all__ = ["Diff", "DiffSide", "compare_sides", "open_bundle", "open_side"]


@dataclass(frozen=True)
class DiffSide:
    """One of two that are compared.

    Attributes:
        given: As the user wrote it.
        kind: What it is.
        plan: The plan of the bundle, as it is shown; the one that was frozen; or the one that the spec has now.
        released: What was measured, of a bundle.
    """

    given: str
    kind: Literal["bundle", "plan", "spec"]
    plan: ReleasePlan
    released: Released | None = None


@dataclass(frozen=True)
class Diff:
    """What differs between two sides.

    Attributes:
        first: Before.
        second: After.
        moved: Between their plans.
        numbers: What is published otherwise; None where one of the sides was not measured.
        dropped: Paths of files that the first one's bundle alone has, as far as plans decide them.
        added: Paths of files that the second one's alone has.
    """

    first: DiffSide
    second: DiffSide
    moved: Moved
    numbers: Comparison | None
    dropped: tuple[str, ...]
    added: tuple[str, ...]


def open_side(given: str, period: str | None = None) -> DiffSide:
    """A bundle's folder, a plan that ends in ``.json``, the file of a spec, or NAME/PERIOD of a release of the project.

    Args:
        given: One of these; a spec is planned, and no data are read for it.
        period: Takes the place of a spec's own.

    Raises:
        PublishError: If it is no whole bundle (DPR-W120).
        PlanError: If it is no whole frozen plan (DPR-P301, DPR-P302), or the spec's budget cannot buy its plan.
        SpecError: If the spec or its project is wrong.
    """
    path = Path(given)
    if path.suffix == ".json":
        return DiffSide(given, "plan", read_frozen(path).plan)
    if path.is_file() or path.suffix in (".yaml", ".yml"):
        target = open_target(path, period)
        return DiffSide(given, "spec", plan_release(target))
    released = _released(given)
    return DiffSide(given, "bundle", released.plan, released)


def compare_sides(first: DiffSide, second: DiffSide, confidence: Fraction) -> Diff:
    """What differs between two sides: their numbers too where both were measured.

    Args:
        first: The earlier one.
        second: The later one.
        confidence: That no number is named that did not change.
    """
    numbers = None
    if first.released is not None and second.released is not None:
        numbers = compare_releases(first.released, second.released, confidence)
    changes = moved(first.plan, second.plan) if numbers is None else numbers.moved
    files = [planned_files(side.plan) for side in (first, second)]
    before, after = (set(each) for each in files)
    changed = [path for path in union(*files) if (path in before) != (path in after)]
    return Diff(
        first,
        second,
        changes,
        numbers,
        dropped=tuple(path for path in changed if path in before),
        added=tuple(path for path in changed if path in after),
    )


def open_bundle(given: str) -> OpenedBundle:
    """A bundle by its folder, or by NAME/PERIOD of a release of the project in the working folder.

    Raises:
        PublishError: If its manifest cannot be read (DPR-W120).
    """
    path = bundle_folder(given)
    bundle, why = read_bundle(path)
    if bundle is None:
        raise _no_bundle(given, why)
    return bundle


def _released(given: str) -> Released:
    bundle = open_bundle(given)
    measured, lacking = bundle.measured
    if bundle.shown is None or measured is None:
        raise _no_bundle(given, lacking)
    return Released(bundle.shown, measured, draws_of(bundle.earlier))


def _no_bundle(given: str, why: str) -> PublishError:
    return PublishError(
        f"{given} is no whole bundle: {why}",
        hint="give the folder of a release, its NAME/PERIOD, a plan of `dprelease plan --out`, or a spec; "
        "`dprelease verify` says what is wrong with a folder",
        code="DPR-W120",
    )
