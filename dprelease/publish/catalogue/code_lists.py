"""Entries of the code lists that data catalogues know: their addresses, types and names.

Themes, languages, frequencies: https://op.europa.eu/en/web/eu-vocabularies. Kinds of licences and publishers: the Asset
Description Metadata Schema, https://www.w3.org/TR/vocab-adms/ (the lists that DCAT-AP 3 names for them).
"""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.spec.fields.published.catalogued import LICENCES

__all__ = ["AUTHORITY", "FREQUENCIES", "LANGUAGE_CODES", "PUBLISHER_TYPES", "THEMES", "licence_type", "type_name"]

AUTHORITY = "http://publications.europa.eu/resource/authority/"
LANGUAGE_CODES = {"en": "ENG", "de": "DEU", "fr": "FRA"}
THEMES = {
    "AGRI": "Agriculture, fisheries, forestry and food",
    "ECON": "Economy and finance",
    "EDUC": "Education, culture and sport",
    "ENER": "Energy",
    "ENVI": "Environment",
    "GOVE": "Government and public sector",
    "HEAL": "Health",
    "INTR": "International issues",
    "JUST": "Justice, legal system and public safety",
    "REGI": "Regions and cities",
    "SOCI": "Population and society",
    "TECH": "Science and technology",
    "TRAN": "Transport",
}
FREQUENCIES = {
    "daily": "DAILY",
    "weekly": "WEEKLY",
    "monthly": "MONTHLY",
    "quarterly": "QUARTERLY",
    "twice_a_year": "ANNUAL_2",
    "yearly": "ANNUAL",
    "every_two_years": "BIENNIAL",
    "every_three_years": "TRIENNIAL",
    "every_five_years": "QUINQUENNIAL",
    "every_ten_years": "DECENNIAL",
    "irregular": "IRREG",
    "once": "NEVER",
}
_ADMS = "http://purl.org/adms/"
PUBLISHER_TYPES = {
    "national_authority": f"{_ADMS}publishertype/NationalAuthority",
    "regional_authority": f"{_ADMS}publishertype/RegionalAuthority",
    "local_authority": f"{_ADMS}publishertype/LocalAuthority",
    "supranational_authority": f"{_ADMS}publishertype/SupraNationalAuthority",
    "research": f"{_ADMS}publishertype/Academia-ScientificOrganisation",
    "company": f"{_ADMS}publishertype/Company",
    "industry_consortium": f"{_ADMS}publishertype/IndustryConsortium",
    "non_governmental": f"{_ADMS}publishertype/NonGovernmentalOrganisation",
    "non_profit": f"{_ADMS}publishertype/NonProfitOrganisation",
    "standards_body": f"{_ADMS}publishertype/StandardisationBody",
    "private": f"{_ADMS}publishertype/PrivateIndividual(s)",
}
# What the licences that are known by a name ask for; of another one nothing is known, and nothing is said.
_LICENCE_TYPES: Mapping[str, str] = {
    "CC0-1.0": "PublicDomain",
    "CC-BY-4.0": "Attribution",
    "CC-BY-SA-4.0": "ViralEffect-ShareAlike",
    "CC-BY-NC-4.0": "NonCommercialUseOnly",
    "DL-DE-BY-2.0": "Attribution",
    "DL-DE-ZERO-2.0": "PublicDomain",
    "etalab-2.0": "Attribution",
    "ODbL-1.0": "ViralEffect-ShareAlike",
    "ODC-By-1.0": "Attribution",
    "OGL-UK-3.0": "Attribution",
    "PDDL-1.0": "PublicDomain",
}


def licence_type(address: str) -> str:
    """The address of the kind of a licence; empty where it is none that is known by a name.

    >>> licence_type("https://creativecommons.org/licenses/by/4.0/")
    'http://purl.org/adms/licencetype/Attribution'
    """
    known = {LICENCES[name]: kind for name, kind in _LICENCE_TYPES.items()}
    return f"{_ADMS}licencetype/{known[address]}" if address in known else ""


def type_name(address: str) -> str:
    """The name of an entry of these lists, in English.

    >>> type_name("http://purl.org/adms/publishertype/NationalAuthority")
    'National Authority'
    """
    words = "".join(f" {sign}" if sign.isupper() else sign for sign in address.rpartition("/")[2])
    return words.strip().replace("- ", ", ")
