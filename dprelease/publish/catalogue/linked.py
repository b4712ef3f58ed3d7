"""What search engines for data sets read on a page: schema.org's ``Dataset`` as JSON-LD.

It stands in a ``<script type="application/ld+json">``, which is data: no browser runs it, and the content policy of the
pages (``default-src 'none'``) would let none run. Every sign that could end the element or begin another one is written
as its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from dprelease.canonical import indented
from dprelease.catalog.names import Foreign
from dprelease.estimate import PublishedTable
from dprelease.formats import FORMATS
from dprelease.publish.base import Content
from dprelease.publish.catalogue.entry import Told, told_of
from dprelease.publish.packed import size_in
from dprelease.words import phrase, spoken

__all__ = ["as_script", "catalogue_of", "dataset_of", "table_dataset", "whole_dataset"]

_MOST = 50  # downloads that a page names; all are in dcat.jsonld and datapackage.json
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&'"}
_NAMELESS = "Releases with differential privacy"


def as_script(value: Mapping[str, Any]) -> Markup:
    r"""A value of schema.org as the text of a ``script`` element of data: in ASCII, without any sign of markup.

    >>> print(as_script({"name": "</script><b>"}))
    {
     "@context": "https://schema.org",
     "name": "\u003c/script\u003e\u003cb\u003e"
    }
    """
    text = indented({"@context": "https://schema.org", **value}, plain=True)
    return Markup(text.translate(_UNSAFE))  # noqa: S704 - no sign of markup is left


def dataset_of(content: Content, root: str = "") -> dict[str, Any]:
    """The release as a ``Dataset``, without its files.

    Args:
        content: The release.
        root: From the page to the bundle's folder.
    """
    return _dataset(_told(content), content.plan.release.period, f"{root}index.html")


def _told(content: Content) -> Told:
    """What catalogues are told, behind the author's paragraph where there is one in the language of the page."""
    told, names = told_of(content.plan, content.facts), content.plan.catalog.names
    abstract = "" if names is None else names.said("release", "abstract", language=spoken().tag)
    if not abstract or isinstance(abstract, Foreign):
        return told
    return replace(told, description=f"{abstract} {told.description}")


def whole_dataset(content: Content, files: Mapping[str, bytes], root: str = "") -> dict[str, Any]:
    """The release with what is measured and where its files are, as its front page says it.

    Args:
        content: The release.
        files: Made so far.
        root: From the page to the bundle's folder.
    """
    return {
        **dataset_of(content, root),
        **_variables(content.tables),
        **_downloads([path for table in content.tables for path in _paths(table, files)], files, root),
    }


def table_dataset(
    content: Content, tables: Iterable[PublishedTable], title: str, files: Mapping[str, bytes], root: str
) -> dict[str, Any]:
    """The tables of one page as a part of the release.

    Args:
        content: The release.
        tables: That are on the page.
        title: Of the page.
        files: Made so far.
        root: From the page to the bundle's folder.
    """
    shown = list(tables)
    paths = [path for table in shown for path in _paths(table, files)]
    told = _told(content)
    whole = dataset_of(content, root)
    return {
        "@type": "Dataset",
        "name": title,
        "description": phrase("{table}: a part of {release}.", table=title, release=told.title)
        + f" {told.description}",
        **({"license": told.licence} if told.licence else {}),
        **({"creator": whole["creator"]} if "creator" in whole else {}),
        **_variables(shown),
        "isPartOf": whole,
        **_downloads(paths, files, root),
    }


def catalogue_of(name: str, parts: Iterable[tuple[Told, str, str]]) -> dict[str, Any]:
    """Several releases as a ``DataCatalog``.

    Args:
        name: Of the page; empty: it has none of its own.
        parts: Each release with its period and the address of its front page.
    """
    found = [_dataset(told, period, url) for told, period, url in parts]
    return {"@type": "DataCatalog", "name": name or _NAMELESS, **({"dataset": found} if found else {})}


def _dataset(told: Told, period: str, url: str) -> dict[str, Any]:
    creator = {"@type": "Organization", "name": told.publisher, **({"email": told.email} if told.email else {})}
    more = {
        "identifier": told.identifier,
        "license": told.licence,
        "creator": creator if told.publisher else "",
        "datePublished": told.issued,
        "dateModified": told.issued,
        "temporalCoverage": told.interval or period,
        "spatialCoverage": {"@type": "Place", "name": told.spatial} if told.spatial else "",
        "keywords": list(told.keywords),
        "creditText": told.citation if told.said else "",
    }
    return {
        "@type": "Dataset",
        "name": told.title,
        "description": told.description,
        "url": url,
        "version": told.version,
        "inLanguage": spoken().tag,
        "isAccessibleForFree": True,
        **{name: value for name, value in more.items() if value},
    }


def _variables(tables: Iterable[PublishedTable]) -> dict[str, Any]:
    """What is measured, as readers of the page see it, with the name that it has in the files where that is another."""
    found = dict.fromkeys((measure.name, measure.shown) for table in tables for measure in table.measures)
    variables = [
        {"@type": "PropertyValue", "name": shown, **({"alternateName": name} if shown != name else {})}
        for name, shown in list(found)[:_MOST]
    ]
    return {"variableMeasured": variables} if variables else {}


def _paths(table: PublishedTable, files: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Its files with their media types."""
    forms = [form for form in FORMATS.values() if form.ending]
    return [(path, form.media_type) for form in forms if (path := form.path(table.name)) in files]


def _downloads(paths: list[tuple[str, str]], files: Mapping[str, bytes], root: str = "") -> dict[str, Any]:
    """Files with their media types and sizes; where they are many, the descriptor of all of them."""
    descriptor = [(path, "application/json") for path in ("datapackage.json",) if path in files]
    found = [
        {
            "@type": "DataDownload",
            "contentUrl": f"{root}{path}",
            "encodingFormat": media,
            "contentSize": f"{size_in(files, path)} B",
        }
        for path, media in (paths if len(paths) <= _MOST else descriptor)
    ]
    return {"distribution": found} if found else {}
