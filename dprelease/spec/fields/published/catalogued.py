"""What the author writes for catalogues, under ``release:``; empty where nothing is said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from dprelease.canonical import GrownValue
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.scalars import AsWritten, Filled, day, kind_of, refuse

__all__ = ["ENTRY", "LICENCES", "CataloguedSpec", "TemporalSpec", "check_catalogued", "is_address"]

# Licences of data by their SPDX identifiers (spdx.org/licenses), with the addresses that catalogues know them by.
LICENCES: Mapping[str, str] = {
    "CC0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "CC-BY-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "CC-BY-SA-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "CC-BY-NC-4.0": "https://creativecommons.org/licenses/by-nc/4.0/",
    "DL-DE-BY-2.0": "https://www.govdata.de/dl-de/by-2-0",
    "DL-DE-ZERO-2.0": "https://www.govdata.de/dl-de/zero-2-0",
    "etalab-2.0": "https://www.etalab.gouv.fr/licence-ouverte-open-licence",
    "ODbL-1.0": "https://opendatacommons.org/licenses/odbl/1-0/",
    "ODC-By-1.0": "https://opendatacommons.org/licenses/by/1-0/",
    "OGL-UK-3.0": "https://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/",
    "PDDL-1.0": "https://opendatacommons.org/licenses/pddl/1-0/",
}
# What a release is about, how often it comes and who publishes it, in words of codes that catalogues have lists of
# (publications.europa.eu/resource/authority: data-theme, frequency; purl.org/adms/publishertype).
Theme = Literal[
    "AGRI", "ECON", "EDUC", "ENER", "ENVI", "GOVE", "HEAL", "INTR", "JUST", "REGI", "SOCI", "TECH", "TRAN"
]  # fmt: skip
Frequency = Literal[
    "daily", "weekly", "monthly", "quarterly", "twice_a_year", "yearly", "every_two_years", "every_three_years",
    "every_five_years", "every_ten_years", "irregular", "once",
]  # fmt: skip
PublisherType = Literal[
    "national_authority", "regional_authority", "local_authority", "supranational_authority", "research", "company",
    "industry_consortium", "non_governmental", "non_profit", "standards_body", "private",
]  # fmt: skip
_DOI = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:)?(10\.[0-9]{4,9}/[^\s\"<>{}|\\^`]+)", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s/?#\"<>{}|\\^`]+(?:[/?#][^\s\"<>{}|\\^`]*)?", re.IGNORECASE)
_LONGEST = 300


def is_address(text: str) -> bool:
    """Whether it is an address of the web that can stand in a file of linked data as it is.

    >>> is_address("https://example.org/a"), is_address("javascript:1"), is_address("https://a b"), is_address("http://")
    (True, False, False, False)
    """
    return text.isprintable() and _ADDRESS.fullmatch(text) is not None


def _licence(text: str) -> str:
    known = {name.lower(): address for name, address in LICENCES.items()}
    if text.lower() in known:
        return known[text.lower()]
    if not is_address(text):
        hint = f"write the address of the licence, https://..., or one of {', '.join(LICENCES)}"
        near = did_you_mean(text, LICENCES)
        says = f"is {shown(text)!r}, no licence that is known here"
        raise refuse("DPR-S490", says, f"{near} or {hint}" if near else hint)
    return text


def _identifier(text: str) -> str:
    found = _DOI.fullmatch(text)
    if found:
        return f"https://doi.org/{found[1]}"
    if len(text) > _LONGEST or not text.isprintable() or re.search(r"\s", text):
        hint = 'write a DOI such as "10.5281/zenodo.1234", an address, or a text without spaces of at most 300 signs'
        raise refuse("DPR-S491", f"is {shown(text)!r}, no identifier", hint)
    return text


def _keywords(words: tuple[str, ...]) -> tuple[str, ...]:
    for number, word in enumerate(words):
        if word in words[:number]:
            raise refuse("DPR-S492", f"repeats {shown(word)!r}", "list every keyword once")
    return words


def _date(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, str) or day(value) is None:
        raise refuse("DPR-S493", f"is {kind_of(value)}, not a day", "write a day such as 2024-03-07")
    return value


Licence = Annotated[Filled, AfterValidator(_licence)]
Identifier = Annotated[Filled, AfterValidator(_identifier)]
Keywords = Annotated[tuple[Filled, ...], AfterValidator(_keywords)]
Themes = Annotated[tuple[Theme, ...], AfterValidator(_keywords)]
Day = Annotated[str, BeforeValidator(_date), WithJsonSchema({"type": "string", "format": "date"})]


class TemporalSpec(SpecValue):
    """The days that the data are about, both among them."""

    first: Day = Field(alias="from", description="The first day, such as 2024-01-01.")
    last: Day = Field(alias="to", description="The last day.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.last < self.first:
            raise refuse("DPR-S494", f"ends on {self.last}, before it begins on {self.first}", "swap the two days")
        return self


class CataloguedSpec(SpecValue, GrownValue):
    """What catalogues ask for, and pages show; nothing of it changes what is measured."""

    LATER: ClassVar[tuple[str, ...]] = (
        "licence",
        "citation",
        "identifier",
        "keywords",
        "spatial",
        "temporal",
        "published",
        "version",
        "themes",
        "frequency",
        "publisher_type",
    )
    licence: Licence | None = Field(
        None, description="What the data may be used for: an address, or an SPDX identifier such as CC-BY-4.0."
    )
    citation: Filled | None = Field(
        None, description="How to cite it; left out: curator (year). title, period. Version. identifier."
    )
    identifier: Identifier | None = Field(None, description="A DOI, another persistent address, or a text.")
    keywords: Keywords = Field((), description="Words that somebody looks for it by.")
    spatial: Filled | None = Field(
        None, description="The place that the data are about, in words or as the address of an entry of a code list."
    )
    temporal: TemporalSpec | None = Field(
        None, description="The days that the data are about; left out: those of the period, where it has such."
    )
    published: Day | None = Field(None, description="The day of publication; left out: the day of the charge.")
    version: AsWritten | None = Field(
        None, description="Of this publication; left out: 1, and one more for each that replaces it."
    )
    themes: Themes = Field(
        (), description="What it is about, by the codes of the European data themes: SOCI is population and society."
    )
    frequency: Frequency | None = Field(None, description="How often the product is published.")
    publisher_type: PublisherType | None = Field(None, description="What kind of body the curator is.")


ENTRY = CataloguedSpec.LATER


def check_catalogued(release: CataloguedSpec, following: str | None, *, scheduled: bool, findings: Findings) -> None:
    """Refuse days that are those of one publication where a schedule makes many, and days in the wrong order.

    Args:
        release: What is released.
        following: The day of the next publication, as it is written; a word where the schedule says it.
        scheduled: Whether the spec has a schedule.
        findings: Takes what is wrong.
    """
    fixed = following if following is not None and day(following) is not None else None
    of_one = {"published": release.published, "next": fixed, "version": release.version}
    for name, said in of_one.items() if scheduled else ():
        if said is not None:
            says = "is of one publication, and the schedule makes one of every period"
            findings.add("DPR-S495", ("release", name), says, "leave it out: each publication has its own")
    if release.published and fixed and fixed <= release.published:
        says = f"is {fixed}, not after the publication on {release.published}"
        findings.add("DPR-S496", ("release", "next"), says, "write a later day", ("release", "published"))
