"""Lists of public codes that a first spec can name: facts, each with where it is from and since when it holds."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from dprelease.errors import Problem, SpecError
from dprelease.spec.text.names import did_you_mean

__all__ = ["CODE_LISTS", "CodeList", "code_list"]


@dataclass(frozen=True)
class CodeList:
    """A CSV with the columns ``code`` and ``name``; codes are texts, so that 06 stays 06.

    Attributes:
        name: How it is called: ``us-states`` in ``--keys state=@us-states``.
        title: What it lists, by which edition.
        source: Who keeps it.
        as_of: The day on which it was written down; its user compares it with the edition that the data have.
        note: What is free to use of it, and what is not in it.
    """

    name: str
    title: str
    source: str
    as_of: str
    note: str

    @property
    def content(self) -> bytes:
        """The file, UTF-8."""
        return (files("dprelease.starter") / "lists" / f"{self.name}.csv").read_bytes()

    @property
    def comment(self) -> str:
        """Title, source and date in one line."""
        return f"{self.title}; {self.source}; written down {self.as_of}"


_FACTS = "codes and short names are facts and free to use"
_ISO = "ISO 3166 Maintenance Agency, iso.org"
_COUNTRIES = f"{_FACTS}; as in the package iso3166 3.0 (MIT), without XK, which ISO has not assigned"
_CENSUS = "US Census Bureau, ANSI codes (formerly FIPS 5-2), census.gov"
_TERRITORIES = "a work of the US government, public domain; 50 states, the District of Columbia and 5 territories"
_LISTS = (
    CodeList("iso-countries-alpha2", "ISO 3166-1 countries, two letters", _ISO, "2026-11-23", _COUNTRIES),
    CodeList("iso-countries-alpha3", "ISO 3166-1 countries, three letters", _ISO, "2026-11-23", _COUNTRIES),
    CodeList("us-states", "US states, two digits", _CENSUS, "2026-11-23", _TERRITORIES),
    CodeList("us-states-postal", "US states, two letters", _CENSUS, "2026-11-23", _TERRITORIES),
    CodeList(
        "nace-rev2-sections",
        "NACE Rev. 2 sections (Rev. 2.1, from 2025 on, has others)",
        "Eurostat, Regulation (EC) No 1893/2006",
        "2026-11-23",
        "reuse of the European Union's documents is authorised with the source named",
    ),
    CodeList(
        "isco-major-groups", "ISCO-08 major groups", "International Labour Organization, ilo.org", "2026-11-23", _FACTS
    ),
)
CODE_LISTS = {each.name: each for each in _LISTS}


def code_list(name: str) -> CodeList:
    """The list of a name.

    Raises:
        SpecError: If there is none (DPR-S905).
    """
    if name not in CODE_LISTS:
        hint = did_you_mean(name, CODE_LISTS)
        raise SpecError([Problem("DPR-S905", f"there is no list of codes {name!r}", hint)])
    return CODE_LISTS[name]
