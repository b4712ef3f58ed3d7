"""``office:`` of a spec: what the office that releases states of it, beside what follows from spec, plan and ledger.

None of it changes what is measured. It stands in the certificate in the office's own words; what is left out is a line
to write on there, and nothing is put in its place.
"""

from __future__ import annotations

from pydantic import Field

from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.scalars import Filled, Text

__all__ = ["Alternative", "Office", "Signatory"]


class Alternative(SpecValue):
    """Another budget, or another way, that the office looked at and did not take."""

    budget: Filled = Field(description="In words: epsilon 0.5 at delta 1e-9.")
    accuracy: Filled = Field(description="What its numbers would have been like: margins of states about 90 persons.")
    why_not: Text = Field("", description="Why it was not taken.")


class Signatory(SpecValue):
    """Somebody who signs the certificate."""

    role: Filled = Field(description="As printed: data owner, disclosure review board.")
    name: Text = Field("", description="Left out: a line to write on.")
    date: Text = Field("", description="When it was signed, where it was; left out: a line to write on.")


class Office(SpecValue):
    """What an office states of a release; each that is left out is a blank of the certificate."""

    controller: Text = Field("", description="The controller in the sense of the law.")
    jurisdiction: Text = Field("", description="Region, law and sector.")
    legal_basis: Text = Field("", description="By which law the data are processed and published.")
    officer_advice: Text = Field("", description="What the data protection officer advised, and when.")
    retention: Text = Field("", description="How long the confidential data are kept, and what happens then.")
    why_this_budget: Text = Field("", description="Who chose epsilon and delta, and why these.")
    alternatives: tuple[Alternative, ...] = Field((), description="What else was considered.")
    version: Text = Field(
        "", description="Of this publication, as the office counts; left out: as catalogues are told."
    )
    corrections: Text = Field("", description="Where errors are told, and where corrections appear.")
    clearance: Text = Field("", description="Clearance number of whoever lets the release out.")
    signatories: tuple[Signatory, ...] = Field((), description="Who signs, in the order of their lines.")
