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

__all__ = ["CERTIFICATE_FILE", "certificate_data", "certificate_files", "certificate_texts"]

CERTIFICATE_FILE = "certificate.pdf"
KIND = "Certificate of privacy accounting"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def certificate_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``certificate.pdf`` of a release.

    Args:
        content: What is released.
        files: The files made so far; none of them is needed.

    Raises:
        MissingExtra: As of :func:`compiler.compiled`.
        BrokenPromiseError: Likewise.
    """
    del files
    return {CERTIFICATE_FILE: compiled(certificate_data(content), _moment(content.facts.reserved_at))}


def certificate_data(content: Content) -> dict[str, Any]:
    """Every word of the certificate, and its date, as the template reads them."""
    release, moment = content.plan.release, _moment(content.facts.reserved_at)
    title = release.title or release.name
    return {
        "title": printable(f"{KIND}: {title}, {release.period}"),
        "author": printable(release.curator),
        "subject": printable(
            f"What the release {release.name}, period {release.period}, cost in privacy, and how it was done"
        ),
        "date": [moment.year, moment.month, moment.day],
        "running": printable(f"{release.name}, {release.period} · ledger entry {content.facts.ledger_sequence}"),
        "top": {"kind": in_lines(" · ".join(filter(None, (KIND, release.curator)))), "title": in_lines(title)},
        "blocks": [block.as_data() for block in certificate_blocks(content)],
    }


def certificate_texts(content: Content) -> tuple[str, ...]:
    """Every text of the certificate in reading order, without a page number: what is read aloud of it."""
    title = content.plan.release.title or content.plan.release.name
    return (KIND, printable(title), *texts_of(certificate_blocks(content)))


def _moment(text: str) -> datetime:
    """The time of the charge; the beginning of 1970 where the facts name none, as those of examples do."""
    moment = moment_of(text)
    if moment is None:
        return _EPOCH
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
