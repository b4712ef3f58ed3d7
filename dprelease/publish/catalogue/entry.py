"""What all catalogues are told of a release alike: from the plan and the ledger's facts, never from a clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta

from dprelease.plan.document import CatalogueEntry, ReleasePlan
from dprelease.plan.explain.facts import unprotected
from dprelease.publish.base import NOTICE, Facts, with_period
from dprelease.publish.html_text import moment_of
from dprelease.spec.fields.published.catalogued import LICENCES
from dprelease.spec.period import span
from dprelease.words import phrase

__all__ = ["Told", "description_of", "told_of"]


@dataclass(frozen=True)
class Told:
    """A release as a catalogue lists it; empty texts where nothing is known.

    Attributes:
        title: With the notice of a rehearsal.
        description: What it is, in a few sentences.
        publisher: The office.
        contact: Where readers may ask.
        licence: Its address.
        licence_name: Its SPDX identifier, of those that are known by one.
        identifier: That the author gave.
        keywords: In the author's order.
        spatial: In words, or an address.
        start: The first day that the data are about, as ``YYYY-MM-DD``.
        end: The last day.
        issued: The day of publication: what the author wrote, else the day on which it was charged, in UTC.
        next: When the next publication is due.
        version: What the author wrote, else 1 and one more for each publication that it replaces.
        citation: What the author wrote, else made of the others.
        said: Whether the author said anything for catalogues.
        themes: Codes of the European data themes.
        frequency: How often the product is published, as a spec writes it.
        publisher_type: What kind of body publishes it, as a spec writes it.
    """

    title: str
    description: str
    publisher: str
    contact: str
    licence: str
    licence_name: str
    identifier: str
    keywords: tuple[str, ...]
    spatial: str
    start: str
    end: str
    issued: str
    next: str
    version: str
    citation: str
    said: bool
    themes: tuple[str, ...]
    frequency: str
    publisher_type: str

    @property
    def email(self) -> str:
        """The contact, where it is the address of a mailbox."""
        plain = self.contact.count("@") == 1 and not any(sign.isspace() or sign in '<>",;:' for sign in self.contact)
        return self.contact if plain and all(self.contact.split("@")) else ""

    @property
    def interval(self) -> str:
        """The days that the data are about as ISO 8601 writes an interval; empty: they are not known."""
        return f"{self.start}/{self.end}" if self.start else ""


def told_of(plan: ReleasePlan, facts: Facts) -> Told:
    """What catalogues are told of a release.

    Args:
        plan: As it is shown.
        facts: Of the ledger: when it was charged.
    """
    release, entry = plan.release, plan.release.entry or CatalogueEntry()
    title = release.title or release.name
    days = (entry.start, entry.end) if entry.start else _days(release.period)
    issued = entry.published or _day(facts.reserved_at)
    revised = f".{release.revision}" if release.revision else ""
    version = entry.version or f"{1 + release.restatement}{revised}"
    return Told(
        title=f"{phrase(NOTICE)}: {title}" if facts.rehearsal else title,
        description=description_of(plan, facts),
        publisher=release.curator,
        contact=release.contact,
        licence=entry.licence,
        licence_name=next((name for name, address in LICENCES.items() if address == entry.licence), ""),
        identifier=entry.identifier,
        keywords=entry.keywords,
        spatial=entry.spatial,
        start=days[0],
        end=days[1],
        issued=issued,
        next=release.next,
        version=version,
        citation=entry.citation or _citation(release.curator, issued, title, release.period, version, entry.identifier),
        said=release.entry is not None,
        themes=entry.themes,
        frequency=entry.frequency,
        publisher_type=entry.publisher_type,
    )


def description_of(plan: ReleasePlan, facts: Facts) -> str:
    """What a release is, for whoever meets it in a catalogue; in the language that is spoken."""
    notice = f"{phrase(NOTICE)}. " if facts.rehearsal else ""
    use, exact = plan.release.intended_use, unprotected(plan)
    told = (
        phrase(
            "Statistics of period {period} with differential privacy: random noise was added to every number but exact "
            "totals before it was published. Beside each number stand its standard error, its margin and its interval.",
            period=plan.release.period,
        )
        if exact
        else phrase(
            "Statistics of period {period} with differential privacy: random noise was added to every number before it "
            "was published. Beside each number stand its standard error, its margin and its interval.",
            period=plan.release.period,
        )
    )
    return f"{notice}{told}{f' {exact}' if exact else ''}{phrase(' Made for: {use}.', use=use) if use else ''}"


def _days(period: str) -> tuple[str, str]:
    found = span(period)
    return ("", "") if found is None else (found[0].isoformat(), (found[1] - timedelta(days=1)).isoformat())


def _day(text: str) -> str:
    """The day in UTC of a moment as the ledger writes it; empty where it is none."""
    moment = moment_of(text)
    return moment.astimezone(UTC).date().isoformat() if moment and moment.tzinfo else ""


def _citation(publisher: str, issued: str, title: str, period: str, version: str, identifier: str) -> str:
    """Who, when, what, which version, and where it is found.

    >>> _citation("Office", "2024-04-05", "Income", "2024-03", "1", "https://doi.org/10.1234/x")
    'Office (2024). Income, 2024-03. Version 1. https://doi.org/10.1234/x'
    """
    year = f" ({issued[:4]})" if issued else ""
    who = f"{publisher}{year}. " if publisher else f"{year.strip()}. " if year else ""
    what = with_period(title, period)
    return f"{who}{what}. {phrase('Version {version}.', version=version)}{f' {identifier}' if identifier else ''}"
