"""``certificate.pdf``: the accounting on a few pages, to be signed, filed and read without a computer.

The order is that of the certificates of disclosure avoidance of the 2020 Census: what was released and who answers for
it, the framework and the total, the allocation, the meaning of the loss, the draws, and what surrounds them.

The file is tagged (PDF/UA-1) and made without network or clock: the same content gives the same bytes, on any day
and in any folder. They do depend on the version of WeasyPrint and on **the fonts of the machine**: none is shipped
here, the style sheet names generic families alone, and the system's choice for them is embedded, with the glyphs that
are used. Between two machines the text is the same, and the bytes need not be.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from threading import Lock
from types import ModuleType
from typing import Any

from dprelease.errors import MissingExtra
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.publish.accounting.choices import draw_row
from dprelease.publish.accounting.glossary import said_everywhere
from dprelease.publish.accounting.guarantee import loss_row, loss_totals
from dprelease.publish.accounting.levels import NONE, AttributeChange, attribute_changes, levels
from dprelease.publish.accounting.report import account_row, told_of_plan
from dprelease.publish.accounting.threat_model import release_identity
from dprelease.publish.base import Content, Facts
from dprelease.publish.html_text import moment_of, render_page, utc
from dprelease.publish.numbers import at_most, percent

__all__ = ["certificate_files", "certificate_html", "require_weasyprint"]

CERTIFICATE_FILE = "certificate.pdf"
MOST_STEPS = 40
MOST_ALLOCATED = 120
MOST_CHANGES = 30
_LONGEST = 48  # signs of an exact rational
_DIGITS = 9  # of a rational in the place of one that is longer

# What an office states of a release, and nobody asks its author for: lines to write on.
BLANKS = (
    "Controller, in the sense of the law",
    "Region, law and sector",
    "Clearance number",
    "Name and role",
    "Date",
    "Signature",
)
_ENVIRONMENT = Lock()


def certificate_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``certificate.pdf`` of a release.

    Args:
        content: What is released.
        files: The files made so far; none of them is needed.

    Raises:
        MissingExtra: As of :func:`require_weasyprint`.
    """
    del files
    weasyprint = require_weasyprint()
    source, facts = certificate_html(content).decode(), content.facts
    nothing = weasyprint.urls.URLFetcher(allowed_protocols=())  # the page holds all that it shows
    identifier = bytes.fromhex(facts.plan_fingerprint)[:16]
    with _dated(_moment(facts.reserved_at)):
        document = weasyprint.HTML(string=source, base_url=None, url_fetcher=nothing)
        written = document.write_pdf(pdf_variant="pdf/ua-1", pdf_identifier=identifier)
    return {CERTIFICATE_FILE: written}


def require_weasyprint() -> ModuleType:
    """WeasyPrint; asked for before any budget is spent, so that a release does not lack its certificate afterwards.

    Raises:
        MissingExtra: If it, or a library of the system that it needs, is not there (DPR-X103, DPR-X104).
    """
    try:
        with warnings.catch_warnings():  # it warns of libraries that it can do without
            warnings.simplefilter("ignore")
            import weasyprint
            from weasyprint.urls import URLFetcher  # noqa: F401 - older versions have none
    except ImportError:
        raise MissingExtra(
            "certificate.pdf needs WeasyPrint 70 or later, which is not installed",
            hint='pip install "dprelease[pdf]", or leave `pdf` out of `publish: formats`',
            code="DPR-X103",
        ) from None
    except OSError:
        raise MissingExtra(
            "WeasyPrint is installed, but not the system's library Pango, which it needs for certificate.pdf",
            hint="install it (Debian: apt install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0; macOS: brew "
            "install pango), or leave `pdf` out of `publish: formats`",
            code="DPR-X104",
        ) from None
    found: ModuleType = weasyprint
    return found


@contextmanager
def _dated(moment: datetime | None) -> Iterator[None]:
    """The time of the charge as the time of whoever asks for one while a file is written (reproducible-builds.org).

    It is a variable of the whole process; one thread at a time holds it, and it is put back.
    """
    name = "SOURCE_DATE_EPOCH"
    with _ENVIRONMENT:
        before = os.environ.get(name)
        os.environ[name] = str(0 if moment is None else int(moment.timestamp()))
        try:
            yield
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


def _moment(text: str) -> datetime | None:
    moment = moment_of(text)
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def certificate_html(content: Content) -> bytes:
    """The page that the certificate is made of; the same bytes for the same content."""
    plan, facts = content.plan, content.facts
    words = ACCOUNTANTS[plan.certified].words
    moment = _moment(facts.reserved_at)
    total = _total(plan)
    return render_page(
        "certificate.html.j2",
        **said_everywhere(content),
        **told_of_plan(plan),
        created="" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        identity=_identity(plan, facts),
        blanks=BLANKS,
        framework=words.framework,
        theorem=words.theorem,
        total=total,
        cut=any(figure.startswith("≤") for _, figure, _ in total),
        **_allocation(plan),
        **_changes(plan),
        steps=[draw_row(step) for step in plan.steps[:MOST_STEPS]],
        references=sorted(plan.catalog.references.items()),
        accounts=[account_row(plan, each) for each in (*facts.accounts, *facts.windows)],
        environment=sorted(facts.environment.items()),
    )


def _identity(plan: ReleasePlan, facts: Facts) -> list[tuple[str, str]]:
    """Who and what; the signatories have a place of their own."""
    found = [each for each in release_identity(plan, facts) if each[0] != "Signatories"]
    paid = f"; paid by entry {facts.paid_by}" if facts.paid_by else ""
    return [*found, ("Charged", f"{utc(facts.reserved_at)}, ledger entry {facts.ledger_sequence}{paid}")]


def _total(plan: ReleasePlan) -> list[tuple[str, str, str]]:
    """What, as a rational, and rounded up."""
    found, budget = loss_totals(plan), plan.budget
    rows = [
        ("ε, certified loss of this release", Fraction(found["epsilon"])),
        ("δ, certified with it", Fraction(found["delta"])),
        ("ρ, sum over the draws", Fraction(found["rho"])),
    ]
    asked = (("ε", budget.epsilon), ("ρ", budget.rho), ("δ", budget.delta))
    rows += [(f"{sign} of the budget, as asked for", value) for sign, value in asked if value is not None]
    return [(what, rational_text(value), at_most(value, 6)) for what, value in rows]


def rational_text(value: Fraction) -> str:
    """The exact rational; where it is too long to read, the next one above with nine digits, marked.

    >>> rational_text(Fraction(293764, 114921)), rational_text(Fraction(10**60 + 1, 3 * 10**60))
    ('293764/114921', '≤ 166666667/500000000')
    """
    text = str(value)
    if len(text) <= _LONGEST:
        return text
    unit = Fraction(1)
    while value / unit < 10 ** (_DIGITS - 1):
        unit /= 10
    while value / unit >= 10**_DIGITS:
        unit *= 10
    return f"≤ {-(-value // unit) * unit}"


def _part(value: Fraction) -> tuple[str, str]:
    """A share as an exact rational, which is empty where it is too long, and in percent."""
    text = str(value)
    return (text if len(text) <= _LONGEST else "", f"{percent(value)} %")


def _allocation(plan: ReleasePlan) -> dict[str, Any]:
    every = levels(plan)
    left, shown = MOST_ALLOCATED, []
    for level in every:
        rows = level.queries[: max(0, left)]
        left -= len(rows)
        if rows:
            shown.append(replace(level, queries=rows))
    count = sum(len(level.queries) for level in every)
    return {
        "levels": shown,
        "most_levels": [(level.name, *_part(level.share), len(level.queries)) for level in every[:MOST_ALLOCATED]],
        "queries": count,
        "queries_shown": min(count, MOST_ALLOCATED),
        "with_levels": any(level.name != NONE for level in every),
        "own_deltas": any(each.reveals for level in every for each in level.queries),
        "part": _part,
        "at_most": at_most,
    }


def _changes(plan: ReleasePlan) -> dict[str, Any]:
    found = attribute_changes(plan)
    return {
        "changes": [_changed(each) for each in found[:MOST_CHANGES]],
        "changes_in_all": len(found),
        "within": any(each.within is not None for each in found[:MOST_CHANGES]),
        "spoken_by": plan.certified if plan.accounting != "auto" else "",
    }


def _changed(each: AttributeChange) -> dict[str, str]:
    table, column = each.attribute
    return {
        "what": f"{column} of {table}" if each.within is None else f"{column} of {table}, within one {each.within}",
        "draws": f"{each.draws:,}",
        **loss_row(each.loss),
    }
