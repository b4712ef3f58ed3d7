"""``certificate.pdf``: what the certificate says, set on pages; its time is that of the charge, and no clock's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dprelease.publish.base import Content
from dprelease.publish.certificate.blocks import texts_of
from dprelease.publish.certificate.compiler import compiled
from dprelease.publish.certificate.glyphs import in_lines, printable
from dprelease.publish.certificate.sections import certificate_blocks
from dprelease.publish.html_text import moment_of
from dprelease.publish.site.localised import accountable, languages_of
from dprelease.words import marked, phrase, speaking, spoken

__all__ = ["CERTIFICATE_FILE", "certificate_data", "certificate_files", "certificate_texts"]

CERTIFICATE_FILE = "certificate.pdf"
KIND = marked("Certificate of privacy accounting")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def certificate_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``certificate.pdf`` of a release in its first language, and one in the folder of each other language.

    Args:
        content: What is released.
        files: The files made so far; none of them is needed.

    Raises:
        MissingExtra: As of :func:`compiler.compiled`.
        BrokenPromiseError: Likewise.
    """
    del files
    found, moment = {}, _moment(content.facts.reserved_at)
    for at, tag in enumerate(languages_of(content.plan)):
        with speaking(tag):
            made = compiled(certificate_data(accountable(content)), moment)
        found[f"{tag}/{CERTIFICATE_FILE}" if at else CERTIFICATE_FILE] = made
    return found


def certificate_data(content: Content) -> dict[str, Any]:
    """Every word of the certificate, and its date, as the template reads them."""
    release, moment = content.plan.release, _moment(content.facts.reserved_at)
    title = release.title or release.name
    return {
        "title": printable(f"{phrase(KIND)}: {title}, {release.period}"),
        "language": {"tag": spoken().tag, "page": phrase("Page"), "of": phrase("of")},
        "author": printable(release.curator),
        "subject": printable(
            phrase(
                "What the release {name}, period {period}, cost in privacy, and how it was done",
                name=release.name,
                period=release.period,
            )
        ),
        "date": [moment.year, moment.month, moment.day],
        "running": printable(
            phrase(
                "{name}, {period} · ledger entry {entry}",
                name=release.name,
                period=release.period,
                entry=content.facts.ledger_sequence,
            )
        ),
        "top": {"kind": in_lines(" · ".join(filter(None, (phrase(KIND), release.curator)))), "title": in_lines(title)},
        "blocks": [block.as_data() for block in certificate_blocks(content)],
    }


def certificate_texts(content: Content) -> tuple[str, ...]:
    """Every text of the certificate in reading order, without a page number: what is read aloud of it."""
    title = content.plan.release.title or content.plan.release.name
    return (phrase(KIND), printable(title), *texts_of(certificate_blocks(content)))


def _moment(text: str) -> datetime:
    """The time of the charge; the beginning of 1970 where the facts name none, as those of examples do."""
    moment = moment_of(text)
    if moment is None:
        return _EPOCH
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
