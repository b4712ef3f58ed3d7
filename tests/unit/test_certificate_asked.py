"""Which plans have a certificate, and what an office states of a release in it."""

from __future__ import annotations

import pytest

from dprelease.errors import SpecError
from dprelease.formats import CERTIFICATE, USUAL
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.presentation import presentation, presented
from dprelease.spec.load import load
from tests.planned import SPEC, plan_of


def test_every_plan_has_a_certificate_unless_it_is_switched_off() -> None:
    """In a spec, as it is written; and what the office states reaches the plan, and is not written where it is not said."""
    plain_plan, off, office = (
        plan_of(SPEC + more)
        for more in (
            "",
            "publish: {formats: [csv], certificate: false}\n",
            "publish: {formats: [csv]}\noffice: {legal_basis: a law, signatories: [{role: owner}], "
            "alternatives: [{budget: half, accuracy: less}]}\n",
        )
    )
    assert plain_plan.publish.formats == (*USUAL, CERTIFICATE)
    assert off.publish.formats == ("csv",)
    assert office.publish.formats == ("csv", CERTIFICATE)
    assert office.office is not None
    assert (office.office.legal_basis, office.office.signatories[0].role) == ("a law", "owner")
    assert ReleasePlan.from_canonical(office.canonical()) == office
    assert '"office"' not in plain_plan.canonical()
    with pytest.raises(SpecError, match="DPR-S717"):
        load(SPEC + "publish: {formats: [csv, pdf], certificate: false}\n", "spec.yaml")


def test_what_the_office_states_may_come_after_the_measurement() -> None:
    before = plan_of(SPEC)
    after = plan_of(SPEC + "office: {officer_advice: no objection}\n")
    look = presentation(before, after)
    shown = presented(before, look)
    assert shown.office is not None
    assert shown.office.officer_advice == "no objection"
    assert '"office"' not in presentation(before, before).canonical()
