"""A bundle made again from its own plan, measurements and facts, and compared file by file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.formats import FORMATS, Format
from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import table_names
from dprelease.publish.bundle.checks.opened import Check, OpenedBundle, say_which
from dprelease.publish.bundle.measurements import seen_measurements
from dprelease.publish.bundle.package import LOOK_FILE, bundle_files, renderers
from dprelease.publish.bundle.step_files import RECIPE
from dprelease.publish.errata import KINDS_OF_TEXTS
from dprelease.publish.manifest import MANIFEST_FILE, Manifest
from dprelease.publish.packed import digest_in, only_hashed
from dprelease.publish.publishable import missing_extras
from dprelease.publish.site.localised import languages_of

__all__ = ["NOT_COMPARED", "RENDERED_AGAIN", "VERSIONS", "Rendered", "render_again", "versions"]

VERSIONS, RENDERED_AGAIN, NOT_COMPARED = "versions", "rendered again", "not compared"
_TOOL = "dprelease"
_WORDLESS = (".csv", ".parquet")  # all others have sentences of ours (``publish.errata``)
_TEXTS = "texts"  # of pages and certificates; of all files in older bundles, which name no other
_PAGES = (".html", ".pdf")
_TEXTS_OF_RECIPE, _TEXTS_OF_FILES = KINDS_OF_TEXTS
# The kind and the number of the wording since which a file is there in every language of its release.
_IN_LANGUAGES = {
    "accounting.html": (_TEXTS, 6),
    "certificate.pdf": (_TEXTS, 6),
    "tables/workbook.xlsx": (_TEXTS_OF_FILES, 2),
}
_SIMULATION = ("numpy", "duckdb")  # make derived tables and their margins
_MISSING = "not installed"
_SETTER, _SETTER_BEFORE = "typst", "weasyprint"  # what sets the certificate, and what set it in older bundles


@dataclass(frozen=True)
class Rendered:
    """How it went.

    Attributes:
        same: Files with the same bytes.
        checks: ``rendered again``, and ``not compared`` where that could not be said of every file.
    """

    same: frozenset[str]
    checks: tuple[Check, ...]


def versions(bundle: OpenedBundle) -> Check:
    """Whether the bundle says that it was made with what is installed here; if not, a difference may be due to that."""
    theirs, ours = bundle.manifest.rendered_with, renderers()
    other = [
        f"{name} {theirs.get(name, 'an unknown version')} (here: {ours.get(name, _MISSING)})"
        for name in sorted({*theirs, *ours})
        if theirs.get(name) != ours.get(name)
    ]
    return Check(VERSIONS, None if other else True, say_which(other, "the bundle says that it was made with"))


def render_again(bundle: OpenedBundle) -> Rendered:
    """Make every file of a bundle again, and hold it against the one that is there.

    Equal bytes are equal whatever made them. Different ones are a difference, unless the manifest says that another
    version of a library made the file than is installed here: then nothing is known of it, and that is said.
    """
    plan, facts, (measured, why) = bundle.plan, bundle.facts, bundle.measured
    if plan is None or bundle.shown is None or facts is None or measured is None:
        needed = {"plan.json": plan, LOOK_FILE: bundle.shown, "facts.json": facts}
        missing = next((name for name, found in needed.items() if found is None), "")
        return _failed(f"nothing can be made again: {missing} cannot be read" if missing else why)
    other = _other_versions(bundle.manifest.rendered_with, renderers(), simulated=bool(bundle.shown.derive))
    try:
        files = seen_measurements(bundle.shown, bundle.manifest, bundle.earlier)
        with only_hashed():
            again = bundle_files(plan, measured, facts, bundle.look, bundle.sound, files, bundle.earlier)
    except Exception as error:  # a forged plan can be well formed and still name what it does not hold
        return _failed(f"the bundle cannot be made again ({type(error).__name__})")
    return _told(bundle, again, other, missing_extras(bundle.shown.publish.formats))


def _failed(why: str) -> Rendered:
    return Rendered(frozenset(), (Check(RENDERED_AGAIN, False, why),))


def _other_versions(theirs: Mapping[str, str], ours: Mapping[str, str], *, simulated: bool) -> dict[str, str]:
    """Libraries that may give other bytes here, each with the reason."""
    libraries = dict.fromkeys(name for form in FORMATS.values() for name in form.made_with)
    found = {}
    for name in (_TOOL, _TEXTS, *KINDS_OF_TEXTS, *libraries, *(_SIMULATION if simulated else ())):
        made, here = theirs.get(name, "an unknown version"), ours.get(name, _MISSING)
        if name == _SETTER and name not in theirs and _SETTER_BEFORE in theirs:
            found[name] = f"made with {_SETTER_BEFORE} {theirs[_SETTER_BEFORE]}, which this version does without"
        elif made != here:
            found[name] = f"made with {name} {made}, here is {here}"
        elif here == _MISSING:
            found[name] = f"{name} is not installed here"
    return found


def _told(
    bundle: OpenedBundle, again: Mapping[str, bytes], other: Mapping[str, str], missing: Mapping[str, str]
) -> Rendered:
    """Hold the files against each other.

    Args:
        bundle: What is checked.
        again: Its files as they are made here; those that cannot be made here are taken from the bundle.
        other: Libraries that may give other bytes here, each with the reason.
        missing: Formats that cannot be made here, each with the reason: equal bytes say nothing of their files.
    """
    makers = {} if bundle.shown is None else _makers(bundle.shown)
    same, differ, unknown = set(), [], {}
    later = _made_later(bundle)
    for path in sorted({*bundle.manifest.files, *again} - {MANIFEST_FILE} - later):
        form = makers.get(path, makers.get(f"{path.partition('/')[0]}/"))
        absent = missing.get(form.name, "") if form else ""
        reason = absent or _reason(path, form, other)
        there = path in again and path in bundle.sound  # whose hash is the manifest's
        if there and digest_in(again, path) == bundle.manifest.files[path].sha256 and not absent:
            same.add(path)
        elif reason and there:
            unknown[path] = reason
        else:
            differ.append(path)
    if not _same_manifest(bundle.manifest, again[MANIFEST_FILE]):
        differ.append(MANIFEST_FILE)
    checks = [_result(len(same), differ, len(unknown))]
    if unknown:
        reasons = "; ".join(dict.fromkeys(unknown.values()))
        checks.append(Check(NOT_COMPARED, None, f"{say_which(list(unknown), reasons)}"))
    return Rendered(frozenset(same), tuple(checks))


def _made_later(bundle: OpenedBundle) -> frozenset[str]:
    """Files that this version makes, by language, and those with an older wording did not."""
    told, shown = bundle.manifest.rendered_with, bundle.shown
    if shown is None:
        return frozenset()
    names = [path for path, (kind, since) in _IN_LANGUAGES.items() if _wording(told.get(kind, "0")) < since]
    paths = {f"{tag}/{name}" for tag in languages_of(shown)[1:] for name in names}
    return frozenset(paths - bundle.manifest.files.keys())


def _wording(told: str) -> int:
    """The number of a wording that a manifest names; one that is none is taken for a new one, which excuses nothing."""
    return int(told) if told.isdecimal() else max(since for _, since in _IN_LANGUAGES.values())


def _makers(plan: ReleasePlan) -> dict[str, Format]:
    """The format of each file, and of each folder, that a plan has from formats."""
    forms = [FORMATS[name] for name in plan.publish.formats]
    files = {path: form for form in forms for path in form.paths(table_names(plan))}
    folders = {form.folder: form for form in forms if form.folder}
    further = languages_of(plan)[1:]
    in_languages = {f"{tag}/": form for form in folders.values() for tag in further}
    once = {f"{tag}/{path}": form for form in forms if form.in_languages for path, _ in form.once for tag in further}
    return files | folders | in_languages | once


def _reason(path: str, form: Format | None, other: Mapping[str, str]) -> str:
    """Why the bytes of a file may differ here; empty: they may not."""
    texts = () if path.endswith(_WORDLESS) else (_texts_of(path),)
    depends = (*(form.made_with if form else ()), _TOOL, *texts, *_SIMULATION)
    return next((other[name] for name in depends if name in other), "")


def _texts_of(path: str) -> str:
    """Whose wording a file has."""
    if path.endswith(_PAGES):
        return _TEXTS
    return _TEXTS_OF_RECIPE if path == RECIPE else _TEXTS_OF_FILES


def _same_manifest(found: Manifest, again: bytes) -> bool:
    """Whether a manifest says what is said again; hashes and versions are looked at by themselves."""
    kept = {"files": found.files, "rendered_with": found.rendered_with, "sums": found.sums}
    return Manifest.from_canonical(again).model_copy(update=kept) == found


def _result(same: int, differ: list[str], unknown: int) -> Check:
    if differ:
        return Check(RENDERED_AGAIN, False, say_which(differ, "not what plan, measurements and facts give"))
    told = f"{same} files have the same bytes"
    return Check(
        RENDERED_AGAIN, True if same else None, f"{told}; {unknown} could not be compared" if unknown else told
    )
