"""The feed of new publications: Atom (RFC 4287), one entry for each, the newest first. Pure; the ledger's times.

An entry that replaces another one is a new entry, with the reason at its beginning. Identifiers are made of the hash
of the ledger's entry, so that the same publication is the same entry in every feed, wherever the folder lies.
Addresses are relative, and resolved against that of the feed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5
from xml.sax.saxutils import escape, quoteattr

from dprelease.publish.base import Facts, with_period
from dprelease.publish.catalogue.entry import Told
from dprelease.publish.html_text import moment_of, visible
from dprelease.words import phrase, spoken

__all__ = ["FEED_FILE", "Entry", "feed"]

FEED_FILE = "feed.xml"
_MOST = 100  # entries: readers of feeds come back before there are so many new ones
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Entry:
    """A publication as the feed lists it.

    Attributes:
        told: What catalogues are told of it.
        facts: What the ledger said.
        name: Of the release.
        period: Of the release.
        href: The address of its front page, from the feed.
        package: That of its Data Package, and its size; None: it has none.
    """

    told: Told
    facts: Facts
    name: str
    period: str
    href: str
    package: tuple[str, int] | None = None


def feed(entries: Iterable[Entry], title: str, about: str, name: str = FEED_FILE, page: str = "index.html") -> bytes:
    """A feed, in the language that is spoken.

    Args:
        entries: In any order; those of which no time is known are left out.
        title: Of the feed.
        about: What the feed is of, in the ledger of its first entry: a name that stays the same.
        name: Of its file.
        page: Of the page beside it.
    """
    known = [each for each in entries if _moment(each.facts) is not None]
    newest = sorted(known, key=lambda each: (-each.facts.ledger_sequence, each.name, each.period))
    ledger = newest[-1].facts.ledger_id if newest else ""
    publisher = next((each.told.publisher for each in newest if each.told.publisher), title)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="{spoken().tag}">',
        f"<id>{_identity('feed', ledger, about, *((name,) if name != FEED_FILE else ()))}</id>",
        f"<title>{_text(title)}</title>",
        f"<updated>{_time(max((_moment(each.facts) or _NEVER for each in newest), default=_NEVER))}</updated>",
        f"<author><name>{_text(publisher)}</name></author>",
        f'<link rel="self" type="application/atom+xml" href="{name}"/>',
        f'<link rel="alternate" type="text/html" href="{page}"/>',
        *(line for each in newest[:_MOST] for line in _entry(each)),
        "</feed>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _entry(each: Entry) -> list[str]:
    facts, told = each.facts, each.told
    moment = _time(_moment(facts) or _NEVER)
    reason = "" if facts.restates is None else phrase("Correction: {reason}.", reason=facts.restates.reason) + " "
    version = phrase("Version {version}.", version=told.version)
    title = with_period(told.title, each.period)
    return [
        "<entry>",
        f"<id>{_identity('entry', facts.ledger_id, facts.ledger_hash)}</id>",
        f"<title>{_text(title)}</title>",
        f"<published>{moment}</published>",
        f"<updated>{moment}</updated>",
        *([f"<author><name>{_text(told.publisher)}</name></author>"] if told.publisher else []),
        *(f"<category term={quoteattr(word)}/>" for word in dict.fromkeys((each.name, *map(visible, told.keywords)))),
        f'<link rel="alternate" type="text/html" href={quoteattr(quote(each.href))}/>',
        *_enclosure(each),
        f"<summary>{_text(f'{reason}{version} {told.description}')}</summary>",
        "</entry>",
    ]


def _enclosure(each: Entry) -> list[str]:
    if each.package is None:
        return []
    path, size = each.package
    return [f'<link rel="enclosure" type="application/json" length="{size}" href={quoteattr(quote(path))}/>']


def _identity(*parts: str) -> str:
    return uuid5(NAMESPACE_URL, "dprelease:" + "/".join(parts)).urn


def _moment(facts: Facts) -> datetime | None:
    found = moment_of(facts.reserved_at)
    return found.astimezone(UTC) if found and found.tzinfo else None


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(text: str) -> str:
    return escape(visible(text))
