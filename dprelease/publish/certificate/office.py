"""What the office states of a release, and the lines on which people sign.

Everything here is in the office's words, from ``office:`` of the specification. What it did not say is a line to write
on; nothing is inferred, for who curates data need not be their controller, and silence is no legal basis. The version
alone is counted where the office does not: which publication of a period this is follows from the plan.
"""

from __future__ import annotations

from collections.abc import Iterator

from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import Facts
from dprelease.publish.catalogue.entry import told_of
from dprelease.publish.certificate.blocks import BLANK, Block, BlockColumn, BlockHeading, BlockText, CertificateTable
from dprelease.publish.html_text import utc
from dprelease.spec.fields.published.office import Office
from dprelease.words import phrase

__all__ = ["BLANK_LINES", "identified", "office_statements", "sign_off"]

BLANK_LINES = 3  # to sign on, where the specification names nobody
_NOTHING = Office()


def _office(plan: ReleasePlan) -> Office:
    return plan.office or _NOTHING


def _signed() -> tuple[BlockColumn, ...]:
    heads = (phrase("Role"), phrase("Name"), phrase("Date"), phrase("Signature"))
    return tuple(BlockColumn(head, width) for head, width in zip(heads, (3, 3, 2, 4), strict=True))


def identified(plan: ReleasePlan, facts: Facts) -> tuple[tuple[str, str], ...]:
    """What tells a publication from others: its version, and two statements that are the office's alone.

    An office counts its publications as it likes. Where it does not, the version is what catalogues, pages and the
    workbook are told: which publication of this period it is.
    """
    office = _office(plan)
    return (
        (phrase("Version"), office.version or told_of(plan, facts).version),
        (phrase("Where errors are told, and corrections appear"), office.corrections or BLANK),
        (phrase("Clearance number"), office.clearance or BLANK),
    )


def sign_off(plan: ReleasePlan, facts: Facts) -> Iterator[Block]:
    """The block to sign, and the approvals that the ledger has."""
    yield BlockHeading(phrase("Sign-off"))
    yield BlockText(
        phrase("Not valid unless signed by everybody who is named here, by hand or by a signature of this file.")
    )
    named = tuple((each.role, each.name or BLANK, each.date or BLANK, BLANK) for each in _office(plan).signatories)
    yield CertificateTable(
        phrase("To be signed"), _signed(), named or ((BLANK, BLANK, BLANK, BLANK),) * BLANK_LINES, tall=True
    )
    if not facts.approvals:
        yield BlockText(phrase("Approvals of the plan: no approval of the plan was recorded."), "small")
        return
    heads = (
        BlockColumn(phrase("Name")),
        BlockColumn(phrase("Role")),
        BlockColumn(phrase("Signed the plan")),
        BlockColumn(phrase("Key"), 2, "exact"),
    )
    rows = tuple((each.name, each.role, utc(each.at), each.key) for each in facts.approvals)
    yield CertificateTable(phrase("Approvals of the plan, as the ledger has them"), heads, rows)


def office_statements(plan: ReleasePlan) -> Iterator[Block]:
    """What the office answers for, in its own words."""
    office = _office(plan)
    yield BlockHeading(phrase("What the office states"))
    rows = (
        (phrase("Controller, in the sense of the law"), office.controller),
        (phrase("Region, law and sector"), office.jurisdiction),
        (phrase("Legal basis"), office.legal_basis),
        (phrase("Advice of the data protection officer"), office.officer_advice),
        (phrase("Retention of the data"), office.retention),
        (phrase("Why this budget"), office.why_this_budget),
    )
    yield CertificateTable(
        phrase("In its own words; an empty line was left out, and may be filled in by whoever signs"),
        (BlockColumn(phrase("What")), BlockColumn(phrase("Statement"), 3)),
        rows,
    )
