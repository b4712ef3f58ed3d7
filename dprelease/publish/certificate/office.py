"""What the office states of a release, and the lines on which people sign.

Everything here is in the office's words, from ``office:`` of the specification. What it did not say is a line to write
on; nothing is inferred, for who curates data need not be their controller, and silence is no legal basis.
"""

from __future__ import annotations

from collections.abc import Iterator

from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import Facts
from dprelease.publish.certificate.blocks import BLANK, Block, BlockColumn, BlockHeading, BlockText, CertificateTable
from dprelease.publish.html_text import utc
from dprelease.spec.fields.published.office import Office

__all__ = ["BLANK_LINES", "office_statements", "sign_off", "unsaid"]

BLANK_LINES = 3  # to sign on, where the specification names nobody
_NOTHING = Office()
_SIGNED = (BlockColumn("Role", 3), BlockColumn("Name", 3), BlockColumn("Date", 2), BlockColumn("Signature", 4))
_STATED = (BlockColumn("What"), BlockColumn("Statement", 3))


def _office(plan: ReleasePlan) -> Office:
    return plan.office or _NOTHING


def unsaid(plan: ReleasePlan) -> tuple[tuple[str, str], ...]:
    """What identifies a release, and is the office's to say."""
    office = _office(plan)
    return (
        ("Version", office.version or BLANK),
        ("Where errors are told, and corrections appear", office.corrections or BLANK),
        ("Clearance number", office.clearance or BLANK),
    )


def sign_off(plan: ReleasePlan, facts: Facts) -> Iterator[Block]:
    """The block to sign, and the approvals that the ledger has."""
    yield BlockHeading("Sign-off")
    yield BlockText("Not valid unless signed by everybody who is named here, by hand or by a signature of this file.")
    named = tuple((each.role, each.name or BLANK, each.date or BLANK, BLANK) for each in _office(plan).signatories)
    yield CertificateTable("To be signed", _SIGNED, named or ((BLANK, BLANK, BLANK, BLANK),) * BLANK_LINES, tall=True)
    if not facts.approvals:
        yield BlockText("Approvals of the plan: no approval of the plan was recorded.", "small")
        return
    heads = (BlockColumn("Name"), BlockColumn("Role"), BlockColumn("Signed the plan"), BlockColumn("Key", 2, "exact"))
    rows = tuple((each.name, each.role, utc(each.at), each.key) for each in facts.approvals)
    yield CertificateTable("Approvals of the plan, as the ledger has them", heads, rows)


def office_statements(plan: ReleasePlan) -> Iterator[Block]:
    """What the office answers for, in its own words."""
    office = _office(plan)
    yield BlockHeading("What the office states")
    rows = (
        ("Controller, in the sense of the law", office.controller),
        ("Region, law and sector", office.jurisdiction),
        ("Legal basis", office.legal_basis),
        ("Advice of the data protection officer", office.officer_advice),
        ("Retention of the data", office.retention),
        ("Why this budget", office.why_this_budget),
    )
    yield CertificateTable(
        "In its own words; an empty line was left out, and may be filled in by whoever signs", _STATED, rows
    )
