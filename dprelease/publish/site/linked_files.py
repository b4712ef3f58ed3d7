"""The files that pages link to: those of one table, and those of the whole bundle, with what each of them is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.formats import FORMATS
from dprelease.publish.packed import size_in
from dprelease.words import marked, number_written, phrase

__all__ = ["ALWAYS", "Download", "downloads", "offered", "others"]

# Files of every bundle; these need not be made before the page.
ALWAYS = frozenset({"accounting.html", "accounting.json", "facts.json", "manifest.json", "plan.json"})
_BESIDE = {
    "measurements/recipe.json": marked("the noisy measurements themselves, and how every number was made of them"),
    "accounting.json": marked("the same for programs"),
    "registry.yaml": marked("an entry for the registry of deployments of differential privacy"),
    "nist-800-226.md": marked("answers to what NIST SP 800-226 asks"),
    "audit.md": marked("attacks on the plan before it was released, and what they proved"),
    "plan.json": marked("everything that was decided before the data was read"),
    "facts.json": marked("what the ledger and the environment said"),
    "manifest.json": marked("every file with its size and SHA-256"),
}
# What is listed first, in this order; files of formats that are not named here stand before all else.
_ORDER = (
    "tables/workbook.xlsx",
    "datapackage.json",
    "dcat.jsonld",
    "measurements/recipe.json",
    "accounting.html",
    "accounting.json",
    "certificate.pdf",
)
# What the front page offers beside its first lines.
_OFFERED = {
    "tables/workbook.xlsx": marked("Workbook of all tables"),
    "datapackage.json": marked("Description of all columns, for programs"),
    "measurements/recipe.json": marked("Noisy measurements and recipe"),
    "accounting.html": marked("How the privacy loss was accounted for"),
    "certificate.pdf": marked("Certificate"),
}
_MADE_NOW = "accounting.html"  # with these pages, in each language
_KEPT = "\u00a0"  # a space at which no line ends
_SIGNATURE = ("manifest.sig", marked("the signature over the manifest"))


@dataclass(frozen=True)
class Download:
    """A file to link to; ``size`` is empty where it is not known yet."""

    path: str
    label: str
    media: str
    size: str


def downloads(name: str, files: Mapping[str, bytes]) -> tuple[Download, ...]:
    """The files of one table, among those made so far."""
    made = ((each, each.path(name)) for each in FORMATS.values() if each.ending)
    return tuple(
        Download(path, each.label, each.media_type, size(size_in(files, path))) for each, path in made if path in files
    )


def others(files: Mapping[str, bytes], *, signed: bool, folder: str = "") -> tuple[tuple[str, str], ...]:
    """Every other file that the index links to, and what it is: those made so far, and those of every bundle.

    Args:
        files: Made so far.
        signed: Whether there will be a signature.
        folder: Of the language that is spoken, with a slash behind it, whose own files are linked where there are
            some; empty: it is the first language, whose files stand beside all others.
    """
    told = {**dict(once for each in FORMATS.values() for once in each.once), **_BESIDE}
    order = {path: at for at, path in enumerate(dict.fromkeys((*_ORDER, *_BESIDE)))}
    in_order = sorted((path for path, words in told.items() if words), key=lambda path: order.get(path, -1))
    own = {path for path in in_order if f"{folder}{path}" in files or path == _MADE_NOW}
    found = [
        (f"{folder}{path}" if path in own else path, phrase(told[path]))
        for path in in_order
        if path in files or path in ALWAYS
    ]
    return (*found, (_SIGNATURE[0], phrase(_SIGNATURE[1]))) if signed else tuple(found)


def offered(files: Mapping[str, bytes], folder: str = "") -> tuple[Download, ...]:
    """The few files that a reader may want first, with their kind and size; ``folder`` as for :func:`others`."""
    found = []
    for path, words in _OFFERED.items():
        own = f"{folder}{path}" if f"{folder}{path}" in files or path == _MADE_NOW else path
        if own in files or path in ALWAYS:
            kind = path.rpartition(".")[2].upper()
            weight = f"{kind}, {size(size_in(files, own))}" if own in files else ""
            found.append(Download(own, phrase(words), "", weight))
    return tuple(found)


def size(count: int) -> str:
    """A number of bytes as a person reads it; no line ends before its unit."""
    if count < 1000:
        return phrase("{count} bytes", count=count).replace(" ", _KEPT)
    return number_written(f"{count / 1000:,.1f}" if count < 1e6 else f"{count / 1e6:,.1f}") + (
        f"{_KEPT}kB" if count < 1e6 else f"{_KEPT}MB"
    )
