"""What catalogues ask of a release: licence, identifier, citation, keywords, what it covers, and its dates."""

from __future__ import annotations

from typing import ClassVar

from dprelease.canonical import GrownValue

__all__ = ["CatalogueEntry"]


class CatalogueEntry(GrownValue):
    """What the author said for catalogues; empty where nothing was said.

    Attributes:
        licence: The address of the licence that the data may be used under.
        citation: How it is to be cited, where the author says it in words of their own.
        identifier: A persistent identifier: a DOI as its address, another address, or a text.
        keywords: In the author's order.
        spatial: The place that the data are about, in words or as the address of a code list's entry.
        start: The first day that the data are about, as ``YYYY-MM-DD``.
        end: The last day.
        published: The day of publication, where it is not that of the charge.
        version: Of this publication.
        themes: Codes of the European data themes, in the author's order.
        frequency: How often the product is published.
        publisher_type: What kind of body publishes it.
    """

    LATER: ClassVar[tuple[str, ...]] = (
        "licence",
        "citation",
        "identifier",
        "keywords",
        "spatial",
        "start",
        "end",
        "published",
        "version",
        "themes",
        "frequency",
        "publisher_type",
    )
    licence: str = ""
    citation: str = ""
    identifier: str = ""
    keywords: tuple[str, ...] = ()
    spatial: str = ""
    start: str = ""
    end: str = ""
    published: str = ""
    version: str = ""
    themes: tuple[str, ...] = ()
    frequency: str = ""
    publisher_type: str = ""
