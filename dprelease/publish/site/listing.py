"""The files of a bundle as a page lists them: each with a word on what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.publish.packed import size_of

__all__ = ["ALWAYS", "Download", "downloads", "others", "size"]

# Media types are those that schema.org's encodingFormat asks for.
_OF_A_TABLE = (
    (".csv", "CSV", "text/csv"),
    (".parquet", "Parquet", "application/vnd.apache.parquet"),
    (".json", "JSON-stat", "application/json"),
    (".sdmx.csv", "SDMX-CSV", "application/vnd.sdmx.data+csv"),
)
# Of the whole bundle, in this order; those without a mark are in every bundle, and need not be made before the page.
ALWAYS = frozenset({"accounting.html", "accounting.json", "facts.json", "manifest.json", "plan.json"})
_OF_ALL = (
    ("tables/workbook.xlsx", "every table as a sheet, for Excel and LibreOffice"),
    ("datapackage.json", "what every column of the CSV files is, for programs (Frictionless Data Package)"),
    ("measurements/recipe.json", "the noisy measurements themselves, and how every number was made of them"),
    ("accounting.html", "what was spent and why"),
    ("accounting.json", "the same for programs"),
    ("certificate.pdf", "a summary of the accounting to sign and file"),
    ("registry.yaml", "an entry for the registry of deployments of differential privacy"),
    ("nist-800-226.md", "answers to what NIST SP 800-226 asks"),
    ("plan.json", "everything that was decided before the data was read"),
    ("facts.json", "what the ledger and the environment said"),
    ("manifest.json", "every file with its size and SHA-256"),
)
_SIGNATURE = ("manifest.sig", "the signature over the manifest")


@dataclass(frozen=True)
class Download:
    """A file to link to; ``size`` is empty where it is not known yet."""

    path: str
    label: str
    media: str
    size: str


def downloads(name: str, files: Mapping[str, bytes]) -> tuple[Download, ...]:
    """The files of one table, among those made so far."""
    return tuple(
        Download(f"tables/{name}{ending}", label, media, size(size_of(files, f"tables/{name}{ending}")))
        for ending, label, media in _OF_A_TABLE
        if f"tables/{name}{ending}" in files
    )


def others(files: Mapping[str, bytes], *, signed: bool) -> tuple[tuple[str, str], ...]:
    """Every other file that the index links to, and what it is: those made so far, and those of every bundle."""
    found = [(path, words) for path, words in _OF_ALL if path in files or path in ALWAYS]
    return (*found, _SIGNATURE) if signed else tuple(found)


def size(count: int) -> str:
    """A number of bytes as a person reads it."""
    return f"{count} bytes" if count < 1000 else f"{count / 1000:,.1f} kB" if count < 1e6 else f"{count / 1e6:,.1f} MB"
